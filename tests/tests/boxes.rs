//! External programs (`box`), unmodified, as stages of a chain. `dpdk-testpmd` swaps Ethernet
//! addresses behind memif, socat carries frames between two interfaces, and a namespace routes.

use std::path::Path;
use std::process::Command;

use headgate_api::status::{NfState, Snapshot};
use headgate_host::sched::{self, Policy};
use headgate_host::{container, cores, process};
use headgate_tests::machine;
use headgate_tests::session::{Session, chain, drops, nf};
use rustix::process::{Pid, Signal, kill_process};

/// A generator, boxes and NFs in one chain, and where its packets end.
fn configuration(generator: &str, sink: &str, scheduler: &str, nfs: &[(&str, String)]) -> String {
    let mut text = format!(
        r#"
[manager]
name = "tests"
cores = [{{manager}}]
[memory]
buffers = 4096
hugepages = "never"
[scheduler]
{scheduler}
[[port]]
name = "in"
kind = "generator"
flows = 16
{generator}
[[port]]
name = "out"
{sink}
[[rule]]
in = "in"
chain = "path"
"#
    );
    let mut stages = Vec::new();
    for (name, keys) in nfs {
        text += &format!("[[nf]]\nname = \"{name}\"\ncore = {{nf}}\nring = 1024\n{keys}\n");
        stages.push(format!("\"{name}\""));
    }
    text + &format!("[[chain]]\nname = \"path\"\nstages = [{}]\nout = \"out\"\n", stages.join(", "))
}

const NULL: &str = "kind = \"null\"";
const NFVNICE: &str = "mode = \"nfvnice\"";
const QUICK: &str = "restart = { first = \"1ms\", longest = \"100ms\" }";

fn run(what: &str) -> String {
    format!("run = \"{what}\"")
}

/// testpmd as a stage that swaps addresses. It has a thread that waits and one that polls.
fn testpmd() -> String {
    let words = [
        "/usr/bin/dpdk-testpmd",
        "--no-huge",
        "-m",
        "64",
        "--no-pci",
        "--no-shconf",
        "--no-telemetry",
        "--log-level=error",
        "--lcores",
        "0@{core},1@{core}",
        "--vdev=net_memif0,role=client,socket={in}",
        "--vdev=net_memif1,role=client,socket={out}",
        "--",
        "--forward-mode=macswap",
        "--auto-start",
        "--total-num-mbufs=4096",
    ];
    format!("box = \"memif\"\nloop = \"polling\"\nexec = {words:?}\n{QUICK}")
}

fn socat() -> String {
    format!(
        "box = \"veth\"\nexec = [\"/usr/bin/socat\", \"INTERFACE:{{in}}\", \"INTERFACE:{{out}}\"]\n{QUICK}"
    )
}

fn shell(script: &str) -> String {
    format!("box = \"veth\"\nexec = [\"/bin/sh\", \"-c\", {script:?}]\n{QUICK}")
}

fn can_veth(test: &str) -> bool {
    if !machine::is_root() {
        machine::skip(test, "namespaces and packet sockets take root");
        return false;
    }
    machine::has_program(test, "socat")
}

fn pid(now: &Snapshot, instance: &str) -> Pid {
    let pid = nf(now, instance).pid.expect("a running program has a process");
    Pid::from_raw(pid as i32).expect("a process has a number")
}

/// Returns whether all packets of a chain have ended.
fn is_over(now: &Snapshot, packets: u64) -> bool {
    let path = chain(now, "path");
    path.entered >= packets && path.entered == path.left + path.dropped
}

fn event(now: &Snapshot, part: &str) -> bool {
    now.events.iter().any(|event| event.what.contains(part))
}

/// Source and destination addresses of the frames in a capture.
fn addresses(capture: &Path) -> Vec<String> {
    let fields = ["-T", "fields", "-e", "eth.src", "-e", "eth.dst"];
    let output = Command::new("tshark").arg("-r").arg(capture).args(fields).output().expect("tshark runs");
    let mut all: Vec<String> = String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect();
    all.sort_unstable();
    all.dedup();
    all
}

