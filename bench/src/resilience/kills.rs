//! Nodes, links, and two at once that fail at random instants: what nobody is to notice, from outside and by
//! the NFs' own state; and of failures that are one too many, that what they cost is told.
//!
//! A generator at the gate sends numbered packets through the group into a capture there. Some dozens of
//! failures in a session, each when the group could bear one; then it is judged: each packet that entered has
//! left once, in its order, or was shed at the gate before its clock, and the NF has counted those that left.
//!
//! What the gate has is lost with it, and its generator begins anew: no packet may leave twice or out of
//! order, before its death and after. The same where it dies with another one.

use std::collections::HashSet;
use std::time::Duration;

use headgate_api::status::{EventCode, NfState, Snapshot};

use super::bench::{Bench, NOT_RECORDED, Outcome, Random, progress, row};
use super::captured::{Captured, not_recorded};
use super::chain::counted;
use super::nodes::{Nodes, Pair, Plan, Traffic, port};
use super::remote::{shed, tell_of_loss};
use crate::report::{Row, Section};
use crate::statistics::{Round, Rounds};

/// Packets per second that are offered, as for [`super::remote`].
const RATE: u32 = 10_000;
/// Time since its start at which the gate's generator begins: soon, for it may die many times.
const BEGIN: Duration = Duration::from_millis(1500);
/// Failures of a session: what it writes is some dozens of megabytes.
const FAILURES_OF_SESSION: u32 = 25;
/// A failure comes so long after the group could bear one, at most: some checkpoints.
const DELAY_MICROS_MAX: u64 = 100_000;
/// A node is started again, and a link carries again, so long after, at most: soon enough at times that
/// nobody has noticed.
const GONE_MICROS_MAX: u64 = 300_000;
/// Time before the end in which nothing happens.
const SETTLE: Duration = Duration::from_millis(300);

/// What fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Active,
    Standby,
    Link,
    Gate,
    /// Two of them at once.
    Two,
}

impl Kind {
    const ALL: [Self; 5] = [Self::Active, Self::Standby, Self::Link, Self::Gate, Self::Two];

    const fn name(self) -> &'static str {
        match self {
            Self::Active => "kills.active",
            Self::Standby => "kills.standby",
            Self::Link => "kills.link",
            Self::Gate => "kills.gate",
            Self::Two => "kills.two",
        }
    }

    /// Returns how many of them there are, of a tenth of so many kills.
    fn count(self, kills: u32) -> u32 {
        let tenth = kills.div_ceil(10);
        if self == Self::Two { tenth.div_ceil(10) } else { tenth }
    }
}

/// Counts of what must not be, and of what is told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Found {
    lost: u64,
    doubled: u64,
    miscounted: u64,
    untold: u64,
    lost_of_two: u64,
    shed: u64,
    not_recorded: u64,
}

impl Found {
    const fn is_clean(&self) -> bool {
        self.lost + self.doubled + self.miscounted + self.untold == 0
    }
}

pub(crate) fn run(bench: &Bench) -> anyhow::Result<Outcome> {
    let (mut conserved, mut round) = (true, Round::new());
    let mut random = Random::of(bench.kills.into());
    for kind in Kind::ALL {
        let count = kind.count(bench.kills);
        let mut left = count;
        while left > 0 {
            let failures = left.min(FAILURES_OF_SESSION);
            left -= failures;
            let mut case = Case { nodes: start(bench)?, kind, left: HashSet::new(), found: Found::default() };
            let whole = case.run(failures, &mut random)?;
            if !whole || !case.found.is_clean() {
                progress(&format!("{}: accounts hold: {whole}; {:?}", kind.name(), case.found));
            }
            add(&case.found, &mut round);
            conserved &= whole && case.found.is_clean();
        }
        round.insert(kind.name(), count.into());
        progress(&format!("{}: {count} failures", kind.name()));
    }
    let mut rounds = Rounds::default();
    rounds.push(round);
    let section = Section { title: "kills", note: "", rows: rows(&rounds) };
    Ok(Outcome { section, rounds, ratios: Vec::new(), conserved, notes: Vec::new() })
}

fn start(bench: &Bench) -> anyhow::Result<Nodes> {
    let traffic = Traffic::Captured { rate: RATE, flows: 32 };
    Nodes::start(&Plan { begin: BEGIN, ..Plan::new(bench.placement, traffic) })
}

/// Adds the counts of a session to those before.
fn add(found: &Found, round: &mut Round) {
    for (name, count) in [
        ("kills.lost", found.lost),
        ("kills.doubled_or_out_of_order", found.doubled),
        ("kills.state_differs", found.miscounted),
        ("kills.untold", found.untold),
        ("kills.lost_of_two", found.lost_of_two),
        ("kills.shed", found.shed),
        ("kills.not_recorded", found.not_recorded),
    ] {
        let before = round.get(name).copied().unwrap_or_default();
        round.insert(name, before + count as f64);
    }
}

fn rows(rounds: &Rounds) -> Vec<Row> {
    let rows = [
        ("kills.active", "", "managers of active nodes killed with SIGKILL, each at a random instant"),
        ("kills.standby", "", "of standbys"),
        ("kills.link", "", "links between two nodes that carried nothing for a random time"),
        ("kills.gate", "", "managers of gates killed"),
        ("kills.two", "", "of these, two at once"),
        ("kills.lost", "packets", "neither left nor shed, but for those that the gate died with; aim: none"),
        ("kills.doubled_or_out_of_order", "packets", "aim: none"),
        ("kills.state_differs", "", "sessions behind which an NF has counted others than left; aim: none"),
        ("kills.untold", "", "sessions whose losses by two failures at once nobody was told; aim: none"),
        ("kills.lost_of_two", "packets", "lost by two failures at once, and told"),
        ("kills.shed", "packets", "at the gate, before their clock"),
        ("kills.not_recorded", "packets", NOT_RECORDED),
    ];
    rows.into_iter().filter_map(|(name, unit, note)| row(rounds, name, unit, note)).collect()
}

