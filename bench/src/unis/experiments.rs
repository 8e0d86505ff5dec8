//! The experiments of the thesis (UNiS, University of Waterloo, chapters 1 and 4), each as a table of cases.
//!
//! Costs are in TSC cycles a packet, as the thesis has them; where it does not say, the constant does. The
//! thesis's rings hold 2,048 packets for all; here each scheduler has the rings that suit it (`gap` shows
//! both), since a switch costs ten times as much in a virtual machine.

use super::trace;
use crate::lab::Machine;
use crate::lab::bed::{Chain, Mode, Policy, TestBed, Traffic, Waits, Work, line_rate};
use crate::lab::experiment::{Case, Comparison, Experiment, Formula, Plot, joined, one_or_all};
use crate::lab::measure::Reading;

/// Light, medium and heavy NFs (section 4.1.2).
const LIGHT: u32 = 50;
const MEDIUM: u32 = 150;
const HEAVY: u32 = 250;
const FLAVOURS: [(&str, u32); 3] = [("light", LIGHT), ("medium", MEDIUM), ("heavy", HEAVY)];
/// An NF whose cost is a step function of the size, from light to heavy (section 4.1.2; our choice of steps).
const STEPS: [(u32, u32); 5] = [(0, 50), (300, 100), (600, 150), (900, 200), (1200, 250)];
/// Bursts between two yields of the baseline (section 4.1.4).
const K: u32 = 8;
/// Offered, in packets per second: more than any chain takes. Our choice: twice a 10 Gbit/s link.
const OFFERED: f64 = 30e6;
/// Buffers of packet memory. Our choice: all rings of the longest chain may be full.
const BUFFERS: u32 = 131_072;
/// The same where rings of 65,536 are compared with shorter ones.
const BUFFERS_MAX: u32 = 262_144;
/// Sizes of frames, and of rings, of `motivation`: the manager's default, the default with time slices, and
/// the longest. The longer a ring, the less it costs that the kernel switches seldom.
const MOTIVATION: [(u32, u32); 4] = [(64, 4096), (64, 16_384), (64, 65_536), (1500, 16_384)];
/// The group of `motivation` that has the rings of time slices.
const DEFAULT_RING: &str = "64.ring16384";
/// Cost of a packet for an NF beside its work, in cycles: the way through two rings. Our choice by
/// measurement; only for the load of `latency`.
const WAY_CYCLES: f64 = 15.0;
/// Load of `latency`, of what is sustained (section 4.1.3).
const LOAD: f64 = 0.8;
/// Throughput to be sustained in `density`, in packets per second, by flavour. Our choice: between what three
/// and eight of them can do.
const TARGETS: [f64; 3] = [5e6, 2e6, 1.2e6];
/// The longest chain of `density`, and those of the others.
const DENSITY_MAX: usize = 8;
const LENGTHS: [usize; 5] = [1, 2, 3, 5, 8];
const LATENCY_LENGTHS: [usize; 2] = [3, 5];
/// Chain of the ratios.
const CHAIN: usize = 3;
/// Chain of `gap` and `occupancy-rule` (sections 4.3 and 4.4).
const LONG_CHAIN: usize = 5;
/// Time slices of `occupancy-rule`, in percent of what fills the ring behind (section 4.4).
const SLICES: [u32; 5] = [25, 50, 75, 100, 125];

/// Objectives of `slo`: packets per second, twice as many as a fair part is; and microseconds, from about
/// what a round of light NFs takes when they are not loaded.
const FLOOR: f64 = 5e6;
const BOUNDS: [(&str, u32); 3] = [("unis_500us", 500), ("unis_1000us", 1000), ("unis_5000us", 5000)];
/// Packets per second of the chain with a bound. Our choice: a thirtieth of what the core can do.
const FEW: f64 = 200e3;
/// Packets per second of a chain that is idle nearly always. Our choice: one comes when all before it are
/// through.
const SELDOM: f64 = 500.0;

