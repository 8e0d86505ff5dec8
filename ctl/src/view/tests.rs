use headgate_api::status::{
    ChainStatus, DelayStatus, DropStatus, Event, EventCode, FaultCounts, FaultStatus, FlowStatus,
    LatencyStatus, ManagerStatus, MemoryStatus, NfState, NfStatus, ObjectiveStatus, PortStatus,
    SchedulerStatus, ServiceStatus, Snapshot, StageDelayStatus, WorkerStatus,
};

use super::*;
use crate::output::Paint;

/// A manager that has worked for `seconds`: everything grows by the second.
fn after(seconds: u64) -> Snapshot {
    let packets = 1_200_000 * seconds;
    Snapshot {
        at_ns: seconds * 1_000_000_000,
        manager: ManagerStatus {
            name: "default".into(),
            pid: 42,
            version: "0.1.0".into(),
            cpu_ns: 1_030_000_000 * seconds,
            control_cores: vec![0],
            nf_socket: None,
            followed: None,
        },
        scheduler: SchedulerStatus {
            mode: "nfvnice".into(),
            limitations: vec!["no control group weighs CPU time here".into()],
            reserved: None,
            ..SchedulerStatus::default()
        },
        workers: vec![WorkerStatus {
            passes: 1000 * seconds,
            busy_passes: 370 * seconds,
            flows: 1000,
            flows_learnt: 1000 + seconds,
            ..WorkerStatus::default()
        }],
        memory: vec![MemoryStatus {
            domain: "default".into(),
            buffers: 16_384,
            stride_bytes: 2240,
            long_buffers: 0,
            bytes: 36_700_160,
            pages: "4 KiB".into(),
            free: Some(16_000),
            in_devices: Some(384),
            missing: Some(0),
        }],
        ports: vec![
            PortStatus {
                name: "west".into(),
                kind: "generator".into(),
                detail: "1000 flows".into(),
                received: packets,
                received_bytes: packets * 60,
                missed: 7 * seconds,
                faults: Some(FaultStatus {
                    received: FaultCounts { lost: 3 * seconds, corrupted: seconds, ..Default::default() },
                    sent: FaultCounts::default(),
                }),
                ..PortStatus::default()
            },
            PortStatus {
                name: "sink".into(),
                kind: "null".into(),
                sent: packets,
                latency: Some(LatencyStatus {
                    count: 9,
                    p50_ns: 41_000,
                    max_ns: 2_000_000,
                    ..Default::default()
                }),
                ..PortStatus::default()
            },
        ],
        nfs: vec![nf("fw", NfState::Running, packets), nf("mon", NfState::Waiting, 0)],
        chains: vec![
            ChainStatus { name: "-".into(), ..ChainStatus::default() },
            ChainStatus {
                name: "web".into(),
                entry: None,
                stages: vec!["fw".into(), "mon".into()],
                out: "sink".into(),
                service: Some(ServiceStatus {
                    path: 0x123,
                    index: 255,
                    next: Some("02:00:00:00:00:01".into()),
                }),
                entered: packets,
                made: 0,
                left: packets - 1000 * seconds,
                dropped: 1000 * seconds,
                wasted: 0,
                delay: delay(230_000),
                delay_histogram: None,
                delay_bound_ns: Some(500_000),
                window: Some(1200),
                objective: Some(ObjectiveStatus {
                    rate_floor: Some(2_000_000),
                    rate: Some(1_200_000.0),
                    floor_kept: Some(false),
                    delay_bound_ns: Some(500_000),
                    bound_kept: Some(false),
                }),
                stage_delays: vec![
                    StageDelayStatus {
                        stage: "fw".into(),
                        queueing: delay(40_000),
                        processing: delay(9_000),
                    },
                    StageDelayStatus { stage: "mon".into(), ..StageDelayStatus::default() },
                ],
                switch: None,
                in_nfs: Some(0),
                held: Some(0),
                missing: Some(0),
            },
        ],
        drops: vec![DropStatus {
            chain: "web".into(),
            reason: "nf-verdict".into(),
            sentence: "an NF decided to drop it".into(),
            count: 1000 * seconds,
        }],
        events: vec![Event::new(
            1_500_000,
            EventCode::NfReady,
            "fw",
            "ready 1400 us after its launch".into(),
        )],
        conserved: Some(true),
        bfd: Vec::new(),
        cluster: None,
        groups: Vec::new(),
        finished: false,
    }
}

/// A tail of three times the median.
fn delay(p50_ns: u64) -> Option<DelayStatus> {
    Some(DelayStatus { p50_ns, p99_ns: 3 * p50_ns })
}

