//! What protection costs: an edit of kept state, the bytes between nodes, and the throughput of a group
//! beside the same nodes without one; CPU time of NFs whose state is kept.
//!
//! Edits are measured in an NF of our own, by the library that all NFs are written against, with this
//! command in the manager's place: the same work with state that is kept and with state that is not.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use headgate_host::cores;
use headgate_nf::state::{Bound, Table};
use headgate_nf::testing::{KeptState, Loop, Manager, OnChange, Part, Welcome};
use headgate_nf::{Burst, Connection, Context, NetworkFunction, NfError, serve};

use super::bench::{Bench, Outcome, ratio, row};
use super::chain::{Bed, Sink};
use super::nodes::Plan;
use super::throughput;
use crate::report::Section;
use crate::statistics::{Round, Rounds, Summary};

/// Entries of the table whose entries are edited: more than a core's caches of the first two levels hold.
const ENTRIES: u64 = 65_536;
/// Bytes of the state region: entries, their index, and a log as long.
const STATE_BYTES: u64 = 64 << 20;
/// Frames that are handed over at once: some bursts.
const FRAMES: usize = 192;
/// Bytes of a frame.
const FRAME_BYTES: usize = 60;
/// Spreads keys over the table: 2^32 over the golden ratio.
const SPREAD: u64 = 0x9e37_79b1;
/// Packets per second of `cpu`: a tenth of what an NF takes.
const CPU_RATE: u32 = 1_000_000;

headgate_nf::plain! {
    /// Entry of 64 bytes, of which one word is edited.
    struct Entry {
        packets: u64,
        rest: [u64; 7],
    }
}

/// Work on a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Work {
    /// Read it.
    Read,
    /// Change its first bytes.
    Header,
    /// Edit the entry of a key.
    Entry,
}

/// Work, and whether state is kept meanwhile.
#[derive(Clone, Copy, Debug)]
struct Case {
    value: &'static str,
    work: Work,
    is_kept: bool,
    note: &'static str,
}

const CASES: [Case; 5] = [
    Case { value: "cost.read_ns", work: Work::Read, is_kept: false, note: "a packet that is read, no state" },
    Case {
        value: "cost.header_ns",
        work: Work::Header,
        is_kept: false,
        note: "its header changed, no state",
    },
    Case {
        value: "cost.header_kept_ns",
        work: Work::Header,
        is_kept: true,
        note: "the same where state is kept, so that the packet is saved",
    },
    Case {
        value: "cost.entry_ns",
        work: Work::Entry,
        is_kept: false,
        note: "an entry edited, state not kept",
    },
    Case { value: "cost.entry_kept_ns", work: Work::Entry, is_kept: true, note: "the same, state kept" },
];

/// Packets that were worked on, and the time of that.
#[derive(Debug, Default)]
struct Board {
    packets: AtomicU64,
    ns: AtomicU64,
}

/// An NF that times its own work.
struct Worker {
    work: Work,
    table: Option<Table<u64, Entry>>,
    board: Arc<Board>,
    next: u64,
    seen: u64,
}

impl Worker {
    fn new(case: Case, board: Arc<Board>, context: &mut Context) -> Result<Self, NfError> {
        let bound = Bound { entries: ENTRIES as u32, idle: None };
        let table = match case.work == Work::Entry || case.is_kept {
            true => Some(context.state()?.table("entries", bound)?),
            false => None,
        };
        Ok(Self { work: case.work, table, board, next: 0, seen: 0 })
    }

    /// Fills a part of the table. Returns whether it was full before.
    fn fill(&mut self) -> bool {
        let Some(table) = self.table.as_mut().filter(|table| u64::from(table.len()) < ENTRIES) else {
            return true;
        };
        let from = u64::from(table.len());
        for key in from..ENTRIES.min(from + 1024) {
            if table.insert(key, Entry { packets: 0, rest: [key; 7] }).is_err() {
                return true;
            }
        }
        false
    }
}

