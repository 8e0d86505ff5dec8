//! NFs that make packets, in a live chain between two hosts: they answer ARP and ICMP for addresses that no
//! host has.
//!
//! One test, because a process has one DPDK. It takes root, and a C compiler for the NF in C.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use headgate_api::status::NfState;
use headgate_host::namespace::{Endpoint, Namespace, Namespaces};
use headgate_tests::patience::Patience;
use headgate_tests::session::{PATIENCE, Session, chain, nf};
use headgate_tests::{machine, programs};
use rustix::process::{Pid, Signal, kill_process};

const RUST: &str = "192.0.2.7";
const C: &str = "192.0.2.8";

fn configuration(rust: &Path, c: &Path) -> String {
    let (rust, c) = (rust.display(), c.display());
    format!(
        r#"
[manager]
name = "tests"
cores = [{{manager}}]
[memory]
buffers = 2048
hugepages = "never"
[[port]]
name = "west"
kind = "dpdk"
device = "net_af_packet0,iface=hg-left"
[[port]]
name = "east"
kind = "dpdk"
device = "net_af_packet1,iface=hg-right"
[[nf]]
name = "rust"
exec = ["{rust}"]
core = {{nf}}
ring = 256
restart = {{ first = "5ms", longest = "20ms" }}
args = {{ address = "{RUST}", mac = "02:00:00:00:00:07" }}
[[nf]]
name = "c"
exec = ["{c}"]
core = {{nf}}
ring = 256
restart = {{ first = "5ms", longest = "20ms" }}
args = {{ address = "{C}", mac = "02:00:00:00:00:08" }}
[[chain]]
name = "there"
stages = ["rust", "c"]
out = "east"
[[chain]]
name = "back"
stages = ["c", "rust"]
out = "west"
[[rule]]
in = "west"
chain = "there"
[[rule]]
in = "east"
chain = "back"
"#
    )
}

/// Sends argv[2] echo requests to argv[1], as fast as answers come or 20 ms pass, and says how many were
/// answered with what was sent and a right sum.
const PING: &str = "
import os, socket, struct, sys
def sum16(data):
    total = sum(struct.unpack('!%dH' % (len(data) // 2), data))
    total = (total & 0xffff) + (total >> 16)
    return ~((total & 0xffff) + (total >> 16)) & 0xffff
link = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
link.settimeout(0.02)
answered = 0
for number in range(int(sys.argv[2])):
    body = struct.pack('!HH', os.getpid() & 0xffff, number) + os.urandom(2 * (number % 40))
    head = struct.pack('!BBH', 8, 0, sum16(b'\\x08\\x00\\x00\\x00' + body))
    try:
        link.sendto(head + body, (sys.argv[1], 0))
        while True:
            packet = link.recv(2048)
            message = packet[(packet[0] & 15) * 4:]
            if message[0] == 0 and message[4:] == body:
                answered += sum16(message) == 0 and sum16(packet[:20]) == 0
                break
    except OSError:
        pass
print(answered)
";

fn command(host: &Endpoint, address: &str, count: u32) -> Command {
    let mut command = host.namespace.command("python3").expect("the namespace can be entered");
    command.args(["-c", PING, address, &count.to_string()]).stdin(Stdio::null()).stdout(Stdio::piped());
    command
}

fn answered(output: &Output) -> u32 {
    let said = String::from_utf8_lossy(&output.stdout);
    said.trim().parse().unwrap_or_else(|_| panic!("{said}{}", String::from_utf8_lossy(&output.stderr)))
}

/// Pings until an answer comes: a fresh chain may take a moment.
fn wait_for_answer(host: &Endpoint, address: &str) {
    let mut patience = Patience::of(PATIENCE);
    while answered(&command(host, address, 5).output().expect("python3 runs")) == 0 {
        assert!(!patience.is_over(), "{address} never answered");
    }
}

/// The NF in C, linked to the library of this build.
fn compiled(folder: &Path) -> PathBuf {
    let root = programs::top().join("abi");
    let program = folder.join("c-responder");
    let library = programs::built("libheadgate_abi.a");
    let mut cc = Command::new("cc");
    cc.arg("-O2").arg(root.join("examples/responder.c")).arg("-I").arg(&root).arg(library);
    let output = cc.args(["-lpthread", "-ldl", "-lm", "-o"]).arg(&program).output().expect("cc runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    program
}

#[test]
fn nfs_answer_for_addresses_that_no_host_has() {
    if !machine::is_root() {
        return machine::skip("responder", "network namespaces and packet sockets take root");
    }
    if !["cc", "python3"].into_iter().all(|program| machine::has_program("responder", program)) {
        return;
    }
    let example = programs::built("examples/responder");
    let (folder, rust) = programs::for_everybody(&example);
    let text = configuration(&rust, &compiled(folder.path()));
    let middle = Namespace::new().expect("root makes a namespace");
    let hosts = Namespaces::new(&middle).expect("root makes namespaces");
    let session = middle.run(|| Session::start(&text)).expect("the namespace can be entered");

    for (host, address, name) in [
        (&hosts.left, RUST, "rust"),
        (&hosts.left, C, "c"),
        (&hosts.right, RUST, "rust"),
        (&hosts.right, C, "c"),
    ] {
        wait_for_answer(host, address);
        let output = command(host, address, 200).output().expect("python3 runs");
        // A busy machine may lose some; an NF that answers wrongly answers none.
        assert!(answered(&output) > 100, "{} of 200 were answered by {address}", answered(&output));
        let now = session.audited();
        let counters = &nf(&now, name).counters;
        assert!(counters["arp"] > 0 && counters["echo"] >= 100, "{counters:?}");
        assert_eq!(nf(&now, name).made, counters["arp"] + counters["echo"]);
    }
    let now = session.audited();
    let made: u64 = ["there", "back"].iter().map(|name| chain(&now, name).made).sum();
    assert_eq!(made, ["rust", "c"].iter().map(|name| nf(&now, name).made).sum::<u64>());
    // What is not for them goes on to the other host.
    assert!(answered(&command(&hosts.left, "192.0.2.2", 50).output().expect("python3 runs")) > 20);

    killed_under_load(&session, &hosts);
    session.stop();
}

/// Both are killed while questions come; each time all is accounted for, and their successors answer.
fn killed_under_load(session: &Session, hosts: &Namespaces) {
    for round in 1..=3 {
        let mut load: Vec<_> = [(&hosts.left, RUST), (&hosts.right, C)]
            .iter()
            .map(|(host, address)| command(host, address, 400).spawn().expect("python3 runs"))
            .collect();
        for name in ["rust", "c"] {
            let before = nf(&session.snapshot(), name).made;
            let now = session.wait_for("it answers", |now| nf(now, name).made > before);
            let pid = nf(&now, name).pid.expect("it runs");
            let pid = Pid::from_raw(pid as i32).expect("a process has a number");
            kill_process(pid, Signal::KILL).expect("an NF may be killed by whom started it");
            session.wait_for("it is started again", |now| {
                nf(now, name).failures >= round && nf(now, name).state == NfState::Running
            });
            let _ = session.audited();
        }
        for child in &mut load {
            assert!(child.wait().expect("a child can be waited for").success());
        }
    }
    wait_for_answer(&hosts.left, RUST);
    wait_for_answer(&hosts.right, C);
    let _ = session.audited();
}
