use super::*;
use headgate_nf::testing::{Arrival, Harness, Setup, check};
use headgate_nf::wire::frame::{Frame, Network, Transport};
use headgate_nf::wire::{MacAddress, udp};
use headgate_nf::{Verdict, wire::vlan::Tag};
use proptest::prelude::*;
use std::collections::BTreeMap;

fn frame(source: &str, port: u16, payload: usize, tag: Option<Tag>) -> Vec<u8> {
    let source: IpAddr = source.parse().unwrap();
    let destination = if source.is_ipv4() { "10.0.0.2" } else { "2001:db8::2" }.parse().unwrap();
    let frame = Frame {
        destination: MacAddress([2, 0, 0, 0, 0, 2]),
        source: MacAddress([2, 0, 0, 0, 0, 1]),
        tags: [tag, None],
        network: Network::between(source, destination).unwrap(),
        transport: Transport::Udp(udp::Header { source_port: port, destination_port: 53 }),
    };
    let mut bytes = vec![0; frame.headers_length() + payload];
    frame.write(&mut bytes, payload, |payload| payload.fill(1)).unwrap();
    bytes
}

fn monitor(arguments: &str) -> Harness {
    Harness::new(Setup::with(arguments), Monitor::new).unwrap()
}

fn report(harness: &mut Harness) -> Json {
    harness.message("report").unwrap();
    serde_json::from_str(&harness.told().pop().unwrap()).unwrap()
}

proptest! {
    /// Against an ordered map: the same flows, packets and bytes, and nothing is held back.
    #[test]
    fn counts_what_a_plain_map_counts(packets in prop::collection::vec((0u16..6, 0usize..200, any::<bool>()), 1..200)) {
        let mut harness = monitor(r#"{"top":100}"#);
        let mut model: BTreeMap<(bool, u16), (u64, u64)> = BTreeMap::new();
        let mut frames = Vec::new();
        for (port, payload, ipv4) in packets {
            let frame = frame(if ipv4 { "10.0.0.1" } else { "2001:db8::1" }, port, payload, None);
            let counted = model.entry((ipv4, port)).or_default();
            *counted = (counted.0 + 1, counted.1 + frame.len() as u64);
            frames.push(frame);
        }
        prop_assert!(harness.run(&frames).iter().all(|(verdict, _)| *verdict == Verdict::Next));
        let report = report(&mut harness);
        prop_assert_eq!(&report["packets"], &json!(frames.len()));
        prop_assert_eq!(&report["bytes"], &json!(frames.iter().map(Vec::len).sum::<usize>()));
        let mut got = BTreeMap::new();
        for flow in report["top"].as_array().unwrap() {
            let ipv4 = flow["source"].as_str().unwrap().contains('.');
            let counted = (flow["packets"].as_u64().unwrap(), flow["bytes"].as_u64().unwrap());
            got.insert((ipv4, flow["source_port"].as_u64().unwrap() as u16), counted);
        }
        prop_assert_eq!(got, model);
    }
}

#[test]
fn a_report_names_the_largest_flows_first() {
    let mut harness = monitor(r#"{"top":2}"#);
    let mut arp = vec![0; 60];
    arp[..14].copy_from_slice(&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 6]);
    let tagged = frame("10.0.0.1", 7, 500, Some(Tag::customer(10)));
    harness.run(&[arp.clone(), tagged, frame("2001:db8::1", 9, 0, None), arp]);
    let top = report(&mut harness)["top"].take();
    assert_eq!(
        top[0],
        json!({ "source": "10.0.0.1", "destination": "10.0.0.2", "protocol": "udp", "source_port": 7,
                "destination_port": 53, "vlan": 10, "packets": 1, "bytes": 546 })
    );
    assert_eq!(
        top[1],
        json!({ "source": "02:00:00:00:00:01", "destination": "02:00:00:00:00:02", "ethertype": "0x0806",
                "packets": 2, "bytes": 120 })
    );
    assert_eq!(top.as_array().unwrap().len(), 2);
}

#[test]
fn a_flood_of_flows_finds_no_room_and_idle_flows_make_some() {
    let mut harness = monitor(r#"{"flows":10,"idle_timeout":"4s"}"#);
    let at = |seconds: u64, port: u16| Arrival {
        at: Duration::from_secs(seconds),
        ingress: 0,
        frame: frame("10.0.0.1", port, 0, None),
    };
    let flood: Vec<_> = (0..100).map(|port| at(0, port)).collect();
    harness.run_arrivals(&flood);
    assert_eq!([harness.counter("flows"), harness.counter("untracked")], [10, 90]);
    harness.run_arrivals(&[at(3, 3)]);
    harness.run_arrivals(&[at(6, 50)]);
    assert_eq!([harness.counter("flows"), harness.counter("untracked")], [11, 90]);
    let report = report(&mut harness);
    assert_eq!(report["flows_now"], 2, "the one that was busy and the new one");
}

#[test]
fn a_malformed_packet_belongs_to_no_flow_and_passes() {
    let mut harness = monitor("{}");
    let mut cut = frame("10.0.0.1", 1, 0, None);
    cut.truncate(30);
    assert_eq!(harness.run(&[cut])[0].0, Verdict::Next);
    assert_eq!(
        [harness.counter("malformed"), harness.counter("flows"), harness.counter("packets")],
        [1, 0, 1]
    );
}

#[test]
fn reports_come_by_themselves() {
    let mut harness = monitor(r#"{"report":"10s"}"#);
    harness.wait(Duration::from_secs(35));
    assert_eq!(harness.told().len(), 3);
}

#[test]
fn wrong_arguments_are_refused() {
    for (arguments, why) in [
        (r#"{"flows":0}"#, "`flows` is 0; it may be 1 to 1048576"),
        (r#"{"top":101}"#, "at most 100"),
        (r#"{"report":"0s"}"#, "longer than nothing"),
        (
            r#"{"idle_timeout":30}"#,
            "idle_timeout: expected a time such as \"500ms\", \"30s\", \"5m\" or \"1h\", found integer `30`",
        ),
        (r#"{"idle_timeout":"30"}"#, "`30` is not a time such as"),
    ] {
        let error = check(arguments, Monitor::new).unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    }
}
