//! The arrows between rooms, and where unsafe code may lie. Sizes are held by `tests/tidy`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Rooms that each room may depend on, besides `units`, which every room may. `tests` stands above all of
/// them.
const ARROWS: &[(&str, &[&str])] = &[
    ("headgate-units", &[]),
    ("headgate-wire", &[]),
    ("headgate-tidy", &[]),
    ("headgate-decide", &[]),
    ("headgate-sim", &["headgate-decide"]),
    ("headgate-report", &["headgate-decide"]),
    ("headgate-host", &[]),
    ("headgate-shm", &[]),
    ("headgate-session", &["headgate-shm"]),
    ("headgate-port", &["headgate-shm"]),
    ("headgate-dpdk", &["headgate-port", "headgate-shm", "headgate-wire"]),
    ("headgate-kernel", &["headgate-port", "headgate-session", "headgate-shm", "headgate-wire"]),
    ("headgate-memif", &["headgate-port", "headgate-shm"]),
    ("headgate-generator", &["headgate-port", "headgate-shm", "headgate-wire"]),
    ("headgate-pcap", &["headgate-port", "headgate-shm", "headgate-wire"]),
    ("headgate-path", &["headgate-decide", "headgate-port", "headgate-shm", "headgate-wire"]),
    ("headgate-nf", &["headgate-kernel", "headgate-session", "headgate-shm", "headgate-wire"]),
    ("headgate-nfs", &["headgate-nf", "headgate-session", "headgate-wire"]),
    ("headgate-abi", &["headgate-nf"]),
    (
        // What a configuration can ask for is what ports, path and NFs can do.
        "headgate-config",
        &[
            "headgate-decide",
            "headgate-generator",
            "headgate-host",
            "headgate-kernel",
            "headgate-path",
            "headgate-port",
            "headgate-session",
            "headgate-shm",
            "headgate-wire",
        ],
    ),
    ("headgate-api", &["headgate-host"]),
    ("headgate-web", &["headgate-api"]),
    ("headgate-cluster", &["headgate-api", "headgate-config", "headgate-decide"]),
    (
        "headgate-manager",
        &[
            "headgate-api",
            // The agent is a thread of the daemon's process.
            "headgate-cluster",
            "headgate-config",
            "headgate-decide",
            "headgate-dpdk",
            "headgate-generator",
            "headgate-host",
            "headgate-kernel",
            "headgate-memif",
            // NFs that live in the thread of a worker.
            "headgate-nf",
            "headgate-nfs",
            "headgate-path",
            "headgate-pcap",
            "headgate-port",
            "headgate-session",
            "headgate-shm",
            "headgate-wire",
        ],
    ),
    (
        "headgate",
        &[
            "headgate-api",
            // A file for all nodes goes into their store.
            "headgate-cluster",
            "headgate-config",
            "headgate-decide",
            "headgate-host",
            // `doctor` says what the kernel offers to chains on its interfaces.
            "headgate-kernel",
            "headgate-report",
            "headgate-session",
            "headgate-sim",
            "headgate-web",
            "headgate-wire",
        ],
    ),
    (
        "headgate-bench",
        &[
            "headgate-api",
            "headgate-decide",
            // Its stamps say which packets came through.
            "headgate-generator",
            "headgate-host",
            "headgate-kernel",
            // An NF whose edits of kept state are timed.
            "headgate-nf",
            "headgate-report",
            "headgate-session",
            "headgate-shm",
            // Networks of many nodes are simulated.
            "headgate-sim",
            "headgate-wire",
        ],
    ),
];
const ABOVE: &[&str] = &["headgate-tests"];
/// Package that every room may depend on.
const UNITS: &str = "headgate-units";
/// The only room that links DPDK, which takes root, memory and a driver's address tricks along.
const DPDK: &str = "headgate-dpdk";
/// Packages whose programs and tests must not link DPDK.
const WITHOUT_DPDK: &[&str] =
    &["headgate", "headgate-bench", "headgate-nfs", "headgate-abi", "headgate-path"];

/// The only rooms with code that the compiler cannot check.
const UNSAFE_ROOMS: &[&str] =
    &["plane/shm", "plane/session", "plane/dpdk", "plane/kernel", "plane/memif", "plane/nf", "host", "abi"];
/// Rooms that depend on nothing of the machine.
const PURE_ROOMS: &[&str] = &["units", "wire", "decide"];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("this package lies in the workspace")
}

/// A package of the workspace.
struct Package {
    folder: PathBuf,
    /// Packages of the workspace that it is made of.
    dependencies: BTreeSet<String>,
    /// Dependencies that only its tests, examples and benchmarks are made of.
    of_tests: BTreeSet<String>,
}

fn packages() -> BTreeMap<String, Package> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline"])
        .current_dir(root())
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).expect("cargo prints JSON");
    let word = |value: &serde_json::Value| value.as_str().expect("a string").to_owned();
    let all = metadata["packages"].as_array().expect("packages");
    let ours: BTreeSet<String> = all.iter().map(|package| word(&package["name"])).collect();
    let read = |package: &serde_json::Value| {
        let (mut dependencies, mut of_tests) = (BTreeSet::new(), BTreeSet::new());
        for dependency in package["dependencies"].as_array().expect("dependencies") {
            let name = word(&dependency["name"]);
            if ours.contains(&name) {
                let kind = if dependency["kind"] == "dev" { &mut of_tests } else { &mut dependencies };
                kind.insert(name);
            }
        }
        let manifest = PathBuf::from(word(&package["manifest_path"]));
        let folder = manifest.parent().expect("a manifest lies in a folder").to_owned();
        (word(&package["name"]), Package { folder, dependencies, of_tests })
    };
    all.iter().map(read).collect()
}

