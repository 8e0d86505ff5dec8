use std::time::Duration;

use super::*;
use clap::Parser;
use headgate_api::status::{LatencyStatus, PortStatus, Snapshot, StationStatus, WorkerStatus};

#[derive(Parser)]
struct Line {
    #[command(subcommand)]
    command: crate::Command,
}

pub(super) fn options(words: &[&str]) -> Result<Options, clap::Error> {
    let line = Line::try_parse_from(["bench", "hop"].iter().chain(words))?;
    match line.command {
        crate::Command::Hop(options) => Ok(options),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_quick_run_is_shorter_and_not_fewer_than_five_rounds() {
    let quick = options(&["--quick"]).unwrap().pace();
    let full = options(&[]).unwrap().pace();
    assert!(quick.rounds >= 5 && quick.window < full.window);
    assert_eq!(options(&["--rounds", "2"]).unwrap().pace().rounds, 2);
}

#[test]
fn a_round_that_would_end_late_is_not_begun() {
    let s = Duration::from_secs;
    let quick = options(&["--quick"]).unwrap().pace();
    assert!(quick.allows(s(0), s(0)), "the first");
    assert!(quick.allows(s(30), s(10)));
    assert!(!quick.allows(s(50), s(12)));
    assert!(options(&[]).unwrap().pace().allows(s(600), s(100)));
}

#[test]
fn unknown_names_are_refused_and_known_ones_kept() {
    assert!(options(&["--only", "two"]).is_err());
    assert_eq!(options(&["--only", "one", "isolated_over_fused"]).unwrap().only.len(), 2);
}

#[test]
fn pages_are_compared_only_when_asked_for() {
    let names = |words: &[&str]| -> Vec<&str> {
        options(words).unwrap().wanted().iter().map(|variant| variant.name).collect()
    };
    assert_eq!(names(&["--pages"]), ["one_huge", "one_ordinary", "flows_1m_huge", "flows_1m_ordinary"]);
    assert!(!names(&[]).iter().any(|name| name.ends_with("_huge") || name.ends_with("_ordinary")));
    assert_eq!(names(&["--quick", "--only", "one_huge"]), ["one_huge"]);
}

fn interval(stations: &[(&str, u64, u64)], left: u64) -> Interval {
    let station = |&(name, time_ns, packets): &(&str, u64, u64)| StationStatus {
        station: name.to_owned(),
        time_ns,
        packets,
    };
    let worker = WorkerStatus { stations: stations.iter().map(station).collect(), ..WorkerStatus::default() };
    let chain = headgate_api::status::ChainStatus { left, ..Default::default() };
    let after = Snapshot { at_ns: 1, workers: vec![worker], chains: vec![chain], ..Snapshot::default() };
    Interval { before: Snapshot::default(), after }
}

fn variant(name: &str) -> Variant {
    VARIANTS.into_iter().find(|variant| variant.name == name).unwrap()
}

#[test]
fn a_further_hop_costs_what_three_have_more_than_one() {
    let mut round = Round::new();
    // Out: 4 ns. On into another NF: 10 ns.
    add_stations(&variant("stations_one"), &interval(&[("hop", 4_000, 1_000)], 1_000), &mut round);
    add_stations(&variant("stations_three"), &interval(&[("hop", 24_000, 3_000)], 1_000), &mut round);
    add_hop_cost(&mut round);
    assert_eq!(round["hop_ns"], 10.0);
}

#[test]
fn stations_are_told_by_packet_and_those_nobody_passed_are_not() {
    let mut round = Round::new();
    let stations = [("arrive", 900, 300), ("emit", 0, 0), ("tend", 500, 7)];
    add_stations(&variant("stations_one"), &interval(&stations, 100), &mut round);
    assert_eq!(round, Round::from([("one_arrive_ns", 3.0), ("one_tend_ns", 5.0)]));
}

#[test]
fn latency_is_told_in_microseconds() {
    let latency = LatencyStatus { p50_ns: 1_500, p99_ns: 20_000, ..LatencyStatus::default() };
    let sink = PortStatus { latency: Some(latency), ..PortStatus::default() };
    let after = Snapshot { ports: vec![PortStatus::default(), sink], ..Snapshot::default() };
    let mut round = Round::new();
    add_latency(&Interval { before: Snapshot::default(), after }, &mut round);
    assert_eq!(round, Round::from([("latency_10", 1.5), ("latency_10_p99", 20.0)]));
}
