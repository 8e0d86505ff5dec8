//! The experiments of the paper (K. G. Kulkarni et al., NFVnice, SIGCOMM 2017, and Kulkarni's dissertation
//! of 2018, chapters 3 and 5), each as a table of cases. Numbers of figures and tables are the
//! dissertation's.
//!
//! Costs are in TSC cycles a packet and rates in packets per second, as the paper has them; where it
//! does not say, the constant does.

use std::path::Path;
use std::rc::Rc;

use super::bottlenecks;
use super::dynamic::Change;
use super::isolation::Transfer;
use super::sleeper;
use crate::lab::Machine;
use crate::lab::bed::{Chain, Mode, Policy, TestBed, Traffic, Work, line_rate};
use crate::lab::experiment::{
    Case, Comparison, Experiment, Formula, Measurement, Plot, grid, joined, one_or_all,
};
use crate::lab::measure::Reading;

/// Low, medium and high cost (section 5.4.3.1).
const COSTS: [u32; 3] = [120, 270, 550];
/// Costs of NFs on cores of their own (table 5.3).
const COSTS_OF_CORES: [u32; 3] = [550, 2200, 4500];
/// Costs of the NFs that two chains share (figure 5.7).
const COSTS_SHARED: [u32; 4] = [270, 120, 4500, 300];
/// Relative costs of the six NFs of figure 5.14b.
const DIVERSITY: [u32; 6] = [1, 2, 5, 20, 40, 60];
/// Cycles of one of these units. Our choice: at 100, the rates the paper names for the kernel alone (1.02
/// and 0.07 million a second) are what a core of its machine gives.
const DIVERSITY_CYCLES: u32 = 100;
/// Packets per second of each flow there: what the paper's lightest flow was served.
const DIVERSITY_RATE: f64 = 1e6;
/// Costs 1:3 of figure 5.14a. Our choice of cycles: a core serves less than a third of what is offered.
const DYNAMIC: [(u32, f64); 2] = [(400, 4e6), (1200, 4e6)];
/// The longest chain (figure 5.15).
const LENGTH_MAX: usize = 10;
/// NFs of `control`: what the control loop must manage with a hundredth of a core.
const CONTROL_NFS: usize = 16;
/// Packets per second of all UDP flows of `isolation`. Our choice: several times what the slow NF can do.
const UDP_RATE: f64 = 2e6;
/// UDP flows of `isolation` (section 5.4.4.4).
const UDP_FLOWS: u32 = 10;
/// Loads of `latency`, in percent of what the core can do by arithmetic. Our choice: from low to high.
const LOADS_PERCENT: [u32; 4] = [10, 25, 50, 75];
const OS_AND_NFVNICE: [Mode; 2] = [Mode::Os, Mode::Nfvnice];

/// Names of all experiments, in the paper's order.
pub const NAMES: [&str; 22] = [
    "costs",
    "motivation-load",
    "motivation-cost",
    "motivation-chain",
    "chain",
    "cores",
    "shared-instances",
    "two-bottlenecks",
    "sleeper",
    "variable-cost",
    "orders",
    "many",
    "workload-mix",
    "isolation",
    "disk",
    "dynamic",
    "fairness",
    "length",
    "watermarks",
    "latency",
    "control",
    "all",
];

/// The experiments of that name: one, or all of them; none for a name that is not in [`NAMES`].
#[must_use]
pub fn named(name: &str, machine: Machine) -> Vec<Experiment> {
    let one = |name: &str| {
        Some(match name {
            "costs" => costs(),
            "motivation-load" => motivation_load(),
            "motivation-cost" => motivation_cost(),
            "motivation-chain" => motivation_chain(),
            "chain" => chain(),
            "cores" => cores(),
            "shared-instances" => shared_instances(),
            "two-bottlenecks" => bottlenecks::experiment(),
            "sleeper" => sleeper::experiment(),
            "variable-cost" => variable_cost(),
            "orders" => orders(),
            "many" => many(machine.cycles_per_second),
            "workload-mix" => workload_mix(),
            "isolation" => isolation(),
            "disk" => disk(machine.folder),
            "dynamic" => dynamic(),
            "fairness" => fairness(),
            "length" => length(machine.nf_cores),
            "watermarks" => watermarks(),
            "latency" => latency(machine.cycles_per_second),
            "control" => control(),
            _ => return None,
        })
    };
    one_or_all(name, &NAMES, one)
}

const fn no_aim(_: &str) -> &'static str {
    ""
}

/// A route for every packet.
const ROUTER: &str = "{ routes = [{ prefix = \"0.0.0.0/0\", port = \"sink\", next_hop = \"02:00:00:00:00:02\" }], \
                      interfaces = { sink = { mac = \"02:00:00:00:00:01\" } } }";
/// Rules of which only the last is any packet's.
const FIREWALL: &str = "{ default = \"allow\", rules = [\
                        { action = \"deny\", protocol = \"tcp\", destination_port = 22 }, \
                        { action = \"deny\", protocol = \"tcp\", destination_port = 23 }, \
                        { action = \"deny\", source = \"192.168.0.0/16\" }, \
                        { action = \"deny\", destination = \"172.16.0.0/12\" }, \
                        { action = \"allow\", source = \"10.0.0.0/8\" }] }";