impl NetworkFunction for Worker {
    fn process(&mut self, burst: &mut Burst, _: &mut Context) {
        let is_full = self.fill();
        let (since, mut packets) = (Instant::now(), 0);
        for mut packet in burst.packets() {
            packets += 1;
            match (self.work, &mut self.table) {
                (Work::Read, _) | (Work::Entry, None) => self.seen += u64::from(packet.data()[0]),
                (Work::Header, _) => packet.data_mut()[0] ^= 1,
                (Work::Entry, Some(table)) => {
                    self.next = self.next.wrapping_add(SPREAD);
                    if let Some(entry) = table.edit(&(self.next % ENTRIES)) {
                        entry.packets = entry.packets.wrapping_add(entry.rest[0] | 1);
                    }
                }
            }
        }
        if is_full {
            self.board.ns.fetch_add(since.elapsed().as_nanos() as u64, Ordering::Relaxed);
            self.board.packets.fetch_add(packets, Ordering::Relaxed);
        }
        std::hint::black_box(self.seen);
    }
}

pub(crate) fn run(bench: &Bench) -> anyhow::Result<Outcome> {
    let (rounds, conserved) = bench.measure("cost", |round| one_round(bench, round))?;
    let mut rows: Vec<_> =
        CASES.iter().filter_map(|case| row(&rounds, case.value, "ns", case.note)).collect();
    let differences = [
        ("cost.edit_ns", ["cost.entry_kept_ns", "cost.entry_ns"], "an edit of kept state: aim at most 5"),
        ("cost.header_edit_ns", ["cost.header_kept_ns", "cost.header_ns"], "of a header: aim at most 3"),
        ("cost.stateless_ns", ["cost.header_ns", "cost.read_ns"], "of a header, an NF without state: aim 0"),
    ];
    for (name, [with, without], note) in differences {
        let summary: Option<Summary> = rounds.derived(|round| Some(round.get(with)? - round.get(without)?));
        rows.extend(summary.map(|summary| crate::report::Row {
            name: name.into(),
            unit: "ns",
            note,
            summary,
        }));
    }
    rows.extend(rows_of_nodes(&rounds));
    let ratios = [ratio(
        &rounds,
        "remote_over_base",
        ["cost.group", "cost.base"],
        "at least 0.85; REINFORCE \
         loses 2 to 15 %, FTC 6 to 13 %",
    )];
    let section = Section { title: "cost", note: "", rows };
    let ratios = ratios.into_iter().flatten().collect();
    Ok(Outcome { section, rounds, ratios, conserved, notes: Vec::new() })
}

fn rows_of_nodes(rounds: &Rounds) -> impl Iterator<Item = crate::report::Row> {
    let rows = [
        row(rounds, "cost.base", "Mpps", "packets of 64 bytes through one NF on another node, no group"),
        row(rounds, "cost.group", "Mpps", "the same nodes as a group; REINFORCE 12.5 on its machines"),
        row(rounds, "cost.wire_base", "bytes", "from the gate and back for a packet, no group"),
        row(rounds, "cost.wire_group", "bytes", "the same, a group"),
        row(rounds, "cost.wire_standby", "bytes", "between active node and standby for a packet"),
    ];
    rows.into_iter().flatten()
}

fn one_round(bench: &Bench, round: &mut Round) -> anyhow::Result<bool> {
    for case in CASES {
        round.insert(case.value, ns_of_packet(bench, case)?);
    }
    let mut conserved = true;
    for (rate, wire, is_protected) in
        [("cost.base", "cost.wire_base", false), ("cost.group", "cost.wire_group", true)]
    {
        let plan = Plan { is_protected, ..throughput::offered(bench) };
        let measured = throughput::of(bench, &plan)?;
        let bytes = |interfaces: [&str; 2]| -> f64 {
            interfaces.iter().filter_map(|name| measured.wire_bytes.get(*name)).sum()
        };
        round.insert(rate, measured.rate);
        round.insert(wire, bytes(["g0", "l0"]));
        if is_protected {
            round.insert("cost.wire_standby", bytes(["l1", "r1"]));
        }
        conserved &= measured.conserved;
    }
    Ok(conserved)
}

/// Returns what an NF is told: with kept state, that it has a standby, for which packets are saved too.
fn welcome(is_kept: bool) -> Welcome {
    let state = KeptState { bytes: STATE_BYTES, base: 0, on_change: OnChange::Refuse, part: Part::Active };
    Welcome {
        name: "bench".into(),
        waits: Loop::Polling,
        ports: vec!["west".into(), "east".into()],
        arguments: "{}".into(),
        state: is_kept.then_some(state),
        ..Welcome::default()
    }
}

