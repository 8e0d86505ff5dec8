use super::echo::Delays;
use super::*;
use headgate_api::status::{ChainStatus, DropStatus, NfStatus, PortStatus, StationStatus, WorkerStatus};
use headgate_config::{Catalog, Machine, ShippedNf, parse};
use headgate_host::accounting::{InterfaceCounters, MachineTime, ProcessTime};

fn options(quick: bool, rounds: Option<u32>) -> Options {
    Options { quick, rounds }
}

#[test]
fn a_quick_run_is_shorter() {
    let (quick, full) = (Pace::of(&options(true, None)), Pace::of(&options(false, None)));
    assert!(full.rounds >= 5 && quick.rounds >= 3 && quick.times.window_s < full.times.window_s);
    assert_eq!(Pace::of(&options(true, Some(1))).rounds, 1);
    let seconds = Duration::from_secs;
    assert!(quick.allows(seconds(0), seconds(0)) && quick.allows(seconds(40), seconds(15)));
    assert!(!quick.allows(seconds(45), seconds(15)));
    assert!(full.allows(seconds(600), seconds(60)));
}

#[test]
fn ratios_compare_what_is_measured_and_no_name_is_used_twice() {
    let measured = |name: &str| {
        [datagrams::CHAIN, datagrams::XDP].contains(&name)
            || VARIANTS.iter().any(|variant| [variant.goodput, variant.echo_p99].contains(&name))
    };
    assert!(RATIOS.iter().all(|(_, over, under)| measured(over) && measured(under)));
    let names = VARIANTS.iter().map(|variant| variant.goodput).chain(RATIOS.iter().map(|ratio| ratio.0));
    let all: std::collections::BTreeSet<_> = names.collect();
    assert_eq!(all.len(), VARIANTS.len() + RATIOS.len());
}

#[test]
fn the_configuration_is_accepted() {
    let forward = ShippedNf { name: "forward".to_owned(), takes_long_frames: true, ..ShippedNf::default() };
    let machine = Machine { cores: vec![0, 1], memory_bytes: 16 << 30, ..Machine::default() };
    let text = configuration(Placement { manager: 0, nfs: 1 }, "hg-left", "hg-right");
    let loaded = parse("bench.toml", &text, &Catalog::new(vec![forward]), &machine);
    let config = loaded.unwrap_or_else(|refused| panic!("{refused}\n{text}")).config;
    assert_eq!((config.nfs.len(), config.chains.len(), config.ports.len()), (3, 2, 2));
    assert!(config.nfs.iter().all(|nf| nf.cores == [1]));
}

fn sample(at: Instant, times: u32, snapshot: Option<Snapshot>) -> TransferSample {
    let ms = |ms: u32| Duration::from_millis(u64::from(ms * times));
    let count = u64::from(times);
    TransferSample {
        at: at + Duration::from_secs(u64::from(times) * 2),
        machine: MachineTime { busy: ms(3000), idle: ms(1000) },
        manager: ProcessTime { user: ms(400), system: ms(600) },
        client: ms(500),
        server: ms(300),
        interface: InterfaceCounters {
            received: 100 * count,
            received_bytes: 6_600 * count,
            sent: 200 * count,
            sent_bytes: 300_000 * count,
        },
        snapshot,
    }
}

fn manager(times: u64) -> Snapshot {
    let station =
        |name: &str, ns| StationStatus { station: name.to_owned(), time_ns: ns * times, packets: times };
    Snapshot {
        nfs: vec![NfStatus { cpu_ns: 200_000_000 * times, ..NfStatus::default() }; 3],
        workers: vec![WorkerStatus {
            passes: 1000 * times,
            busy_passes: 250 * times,
            stations: vec![station("arrive", 900), station("emit", 300)],
            ..WorkerStatus::default()
        }],
        chains: vec![ChainStatus { left: 3 * times, ..ChainStatus::default() }],
        ports: vec![PortStatus { missed: 2 * times, ..PortStatus::default() }],
        drops: vec![DropStatus { count: 5 * times, ..DropStatus::default() }],
        ..Snapshot::default()
    }
}

#[test]
fn a_transfer_is_told_in_cores_and_frames() {
    let at = Instant::now();
    let transfer = Transfer {
        goodput: 1e9,
        resent: 4.0,
        before: sample(at, 1, Some(manager(1))),
        after: sample(at, 2, Some(manager(2))),
        delays: Delays { took_ns: vec![1000, 2000, 9000], lost: 0 },
    };
    let mut round = Round::new();
    add(&VARIANTS[0], &transfer, &mut round);
    add_manager(&transfer, &interval(&transfer), &mut round);
    let expected = [
        ("headgate", 1e9),
        ("headgate_resent", 4.0),
        ("headgate_frames", 150.0),
        ("headgate_frame_bytes", 1500.0),
        ("headgate_cpu_client", 0.25),
        ("headgate_cpu_server", 0.15),
        ("headgate_cpu_user", 0.2),
        ("headgate_cpu_system", 0.3),
        ("headgate_cpu_nfs", 0.3),
        // 1.5 busy, less what is named above.
        ("headgate_cpu_rest", 0.3),
        ("headgate_idle", 0.5),
        ("headgate_busy_passes", 0.25),
        ("headgate_echo_us_p50", 2.0),
        ("headgate_echo_us_p99", 9.0),
        ("headgate_echo_lost", 0.0),
        ("headgate_lost", 7.0),
    ];
    for (name, value) in expected {
        assert!((round[name] - value).abs() < 1e-9, "{name}: {}", round[name]);
    }
    assert_eq!(round.len(), expected.len());
}

#[test]
fn stations_add_up_to_the_time_of_one_packet() {
    let at = Instant::now();
    let (before, after) = (sample(at, 1, Some(manager(1))), sample(at, 2, Some(manager(2))));
    let mut round = Round::new();
    add_stations(
        &interval(&Transfer { goodput: 0.0, resent: 0.0, before, after, delays: Delays::default() }),
        &mut round,
    );
    assert_eq!((round["arrive_ns"], round["emit_ns"], round["hop_ns"]), (300.0, 100.0, 0.0));
}
