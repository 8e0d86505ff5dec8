//! Shares of a core follow what packets cost, in the kernel's own files, and nothing of it is left.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use headgate_api::status::{EventCode, NfStatus, Snapshot};
use headgate_host::cgroup::{CpuController, Version};
use headgate_host::sched;
use headgate_tests::machine;
use headgate_tests::session::{Session, nf};

/// Two NFs on one core, each with a generator of its own: `keys` of the scheduler and of each NF.
fn configuration(scheduler: &str, light: &str, heavy: &str) -> String {
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
name = "sink"
kind = "null"
"#
    );
    for (name, keys) in [("light", light), ("heavy", heavy)] {
        text += &format!(
            r#"
[[port]]
name = "{name}"
kind = "generator"
rate = "50K"
flows = 16
[[nf]]
name = "{name}"
run = "synthetic"
core = {{nf}}
ring = 512
{keys}
[[chain]]
name = "{name}"
stages = ["{name}"]
out = "sink"
[[rule]]
in = "{name}"
chain = "{name}"
"#
        );
    }
    text
}

const LIGHT: &str = "args = { cycles = 5000 }";
const HEAVY: &str = "args = { cycles = 15000 }";

/// This manager's group of all, once it runs: the one with weights.
fn group_of_all() -> PathBuf {
    let groups = machine::groups_of(std::process::id());
    let weighed = groups.into_iter().find(|group| group.join(weight_file()).exists());
    weighed.expect("a manager weighs its NFs where it can")
}

/// The file of a group's weight here, by the version of control groups.
fn weight_file() -> &'static str {
    match CpuController::find() {
        CpuController::V2(_) => Version::V2.weight_file(),
        _ => Version::V1.weight_file(),
    }
}

/// The weight of a group.
fn weight(group: &Path) -> u32 {
    fs::read_to_string(group.join(weight_file())).unwrap().trim().parse().unwrap()
}

/// Returns whether groups can be weighed here.
fn has_weights(test: &str) -> bool {
    let possible = machine::is_root() && CpuController::find() != CpuController::None;
    if !possible {
        machine::skip(test, "it takes root, and the cpu controller of control groups");
    }
    possible
}

/// The groups of instances, two levels below that of all.
fn groups_of_nfs(group: &Path) -> Vec<PathBuf> {
    let below = |group: &Path| -> Vec<PathBuf> {
        fs::read_dir(group).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_dir()).collect()
    };
    below(group).iter().flat_map(|domain| below(domain)).collect()
}

/// Returns the weight that the kernel has for an instance's process, as a part of its core. The process that
/// waits to be its next one has another group.
fn written(group: &Path, nf: &NfStatus) -> f64 {
    let pid = nf.pid.expect("it runs").to_string();
    let has_it = |path: &PathBuf| {
        fs::read_to_string(path.join("cgroup.procs"))
            .is_ok_and(|members| members.lines().any(|one| one == pid))
    };
    let group = groups_of_nfs(group).into_iter().find(has_it).unwrap();
    f64::from(weight(&group)) / 10_000.0
}

fn share(nf: &NfStatus) -> f64 {
    nf.share.unwrap_or(0.0)
}

/// The heavy NF's share in those of the light one.
fn ratio(now: &Snapshot) -> f64 {
    share(nf(now, "heavy")) / share(nf(now, "light")).max(0.001)
}

#[test]
fn shares_follow_what_packets_cost() {
    if !has_weights("shares_follow_what_packets_cost") {
        return;
    }
    let session = Session::start(&configuration("mode = \"weights\"", LIGHT, HEAVY));
    let group = group_of_all();
    // Before an NF has said what its packets cost, CPU accounting may say the same.
    let sampled = |now: &Snapshot| now.nfs.iter().all(|nf| nf.service_time_ns_p50.is_some());
    let now =
        session.wait_for("shares are as 1 to 3", |now| (2.7..3.3).contains(&ratio(now)) && sampled(now));
    assert_eq!(now.scheduler.limitations, Vec::<String>::new());
    for name in ["light", "heavy"] {
        let nf = nf(&now, name);
        assert_eq!((nf.policy.as_str(), nf.service_time_overridden), ("batch", false), "{nf:#?}");
        assert!(
            nf.service_time_ns_p50.is_some() && nf.service_time_ns_p99 >= nf.service_time_ns_p50,
            "{nf:#?}"
        );
    }
    session.wait_for("the kernel's files say the same", |now| {
        ["light", "heavy"]
            .iter()
            .all(|name| (written(&group, nf(now, name)) - share(nf(now, name))).abs() < 1e-9)
    });
    session.stop();
    assert!(!group.exists());
}

