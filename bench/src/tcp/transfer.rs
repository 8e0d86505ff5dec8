//! A transfer by iperf3, and the machine's counters meanwhile.

use std::io::{self, Read};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use headgate_api::session::Session;
use headgate_api::status::Snapshot;
use headgate_host::Pid;
use headgate_host::accounting::{self, InterfaceCounters, MachineTime, ProcessTime};
use headgate_host::namespace::Endpoint;
use headgate_host::process;
use serde_json::Value as Json;

use super::beds::TestBed;
use super::echo::{Delays, Echo};

/// The program.
const IPERF: &str = "iperf3";
/// iperf3's own port.
const PORT: u16 = 5201;
/// Longest wait for the server to listen, and for the client beyond its own time. Our choice: a thousand
/// times what they take.
const PATIENCE: Duration = Duration::from_secs(5);
/// Time between two checks while waiting.
const POLL_EVERY: Duration = Duration::from_millis(2);
/// The machine is sampled so long after the measured time begins and before it ends, so that neither
/// the program's start nor its end is seen. Our choice: some slices of the scheduler.
const MARGIN: Duration = Duration::from_millis(100);

/// Error of a transfer.
#[derive(Debug, thiserror::Error)]
pub enum TransferError {
    /// There is no iperf3.
    #[error("iperf3 cannot be run: {0}; install it (Debian: apt install iperf3)")]
    NoProgram(io::Error),
    /// The program iperf3 failed.
    #[error("iperf3 {what}: {why}")]
    Failed {
        /// Action of the program.
        what: &'static str,
        /// Error output.
        why: String,
    },
}

/// Durations of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// Seconds that are not counted, in which windows grow.
    pub warm_up_s: u32,
    /// Seconds that are.
    pub window_s: u32,
    /// Core on which both ends run; without one the kernel moves them about.
    pub core: Option<u32>,
}

/// The state of things at one moment.
#[derive(Clone, Debug)]
pub struct TransferSample {
    /// Time of the reading.
    pub at: Instant,
    /// CPU time of all cores.
    pub machine: MachineTime,
    /// The process of the manager; no time where there is none.
    pub manager: ProcessTime,
    /// The iperf3 that sends.
    pub client: Duration,
    /// The iperf3 that receives.
    pub server: Duration,
    /// The client's interface.
    pub interface: InterfaceCounters,
    /// The manager, where there is one.
    pub snapshot: Option<Snapshot>,
}

/// Result of a transfer.
#[derive(Clone, Debug)]
pub struct Transfer {
    /// Payload that arrived, in bits per second.
    pub goodput: f64,
    /// Segments that TCP sent again.
    pub resent: f64,
    /// Early in the measured time.
    pub before: TransferSample,
    /// Late in it.
    pub after: TransferSample,
    /// Delays of datagrams beside it, there and back.
    pub delays: Delays,
}

/// Refuses at once where there is no iperf3.
///
/// # Errors
/// [`TransferError::NoProgram`].
pub fn find_program() -> Result<(), TransferError> {
    let mut command = Command::new(IPERF);
    command.arg("--version").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().map(|_| ()).map_err(TransferError::NoProgram)
}

