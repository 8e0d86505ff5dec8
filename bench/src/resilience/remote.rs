//! How long traffic misses a node that dies, with its manager and all NFs, while another one stands by.
//!
//! The active node of a group is killed again and again, in turn `left` and `right`, and started again as
//! the standby. Packets come from a generator at the gate and leave into a capture there: it says how long
//! none left, and which are missing. When the gate noticed, when its decision was on disk and when the first
//! packet left again, its manager says.

use std::time::Duration;

use anyhow::Context as _;
use headgate_api::status::{EventCode, FailoverStatus, PortStatus, Snapshot};

use super::bench::{Bench, NOT_RECORDED, Outcome, insert_quantiles, progress, row};
use super::captured::{Captured, not_recorded};
use super::nodes::{BEGIN, Moment, Nodes, Pair, Plan, Traffic};
use crate::report::Section;
use crate::statistics::Round;

/// Packets per second that are offered. Our choice: one every 100 us, a tenth of what packet sockets carry.
const RATE: u32 = 10_000;
/// Time before a death in which nothing happens.
const SETTLE: Duration = Duration::from_millis(300);
/// Reasons of packets that are shed at the gate before their clock: no loss of a death, and counted apart.
const SHED: [&str; 4] = ["log-full", "uncommitted", "throttled", "stage-full"];

/// A phase of a failover: its name, and what it is.
struct Phase {
    median: &'static str,
    late: &'static str,
    note: &'static str,
    late_note: &'static str,
}

const PHASES: [Phase; 6] = [
    Phase {
        median: "remote.detect_ms",
        late: "remote.detect_ms_p99",
        note: "SIGKILL of the manager until BFD (10 ms x 3) has it down at the gate, median of a round",
        late_note: "99 of 100",
    },
    Phase {
        median: "remote.decide_ms",
        late: "remote.decide_ms_p99",
        note: "from then until the next view is on the gate's disk",
        late_note: "99 of 100",
    },
    Phase {
        median: "remote.promote_ms",
        late: "remote.promote_ms_p99",
        note: "from the standby's part in it until its last NF is ready; none where NFs do not start for it",
        late_note: "99 of 100",
    },
    Phase {
        median: "remote.first_output_ms",
        late: "remote.first_output_ms_p99",
        note: "from the detection to the first packet out: aim at most 5; REINFORCE 5.9 in the mean, 6.4 at most",
        late_note: "99 of 100",
    },
    Phase {
        median: "remote.caught_up_ms",
        late: "remote.caught_up_ms_p99",
        note: "from the detection until packets are not later than before",
        late_note: "99 of 100; aim at most 50",
    },
    Phase {
        median: "remote.gap_ms",
        late: "remote.gap_ms_p99",
        note: "no packet left, by the capture",
        late_note: "99 of 100; aim at most 90",
    },
];

/// A death and what was seen of it.
struct Death {
    at: Moment,
    failover: FailoverStatus,
    promoted_ns: Option<u64>,
}

impl Death {
    /// Returns when packets left again, by the clock of captures.
    fn again_ns(&self) -> u64 {
        let failover = &self.failover;
        let again = failover.at_ns + failover.resumed_ns.unwrap_or(0);
        self.at.wall_ns + again.saturating_sub(self.at.gate_ns)
    }
}

pub(crate) fn run(bench: &Bench) -> anyhow::Result<Outcome> {
    let deaths = if bench.quick { 6 } else { 20 };
    let (rounds, conserved) = bench.measure("remote", |round| one_round(bench, deaths, round))?;
    let mut rows = Vec::new();
    for phase in &PHASES {
        rows.extend(row(&rounds, phase.median, "ms", phase.note));
        rows.extend(row(&rounds, phase.late, "ms", phase.late_note));
    }
    let counts = [
        ("remote.deaths", "", "of active nodes in a round"),
        ("remote.lost", "packets", "neither left nor shed; aim: none"),
        ("remote.doubled_or_out_of_order", "packets", "aim: none"),
        ("remote.shed", "packets", "at the gate, before their clock"),
        ("remote.not_recorded", "packets", NOT_RECORDED),
    ];
    rows.extend(counts.into_iter().filter_map(|(name, unit, note)| row(&rounds, name, unit, note)));
    let section = Section { title: "remote", note: "", rows };
    Ok(Outcome { section, rounds, ratios: Vec::new(), conserved, notes: Vec::new() })
}

/// Kills the active node again and again. Returns whether nothing was lost.
fn one_round(bench: &Bench, deaths: usize, round: &mut Round) -> anyhow::Result<bool> {
    let traffic = Traffic::Captured { rate: RATE, flows: 32 };
    let mut nodes = Nodes::start(&Plan::new(bench.placement, traffic))?;
    nodes.await_that("traffic begins", |now| now.at_ns > BEGIN.as_nanos() as u64)?;
    let mut seen = Vec::new();
    for _ in 0..deaths {
        let (death, died) = one_death(&mut nodes)?;
        seen.push(death);
        nodes.up(died)?;
    }
    nodes.await_protected()?;
    std::thread::sleep(SETTLE);
    let now = nodes.sample("gate")?;
    let (gate, conserved) = nodes.stop()?;
    judge(&Captured::read(&nodes.capture())?, &seen, &now, round)?;
    let lost = round.get("remote.lost").copied().unwrap_or_default();
    tell_of_loss("remote", lost as u64, &gate);
    Ok(conserved && lost == 0.0)
}