/// What the NFs that are shipped cost, beside what the paper has of such NFs.
fn costs() -> Experiment {
    let nfs =
        [("forward", ""), ("mac-swap", ""), ("router", ROUTER), ("firewall", FIREWALL), ("monitor", "")];
    let case = |(run, args): (&'static str, &'static str)| {
        let chain = Chain { stages: vec![0], rate: line_rate(64) };
        let bed = TestBed::of(vec![Work::Shipped(run, args)], vec![chain]);
        Case { variant: run, ..Case::new("", bed, &[Reading::Cost]) }
    };
    Experiment {
        paper: &[
            ("mac-swap.cycles", "about 70, L2 forwarding (table 3.1)"),
            ("router.cycles", "about 175, IP routing (table 3.1)"),
            ("firewall.cycles", "about 750, L2-4 classification (table 3.1)"),
        ],
        plot: Plot { value: "cycles", axis: "cycles for each packet" },
        ..Experiment::new(
            "costs",
            "NFs that are shipped, one at a time, at the rate of a 10 Gbit/s link: cycles for each packet of one flow; \
             the firewall has five rules, of which the last is the packet's",
            "table 3.1",
            nfs.map(case).to_vec(),
        )
    }
}

/// Even and uneven load on three NFs of these costs, side by side.
fn motivation(costs: [u32; 3]) -> Vec<Case> {
    const READS: &[Reading] = &[Reading::Chains, Reading::Nfs, Reading::Switches, Reading::Jain];
    // Section 3.2.2: 5 million each, or 6, 6 and 3.
    let loads = [("even", [5e6, 5e6, 5e6]), ("uneven", [6e6, 6e6, 3e6])];
    let mut cases = Vec::new();
    for (label, rates) in loads {
        let nfs: Vec<_> = costs.into_iter().zip(rates).collect();
        cases.extend(grid(&Policy::THREE, &OS_AND_NFVNICE, label, &TestBed::side_by_side(&nfs), READS));
    }
    cases
}

fn motivation_load() -> Experiment {
    Experiment {
        paper: &[
            ("normal.even.os.nf1.involuntary", "339 (table 3.2)"),
            ("normal.even.os.nf3.involuntary", "333 (table 3.2)"),
            ("batch.even.os.nf1.involuntary", "333 (table 3.2)"),
            ("rr.even.os.nf1.voluntary", "266 (table 3.2)"),
            ("normal.uneven.os.nf1.involuntary", "3544 (table 3.2)"),
            ("normal.uneven.os.nf3.voluntary", "9753 (table 3.2)"),
            ("batch.uneven.os.nf3.voluntary", "1007 (table 3.2)"),
            ("rr.uneven.os.nf3.voluntary", "248 (table 3.2)"),
        ],
        ..Experiment::new(
            "motivation-load",
            "three NFs of 250 cycles side by side on one core; 5 Mpps each, or 6, 6 and 3",
            "figure 3.1a, table 3.2",
            motivation([250; 3]),
        )
    }
}

fn motivation_cost() -> Experiment {
    Experiment {
        paper: &[
            ("normal.even.os.nf1.involuntary", "33785 (table 3.3)"),
            ("normal.even.os.nf3.voluntary", "65796 (table 3.3)"),
            ("batch.even.os.nf1.involuntary", "504 (table 3.3)"),
            ("batch.even.os.nf3.voluntary", "1010 (table 3.3)"),
            ("rr.even.os.nf3.voluntary", "206 (table 3.3)"),
            ("normal.uneven.os.nf1.involuntary", "38585 (table 3.3)"),
            ("normal.uneven.os.nf3.voluntary", "79479 (table 3.3)"),
            ("batch.uneven.os.nf3.voluntary", "1004 (table 3.3)"),
            ("rr.uneven.os.nf3.voluntary", "93 (table 3.3)"),
        ],
        ..Experiment::new(
            "motivation-cost",
            "three NFs of 500, 250 and 50 cycles side by side on one core; 5 Mpps each, or 6, 6 and 3",
            "figure 3.1b, table 3.3",
            motivation([500, 250, 50]),
        )
    }
}

fn motivation_chain() -> Experiment {
    // Section 3.2.2.3.
    let bed = TestBed::chain(&COSTS, 10e6);
    let cases = grid(&Policy::THREE, &OS_AND_NFVNICE, "", &bed, &[Reading::Nfs, Reading::Switches]);
    Experiment::new(
        "motivation-chain",
        "a chain of 120, 270 and 550 cycles on one core, 10 Mpps offered",
        "figure 3.2",
        cases,
    )
    .compare("nfvnice", "os", no_aim)
    .compare_waste("nfvnice")
}

