//! A capture through chains of three NFs, compared packet by packet with what must come out.
//!
//! tshark, where it is installed, reads both captures and says what changed; the frames themselves are
//! compared byte by byte without it.

use std::net::IpAddr;
use std::path::Path;
use std::process::Command;

use headgate_tests::capture;
use headgate_tests::machine;
use headgate_tests::session::{Session, chain, drops, port};
use headgate_wire::frame::{Frame, Network, Transport};
use headgate_wire::vlan::Tag;
use headgate_wire::{MacAddress, ethernet, ipv4, tcp, udp, vlan};

const CLIENT: MacAddress = MacAddress([2, 0, 0, 0, 0, 1]);
const GATEWAY: MacAddress = MacAddress([2, 0, 0, 0, 0, 2]);
const UPLINK: MacAddress = MacAddress([2, 0, 0, 0, 0, 3]);
const PEER: MacAddress = MacAddress([2, 0, 0, 0, 0, 4]);
/// The port that the firewall of these tests denies.
const DENIED_PORT: u16 = 666;
/// Protocol number of IPv6's fragment header (RFC 8200, 4.5).
const IPV6_FRAGMENT: u8 = 44;

/// Expected end of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Passes,
    /// The firewall denies it.
    Denied,
    /// The headers contradict themselves: the frame is not let in.
    Malformed,
}

fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn frame(
    tags: [Option<Tag>; 2],
    source: &str,
    destination: &str,
    transport: Transport,
    payload: &[u8],
) -> Vec<u8> {
    let network = Network::between(address(source), address(destination)).unwrap();
    let headers = Frame { destination: GATEWAY, source: CLIENT, tags, network, transport };
    let mut bytes = vec![0; headers.headers_length() + payload.len()];
    headers.write(&mut bytes, payload.len(), |into| into.copy_from_slice(payload)).unwrap();
    bytes
}

fn to_port(destination_port: u16) -> Transport {
    Transport::Udp(udp::Header { source_port: 4000, destination_port })
}

fn segment(sequence: u32) -> Transport {
    Transport::Tcp(tcp::Header {
        source_port: 4001,
        destination_port: 443,
        sequence,
        acknowledgment: 7,
        flags: 0x18,
        window: 512,
    })
}

/// An untagged IPv4 frame in two parts, the second from byte `at` of its payload, a multiple of 8.
fn in_fragments(whole: &[u8], at: usize) -> [Vec<u8>; 2] {
    let payload = ethernet::HEADER_LENGTH + ipv4::HEADER_LENGTH;
    let part = |from: usize, to: usize, more: bool| {
        let mut bytes = [&whole[..payload], &whole[payload + from..payload + to]].concat();
        let header = &mut bytes[ethernet::HEADER_LENGTH..];
        let length = (ipv4::HEADER_LENGTH + to - from) as u16;
        header[2..4].copy_from_slice(&length.to_be_bytes());
        header[4..6].copy_from_slice(&0x4242u16.to_be_bytes());
        header[6..8].copy_from_slice(&(u16::from(more) << 13 | (from / 8) as u16).to_be_bytes());
        ipv4::Packet::new(header).unwrap().fill_checksum();
        bytes
    };
    let length = whole.len() - payload;
    [part(0, at, true), part(at, length, false)]
}

/// Two parts of an IPv6 packet, made by hand: `wire` writes no extension headers.
fn ipv6_fragments(payload: &[u8]) -> [Vec<u8>; 2] {
    let (source, destination) = ("2001:db8::1", "2001:db8:1::9");
    let whole = frame([None, None], source, destination, to_port(53), payload);
    let datagram = &whole[ethernet::HEADER_LENGTH + 40..];
    let cut = datagram.len() / 2 / 8 * 8;
    let part = |from: usize, to: usize, more: bool| {
        let field = (from as u16) | u16::from(more);
        let header = [&[17, 0][..], &field.to_be_bytes(), &0xdead_beefu32.to_be_bytes()].concat();
        let body = [&header[..], &datagram[from..to]].concat();
        frame([None, None], source, destination, Transport::Raw(IPV6_FRAGMENT), &body)
    };
    [part(0, cut, true), part(cut, datagram.len(), false)]
}

