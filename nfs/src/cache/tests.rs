use super::*;
use headgate_nf::Verdict;
use headgate_nf::testing::{EngineChoice, Harness, Setup, check};
use headgate_nf::wire::frame::{Frame, Network, Transport};
use headgate_nf::wire::{MacAddress, udp};
use proptest::prelude::*;
use std::net::IpAddr;
use std::os::unix::fs::FileExt;

fn frame(flow: u16, number: u8) -> Vec<u8> {
    let (source, destination) =
        if flow.is_multiple_of(2) { ("10.0.0.1", "10.0.0.2") } else { ("2001:db8::1", "2001:db8::2") };
    let parse = |text: &str| text.parse::<IpAddr>().unwrap();
    let frame = Frame {
        destination: MacAddress([2, 0, 0, 0, 0, 2]),
        source: MacAddress([2, 0, 0, 0, 0, 1]),
        tags: [None, None],
        network: Network::between(parse(source), parse(destination)).unwrap(),
        transport: Transport::Udp(udp::Header { source_port: flow, destination_port: 53 }),
    };
    let mut bytes = vec![0; frame.headers_length() + 1];
    frame.write(&mut bytes, 1, |payload| payload.fill(number)).unwrap();
    bytes
}

fn dscp(frame: &[u8]) -> u8 {
    match frame[12] {
        0x08 => ipv4::Packet::new(&frame[14..]).map(|packet| {
            assert!(packet.verify_checksum());
            packet.dscp()
        }),
        _ => ipv6::Packet::new(&frame[14..]).map(|packet| packet.dscp()),
    }
    .unwrap()
}

/// A file of 1009 records, in which each flow's says what `record` does.
fn file(flows: std::ops::Range<u16>, record: impl Fn(u16) -> [u8; RECORD_BYTES]) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().unwrap();
    file.as_file().set_len(1009 * RECORD_BYTES as u64).unwrap();
    for flow in flows {
        let place = flow_of(&frame(flow, 0)).unwrap() % 1009;
        file.as_file().write_all_at(&record(flow), place * RECORD_BYTES as u64).unwrap();
    }
    file
}