/// The paper's figures for `chain`; delays of table 5.2 in microseconds.
const CHAIN_PAPER: &[(&str, &str)] = &[
    ("normal.nfvnice_over_os", "up to 2 (figure 5.6)"),
    ("batch.nfvnice_over_os", "up to 2 (figure 5.6)"),
    ("rr.nfvnice_over_os", "up to 2 (figure 5.6)"),
    ("rr_1ms.nfvnice_over_os", "up to 2 (figure 5.6)"),
    ("normal.os.nf1.wasted", "3.58 (table 5.1)"),
    ("normal.os.nf2.wasted", "2.02 (table 5.1)"),
    ("normal.nfvnice.nf1.wasted", "0.0112 (table 5.1)"),
    ("normal.nfvnice.nf2.wasted", "0.0123 (table 5.1)"),
    ("batch.os.nf1.wasted", "2 (table 5.1)"),
    ("batch.os.nf2.wasted", "0.9 (table 5.1)"),
    ("batch.nfvnice.nf1.wasted", "0 (table 5.1)"),
    ("batch.nfvnice.nf2.wasted", "0.0115 (table 5.1)"),
    ("rr_1ms.os.nf1.wasted", "0.86 (table 5.1)"),
    ("rr_1ms.os.nf2.wasted", "2.92 (table 5.1)"),
    ("rr_1ms.nfvnice.nf1.wasted", "0 (table 5.1)"),
    ("rr_1ms.nfvnice.nf2.wasted", "0.012 (table 5.1)"),
    ("rr.os.nf1.wasted", "0.53 (table 5.1)"),
    ("rr.os.nf2.wasted", "0.03 (table 5.1)"),
    ("rr.nfvnice.nf1.wasted", "0 (table 5.1)"),
    ("rr.nfvnice.nf2.wasted", "0.012 (table 5.1)"),
    ("normal.os.nf1.cpu", "33 % (run times of table 5.2)"),
    ("normal.os.nf2.cpu", "30 % (run times of table 5.2)"),
    ("normal.os.nf3.cpu", "31 % (run times of table 5.2)"),
    ("normal.nfvnice.nf1.cpu", "6 % (run times of table 5.2)"),
    ("normal.nfvnice.nf2.cpu", "42 % (run times of table 5.2)"),
    ("normal.nfvnice.nf3.cpu", "51 % (run times of table 5.2)"),
    ("normal.os.nf1.delay", "2 (table 5.2)"),
    ("normal.nfvnice.nf1.delay", "112 (table 5.2)"),
    ("normal.os.nf2.delay", "65 (table 5.2)"),
    ("normal.nfvnice.nf2.delay", "8 (table 5.2)"),
    ("normal.os.nf3.delay", "45 (table 5.2)"),
    ("normal.nfvnice.nf3.delay", "25 (table 5.2)"),
    ("batch.os.nf1.delay", "3 (table 5.2)"),
    ("batch.nfvnice.nf1.delay", "1613 (table 5.2)"),
    ("batch.os.nf2.delay", "1144 (table 5.2)"),
    ("batch.nfvnice.nf2.delay", "255 (table 5.2)"),
    ("batch.os.nf3.delay", "149 (table 5.2)"),
    ("batch.nfvnice.nf3.delay", "9 (table 5.2)"),
    ("rr_1ms.os.nf1.delay", "1022 (table 5.2)"),
    ("rr_1ms.nfvnice.nf1.delay", "730 (table 5.2)"),
    ("rr_1ms.os.nf2.delay", "570 (table 5.2)"),
    ("rr_1ms.nfvnice.nf2.delay", "612 (table 5.2)"),
    ("rr_1ms.os.nf3.delay", "885 (table 5.2)"),
    ("rr_1ms.nfvnice.nf3.delay", "479 (table 5.2)"),
    ("rr.os.nf1.delay", "924 (table 5.2)"),
    ("rr.nfvnice.nf1.delay", "809 (table 5.2)"),
    ("rr.os.nf2.delay", "537 (table 5.2)"),
    ("rr.nfvnice.nf2.delay", "473 (table 5.2)"),
    ("rr.os.nf3.delay", "703 (table 5.2)"),
    ("rr.nfvnice.nf3.delay", "646 (table 5.2)"),
];

fn chain() -> Experiment {
    let bed = TestBed::chain(&COSTS, line_rate(64));
    let mut cases = grid(&Policy::ALL, &Mode::ALL, "", &bed, &[Reading::Nfs, Reading::Switches]);
    let fused = TestBed { fused: true, ..bed.scheduled(Policy::Normal, Mode::Os) };
    cases.push(Case { variant: "fused", ..Case::new("normal", fused, &[Reading::Nfs]) });
    let aim = |name: &str| match name {
        "normal.nfvnice_over_os" | "batch.nfvnice_over_os" => "at least 1.8",
        _ => "",
    };
    let mut chain = Experiment::new(
        "chain",
        "a chain of 120, 270 and 550 cycles on one core, at the rate of a 10 Gbit/s link",
        "figure 5.6, tables 5.1 and 5.2",
        cases,
    )
    .compare("nfvnice", "os", aim)
    .compare_with_best("nfvnice", &Mode::ALL.map(Mode::name), "at least 0.97")
    .compare_waste("nfvnice");
    let fused =
        Comparison::over("normal.nfvnice_over_fused", "normal.nfvnice", "normal.fused", "at least 0.93");
    chain.comparisons.push(fused);
    chain.paper = CHAIN_PAPER;
    chain
}