#[test]
fn rooms_know_only_the_rooms_they_may() {
    let packages = packages();
    let allowed: BTreeMap<&str, &[&str]> = ARROWS.iter().copied().collect();
    let mut wrong = Vec::new();
    for (name, package) in packages.iter().filter(|(name, _)| !ABOVE.contains(&name.as_str())) {
        let Some(allowed) = allowed.get(name.as_str()) else {
            wrong.push(format!("{name} is a room that docs/architecture.md does not know"));
            continue;
        };
        let may = |other: &&String| allowed.contains(&other.as_str()) || *other == UNITS;
        let forbidden = package.dependencies.iter().filter(|other| !may(other));
        wrong.extend(forbidden.map(|other| format!("{name} -> {other}")));
    }
    for name in allowed.keys().filter(|name| !packages.contains_key(**name)) {
        wrong.push(format!("{name} has arrows and is no room"));
    }
    assert!(wrong.is_empty(), "arrows that the architecture does not allow: {wrong:#?}");
}

/// The way from a package, its tests included, to another, if there is one. What a feature alone brings along
/// counts.
fn way(packages: &BTreeMap<String, Package>, from: &str, to: &str) -> Option<Vec<String>> {
    let mut ways = vec![vec![from.to_owned()]];
    let mut seen = BTreeSet::new();
    while let Some(way) = ways.pop() {
        let last = way.last().expect("a way has a beginning");
        if last == to {
            return Some(way);
        }
        let package = &packages[last];
        let tests = package.of_tests.iter().filter(|_| way.len() == 1);
        for next in package.dependencies.iter().chain(tests) {
            if seen.insert(next.clone()) {
                ways.push(way.iter().cloned().chain([next.clone()]).collect());
            }
        }
    }
    None
}

#[test]
fn only_the_daemon_links_dpdk() {
    let packages = packages();
    for room in WITHOUT_DPDK {
        assert_eq!(way(&packages, room, DPDK), None, "{room} and its tests are to build without libdpdk");
    }
    let found = way(&packages, "headgate-manager", DPDK).expect("the daemon does link it");
    assert_eq!(found, ["headgate-manager", DPDK], "the path that is searched for is found");
}

#[test]
fn every_room_heeds_the_lints_of_the_workspace() {
    for (name, Package { folder, .. }) in packages() {
        let manifest = std::fs::read_to_string(folder.join("Cargo.toml")).expect("a manifest");
        assert!(manifest.contains("[lints]\nworkspace = true"), "{name} sets its own lints");
    }
    for room in PURE_ROOMS {
        let library = std::fs::read_to_string(root().join(room).join("src/lib.rs")).expect("a library");
        for promise in ["no_std", "#![forbid(unsafe_code)]"] {
            assert!(library.contains(promise), "{room} does not promise {promise}");
        }
    }
}

/// Every Rust file of the workspace, by its path from the root.
fn sources() -> Vec<(String, String)> {
    fn visit(folder: &Path, found: &mut Vec<(String, String)>) {
        for entry in std::fs::read_dir(folder)
            .expect("a folder of the workspace")
            .map(|entry| entry.expect("an entry"))
        {
            let path = entry.path();
            let name = entry.file_name();
            let name = name.to_string_lossy();
            if path.is_dir() {
                if !name.starts_with('.') && name != "target" {
                    visit(&path, found);
                }
            } else if name.ends_with(".rs") {
                let text = std::fs::read_to_string(&path)
                    .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
                let path = path.strip_prefix(root()).expect("it lies in the workspace");
                found.push((path.display().to_string(), text));
            }
        }
    }
    let mut found = Vec::new();
    visit(root(), &mut found);
    assert!(found.len() > 100, "only {} files were seen", found.len());
    found
}

/// Returns whether a line has the keyword outside comments.
fn is_unsafe(line: &str) -> bool {
    let code = line.split("//").next().unwrap_or_default();
    let is_part = |letter: char| letter.is_alphanumeric() || letter == '_';
    code.split(|letter: char| !is_part(letter)).any(|word| word == "unsafe") && !code.contains('"')
}

/// A test may need it to see what no safe code can, such as every allocation, or to write what a hostile
/// process would. Fuzz targets are tests.
fn is_test(path: &str) -> bool {
    path.split_once('/')
        .is_some_and(|(room, rest)| room == "fuzz" || room != "tests" && rest.contains("tests/"))
}

#[test]
fn unsafe_code_stays_in_its_rooms() {
    let elsewhere = |path: &str| !UNSAFE_ROOMS.iter().any(|room| path.starts_with(&format!("{room}/")));
    let sources = sources();
    let outside = sources.iter().filter(|(path, _)| elsewhere(path) && !is_test(path));
    let wrong: Vec<String> = outside
        .flat_map(|(path, text)| {
            let lines = text.lines().zip(1..).filter(|(line, _)| is_unsafe(line));
            lines.map(move |(line, number)| format!("{path}:{number}: {}", line.trim()))
        })
        .collect();
    assert!(wrong.is_empty(), "unsafe code outside {UNSAFE_ROOMS:?}: {wrong:#?}");
    assert!(sources.iter().any(|(path, text)| path.starts_with("plane/shm") && text.lines().any(is_unsafe)));
}
