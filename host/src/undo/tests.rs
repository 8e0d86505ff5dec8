use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;

use super::*;
use crate::cgroup::CpuController;
use crate::namespace::Namespace;
use crate::testing::skip;

fn remove(name: &str) -> Action {
    Action::RemoveFile { path: name.into() }
}

fn line(message: &Message) -> Vec<u8> {
    let mut line = serde_json::to_vec(message).unwrap();
    line.push(b'\n');
    line
}

#[test]
fn the_ledger_keeps_order_and_forgets_what_was_withdrawn() {
    let mut bytes = Vec::new();
    for (ticket, name) in ["/a", "/b", "/c"].iter().enumerate() {
        let message = Message::Register { ticket: ticket as u64, action: remove(name) };
        bytes.extend(line(&message));
    }
    bytes.extend(line(&Message::Withdraw { ticket: 1 }));
    // In pieces of any size, as a pipe may deliver them.
    for size in 1..bytes.len() {
        let mut ledger = Ledger::default();
        bytes.chunks(size).for_each(|piece| ledger.enter(piece));
        let actions: Vec<_> = ledger.actions.values().cloned().collect();
        assert_eq!(actions, [remove("/a"), remove("/c")]);
    }
}

#[test]
fn a_line_cut_off_by_death_does_not_count() {
    let whole = line(&Message::Register { ticket: 0, action: remove("/a") });
    let mut ledger = Ledger::default();
    ledger.enter(&whole[..whole.len() - 1]);
    assert!(ledger.actions.is_empty());
}

#[test]
fn relative_paths_are_made_absolute() {
    let here = std::env::current_dir().unwrap();
    let absolute = Action::RemoveDirectory { path: "x".into() }.absolute();
    assert_eq!(absolute, Action::RemoveDirectory { path: here.join("x") });
}

#[test]
fn a_path_that_is_not_text_cannot_be_told() {
    let path = PathBuf::from(OsStr::from_bytes(b"/\xff"));
    let message = Message::Register { ticket: 0, action: Action::RemoveFile { path } };
    assert!(serde_json::to_string(&message).is_err());
}

#[test]
fn removing_twice_is_no_error_and_what_is_in_a_directory_stays() {
    let directory = tempfile::tempdir().unwrap();
    let (group, file) = (directory.path().join("group"), directory.path().join("group/file"));
    fs::create_dir(&group).unwrap();
    fs::write(&file, "").unwrap();
    let remove_group = Action::RemoveDirectory { path: group.clone() };
    remove_group.perform_patiently().unwrap();
    assert!(file.exists());
    for _ in 0..2 {
        Action::RemoveFile { path: file.clone() }.perform().unwrap();
        remove_group.perform().unwrap();
    }
    assert!(!group.exists());
}

#[test]
fn a_tree_goes_with_all_that_is_in_it_and_links_are_not_followed() {
    let directory = tempfile::tempdir().unwrap();
    let (tree, elsewhere) = (directory.path().join("tree"), directory.path().join("elsewhere"));
    fs::create_dir_all(tree.join("deep")).unwrap();
    fs::write(&elsewhere, "").unwrap();
    std::os::unix::fs::symlink(directory.path(), tree.join("deep/link")).unwrap();
    for _ in 0..2 {
        Action::RemoveTree { path: tree.clone() }.perform_patiently().unwrap();
    }
    assert!(!tree.exists() && elsewhere.exists());
}

#[test]
fn writing_does_not_create() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("setting");
    let action = Action::WriteFile { path: path.clone(), value: "1".into() };
    assert!(matches!(action.perform(), Err(UndoError::File(FileError::Write { .. }))));
    assert!(!path.exists());
}

/// A control group of these tests; `None` where none can be made.
fn group(name: &str) -> Option<PathBuf> {
    let (CpuController::V1(mount) | CpuController::V2(mount)) = CpuController::find() else {
        skip("no cpu controller is mounted here");
        return None;
    };
    let group = mount.join(format!("headgate-{name}-{}", std::process::id()));
    if let Err(error) = fs::create_dir(&group) {
        skip(&format!("cannot make {}: {error}", group.display()));
        return None;
    }
    Some(group)
}

#[test]
fn a_busy_control_group_goes_when_its_last_process_has_died() {
    let Some(group) = group("busy") else { return };
    let mut member = Command::new("sleep").arg("1000").spawn().unwrap();
    let joined = fs::write(group.join("cgroup.procs"), member.id().to_string());
    let remove = Action::RemoveDirectory { path: group.clone() };
    let busy = remove.perform();
    thread::scope(|scope| {
        let removal = scope.spawn(|| remove.perform_patiently());
        member.kill().unwrap();
        member.wait().unwrap();
        removal.join().unwrap().unwrap();
    });
    joined.unwrap();
    assert!(matches!(busy, Err(UndoError::Remove { .. })), "{busy:?}");
    assert!(!group.exists());
}

