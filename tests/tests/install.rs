//! Installing and taking away: `make install` and the Debian package, into folders of the test's own.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use headgate_tests::programs::{self, must, top};
use tempfile::TempDir;

/// The folder of this build, with everything in it that is installed.
fn build() -> PathBuf {
    programs::built("")
}

/// Runs a target of the Makefile with `/usr` as its prefix, below `root`.
fn make(target: &str, root: &Path) {
    let mut command = Command::new("make");
    command.args(["--silent", "-C"]).arg(top()).args([target, "PREFIX=/usr"]);
    command.arg(format!("DESTDIR={}", root.display())).arg(format!("BUILD={}", build().display()));
    must(&mut command);
}

/// Returns all files and links below a folder, by their paths in it.
fn files(folder: &Path) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next).unwrap().map(Result::unwrap) {
            if entry.file_type().unwrap().is_dir() {
                folders.push(entry.path());
            } else {
                found.insert(entry.path().strip_prefix(folder).unwrap().display().to_string());
            }
        }
    }
    found
}

/// Makes a file of a program's author that an uninstall must not touch.
fn leave_a_neighbour(root: &Path) -> String {
    let path = "usr/lib/libother.so";
    fs::create_dir_all(root.join("usr/lib")).unwrap();
    fs::write(root.join(path), "somebody else's").unwrap();
    path.to_owned()
}

#[test]
fn what_is_installed_works_and_goes_without_trace() {
    let root = TempDir::new().unwrap();
    let neighbour = leave_a_neighbour(root.path());
    make("install", root.path());
    let installed = files(root.path());
    for file in [
        "usr/bin/headgate",
        "usr/bin/headgate-manager",
        "usr/bin/headgate-nfs",
        "usr/bin/headgate-bench",
        "usr/include/headgate_files.h",
        "usr/include/headgate_nf.h",
        "usr/include/headgate_wire.h",
        "usr/lib/libheadgate_nf.a",
        "usr/lib/libheadgate_nf.so",
        "usr/lib/libheadgate_nf.so.1",
        "usr/lib/pkgconfig/headgate_nf.pc",
        "usr/lib/systemd/system/headgate.service",
        "usr/share/bash-completion/completions/headgate",
        "usr/share/zsh/site-functions/_headgate",
        "usr/share/fish/vendor_completions.d/headgate.fish",
        "usr/share/doc/headgate/monitoring/headgate.rules.yml",
        "usr/share/doc/headgate/monitoring/headgate.json",
        "usr/share/man/man1/headgate-nfs.1",
        "usr/share/man/man8/headgate-manager.8",
    ] {
        assert!(installed.contains(file), "{file} is not in {installed:#?}");
    }
    check_manual(root.path());
    check_programs(root.path());
    make("uninstall", root.path());
    assert_eq!(files(root.path()), BTreeSet::from([neighbour]));
}

/// Every command that the help lists has its page, and no other is there.
fn check_manual(root: &Path) {
    let help = must(Command::new(root.join("usr/bin/headgate")).arg("--help"));
    let listed = help.split("\nCommands:\n").nth(1).and_then(|rest| rest.split("\n\n").next()).unwrap();
    let is_name = |line: &&str| line.starts_with("  ") && !line.starts_with("   ");
    let names = listed.lines().filter(is_name).filter_map(|line| line.split_whitespace().next());
    let commands: Vec<&str> = names.filter(|name| *name != "help").collect();
    assert!(commands.len() > 8 && commands.contains(&"bench"), "{listed}");
    let pages = root.join("usr/share/man/man1");
    for command in commands {
        let page = fs::read_to_string(pages.join(format!("headgate-{command}.1"))).unwrap();
        assert!(page.contains(".SH SYNOPSIS"), "{page}");
    }
    assert!(fs::read_to_string(pages.join("headgate-bench-hop.1")).unwrap().contains("rounds"));
    assert!(!pages.join("headgate-man.1").exists(), "the command for packages is not for people");
    let script = fs::read_to_string(root.join("usr/share/bash-completion/completions/headgate")).unwrap();
    assert!(script.contains("COMPLETE="), "the shell asks the command: {script}");
    let mut asked = Command::new(root.join("usr/bin/headgate"));
    asked.args(["--", "headgate", "bench", "hop", "--rou"]).env("COMPLETE", "bash");
    asked.envs([("_CLAP_COMPLETE_INDEX", "3"), ("_CLAP_IFS", "\n"), ("_CLAP_COMPLETE_COMP_TYPE", "9")]);
    let words = must(asked.env("_CLAP_COMPLETE_SPACE", "true"));
    assert!(words.contains("--rounds"), "{words}");
}