/// Transfers from the client to the server, through a manager if there is one.
///
/// # Errors
/// [`TransferError`], or the error of a sample.
pub fn run(bed: &TestBed, times: Times, session: Option<&Session>) -> anyhow::Result<Transfer> {
    let to = bed.server.addresses[0].to_string();
    let server = serve(&bed.server, &to)?;
    let [warm_up, window] = [times.warm_up_s, times.window_s].map(|s| s.to_string());
    let mut words =
        vec!["-c", &to, "-O", &warm_up, "-t", &window, "-i", "0", "-J", "--connect-timeout", "2000"];
    let affinity = times.core.map(|core| format!("{core},{core}"));
    words.extend(affinity.iter().flat_map(|both| ["-A", both]));
    let client = Program::start(&bed.client, &words)?;
    let [warm_up, window] =
        [times.warm_up_s, times.window_s].map(|seconds| Duration::from_secs(seconds.into()));

    let sample = || -> anyhow::Result<TransferSample> {
        let Endpoint { namespace, interface, .. } = &bed.client;
        Ok(TransferSample {
            at: Instant::now(),
            machine: accounting::machine()?,
            manager: session.map_or(Ok(ProcessTime::default()), |it| accounting::process(it.pid()))?,
            client: client.cpu()?,
            server: server.cpu()?,
            interface: namespace.run(|| accounting::interface(interface))??,
            snapshot: session.map(|session| session.handle().sample()).transpose()?,
        })
    };
    let echo = Echo::start(&bed.client, &bed.server, warm_up + MARGIN)?;
    sleep(warm_up + MARGIN);
    let before = sample();
    sleep(window.saturating_sub(2 * MARGIN));
    // A client that has failed is gone, and its report says why; so that is read first.
    let after = sample();
    let delays = echo.stop();
    let report = client.report(PATIENCE)?;
    let (goodput, resent) = read(&report)?;
    Ok(Transfer { goodput, resent, before: before?, after: after?, delays })
}

/// Starts a server, and waits until it listens.
fn serve(host: &Endpoint, address: &str) -> anyhow::Result<Program> {
    let server = Program::start(host, &["-s", "-1", "-B", address])?;
    let waiting = Instant::now();
    while !host.namespace.has_tcp_listener(PORT)? {
        if waiting.elapsed() > PATIENCE {
            return Err(failed("does not listen", format!("not within {} s", PATIENCE.as_secs())).into());
        }
        sleep(POLL_EVERY);
    }
    Ok(server)
}

/// A running iperf3. Dropping it kills it.
struct Program(Child);

impl Program {
    fn start(host: &Endpoint, words: &[&str]) -> anyhow::Result<Self> {
        let mut command = host.namespace.command(IPERF)?;
        command.args(words).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        Ok(Self(command.spawn().map_err(TransferError::NoProgram)?))
    }

    fn cpu(&self) -> anyhow::Result<Duration> {
        let pid = Pid::from_raw(self.0.id() as i32).expect("a child has a process id");
        Ok(Duration::from_nanos(process::cpu_time_ns(pid)?))
    }

    /// Returns the program's report, once it has ended.
    fn report(mut self, patience: Duration) -> Result<Json, TransferError> {
        let broken = |error: io::Error| failed("cannot be waited for", error.to_string());
        let waiting = Instant::now();
        // Its report is some kilobytes, which a pipe holds.
        while self.0.try_wait().map_err(broken)?.is_none() {
            if waiting.elapsed() > patience {
                return Err(failed("does not end", format!("{} s after its time", patience.as_secs())));
            }
            sleep(POLL_EVERY);
        }
        let mut text = String::new();
        if let Some(mut stdout) = self.0.stdout.take() {
            stdout.read_to_string(&mut text).map_err(broken)?;
        }
        serde_json::from_str(&text).map_err(|error| failed("wrote no report", error.to_string()))
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // It may have ended already, which is as good.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn failed(what: &'static str, why: String) -> TransferError {
    TransferError::Failed { what, why }
}

/// Bits per second that arrived, and segments sent again.
fn read(report: &Json) -> Result<(f64, f64), TransferError> {
    if let Some(error) = report["error"].as_str() {
        return Err(failed("gave up", error.to_owned()));
    }
    let end = &report["end"];
    let goodput = end["sum_received"]["bits_per_second"].as_f64();
    let resent = end["sum_sent"]["retransmits"].as_f64().unwrap_or(0.0);
    let nothing = || failed("wrote a report without a result", "is its version 3.9 or later?".to_owned());
    Ok((goodput.ok_or_else(nothing)?, resent))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn reports_are_read_and_failures_told() {
        let report = json!({ "end": {
            "sum_sent": { "retransmits": 3 },
            "sum_received": { "bits_per_second": 1.5e9 },
        }});
        assert_eq!(read(&report).unwrap(), (1.5e9, 3.0));
        let refused = read(&json!({ "error": "unable to connect" })).unwrap_err();
        assert_eq!(refused.to_string(), "iperf3 gave up: unable to connect");
        assert!(read(&json!({})).is_err());
    }
}
