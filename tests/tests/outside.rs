//! An author outside of this tree: what docs/guide/writing-nfs.md says is built as it says, run over a
//! capture, and put into a chain. The library's crates are packaged, and built from their packages.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use headgate_tests::capture;
use headgate_tests::programs::{self, must, top};
use headgate_tests::session::{Session, chain, path_through};
use headgate_wire::pcap::Records;
use tempfile::TempDir;

/// The crates that an author's program is built from.
const CRATES: [&str; 7] = ["units", "wire", "shm", "session", "port", "kernel", "nf"];

/// Returns the first block of the guide in a language.
fn block(language: &str) -> String {
    let guide = fs::read_to_string(top().join("docs/guide/writing-nfs.md")).unwrap();
    let rest =
        guide.split(&format!("\n```{language}\n")).nth(1).unwrap_or_else(|| panic!("a {language} block"));
    rest.split("```").next().unwrap().to_owned()
}

/// A project in a folder that belongs to no workspace, with what was locked and is on this machine already.
fn project(folder: &Path, manifest: &str) -> PathBuf {
    fs::create_dir_all(folder.join("src")).unwrap();
    fs::write(folder.join("Cargo.toml"), manifest).unwrap();
    fs::write(folder.join("src/main.rs"), block("rust")).unwrap();
    fs::copy(top().join("Cargo.lock"), folder.join("Cargo.lock")).unwrap();
    folder.to_owned()
}

fn cargo(folder: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(folder).arg("--offline").args(words);
    command
}

/// Builds a project, with a target folder that all share, and returns its program.
fn built(folder: &Path, target: &Path) -> PathBuf {
    must(cargo(folder, &["build", "--target-dir"]).arg(target));
    let program = folder.join("program");
    fs::copy(target.join("debug/short-only"), &program).unwrap();
    program
}

/// Packages the crates and unpacks them; returns the lines of a manifest that has them in place of a
/// registry's.
fn packaged(folder: &Path) -> String {
    let mut command = cargo(&top(), &["package", "--no-verify", "--allow-dirty", "--quiet", "--target-dir"]);
    must(
        command.arg(folder).args(CRATES.iter().flat_map(|one| ["-p".to_owned(), format!("headgate-{one}")])),
    );
    let mut lines = "\n[patch.crates-io]\n".to_owned();
    for one in CRATES {
        let version = env!("CARGO_PKG_VERSION");
        let packages = folder.join("package");
        let path = packages.join(format!("headgate-{one}-{version}"));
        let archive = packages.join(format!("headgate-{one}-{version}.crate"));
        must(Command::new("tar").arg("xzf").arg(archive).arg("-C").arg(packages));
        lines += &format!("headgate-{one} = {{ path = {:?} }}\n", path.display().to_string());
    }
    lines
}

/// A capture of three frames: 60, 600 and 60 bytes.
fn three_frames(folder: &Path) -> PathBuf {
    let path = folder.join("in.pcap");
    capture::write(&path, &[60, 600, 60].map(|length| vec![0; length]));
    path
}

/// Runs a program over the capture with the arguments of the guide; the short frames pass.
fn run_over_a_capture(program: &Path, folder: &Path, library: Option<&Path>) {
    let (input, output) = (three_frames(folder), folder.join("out.pcap"));
    let mut command = Command::new(program);
    command.envs(library.map(|library| ("LD_LIBRARY_PATH", library)));
    must(command.arg("--pcap").args([&input, &output]).args(["--args", r#"{"longest": 100}"#]));
    let written = fs::read(&output).unwrap();
    assert_eq!(Records::new(&written).unwrap().count(), 2, "{}", program.display());
    let help =
        must(Command::new(program).arg("--help").envs(library.map(|library| ("LD_LIBRARY_PATH", library))));
    assert!(help.contains("--pcap IN OUT") && help.contains("--socket PATH --as NAME"), "{help}");
}

/// The programs in C, as the guide's `cc` lines make them from an installation: shared, then static.
fn compiled(folder: &Path) -> [PathBuf; 2] {
    let libraries = programs::built("");
    let mut install = Command::new("make");
    install.args(["--silent", "-C"]).arg(top().join("abi")).arg("install");
    install.arg(format!("PREFIX={}", folder.display())).arg(format!("LIBRARIES={}", libraries.display()));
    must(&mut install);
    fs::write(folder.join("short_only.c"), block("c")).unwrap();
    let guide = fs::read_to_string(top().join("docs/guide/writing-nfs.md")).unwrap();
    let lines: Vec<&str> = guide.lines().filter(|line| line.starts_with("cc ")).collect();
    let [shared, r#static] = lines[..] else { panic!("two lines with cc: {lines:?}") };
    [(shared, "shared"), (r#static, "static")].map(|(line, name)| {
        let mut shell = Command::new("sh");
        shell.current_dir(folder).env("PKG_CONFIG_PATH", folder.join("lib/pkgconfig")).args(["-ec", line]);
        must(&mut shell);
        fs::rename(folder.join("short_only"), folder.join(name)).unwrap();
        folder.join(name)
    })
}

#[test]
fn an_author_outside_builds_and_runs_what_the_guide_says() {
    let folder = TempDir::new().unwrap();
    let at = |name: &str| folder.path().join(name);
    let manifest = block("toml").replace("/path/to/headgate", &top().display().to_string());
    let rust = built(&project(&at("by-path"), &manifest), &at("target"));
    run_over_a_capture(&rust, folder.path(), None);

    // From the packages, as a registry would give them, and without what this NF does not need.
    let line = manifest.lines().find(|line| line.starts_with("headgate-nf")).unwrap();
    let packages = "headgate-nf = { version = \"0.1\", default-features = false, features = [\"pcap\"] }";
    let manifest = manifest.replace(line, packages) + &packaged(&at("packages"));
    let lean = project(&at("by-package"), &manifest);
    run_over_a_capture(&built(&lean, &at("target")), folder.path(), None);
    let tree = must(&mut cargo(&lean, &["tree", "--edges", "normal", "--prefix", "none"]));
    assert!(tree.contains("headgate-session") && !tree.contains("headgate-kernel"), "{tree}");
    assert!(!tree.contains("io-uring") && !tree.contains("landlock"), "{tree}");

    let [shared, r#static] = compiled(folder.path());
    let c = block("c");
    assert!(c.contains("hg_parse"), "frames of zeroes are not IP, and parse");
    run_over_a_capture(&shared, folder.path(), Some(&at("lib")));
    run_over_a_capture(&r#static, folder.path(), None);
    run_in_a_chain(&rust, &r#static);
}

fn run_in_a_chain(rust: &Path, c: &Path) {
    let ((_one, rust), (_other, c)) = (programs::for_everybody(rust), programs::for_everybody(c));
    let exec = |program: &Path| format!("exec = [\"{}\"]\nargs = {{ longest = 1000 }}", program.display());
    let text = path_through(&[("rust", &exec(&rust)), ("c", &exec(&c))]);
    let session = Session::start(&text);
    session.wait_for_packets("path", 1_000);
    let now = session.audited();
    assert!(chain(&now, "path").left > 0, "{:#?}", now.chains);
    assert!(now.nfs.iter().all(|nf| nf.delivered > 0 && nf.failures == 0), "{:#?}", now.nfs);
    session.stop();
}
