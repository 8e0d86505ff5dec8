//! Real traffic between two hosts, through a chain of three NFs over kernel interfaces.
//!
//! Both hosts are network namespaces of this test; their cables end in a third, where the manager runs.
//! One test, because a process has one DPDK. It takes root.

use std::net::{IpAddr, UdpSocket};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use headgate_host::namespace::{Endpoint, Namespace, Namespaces};
use headgate_tests::capture;
use headgate_tests::machine;
use headgate_tests::patience::Patience;
use headgate_tests::programs::Running;
use headgate_tests::random::Random;
use headgate_tests::session::{PATIENCE, Session, chain, nf, port};

const CONFIGURATION: &str = r#"
[manager]
name = "tests"
cores = [{manager}]
[memory]
buffers = 4096
[[port]]
name = "west"
kind = "dpdk"
device = "net_af_packet0,iface=hg-left"
[[port]]
name = "east"
kind = "dpdk"
device = "net_af_packet1,iface=hg-right"
[[nf]]
name = "pass"
run = "forward"
core = {nf}
ring = 1024
[[nf]]
name = "wall"
run = "firewall"
core = {nf}
ring = 1024
args = { default = "allow", rules = [
    { action = "deny", protocol = "tcp", destination_port = 23 },
    { action = "reject", protocol = "tcp", destination_port = 24 },
] }
[[nf]]
name = "count"
run = "monitor"
core = {nf}
ring = 1024
[[chain]]
name = "there"
stages = ["pass", "wall", "count"]
out = "east"
[[chain]]
name = "back"
stages = ["count", "wall", "pass"]
out = "west"
[[rule]]
in = "west"
chain = "there"
[[rule]]
in = "east"
chain = "back"
"#;

const SERVER: [&str; 2] = ["192.0.2.2", "2001:db8::2"];
const VLAN_CLIENT: &str = "198.51.100.1";
const VLAN_SERVER: &str = "198.51.100.2";
const HTTP_PORT: u16 = 8080;
/// Bytes of one transfer. Our choice: thousands of frames, a second or two of a debug build.
const BYTES: u64 = 4 << 20;

/// iperf3 over TCP, with little in flight when the sender has sent all.
const TCP: [&str; 2] = ["-w", "128K"];

fn serve(mut command: Command) -> Running {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    Running::start(command)
}

fn run(host: &Endpoint, program: &str, arguments: &[&str]) -> Output {
    let mut command = host.namespace.command(program).expect("the namespace can be entered");
    command.args(arguments).stdin(Stdio::null()).output().expect("the program runs")
}