/// Returns the time that the work on a packet takes, in nanoseconds, the NF's clock included.
fn ns_of_packet(bench: &Bench, case: Case) -> anyhow::Result<f64> {
    let (board, window) =
        (Arc::<Board>::default(), Duration::from_millis(if bench.quick { 100 } else { 500 }));
    let (counted, placement) = (board.clone(), bench.placement);
    let (ours, theirs) = mpsc::channel();
    thread::scope(|scope| {
        let nf = scope.spawn(move || -> anyhow::Result<()> {
            let socket = theirs.recv().context("nobody manages an NF of this command")?;
            cores::pin_current_thread(placement.nfs)?;
            serve(Connection::from_socket(socket), |context| Worker::new(case, board, context))
                .map(drop)
                .map_err(|error| anyhow::anyhow!("an NF of this command ended: {error}"))
        });
        let measured = scope.spawn(move || -> anyhow::Result<f64> {
            cores::pin_current_thread(placement.manager)?;
            let (mut manager, socket) = Manager::new(welcome(case.is_kept));
            ours.send(socket).context("an NF of this command ended")?;
            if let Err(why) = manager.admit() {
                bail!("an NF of this command would not start: {why}");
            }
            let ns = exchange(&mut manager, &counted, window);
            manager.stop();
            Ok(ns)
        });
        let measured = measured.join().map_err(|_| anyhow::anyhow!("an NF of this command hung"))?;
        nf.join().map_err(|_| anyhow::anyhow!("an NF of this command panicked"))??;
        measured
    })
}

/// Hands packets over for a window, and another one before that for the table. Returns nanoseconds a packet.
fn exchange(manager: &mut Manager, board: &Board, window: Duration) -> f64 {
    let frames = vec![[7_u8; FRAME_BYTES]; FRAMES];
    let read = || (board.ns.load(Ordering::Relaxed), board.packets.load(Ordering::Relaxed));
    while read().1 < ENTRIES {
        manager.exchange(&frames);
    }
    let (before, began) = (read(), Instant::now());
    while began.elapsed() < window {
        manager.exchange(&frames);
    }
    let after = read();
    (after.0 - before.0) as f64 / (after.1 - before.1).max(1) as f64
}

/// CPU time of an NF whose state is kept, over that of the same NF.
pub(crate) fn cpu(bench: &Bench) -> anyhow::Result<Outcome> {
    let (rounds, conserved) = bench.measure("cpu", |round| one_round_of_cpu(bench, round))?;
    let rows = [
        row(&rounds, "cpu.stateless", "ns", "CPU time of an NF for a packet, state not kept, 1 Mpps"),
        row(&rounds, "cpu.kept", "ns", "state kept, edited for each packet"),
        row(&rounds, "cpu.standby", "ns", "and a standby besides"),
    ];
    let ratios = [ratio(
        &rounds,
        "cpu_over_stateless",
        ["cpu.kept", "cpu.stateless"],
        "at most 1.10, edits for each packet; REARM less than 1.05",
    )];
    let section = Section { title: "cpu", note: "", rows: rows.into_iter().flatten().collect() };
    let ratios = ratios.into_iter().flatten().collect();
    Ok(Outcome { section, rounds, ratios, conserved, notes: Vec::new() })
}

fn one_round_of_cpu(bench: &Bench, round: &mut Round) -> anyhow::Result<bool> {
    let mut conserved = true;
    for (name, is_protected, has_spare) in
        [("cpu.stateless", false, false), ("cpu.kept", true, false), ("cpu.standby", true, true)]
    {
        let bed =
            Bed { placement: bench.placement, nfs: 1, rate: Some(CPU_RATE), is_protected, sink: Sink::Null };
        let mut text = bed.to_toml();
        if !has_spare {
            text = text.replace("standby = \"local\"\n", "");
        }
        let session = bench.launcher.start("resilience cpu (made by headgate bench)", &text)?;
        let interval = session.interval(Duration::from_millis(if bench.quick { 1000 } else { 4000 }))?;
        let [before, after] = [&interval.before, &interval.after].map(|now| now.nfs.first());
        let (before, after) = before.zip(after).context("there is an NF")?;
        let packets = (after.returned - before.returned).max(1);
        round.insert(name, (after.cpu_ns - before.cpu_ns) as f64 / packets as f64);
        conserved &= session.stop()? != Some(false);
    }
    Ok(conserved)
}