fn cores() -> Experiment {
    let bed = TestBed { spread: true, ..TestBed::chain(&COSTS_OF_CORES, line_rate(64)) };
    let cases = grid(&[Policy::Normal], &OS_AND_NFVNICE, "", &bed, &[Reading::Nfs]);
    let mut cores = Experiment::new(
        "cores",
        "a chain of 550, 2200 and 4500 cycles, each on a core of its own as far as there are some",
        "table 5.3",
        cases,
    )
    .compare("nfvnice", "os", no_aim)
    .compare_waste("nfvnice");
    cores.nf_cores = 3;
    cores.paper = &[
        ("normal.os", "0.6 (table 5.3)"),
        ("normal.nfvnice", "0.6 (table 5.3)"),
        ("normal.os.nf1.served", "5.95 (table 5.3)"),
        ("normal.os.nf2.served", "1.18 (table 5.3)"),
        ("normal.os.nf3.served", "0.6 (table 5.3)"),
        ("normal.nfvnice.nf1.served", "0.82 (table 5.3)"),
        ("normal.nfvnice.nf2.served", "0.72 (table 5.3)"),
        ("normal.nfvnice.nf3.served", "0.6 (table 5.3)"),
        ("normal.os.nf1.cpu", "100 (table 5.3)"),
        ("normal.os.nf2.cpu", "100 (table 5.3)"),
        ("normal.os.nf3.cpu", "100 (table 5.3)"),
        ("normal.nfvnice.nf1.cpu", "11 (table 5.3)"),
        ("normal.nfvnice.nf2.cpu", "64 (table 5.3)"),
        ("normal.nfvnice.nf3.cpu", "100 (table 5.3)"),
        ("normal.os.nf1.wasted", "4.76 (table 5.3)"),
        ("normal.os.nf2.wasted", "0.58 (table 5.3)"),
        ("normal.nfvnice.nf1.wasted", "0.15 (table 5.3)"),
        ("normal.nfvnice.nf2.wasted", "0.07 (table 5.3)"),
    ];
    cores
}

fn shared_instances() -> Experiment {
    const READS: &[Reading] =
        &[Reading::Chains, Reading::Nfs, Reading::Bottleneck { chain: 1, nf: 2, cycles: COSTS_SHARED[2] }];
    let rate = line_rate(64) / 2.0;
    let chain = |stages: [usize; 3]| Chain { stages: stages.to_vec(), rate };
    let nfs = COSTS_SHARED.map(Work::Cycles).to_vec();
    let bed = TestBed { spread: true, ..TestBed::of(nfs, vec![chain([0, 1, 3]), chain([0, 2, 3])]) };
    let cases = grid(&[Policy::Normal], &OS_AND_NFVNICE, "", &bed, READS);
    let over_os = |number| {
        let (over, under) = (format!("normal.nfvnice.chain{number}"), format!("normal.os.chain{number}"));
        Comparison::over(format!("chain{number}.nfvnice_over_os"), &over, &under, "")
    };
    let mut shared = Experiment::new(
        "shared-instances",
        "chain 1 of 270, 120 and 300 cycles and chain 2 of 270, 4500 and 300 share the first and the last NF",
        "table 5.4, figure 5.8",
        cases,
    )
    .compare_waste("nfvnice");
    shared.nf_cores = 4;
    shared.comparisons.extend([
        over_os(1),
        over_os(2),
        Comparison::same("chain2_over_bottleneck", "normal.nfvnice.chain2_over_bottleneck", "0.98 to 1.02"),
    ]);
    shared.paper = &[
        ("normal.os.chain1", "3.26 (table 5.4)"),
        ("normal.nfvnice.chain1", "6.498 (table 5.4)"),
        ("normal.os.chain2", "0.582 (table 5.4)"),
        ("normal.nfvnice.chain2", "0.582 (table 5.4)"),
        ("normal.os.nf1.cpu", "78.6 (table 5.4)"),
        ("normal.nfvnice.nf1.cpu", "82.1 (table 5.4)"),
        ("normal.os.nf2.cpu", "52.8 (table 5.4)"),
        ("normal.nfvnice.nf2.cpu", "58 (table 5.4)"),
        ("normal.os.nf3.cpu", "100 (table 5.4)"),
        ("normal.nfvnice.nf3.cpu", "100 (table 5.4)"),
        ("normal.os.nf4.cpu", "60 (table 5.4)"),
        ("normal.nfvnice.nf4.cpu", "84 (table 5.4)"),
        ("chain1.nfvnice_over_os", "1.99 (table 5.4)"),
        ("chain2.nfvnice_over_os", "1.0 (table 5.4)"),
    ];
    shared.plot = Plot { value: "chain1", axis: "throughput of chain 1, Mpps" };
    shared
}