/// Names of all experiments, in the thesis's order.
pub const NAMES: [&str; 12] = [
    "motivation",
    "uniform",
    "latency",
    "density",
    "alternating",
    "variable",
    "multi",
    "gap",
    "occupancy-rule",
    "slo",
    "boxes",
    "all",
];

/// The experiments of that name: one, or all of them; none for a name that is not in [`NAMES`].
#[must_use]
pub fn named(name: &str, machine: Machine) -> Vec<Experiment> {
    let one = |name: &str| {
        Some(match name {
            "motivation" => motivation(),
            "uniform" => uniform(),
            "latency" => latency(machine.cycles_per_second),
            "density" => density(),
            "alternating" => alternating(),
            "variable" => variable(machine),
            "multi" => multi(),
            "gap" => gap(machine.nf_cores),
            "occupancy-rule" => occupancy_rule(),
            "slo" => slo(),
            "boxes" => boxes(),
            _ => return None,
        })
    };
    one_or_all(name, &NAMES, one)
}

/// NFs of one cost in one chain, offered more than they take.
fn chain(costs: &[u32]) -> TestBed {
    TestBed { buffers: Some(BUFFERS), ..TestBed::chain(costs, OFFERED) }
}

/// NFs that poll, switched by their own core.
fn unis(bed: &TestBed) -> TestBed {
    // The kernel's bound on real time is lifted for the run: it would cost a twentieth of everything.
    let scheduler = format!("{}lift_rt_limit = true\n", bed.scheduler);
    TestBed { mode: Mode::Unis, waits: Waits::Polling, scheduler, ..bed.clone() }
}

/// NFs that yield after so many bursts, beside the kernel. Under the fair policy one that yields forfeits its
/// slice (since Linux 6.6); under `rr` it goes behind the others, as in the thesis's time.
fn cooperative(bed: &TestBed, bursts: u32, policy: Policy) -> TestBed {
    let scheduler = match policy {
        Policy::RoundRobin | Policy::RoundRobinShort => format!("{}lift_rt_limit = true\n", bed.scheduler),
        Policy::Normal | Policy::Batch => bed.scheduler.clone(),
    };
    TestBed { mode: Mode::Os, waits: Waits::Cooperative(bursts), policy, scheduler, ..bed.clone() }
}

fn case(group: &str, variant: &'static str, bed: TestBed, reads: &'static [Reading]) -> Case {
    Case { variant, ..Case::new(group, bed, reads) }
}

/// The baseline under either policy.
const BASELINES: [(&str, Policy); 2] = [("coop", Policy::Normal), ("coop_rr", Policy::RoundRobin)];

/// The baseline, under both policies, and time slices, over one bed.
fn beside_baselines(group: &str, bed: &TestBed, reads: &'static [Reading]) -> [Case; 3] {
    let [coop, coop_rr] =
        BASELINES.map(|(variant, policy)| case(group, variant, cooperative(bed, K, policy), reads));
    [coop, coop_rr, case(group, "unis", unis(bed), reads)]
}

/// The throughput with time slices by that of the baseline, under the policy that gives it more.
fn over_coop(name: impl Into<String>, group: &str, aim: &'static str) -> Comparison {
    let baselines = BASELINES.map(|(variant, _)| joined(group, variant)).to_vec();
    Comparison::new(name.into(), Formula::OverBest(joined(group, "unis"), baselines), aim)
}

fn group_of(flavour: &str, length: usize) -> String {
    format!("{flavour}.{length}")
}

