//! Lines about what a manager is doing, for people who watch it start, work and end.

use std::thread;
use std::time::{Duration, Instant};

use headgate_units::text::{self, harmless};

use crate::event::Event;
use crate::request::RequestError;
use crate::status::{NfState, NfStatus, PortStatus, Snapshot};

/// Time between two samples of NFs that start. Our choice: they take a millisecond or two.
const START_SAMPLE_EVERY: Duration = Duration::from_millis(1);
/// Longest wait for NFs before going on without saying they are ready. Our choice: longer than the manager
/// itself gives an NF to become ready.
const START_PATIENCE: Duration = Duration::from_secs(10);

/// Waits until every NF is ready or has failed once, or an end is requested. Returns the last snapshot
/// that `sample` took.
///
/// # Errors
/// Errors of `sample`.
pub fn settled(
    sample: impl Fn() -> Result<Snapshot, RequestError>,
    is_asked: impl Fn() -> bool,
) -> Result<Snapshot, RequestError> {
    let began = Instant::now();
    let is_settled =
        |nf: &NfStatus| matches!(nf.state, NfState::Running | NfState::Awaited) || nf.failures > 0;
    loop {
        let now = sample()?;
        if now.nfs.iter().all(is_settled) || began.elapsed() > START_PATIENCE || is_asked() {
            return Ok(now);
        }
        thread::sleep(START_SAMPLE_EVERY);
    }
}

/// Returns what was started, a line each.
#[must_use]
pub fn started(now: &Snapshot) -> Vec<String> {
    let mut lines = Vec::new();
    for region in &now.memory {
        lines.push(format!(
            "domain {}: {} buffers of {} B, {} on {}",
            region.domain,
            text::whole(region.buffers.into()),
            region.stride_bytes,
            text::bytes(region.bytes),
            region.pages
        ));
    }
    for port in &now.ports {
        let detail = if port.detail.is_empty() { String::new() } else { format!(" {}", port.detail) };
        lines.push(format!("port {}: {}{detail}", port.name, port.kind));
    }
    let limitations: String = now.scheduler.limitations.iter().map(|why| format!(": {why}")).collect();
    lines.push(format!("scheduler {}{limitations}", now.scheduler.mode));
    lines.extend(now.scheduler.taken.iter().map(|taken| taken.what.clone()));
    for nf in &now.nfs {
        let is = match (nf.start_ns, &nf.last_failure) {
            (Some(ns), _) => format!("ready after {}", text::time(ns)),
            (None, Some(why)) => format!("failed: {why}"),
            (None, None) if nf.state == NfState::Awaited => "awaited".to_owned(),
            (None, None) => "still starting".to_owned(),
        };
        let policy = if nf.policy.is_empty() { String::new() } else { format!(", policy {}", nf.policy) };
        lines.push(format!("nf {} ({}) on core {}{policy}: {is}", nf.instance, nf.runs, nf.core));
    }
    lines.extend(now.manager.nf_socket.iter().map(|path| format!("NFs attach at {path}")));
    lines.into_iter().map(|line| harmless(&line)).collect()
}

/// Returns how its NFs are, in a line.
#[must_use]
pub fn readiness(now: &Snapshot) -> String {
    let unready = instances(now, |state| !matches!(state, NfState::Running | NfState::Awaited));
    let awaited = instances(now, |state| state == NfState::Awaited);
    let count = now.nfs.len() - awaited.len();
    let is = match &unready[..] {
        [] if count == 1 => "1 NF ready".into(),
        [] => format!("{count} NFs ready"),
        _ => format!("running, but not ready: {}", unready.join(", ")),
    };
    if awaited.is_empty() { is } else { format!("{is}; awaited: {}", awaited.join(", ")) }
}

/// Returns the NFs that are not in service, a line each with the reason. Those that attach are not among
/// them.
#[must_use]
pub fn unready(now: &Snapshot) -> Vec<String> {
    let is_unready = |nf: &&NfStatus| !matches!(nf.state, NfState::Running | NfState::Awaited);
    let line = |nf: &NfStatus| {
        let why = nf.last_failure.as_deref().unwrap_or("it is still starting");
        harmless(&format!("nf {} is not ready: {why}", nf.instance))
    };
    now.nfs.iter().filter(is_unready).map(line).collect()
}

/// Returns the names of the instances in such a state.
fn instances(now: &Snapshot, is_such: impl Fn(NfState) -> bool) -> Vec<&str> {
    now.nfs.iter().filter(|nf| is_such(nf.state)).map(|nf| nf.instance.as_str()).collect()
}

