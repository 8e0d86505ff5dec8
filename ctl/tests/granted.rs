//! What a file asks for and the machine does not grant is said: before the start, at the start, and for as
//! long as it is so.

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use common::{HEADGATE, Running, configuration, eventually, headgate, is_root, name_of, run, told, written};
use headgate_host::cgroup::reserve::Cpusets;
use headgate_host::sched::{self, Policy};
use headgate_host::undo::Action;
use headgate_host::{Pid, cores};
use rustix::process::Signal;
use serde_json::Value as Json;

/// The command under another program, which takes something from it.
fn under(folder: &Path, taker: &[&str], words: &[&str]) -> Command {
    // So that the programs of NFs are there.
    drop(headgate(folder, &[]));
    let mut command = Command::new(taker[0]);
    command.args(&taker[1..]).arg(HEADGATE).args(words);
    command.env("XDG_RUNTIME_DIR", folder).env_remove("NOTIFY_SOCKET");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn status(folder: &Path, name: &str) -> Json {
    let (_, data, _) = run(folder, &["--json", "status", "--name", name]);
    serde_json::from_str(&data).unwrap_or_default()
}

fn events<'s>(status: &'s Json, code: &str) -> Vec<&'s Json> {
    status["events"].as_array().into_iter().flatten().filter(|event| event["code"] == code).collect()
}

/// Root without the right to real time.
const WITHOUT_NICE: [&str; 3] = ["setpriv", "--bounding-set=-sys_nice", "--inh-caps=-sys_nice"];

#[test]
fn a_real_time_policy_that_is_refused_is_said_for_as_long_as_it_is() {
    if !is_root() {
        return eprintln!("skipped: it takes root to take a right from root");
    }
    let folder = tempfile::tempdir().unwrap();
    let (folder, name) = (folder.path(), name_of("refused"));
    let text = configuration(&name).replace("name = \"first\"", "name = \"first\"\npolicy = \"fifo\"");
    let file = written(folder, &text);

    let (code, _, messages) = told(under(folder, &WITHOUT_NICE, &["check", &file]).output().unwrap());
    assert_eq!(code, 0, "{messages}");
    assert!(messages.contains("warning[policy-refused]: NF `first` would not run so"), "{messages}");
    assert!(messages.contains("CAP_SYS_NICE"), "with the cure: {messages}");

    let manager = Running::start(under(folder, &WITHOUT_NICE, &["up", &file]));
    let mut now = Json::Null;
    eventually("the NF runs without its policy", || {
        now = status(folder, &name);
        now["nfs"][0]["state"] == "running" && now["nfs"][0]["policy_refused"].is_string()
    });
    let first = &now["nfs"][0];
    assert_ne!(first["policy"], "fifo");
    assert!(first["policy_refused"].as_str().unwrap().contains("CAP_SYS_NICE"), "{first}");
    assert!(now["scheduler"]["limitations"].to_string().contains("first asks for the policy fifo"), "{now}");
    assert!(events(&now, "policy-refused").iter().any(|event| event["who"] == "first"), "{now}");
    let (_, page, _) = run(folder, &["status", "--name", &name]);
    assert!(page.contains("first asks for the policy fifo"), "{page}");

    // Somebody who may gives it.
    let pid = Pid::from_raw(first["pid"].as_i64().unwrap() as i32);
    sched::set(pid, Policy::Fifo { priority: 50 }).unwrap();
    eventually("the NF has its policy", || {
        now = status(folder, &name);
        now["nfs"][0]["policy"] == "fifo" && now["nfs"][0]["policy_refused"].is_null()
    });
    assert!(!now["scheduler"]["limitations"].to_string().contains("first asks for"), "{now}");
    let of_first = |code| events(&now, code).into_iter().filter(|event| event["who"] == "first").count();
    assert_eq!((of_first("policy-refused"), of_first("policy-granted")), (1, 1), "each told once");
    manager.signal(Signal::TERM);
    let (code, _, messages) = manager.end();
    assert!(code == 0 && messages.contains("asks for the policy fifo"), "{messages}");
}

#[test]
fn a_policy_that_somebody_took_away_is_given_back_and_that_is_said() {
    if !is_root() {
        return eprintln!("skipped: real-time policies take root");
    }
    let folder = tempfile::tempdir().unwrap();
    let (folder, name) = (folder.path(), name_of("taken"));
    let text = configuration(&name).replace("name = \"first\"", "name = \"first\"\npolicy = \"fifo\"");
    let manager = Running::start(headgate(folder, &["up", &written(folder, &text)]));
    let mut now = Json::Null;
    eventually("the NF has its policy", || {
        now = status(folder, &name);
        now["nfs"][0]["policy"] == "fifo"
    });
    let pid = Pid::from_raw(now["nfs"][0]["pid"].as_i64().unwrap() as i32);
    sched::set(pid, Policy::Normal { nice: 0, slice_ns: None }).unwrap();
    eventually("it has its policy again", || {
        now = status(folder, &name);
        !events(&now, "policy-granted").is_empty()
    });
    assert_eq!(sched::get(pid).unwrap(), Policy::Fifo { priority: 50 });
    assert!(events(&now, "policy-granted")[0]["what"].as_str().unwrap().contains("somebody"), "{now}");
    manager.signal(Signal::TERM);
    assert_eq!(manager.end().0, 0);
}

