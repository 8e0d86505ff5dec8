//! The tables: what each experiment measures, what it compares, and what the paper saw.

use std::rc::Rc;

use crate::lab::Machine;
use crate::lab::bed::TestBed;
use crate::lab::experiment::{Case, Comparison, Experiment, Formula, Measurement, Plot, joined};

use super::chain::{Chain, DEFAULT, Io, OVS_APART, Policy, Shared};

/// The experiments, and `all`.
pub const NAMES: [&str; 6] = ["drivers", "batch", "length", "policy", "combined", "all"];

/// Lengths of chains; the paper has 1 to 8.
const LENGTHS: [usize; 4] = [1, 2, 4, 8];
/// Packets of one system call (section 6.1: powers of two).
const BATCHES: [(u32, &str); 9] =
    [(1, "1"), (2, "2"), (4, "4"), (8, "8"), (16, "16"), (32, "32"), (64, "64"), (128, "128"), (256, "256")];
/// Batch scheduling with the longest slice the kernel grants today, where the paper has 800 ms.
const LONG: Policy = Policy { word: "batch", slice_us: Some(100_000), is_rising: false };
/// A shorter one, where the paper has 420 ms.
const MIDDLE: Policy = Policy { word: "batch", slice_us: Some(20_000), is_rising: false };
/// Real time, all of one priority.
const FIFO: Policy = Policy { word: "fifo", slice_us: None, is_rising: false };
/// Real time, each NF before the one that feeds it: what a call has sent is worked off before the next.
const RISING: Policy = Policy { word: "fifo", slice_us: None, is_rising: true };

const LATENCY: Plot = Plot { value: "p50", axis: "median latency, us" };

/// The experiments of that name: one, or all of them.
#[must_use]
pub fn named(name: &str, _: Machine) -> Vec<Experiment> {
    let shared = Rc::new(Shared::default());
    let makers: [fn(&Rc<Shared>) -> Experiment; 5] = [drivers, batch, length, policy, combined];
    let all = makers.into_iter().map(|make| make(&shared));
    all.filter(|experiment| name == "all" || experiment.name == name).collect()
}

fn case(group: impl Into<String>, variant: &'static str, chain: Chain) -> Case {
    let bed = TestBed::of(Vec::new(), Vec::new());
    Case { group: group.into(), variant, bed, measurement: Measurement::Own(Rc::new(chain)) }
}

const fn kernel(driver: &'static str, batch: u32, wiring: &'static str) -> Io {
    Io::Kernel { driver, batch, wiring }
}

/// Compares a value of one case with that of another.
fn over(name: &str, value: &str, over: &str, under: &str, aim: &'static str) -> Comparison {
    let formula = Formula::Over(joined(over, value), joined(under, value));
    Comparison::new(name.to_owned(), formula, aim)
}

fn drivers(shared: &Rc<Shared>) -> Experiment {
    let one = |io| Chain { io, ..Chain::baseline(shared) };
    Experiment {
        name: "drivers",
        about: "one router on one core, by what passes packets between it and the network",
        source: "SCC, figure 4",
        cases: vec![
            case("", "socket", one(kernel("packet", 1, "direct"))),
            case("", "socket_32", one(kernel("packet", 32, "direct"))),
            case("", "mapped", one(kernel("mapped", 32, "direct"))),
            case("", "uring", one(kernel("uring", 32, "direct"))),
            case("", "xdp", one(kernel("xdp", 32, "direct"))),
            case("", "socket_ovs", one(Io::Switched)),
            case("", "rings", one(Io::Rings)),
            case("", "kernel", one(Io::Routing)),
        ],
        comparisons: vec![
            over("socket_over_kernel.p50", "p50", "socket", "kernel", ""),
            over("kernel_over_rings.p50", "p50", "kernel", "rings", ""),
            over("ovs_over_socket.p50", "p50", "socket_ovs", "socket", ""),
            over("socket_32_over_socket", "", "socket_32", "socket", ""),
            over("mapped_over_socket", "", "mapped", "socket", ""),
            over("uring_over_socket", "", "uring", "socket", ""),
            over("xdp_over_socket", "", "xdp", "socket", "at least 3"),
        ],
        paper: &[
            ("socket.p50", "about 310 us"),
            ("kernel.p50", "about 70 us"),
            ("rings.p50", "8 us, DPDK"),
            ("socket_over_kernel.p50", "4"),
            ("kernel_over_rings.p50", "8"),
        ],
        plot: LATENCY,
        nf_cores: 1,
    }
}