/// Failures of one session.
struct Case {
    nodes: Nodes,
    kind: Kind,
    /// Packets that left before the gate died.
    left: HashSet<(u64, u32)>,
    found: Found,
}

impl Case {
    /// Lets so many things fail. Returns whether accounts of nodes that ended in order hold.
    fn run(&mut self, failures: u32, random: &mut Random) -> anyhow::Result<bool> {
        for _ in 0..failures {
            let pair = self.await_ready()?;
            pause(random, DELAY_MICROS_MAX);
            match self.kind {
                Kind::Active => self.kill(&[pair.active], random)?,
                Kind::Standby => self.kill(&[pair.standby], random)?,
                Kind::Link => self.cut(random)?,
                Kind::Gate => self.kill(&["gate"], random)?,
                Kind::Two => self.kill_two(pair, random)?,
            }
        }
        let Pair { active, .. } = self.await_ready()?;
        std::thread::sleep(SETTLE);
        let last = self.nodes.stop_one("gate")?.unwrap_or_default();
        let counted = counted(&self.nodes.handle(active)?, "nf-0", "report")?;
        let (_, conserved) = self.nodes.stop()?;
        self.judge(&last, counted)?;
        Ok(conserved && last.conserved != Some(false))
    }

    /// Waits until the group can bear a failure and packets leave.
    fn await_ready(&self) -> anyhow::Result<Pair> {
        let is_so = |now: &Snapshot| {
            let flows = now.at_ns > BEGIN.as_nanos() as u64 && now.chains.iter().any(|chain| chain.left > 0);
            flows && now.bfd.iter().all(|link| link.state == "up")
        };
        self.nodes.await_that("links are up, and packets leave", is_so)?;
        for node in ["left", "right"] {
            let is_so = |now: &Snapshot| now.bfd.iter().all(|link| link.state == "up");
            self.nodes.await_at(node, "links are up", is_so)?;
        }
        let pair = self.nodes.await_protected()?;
        let nfs_run = |now: &Snapshot| now.nfs.iter().all(|nf| nf.state == NfState::Running);
        self.nodes.await_at(pair.active, "NFs run", nfs_run)?;
        Ok(pair)
    }

    /// Kills nodes, and starts them again after a while.
    fn kill(&mut self, nodes: &[&'static str], random: &mut Random) -> anyhow::Result<()> {
        self.nodes.kill_at_once(nodes)?;
        if nodes.contains(&"gate") {
            let captured = Captured::read_of_killed(&self.nodes.capture())?;
            self.count_doubled(&captured);
            self.left.extend(captured.made());
        }
        pause(random, GONE_MICROS_MAX);
        nodes.iter().try_for_each(|node| self.nodes.up(node))
    }

    /// Cuts a link at one of its ends for a while.
    fn cut(&self, random: &mut Random) -> anyhow::Result<()> {
        const ENDS: [(&str, &str); 6] = [
            ("gate", "g0"),
            ("left", "l0"),
            ("gate", "g1"),
            ("right", "r0"),
            ("left", "l1"),
            ("right", "r1"),
        ];
        let (node, interface) = ENDS[random.below(ENDS.len() as u64) as usize];
        self.nodes.set_link(node, interface, false)?;
        pause(random, GONE_MICROS_MAX);
        self.nodes.set_link(node, interface, true)
    }

    /// Lets two of them fail at once.
    fn kill_two(&mut self, Pair { active, standby, .. }: Pair, random: &mut Random) -> anyhow::Result<()> {
        match random.below(4) {
            0 => self.kill(&[active, standby], random),
            1 => self.kill(&[active, "gate"], random),
            2 => self.kill(&[standby, "gate"], random),
            _ => {
                // The gate does not reach the standby.
                let interface = if standby == "left" { "l0" } else { "r0" };
                self.nodes.set_link(standby, interface, false)?;
                self.kill(&[active], random)?;
                self.nodes.set_link(standby, interface, true)
            }
        }
    }

    /// Counts packets that left twice or out of order: within a life of the gate, or in two.
    fn count_doubled(&mut self, captured: &Captured) {
        let again = captured.made().filter(|made| self.left.contains(made)).count();
        self.found.doubled += captured.doubled() + again as u64;
    }

    /// Judges what left, and what the NF has counted.
    fn judge(&mut self, last: &Snapshot, counted: u64) -> anyhow::Result<()> {
        let captured = Captured::read(&self.nodes.capture())?;
        self.count_doubled(&captured);
        let Self { kind, found, .. } = self;
        found.shed += shed(last);
        found.not_recorded += not_recorded(last);
        let lost = captured.missing().saturating_sub(shed(last) + not_recorded(last));
        match kind {
            Kind::Two => {
                found.lost_of_two += lost;
                let is_told = last
                    .events
                    .iter()
                    .any(|event| matches!(event.code, EventCode::GroupStateLost | EventCode::GroupStuck));
                found.untold += u64::from(lost > 0 && !is_told);
            }
            Kind::Active | Kind::Standby | Kind::Link => {
                found.lost += lost;
                let left = port(last, "east")?.sent + not_recorded(last);
                if counted != left {
                    found.miscounted += 1;
                    progress(&format!("{}: {counted} packets were counted, and {left} left", kind.name()));
                }
            }
            Kind::Gate => found.lost += lost,
        }
        tell_of_loss(kind.name(), lost, last);
        Ok(())
    }
}

fn pause(random: &mut Random, micros_max: u64) {
    std::thread::sleep(Duration::from_micros(random.below(micros_max)));
}