/// Domains share a core by their parts, in the kernel's own files, whatever their NFs claim.
#[test]
fn domains_share_a_core_by_their_parts() {
    if !has_weights("domains_share_a_core_by_their_parts") {
        return;
    }
    let domains = "[[domain]]\nname = \"inner\"\npart = 3\n[[domain]]\nname = \"outer\"\n";
    let of = |domain: &str, keys: &str| format!("{keys}\ndomain = \"{domain}\"");
    let text = configuration("mode = \"weights\"", &of("inner", LIGHT), &of("outer", HEAVY));
    let session = Session::start(&(text + domains));
    let group = group_of_all();
    session.wait_for("each NF has all that its domain has", |now| now.nfs.iter().all(|nf| share(nf) == 1.0));
    let part = |domain: &str| {
        let groups = fs::read_dir(&group).unwrap().map(|entry| entry.unwrap().path());
        let is_one = |path: &PathBuf| path.to_string_lossy().ends_with(&format!(".{domain}"));
        weight(&groups.into_iter().find(is_one).unwrap())
    };
    assert_eq!(part("inner"), 3 * part("outer"));
    session.stop();
    assert!(!group.exists());
}

#[test]
fn a_priority_is_a_factor() {
    if !has_weights("a_priority_is_a_factor") {
        return;
    }
    let light = format!("{LIGHT}\npriority = 3");
    let session = Session::start(&configuration("mode = \"weights\"", &light, HEAVY));
    session.wait_for("shares are even", |now| (0.85..1.15).contains(&ratio(now)));
    session.stop();
}

/// The failure is reported once, made again, and stops nobody.
#[test]
fn a_group_that_disappears_is_made_again() {
    if !has_weights("a_group_that_disappears_is_made_again") {
        return;
    }
    let session = Session::start(&configuration("mode = \"weights\"", LIGHT, HEAVY));
    let group = group_of_all();
    session.wait_for("shares are as 1 to 3", |now| (2.7..3.3).contains(&ratio(now)));
    let home = CpuController::find().group_of(None).unwrap();
    for entry in groups_of_nfs(&group) {
        // The kernel gives a group up only when those that left it have run again, and a process may be put
        // into it between two tries.
        let gone = || {
            let members = fs::read_to_string(entry.join("cgroup.procs")).unwrap_or_default();
            members.lines().for_each(|pid| drop(fs::write(home.join("cgroup.procs"), pid)));
            fs::remove_dir(&entry).is_ok() || !entry.exists()
        };
        assert!((0..1000).any(|_| gone() || {
            std::thread::sleep(Duration::from_millis(10));
            false
        }));
    }
    // A change that matters, so that there is something to write.
    let tell = |nf: &str, body: &str| headgate_api::Request::Tell { nf: nf.into(), body: body.into() };
    session.ask(tell("light", "{\"cycles\": 15000}")).unwrap();
    let is_told = |event: &headgate_api::status::Event| event.what.contains("weights cannot be set");
    let now = session.wait_for("it is noticed", |now| now.events.iter().any(is_told));
    assert!(now.nfs.iter().all(|nf| nf.failures == 0), "{:#?}", now.nfs);
    let now = session.wait_for("weights are set again", |now| {
        now.scheduler.limitations.is_empty() && (0.7..1.4).contains(&ratio(now))
    });
    assert!(now.events.iter().filter(|event| is_told(event)).count() <= 2, "{:#?}", now.events);
    assert!((written(&group, nf(&now, "light")) - share(nf(&now, "light"))).abs() < 0.5);
    session.stop();
    assert!(!group.exists());
}

#[test]
fn the_kernel_is_left_alone_in_mode_os() {
    let session = Session::start(&configuration("mode = \"os\"", LIGHT, HEAVY));
    let now = session.wait_for("costs are known", |now| nf(now, "heavy").service_time_ns_p50.is_some());
    assert!(now.nfs.iter().all(|nf| nf.share.is_none()));
    // They are held, and equal.
    if has_weights("the_kernel_is_left_alone_in_mode_os") {
        let group = group_of_all();
        assert_eq!(written(&group, nf(&now, "light")), written(&group, nf(&now, "heavy")));
    }
    session.stop();
}