#[test]
fn testpmd_swaps_addresses_behind_memif() {
    const TEST: &str = "testpmd_swaps_addresses_behind_memif";
    if !machine::has_program(TEST, "dpdk-testpmd") || !machine::has_program(TEST, "tshark") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder can be made");
    let capture = folder.path().join("out.pcapng");
    let sink = format!("kind = \"pcap\"\nwrite = \"{}\"", capture.display());
    let nfs = [("first", run("forward")), ("swap", testpmd()), ("last", run("forward"))];
    let text = configuration("rate = \"5K\"\ncount = 10000", &sink, NFVNICE, &nfs);
    let session = Session::once(&folder.path().join("test.toml"), &text);
    let last = session.end();
    let path = chain(&last, "path");
    assert_eq!(path.entered, 10_000, "it makes no packets");
    assert!(path.left > 1_000, "{:#?}", last.drops);
    let swap = nf(&last, "swap");
    assert_eq!((swap.failures, swap.returned), (0, nf(&last, "last").delivered));
    assert_eq!(swap.delivered, swap.returned + drops(&last, "path", "box-kept"));
    assert_eq!(addresses(&capture), ["02:00:00:00:00:02\t02:00:00:00:00:01"]);
}

#[test]
fn testpmd_that_is_killed_comes_back() {
    const TEST: &str = "testpmd_that_is_killed_comes_back";
    if !machine::has_program(TEST, "dpdk-testpmd") {
        return;
    }
    let nfs = [("first", run("forward")), ("swap", testpmd())];
    let session = Session::start(&configuration("rate = \"50K\"", NULL, NFVNICE, &nfs));
    for failures in 1..=2 {
        session.wait_for_packets("path", 10_000);
        kill_process(pid(&session.snapshot(), "swap"), Signal::KILL).expect("it is ours");
        session.wait_for("its end is noticed", |now| nf(now, "swap").failures == failures);
        let _ = session.audited();
        session.wait_for("it runs again", |now| nf(now, "swap").state == NfState::Running);
    }
    session.wait_for_packets("path", 10_000);
    let last = session.stop();
    assert!(drops(&last, "path", "stage-down") > 0, "meanwhile packets ended at the head: {:#?}", last.drops);
}

#[test]
fn testpmd_that_takes_nothing_is_given_up() {
    const TEST: &str = "testpmd_that_takes_nothing_is_given_up";
    if !machine::has_program(TEST, "dpdk-testpmd") {
        return;
    }
    let session = Session::start(&configuration("rate = \"50K\"", NULL, NFVNICE, &[("swap", testpmd())]));
    session.wait_for_packets("path", 1_000);
    kill_process(pid(&session.snapshot(), "swap"), Signal::STOP).expect("it is ours");
    session.wait_for("it is given up", |now| nf(now, "swap").failures == 1);
    session.wait_for("another works", |now| nf(now, "swap").state == NfState::Running);
    session.wait_for_packets("path", 1_000);
    session.stop();
}

#[test]
fn socat_carries_frames_between_two_interfaces() {
    if !can_veth("socat_carries_frames_between_two_interfaces") {
        return;
    }
    let nfs = [("first", run("forward")), ("cat", socat()), ("last", run("mac-swap"))];
    let session = Session::start(&configuration("rate = \"2K\"\ncount = 4000", NULL, NFVNICE, &nfs));
    let now = session.wait_for("all are through", |now| is_over(now, 4000));
    assert!(chain(&now, "path").left > 1_000, "{:#?}", now.drops);
    assert_eq!(nf(&now, "cat").returned, nf(&now, "last").delivered);
    let _ = session.audited();
    session.stop();
}

