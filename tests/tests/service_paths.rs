//! Service function paths (NSH, RFC 8300) with others before and behind: captures that tshark reads, and Open
//! vSwitch's userspace datapath as classifier and as the end of the path, in namespaces of this test.

use std::io::{Read as _, Write as _};
use std::net::{IpAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::thread;

use headgate_host::namespace::Namespace;
use headgate_host::network::{Mac, Offload, VethEnd};
use headgate_host::openvswitch::{Datapath, OpenVSwitch, PROGRAMS};
use headgate_host::{Pid, Signal, process};
use headgate_tests::session::{Session, assert_conserved, chain, drops, port};
use headgate_tests::{capture, machine};
use headgate_wire::frame::{Frame, Network, Transport};
use headgate_wire::nsh::{self, Base, Context, ServicePath, md_type, next_protocol};
use headgate_wire::{MacAddress, ethernet, udp};

const TEST: &str = "service_paths";
const OWN: MacAddress = MacAddress([2, 0, 0, 0, 0, 0xaa]);
const BEFORE: MacAddress = MacAddress([2, 0, 0, 0, 0, 0xbb]);
const CONTEXT: Context = Context { flow_hash: 0x0102_0304, ingress: 5, egress: 6, time_us: 7, digest: 8 };

/// A capture through a chain of two NFs to another capture.
const OF_CAPTURES: &str = r#"
[manager]
name = "tests"
cores = [{manager}]
[memory]
buffers = 4096
hugepages = "never"
[[port]]
name = "in"
kind = "pcap"
read = "in.pcap"
nsh = "02:00:00:00:00:aa"
[[port]]
name = "out"
kind = "pcap"
write = "out.pcapng"
nsh = "02:00:00:00:00:aa"
[[nf]]
name = "pass"
run = "forward"
core = {nf}
[[nf]]
name = "wall"
run = "firewall"
core = {nf}
args = { default = "allow", rules = [{ action = "deny", protocol = "udp", destination_port = 99 }] }
[[chain]]
name = "web"
stages = ["pass", "wall"]
out = "out"
nsh = { path = 0x123, next = "02:00:00:00:00:cc" }
[[rule]]
in = "in"
protocol = "udp"
chain = "web"
"#;

/// Returns a datagram to a port, from one of some senders.
fn datagram(sender: u8, destination_port: u16) -> Vec<u8> {
    let source = IpAddr::from([10, 0, 0, sender]);
    let header = Frame {
        destination: MacAddress([2, 0, 0, 0, 0, 2]),
        source: MacAddress([2, 0, 0, 0, 0, 1]),
        tags: [None, None],
        network: Network::between(source, IpAddr::from([192, 0, 2, 1])).unwrap(),
        transport: Transport::Udp(udp::Header { source_port: 1024, destination_port }),
    };
    let payload = 100 + usize::from(sender);
    let mut bytes = vec![0; header.headers_length() + payload];
    header.write(&mut bytes, payload, |payload| payload.fill(sender)).unwrap();
    bytes
}

/// Returns `payload` behind a service header that is addressed to the port.
fn behind(base: Base, path: u32, index: u8, metadata: &[u8], payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; ethernet::HEADER_LENGTH + nsh::FIXED_LENGTH + metadata.len()];
    let link = ethernet::Header { destination: OWN, source: BEFORE, ethertype: ethernet::ethertype::NSH };
    let rest = link.write(&mut bytes).unwrap();
    nsh::write(base, ServicePath { path, index }, metadata, rest).unwrap();
    bytes.extend_from_slice(payload);
    bytes
}

/// Returns frames as they come, each with what tshark is to read of it when it leaves; none where it ends.
fn traffic() -> Vec<(Vec<u8>, Option<String>)> {
    let (first, context) = (Base::of_type_1(), CONTEXT.to_bytes());
    let kept = "0x01020304|0x00050006|0x00000007|0x00000008";
    let told = |ttl: u8, kind: u8, context: &str, sender: u8| {
        Some(format!("02:00:00:00:00:cc|{ttl:#04x}|{kind}|3|291|253|{context}|10.0.0.{sender}"))
    };
    let variable = Base::from_bits(first.bits() & !0xf00 | u32::from(md_type::VARIABLE) << 8);
    let option = [&[0x12, 0x34, 0x56, 6][..], b"kept!!\0\0"].concat();
    let ipv4 = first.with_next_protocol(next_protocol::IPV4);
    vec![
        (behind(first, 0x123, 255, &context, &datagram(1, 53)), told(62, 1, kept, 1)),
        // One stage is behind it, and the firewall still before it.
        (behind(first, 0x123, 254, &context, &datagram(2, 53)), told(62, 1, kept, 2)),
        (behind(first, 0x123, 255, &context, &datagram(3, 99)), None),
        // All stages are.
        (behind(first, 0x123, 253, &context, &datagram(4, 99)), told(62, 1, kept, 4)),
        (behind(variable.with_ttl(0), 0x123, 255, &option, &datagram(5, 53)), told(63, 2, "|||", 5)),
        (behind(ipv4, 0x123, 255, &context, &datagram(6, 53)[14..]), told(62, 1, kept, 6)),
        (behind(first, 0x123, 252, &context, &datagram(7, 53)), None),
        (behind(first, 0x124, 255, &context, &datagram(8, 53)), None),
        (behind(first.with_ttl(1), 0x123, 255, &context, &datagram(9, 53)), None),
        (behind(first.with_next_protocol(5), 0x123, 255, &context, &datagram(10, 53)), None),
    ]
}

/// Returns what tshark reads in each packet of a capture, one line each.
fn fields(file: &Path, names: &[&str]) -> Vec<String> {
    let mut command = Command::new("tshark");
    command.arg("-n").arg("-r").arg(file).args(["-T", "fields", "-E", "separator=|", "-E", "occurrence=f"]);
    for name in names {
        command.args(["-e", name]);
    }
    let output = command.output().expect("tshark runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
}

const FIELDS: [&str; 11] = [
    "eth.dst",
    "nsh.ttl",
    "nsh.mdtype",
    "nsh.nextproto",
    "nsh.spi",
    "nsh.si",
    "nsh.contextheader",
    "nsh.metadataclass",
    "nsh.metadata",
    "ip.src",
    "_ws.malformed",
];

#[test]
fn tshark_reads_what_leaves() {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let (mut frames, mut expected): (Vec<_>, Vec<_>) = traffic().into_iter().unzip();
    frames.push(datagram(20, 53));
    expected.push(None);
    capture::write(&folder.path().join("in.pcap"), &frames);
    let session = Session::once(&folder.path().join("test.toml"), OF_CAPTURES);
    let last = session.end();
    assert_conserved(&last);
    assert_eq!((chain(&last, "web").entered, chain(&last, "web").left), (7, 6), "{:#?}", last.drops);
    for reason in ["nsh-index", "nsh-no-chain", "nsh-ttl", "nsh-protocol"] {
        assert_eq!(drops(&last, "-", reason), 1, "{reason}");
    }
    let service = chain(&last, "web").service.clone().expect("the chain is a service path");
    assert_eq!((service.path, service.index), (0x123, 255));
    assert_eq!(service.next.as_deref(), Some("02:00:00:00:00:cc"));
    if !machine::has_program(TEST, "tshark") {
        return;
    }
    let read = fields(&folder.path().join("out.pcapng"), &FIELDS);
    eprintln!("{read:#?}");
}
