//! The README's first example, run as it is printed.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use headgate_tests::{machine, programs};

/// The README's heading over the example, and the one behind it.
const SECTION: [&str; 2] = ["\n## Use it\n", "\nThe same file can have more:\n"];

/// The blocks of the example, in their order: language and text.
fn blocks(readme: &str) -> Vec<(&str, &str)> {
    let start = readme.find(SECTION[0]).expect("the README has the section");
    let end = readme.find(SECTION[1]).expect("the section has an end");
    let fenced = readme[start..end].split("```").skip(1).step_by(2);
    fenced.map(|block| block.split_once('\n').expect("a block has lines")).collect()
}

/// Network, processes, mounts and the manager's folder of its own: whatever happens inside, nothing stays.
fn inside(folder: &Path, script: &str) -> (bool, String) {
    fs::write(folder.join("script"), script).unwrap();
    let path = format!("{}:{}", programs::folder().display(), std::env::var("PATH").unwrap_or_default());
    let alone = ["--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"];
    let ran = Command::new("unshare")
        .args(alone)
        .args([
            "sh",
            "-c",
            "mount -t tmpfs tmpfs /run && ip link set lo up && exec bash -euo pipefail script 2>&1",
        ])
        .current_dir(folder)
        .env("PATH", path)
        .stdin(Stdio::null())
        .output()
        .expect("unshare runs");
    (ran.status.success(), String::from_utf8_lossy(&ran.stdout).into_owned())
}

#[test]
fn the_first_example_works_as_it_is_printed() {
    const TEST: &str = "the_first_example_works_as_it_is_printed";
    if !machine::is_root() {
        return machine::skip(TEST, "network namespaces take root");
    }
    if !["unshare", "ip", "ping", "iperf3", "python3", "curl"]
        .iter()
        .all(|program| machine::has_program(TEST, program))
    {
        return;
    }
    let _alone = machine::alone();
    let (_, _) = (programs::nfs(), programs::manager());
    let readme = fs::read_to_string(programs::top().join("README.md")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let mut script = String::new();
    for (language, text) in blocks(&readme) {
        match language {
            "toml" => fs::write(folder.path().join("edge.toml"), text).unwrap(),
            "sh" => script += text,
            other => panic!("nobody knows how to run {other}"),
        }
    }
    let (is_fine, said) = inside(folder.path(), &script);
    assert!(is_fine, "{said}");
    for wanted in [" 0% packet loss", "iperf Done", "HTTP/1.0 200 OK", "accounts hold"] {
        assert!(said.contains(wanted), "no {wanted:?} in\n{said}");
    }
    assert!(!said.contains("warning["), "{said}");
}