fn arp() -> Vec<u8> {
    let mut bytes = vec![0xff; 6];
    bytes.extend(CLIENT.0);
    bytes.extend([8, 6, 0, 1, 8, 0, 6, 4, 0, 1]);
    bytes.extend([&CLIENT.0[..], &[10, 0, 0, 1], &[0; 6], &[10, 0, 0, 2]].concat());
    bytes.resize(60, 0);
    bytes
}

/// Frames of every kind, each with its fate.
fn traffic() -> Vec<(Fate, Vec<u8>)> {
    let plain = [None, None];
    let tagged = [Some(Tag::customer(10)), None];
    let doubled = [Some(Tag::service(20)), Some(Tag::customer(10))];
    let (v4, v6) = (("10.0.0.1", "10.1.0.9"), ("2001:db8::1", "2001:db8:1::9"));
    let mut all = Vec::new();
    for number in 0..20u16 {
        let payload: Vec<u8> = (0..number * 70).map(|byte| byte as u8).collect();
        for tags in [plain, tagged, doubled] {
            for (source, destination) in [v4, v6] {
                let port = if number % 5 == 4 { DENIED_PORT } else { 53 };
                let fate = if port == DENIED_PORT { Fate::Denied } else { Fate::Passes };
                all.push((fate, frame(tags, source, destination, to_port(port), &payload)));
                let transport = segment(u32::from(number) * 1000);
                all.push((Fate::Passes, frame(tags, source, destination, transport, &payload)));
            }
        }
    }
    let icmp = [8, 0, 0xf7, 0xfd, 0, 1, 0, 1];
    all.push((Fate::Passes, frame(plain, v4.0, v4.1, Transport::Raw(1), &icmp)));
    all.extend(
        in_fragments(&frame(plain, v4.0, v4.1, to_port(53), &[7; 1400]), 800)
            .map(|part| (Fate::Passes, part)),
    );
    all.extend(ipv6_fragments(&[9; 1000]).map(|part| (Fate::Passes, part)));
    all.extend(malformed().into_iter().map(|frame| (Fate::Malformed, frame)));
    all
}

fn malformed() -> Vec<Vec<u8>> {
    let sound = frame([None, None], "10.0.0.1", "10.1.0.9", to_port(53), &[1; 40]);
    let changed = |at: usize, value: u8| {
        let mut bytes = sound.clone();
        bytes[at] = value;
        bytes
    };
    let ip = ethernet::HEADER_LENGTH;
    let mut long_options = frame([None, None], "10.0.0.1", "10.1.0.9", to_port(53), &[]);
    long_options[ip] = 0x4f;
    vec![
        long_options,          // a header of fifteen words in a packet of seven
        changed(ip, 0x44),     // a header of four words
        changed(ip, 0x65),     // version 6 behind the EtherType of version 4
        changed(ip + 2, 0xff), // a total length beyond the frame
        changed(ip + 3, 19),   // a total length below the header's
        sound[..ip + 19].to_vec(),
        frame([None, None], "2001:db8::1", "2001:db8::2", to_port(53), &[1; 40])[..ip + 39].to_vec(),
    ]
}

fn configuration(nfs: &str, chains: &str) -> String {
    format!(
        r#"
[manager]
name = "tests"
cores = [{{manager}}]
[memory]
buffers = 8192
hugepages = "never"
[[port]]
name = "in"
kind = "pcap"
read = "in.pcap"
[[port]]
name = "out"
kind = "pcap"
write = "out.pcapng"
{nfs}
{chains}
[[rule]]
in = "in"
chain = "path"
"#
    )
}

const FIREWALL: &str = r#"
[[nf]]
name = "wall"
run = "firewall"
core = {nf}
args = { default = "allow", rules = [{ action = "deny", protocol = "udp", destination_port = 666 }] }
"#;