fn cache(file: &tempfile::NamedTempFile, more: &str, disk: EngineChoice) -> Harness {
    let arguments = format!(r#"{{"path":"{}"{more}}}"#, file.path().display());
    Harness::new(Setup { disk, ..Setup::with(arguments) }, Cache::new).unwrap()
}

const ENGINES: [EngineChoice; 2] = [EngineChoice::Best, EngineChoice::Threads];

#[test]
fn each_flow_is_treated_as_its_record_says() {
    let file =
        file(0..6, |flow| Record { drops: flow >= 4, dscp: (flow >= 2).then_some(flow as u8 + 8) }.write());
    for engine in ENGINES {
        let mut harness = cache(&file, "", engine);
        let frames: Vec<_> = (0..60u8).map(|number| frame(u16::from(number % 6), number)).collect();
        for _ in 0..2 {
            for ((verdict, out), (number, before)) in harness.run(&frames).iter().zip((0..).zip(&frames)) {
                let flow = number % 6;
                assert_eq!(*verdict, if flow >= 4 { Verdict::Drop } else { Verdict::Next });
                assert_eq!(dscp(out), if flow == 2 || flow == 3 { flow + 8 } else { 0 });
                assert_eq!(out.last(), before.last());
            }
        }
        assert_eq!((harness.counter("misses"), harness.counter("errors")), (6, 0));
        assert_eq!(harness.counter("hits") + harness.counter("held"), 120);
        assert!(harness.counter("held") >= 6);
    }
}

#[test]
fn a_record_that_is_none_is_an_error_the_arguments_decide_on() {
    let file = file(0..1, |_| [7; RECORD_BYTES]);
    for (more, verdict) in [("", Verdict::Next), (r#","on_error":"drop""#, Verdict::Drop)] {
        let mut harness = cache(&file, more, EngineChoice::Best);
        let outcomes = harness.run(&[frame(0, 1), frame(2, 2), frame(0, 3)]);
        let verdicts: Vec<_> = outcomes.iter().map(|(verdict, _)| *verdict).collect();
        assert_eq!(verdicts, [verdict, Verdict::Next, verdict]);
        assert_eq!(harness.counter("errors"), 1);
    }
}

#[test]
fn a_file_that_was_cut_short_meanwhile_is_an_error_too() {
    let file = file(0..0, |_| unreachable!());
    for engine in ENGINES {
        let mut harness = cache(&file, r#","on_error":"drop""#, engine);
        file.as_file().set_len(0).unwrap();
        assert_eq!(harness.run(&[frame(0, 1)])[0].0, Verdict::Drop);
        file.as_file().set_len(1009 * RECORD_BYTES as u64).unwrap();
        // Nothing was kept of the failure.
        assert_eq!(harness.run(&[frame(0, 1)])[0].0, Verdict::Next);
    }
}

#[test]
fn the_file_is_made_once_and_must_hold_a_record() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("flows");
    let arguments = |more: &str| Setup::with(format!(r#"{{"path":"{}"{more}}}"#, path.display()));
    let made =
        |more: &str| Harness::new(arguments(more), Cache::new).map(|_| ()).map_err(|error| error.to_string());
    assert!(made("").unwrap_err().contains("No such file"));
    check(&arguments(r#","create":100"#).arguments, Cache::new).unwrap();
    assert!(!path.exists(), "a check made a file");
    made(r#","create":100"#).unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().len(), 6400);
    made(r#","create":7"#).unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().len(), 6400);
    std::fs::write(&path, [0; 63]).unwrap();
    assert!(made("").unwrap_err().contains("less than one record"));
    for wrong in [r#","create":0"#, r#","flows":0"#, r#","on_error":"bounce""#] {
        assert!(made(wrong).is_err(), "{wrong}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    /// Memory for few flows or for all, either engine: each packet comes back once, treated by its record,
    /// and no packet overtakes another of its flow.
    #[test]
    fn order_is_kept_in_each_flow(
        flows in prop::collection::vec(0u16..40, 1..400), most in 1usize..40, threads: bool, burst in 1usize..65,
    ) {
        let file = file(0..40, |flow| Record { drops: flow % 3 == 0, dscp: Some(flow as u8) }.write());
        let engine = if threads { EngineChoice::Threads } else { EngineChoice::Best };
        let mut harness = cache(&file, &format!(r#","flows":{most}"#), engine).with_bursts_of(burst);
        let frames: Vec<_> = flows.iter().map(|flow| frame(*flow, 0)).collect();
        // Two flows may share a record: the later one wrote it.
        let place = |flow: u16| flow_of(&frame(flow, 0)).unwrap() % 1009;
        let owner = |flow: u16| (0..40).rev().find(|other| place(*other) == place(flow)).unwrap();
        for (flow, (verdict, out)) in flows.iter().zip(harness.run(&frames)) {
            let owner = owner(*flow);
            prop_assert_eq!(verdict == Verdict::Drop, owner % 3 == 0);
            prop_assert!(verdict == Verdict::Drop || dscp(&out) == owner as u8);
        }
        for flow in 0..40 {
            let of_flow: Vec<_> = harness.order().iter().filter(|number| flows[**number] == flow).collect();
            prop_assert!(of_flow.is_sorted(), "flow {}: {:?}", flow, of_flow);
        }
        prop_assert_eq!(harness.counter("hits") + harness.counter("held"), flows.len() as u64);
    }
}

/// A packet that the cache lets pass when its record is there goes on to the NF behind it in the same
/// process, and no packet twice.
#[test]
fn held_packets_go_on_to_the_next_nf_of_the_process() {
    let file = file(0..4, |flow| Record { drops: flow == 3, dscp: None }.write());
    let folder = tempfile::tempdir().unwrap();
    let arguments = format!(
        r#"[{{}},{{"path":"{}"}},{{"path":"{}/a.pcapng"}}]"#,
        file.path().display(),
        folder.path().display()
    );
    let names = ["monitor", "cache", "packet-logger"];
    let members = names.map(|name| crate::catalog::find(name).unwrap().member()).into();
    let mut harness = Harness::fused(Setup::with(arguments), members).unwrap();
    let frames: Vec<_> = (0..100u8).map(|number| frame(u16::from(number % 4), number)).collect();
    let outcomes = harness.run(&frames);
    assert_eq!(outcomes.iter().filter(|(verdict, _)| *verdict == Verdict::Drop).count(), 25);
    harness.stop();
    assert_eq!(harness.counter("monitor.packets"), 100);
    assert_eq!(harness.counter("packet-logger.logged"), 75);
    let written = std::fs::read_dir(folder.path()).unwrap().next().unwrap().unwrap().path();
    let capture = headgate_nf::testing::pcap::Capture::read(&written).unwrap();
    let payloads: std::collections::BTreeSet<_> =
        capture.arrivals.iter().map(|arrival| *arrival.frame.last().unwrap()).collect();
    assert_eq!(payloads, (0..100).filter(|number| number % 4 != 3).collect());
}
