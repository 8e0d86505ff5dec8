//! Service function paths (NSH, RFC 8300) with others before and behind: captures that tshark reads, and Open
//! vSwitch's userspace datapath as classifier and as the end of the path, in namespaces of this test.

use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::net::{IpAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use headgate_api::status::{NfState, Snapshot};
use headgate_host::namespace::Namespace;
use headgate_host::network::{Mac, Offload, VethEnd};
use headgate_host::openvswitch::{Datapath, OpenVSwitch, PROGRAMS};
use headgate_tests::patience::Patience;
use headgate_tests::programs::Running;
use headgate_tests::session::{PATIENCE, Session, assert_conserved, chain, drops, port};
use headgate_tests::{capture, machine};
use headgate_wire::frame::{Frame, Network, Transport};
use headgate_wire::nsh::{self, Base, Context, ServicePath, md_type, next_protocol};
use headgate_wire::{MacAddress, ethernet, udp};

const TEST: &str = "service_paths";
const OWN: MacAddress = MacAddress([2, 0, 0, 0, 0, 0xaa]);
const BEFORE: MacAddress = MacAddress([2, 0, 0, 0, 0, 0xbb]);
const CONTEXT: Context =
    Context { flow_hash: 0x0102_0304, ingress: 5, egress: 6, time_us: 7, target: 0, digest: 8 };

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

/// Returns frames as they come, and what tshark is to read of those that leave.
fn traffic() -> (Vec<Vec<u8>>, Vec<String>) {
    let (first, context) = (Base::of_type_1(), CONTEXT.to_bytes());
    let variable = Base::from_bits(first.bits() & !0xf00 | u32::from(md_type::VARIABLE) << 8);
    let option = [&[0x12, 0x34, 0x56, 6][..], b"kept!!\0\0"].concat();
    let ipv4 = first.with_next_protocol(next_protocol::IPV4);
    let frames = vec![
        behind(first, 0x123, 255, &context, &datagram(11, 53)),
        // One stage is behind it, and the firewall still before it.
        behind(first, 0x123, 254, &context, &datagram(12, 53)),
        behind(first, 0x123, 255, &context, &datagram(13, 99)),
        // All stages are.
        behind(first, 0x123, 253, &context, &datagram(14, 99)),
        behind(variable.with_ttl(0), 0x123, 255, &option, &datagram(15, 53)),
        behind(ipv4, 0x123, 255, &context, &datagram(16, 53)[14..]),
        behind(first, 0x123, 252, &context, &datagram(17, 53)),
        behind(first, 0x124, 255, &context, &datagram(18, 53)),
        behind(first.with_ttl(1), 0x123, 255, &context, &datagram(19, 53)),
        behind(first.with_next_protocol(5), 0x123, 255, &context, &datagram(20, 53)),
        datagram(21, 53),
    ];
    let line = |inside: &str, ttl: u8, kind: u8, rest: &str, sender: u8| {
        format!("02:00:00:00:00:cc,{inside}|{ttl:#06x}|{kind}|3|291|253|{rest}|10.0.0.{sender}")
    };
    let (inside, kept) = ("02:00:00:00:00:02", "01020304,00050006,00000007,00000008||");
    let plain = datagram(21, 53);
    let hash = nsh::flow_hash(&plain, plain.len());
    let expected = vec![
        line(inside, 62, 1, kept, 11),
        line(inside, 62, 1, kept, 12),
        line(inside, 62, 1, kept, 14),
        line(inside, 63, 2, "|4660|6b6570742121", 15),
        line("02:00:00:00:00:aa", 62, 1, kept, 16),
        line(inside, 63, 1, &format!("{hash:08x},00000000,TIME,00000000||"), 21),
    ];
    (frames, expected)
}

/// Returns what tshark reads in each packet of a capture, one line each.
fn fields(file: &Path, names: &[&str]) -> Vec<String> {
    let mut command = Command::new("tshark");
    command.arg("-n").arg("-r").arg(file).args(["-T", "fields", "-E", "separator=|", "-E", "occurrence=a"]);
    for name in names {
        command.args(["-e", name]);
    }
    let output = command.output().expect("tshark runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
}

const FIELDS: [&str; 10] = [
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
];

#[test]
fn tshark_reads_what_leaves() {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let (frames, expected) = traffic();
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
    let mut read = fields(&folder.path().join("out.pcapng"), &FIELDS);
    read.sort_unstable_by_key(|line| line.rsplit_once('.').map(|(_, sender)| sender.to_owned()));
    // When the last one came is not known.
    let words: Vec<&str> = read.last().map(|line| line.split(',').collect()).unwrap_or_default();
    let time = words.get(3).copied().unwrap_or_default().to_owned();
    let read: Vec<String> = read.iter().map(|line| line.replace(&time, "TIME")).collect();
    assert_eq!(read, expected);
}

/// Two ports that take service headers, and a chain for each direction. No rule: what comes without ends.
const BETWEEN_SWITCHES: &str = r#"
[manager]
name = "tests"
cores = [{manager}]
[memory]
buffers = 4096
hugepages = "never"
[[port]]
name = "west"
interface = "hg-west"
nsh = true
[[port]]
name = "east"
interface = "hg-east"
nsh = true
[[nf]]
name = "pass"
run = "forward"
core = {nf}
[[nf]]
name = "count"
run = "monitor"
core = {nf}
[[nf]]
name = "back"
run = "forward"
core = {nf}
[[chain]]
name = "there"
stages = ["pass", "count"]
out = "east"
nsh = { path = 0x123, next = "02:00:00:00:00:0e" }
[[chain]]
name = "back"
stages = ["back"]
out = "west"
nsh = { path = 0x456, index = 7, next = "02:00:00:00:00:0d" }
"#;

const SERVER: &str = "192.0.2.2:9000";
const BYTES: usize = 4 << 20;

/// A host on each side of a switch, which is the classifier before a manager and the end of the path behind
/// it.
///
/// ```text
/// client === c    w === hg-west (manager) hg-east === e    s === server
///             switch                                  switch (the same)
/// ```
struct Bed {
    client: Namespace,
    server: Namespace,
    switching: Namespace,
    middle: Namespace,
    _switch: OpenVSwitch,
    folder: tempfile::TempDir,
}

/// Ports of the switch, in the order of their numbers from 1.
const SWITCH_PORTS: [&str; 4] = ["c", "w", "e", "s"];

/// What comes from a host gets a header of MD type 1 or 2 and goes to the manager; what comes from there
/// loses it.
const FLOWS: [&str; 4] = [
    "in_port=1,actions=encap(nsh(md_type=1)),set_field:0x123->nsh_spi,set_field:255->nsh_si,\
     set_field:0x11223344->nsh_c1,set_field:0x55667788->nsh_c4,encap(ethernet),\
     set_field:02:00:00:00:00:01->eth_dst,set_field:02:00:00:00:00:0d->eth_src,output:2",
    "in_port=3,dl_type=0x894f,nsh_spi=0x123,nsh_si=253,actions=decap(),decap(),output:4",
    "in_port=4,actions=encap(nsh(md_type=2,tlv(0x1000,10,0x12345678))),set_field:0x456->nsh_spi,\
     set_field:7->nsh_si,encap(ethernet),set_field:02:00:00:00:00:02->eth_dst,\
     set_field:02:00:00:00:00:0e->eth_src,output:3",
    "in_port=2,dl_type=0x894f,nsh_spi=0x456,nsh_si=6,actions=decap(),decap(),output:1",
];

impl Bed {
    fn new() -> Self {
        let new = || Namespace::new().expect("root makes a namespace");
        let (client, server, switching, middle) = (new(), new(), new(), new());
        let join = |near: &Namespace, names: [&str; 2], macs: [u8; 2], mtu: u32| {
            let [own, other] = macs.map(|last| Mac([2, 0, 0, 0, 0, last]));
            let near_end = VethEnd { name: names[0], mac: own };
            let far_end = VethEnd { name: names[1], mac: other };
            near.join(&switching, [near_end, far_end], mtu).expect("root makes a cable");
            for (place, name) in [(near, names[0]), (&switching, names[1])] {
                let mut links = place.links().expect("root sets up interfaces");
                links.set_offload(name, Offload::TransmitChecksum, false).expect("a setting");
            }
        };
        // The cables between have room for the headers.
        join(&client, ["c0", "c"], [0x0a, 0x0c], 1500);
        join(&server, ["s0", "s"], [0x0b, 0x0f], 1500);
        join(&middle, ["hg-west", "w"], [0x01, 0x0d], 1600);
        join(&middle, ["hg-east", "e"], [0x02, 0x0e], 1600);
        for (host, name, last) in [(&client, "c0", 1), (&server, "s0", 2)] {
            let mut links = host.links().expect("root sets up interfaces");
            links.add_address(name, IpAddr::from([192, 0, 2, last]), 24).expect("an address");
        }
        let folder = tempfile::tempdir().expect("a folder can be made");
        let switch = OpenVSwitch::start(&switching, folder.path(), Datapath::Netdev).expect("it starts");
        let bed = Self { client, server, switching, middle, _switch: switch, folder };
        for (number, name) in (1..).zip(SWITCH_PORTS) {
            let request = format!("ofport_request={number}");
            let words = ["add-port", "switch", name, "--", "set", "interface", name, &request];
            let database = format!("--db=unix:{}", bed.folder.path().join("db.sock").display());
            bed.run("ovs-vsctl", &[&[database.as_str(), "--timeout=5"][..], &words].concat());
        }
        for flow in FLOWS {
            bed.run("ovs-ofctl", &["-O", "OpenFlow13", "add-flow", "switch", flow]);
        }
        bed
    }

    /// Runs a program of the switch.
    fn run(&self, program: &str, words: &[&str]) -> String {
        let mut command = self.switching.command(program).expect("the namespace can be entered");
        for folder in ["OVS_RUNDIR", "OVS_LOGDIR", "OVS_DBDIR", "OVS_SYSCONFDIR"] {
            command.env(folder, self.folder.path());
        }
        let output = command.args(words).output().expect("it runs");
        assert!(output.status.success(), "{program} {words:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Sends from the client to the server, and back; returns when all has arrived.
    fn transfer(&self) {
        let listener = self.server.run(|| TcpListener::bind(SERVER)).unwrap().expect("the port is free");
        let echo = thread::spawn(move || {
            let (mut connection, _) = listener.accept().expect("somebody connects");
            let mut received = vec![0; BYTES];
            connection.read_exact(&mut received).expect("the connection holds");
            connection.write_all(&received).expect("the connection holds");
        });
        let connect = || TcpStream::connect(SERVER);
        let mut connection = self.client.run(connect).unwrap().expect("the server answers");
        let bytes: Vec<u8> = (0..BYTES).map(|at| (at * 7 / 256) as u8).collect();
        connection.write_all(&bytes).expect("the connection holds");
        let mut back = vec![0; BYTES];
        connection.read_exact(&mut back).expect("the connection holds");
        assert!(back == bytes, "what came back is what was sent");
        echo.join().expect("the server does not panic");
    }
}

/// A capture of an interface of the switch's, until it is stopped.
struct Capture(Running);

impl Capture {
    fn start(bed: &Bed, interface: &str, file: &Path) -> Self {
        let mut command = bed.switching.command("tcpdump").expect("the namespace can be entered");
        command.args(["-U", "-Z", "root", "-i", interface, "-c", "400", "-w"]).arg(file);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let running = Running::start(command);
        let mut patience = Patience::of(PATIENCE);
        // The file's header is there when it listens.
        while std::fs::metadata(file).map_or(0, |file| file.len()) < 24 {
            assert!(!patience.is_over(), "tcpdump writes nothing");
            thread::sleep(Duration::from_millis(5));
        }
        Self(running)
    }
}

#[test]
fn open_vswitch_is_the_classifier_and_the_end_of_the_path() {
    if !machine::is_root() {
        return machine::skip(TEST, "network namespaces and packet sockets take root");
    }
    if !PROGRAMS.iter().chain(&["tcpdump", "tshark"]).all(|program| machine::has_program(TEST, program)) {
        return;
    }
    let bed = Bed::new();
    let session = bed.middle.run(|| Session::start(BETWEEN_SWITCHES)).expect("the namespace can be entered");
    session.wait_for("its NFs run", |now| now.nfs.iter().all(|nf| nf.state == NfState::Running));
    let files = ["w", "e"].map(|interface| (interface, bed.folder.path().join(format!("{interface}.pcap"))));
    let captures = files.each_ref().map(|(interface, file)| Capture::start(&bed, interface, file));
    // Hosts ask for neighbours at once, also while the NF starts: what ended by that is not looked at.
    let ready = session.wait_for("its state is known", |_| true);
    bed.transfer();
    let captured = captures.map(|capture| capture.0.output());
    assert!(captured.iter().all(|output| output.status.success()));
    let last = session.stop();
    assert_conserved(&last);
    for name in ["there", "back"] {
        let chain = chain(&last, name);
        assert!(chain.entered > 1000 && chain.left + chain.dropped == chain.entered, "{chain:#?}");
    }
    let lost = |seen: &Snapshot| -> u64 {
        seen.drops.iter().filter(|drop| drop.chain != "-").map(|drop| drop.count).sum()
    };
    assert_eq!(lost(&last), lost(&ready), "{:#?}\n{:#?}", last.drops, last.events);
    assert_eq!((port(&last, "west").failed, port(&last, "east").failed), (0, 0));
    let read = |file: &Path| -> BTreeSet<String> { fields(file, &PATH_FIELDS).into_iter().collect() };
    let [west, east] = files.map(|(_, file)| read(&file));
    let context = "11223344,00000000,00000000,55667788";
    let there = |ttl, index| format!("{ttl}|1|291|{index}|{context}|");
    let back = |ttl, index| format!("{ttl}|2|1110|{index}||12345678");
    assert_eq!(west, [there("0x003f", 255), back("0x003e", 6)].into());
    assert_eq!(east, [there("0x003e", 253), back("0x003f", 7)].into());
}

const PATH_FIELDS: [&str; 6] =
    ["nsh.ttl", "nsh.mdtype", "nsh.spi", "nsh.si", "nsh.contextheader", "nsh.metadata"];