/// Kills the active node. Returns how that was seen, and which one it was.
fn one_death(nodes: &mut Nodes) -> anyhow::Result<(Death, &'static str)> {
    nodes.await_protected()?;
    std::thread::sleep(SETTLE);
    let Pair { active, standby, view } = nodes.await_protected()?;
    let began = nodes.sample(standby)?.at_ns;
    let at = nodes.kill(active)?;
    let failover = nodes.await_failover(view)?;
    let promoted_ns = promoted_ns(&nodes.sample(standby)?, began);
    Ok((Death { at, failover, promoted_ns }, active))
}

/// Returns the time from a node's promotion until the last of its NFs was ready, by its events since then.
fn promoted_ns(now: &Snapshot, since_ns: u64) -> Option<u64> {
    let of = |codes: &[EventCode]| {
        let later = now.events.iter().filter(|event| event.at_ns >= since_ns);
        later.filter(|event| codes.contains(&event.code)).map(|event| event.at_ns).collect::<Vec<_>>()
    };
    let promoted = of(&[EventCode::GroupAlone, EventCode::GroupRole]).into_iter().min()?;
    let ready = of(&[EventCode::NfReady]).into_iter().max()?;
    ready.checked_sub(promoted)
}

fn judge(captured: &Captured, deaths: &[Death], now: &Snapshot, round: &mut Round) -> anyhow::Result<()> {
    let (shed, not_recorded) = (shed(now), not_recorded(now));
    for (phase, all_ns) in PHASES.iter().zip(phases(captured, deaths)?) {
        insert_quantiles(round, [phase.median, phase.late], all_ns, 1e6);
    }
    round.insert("remote.deaths", deaths.len() as f64);
    round.insert("remote.lost", captured.missing().saturating_sub(shed + not_recorded) as f64);
    round.insert("remote.doubled_or_out_of_order", captured.doubled() as f64);
    round.insert("remote.shed", shed as f64);
    round.insert("remote.not_recorded", not_recorded as f64);
    Ok(())
}

/// Returns the times of each of [`PHASES`], in nanoseconds.
fn phases(captured: &Captured, deaths: &[Death]) -> anyhow::Result<[Vec<u64>; 6]> {
    let gap = |death: &Death| {
        let gap = captured.longest_pause_ns(death.at.wall_ns, death.again_ns());
        gap.context("no packet left behind a death")
    };
    let gaps = deaths.iter().map(gap).collect::<anyhow::Result<Vec<u64>>>()?;
    let lost_at = |death: &Death| -> anyhow::Result<u64> {
        let failover = &death.failover;
        let decided = failover.decided_ns.context("the gate does not say when it noticed a death")?;
        Ok(failover.at_ns.saturating_sub(decided).saturating_sub(death.at.gate_ns))
    };
    let detected = deaths.iter().map(lost_at).collect::<anyhow::Result<Vec<u64>>>()?;
    let decided = deaths.iter().filter_map(|death| death.failover.decided_ns);
    let first =
        deaths.iter().filter_map(|death| Some(death.failover.decided_ns? + death.failover.resumed_ns?));
    let caught_up = deaths.iter().zip(&detected).filter_map(|(death, detected)| {
        let caught_up = captured.caught_up_ns(death.at.wall_ns, death.again_ns())?;
        Some(caught_up.saturating_sub(*detected))
    });
    let caught_up = caught_up.collect();
    let promoted = deaths.iter().filter_map(|death| death.promoted_ns).collect();
    Ok([detected, decided.collect(), promoted, first.collect(), caught_up, gaps])
}

/// Says how many packets were lost, if any were, and what the gate knows of it.
pub(crate) fn tell_of_loss(name: &str, lost: u64, gate: &Snapshot) {
    if lost > 0 {
        let drops = gate.drops.iter().map(|drop| format!(" {} {} {},", drop.chain, drop.reason, drop.count));
        let ports = gate.ports.iter().map(|port| {
            let PortStatus { name, received, sent, missed, failed, .. } = port;
            format!(" {name} received {received} sent {sent} missed {missed} failed {failed}")
        });
        progress(&format!(
            "{name}: {lost} packets are missing; at the gate:{}{}",
            drops.collect::<String>(),
            ports.collect::<String>()
        ));
    }
}

/// Returns the packets that were shed so far. While none is, all others of those up to the last one that left
/// have left or are lost.
pub(crate) fn shed(now: &Snapshot) -> u64 {
    let of_shed = now.drops.iter().filter(|drop| SHED.contains(&&*drop.reason));
    of_shed.map(|drop| drop.count).sum()
}

#[cfg(test)]
mod tests {
    use headgate_api::status::Event;

    use super::*;

    #[test]
    fn a_promotion_ends_with_the_last_nf() {
        let event = |at_ns, code| Event::new(at_ns, code, "nf", String::new());
        let events = vec![
            event(5, EventCode::NfReady),
            event(20, EventCode::GroupAlone),
            event(25, EventCode::NfReady),
            event(32, EventCode::NfReady),
        ];
        let mut now = Snapshot { events, ..Snapshot::default() };
        assert_eq!(promoted_ns(&now, 10), Some(12));
        assert_eq!(promoted_ns(&now, 40), None);
        now.events.truncate(2);
        assert_eq!(promoted_ns(&now, 10), None, "no NF started");
    }
}
