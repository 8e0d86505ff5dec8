//! `setup.sh`: versions that are too old are told with the cure, and a user's Rust is found under sudo.
//! Nothing is installed here: the package manager is a program that refuses.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use headgate_tests::programs::top;
use tempfile::TempDir;

/// Programs that stand before those of the system.
struct Machine(TempDir);

impl Machine {
    fn new() -> Self {
        let machine = Self(TempDir::new().unwrap());
        machine.program("apt-get", "exit 97");
        machine
    }

    fn program(&self, name: &str, script: &str) {
        let path = self.0.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(path, Permissions::from_mode(0o755)).unwrap();
    }

    fn rust(&self, folder: &str, version: &str) {
        for tool in ["cargo", "rustc"] {
            self.program(&format!("{folder}{tool}"), &format!("echo '{tool} {version} (of a test)'"));
        }
    }

    /// Runs the script: its exit code, and what it says.
    fn setup(&self, user: Option<&str>) -> (i32, String) {
        let mut command = Command::new(top().join("setup.sh"));
        command.env("PATH", format!("{}:/usr/sbin:/usr/bin:/sbin:/bin", self.0.path().display()));
        command.env_remove("SUDO_USER");
        command.envs(user.map(|user| ("SUDO_USER", user)));
        let output = command.output().unwrap();
        (output.status.code().unwrap_or(-1), String::from_utf8_lossy(&output.stderr).into_owned())
    }
}

/// Where the packages are not installed, the script would try to, and fail here.
fn has_packages() -> bool {
    let machine = Machine::new();
    machine.rust("", "99.0.0");
    let (code, said) = machine.setup(None);
    if code != 0 {
        eprintln!("skipped: setup.sh has not been run here: {code}: {said}");
    }
    code == 0
}

#[test]
fn an_old_or_missing_rust_is_told_with_its_cure() {
    if !has_packages() {
        return;
    }
    let machine = Machine::new();
    machine.rust("", "1.70.0");
    let (code, said) = machine.setup(None);
    assert_eq!(code, 3, "{said}");
    assert!(said.contains("cargo is 1.70.0, and ") && said.contains("`rustup update stable`"), "{said}");
    machine.program("cargo", "exit 1");
    let (code, said) = machine.setup(None);
    assert_eq!(code, 3, "{said}");
    assert!(said.contains("cargo is missing: ") && said.contains("https://rustup.rs"), "{said}");
}

#[test]
fn an_old_dpdk_is_told_with_its_cure() {
    if !has_packages() {
        return;
    }
    let machine = Machine::new();
    machine.rust("", "99.0.0");
    machine.program("pkg-config", "echo 20.11.1");
    let (code, said) = machine.setup(None);
    assert_eq!(code, 3, "{said}");
    assert!(said.contains("DPDK is 20.11.1, and 22.11 or later is needed"), "{said}");
}

#[test]
fn under_sudo_the_rust_of_the_user_is_found() {
    if !has_packages() {
        return;
    }
    let machine = Machine::new();
    machine.rust("home/.cargo/bin/", "99.0.0");
    let home = machine.0.path().join("home");
    machine.program("getent", &format!("echo 'somebody:x:1234:1234::{}:/bin/sh'", home.display()));
    assert_eq!(machine.setup(Some("somebody")), (0, String::new()));
}

#[test]
fn scripts_are_clean() {
    let named = [
        "setup.sh",
        ".ci/run",
        ".ci/deep",
        "dist/deb.sh",
        "dist/deb/postinst",
        "dist/deb/prerm",
        "dist/deb/postrm",
    ];
    let checks = "tests/machine/checks";
    let of_machine = [top().join("tests/machine"), top().join(checks)].map(fs::read_dir).map(Result::unwrap);
    let of_machine = of_machine.into_iter().flatten().map(|entry| entry.unwrap().path());
    let scripts = of_machine.filter(|path| path.is_file() && path.extension().is_none());
    let mut shellcheck = Command::new("shellcheck");
    shellcheck.current_dir(top()).args(["-x", "-P", checks]).args(named).args(scripts);
    match shellcheck.output() {
        Ok(output) => assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout)),
        Err(error) => eprintln!("skipped: shellcheck: {error}"),
    }
}