fn variable_cost() -> Experiment {
    let nfs = vec![Work::OneOf(COSTS.to_vec()); 3];
    let bed = TestBed::of(nfs, vec![Chain { stages: vec![0, 1, 2], rate: line_rate(64) }]);
    let cases = grid(&Policy::ALL, &Mode::ALL, "", &bed, &[]);
    Experiment::new(
        "variable-cost",
        "a chain of three NFs on one core; each packet costs 120, 270 or 550 cycles at each of them",
        "figure 5.9",
        cases,
    )
    .compare("nfvnice", "os", no_aim)
    .compare_with_best("nfvnice", &Mode::ALL.map(Mode::name), "at least 0.97")
    .compare_waste("nfvnice")
}

/// All orders of three.
const ORDERS: [[usize; 3]; 6] = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];

fn orders() -> Experiment {
    let words = ["low", "med", "high"];
    let (mut cases, mut comparisons) = (Vec::new(), Vec::new());
    for order in ORDERS {
        let bed = TestBed::chain(&order.map(|at| COSTS[at]), line_rate(64));
        let label = order.map(|at| words[at]).join("_");
        let switches = &[Reading::Switches];
        cases.extend(grid(&Policy::ALL, &OS_AND_NFVNICE, &label, &bed, switches));
        // It is alone on its core: the policy makes no difference.
        let fused = TestBed { fused: true, ..bed.scheduled(Policy::Normal, Mode::Os) };
        for policy in [Policy::Normal, Policy::Batch] {
            let group = joined(policy.name(), &label);
            let (name, over) = (joined(&group, "nfvnice_over_fused"), joined(&group, "nfvnice"));
            let under = joined(&label, "fused");
            comparisons.push(Comparison::over(name, &over, &under, "at least 0.93"));
        }
        cases.push(Case { variant: "fused", ..Case::new(label, fused, &[]) });
    }
    let mut orders = Experiment::new(
        "orders",
        "a chain of 120, 270 and 550 cycles on one core in each of their six orders",
        "figure 5.10",
        cases,
    )
    .compare("nfvnice", "os", no_aim)
    .compare_waste("nfvnice");
    orders.comparisons.extend(comparisons);
    orders.paper = &[
        ("rr.high_med_low.os", "less than 0.04 (section 5.4.4.2)"),
        ("rr.med_high_low.os", "less than 0.04 (section 5.4.4.2)"),
    ];
    orders
}

/// Chains of `many`, and their NFs.
const MANY_CHAINS: usize = 8;
const MANY_LENGTH: usize = 3;
/// Loads of `many`, in percent of what the core can do by arithmetic.
const MANY_LOADS_PERCENT: [u32; 2] = [50, 150];

fn many(cycles_per_second: f64) -> Experiment {
    const READS: &[Reading] = &[Reading::Chains, Reading::Switches, Reading::Latency];
    let most = cycles_per_second / f64::from(COSTS[0] * MANY_LENGTH as u32);
    let mut cases = Vec::new();
    for percent in MANY_LOADS_PERCENT {
        let rate = most * f64::from(percent) / 100.0 / MANY_CHAINS as f64;
        let chain = |stages: Vec<usize>| Chain { stages, rate };
        let apart = (0..MANY_CHAINS)
            .map(|number| chain((0..MANY_LENGTH).map(|at| number * MANY_LENGTH + at).collect()));
        let apart = TestBed::of(vec![Work::Cycles(COSTS[0]); MANY_CHAINS * MANY_LENGTH], apart.collect());
        let together = vec![chain((0..MANY_LENGTH).collect()); MANY_CHAINS];
        let together = TestBed::of(vec![Work::Cycles(COSTS[0]); MANY_LENGTH], together);
        let fused = TestBed { fused: true, ..together.scheduled(Policy::Normal, Mode::Os) };
        let load = format!("load{percent}");
        cases.extend(grid(&[Policy::Normal, Policy::Batch], &OS_AND_NFVNICE, &load, &apart, READS));
        cases.push(Case { variant: "fused", ..Case::new(load, fused, READS) });
    }
    let mut many = Experiment::new(
        "many",
        "eight chains of three NFs of 120 cycles each, all 24 on one core, at 50 and at 150 percent of what the \
         core can do by arithmetic; time from generator to null port",
        "not in the paper",
        cases,
    )
    .compare_waste("nfvnice");
    for policy in ["normal", "batch"] {
        let (over, group) = (format!("{policy}.load150.nfvnice"), format!("{policy}.load50.nfvnice"));
        let chains = (1..=MANY_CHAINS).map(|number| format!("{over}.chain{number}")).collect();
        let name = |value: &str| format!("{policy}.{value}");
        many.comparisons.extend([
            Comparison::over(name("load150.nfvnice_over_fused"), &over, "load150.fused", "at least 0.9"),
            Comparison::new(name("load150.chains_differ"), Formula::Spread(chains), "at most 0.03"),
            Comparison::same(name("load50.p50"), &joined(&group, "p50"), "at most 200"),
        ]);
    }
    many
}