fn motivation() -> Experiment {
    let (mut cases, mut comparisons) = (Vec::new(), Vec::new());
    for (bytes, ring) in MOTIVATION {
        let bed = TestBed {
            traffic: Traffic::Even(bytes),
            ring: Some(ring),
            buffers: Some(BUFFERS_MAX),
            ..TestBed::chain(&[LIGHT; CHAIN], line_rate(bytes))
        };
        let group = format!("{bytes}.ring{ring}");
        let polling = |policy| TestBed { waits: Waits::Polling, ..bed.clone().scheduled(policy, Mode::Os) };
        cases.push(case(&group, "os", polling(Policy::Normal), &[Reading::Nfs]));
        cases.push(case(&group, "os_rr", polling(Policy::RoundRobin), &[Reading::Nfs]));
        cases.push(case(&group, "unis", unis(&bed), &[Reading::Nfs]));
        for under in ["os", "os_rr"] {
            let aim = if (&*group, under) == (DEFAULT_RING, "os") { "at least 10" } else { "" };
            let (name, unis) = (format!("{group}.over_{under}_polling"), joined(&group, "unis"));
            comparisons.push(Comparison::over(name, &unis, &joined(&group, under), aim));
        }
    }
    for variant in ["os", "unis"] {
        let [over, under] = ["64.ring65536", "64.ring4096"].map(|group| joined(group, variant));
        comparisons.push(Comparison::over(format!("{variant}.long_rings_over_short"), &over, &under, ""));
    }
    let mut motivation = Experiment::new(
        "motivation",
        "three light NFs that poll on one core, at the rate of a 10 Gbit/s link, by the size of frames and of \
         rings, which are equal for all: the kernel's schedulers, and time slices",
        "figure 1.1",
        cases,
    );
    motivation.comparisons = comparisons;
    motivation.paper = &[
        ("64.ring4096.os", "about 1 % of 14.88 (figure 1.1, rings of 2048)"),
        ("1500.ring16384.os", "at most 30 % of 0.82 (figure 1.1, rings of 2048)"),
        ("64.ring16384.over_os_polling", "not compared (section 4.1.4)"),
    ];
    motivation
}

fn uniform() -> Experiment {
    let (mut cases, mut comparisons) = (Vec::new(), Vec::new());
    for (flavour, cycles) in FLAVOURS {
        for length in LENGTHS {
            // The thesis has no figure for heavy ones: one length, for the ratio.
            if cycles == HEAVY && length != CHAIN {
                continue;
            }
            let group = group_of(flavour, length);
            cases.extend(beside_baselines(&group, &chain(&vec![cycles; length]), &[]));
            if length != CHAIN {
                comparisons.push(over_coop(format!("{group}.unis_over_coop"), &group, ""));
            }
        }
        let aim = if cycles == LIGHT { "at least 0.95" } else { "at least 0.98" };
        let name = format!("local_over_coop.{flavour}");
        comparisons.push(over_coop(name, &group_of(flavour, CHAIN), aim));
    }
    let mut uniform = Experiment::new(
        "uniform",
        "chains of NFs of one cost on one core, 64 B: time slices (unis) beside NFs that yield after 8 bursts, under the fair policy \
         (coop) and under rr (coop_rr)",
        "figure 4.1",
        cases,
    );
    uniform.comparisons = comparisons;
    uniform.paper = &[
        ("local_over_coop.light", "1.0 up to 4 NFs, 0.90 at the longest, at 14.88 Mpps (figure 4.1a)"),
        ("local_over_coop.medium", "at least 0.975 (figure 4.1b)"),
        ("light.8.unis_over_coop", "at least 0.90 (figure 4.1a)"),
        ("medium.8.unis_over_coop", "at least 0.975 (figure 4.1b)"),
    ];
    uniform
}