/// Returns a line for each capture that could not be written: a failure, although every packet is accounted
/// for.
#[must_use]
pub fn unwritten(last: &Snapshot) -> Vec<String> {
    let failed = last.ports.iter().filter(|port| port.kind == "pcap" && port.failed > 0);
    let line = |port: &PortStatus| {
        let (name, count, detail) = (&port.name, text::whole(port.failed), &port.detail);
        harmless(&format!(
            "port {name}: {count} packets could not be written: {detail}; make room and run again"
        ))
    };
    failed.map(line).collect()
}

/// The events that were told already.
#[derive(Debug, Default)]
pub struct Events {
    told_until_ns: Option<u64>,
}

impl Events {
    /// Notes that those in `now` need not be told.
    pub fn seen(&mut self, now: &Snapshot) {
        self.told_until_ns = now.events.last().map(|event| event.at_ns).or(self.told_until_ns);
    }

    /// Returns those that were not told yet.
    pub fn new_in<'s>(&mut self, now: &'s Snapshot) -> Vec<&'s Event> {
        let is_new = |at_ns: u64| self.told_until_ns.is_none_or(|until| at_ns > until);
        let new = now.events.iter().filter(|event| is_new(event.at_ns)).collect();
        self.seen(now);
        new
    }

    /// Returns those that were not told yet, as lines.
    pub fn unseen(&mut self, now: &Snapshot) -> Vec<String> {
        self.new_in(now).into_iter().map(line).collect()
    }
}

/// Returns an event as a line, with the seconds since the manager started.
#[must_use]
pub fn line(event: &Event) -> String {
    harmless(&format!("{:.3} s: {}: {}", event.at_ns as f64 / 1e9, event.who, event.what))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::{EventCode, SchedulerStatus, TakenStatus};

    fn with_events(times: &[u64]) -> Snapshot {
        let event = |&at_ns: &u64| Event::new(at_ns, EventCode::NfReady, "fw", "ready\x07".into());
        Snapshot { events: times.iter().map(event).collect(), ..Snapshot::default() }
    }

    #[test]
    fn every_event_is_told_once() {
        let mut events = Events::default();
        assert_eq!(events.unseen(&with_events(&[])).len(), 0);
        assert_eq!(events.unseen(&with_events(&[1_000_000])), ["0.001 s: fw: ready\u{fffd}"]);
        assert_eq!(events.unseen(&with_events(&[1_000_000, 2_000_000, 3_000_000])).len(), 2);
        assert_eq!(events.unseen(&with_events(&[3_000_000])).len(), 0);
    }

    #[test]
    fn what_is_not_ready_is_said_with_its_reason() {
        let nf = |name: &str, state, start_ns, failure: Option<&str>| NfStatus {
            instance: name.into(),
            runs: "firewall".into(),
            state,
            start_ns,
            last_failure: failure.map(String::from),
            policy: if state == NfState::Running { "batch".into() } else { String::new() },
            ..NfStatus::default()
        };
        let nfs = vec![
            nf("a", NfState::Running, Some(1_400_000), None),
            nf("b", NfState::Waiting, None, Some("exited with code 1")),
            nf("c", NfState::Starting, None, None),
        ];
        let scheduler = SchedulerStatus {
            mode: "weights".into(),
            limitations: vec!["not here".into()],
            taken: vec![TakenStatus {
                what: "core 0: a worker polls there too".into(),
                ..TakenStatus::default()
            }],
            ..SchedulerStatus::default()
        };
        let now = Snapshot { nfs, scheduler, ..Snapshot::default() };
        assert_eq!(
            started(&now),
            [
                "scheduler weights: not here",
                "core 0: a worker polls there too",
                "nf a (firewall) on core 0, policy batch: ready after 1.40 ms",
                "nf b (firewall) on core 0: failed: exited with code 1",
                "nf c (firewall) on core 0: still starting",
            ]
        );
        assert_eq!(readiness(&now), "running, but not ready: b, c");
        assert_eq!(
            unready(&now),
            ["nf b is not ready: exited with code 1", "nf c is not ready: it is still starting"]
        );
    }

    #[test]
    fn a_capture_that_could_not_be_written_is_told() {
        let port = |kind: &str, failed| PortStatus { kind: kind.into(), failed, ..PortStatus::default() };
        let of = |port| unwritten(&Snapshot { ports: vec![port], ..Snapshot::default() }).len();
        assert_eq!([of(port("pcap", 0)), of(port("pcap", 3)), of(port("dpdk", 3))], [0, 1, 0]);
    }
}