#[test]
fn who_left_its_session_ends_with_its_group() {
    let Some(group) = group("rest") else { return };
    let mut member = Command::new("setsid").args(["sleep", "1000"]).spawn().unwrap();
    let joined = fs::write(group.join("cgroup.procs"), member.id().to_string());
    let remove = Action::RemoveGroup { path: group.clone() };
    let removal = thread::spawn(move || remove.perform_patiently());
    // Only then does the group become empty: a zombie still counts.
    let end = member.wait().unwrap();
    removal.join().unwrap().unwrap();
    joined.unwrap();
    assert_eq!(end.signal(), Some(libc::SIGKILL));
    assert!(!group.exists());
}

#[test]
fn interfaces_are_put_back_and_deleted() {
    let namespace = match Namespace::new() {
        Ok(namespace) => namespace,
        Err(error) => return skip(&error.to_string()),
    };
    let work = || {
        let mut links = Links::here().unwrap();
        links.add_bridge("bridge", &[]).unwrap();
        let offload = Offload::GenericReceive;
        let was = links.offload("bridge", offload).unwrap();
        let restore = Action::SetOffload { interface: "bridge".into(), offload, on: was };
        links.set_offload("bridge", offload, !was).unwrap();
        restore.perform().unwrap();
        assert_eq!(links.offload("bridge", offload).unwrap(), was);
        let delete = Action::DeleteLink { name: "bridge".into() };
        for _ in 0..2 {
            delete.perform().unwrap();
            restore.perform().unwrap();
        }
        assert!(links.find("bridge").is_err());
    };
    namespace.run(work).unwrap();
}

#[test]
fn a_raised_process_gets_its_policy_back_and_another_of_its_number_does_not() {
    let mut raised = Command::new("sleep").arg("1000").spawn().unwrap();
    let pid = Pid::from_child(&raised);
    let policy = sched::get(Some(pid)).unwrap();
    let started = process::started_ticks(pid).unwrap();
    let give_back = |started| Action::Reschedule { pid: pid.as_raw_pid(), started, policy };
    let tried = sched::raise(Some(pid), 1);
    if tried.is_ok() {
        give_back(started + 1).perform().unwrap();
        assert_eq!(sched::get(Some(pid)).unwrap(), Policy::Fifo { priority: 1 });
        give_back(started).perform().unwrap();
        assert_eq!(sched::get(Some(pid)).unwrap(), policy);
    }
    raised.kill().unwrap();
    raised.wait().unwrap();
    give_back(started).perform().unwrap();
    match tried {
        Ok(()) | Err(SchedError::NotPermitted { .. }) => {}
        Err(error) => panic!("{error}"),
    }
    if let Err(error) = tried {
        skip(&error.to_string());
    }
}

#[test]
fn files_go_with_their_lock_unless_somebody_holds_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let action = Action::RemoveUnlocked { lock: path("lock"), files: vec![path("socket"), path("absent")] };
    action.perform().unwrap();
    for name in ["lock", "socket"] {
        fs::write(path(name), "").unwrap();
    }
    let held = File::open(path("lock")).unwrap();
    flock(&held, FlockOperation::LockExclusive).unwrap();
    action.perform().unwrap();
    assert!(path("lock").exists() && path("socket").exists(), "they are the next one's by now");
    drop(held);
    action.perform().unwrap();
    assert!(!path("lock").exists() && !path("socket").exists());
}

/// Two managers died one after the other: the janitor of the first waits for the lock while that of the
/// second takes the files away, and a third manager puts its own there.
#[test]
fn files_of_a_successor_stay() {
    let folder = tempfile::tempdir().unwrap();
    let (lock, socket) = (folder.path().join("lock"), folder.path().join("socket"));
    fs::write(&lock, "").unwrap();
    let second = File::open(&lock).unwrap();
    flock(&second, FlockOperation::LockExclusive).unwrap();
    let action = Action::RemoveUnlocked { lock: lock.clone(), files: vec![socket.clone()] };
    let first = thread::spawn(move || action.perform());
    // It has the file open once the kernel lists it twice for this process.
    let opened = || {
        let files = fs::read_dir("/proc/self/fd").unwrap().flatten();
        files.filter(|file| fs::read_link(file.path()).is_ok_and(|path| path == lock)).count()
    };
    while opened() < 2 {
        thread::sleep(Duration::from_millis(1));
    }
    fs::remove_file(&lock).unwrap();
    for file in [&lock, &socket] {
        fs::write(file, "of the third").unwrap();
    }
    drop(second);
    first.join().unwrap().unwrap();
    assert!(lock.exists() && socket.exists());
}

#[test]
fn a_folder_that_others_have_mounted_stays() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("netns");
    std::fs::create_dir(&path).unwrap();
    let mount = |program: &str, words: &[&str]| {
        std::process::Command::new(program)
            .args(words)
            .arg(&path)
            .status()
            .is_ok_and(|status| status.success())
    };
    let itself = path.to_str().unwrap();
    if !mount("mount", &["--bind", itself]) {
        println!("a_folder_that_others_have_mounted_stays: skipped: a mount takes root");
        return;
    }
    let remove = Action::RemoveDirectory { path: path.clone() };
    let outcome = remove.perform();
    assert!(mount("umount", &[]));
    outcome.unwrap();
    assert!(path.exists());
    remove.perform().unwrap();
    assert!(!path.exists());
}