fn latency(cycles_per_second: f64) -> Experiment {
    let (mut cases, mut comparisons) = (Vec::new(), Vec::new());
    for (flavour, cycles) in FLAVOURS {
        for length in LATENCY_LENGTHS {
            let rate = LOAD * cycles_per_second / (length as f64 * (f64::from(cycles) + WAY_CYCLES));
            let costs = vec![cycles; length];
            // Frames with room for a stamp (section 4.1.3).
            let bed = TestBed {
                traffic: Traffic::Even(128),
                buffers: Some(BUFFERS),
                ..TestBed::chain(&costs, rate)
            };
            let group = group_of(flavour, length);
            cases.extend(beside_baselines(&group, &bed, &[Reading::Latency]));
            let p50 = |variant: &str| format!("{group}.{variant}.p50");
            for (under, _) in BASELINES {
                let name = format!("{group}.p50.unis_over_{under}");
                comparisons.push(Comparison::over(name, &p50("unis"), &p50(under), ""));
            }
        }
    }
    let mut latency = Experiment::new(
        "latency",
        "chains on one core at 80 percent of what it can do by arithmetic, 128 B: time from generator to null \
         port",
        "figures 4.2 and 4.3",
        cases,
    );
    latency.comparisons = comparisons;
    latency.paper = &[
        ("medium.3.p50.unis_over_coop", "about 1 (mean, figure 4.2)"),
        ("medium.5.p50.unis_over_coop", "1.14-1.58 (mean, figure 4.2)"),
        ("light.3.p50.unis_over_coop", "14 us more (mean, figure 4.3a)"),
        ("heavy.5.p50.unis_over_coop", "0.88 (mean, figure 4.3b)"),
    ];
    latency.plot = Plot { value: "p50", axis: "median latency, us" };
    latency
}

fn density() -> Experiment {
    let (mut cases, mut comparisons) = (Vec::new(), Vec::new());
    for ((flavour, cycles), target) in FLAVOURS.into_iter().zip(TARGETS) {
        for length in 2..=DENSITY_MAX {
            cases.extend(beside_baselines(&group_of(flavour, length), &chain(&vec![cycles; length]), &[]));
        }
        for variant in ["coop", "coop_rr", "unis"] {
            let names = (2..=DENSITY_MAX).map(|length| joined(&group_of(flavour, length), variant)).collect();
            let name = format!("{flavour}.{variant}.longer_than_one");
            comparisons.push(Comparison::new(name, Formula::Reach(names, target), ""));
        }
    }
    let mut density = Experiment::new(
        "density",
        "how many NFs of one cost a core can chain (beyond the first) at 5 Mpps of light, 2 of medium and 1.2 of \
         heavy ones, up to 8",
        "figure 4.4",
        cases,
    );
    density.comparisons = comparisons;
    density.paper = &[("light.unis.longer_than_one", "equal, or less by at most a tenth (figure 4.4)")];
    density
}

fn alternating() -> Experiment {
    let (mut cases, mut comparisons) = (Vec::new(), Vec::new());
    for length in 2..=6 {
        let costs: Vec<u32> = [MEDIUM, HEAVY].into_iter().cycle().take(length).collect();
        let group = length.to_string();
        cases.extend(beside_baselines(&group, &chain(&costs), &[]));
        comparisons.push(over_coop(format!("{group}.unis_over_coop"), &group, "at least 0.98"));
    }
    let mut alternating = Experiment::new(
        "alternating",
        "chains of medium and heavy NFs in turn on one core, 64 B",
        "figure 4.5",
        cases,
    );
    alternating.comparisons = comparisons;
    alternating.paper = &[("6.unis_over_coop", "at least 0.98 (figure 4.5)")];
    alternating
}