/// Runs frames through a chain and returns what came out.
fn run(folder: &Path, frames: &[Vec<u8>], text: &str) -> (headgate_api::status::Snapshot, Vec<Vec<u8>>) {
    capture::write(&folder.join("in.pcap"), frames);
    let last = Session::once(&folder.join("capture.toml"), text).end();
    let out = capture::read_pcapng(&folder.join("out.pcapng"));
    assert_eq!(port(&last, "in").received, frames.len() as u64);
    assert_eq!(port(&last, "out").sent, out.len() as u64);
    (last, out)
}

fn assert_same(expected: &[Vec<u8>], out: &[Vec<u8>]) {
    for (number, (expected, got)) in expected.iter().zip(out).enumerate() {
        assert_eq!(expected, got, "packet {number} of what came out");
    }
    assert_eq!(expected.len(), out.len());
}

#[test]
fn through_mac_swap_firewall_and_monitor() {
    let folder = tempfile::tempdir().unwrap();
    let mut traffic = traffic();
    // Frames that are not IP pass the firewall.
    traffic.push((Fate::Passes, arp()));
    let nfs = format!(
        "{FIREWALL}\n[[nf]]\nname = \"swap\"\nrun = \"mac-swap\"\ncore = {{nf}}\n[[nf]]\nname = \"count\"\nrun = \"monitor\"\ncore = {{nf}}"
    );
    let chains = "[[chain]]\nname = \"path\"\nstages = [\"swap\", \"wall\", \"count\"]\nout = \"out\"";
    let frames: Vec<Vec<u8>> = traffic.iter().map(|(_, frame)| frame.clone()).collect();
    let (last, out) = run(folder.path(), &frames, &configuration(&nfs, chains));
    let count = |fate: Fate| traffic.iter().filter(|(is, _)| *is == fate).count() as u64;
    assert_eq!(drops(&last, "-", "malformed"), count(Fate::Malformed), "{:#?}", last.drops);
    assert_eq!(drops(&last, "path", "nf-verdict"), count(Fate::Denied));
    let expected: Vec<Vec<u8>> = passing(&traffic).map(|frame| swapped(frame)).collect();
    assert_same(&expected, &out);
    assert_eq!(chain(&last, "path").left, count(Fate::Passes));
    compare_by_tshark(folder.path(), &expected);
}

fn passing(traffic: &[(Fate, Vec<u8>)]) -> impl Iterator<Item = &Vec<u8>> {
    traffic.iter().filter(|(fate, _)| *fate == Fate::Passes).map(|(_, frame)| frame)
}

fn swapped(frame: &[u8]) -> Vec<u8> {
    [&frame[6..12], &frame[..6], &frame[12..]].concat()
}

/// The router writes new addresses on the link, takes a hop off and mends the checksum; the rest stays.
#[test]
fn through_firewall_monitor_and_router() {
    let folder = tempfile::tempdir().unwrap();
    let traffic = traffic();
    let router = format!(
        r#"
[[nf]]
name = "route"
run = "router"
core = {{nf}}
[nf.args]
routes = [
    {{ prefix = "10.1.0.0/16", port = "out", next_hop = "{PEER}" }},
    {{ prefix = "2001:db8:1::/48", port = "out", next_hop = "{PEER}" }},
]
[nf.args.interfaces.out]
mac = "{UPLINK}"
[nf.args.interfaces.in]
mac = "{GATEWAY}"
"#
    );
    let nfs = format!("{FIREWALL}\n{router}\n[[nf]]\nname = \"count\"\nrun = \"monitor\"\ncore = {{nf}}");
    let chains = "[[chain]]\nname = \"path\"\nstages = [\"wall\", \"count\", \"route\"]\nout = \"nf\"";
    let mut frames: Vec<Vec<u8>> = traffic.iter().map(|(_, frame)| frame.clone()).collect();
    // Neither of these is routed on: one has no hops left, one leads nowhere.
    let mut last_hop = frame([None, None], "10.0.0.1", "10.1.0.9", to_port(53), &[]);
    let header = &mut last_hop[ethernet::HEADER_LENGTH..];
    header[8] = 1;
    ipv4::Packet::new(header).unwrap().fill_checksum();
    frames.push(last_hop);
    frames.push(frame([None, None], "10.0.0.1", "192.0.2.1", to_port(53), &[]));
    let (last, out) = run(folder.path(), &frames, &configuration(&nfs, chains));
    let expected: Vec<Vec<u8>> = passing(&traffic).map(|frame| routed(frame)).collect();
    assert_same(&expected, &out);
    assert_eq!(chain(&last, "path").left, expected.len() as u64);
    compare_by_tshark(folder.path(), &expected);
}