fn nf(name: &str, state: NfState, packets: u64) -> NfStatus {
    let running = state == NfState::Running;
    NfStatus {
        nf: name.into(),
        instance: name.into(),
        runs: "firewall".into(),
        state,
        pid: running.then_some(77),
        core: 1,
        domain: "default".into(),
        failures: if running { 0 } else { 2 },
        last_failure: (!running).then(|| "killed by SIGKILL; 3 packets ended with it".into()),
        start_ns: Some(1_400_000),
        spare: "waiting".to_owned(),
        spare_pid: Some(4243),
        delivered: packets,
        returned: packets,
        held: if running { 512 } else { 0 },
        ring: 4096,
        cpu_ns: packets * 250,
        core_wait_ns: running.then_some(packets * 100),
        service_time_ns_mean: running.then_some(48.4),
        service_time_ns_p50: running.then_some(51),
        service_time_ns_p99: running.then_some(90),
        cpu_time_per_packet_ns: running.then_some(250),
        queueing: delay(40_000).filter(|_| running),
        processing: delay(9_000).filter(|_| running),
        service_time_overridden: running,
        arrivals_per_second: if running { 1_200_000.0 } else { 0.0 },
        priority: 2,
        policy: if running { "batch".into() } else { String::new() },
        share: running.then_some(0.75),
        drops: [("nf-verdict".to_owned(), packets / 1200), ("stage-full".to_owned(), 0)].into(),
        counters: [("accepted".to_owned(), packets)].into(),
        message: running.then(|| "hello\x1b[2J".into()),
        ..NfStatus::default()
    }
}

/// The tables of one second, as people see them. Committed, so that a change is a readable diff.
#[test]
fn a_second_of_work_reads_well() {
    let (before, after) = (after(1), after(2));
    let interval = Interval::between(&before, &after);
    let paint = Paint::default();
    let flow =
        FlowStatus { flow: "udp 10.0.0.1:1 > 10.0.0.2:2".into(), chain: "web".into(), idle_ns: 20_000_000 };
    let text = [
        headline(interval, paint),
        workers(interval, paint),
        ports(interval, paint),
        latencies(&after, paint),
        nfs_brief(interval, paint),
        nf_details(interval, paint),
        chains(interval, paint),
        objectives(&after, paint),
        delays(&after, paint),
        drops(&after, paint),
        memory(&after, paint),
        accounts(&after, paint),
        flows(&[flow], paint),
        events(&after.events, paint),
    ]
    .join("\n");
    let expected = include_str!("tests/second.txt");
    if text != expected {
        let place = std::env::temp_dir().join(format!("headgate-view-{}.txt", std::process::id()));
        std::fs::write(&place, &text).unwrap();
        panic!(
            "differs from view/tests/second.txt; if it is better, copy {} there:\n{text}",
            place.display()
        );
    }
}

#[test]
fn two_snapshots_of_one_instant_tell_no_rates() {
    let one = after(1);
    let interval = Interval::between(&one, &one);
    assert_eq!(interval.seconds(), 0.0);
    assert_eq!(interval.manager_cpu(), 0.0);
    assert_eq!(interval.nf(&one.nfs[0]).delivered, 0.0);
}

#[test]
fn what_is_new_began_at_zero() {
    let (mut before, after) = (after(1), after(2));
    before.nfs.clear();
    before.workers.clear();
    let interval = Interval::between(&before, &after);
    assert_eq!(interval.nf(&after.nfs[0]).delivered, 2_400_000.0);
    assert_eq!(interval.busy(0), 0.37);
}

#[test]
fn missing_packets_are_said() {
    let mut snapshot = after(1);
    snapshot.conserved = Some(false);
    snapshot.chains[1].missing = Some(-3);
    let paint = Paint::default();
    assert!(accounts(&snapshot, paint).starts_with("accounts do not hold"));
    let interval = Interval::between(&snapshot, &snapshot);
    assert!(chains(interval, paint).contains("missing"));
    snapshot.conserved = None;
    assert!(accounts(&snapshot, paint).starts_with("accounts were not taken"));
}

/// What a packet takes now, and not what it took on average since the start.
#[test]
fn a_service_time_is_that_of_the_interval() {
    let nf = |pid: u32, packets: u64, sum_ns: u64| NfStatus {
        pid: Some(pid),
        returned: packets,
        cpu_ns: 2 * sum_ns,
        service_time_packets: packets,
        service_time_sum_ns: sum_ns,
        service_time_ns_mean: (packets > 0).then(|| sum_ns as f64 / packets as f64),
        ..NfStatus::default()
    };
    let (start, end) = (Snapshot::default(), Snapshot { at_ns: 1_000_000_000, ..Snapshot::default() });
    let service = |before: &NfStatus, after: &NfStatus| {
        let rates = Interval::between(&start, &end).nf_since(before, after);
        (rates.service_time_ns, rates.busy)
    };
    // Costly for a million packets, cheap for the next.
    let (costly, cheap) = (nf(7, 1_000_000, 900_000_000), nf(7, 2_000_000, 980_000_000));
    assert_eq!(service(&costly, &cheap), (Some(80.0), Some(0.08)));
    // Nothing in between: what is known of its life. A new process: what is known of it.
    assert_eq!(service(&costly, &costly).0, Some(900.0));
    assert_eq!(service(&costly, &nf(8, 1_000, 50_000)).0, Some(50.0));
    assert_eq!(service(&NfStatus::default(), &NfStatus::default()).0, None);
}