fn variable(machine: Machine) -> Experiment {
    let (mut cases, mut comparisons) = (Vec::new(), Vec::new());
    let capture = trace::write(machine.folder).map(Traffic::Capture);
    let traffic = [("seeded", Ok(Traffic::Mixed(trace::SIZES.to_vec()))), ("capture", capture)];
    for (label, traffic) in traffic {
        // A folder that cannot be written to ends the run at its first case.
        let traffic = traffic.unwrap_or_else(|_| Traffic::Capture(machine.folder.join("bimodal.pcap")));
        for length in [CHAIN, LONG_CHAIN] {
            let bed = TestBed { nfs: vec![Work::Steps(STEPS.to_vec()); length], ..chain(&vec![0; length]) };
            let bed = TestBed { traffic: traffic.clone(), ..bed };
            let group = format!("{label}.{length}");
            cases.extend(beside_baselines(&group, &bed, &[]));
            let name = match (label, length) {
                ("seeded", CHAIN) => "local_over_coop.mix".to_owned(),
                _ => format!("{group}.unis_over_coop"),
            };
            comparisons.push(over_coop(name, &group, "at least 0.98"));
        }
    }
    let mut variable = Experiment::new(
        "variable",
        "chains of NFs that cost 50 to 250 cycles by the size of the frame, on one core; frames of 200 and 1400 B, \
         from a seeded generator and from a capture in which they come in trains",
        "figure 4.6",
        cases,
    );
    variable.comparisons = comparisons;
    variable.paper = &[("local_over_coop.mix", "at least 0.98 (figure 4.6)")];
    variable
}

fn multi() -> Experiment {
    const READS: &[Reading] = &[Reading::Chains];
    let bed = |lengths: &[usize], spread: bool| {
        let (mut next, mut chains) = (0, Vec::new());
        for length in lengths {
            chains.push(Chain {
                stages: (next..next + length).collect(),
                rate: OFFERED / lengths.len() as f64,
            });
            next += length;
        }
        let nfs = vec![Work::Cycles(MEDIUM); next];
        TestBed { spread, buffers: Some(BUFFERS), ..TestBed::of(nfs, chains) }
    };
    let (mut cases, mut comparisons) = (Vec::new(), Vec::new());
    for (group, bed) in [("a", bed(&[3, 1], false)), ("b", bed(&[4, 4], true)), ("c", bed(&[8], true))] {
        cases.extend(beside_baselines(group, &bed, READS));
        comparisons.push(over_coop(format!("{group}.unis_over_coop"), group, ""));
        if bed.chains.len() > 1 {
            let names = ["chain1", "chain2"].map(|chain| format!("{group}.unis.{chain}")).to_vec();
            let name = format!("{group}.chains_differ");
            comparisons.push(Comparison::new(name, Formula::Spread(names), "at most 0.02"));
        }
    }
    let mut multi = Experiment::new(
        "multi",
        "medium NFs: chains of 3 and 1 on one core (a); two of 4 on two cores (b) and one of 8 (c), as far as there \
         are two cores for NFs",
        "table 4.1",
        cases,
    );
    multi.comparisons = comparisons;
    multi.nf_cores = 2;
    multi.paper = &[
        ("a.coop.chain1", "5.31 (table 4.1)"),
        ("a.coop.chain2", "5.31 (table 4.1)"),
        ("a.unis.chain1", "5.30 (table 4.1)"),
        ("a.unis.chain2", "5.21 (table 4.1)"),
        ("b.coop.chain1", "5.24 (table 4.1)"),
        ("b.coop.chain2", "5.24 (table 4.1)"),
        ("b.unis.chain1", "5.10 (table 4.1)"),
        ("b.unis.chain2", "5.14 (table 4.1)"),
        ("c.coop", "5.41 (table 4.1)"),
        ("c.unis", "5.34 (table 4.1)"),
        ("a.chains_differ", "0.017 (table 4.1)"),
        ("b.chains_differ", "0.008 (table 4.1)"),
    ];
    multi
}