/// Returns the frame that a router sends on, written down without the router's code.
fn routed(frame: &[u8]) -> Vec<u8> {
    let mut bytes = [&PEER.0[..], &UPLINK.0, &frame[12..]].concat();
    let at = vlan::Tags::parse(frame).unwrap().payload_offset;
    match bytes[at] >> 4 {
        4 => {
            bytes[at + 8] -= 1;
            bytes[at + 10..at + 12].fill(0);
            let words = bytes[at..at + 20].chunks(2).map(|word| u32::from(word[0]) << 8 | u32::from(word[1]));
            let sum: u32 = words.sum();
            let sum = (sum & 0xffff) + (sum >> 16);
            let checksum = !((sum & 0xffff) + (sum >> 16)) as u16;
            bytes[at + 10..at + 12].copy_from_slice(&checksum.to_be_bytes());
        }
        _ => bytes[at + 7] -= 1,
    }
    bytes
}

/// tshark reads the capture that came out as the one that was expected, and finds nothing wrong in it.
fn compare_by_tshark(folder: &Path, expected: &[Vec<u8>]) {
    if !machine::has_program("capture", "tshark") {
        return;
    }
    capture::write(&folder.join("expected.pcap"), expected);
    let wanted = fields(&folder.join("expected.pcap"));
    let got = fields(&folder.join("out.pcapng"));
    assert_eq!(wanted.lines().count(), expected.len());
    for (number, (wanted, got)) in wanted.lines().zip(got.lines()).enumerate() {
        assert_eq!(wanted, got, "packet {number} as tshark reads it");
    }
    assert_eq!(wanted.lines().count(), got.lines().count());
    assert!(!got.contains("Bad"), "{got}");
}

/// Returns the fields that tshark sees in each packet, one line each.
fn fields(file: &Path) -> String {
    let mut command = Command::new("tshark");
    command.arg("-n").arg("-r").arg(file).args(["-T", "fields", "-E", "separator=|"]);
    command.args([
        "-o",
        "ip.check_checksum:TRUE",
        "-o",
        "udp.check_checksum:TRUE",
        "-o",
        "tcp.check_checksum:TRUE",
    ]);
    // Packets are compared one by one: what depends on others would hide a difference.
    command.args([
        "-o",
        "ip.defragment:FALSE",
        "-o",
        "ipv6.defragment:FALSE",
        "-o",
        "tcp.desegment_tcp_streams:FALSE",
    ]);
    for field in [
        "eth.dst",
        "eth.src",
        "vlan.id",
        "eth.type",
        "ip.src",
        "ip.dst",
        "ip.ttl",
        "ip.checksum.status",
        "ip.id",
        "ip.frag_offset",
        "ip.len",
        "ipv6.src",
        "ipv6.dst",
        "ipv6.hlim",
        "ipv6.plen",
        "ipv6.fraghdr.offset",
        "udp.srcport",
        "udp.dstport",
        "udp.checksum.status",
        "tcp.srcport",
        "tcp.dstport",
        "tcp.seq_raw",
        "tcp.checksum.status",
        "icmp.type",
        "arp.opcode",
        "frame.len",
        "_ws.malformed",
    ] {
        command.args(["-e", field]);
    }
    let output = command.output().expect("tshark runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("tshark writes text")
}
