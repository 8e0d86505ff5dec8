//! Throughput of a group beside the same nodes without one, in turn in one run.
//!
//! - `latch`: by the size of the latch, which bounds the packets under way, and by the round trip;
//! - `chain`: by the number of NFs;
//! - and what [`super::cost`] tells of one NF.
//!
//! More is offered than nodes on packet sockets carry; the gate sheds the rest before its clock.

use std::collections::BTreeMap;
use std::time::Duration;

use super::bench::{Bench, Outcome, ratio, row};
use super::nodes::{BEGIN, Nodes, Plan, Traffic, port};
use crate::report::Section;
use crate::statistics::Round;

/// Packets per second that are offered. Our choice: twice what packet sockets carry between workers that
/// share a core, and few enough that shedding takes no time of note.
const OFFERED: u32 = 250_000;
/// Time behind the beginning of traffic before counts begin.
const WARM_UP: Duration = Duration::from_millis(500);

/// Latches that are compared: name, packets, and microseconds that are added to the way there and the way
/// back. With 200 us for both, the dissertation's, packet sockets carry fewer packets in a round trip than
/// the smallest latch holds; with 10 ms they carry about a thousand, as 10 Gbit/s do in 100 us.
const LATCHES: [(&str, u32, u64); 7] = [
    ("latch.1k", 1024, 0),
    ("latch.8k", 8192, 0),
    ("latch.rtt200us_1k", 1024, 100),
    ("latch.rtt200us_8k", 8192, 100),
    ("latch.rtt10ms_256", 256, 5_000),
    ("latch.rtt10ms_1k", 1024, 5_000),
    ("latch.rtt10ms_8k", 8192, 5_000),
];

/// A throughput.
pub(crate) struct Throughput {
    /// Packets per second that left the gate.
    pub rate: f64,
    /// Bytes that the nodes sent each other for each of them, by link's interface.
    pub wire_bytes: BTreeMap<String, f64>,
    /// Whether all accounts hold.
    pub conserved: bool,
}

/// Returns the plan of one NF to which more is offered than nodes carry.
pub(crate) fn offered(bench: &Bench) -> Plan {
    Plan::new(bench.placement, Traffic::Measured { rate: OFFERED })
}

/// Measures a plan of nodes.
///
/// # Errors
/// They do not work together.
pub(crate) fn of(bench: &Bench, plan: &Plan) -> anyhow::Result<Throughput> {
    let mut nodes = Nodes::start(plan)?;
    let begin = (BEGIN + WARM_UP).as_nanos() as u64;
    let bytes = |nodes: &Nodes| -> anyhow::Result<BTreeMap<String, u64>> {
        let mut all = BTreeMap::new();
        for node in ["gate", "left", "right"] {
            all.extend(nodes.sent_bytes(node)?);
        }
        Ok(all)
    };
    let before = nodes.await_that("traffic begins", |now| now.at_ns > begin)?;
    let sent_before = bytes(&nodes)?;
    std::thread::sleep(Duration::from_millis(if bench.quick { 1000 } else { 4000 }));
    let after = nodes.sample("gate")?;
    let sent = bytes(&nodes)?;
    let packets = port(&after, "east")?.sent.saturating_sub(port(&before, "east")?.sent);
    let rate = packets as f64 / (after.at_ns - before.at_ns) as f64 * 1e9;
    let of_packet = |(name, bytes): (String, u64)| {
        let before = sent_before.get(&name).copied().unwrap_or(0);
        (name, bytes.saturating_sub(before) as f64 / packets.max(1) as f64)
    };
    let wire_bytes = sent.into_iter().map(of_packet).collect();
    Ok(Throughput { rate, wire_bytes, conserved: nodes.stop()?.1 })
}

pub(crate) fn latch(bench: &Bench) -> anyhow::Result<Outcome> {
    let base = offered(bench);
    let (rounds, conserved) = bench.measure("latch", |round| {
        let unprotected = of(bench, &Plan { is_protected: false, ..base })?;
        round.insert("latch.none", unprotected.rate);
        let mut conserved = unprotected.conserved;
        for (name, latch, micros) in LATCHES {
            let measured = of(bench, &Plan { latch, delay: Duration::from_micros(micros), ..base })?;
            round.insert(name, measured.rate);
            conserved &= measured.conserved;
        }
        Ok(conserved)
    })?;
    let none = row(&rounds, "latch.none", "Mpps", "the same nodes without a group");
    let sizes = LATCHES.map(|(name, ..)| row(&rounds, name, "Mpps", "latch of so many packets"));
    let ratios = [
        ratio(
            &rounds,
            "latch_8k_over_1k",
            ["latch.rtt200us_8k", "latch.rtt200us_1k"],
            "at least 1.5; REINFORCE 2 to 3",
        ),
        ratio(&rounds, "latch_rtt10ms_8k_over_1k", ["latch.rtt10ms_8k", "latch.rtt10ms_1k"], ""),
        ratio(&rounds, "latch_rtt10ms_8k_over_256", ["latch.rtt10ms_8k", "latch.rtt10ms_256"], ""),
    ];
    let section = Section {
        title: "latch",
        note: "",
        rows: none.into_iter().chain(sizes.into_iter().flatten()).collect(),
    };
    let ratios = ratios.into_iter().flatten().collect();
    Ok(Outcome { section, rounds, ratios, conserved, notes: Vec::new() })
}

pub(crate) fn chain(bench: &Bench) -> anyhow::Result<Outcome> {
    let (rounds, conserved) = bench.measure("chain", |round| one_round_of_chains(bench, round))?;
    let value = |name, note| row(&rounds, name, "Mpps", note);
    let rows = [
        value("chain.base_2", "two NFs, no group"),
        value("chain.base_3", "three NFs, no group"),
        value("chain.2", "two NFs, a group"),
        value("chain.3", "three NFs, a group"),
    ];
    let ratios = [
        ratio(
            &rounds,
            "chain3_over_chain2",
            ["chain.3", "chain.2"],
            "at least that without a group less 0.05; REINFORCE: no loss",
        ),
        ratio(&rounds, "base_chain3_over_chain2", ["chain.base_3", "chain.base_2"], ""),
    ];
    let section = Section { title: "chain", note: "", rows: rows.into_iter().flatten().collect() };
    let ratios = ratios.into_iter().flatten().collect();
    Ok(Outcome { section, rounds, ratios, conserved, notes: Vec::new() })
}

fn one_round_of_chains(bench: &Bench, round: &mut Round) -> anyhow::Result<bool> {
    let mut conserved = true;
    for (name, nfs, is_protected) in
        [("chain.base_2", 2, false), ("chain.base_3", 3, false), ("chain.2", 2, true), ("chain.3", 3, true)]
    {
        let measured = of(bench, &Plan { nfs, is_protected, ..offered(bench) })?;
        round.insert(name, measured.rate);
        conserved &= measured.conserved;
    }
    Ok(conserved)
}
