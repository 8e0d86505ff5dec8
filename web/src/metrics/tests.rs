use std::path::Path;
use std::sync::Arc;

use headgate_api::status::{
    ChainStatus, DropStatus, HISTOGRAM_BOUNDS_NS, HistogramStatus, IoStatus, ManagerStatus, MemoryStatus,
    NfState, NfStatus, ObjectiveStatus, PortStatus, SchedulerStatus, Snapshot, TakenStatus, WorkerStatus,
};

use super::family::HISTOGRAMS_MAX;
use super::text;

/// One sample in the first bucket, two in the second, three beyond all bounds.
fn times() -> Option<HistogramStatus> {
    let mut counts = vec![0; HISTOGRAM_BOUNDS_NS.len() + 1];
    (counts[0], counts[1], counts[HISTOGRAM_BOUNDS_NS.len()]) = (1, 2, 3);
    Some(HistogramStatus { counts, sum_ns: 6_000_000_500 })
}

fn nf(instance: &str) -> NfStatus {
    NfStatus {
        nf: "fw".into(),
        instance: instance.into(),
        state: NfState::Running,
        delivered: 1000,
        returned: 990,
        held: 10,
        ring: 512,
        high_watermark: Some(409),
        low_watermark: Some(307),
        cpu_ns: 1_500_000_000,
        core_wait_ns: Some(250_000_000),
        share: Some(0.5),
        throttled: true,
        drops: [("nf-verdict".to_owned(), 7), ("stage-full".to_owned(), 0)].into(),
        service_time_histogram: times(),
        queueing_histogram: times(),
        ..NfStatus::default()
    }
}

fn chain(name: &str) -> ChainStatus {
    ChainStatus {
        name: name.into(),
        entered: 1_234_567_890_123,
        left: 1_234_567_890_000,
        dropped: 123,
        delay_histogram: times(),
        ..ChainStatus::default()
    }
}

fn snapshot() -> Snapshot {
    Snapshot {
        at_ns: 12_500_000_000,
        manager: ManagerStatus {
            name: "edge".into(),
            version: "0.1.0".into(),
            cpu_ns: 13_000_000_000,
            ..ManagerStatus::default()
        },
        scheduler: SchedulerStatus {
            mode: "nfvnice".into(),
            taken: vec![TakenStatus { core: 3, by: "programs".into(), part: 0.25, what: String::new() }],
            ..SchedulerStatus::default()
        },
        workers: vec![WorkerStatus { passes: 9, busy_passes: 4, flows: 2, ..WorkerStatus::default() }],
        memory: vec![MemoryStatus { domain: "default".into(), bytes: 4096, ..MemoryStatus::default() }],
        ports: vec![PortStatus {
            name: "west".into(),
            received: 5,
            received_bytes: 300,
            missed: 1,
            link: Some(true),
            ..PortStatus::default()
        }],
        nfs: vec![
            nf("fw.1"),
            // One on interfaces, of which no queue is seen.
            NfStatus { io: Some(IoStatus::default()), ..nf("fw.2") },
        ],
        chains: vec![
            chain("-"),
            ChainStatus {
                objective: Some(ObjectiveStatus { floor_kept: Some(false), ..ObjectiveStatus::default() }),
                ..chain("web")
            },
        ],
        drops: vec![DropStatus {
            chain: "web".into(),
            reason: "nf-verdict".into(),
            count: 123,
            ..DropStatus::default()
        }],
        ..Snapshot::default()
    }
}

#[test]
fn a_snapshot_is_as_committed() {
    let text = text(Some(Arc::new(snapshot()))).unwrap();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/metrics/metrics.txt");
    if std::env::var_os("HEADGATE_UPDATE_SNAPSHOTS").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        text == expected,
        "differs from {}; if it is better, run this test with HEADGATE_UPDATE_SNAPSHOTS=1:\n{text}",
        path.display()
    );
}

#[test]
fn a_manager_that_does_not_answer_is_one_sample() {
    let text = text(None).unwrap();
    let samples: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    assert_eq!(samples, ["headgate_up 0.0"]);
    assert!(text.ends_with("# EOF\n"));
}

/// A name that comes from a manager of another version, or from a liar, makes no line of its own.
#[test]
fn no_name_breaks_the_text() {
    let mut snapshot = snapshot();
    snapshot.chains[1].name = "a\"} 1\nheadgate_up 0\n\\".into();
    let text = text(Some(Arc::new(snapshot))).unwrap();
    let ups: Vec<&str> = text.lines().filter(|line| line.starts_with("headgate_up ")).collect();
    assert_eq!(ups, ["headgate_up 1.0"]);
    assert!(
        text.contains(r#"headgate_chain_entered_packets_total{chain="a\"} 1\nheadgate_up 0\n\\"}"#),
        "{text}"
    );
}

/// Ten thousand chains and a thousand instances, with names that people give.
#[test]
fn many_chains_and_nfs_stay_below_5_mb() {
    let name = |prefix: &str, number: usize| format!("{prefix}-{number:05}");
    let mut snapshot = snapshot();
    snapshot.chains = (0..10_000).map(|number| chain(&name("customer-web", number))).collect();
    let drop = |chain: &ChainStatus| DropStatus { chain: chain.name.clone(), ..snapshot.drops[0].clone() };
    snapshot.drops = snapshot.chains.iter().map(drop).collect();
    snapshot.nfs = (0..1000).map(|number| nf(&name("firewall", number))).collect();
    let text = text(Some(Arc::new(snapshot))).unwrap();
    eprintln!("{} bytes", text.len());
    assert!(text.len() < 5_000_000, "{} bytes", text.len());
    let histograms = |name: &str| text.lines().filter(|line| line.starts_with(name)).count();
    assert_eq!(histograms("headgate_chain_delay_seconds_count"), HISTOGRAMS_MAX);
    assert_eq!(histograms("headgate_nf_service_time_seconds_count"), HISTOGRAMS_MAX);
    let left_out = format!("\nheadgate_histograms_left_out {}.0\n", 11_000 - 2 * HISTOGRAMS_MAX);
    assert!(text.contains(&left_out));
}
