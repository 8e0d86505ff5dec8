//! Summary at the end of the demo, and its verdict.

use std::time::Duration;

use headgate_api::status::Snapshot;
use headgate_units::text as units;
use serde::Serialize;

use super::scene::VICTIM;
use super::traffic::Transfer;
use crate::error::Exit;
use crate::output::{Ink, Paint};
use crate::view;

/// The NF that was killed.
#[derive(Clone, Debug, Serialize)]
pub struct Killed {
    /// Name of the NF.
    pub nf: &'static str,
    /// Time until it was in service again, in nanoseconds; `None` if it never was.
    pub back_after_ns: Option<u64>,
    /// Packets that left their chain in that time.
    pub passed_meanwhile: u64,
}

impl Killed {
    /// Makes the record of an NF that is back.
    pub fn back(before: &Snapshot, now: &Snapshot, after: Duration) -> Self {
        let left = |snapshot: &Snapshot| snapshot.chains.iter().map(|chain| chain.left).sum::<u64>();
        Self {
            nf: VICTIM,
            back_after_ns: Some(after.as_nanos() as u64),
            passed_meanwhile: left(now).saturating_sub(left(before)),
        }
    }

    /// Makes the record of an NF that is not back.
    pub fn not_back() -> Self {
        Self { nf: VICTIM, back_after_ns: None, passed_meanwhile: 0 }
    }
}

/// What was seen while the demo ran.
#[derive(Clone, Debug, Default)]
pub struct Watched {
    /// NF that was killed, if any.
    pub killed: Option<Killed>,
    /// Largest part of a second in which others are known to have had the NFs' core.
    pub held_by_others: f64,
    /// Every second of it.
    pub seconds: Vec<Second>,
}

/// A second of the demo.
#[derive(Clone, Debug, Default)]
pub struct Second {
    /// Its end, in seconds since the manager started.
    pub at: f64,
    /// Packets a second that left each chain.
    pub chains: Vec<(String, f64)>,
    /// Part of a core that each NF had, in percent.
    pub nfs: Vec<(String, f64)>,
}

/// Something that should hold.
#[derive(Clone, Debug, Serialize)]
pub struct Check {
    /// Condition, in a sentence.
    pub what: String,
    /// Whether it does.
    pub holds: bool,
}

/// Everything.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// Whether there were hosts, or a capture.
    pub hosts: bool,
    /// Whether it was stopped early.
    pub interrupted: bool,
    /// Transfers of the hosts.
    pub transfers: Vec<Transfer>,
    /// NF that was killed, if any.
    pub killed: Option<Killed>,
    /// Largest part of a second in which others are known to have had the NFs' core.
    pub held_by_others: f64,
    /// Conditions that should hold.
    pub checks: Vec<Check>,
    /// The manager's last words.
    pub manager: Snapshot,
    /// Every second of it, for the report.
    #[serde(skip)]
    pub seconds: Vec<Second>,
}

impl Summary {
    /// Sums up.
    pub fn new(
        hosts: bool,
        transfers: Vec<Transfer>,
        watched: Watched,
        interrupted: bool,
        manager: Snapshot,
    ) -> Self {
        let Watched { killed, held_by_others, seconds } = watched;
        let checks = Vec::new();
        let mut summary =
            Self { hosts, interrupted, transfers, killed, held_by_others, checks, manager, seconds };
        summary.checks = summary.judge();
        summary
    }

