//! What a manager is doing, as lines for whoever watches it start and work.

use std::thread;
use std::time::{Duration, Instant};

use headgate_manager::api::{Handle, Request};
use headgate_manager::status::{NfState, NfStatus, Snapshot};

use crate::failure::Failure;
use crate::output::harmless;
use crate::stop::Stop;
use crate::units;

/// Time between two looks at NFs that start. Our choice: they take a millisecond or two.
const START_LOOK: Duration = Duration::from_millis(1);
/// How long to wait for NFs before going on without saying they are ready. Our choice: longer than
/// the manager itself gives an NF to become ready.
const START_PATIENCE: Duration = Duration::from_secs(10);

/// Everything at this moment, no accounts taken.
pub fn look(handle: &Handle) -> Result<Snapshot, Failure> {
    Ok(handle.get(Request::Snapshot { audit: false })?)
}

/// Waits until every NF is ready or has failed once, or the process is asked to end.
pub fn settled(handle: &Handle, stop: &Stop) -> Result<Snapshot, Failure> {
    let began = Instant::now();
    let is_settled =
        |nf: &NfStatus| matches!(nf.state, NfState::Running | NfState::Awaited) || nf.failures > 0;
    loop {
        let now = look(handle)?;
        if now.nfs.iter().all(is_settled) || began.elapsed() > START_PATIENCE || stop.is_asked() {
            return Ok(now);
        }
        thread::sleep(START_LOOK);
    }
}

/// What was started, a line each.
pub fn started(now: &Snapshot) -> Vec<String> {
    let mut lines = Vec::new();
    for region in &now.memory {
        lines.push(format!(
            "domain {}: {} buffers of {} B, {} on {}",
            region.domain,
            units::whole(region.buffers.into()),
            region.stride_bytes,
            units::bytes(region.bytes),
            region.pages
        ));
    }
    for port in &now.ports {
        let detail = if port.detail.is_empty() { String::new() } else { format!(" {}", port.detail) };
        lines.push(format!("port {}: {}{detail}", port.name, port.kind));
    }
    let troubles: String = now.scheduler.troubles.iter().map(|why| format!(": {why}")).collect();
    lines.push(format!("scheduler {}{troubles}", now.scheduler.mode));
    for nf in &now.nfs {
        let is = match (nf.start_ns, &nf.last_failure) {
            (Some(ns), _) => format!("ready after {}", units::time(ns)),
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

/// How its NFs are, in a line.
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

/// The names of the instances in such a state.
fn instances(now: &Snapshot, is_such: impl Fn(NfState) -> bool) -> Vec<&str> {
    now.nfs.iter().filter(|nf| is_such(nf.state)).map(|nf| nf.instance.as_str()).collect()
}

/// Which events were told already.
#[derive(Debug, Default)]
pub struct Events {
    told_until_ns: Option<u64>,
}

impl Events {
    /// Those that are in `now` need not be told.
    pub fn seen(&mut self, now: &Snapshot) {
        self.told_until_ns = now.events.last().map(|event| event.at_ns).or(self.told_until_ns);
    }

    /// Those that were not told yet, as lines.
    pub fn unseen(&mut self, now: &Snapshot) -> Vec<String> {
        let is_new = |at_ns: u64| self.told_until_ns.is_none_or(|until| at_ns > until);
        let new = now.events.iter().filter(|event| is_new(event.at_ns));
        let lines = new
            .map(|event| {
                let at = event.at_ns as f64 / 1e9;
                harmless(&format!("{at:.3} s: {}: {}", event.who, event.what))
            })
            .collect();
        self.seen(now);
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use headgate_manager::status::{Event, SchedulerStatus};

    fn with_events(times: &[u64]) -> Snapshot {
        let event = |&at_ns: &u64| Event { at_ns, who: "fw".into(), what: "ready\x07".into() };
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
            troubles: vec!["not here".into()],
            reserved: None,
            ..SchedulerStatus::default()
        };
        let now = Snapshot { nfs, scheduler, ..Snapshot::default() };
        assert_eq!(
            started(&now),
            [
                "scheduler weights: not here",
                "nf a (firewall) on core 0, policy batch: ready after 1.40 ms",
                "nf b (firewall) on core 0: failed: exited with code 1",
                "nf c (firewall) on core 0: still starting",
            ]
        );
        assert_eq!(readiness(&now), "running, but not ready: b, c");
    }
}