fn workload_mix() -> Experiment {
    let mut cases = Vec::new();
    for flows in 1..=ORDERS.len() {
        let rate = line_rate(64) / flows as f64;
        let chain = |order: &[usize; 3]| Chain { stages: order.to_vec(), rate };
        // Homogeneous; the paper does not say which. Our choice: the medium one.
        let bed = TestBed::of(vec![Work::Cycles(COSTS[1]); 3], ORDERS[..flows].iter().map(chain).collect());
        cases.extend(grid(&Policy::ALL, &OS_AND_NFVNICE, &format!("type{flows}"), &bed, &[]));
    }
    Experiment::new(
        "workload-mix",
        "one to six flows through three NFs of 270 cycles on one core, each in another order",
        "figure 5.11",
        cases,
    )
    .compare("nfvnice", "os", no_aim)
    .compare_waste("nfvnice")
}

fn isolation() -> Experiment {
    let udp = |stages| Chain { stages, rate: UDP_RATE / f64::from(UDP_FLOWS) };
    let nfs: Vec<_> = [COSTS[0], COSTS[1], COSTS_OF_CORES[2]].map(Work::Cycles).to_vec();
    let transfer = Rc::new(Transfer::default());
    let mut cases = Vec::new();
    for (group, udp, flows) in [
        ("alone", udp(vec![2]), 0),
        ("past_udp", udp(vec![2]), UDP_FLOWS),
        ("with_udp", udp(vec![0, 1, 2]), UDP_FLOWS),
    ] {
        let bed = TestBed { spread: true, ..TestBed::of(nfs.clone(), vec![udp; flows as usize]) };
        let of = |&mode| {
            let bed = bed.clone().scheduled(Policy::Normal, mode);
            Case { measurement: Measurement::Own(transfer.clone()), ..Case::new(group, bed, &[]) }
        };
        cases.extend(OS_AND_NFVNICE.iter().map(of));
    }
    let over = |name: &'static str, mode: &str, fair: &str, aim| {
        Comparison::over(name, &joined("with_udp", mode), fair, aim)
    };
    let mut isolation = Experiment::new(
        "isolation",
        "TCP (iperf3) through NFs of 120 and 270 cycles, alone, beside ten UDP flows through one of 4500, and with \
         them in all three",
        "figure 5.12",
        cases,
    );
    isolation.comparisons = vec![
        over("tcp_with_udp_over_fair_part", "nfvnice", "past_udp.os", "at least 0.85"),
        over("tcp_with_udp_over_alone", "nfvnice", "alone.nfvnice", "at least 0.85 with cores of their own"),
        over("os.tcp_with_udp_over_fair_part", "os", "past_udp.os", ""),
        over("os.tcp_with_udp_over_alone", "os", "alone.os", ""),
        Comparison::same("udp_over_bottleneck", "with_udp.nfvnice.udp_over_bottleneck", "0.98 to 1.02"),
    ];
    isolation.nf_cores = 2;
    isolation.paper = &[
        ("alone.os", "4 (figure 5.12)"),
        ("with_udp.os", "0.01-0.03 (figure 5.12)"),
        ("with_udp.nfvnice", "3.3 (figure 5.12)"),
        ("tcp_with_udp_over_alone", "0.83 (figure 5.12)"),
        ("os.tcp_with_udp_over_alone", "0.003-0.008 (figure 5.12)"),
    ];
    isolation.plot = Plot { value: "", axis: "TCP goodput, Gbit/s" };
    isolation
}

fn disk(folder: &Path) -> Experiment {
    let folder = folder.display().to_string();
    let variants = [("os_sync", Mode::Os, true), ("os", Mode::Os, false), ("nfvnice", Mode::Nfvnice, false)];
    let mut cases = Vec::new();
    let mut comparisons = Vec::new();
    // Our choice of sizes: a power of four each.
    for frame_bytes in [64, 256, 1024] {
        let rate = line_rate(frame_bytes) / 2.0;
        let chain = |stages: &[usize]| Chain { stages: stages.to_vec(), rate };
        for (variant, mode, sync) in variants {
            let nfs = vec![Work::Cycles(COSTS[0]), Work::Log { folder: folder.clone(), sync }];
            let bed = TestBed {
                traffic: Traffic::Even(frame_bytes),
                ..TestBed::of(nfs, vec![chain(&[0, 1]), chain(&[0])])
            };
            let bed = bed.scheduled(Policy::Batch, mode);
            cases.push(Case { variant, ..Case::new(frame_bytes.to_string(), bed, &[Reading::Chains]) });
        }
        let name = |what: &str| format!("{frame_bytes}.{what}");
        comparisons.extend([
            Comparison::over(name("nfvnice_over_os_sync"), &name("nfvnice"), &name("os_sync"), ""),
            Comparison::over(name("async_over_sync"), &name("os"), &name("os_sync"), ""),
        ]);
    }
    let mut disk = Experiment::new(
        "disk",
        "two flows through one NF of 120 cycles; the packets of the first are then written to a file, by a \
         blocking write for each burst (os_sync) or asynchronously; by the size of frames, policy batch",
        "figure 5.13, table 3.4",
        cases,
    )
    .compare_waste("nfvnice");
    disk.comparisons.extend(comparisons);
    disk.paper = &[
        ("64.async_over_sync", "1.6-2.2 for a download through the logger (table 3.4)"),
        ("1024.async_over_sync", "1.6-2.2 for a download through the logger (table 3.4)"),
    ];
    disk
}