fn gap(nf_cores: usize) -> Experiment {
    const READS: &[Reading] = &[Reading::Nfs, Reading::Switches];
    /// The core of the manager's worker, and with enough cores the one behind those of NFs.
    const fn remote_core(nf_cores: usize) -> usize {
        if nf_cores > 1 { nf_cores } else { 0 }
    }
    let mut cases = Vec::new();
    for (flavour, cycles) in &FLAVOURS[..2] {
        let bed = chain(&[*cycles; LONG_CHAIN]);
        for (variant, bursts) in [("coop", 8), ("coop16", 16), ("coop24", 24)] {
            cases.push(case(flavour, variant, cooperative(&bed, bursts, Policy::Normal), READS));
        }
        cases.push(case(flavour, "coop_rr", cooperative(&bed, K, Policy::RoundRobin), READS));
        cases.push(case(flavour, "unis", unis(&bed), READS));
        for (variant, ring) in [("unis_ring4096", 4096), ("unis_ring8192", 8192), ("unis_ring32768", 32_768)]
        {
            cases.push(case(flavour, variant, TestBed { ring: Some(ring), ..unis(&bed) }, READS));
        }
        let large = TestBed { ring: Some(16_384), ..bed.clone() };
        cases.push(case(flavour, "coop_ring16384", cooperative(&large, K, Policy::Normal), READS));
        let remote = unis(&bed);
        let scheduler = format!("{}unis_core = {}\n", remote.scheduler, remote_core(nf_cores));
        cases.push(case(flavour, "remote", TestBed { scheduler, ..remote }, READS));
    }
    let mut gap = Experiment::new(
        "gap",
        "five light or medium NFs on one core: yielding after 8, 16 and 24 bursts, time slices with several rings, and \
         slices given from another core (remote; with two cores in all, that of the worker)",
        "figures 4.7 to 4.10",
        cases,
    )
    .compare("unis", "coop", |_| "")
    .compare("unis", "coop_rr", |_| "")
    .compare("remote", "unis", |_| "");
    gap.paper = &[
        ("light.unis_over_coop", "0.90 (figure 4.7a)"),
        ("medium.unis_over_coop", "about 0.98 (figure 4.7b)"),
    ];
    gap
}

fn occupancy_rule() -> Experiment {
    let (mut cases, mut pairs, mut without) = (Vec::new(), Vec::new(), Vec::new());
    for (flavour, cycles) in &FLAVOURS[..2] {
        for slice in SLICES {
            let group = format!("{flavour}.slice{slice}");
            let bed = chain(&[*cycles; LONG_CHAIN]);
            let of = |occupancy: bool| {
                let scheduler = format!("unis_gamma = {slice}\nunis_occupancy = {occupancy}\n");
                unis(&TestBed { scheduler, ..bed.clone() })
            };
            cases.push(case(&group, "rule", of(true), &[]));
            cases.push(case(&group, "no_rule", of(false), &[]));
        }
        let loss =
            |variant: &str| (format!("{flavour}.slice125.{variant}"), format!("{flavour}.slice75.{variant}"));
        pairs.push(loss("rule"));
        without.push(loss("no_rule"));
    }
    let mut rule = Experiment::new(
        "occupancy-rule",
        "five light or medium NFs on one core by the length of a time slice, in percent of what fills the ring behind, \
         with and without sampling the rings",
        "figures 4.11 and 4.12",
        cases,
    );
    rule.comparisons = vec![
        Comparison::new("occupancy_loss", Formula::Shortfall(pairs), "at most 0.03"),
        Comparison::new("occupancy_loss.no_rule", Formula::Shortfall(without), ""),
    ];
    rule.paper = &[
        ("occupancy_loss", "0.008-0.03 (section 4.4)"),
        ("occupancy_loss.no_rule", "0.12 light, 0.22 medium (figure 4.12)"),
    ];
    rule
}

/// The first NFs of a bed in one chain, the others in a second.
fn two_chains(first: &[u32], rate: f64, others: &[u32]) -> TestBed {
    let nfs = first.iter().chain(others).map(|&cycles| Work::Cycles(cycles)).collect();
    let (count, all) = (first.len(), first.len() + others.len());
    let chains = [((0..count).collect(), rate), ((count..all).collect(), OFFERED / 2.0)];
    let chains = chains.map(|(stages, rate): (Vec<usize>, f64)| Chain { stages, rate });
    let chains = chains.into_iter().filter(|chain| !chain.stages.is_empty()).collect();
    TestBed { buffers: Some(BUFFERS), ..unis(&TestBed::of(nfs, chains)) }
}