fn batch(shared: &Rc<Shared>) -> Experiment {
    let mut cases = Vec::new();
    for frame_bytes in [64, 1500] {
        for (batch, word) in BATCHES {
            let chain =
                Chain { io: kernel("packet", batch, "direct"), frame_bytes, ..Chain::baseline(shared) };
            cases.push(case(format!("b{frame_bytes}"), word, chain));
        }
        for (driver, word) in [("mapped", "mapped_32"), ("uring", "uring_32"), ("xdp", "xdp_32")] {
            let chain = Chain { io: kernel(driver, 32, "direct"), frame_bytes, ..Chain::baseline(shared) };
            cases.push(case(format!("b{frame_bytes}"), word, chain));
        }
    }
    Experiment {
        name: "batch",
        about: "one router, by the packets of one system call and the size of frames",
        source: "SCC, figure 8 and table 7",
        cases,
        comparisons: vec![
            over("latency_1_over_32", "p50", "b64.1", "b64.32", "2 to 3"),
            over("latency_1_over_8", "p50", "b64.1", "b64.8", "2 to 3"),
            over("latency_1_over_32.b1500", "p50", "b1500.1", "b1500.32", "2 to 3"),
            over("throughput_32_over_1", "", "b64.32", "b64.1", "at least 3"),
            over("throughput_256_over_1", "", "b64.256", "b64.1", "at least 3"),
            over("throughput_mapped_over_1", "", "b64.mapped_32", "b64.1", "at least 3"),
            over("throughput_xdp_over_1", "", "b64.xdp_32", "b64.1", "at least 3"),
            over("calls_1_over_32", "calls", "b64.1", "b64.32", ""),
        ],
        paper: &[
            ("b64.1.p50", "270-310 us"),
            ("b64.2.p50", "80-115 us"),
            ("b64.8.p50", "80-115 us"),
            ("b64.32.p50", "80-115 us"),
            ("b1500.32.p50", "80-115 us"),
            ("b64.1.spread", "400-600 us"),
            ("b64.2.spread", "300 us"),
            ("latency_1_over_32", "2 to 3"),
            ("latency_1_over_8", "2 to 3"),
            ("latency_1_over_32.b1500", "2 to 3"),
        ],
        plot: LATENCY,
        nf_cores: 1,
    }
}

fn length(shared: &Rc<Shared>) -> Experiment {
    let of = |wiring, length| Chain { io: kernel("packet", 1, wiring), length, ..Chain::baseline(shared) };
    let cases = LENGTHS.iter().flat_map(|&length| {
        let group = format!("nfs{length}");
        let words = if length > 1 { &["direct", "bridge", "ovs"][..] } else { &["direct"] };
        words.iter().map(move |word| case(group.clone(), word, of(word, length)))
    });
    Experiment {
        name: "length",
        about: "1 to 8 routers on one core, one packet a call, the kernel's default policy",
        source: "SCC, figure 5 and table 5",
        cases: cases.collect(),
        comparisons: vec![
            over("latency_8_over_2", "p50", "nfs8.direct", "nfs2.direct", ""),
            over("bridge_over_direct.nfs4", "p50", "nfs4.bridge", "nfs4.direct", ""),
            over("ovs_over_direct.nfs4", "p50", "nfs4.ovs", "nfs4.direct", ""),
        ],
        paper: &[
            ("nfs1.direct.wait", "14.76, over OVS"),
            ("nfs2.ovs.wait", "18.80"),
            ("nfs4.ovs.wait", "30.20"),
            ("nfs8.ovs.wait", "74.36"),
            ("nfs1.direct.contention", "0"),
            ("nfs2.ovs.contention", "1.25"),
            ("nfs4.ovs.contention", "2.88"),
            ("nfs8.ovs.contention", "3.78"),
            ("nfs2.direct.contention", "1.39"),
            ("nfs4.direct.contention", "3.11"),
            ("nfs8.direct.contention", "4.17"),
        ],
        plot: LATENCY,
        nf_cores: 1,
    }
}

fn policy(shared: &Rc<Shared>) -> Experiment {
    let policies = [
        ("default", DEFAULT),
        ("batch_20ms", MIDDLE),
        ("batch_100ms", LONG),
        ("fifo", FIFO),
        ("rising", RISING),
    ];
    let mut cases = Vec::new();
    for length in &LENGTHS[1..] {
        for (word, policy) in policies {
            let io = kernel("packet", 1, "bridge");
            let chain = Chain { io, length: *length, policy, ..Chain::baseline(shared) };
            cases.push(case(format!("nfs{length}"), word, chain));
        }
    }
    for wiring in ["ovs", OVS_APART] {
        let chain = Chain { io: kernel("packet", 1, wiring), length: LENGTHS[1], ..Chain::baseline(shared) };
        cases.push(case(format!("nfs{}", LENGTHS[1]), wiring, chain));
    }
    Experiment {
        name: "policy",
        about: "2 to 8 routers on one core over bridges, one packet a call, by scheduling policy; and a switch on \
                their core or another",
        source: "SCC, figures 7 and 9",
        cases,
        comparisons: vec![
            over("latency_default_over_batch.nfs8", "p50", "nfs8.default", "nfs8.batch_100ms", ""),
            over("spread_default_over_batch.nfs8", "spread", "nfs8.default", "nfs8.batch_100ms", ""),
            over("latency_default_over_rising.nfs8", "p50", "nfs8.default", "nfs8.rising", ""),
            over("spread_default_over_rising.nfs8", "spread", "nfs8.default", "nfs8.rising", ""),
            over("two_cores_over_one", "", "nfs2.ovs_apart", "nfs2.ovs", ""),
        ],
        paper: &[
            ("latency_default_over_batch.nfs8", "1.3 to 4"),
            ("spread_default_over_batch.nfs8", "40, of 7 routers"),
        ],
        plot: LATENCY,
        nf_cores: 1,
    }
}

