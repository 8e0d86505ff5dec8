use std::process::Command;
use std::time::Duration;

use headgate_nf::testing::pcap::Capture;
use headgate_nf::testing::{Harness, MadeFrame, Setup};
use headgate_nf::wire::MacAddress;
use headgate_nf::wire::frame::{Frame, Network, Transport};
use headgate_nf::wire::vlan::Tag;
use headgate_nf::wire::{ip::protocol, udp};
use headgate_nf::{Verdict, Way};

use super::*;
use crate::firewall::Firewall;

fn firewall(more: &str) -> Harness {
    let arguments = format!(
        r#"{{"rules":[{{"action":"reject","protocol":"icmp","name":"pings"}}],"default":"reject"{more}}}"#
    );
    Harness::new(Setup::with(arguments), Firewall::new).unwrap()
}

fn packet(source: &str, destination: &str, transport: Transport, tags: usize) -> Vec<u8> {
    let network = Network::between(source.parse().unwrap(), destination.parse().unwrap()).unwrap();
    let tag = |number| (number < tags).then(|| Tag::customer(number as u16 + 1));
    let (source, destination) = (MacAddress([2, 0, 0, 0, 0, 1]), MacAddress([2, 0, 0, 0, 0, 2]));
    let frame = Frame { destination, source, tags: [tag(0), tag(1)], network, transport };
    let mut bytes = vec![0; frame.headers_length() + 40];
    frame.write(&mut bytes, 40, |payload| payload.fill(8)).unwrap();
    bytes
}

const fn syn() -> Transport {
    let flags = tcp::flag::SYN;
    Transport::Tcp(tcp::Header {
        source_port: 4000,
        destination_port: 23,
        sequence: 99,
        acknowledgment: 0,
        flags,
        window: 9,
    })
}

const fn datagram() -> Transport {
    Transport::Udp(udp::Header { source_port: 4000, destination_port: 53 })
}

const HERE: (&str, &str) = ("10.0.0.1", "192.0.2.9");
const HERE6: (&str, &str) = ("2001:db8::1", "2001:db8:f::9");

/// Returns an independent parser's output for frames, one line each with its details; none where it is not
/// installed.
fn tcpdump(frames: &[MadeFrame]) -> Option<String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("answers.pcap");
    let frames: Vec<_> = frames.iter().map(|made| made.frame.clone()).collect();
    Capture::of(&frames).write(&path).unwrap();
    let Ok(output) = Command::new("tcpdump").args(["-nevv", "-r"]).arg(&path).output() else {
        eprintln!("skipped: no tcpdump here");
        return None;
    };
    Some(String::from_utf8(output.stdout).unwrap())
}

#[test]
fn senders_are_told_in_frames_that_tcpdump_finds_right() {
    let mut firewall = firewall("");
    for (source, destination) in [HERE, HERE6] {
        for tags in 0..3 {
            let frames =
                [packet(source, destination, syn(), tags), packet(source, destination, datagram(), tags)];
            let outcomes = firewall.run(&frames);
            assert!(outcomes.iter().all(|(verdict, _)| *verdict == Verdict::Drop));
            let made = firewall.made();
            assert_eq!(made.len(), 2);
            for (number, made) in made.iter().enumerate() {
                assert_eq!(made.follows, Some(number));
                assert!(matches!(made.way, Some(Way::Port(port)) if port.number() == 0));
            }
            let Some(said) = tcpdump(&made) else { continue };
            assert!(!said.contains("incorrect") && !said.contains("bad cksum"), "{said}");
            assert!(said.contains("02:00:00:00:00:02 > 02:00:00:00:00:01"), "{said}");
            assert!(
                said.contains("Flags [R.], cksum") && said.contains("(correct), seq 0, ack 140"),
                "{said}"
            );
            let prohibited = ["admin prohibited", "unreachable prohibited", "administratively prohibited"];
            assert!(prohibited.iter().any(|words| said.contains(words)), "{said}");
            assert_eq!(
                said.matches(&format!("vlan {tags},")).count(),
                if tags == 0 { 0 } else { 2 },
                "{said}"
            );
        }
    }
    assert_eq!(["rejected", "answered", "unanswered"].map(|name| firewall.counter(name)), [12, 12, 0]);
    firewall.message("report").unwrap();
    assert!(firewall.told()[0].contains(r#""rejected":12"#));
}

#[test]
fn nothing_is_said_where_it_must_not_be() {
    let mut firewall = firewall("");
    let (source, destination) = HERE;
    let reset = Transport::Tcp(tcp::Header { flags: tcp::flag::RST, ..tcp::Header::default() });
    let mut fragment = packet(source, destination, datagram(), 0);
    fragment[21] = 9;
    ipv4::Packet::new(&mut fragment[14..]).unwrap().fill_checksum();
    let mut to_all = packet(source, destination, datagram(), 0);
    to_all[0] = 0xff;
    let mut error = packet(source, destination, Transport::Raw(protocol::ICMPV4), 0);
    error[34..36].copy_from_slice(&[3, 1]);
    let silent = [
        packet(source, destination, reset, 0),
        packet(source, "224.0.0.9", datagram(), 0),
        packet("127.0.0.1", destination, syn(), 0),
        fragment,
        to_all,
        error.clone(),
    ];
    assert!(firewall.run(&silent).iter().all(|(verdict, _)| *verdict == Verdict::Drop));
    assert_eq!(firewall.made(), []);
    assert_eq!(["rejected", "answered", "unanswered"].map(|name| firewall.counter(name)), [6, 0, 6]);
    error[34] = 8;
    firewall.run(&[error]);
    assert_eq!(
        (firewall.made().len(), firewall.counter("rule.pings")),
        (1, 2),
        "an echo request is no error"
    );
}

#[test]
fn answers_are_limited() {
    let mut firewall = firewall(r#","reject_rate":10"#);
    let (source, destination) = HERE;
    let frames = vec![packet(source, destination, syn(), 0); 64];
    firewall.run(&frames);
    firewall.run(&frames);
    assert_eq!(firewall.made().len(), 50);
    firewall.wait(Duration::from_secs(1));
    firewall.run(&frames);
    assert_eq!(firewall.made().len(), 10);
    assert_eq!(["rejected", "answered", "unanswered"].map(|name| firewall.counter(name)), [192, 60, 132]);
    let mut mute = self::firewall(r#","reject_rate":0"#);
    mute.run(&frames);
    assert_eq!((mute.made().len(), mute.counter("unanswered")), (0, 64));
}

#[test]
fn frames_that_are_not_ip_are_not_rejected() {
    let setup = Setup::with(r#"{"rules":[],"non_ip":"reject"}"#);
    let error = Harness::new(setup, Firewall::new).err().unwrap().to_string();
    assert!(error.starts_with("non_ip: nothing can be told about frames that are not IP"), "{error}");
}