fn ip(host: &Endpoint, words: &str) {
    let output = run(host, "ip", &words.split(' ').collect::<Vec<_>>());
    assert!(output.status.success(), "ip {words}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Tries until the server is there, and returns what the program printed.
fn until_it_works(what: &str, mut attempt: impl FnMut() -> Output) -> String {
    let mut patience = Patience::of(PATIENCE);
    loop {
        let output = attempt();
        // iperf3 that writes JSON may say only there that it could not connect.
        let text = String::from_utf8_lossy(&output.stdout);
        if output.status.success() && !text.contains("\"error\":") {
            return text.into_owned();
        }
        let said = String::from_utf8_lossy(&output.stderr) + String::from_utf8_lossy(&output.stdout);
        assert!(!patience.is_over(), "{what}: {said}");
        sleep(Duration::from_millis(50));
    }
}

/// Runs iperf3 once; returns the bytes that the receiver had counted when the sender had sent all, which is
/// when iperf3 stops counting.
fn iperf(hosts: &Namespaces, address: &str, how: &[&str]) -> u64 {
    let mut command = hosts.right.namespace.command("iperf3").expect("the namespace can be entered");
    command.args(["-s", "-1", "-B", address]);
    let _server = serve(command);
    let amount = BYTES.to_string();
    let words = [&["-c", address, "--json", "--connect-timeout", "2000", "-n", &amount], how].concat();
    let report = until_it_works("iperf3", || run(&hosts.left, "iperf3", &words));
    let report: serde_json::Value = serde_json::from_str(&report).expect("iperf3 prints JSON");
    let end = &report["end"];
    let sum = if end["sum_received"].is_object() { &end["sum_received"] } else { &end["sum"] };
    sum["bytes"].as_u64().unwrap_or_else(|| panic!("no bytes in {report}"))
}

/// A web server for `folder` on the right host.
fn web_server(host: &Endpoint, folder: &Path) -> Option<Running> {
    if machine::has_program("network", "nginx") {
        let place = folder.display();
        let paths = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
        let paths: String = paths.iter().map(|path| format!("{path}_temp_path {place}/{path};\n")).collect();
        let text = format!(
            "daemon off;\nmaster_process off;\npid {place}/pid;\nerror_log {place}/log;\nevents {{}}\n\
             http {{\naccess_log off;\n{paths}server {{\nlisten {HTTP_PORT};\nlisten [::]:{HTTP_PORT};\nroot {place};\n}}\n}}\n"
        );
        std::fs::write(folder.join("nginx.conf"), text).expect("a file can be written");
        let mut command = host.namespace.command("nginx").expect("the namespace can be entered");
        command.arg("-e").arg(folder.join("log")).arg("-c").arg(folder.join("nginx.conf"));
        return Some(serve(command));
    }
    if machine::has_program("network", "python3") {
        let mut command = host.namespace.command("python3").expect("the namespace can be entered");
        command.args(["-m", "http.server", &HTTP_PORT.to_string(), "--directory"]).arg(folder);
        return Some(serve(command));
    }
    None
}

/// A download by curl arrives as it was sent.
fn download(hosts: &Namespaces, folder: &Path, address: &str, sent: &[u8]) {
    let host = match address.parse().expect("an address") {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => format!("[{address}]"),
    };
    let url = format!("http://{host}:{HTTP_PORT}/file");
    let into = folder.join("received");
    let words =
        ["-sS", "-g", "--fail", "--max-time", "60", "-o", into.to_str().expect("a path in text"), &url];
    until_it_works("curl", || run(&hosts.left, "curl", &words));
    let received = std::fs::read(&into).expect("curl wrote a file");
    assert!(received == sent, "{} of {} bytes came, or others", received.len(), sent.len());
}

#[test]
fn real_traffic_between_two_hosts() {
    if !machine::is_root() {
        return machine::skip("network", "network namespaces and packet sockets take root");
    }
    if !["iperf3", "curl", "ip"].into_iter().all(|program| machine::has_program("network", program)) {
        return;
    }
    let middle = Namespace::new().expect("root makes a namespace");
    let hosts = Namespaces::new(&middle).expect("root makes namespaces");
    let session = middle.run(|| Session::start(CONFIGURATION)).expect("the namespace can be entered");

    let bytes = |session: &Session| chain(&session.snapshot(), "there").left;
    for address in SERVER {
        let before = bytes(&session);
        let received = iperf(&hosts, address, &TCP);
        assert!(received >= BYTES / 2, "{received} bytes of TCP to {address}");
        assert!(bytes(&session) - before > BYTES / 1500, "TCP to {address} did not take the chain");
        // What UDP loses on a busy machine it loses with a count at a ring; some must come through.
        assert!(iperf(&hosts, address, &["-u", "-b", "20M", "-l", "1200"]) > 0, "UDP to {address}");
    }
    let _ = session.audited();

    let folder = tempfile::tempdir().expect("a folder can be made");
    let mut random = Random::new(1);
    let file: Vec<u8> = (0..BYTES / 8).flat_map(|_| random.word().to_ne_bytes()).collect();
    std::fs::write(folder.path().join("file"), &file).expect("a file can be written");
    if let Some(_server) = web_server(&hosts.right, folder.path()) {
        for address in SERVER {
            download(&hosts, folder.path(), address, &file);
        }
        if has_tagged(&hosts) {
            download(&hosts, folder.path(), VLAN_SERVER, &file);
        }
    }
    tagged_frame(&hosts, folder.path());
    denied_and_oversized(&middle, &hosts, &session);

    let now = session.audited();
    for name in ["pass", "wall", "count"] {
        assert_eq!(nf(&now, name).failures, 0, "{now:#?}");
    }
    let reasons: Vec<&str> = now.drops.iter().map(|drop| drop.reason.as_str()).collect();
    let expected = ["nf-verdict", "stage-full", "throttled", "port-full"];
    assert!(reasons.iter().all(|reason| expected.contains(reason)), "{:#?}", now.drops);
    session.stop();
}

/// Gives both hosts an interface in VLAN 10, where the kernel has such interfaces.
fn has_tagged(hosts: &Namespaces) -> bool {
    for (host, address) in [(&hosts.left, VLAN_CLIENT), (&hosts.right, VLAN_SERVER)] {
        let add = format!("link add link {} name tagged type vlan id 10", host.interface);
        let added = run(host, "ip", &add.split(' ').collect::<Vec<_>>());
        if !added.status.success() {
            let said = String::from_utf8_lossy(&added.stderr);
            machine::skip("network: a download in a VLAN", said.trim());
            return false;
        }
        ip(host, &format!("addr add {address}/24 dev tagged"));
        ip(host, "link set tagged up");
    }
    true
}

/// Sends argv[2] as it stands by the interface argv[1].
const SEND_FRAME: &str = "
import socket, sys
link = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
link.bind((sys.argv[1], 0))
link.send(bytes.fromhex(sys.argv[2]))
";

/// A frame with a VLAN tag arrives with its tag.
fn tagged_frame(hosts: &Namespaces, folder: &Path) {
    if !["python3", "tcpdump"]
        .into_iter()
        .all(|program| machine::has_program("network: a tagged frame", program))
    {
        return;
    }
    let payload = [&[0x81, 0, 0xa0, 10][..], &[0x88, 0xb5], &[0x5a; 46]].concat();
    let frame = [&[2, 0, 0, 0, 0, 2][..], &[2, 0, 0, 0, 0, 1], &payload].concat();
    let digits: String = frame.iter().map(|byte| format!("{byte:02x}")).collect();
    let file = folder.join("tagged.pcap");
    let mut listen = hosts.right.namespace.command("tcpdump").expect("the namespace can be entered");
    listen.args(["-i", hosts.right.interface, "-c", "1", "-U", "-Z", "root", "-w"]).arg(&file).arg("vlan 10");
    let mut listener = serve(listen);
    let mut patience = Patience::of(PATIENCE);
    while listener.try_wait().expect("a child can be asked").is_none() {
        assert!(!patience.is_over(), "no tagged frame arrived");
        let sent = run(&hosts.left, "python3", &["-c", SEND_FRAME, hosts.left.interface, &digits]);
        assert!(sent.status.success(), "{}", String::from_utf8_lossy(&sent.stderr));
    }
    assert_eq!(capture::read_pcap(&file), [frame]);
}

/// A connection that the firewall denies does not come about; frames longer than a buffer are refused at
/// their port and counted, and the link works on.
fn denied_and_oversized(middle: &Namespace, hosts: &Namespaces, session: &Session) {
    let telnet = run(&hosts.left, "curl", &["-sS", "--max-time", "2", "telnet://192.0.2.2:23"]);
    assert!(!telnet.status.success(), "the firewall let telnet pass");
    assert!(nf(&session.snapshot(), "wall").counters["denied"] > 0);
    for url in ["telnet://192.0.2.2:24", "telnet://[2001:db8::2]:24"] {
        let asked = Instant::now();
        let rejected = run(&hosts.left, "curl", &["-sS", "-g", "--max-time", "30", url]);
        let said = String::from_utf8_lossy(&rejected.stderr);
        assert!(asked.elapsed() < Duration::from_secs(20), "no reset came: {said}");
        // curl's code 7: the kernel took the reset for one of its peer.
        assert_eq!(rejected.status.code(), Some(7), "{said}");
    }
    let now = session.audited();
    assert!(nf(&now, "wall").counters["answered"] >= 2 && chain(&now, "there").made >= 2);

    let mtu = |bytes: u32| {
        hosts.left.namespace.links().unwrap().set_mtu(hosts.left.interface, bytes).unwrap();
        middle.links().unwrap().set_mtu(&hosts.left.port, bytes).unwrap();
    };
    let before = port(&session.snapshot(), "west").too_long;
    mtu(9000);
    let long = hosts.left.namespace.run(|| {
        let socket = UdpSocket::bind("192.0.2.1:0")?;
        socket.send_to(&[0; 4000], (SERVER[0], HTTP_PORT))
    });
    assert_eq!(long.unwrap().unwrap(), 4000);
    session.wait_for("the long frame is counted", |now| port(now, "west").too_long > before);
    mtu(1500);
    assert!(iperf(hosts, SERVER[0], &TCP) >= BYTES / 2, "the link did not survive a long frame");
}