/// The program's container has the interfaces of its stage and no others, and the rights to these alone.
#[test]
fn socat_in_a_container_is_a_stage_like_any_other() {
    const TEST: &str = "socat_in_a_container_is_a_stage_like_any_other";
    let has_runtime = container::RUNTIMES.iter().any(|name| process::find_program(name).is_some());
    if !can_veth(TEST) || !has_runtime {
        return machine::skip(TEST, container::INSTALL);
    }
    let nfs = [("first", run("forward")), ("cat", format!("environment = \"container\"\n{}", socat()))];
    let session = Session::start(&configuration("rate = \"2K\"", NULL, NFVNICE, &nfs));
    let now = session.wait_for_packets("path", 1_000);
    assert!(nf(&now, "cat").container && nf(&now, "cat").external.is_some());
    let inside = format!("/proc/{}", pid(&now, "cat").as_raw_pid());
    let devices = std::fs::read_to_string(format!("{inside}/net/dev")).expect("it runs");
    let names: Vec<&str> =
        devices.lines().skip(2).filter_map(|line| line.split(':').next()).map(str::trim).collect();
    assert!(names.contains(&"in") && names.contains(&"out") && !names.contains(&"eth0"), "{names:?}");
    let status = std::fs::read_to_string(format!("{inside}/status")).expect("it runs");
    // CAP_NET_ADMIN and CAP_NET_RAW (capability.h: 12 and 13).
    assert!(status.contains("CapBnd:\t0000000000003000"), "{status}");
    // It dies and comes back with its interfaces.
    kill_process(pid(&now, "cat"), Signal::KILL).expect("it is ours");
    session.wait_for("it runs again", |now| {
        nf(now, "cat").failures == 1 && nf(now, "cat").state == NfState::Running
    });
    session.wait_for_packets("path", 1_000);
    let _ = session.audited();
    session.stop();
}

#[test]
fn an_interface_that_goes_is_told_of_and_made_again() {
    const TEST: &str = "an_interface_that_goes_is_told_of_and_made_again";
    if !can_veth(TEST) || !machine::has_program(TEST, "nsenter") {
        return;
    }
    let nfs = [("first", run("forward")), ("cat", socat())];
    let session = Session::start(&configuration("rate = \"2K\"", NULL, NFVNICE, &nfs));
    session.wait_for_packets("path", 1_000);
    let target = pid(&session.snapshot(), "cat").as_raw_pid().to_string();
    let deleted = Command::new("nsenter").args(["-t", &target, "-n", "ip", "link", "delete", "out"]).status();
    assert!(deleted.expect("nsenter runs").success());
    let now = session.wait_for("it fails", |now| nf(now, "cat").failures == 1);
    let told = ["its interface out is gone", "exited with code"];
    assert!(told.iter().any(|part| event(&now, part)), "{:#?}", now.events);
    session.wait_for("it runs again", |now| nf(now, "cat").state == NfState::Running);
    session.wait_for_packets("path", 1_000);
    assert_eq!(nf(&session.audited(), "first").failures, 0);
    session.stop();
}

#[test]
fn a_chain_with_a_box_changes_under_traffic() {
    if !can_veth("a_chain_with_a_box_changes_under_traffic") {
        return;
    }
    let text = |nfs: &[(&str, String)]| configuration("rate = \"2K\"", NULL, NFVNICE, nfs);
    let session = Session::start(&text(&[("first", run("forward")), ("cat", socat())]));
    session.wait_for_packets("path", 1_000);
    let before = nf(&session.snapshot(), "cat").pid;
    let longer = [("first", run("forward")), ("cat", socat()), ("last", run("mac-swap"))];
    let changes = session.apply(&text(&longer)).expect("it can change");
    assert_eq!(changes, ["nf last added", "chain path changed"]);
    session.wait_for_packets("path", 1_000);
    assert_eq!(nf(&session.audited(), "cat").pid, before, "the program goes on in the new chain");
    session.apply(&text(&[("last", run("mac-swap"))])).expect("it can go");
    session.wait_for_packets("path", 1_000);
    session.stop();
}