#[test]
fn a_core_outside_the_affinity_mask_is_used_and_that_is_said() {
    let allowed = cores::allowed().unwrap();
    let [first, .., last] = allowed.as_slice() else {
        return eprintln!("skipped: it takes two cores");
    };
    let folder = tempfile::tempdir().unwrap();
    let (folder, name) = (folder.path(), name_of("masked"));
    let mask = last.to_string();
    let taskset = ["taskset", "-c", &mask];
    let named = configuration(&name).replace("[manager]", &format!("[manager]\ncores = [{first}]"));
    let file = written(folder, &named);
    let (code, _, messages) = told(under(folder, &taskset, &["check", &file]).output().unwrap());
    assert_eq!(code, 0, "{messages}");
    let says = format!("warning[core-outside-mask]: core {first} is outside the affinity mask");
    assert!(messages.contains(&says) && messages.contains(&format!("which holds core {last}")), "{messages}");

    // What names no core is put on those of the mask.
    let file = written(folder, &configuration(&name));
    let (code, data, messages) = told(under(folder, &taskset, &["check", &file, "--json"]).output().unwrap());
    assert_eq!(code, 0, "{messages}");
    let plan: Json = serde_json::from_str(&data).unwrap();
    assert!(!data.contains("core-outside-mask"), "{data}");
    let cores = plan["plan"]["cores"].as_array().unwrap();
    assert!(cores.len() == 1 && cores[0]["core"] == *last, "{data}");

    let file = written(folder, &named);
    let manager = Running::start(under(folder, &taskset, &["up", &file]));
    let mut now = Json::Null;
    eventually("all NFs run", || {
        now = status(folder, &name);
        now["nfs"].as_array().is_some_and(|nfs| nfs.iter().all(|nf| nf["state"] == "running"))
    });
    assert_eq!(now["workers"][0]["core"], *first);
    manager.signal(Signal::TERM);
    let (code, _, messages) = manager.end();
    assert!(code == 0 && messages.contains("is outside the affinity mask"), "{messages}");
}

/// A cpuset of one core, gone when dropped.
struct OneCore(PathBuf);

impl OneCore {
    fn make(name: &str, core: u32) -> Option<Self> {
        let top = Cpusets::find().ok()?.top().to_owned();
        let group = top.join(name);
        fs::create_dir(&group).ok()?;
        fs::write(group.join("cpuset.mems"), fs::read(top.join("cpuset.mems")).unwrap()).unwrap();
        fs::write(group.join("cpuset.cpus"), core.to_string()).unwrap();
        Some(Self(group))
    }
}

impl Drop for OneCore {
    fn drop(&mut self) {
        Action::RemoveGroup { path: self.0.clone() }.perform_patiently().unwrap();
    }
}

#[test]
fn a_core_outside_the_cpuset_is_refused_with_its_name_and_cure() {
    let allowed = cores::allowed().unwrap();
    let name = name_of("cpuset");
    let group = match (is_root(), allowed.as_slice()) {
        (true, [first, .., _]) => OneCore::make(&name, *first),
        _ => None,
    };
    let Some(group) = group else {
        return eprintln!("skipped: this takes root, two cores, and cpusets of version 1");
    };
    let folder = tempfile::tempdir().unwrap();
    let (folder, path) = (folder.path(), group.0.to_str().unwrap());
    let last = allowed.as_slice().last().unwrap();
    let text = configuration(&name).replace("[[nf]]", &format!("[[nf]]\ncore = {last}"));
    let file = written(folder, &text);
    let enter = ["sh", "-c", "echo $$ > \"$0/cgroup.procs\" && exec \"$@\"", path];
    for word in ["check", "up"] {
        let (code, _, messages) = told(under(folder, &enter, &[word, &file]).output().unwrap());
        assert_eq!(code, 4, "{word}: {messages}");
        let says =
            format!("core {last} is there, but the cpuset {path} holds core {} only", allowed.as_slice()[0]);
        assert!(messages.contains(&says), "{word}: {messages}");
        assert!(messages.contains(&format!("> {path}/cpuset.cpus")), "with the cure: {messages}");
    }
}

/// Two managers poll one core: the second says so at its start, by the name of the first, and the first when
/// it has seen its worker wait.
#[test]
fn a_worker_core_that_two_managers_use_is_said_by_both() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let core = cores::allowed().unwrap().as_slice()[0];
    let start = |name: &str| {
        let text = configuration(name).replace("[manager]", &format!("[manager]\ncores = [{core}]"));
        Running::start(headgate(folder, &["up", &written(folder, &text)]))
    };
    let is_up = |name: &str| run(folder, &["status", "--name", name]).0 == 0;
    let names = [name_of("first"), name_of("second")];
    let first = start(&names[0]);
    eventually("the first runs", || is_up(&names[0]));
    let second = start(&names[1]);
    eventually("the second runs", || is_up(&names[1]));

    let now = status(folder, &names[1]);
    let told = events(&now, "core-taken")[0]["what"].as_str().unwrap();
    // Other tests' managers may be there too.
    assert!(told.starts_with(&format!("core {core}: ")) && told.contains("polls there too"), "{told}");
    assert!(told.contains("manager"), "{told}");
    assert_eq!(now["scheduler"]["taken"][0]["core"], core, "{now}");
    let (_, page, _) = run(folder, &["status", "--name", &names[1]]);
    assert!(page.contains("polls there too"), "{page}");

    let mut now = Json::Null;
    eventually("the first has seen its worker wait", || {
        now = status(folder, &names[0]);
        !events(&now, "core-taken").is_empty()
    });
    let what = now["scheduler"]["taken"][0]["what"].as_str().unwrap();
    assert!(what.starts_with(&format!("core {core}: ")) && what.contains("manager"), "{what}");
    second.signal(Signal::TERM);
    let (code, _, messages) = second.end();
    let says = messages.lines().find(|line| line.contains("polls there too"));
    assert!(code == 0 && says.is_some_and(|line| line.contains(&format!("core {core}: "))), "{messages}");
    first.signal(Signal::TERM);
    assert_eq!(first.end().0, 0);
}
