//! Limits of TCP through the chain, found in the figures of the run itself.
//!
//! Three things can: the number of frames (a frame of 64 KiB between kernels costs little more than one of
//! 1500 bytes), CPU, or waiting. The first is seen by comparing with kernels that must cut segments too, the
//! second and third in whether cores were idle.

/// Stations of the path and the names of their results, in the order of the path.
pub const STATIONS: [(&str, &str); 8] = [
    ("arrive", "arrive_ns"),
    ("classify", "classify_ns"),
    ("admit", "admit_ns"),
    ("deliver", "deliver_ns"),
    ("hop", "hop_ns"),
    ("commit", "commit_ns"),
    ("emit", "emit_ns"),
    ("tend", "tend_ns"),
];

/// A core is free when this part of one was idle. Our choice: below it are the margins of a sampled clock
/// that counts in 10 ms.
const FREE_CORES: f64 = 0.1;

/// Sentences; `of` gives the median of a result by its name.
pub fn limits(of: impl Fn(&str) -> Option<f64>) -> Vec<String> {
    [frames(&of), segments(&of), cores(&of), worker(&of), stations(&of), lost(&of)]
        .into_iter()
        .flatten()
        .collect()
}

fn frames(of: &impl Fn(&str) -> Option<f64>) -> Option<String> {
    let (ours, theirs) = (of("headgate_frame_bytes")?, of("routing_frame_bytes")?);
    Some(format!(
        "frames: NFs get one segment a frame ({ours:.0} bytes from the client on average, {:.0} frames/s \
         both ways), kernels pass on {theirs:.0} bytes as one: {:.0} times as many frames for the same bytes",
        of("headgate_frames")?,
        theirs / ours
    ))
}

fn segments(of: &impl Fn(&str) -> Option<f64>) -> Option<String> {
    let (ours, routing, cut) = (of("headgate")?, of("routing")?, of("routing_no_offload")?);
    Some(format!(
        "kernel routing is {:.2} times as fast as Headgate: a factor of {:.2} is what it loses itself when it \
         must cut segments, {:.2} is the chain (routing without offloads over Headgate)",
        routing / ours,
        routing / cut,
        cut / ours
    ))
}

fn cores(of: &impl Fn(&str) -> Option<f64>) -> Option<String> {
    let idle = of("headgate_idle")?;
    let [user, system, nfs] = ["headgate_cpu_user", "headgate_cpu_system", "headgate_cpu_nfs"].map(of);
    let iperf = of("headgate_cpu_client")? + of("headgate_cpu_server")?;
    let verdict = if idle < FREE_CORES { "no core was free: CPU is the limit" } else { "cores were free" };
    let mut said = format!(
        "CPU: {verdict} ({idle:.2} cores idle; manager {:.2} in its own code and {:.2} in the kernel, NFs \
         {:.2}, iperf3 {iperf:.2}, kernel threads and other programs {:.2})",
        user?,
        system?,
        nfs?,
        of("headgate_cpu_rest")?
    );
    if idle >= FREE_CORES {
        said +=
            "; what remains is waiting: wake-ups, the time slices of those that share a core, TCP's window";
    }
    Some(said)
}

fn worker(of: &impl Fn(&str) -> Option<f64>) -> Option<String> {
    let (user, system) = (of("headgate_cpu_user")?, of("headgate_cpu_system")?);
    let busy = of("headgate_busy_passes")?;
    Some(format!(
        "the worker moved packets in {:.0} % of its passes; {:.0} % of the manager's CPU time is the kernel's: \
         sending for it, and receiving for the host behind the cable in the same call",
        busy * 100.0,
        system / (user + system).max(f64::MIN_POSITIVE) * 100.0
    ))
}

fn stations(of: &impl Fn(&str) -> Option<f64>) -> Option<String> {
    let [arrive, classify, admit, deliver, hop, commit, emit, tend] = STATIONS.map(|(_, name)| of(name));
    let port = arrive? + emit? + tend?;
    let chain = classify? + admit? + deliver? + hop? + commit?;
    Some(format!(
        "of {:.0} ns of the worker for each frame, {port:.0} are the port's (arrive, emit, tend: copies from \
         and to the socket's rings, the call that sends, and polling in vain), {chain:.0} the chain's",
        port + chain
    ))
}

fn lost(of: &impl Fn(&str) -> Option<f64>) -> Option<String> {
    let (resent, lost) = (of("headgate_resent")?, of("headgate_lost")?);
    (resent + lost > 0.0).then(|| {
        format!(
            "losses: {lost:.0} packets ended in the chain or at its ports in a transfer, TCP sent {resent:.0} \
             segments again; each makes it slow down"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_measured_is_said_and_nothing_else() {
        assert!(limits(|_| None).is_empty());
        let all = limits(|name| match name {
            "headgate" => Some(1e9),
            "routing" => Some(12e9),
            "routing_no_offload" => Some(3e9),
            "headgate_idle" => Some(0.02),
            "headgate_resent" | "headgate_lost" => Some(0.0),
            "headgate_frame_bytes" => Some(1500.0),
            "routing_frame_bytes" => Some(60_000.0),
            _ => Some(0.5),
        });
        let has = |words: &str| assert!(all.iter().any(|said| said.contains(words)), "{words}: {all:#?}");
        has("40 times as many frames");
        has("12.00 times as fast");
        has("a factor of 4.00");
        has("3.00 is the chain");
        has("CPU is the limit");
        has("in 50 % of its passes; 50 % of the manager's");
        assert_eq!(all.len(), 5, "without losses nothing is said of them: {all:#?}");
        let free = limits(|_| Some(0.5));
        assert!(free.iter().any(|said| said.contains("what remains is waiting")), "{free:#?}");
    }
}