    /// Checks what was done; parts that there was no time for are left out.
    fn judge(&self) -> Vec<Check> {
        let check = |what: String, holds| Check { what, holds };
        let mut checks = Vec::new();
        for transfer in self.transfers.iter().filter(|transfer| !transfer.interrupted) {
            let what = format!("{} got through the chain", transfer.what);
            checks.push(check(what, transfer.failure.is_none() && transfer.bytes > 0));
            if let Some(intact) = transfer.intact {
                checks.push(check(format!("{}: every byte is as it was sent", transfer.what), intact));
            }
        }
        if let Some(killed) = &self.killed {
            checks.push(check(
                format!("{VICTIM} was killed and is back, and packets went on meanwhile"),
                killed.back_after_ns.is_some() && killed.passed_meanwhile > 0,
            ));
        } else if !self.interrupted {
            checks.push(check(format!("{VICTIM} was killed"), false));
        }
        checks.push(check(
            "every packet that entered a chain left it or was dropped for a reason".into(),
            self.manager.conserved == Some(true),
        ));
        let is_back = |memory: &headgate_api::status::MemoryStatus| {
            let (free, in_devices) = (memory.free.unwrap_or(0), memory.in_devices.unwrap_or(0));
            memory.missing == Some(0) && free + in_devices == u64::from(memory.buffers)
        };
        checks.push(check("every packet buffer is back".into(), self.manager.memory.iter().all(is_back)));
        checks
    }

    /// The exit code.
    pub fn verdict(&self) -> Exit {
        if self.checks.iter().all(|check| check.holds) { Exit::Ok } else { Exit::CheckNotMet }
    }

    /// Returns the summary as text.
    pub fn render(&self, paint: Paint) -> String {
        let mut text = format!("\n{}\n\n", paint.ink(Ink::Bold, "What happened"));
        for transfer in &self.transfers {
            text += &format!("{}\n", paint.wrap(&transfer.sentence(), 2));
        }
        if let Some(killed) = &self.killed {
            let back = killed.back_after_ns.map_or("never".into(), |ns| format!("after {}", units::time(ns)));
            let line = format!(
                "{VICTIM} killed (kill -9): back {back}; {} packets got through meanwhile",
                units::whole(killed.passed_meanwhile)
            );
            text += &format!("{}\n", paint.wrap(&line, 2));
        }
        if !self.transfers.is_empty() || self.killed.is_some() {
            text.push('\n');
        }
        text += &view::totals(&self.manager, paint);
        let latencies = view::latencies(&self.manager, paint);
        if !latencies.is_empty() {
            text += &format!("\n{latencies}");
        }
        text.push('\n');
        for check in &self.checks {
            let (word, ink) = if check.holds { ("ok  ", Ink::Green) } else { ("FAIL", Ink::Red) };
            let line = paint.wrap(&format!("{word}  {}", check.what), word.len() + 2);
            text += &format!("{}{}\n", paint.ink(ink, word), &line[word.len()..]);
        }
        if self.held_by_others >= view::HELD_BY_OTHERS_MIN {
            let why = format!(
                "Other programs, or the hypervisor, had the NFs' core for {} of a second or more. These figures are \
                 of what was left; run the demo again when the machine is idle.",
                units::percent(self.held_by_others)
            );
            text += &format!("\n{}\n", paint.wrap(&why, 0));
        }
        text + &next_steps(paint)
    }
}