fn dynamic() -> Experiment {
    let of = |&mode| {
        let bed = TestBed::side_by_side(&DYNAMIC).scheduled(Policy::Normal, mode);
        Case { measurement: Measurement::Own(Rc::new(Change)), ..Case::new("", bed, &[]) }
    };
    let mut dynamic = Experiment::new(
        "dynamic",
        "two NFs of 400 and 1200 cycles with equal load on one core; for a while the first costs three times \
         as much",
        "figure 5.14a",
        OS_AND_NFVNICE.iter().map(of).collect(),
    );
    dynamic.comparisons = vec![
        Comparison::same("settle_ms", "nfvnice.settle_ms", "at most 300"),
        Comparison::same("jain.nfvnice", "nfvnice.jain", ""),
        Comparison::same("jain.os", "os.jain", ""),
    ];
    dynamic.paper = &[
        ("os.share_before", "50 (figure 5.14a)"),
        ("os.share_during", "50 (figure 5.14a)"),
        ("os.share_after", "50 (figure 5.14a)"),
        ("nfvnice.share_before", "25 (figure 5.14a)"),
        ("nfvnice.share_during", "50 (figure 5.14a)"),
        ("nfvnice.share_after", "25 (figure 5.14a)"),
    ];
    dynamic.plot = Plot { value: "share_during", axis: "CPU share of the first NF, %" };
    dynamic
}

fn fairness() -> Experiment {
    let mut cases = Vec::new();
    for diversity in 1..=DIVERSITY.len() {
        let nfs: Vec<_> =
            DIVERSITY[..diversity].iter().map(|cost| (cost * DIVERSITY_CYCLES, DIVERSITY_RATE)).collect();
        let bed = TestBed::side_by_side(&nfs);
        let of = |&mode| {
            let bed = bed.clone().scheduled(Policy::Normal, mode);
            Case::new(diversity.to_string(), bed, &[Reading::Chains, Reading::Nfs, Reading::Jain])
        };
        cases.extend(OS_AND_NFVNICE.iter().map(of));
    }
    let mut fairness = Experiment::new(
        "fairness",
        "one to six NFs whose costs are as 1:2:5:20:40:60, with 1 Mpps each, side by side on one core",
        "figures 5.14b and 5.14c",
        cases,
    )
    .compare_waste("nfvnice");
    fairness.comparisons.extend([
        Comparison::same("jain.os", "6.os.jain", ""),
        Comparison::same("jain.nfvnice", "6.nfvnice.jain", "at least 0.99"),
    ]);
    fairness.paper = &[
        ("jain.os", "0.62 (figure 5.14b)"),
        ("jain.nfvnice", "1.0 (figure 5.14b)"),
        ("6.os.jain", "0.62 (figure 5.14b)"),
        ("6.nfvnice.jain", "1.0 (figure 5.14b)"),
        ("6.os.chain1", "1.02 (section 5.4.4.6)"),
        ("6.os.chain6", "0.07 (section 5.4.4.6)"),
        ("6.os.nf1.cpu", "16.6 (section 5.4.4.6)"),
        ("6.os.nf6.cpu", "16.6 (section 5.4.4.6)"),
        ("6.nfvnice.nf1.cpu", "1 (section 5.4.4.6)"),
        ("6.nfvnice.nf6.cpu", "46 (section 5.4.4.6)"),
    ];
    fairness.plot = Plot { value: "jain", axis: "Jain's index of throughputs" };
    fairness
}

fn length(nf_cores: usize) -> Experiment {
    // Three cores as in the paper, where there are as many.
    let places: &[(&str, bool)] =
        if nf_cores >= 3 { &[("sc", false), ("mc", true)] } else { &[("sc", false)] };
    let mut cases = Vec::new();
    for &(place, spread) in places {
        for nfs in 1..=LENGTH_MAX {
            let costs: Vec<_> = COSTS.iter().copied().cycle().take(nfs).collect();
            let bed = TestBed { spread, ..TestBed::chain(&costs, line_rate(64)) };
            let of = |&mode| {
                let bed = bed.clone().scheduled(Policy::Normal, mode);
                Case::new(format!("{place}.{nfs}"), bed, &[Reading::Control])
            };
            cases.extend(OS_AND_NFVNICE.iter().map(of));
        }
    }
    let mut length = Experiment::new(
        "length",
        "chains of one to ten NFs of 120, 270 and 550 cycles in turn, on one core (sc) and on several (mc)",
        "figure 5.15",
        cases,
    )
    .compare("nfvnice", "os", no_aim)
    .compare_waste("nfvnice");
    length.nf_cores = if places.len() > 1 { 3 } else { 1 };
    length
}

/// High and low marks: the high one swept with 30 between, then the low one below 80 (section 5.4.2.1).
const MARKS: [(u32, u32); 10] =
    [(50, 20), (60, 30), (70, 40), (80, 50), (90, 60), (80, 79), (80, 75), (80, 70), (80, 60), (80, 40)];