/// Combinations of `combined` that `headgate check` warns of.
const WARNED: [&str; 2] = ["rising_1", "rising_32"];

fn combined(shared: &Rc<Shared>) -> Experiment {
    let variants = [
        ("default_1", DEFAULT, "packet", 1),
        ("batch_1", LONG, "packet", 1),
        ("batch_2", LONG, "packet", 2),
        ("batch_32", LONG, "packet", 32),
        ("rising_1", RISING, "packet", 1),
        ("rising_32", RISING, "packet", 32),
        ("rising_uring", RISING, "uring", 32),
        ("rising_mapped", RISING, "mapped", 32),
        ("rising_xdp", RISING, "xdp", 32),
        ("fifo_xdp", FIFO, "xdp", 32),
    ];
    let mut cases = Vec::new();
    // As in the paper; a chain that is offered what it sustains; and half of that, which the slowest do as
    // well.
    for (name, length, offered_to, offered_percent) in [
        ("nfs1", 1, 1, 95),
        ("nfs4", 4, 1, 95),
        ("nfs8", 8, 1, 95),
        ("within4", 4, 4, 95),
        ("half4", 4, 4, 50),
    ] {
        for (word, policy, driver, batch) in variants {
            let io = kernel(driver, batch, "direct");
            let chain = Chain { io, length, policy, offered_to, offered_percent, ..Chain::baseline(shared) };
            cases.push(case(name, word, chain));
        }
    }
    let mut comparisons = Vec::new();
    for group in ["nfs4", "within4", "half4"] {
        for (word, ..) in &variants[1..] {
            let (base, other) = (format!("{group}.default_1"), format!("{group}.{word}"));
            let named = |what: &str| format!("{what}_default_1_over_{word}.{group}");
            comparisons.push(over(&named("latency"), "p50", &base, &other, "at least 3"));
            comparisons.push(over(&named("spread"), "spread", &base, &other, "at least 10"));
            comparisons.push(over(
                &format!("throughput_{word}_over_default_1.{group}"),
                "",
                &other,
                &base,
                if WARNED.contains(word) { "" } else { "at least 0.9" },
            ));
        }
    }
    Experiment {
        name: "combined",
        about: "1 to 8 routers on one core, back to back: policy and packets of one system call together",
        source: "SCC, figure 10 and table 8",
        cases,
        comparisons,
        paper: &[
            ("nfs4.default_1.contention", "3.11"),
            ("nfs8.default_1.contention", "4.17"),
            ("nfs4.batch_1.contention", "2.92"),
            ("nfs8.batch_1.contention", "2.82"),
            ("nfs4.batch_32.contention", "2.91"),
            ("nfs8.batch_32.contention", "2.98"),
        ],
        plot: LATENCY,
        nf_cores: 1,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;

    fn all() -> Vec<Experiment> {
        named("all", Machine { cycles_per_second: 2e9, folder: Path::new("/tmp"), nf_cores: 1 })
    }

    #[test]
    fn every_name_is_an_experiment() {
        let names: Vec<_> = all().iter().map(|experiment| experiment.name).collect();
        assert_eq!(names, NAMES[..5]);
        let machine = Machine { cycles_per_second: 2e9, folder: Path::new("/tmp"), nf_cores: 1 };
        assert!(NAMES[..5].iter().all(|name| named(name, machine).len() == 1));
    }

    #[test]
    fn what_is_compared_is_measured_and_no_two_cases_have_one_name() {
        const VALUES: [&str; 5] = ["p50", "spread", "contention", "wait", "calls"];
        for experiment in all() {
            let cases: BTreeSet<String> = experiment.cases.iter().map(Case::name).collect();
            assert_eq!(cases.len(), experiment.cases.len(), "{}", experiment.name);
            let is_measured = |value: &str| {
                let of_case = value.rsplit_once('.').filter(|(_, word)| VALUES.contains(word));
                cases.contains(of_case.map_or(value, |(case, _)| case))
            };
            let ratios: BTreeSet<&str> = experiment.comparisons.iter().map(|one| &*one.name).collect();
            for comparison in &experiment.comparisons {
                let Formula::Over(over, under) = &comparison.formula else { unreachable!("all are ratios") };
                assert!(is_measured(over) && is_measured(under), "{comparison:?}");
            }
            for (name, _) in experiment.paper {
                assert!(is_measured(name) || ratios.contains(name), "{}: {name}", experiment.name);
            }
        }
    }
}