#[test]
fn real_time_nfs_run_under_their_policy() {
    if !has_weights("real_time_nfs_run_under_their_policy") {
        return;
    }
    let before = sched::round_robin_quantum_ms().unwrap();
    let light = format!("{LIGHT}\npolicy = \"rr\"");
    let heavy = format!("{HEAVY}\npolicy = \"normal\"\nnice = 3");
    let session = Session::start(&configuration("mode = \"nfvnice\"\nrr_quantum_ms = 20", &light, &heavy));
    let now = session.wait_for("packets pass", |now| now.nfs.iter().all(|nf| nf.returned > 100));
    assert_eq!((nf(&now, "light").policy.as_str(), nf(&now, "heavy").policy.as_str()), ("rr", "normal"));
    assert_eq!(nf(&now, "light").share, None, "real time has no share");
    assert_eq!(sched::round_robin_quantum_ms().unwrap(), 20);
    session.stop();
    assert_eq!(sched::round_robin_quantum_ms().unwrap(), before);
    assert_eq!(machine::groups_of(std::process::id()), Vec::<PathBuf>::new());
}

/// Beside other programs of their core NFs have the weight that is configured; where the manager's own
/// threads are on that core, they have no more than others.
#[test]
fn nfs_weigh_more_than_other_programs() {
    if !has_weights("nfs_weigh_more_than_other_programs") {
        return;
    }
    let (member, most) = match CpuController::find() {
        CpuController::V2(_) => (100, 10_000),
        _ => (1024, 262_144),
    };
    let apart = machine::manager_core() != machine::nf_core();
    for (key, each) in [("", 100), ("nf_weight = 7\n", 7), ("nf_weight = 1\n", 1)] {
        let each = if apart { each } else { 1 };
        let session = Session::start(&configuration(&format!("{key}mode = \"weights\""), LIGHT, HEAVY));
        let group = group_of_all();
        assert_eq!(weight(&group), (2 * member * each).min(most), "{key}");
        let cores = session.snapshot().manager.control_cores;
        assert_eq!(!cores.contains(&machine::nf_core()), apart, "the control loop is on {cores:?}");
        session.stop();
        assert!(!group.exists());
    }
}

/// An NF that looks into an empty ring most of the time uses much more CPU time than its packets take.
#[test]
fn an_nf_that_waits_for_packets_is_believed() {
    let session = Session::start(&configuration("mode = \"nfvnice\"", "args = { cycles = 100 }", LIGHT));
    // Many windows of 100 ms.
    session.wait_for_packets("light", 150_000);
    let now = session.snapshot();
    let told = now.events.iter().filter(|event| event.code == EventCode::ServiceTimeOverridden);
    assert_eq!(told.map(|event| event.what.as_str()).collect::<Vec<_>>(), Vec::<&str>::new());
    session.stop();
}

/// Returns the nanoseconds that this process's threads of the name have run.
fn ran_ns(name: &str) -> u64 {
    let threads = fs::read_dir("/proc/self/task").unwrap().map(|entry| entry.unwrap().path());
    let has_name =
        |thread: &PathBuf| fs::read_to_string(thread.join("comm")).is_ok_and(|comm| comm.trim() == name);
    let ran = |thread: PathBuf| {
        let text = fs::read_to_string(thread.join("schedstat")).unwrap();
        text.split_whitespace().next().unwrap().parse::<u64>().unwrap()
    };
    threads.filter(has_name).map(ran).sum()
}

/// A spinning worker would have half of the core, however idle it is.
#[test]
fn an_idle_worker_that_yields_leaves_its_core_to_others() {
    let text = configuration("mode = \"os\"", LIGHT, LIGHT)
        .replace("rate = \"50K\"", "rate = 100")
        .replace("[memory]", "idle = \"yield\"\n[memory]");
    let session = Session::start(&text);
    let core = machine::manager_core();
    let worker = format!("hg-worker-{core}");
    let (ended, end) = std::sync::mpsc::channel::<()>();
    let other = std::thread::Builder::new().name("other".to_owned()).spawn(move || {
        headgate_host::cores::pin_current_thread(core).unwrap();
        while end.try_recv() == Err(std::sync::mpsc::TryRecvError::Empty) {}
    });
    let (before, began) = ((ran_ns("other"), ran_ns(&worker)), Instant::now());
    session
        .wait_for("the other program has run for a second", |_| ran_ns("other") > before.0 + 1_000_000_000);
    let (other_ns, worker_ns) = (ran_ns("other") - before.0, ran_ns(&worker) - before.1);
    // Its sleeps take a part of the time, however little of it a busy machine has for the other one.
    let idle = u128::from(worker_ns) < began.elapsed().as_nanos() / 4;
    assert!(worker_ns > 0 && (idle || other_ns > 2 * worker_ns), "{other_ns} beside {worker_ns} ns");
    drop(ended);
    other.unwrap().join().unwrap();
    let passed = session.audited().chains.iter().map(|chain| chain.left).sum::<u64>();
    assert!(passed > 0);
    session.stop();
}