/// The paper's choice.
const MARKS_CHOSEN: (u32, u32) = (80, 60);
/// Places of the rings of `watermarks`. Our choice: few enough that what the NFs before still have fills the
/// rest.
const MARKS_RING: u32 = 1024;

/// Where packets that an NF has worked on wait for room in the next ring (`hold`), marks make no difference.
/// So they are dropped there (`drop`), as on the paper's platform.
fn watermarks() -> Experiment {
    let group = |(high, low): (u32, u32)| format!("high{high}_low{low}");
    let of = |marks, (variant, scheduler): (&'static str, &str)| {
        let bed = TestBed {
            watermarks: Some(marks),
            ring: Some(MARKS_RING),
            scheduler: scheduler.to_owned(),
            ..TestBed::chain(&COSTS, line_rate(64))
        };
        Case { variant, ..Case::new(group(marks), bed, &[Reading::Switches]) }
    };
    let mut cases: Vec<_> = MARKS.into_iter().map(|marks| of(marks, ("drop", "pending = 0\n"))).collect();
    cases.push(of(MARKS_CHOSEN, ("hold", "")));
    let mut watermarks = Experiment::new(
        "watermarks",
        "the chain of 120, 270 and 550 cycles on one core with nfvnice, rings of 1024 and other watermarks, in percent \
         of a ring; packets that find the next ring full are dropped, and with the marks of the paper also held",
        "section 5.4.2.1",
        cases,
    );
    let waste = |marks, variant| joined(&joined(&group(marks), variant), "wasted_over_delivered");
    let chosen = joined(&group(MARKS_CHOSEN), "drop");
    let all = MARKS.into_iter().map(|marks| joined(&group(marks), "drop")).collect();
    let wasted = |name: &'static str, marks| {
        Comparison::over(name, &waste(marks, "drop"), &waste(MARKS_CHOSEN, "drop"), "")
    };
    watermarks.comparisons = vec![
        Comparison::new("high80_low60_over_best", Formula::OverBest(chosen, all), "at least 0.97"),
        wasted("waste_of_high80_low79_over_chosen", (80, 79)),
        wasted("waste_of_high90_low60_over_chosen", (90, 60)),
        wasted("waste_of_high50_low20_over_chosen", (50, 20)),
        Comparison::same("waste_where_held", &waste(MARKS_CHOSEN, "hold"), "at most 0.001"),
    ];
    watermarks.paper = &[("high80_low60.drop", "the paper's choice")];
    watermarks.plot = Plot { value: "wasted_over_delivered", axis: "wasted over delivered" };
    watermarks
}

fn latency(cycles_per_second: f64) -> Experiment {
    let most = cycles_per_second / f64::from(COSTS.iter().sum::<u32>());
    let loads = LOADS_PERCENT.map(|percent| (format!("load{percent}"), most * f64::from(percent) / 100.0));
    let overload = ("overload".to_owned(), line_rate(64));
    let mut cases = Vec::new();
    for (group, rate) in loads.into_iter().chain([overload]) {
        let bed = TestBed::chain(&COSTS, rate);
        let of = |&mode| {
            Case::new(group.clone(), bed.clone().scheduled(Policy::Normal, mode), &[Reading::Latency])
        };
        cases.extend(OS_AND_NFVNICE.iter().map(of));
    }
    let mut latency = Experiment::new(
        "latency",
        "the chain of 120, 270 and 550 cycles on one core at 10 to 75 percent of what the core can do, and at \
         the rate of a 10 Gbit/s link; time from generator to null port",
        "section 5.4 (8-20 us at low load, about 650 at high)",
        cases,
    );
    let over_os = |value: &str| {
        let (over, under) = (format!("load10.nfvnice.{value}"), format!("load10.os.{value}"));
        Comparison::over(format!("load10.{value}.nfvnice_over_os"), &over, &under, "about 1")
    };
    latency.comparisons = vec![over_os("p50"), over_os("p99")];
    latency.paper = &[
        ("load10.os.p50", "8-20"),
        ("load10.nfvnice.p50", "8-20"),
        ("overload.os.p50", "about 650"),
        ("overload.nfvnice.p50", "about 650"),
        ("load10.p50.nfvnice_over_os", "unchanged"),
    ];
    latency.plot = Plot { value: "p50", axis: "median latency, us" };
    latency
}

fn control() -> Experiment {
    let bed = TestBed::chain(&[COSTS[0]; CONTROL_NFS], line_rate(64));
    let cases = grid(&[Policy::Normal], &OS_AND_NFVNICE, "", &bed, &[Reading::Control]);
    let mut control = Experiment::new(
        "control",
        "what observing and deciding costs: a chain of 16 NFs of 120 cycles on one core, overloaded",
        "not in the paper",
        cases,
    )
    .compare_waste("nfvnice");
    let aim = "at most 0.01 of a core";
    control.comparisons.push(Comparison::same("control_cpu", "normal.nfvnice.control_cpu", aim));
    control.plot = Plot { value: "control_cpu", axis: "control thread, cores" };
    control
}

#[cfg(test)]
mod tests;