/// The programs find one another where they were installed, carry no debugging symbols, and the unit starts
/// the one that was installed.
fn check_programs(root: &Path) {
    let mut check = Command::new(root.join("usr/bin/headgate"));
    for variable in ["HEADGATE_MANAGER", "HEADGATE_NFS", "HEADGATE_BENCH"] {
        check.env_remove(variable);
    }
    let plan = must(check.arg("check").arg(top().join("docs/guide/examples/hop.toml")));
    assert!(plan.starts_with("Manager "), "{plan}");
    for file in ["usr/bin/headgate-manager", "usr/lib/libheadgate_nf.so.1", "usr/lib/libheadgate_nf.a"] {
        let sections = must(Command::new("readelf").args(["-S", "-W"]).arg(root.join(file)));
        assert!(!sections.contains(".debug_info"), "{file} is not stripped");
    }
    let dynamic = must(Command::new("readelf").args(["-d"]).arg(root.join("usr/lib/libheadgate_nf.so.1")));
    assert!(dynamic.contains("Library soname: [libheadgate_nf.so.1]"), "{dynamic}");
    let unit = fs::read_to_string(root.join("usr/lib/systemd/system/headgate.service")).unwrap();
    assert!(unit.contains("ExecStart=/usr/bin/headgate-manager "), "{unit}");
}

#[test]
fn without_programs_nothing_is_installed() {
    let (root, empty) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let mut command = Command::new("make");
    command.args(["--silent", "-C"]).arg(top()).arg("install");
    command
        .arg(format!("DESTDIR={}", root.path().display()))
        .arg(format!("BUILD={}", empty.path().display()));
    let output = command.output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && told.contains("run `make` first"), "{told}");
    assert!(files(root.path()).is_empty());
}

/// Another root file system for dpkg, in which nothing is installed.
fn empty_system() -> TempDir {
    let root = TempDir::new().unwrap();
    for folder in ["info", "updates", "triggers", "parts"] {
        fs::create_dir_all(root.path().join("var/lib/dpkg").join(folder)).unwrap();
    }
    for file in ["status", "available"] {
        fs::write(root.path().join("var/lib/dpkg").join(file), "").unwrap();
    }
    root
}

/// Runs dpkg on another root file system, with the package's own scripts, which are told so by DPKG_ROOT.
fn dpkg(root: &Path, words: &[&str]) {
    let mut command = Command::new("dpkg");
    command.arg("--root").arg(root).args(["--force-not-root", "--force-script-chrootless"]);
    // There is nothing in this system but us.
    command.args(["--force-depends", "--log=/dev/null"]).args(words);
    must(&mut command);
}

#[test]
fn the_package_depends_on_what_it_needs_and_goes_without_trace() {
    let script = top().join("dist/deb.sh");
    let built = must(Command::new(script).arg(build()).env("COMPRESSION", "gzip"));
    let package = built.lines().last().unwrap();
    let depends = must(Command::new("dpkg-deb").args(["-f", package, "Depends"]));
    for library in ["libc6 (", "librte-eal", "librte-ethdev", "libgcc-s1"] {
        assert!(depends.contains(library), "{library} is not in {depends}");
    }
    let root = empty_system();
    let ours = |root: &Path| -> BTreeSet<String> {
        files(root).into_iter().filter(|file| !file.starts_with("var/lib/dpkg/")).collect()
    };
    dpkg(root.path(), &["-i", package]);
    let installed = ours(root.path());
    assert!(installed.contains("usr/bin/headgate") && installed.contains("usr/share/man/man1/headgate.1.gz"));
    assert!(installed.iter().any(|file| file.ends_with("/libheadgate_nf.so.1")), "{installed:#?}");
    // What the operator and the service make: kept by a removal, and gone with a purge unless it was written.
    let link = root.path().join("etc/systemd/system/multi-user.target.wants/headgate.service");
    fs::create_dir_all(link.parent().unwrap()).unwrap();
    std::os::unix::fs::symlink("/usr/lib/systemd/system/headgate.service", &link).unwrap();
    fs::create_dir_all(root.path().join("run/headgate")).unwrap();
    let costs = root.path().join("var/lib/headgate/costs.json");
    fs::create_dir_all(costs.parent().unwrap()).unwrap();
    fs::write(&costs, "{}").unwrap();
    dpkg(root.path(), &["-r", "headgate"]);
    assert_eq!(ours(root.path()), BTreeSet::from(["var/lib/headgate/costs.json".to_owned()]));
    dpkg(root.path(), &["-P", "headgate"]);
    assert_eq!(ours(root.path()), BTreeSet::new());
    for folder in ["etc/headgate", "run/headgate", "var/lib/headgate", "usr"] {
        assert!(!root.path().join(folder).exists(), "{folder} is left");
    }
    fs::remove_file(package).unwrap();
}
