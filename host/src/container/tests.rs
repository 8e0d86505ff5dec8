use std::io::Read as _;
use std::os::unix::net::UnixStream;

use super::*;
use crate::testing::skip;
use crate::undo::Action;

fn plan(name: &str, script: &str) -> Plan {
    Plan {
        name: name.to_owned(),
        command: ["/bin/sh", "-c", script].map(str::to_owned).into(),
        environment: vec![("PATH".to_owned(), "/usr/bin:/bin".to_owned())],
        user: (65_534, 65_534),
        rootfs: None,
        files: Vec::new(),
        network: None,
    }
}

fn can_make() -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root || RUNTIMES.iter().all(|runtime| process::find_program(runtime).is_none()) {
        skip("containers take root and an OCI runtime");
        return false;
    }
    true
}

#[test]
fn the_log_tells_why() {
    let log = "{\"level\":\"info\",\"msg\":\"a\"}\n{\"level\":\"error\",\"msg\":\"no such\\nthing\"}\n";
    assert_eq!(said(log).as_deref(), Some("no such\nthing"));
    assert_eq!(said(""), None);
}

#[test]
fn a_file_system_without_a_place_for_proc_is_refused() {
    let (rootfs, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let bare = Plan { rootfs: Some(rootfs.path().to_owned()), ..plan("headgate-test", "") };
    let told = bare.write(folder.path()).unwrap_err().to_string();
    assert!(told.contains("has no folder `proc`"), "{told}");
}

fn nowhere() -> std::os::fd::OwnedFd {
    fs::OpenOptions::new().write(true).open("/dev/null").unwrap().into()
}

/// One container tells what it sees; its end and the removal of what its runtime left are seen from here.
#[test]
fn a_container_has_no_rights_and_leaves_nothing() {
    if !can_make() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let name = format!("headgate-test-{}", std::process::id());
    let script = "exec >&0; id -u; echo $$; grep -c . /proc/net/dev; grep NoNewPrivs /proc/self/status; \
        grep CapBnd /proc/self/status; touch /usr/x /tmp/x; ls /usr/x /tmp/x; unshare -U true || echo refused; exec sleep 1000";
    let (mut ours, theirs) = UnixStream::pair().unwrap();
    let mut making = Making::start(&plan(&name, script), folder.path(), theirs.into(), nowhere()).unwrap();
    let container = making.finish().unwrap();
    assert!(container.is_alive().unwrap());
    let mut text = String::new();
    ours.set_read_timeout(Some(std::time::Duration::from_secs(10))).unwrap();
    while !text.contains("refused") {
        let mut bytes = [0; 512];
        let count = ours.read(&mut bytes).unwrap();
        text += std::str::from_utf8(&bytes[..count]).unwrap();
    }
    let lines: Vec<&str> = text.split_whitespace().collect();
    // Two lines of headings and the loopback.
    let expected =
        ["65534", "1", "3", "NoNewPrivs:", "1", "CapBnd:", "0000000000000000", "/tmp/x", "refused"];
    assert_eq!(lines, expected);
    container.signal(Signal::KILL).unwrap();
    while container.is_alive().unwrap() {
        std::thread::yield_now();
    }
    Action::RemoveGroups { name: name.clone() }.perform_patiently().unwrap();
    assert!(crate::cgroup::everywhere(&name).iter().all(|group| !group.exists()));
}

#[test]
fn a_command_that_is_not_there_is_told_of() {
    if !can_make() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let name = format!("headgate-test-none-{}", std::process::id());
    let none = Plan { command: vec!["/no/such/program".to_owned()], ..plan(&name, "") };
    let (_ours, theirs) = UnixStream::pair().unwrap();
    let mut making = Making::start(&none, folder.path(), theirs.into(), nowhere()).unwrap();
    let told = making.finish().unwrap_err().to_string();
    assert!(told.contains("/no/such/program"), "{told}");
    Action::RemoveGroups { name }.perform_patiently().unwrap();
}