#[test]
fn a_namespace_routes() {
    if !can_veth("a_namespace_routes") {
        return;
    }
    let script = "set -e; ip link set {in} address 02:00:00:00:00:02; \
                  ip address add 10.0.0.254/16 dev {in}; ip address add 198.18.0.254/16 dev {out}; \
                  ip neighbour add 198.18.0.1 lladdr 02:00:00:00:00:99 dev {out}; \
                  echo 1 > /proc/sys/net/ipv4/ip_forward; exec sleep infinity";
    let nfs = [("route", shell(script)), ("last", run("forward"))];
    let session = Session::start(&configuration("rate = \"2K\"\ncount = 4000", NULL, NFVNICE, &nfs));
    let now = session.wait_for("all are through", |now| is_over(now, 4000));
    assert!(chain(&now, "path").left > 1_000, "{:#?}", now.drops);
    session.stop();
}

#[test]
fn a_box_that_never_gives_back_and_one_that_cannot_start_are_told_of() {
    if !can_veth("a_box_that_never_gives_back_and_one_that_cannot_start_are_told_of") {
        return;
    }
    let nfs = [("first", run("forward")), ("hole", shell("exec sleep infinity"))];
    let session = Session::start(&configuration("rate = \"2K\"\ncount = 1000", NULL, NFVNICE, &nfs));
    let now = session.wait_for("all are given up", |now| is_over(now, 1000));
    let kept = drops(&now, "path", "box-kept");
    assert!(kept > 500 && nf(&now, "hole").drops["box-kept"] == kept, "{:#?}", now.drops);
    session.stop();

    let missing = format!(
        "box = \"veth\"\nexec = [\"/no/such/program\", \"{{in}}\"]\n{QUICK}\non_failure = \"bypass\""
    );
    let nfs = [("first", run("forward")), ("missing", missing)];
    let text = configuration("rate = \"2K\"", NULL, NFVNICE, &nfs);
    let session = Session::launch(Path::new("test.toml"), &text, false);
    let now = session.wait_for("it failed", |now| nf(now, "missing").failures > 1);
    assert!(event(&now, "cannot run /no/such/program: No such file or directory"), "{:#?}", now.events);
    session.wait_for_packets("path", 1_000);
    session.stop();
}

/// Returns whether NFs can have time slices here.
fn has_slices(test: &str) -> bool {
    // A task that waits on the NFs' core waits for them to have no packets.
    cores::keep_current_thread_off(&[machine::nf_core()]).expect("there are others");
    let tried = std::thread::spawn(|| sched::raise(None, 1)).join().expect("it does not panic");
    let why = match tried {
        _ if machine::manager_core() == machine::nf_core() => "it takes two cores".to_owned(),
        Err(error) => error.to_string(),
        Ok(()) => return true,
    };
    machine::skip(test, &why);
    false
}

#[test]
fn boxes_and_one_of_ours_have_slices_of_one_core() {
    const TEST: &str = "boxes_and_one_of_ours_have_slices_of_one_core";
    if !machine::has_program(TEST, "dpdk-testpmd") || !has_slices(TEST) {
        return;
    }
    let ours = format!("{}\nloop = \"polling\"", run("forward"));
    let nfs = [("swap", testpmd()), ("ours", ours), ("again", testpmd())];
    let session =
        Session::start(&configuration("rate = \"50K\"\ncount = 100000", NULL, "mode = \"unis\"", &nfs));
    let raised = |now: &Snapshot| {
        let threads = ["swap", "ours", "again"].map(|name| process::threads(pid(now, name)));
        let mut policies = threads.iter().flatten().map(|thread| sched::get(Some(*thread)));
        threads[0].len() > 1 && policies.all(|policy| matches!(policy, Ok(Policy::Fifo { .. })))
    };
    session.wait_for("all have time slices", raised);
    let now = session.wait_for("all are through", |now| is_over(now, 100_000));
    assert!(chain(&now, "path").left > 25_000, "{:#?}", now.drops);
    assert!(now.nfs.iter().all(|nf| nf.slices > 3), "{:#?}", now.nfs);
    session.wait_for("nobody is before the rest of the machine", |now| !raised(now));
    kill_process(pid(&session.snapshot(), "again"), Signal::KILL).expect("it is ours");
    session.wait_for("it runs again", |now| {
        nf(now, "again").failures > 0 && nf(now, "again").state == NfState::Running
    });
    let _ = session.audited();
    session.stop();
}