/// Returns what to do next, for somebody who has seen enough of a demo.
fn next_steps(paint: Paint) -> String {
    let commands = [
        ("headgate doctor", "what this machine has, and what it lacks"),
        ("headgate demo --config > first.toml", "this demo as a file, for you to change"),
        ("headgate check first.toml", "what is wrong with it, or what it will do"),
    ];
    let mut text = format!("\n{}\n\n", paint.ink(Ink::Bold, "Next"));
    for (command, what) in commands {
        text += &format!("  {command:<37}{what}\n");
    }
    text + "\nThe guide is docs/guide/configuration.md; docs/guide/examples has more files.\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use headgate_api::status::{DropStatus, LatencyStatus, MemoryStatus, NfStatus, PortStatus};

    fn last(missing: i64) -> Snapshot {
        let memory = MemoryStatus {
            buffers: 100,
            free: Some(90),
            in_devices: Some((10 - missing) as u64),
            missing: Some(missing),
            ..MemoryStatus::default()
        };
        Snapshot { conserved: Some(missing == 0), memory: vec![memory], ..Snapshot::default() }
    }

    fn transfer(bytes: u64, intact: bool) -> Transfer {
        Transfer {
            what: "a download".into(),
            bytes,
            seconds: 1.0,
            intact: Some(intact),
            ..Transfer::default()
        }
    }

    fn killed() -> Killed {
        Killed { nf: VICTIM, back_after_ns: Some(3_000_000), passed_meanwhile: 600 }
    }

    fn seen(killed: Option<Killed>) -> Watched {
        Watched { killed, ..Watched::default() }
    }

    #[test]
    fn all_well_is_ok() {
        let summary = Summary::new(true, vec![transfer(10, true)], seen(Some(killed())), false, last(0));
        assert_eq!(summary.verdict(), Exit::Ok);
        let text = summary.render(Paint::default());
        assert!(
            text.contains("monitor killed (kill -9): back after 3.00 ms; 600 packets got through meanwhile")
        );
        assert!(text.contains("ok    every packet buffer is back\n"), "{text}");
    }

    /// What a newcomer reads at the end, at the width of any terminal.
    #[test]
    fn the_summary_fits_into_80_columns() {
        let mut last = last(0);
        last.at_ns = 16_100_000_000;
        let drop = |chain: &str, reason: &str, count, sentence: &str| DropStatus {
            chain: chain.into(),
            reason: reason.into(),
            sentence: sentence.into(),
            count,
        };
        let shed = "an NF of its chain is overloaded: shed at the head, before any work";
        last.drops = vec![
            drop("background", "nf-verdict", 149_698, "an NF decided to drop it"),
            drop("background", "throttled", 118_063, shed),
        ];
        let failure = "killed by SIGKILL; 489 packets ended with it".to_owned();
        last.nfs = vec![NfStatus {
            instance: VICTIM.into(),
            returned: 2_314_427,
            cpu_ns: 1_600_000_000,
            failures: 1,
            last_failure: Some(failure),
            ..NfStatus::default()
        }];
        let latency = LatencyStatus { count: 138_940, p50_ns: 10_100_000, ..LatencyStatus::default() };
        last.ports =
            vec![PortStatus { name: "sink".into(), latency: Some(latency), ..PortStatus::default() }];
        let transfer = Transfer {
            what: "curl from python3's web server (HTTP)".into(),
            way: "right to left".into(),
            cut_short: true,
            ..transfer(5 << 20, true)
        };
        let text = Summary::new(
            true,
            vec![transfer],
            Watched { killed: Some(killed()), held_by_others: 0.37, ..Watched::default() },
            false,
            last,
        )
        .render(Paint::default().or_columns(80));
        let wide: Vec<&str> = text.lines().filter(|line| line.chars().count() > 80).collect();
        assert!(wide.is_empty(), "{wide:#?}");
        assert!(!text.contains("min"), "{text}");
        assert_eq!(text, include_str!("tests/summary.txt"), "{text}");
    }

    #[test]
    fn each_thing_that_fails_is_told() {
        let verdict =
            |transfers, killed, last| Summary::new(true, transfers, seen(killed), false, last).verdict();
        let fine = || vec![transfer(10, true)];
        assert_eq!(verdict(vec![transfer(10, false)], Some(killed()), last(0)), Exit::CheckNotMet);
        assert_eq!(verdict(vec![transfer(0, true)], Some(killed()), last(0)), Exit::CheckNotMet);
        assert_eq!(verdict(fine(), None, last(0)), Exit::CheckNotMet);
        assert_eq!(verdict(fine(), Some(Killed::not_back()), last(0)), Exit::CheckNotMet);
        assert_eq!(verdict(fine(), Some(killed()), last(3)), Exit::CheckNotMet);
    }

    #[test]
    fn what_was_interrupted_is_not_judged() {
        let begun = Transfer { interrupted: true, ..Transfer::default() };
        assert_eq!(Summary::new(true, vec![begun], seen(None), true, last(0)).verdict(), Exit::Ok);
    }
}