fn slo() -> Experiment {
    const READS: &[Reading] = &[Reading::Chains, Reading::Slices, Reading::Delay];
    let bounded = |bed: &TestBed, us| TestBed { asked: format!("delay_bound_us = {us}\n"), ..bed.clone() };
    let floors = two_chains(&[MEDIUM], OFFERED / 2.0, &[MEDIUM; 4]);
    let asked = TestBed { asked: format!("rate_floor = {FLOOR:.0}\n"), ..floors.clone() };
    let mut cases = vec![case("floor", "unis", floors, READS), case("floor", "unis_floor", asked, READS)];
    let mut kept = vec![Comparison::new(
        "floor.is_kept",
        Formula::Reach(vec!["floor.unis_floor.chain1".to_owned()], FLOOR * 0.98),
        "1",
    )];
    for (group, others) in [("alone", &[][..]), ("beside", &[HEAVY; CHAIN][..])] {
        let bed = two_chains(&[LIGHT; CHAIN], FEW, others);
        cases.push(case(group, "unis", bed.clone(), READS));
        for (variant, us) in BOUNDS {
            cases.push(case(group, variant, bounded(&bed, us), READS));
            let value = format!("{group}.{variant}.p99_over_bound");
            kept.push(Comparison::same(value.clone(), &value, "at most 1"));
        }
    }
    cases.push(case("seldom", "unis", two_chains(&[LIGHT; CHAIN], SELDOM, &[HEAVY; CHAIN]), READS));
    kept.push(Comparison::new(
        "seldom.is_delivered",
        Formula::Reach(vec!["seldom.unis.chain1".to_owned()], SELDOM * 0.95),
        "1",
    ));
    let mut slo = Experiment::new(
        "slo",
        "what is asked of a chain: 5 Mpps for a medium NF beside a chain of four, both overloaded (floor); 500, 1000 and \
         5000 us for 200 kpps through three light NFs, alone and beside three heavy ones with more than they take; a \
         packet now and then, beside these; switches and samples a second, the part of the core's time with \
         real-time priority, and what a switch takes",
        "chapter 5 (future work)",
        cases,
    );
    slo.comparisons = kept;
    slo
}

/// Ours, because the thesis's NFs are all its own: programs that nobody here wrote.
fn boxes() -> Experiment {
    let light = Work::Cycles(LIGHT);
    let chains = [
        ("testpmd3", vec![Work::Testpmd; CHAIN]),
        ("testpmd2_ours1", vec![Work::Testpmd, light, Work::Testpmd]),
    ];
    let (mut cases, mut comparisons) = (Vec::new(), Vec::new());
    for (group, nfs) in chains {
        let bed = TestBed { nfs, ..chain(&[0; CHAIN]) };
        let polling = |policy| TestBed { waits: Waits::Polling, ..bed.clone().scheduled(policy, Mode::Os) };
        cases.push(case(group, "os", polling(Policy::Normal), &[Reading::Nfs]));
        cases.push(case(group, "os_rr", polling(Policy::RoundRobin), &[Reading::Nfs]));
        cases.push(case(group, "unis", unis(&bed), &[Reading::Nfs]));
        for under in ["os", "os_rr"] {
            let (name, under) = (format!("{group}.over_{under}_polling"), joined(group, under));
            comparisons.push(Comparison::over(name, &joined(group, "unis"), &under, ""));
        }
    }
    let mut boxes = Experiment::new(
        "boxes",
        "three NFs that poll on one core, 64 B: dpdk-testpmd in macswap three times over memif, and twice with a \
         light NF of ours between: the kernel's schedulers, and time slices",
        "figure 1.1, with other NFs",
        cases,
    );
    boxes.comparisons = comparisons;
    boxes
}

#[cfg(test)]
mod tests;
