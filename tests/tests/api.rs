//! The guide to the API, run as it is printed: a manager, a server, and `curl`.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use headgate_tests::{machine, programs};

const TEST: &str = "the_guide_to_the_api_works_as_it_is_printed";

/// Network, processes, mounts and the manager's folder of its own: whatever happens inside, nothing stays.
fn inside(folder: &Path, script: &str) -> (bool, String) {
    fs::write(folder.join("script"), script).unwrap();
    let path = format!("{}:{}", programs::folder().display(), std::env::var("PATH").unwrap_or_default());
    let ran = Command::new("unshare")
        .args(["--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c"])
        .arg("mount -t tmpfs tmpfs /run && ip link set lo up && exec bash -eu script 2>&1")
        .current_dir(folder)
        .env("PATH", path)
        .stdin(Stdio::null())
        .output()
        .expect("unshare runs");
    (ran.status.success(), String::from_utf8_lossy(&ran.stdout).into_owned())
}

#[test]
fn the_guide_to_the_api_works_as_it_is_printed() {
    if !machine::is_root() {
        return machine::skip(TEST, "namespaces take root");
    }
    if !["unshare", "ip", "python3", "curl"].iter().all(|program| machine::has_program(TEST, program)) {
        return;
    }
    let _alone = machine::alone();
    let _programs = (programs::nfs(), programs::manager(), programs::built("headgate"));
    let guide = fs::read_to_string(programs::top().join("docs/guide/api.md")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let mut script = String::new();
    for block in guide.split("\n```").skip(1).step_by(2) {
        match block.split_once('\n').unwrap() {
            ("toml", text) => fs::write(folder.path().join("api.toml"), text).unwrap(),
            // What waits for a moment to pass waits for the server.
            ("sh", text) => script += &format!("{}\n", text.replace("sleep 1", WAIT)),
            (other, _) => panic!("nobody knows how to run {other}"),
        }
    }
    let (is_fine, said) = inside(folder.path(), &script);
    assert!(is_fine, "{said}");
    for wanted in [
        r#""name":"through""#,
        r#""instance":"first""#,
        r#""next":"#,
        r#""answered":"#,
        "event: event\ndata: {",
        r#""manager":{"#,
        r#"{"changes":["#,
        "urn:headgate:problem:read-only",
        r#""conserved":true"#,
    ] {
        assert!(said.contains(wanted), "no {wanted:?} in\n{said}");
    }
}

/// Waits until the server that was started last listens.
const WAIT: &str = "while ! [ -S /run/headgate/default+http.sock ]; do sleep 0.01; done
if [ -e reader.token ]; then
    while ! curl --silent --output /dev/null http://127.0.0.1:9465/; do sleep 0.01; done
fi";
