//! Snapshots of the findings about bad files. Each `bad/NAME.toml` has its findings beside it in
//! `bad/NAME.txt`.
//!
//! `HEADGATE_UPDATE_SNAPSHOTS=1 cargo test -p headgate-config` writes them anew; read the difference
//! before committing it.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::super::report::Report;
use super::super::resolve::ToolUse;
use super::super::{Code, Diagnostics, files, load, parse_part, parse_simulated, schema};
use super::{catalog, machine, machine_of};

pub(super) fn here(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// Compares `actual` with the committed file, or writes it when asked to.
pub(super) fn assert_snapshot(path: &Path, actual: &str) {
    if std::env::var_os("HEADGATE_UPDATE_SNAPSHOTS").is_some() {
        fs::write(path, actual).unwrap();
    }
    let expected = fs::read_to_string(path).unwrap_or_default();
    assert!(
        expected == actual,
        "{} is not what the code says (HEADGATE_UPDATE_SNAPSHOTS=1 writes it anew):\n{actual}",
        path.display()
    );
}

fn bad_files() -> Vec<PathBuf> {
    let entries = fs::read_dir(here("src/tests/bad")).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    // What is found in names.toml is kept as JSON too, in names.json.
    let is_bad = |path: &PathBuf| match path.extension().and_then(|extension| extension.to_str()) {
        Some("toml") => true,
        Some("json") => path.file_stem().is_some_and(|stem| stem != "names"),
        _ => false,
    };
    let mut files: Vec<PathBuf> = paths.filter(is_bad).collect();
    files.sort();
    files
}

fn findings_in(path: &Path) -> Diagnostics {
    let name = path.file_name().unwrap().to_str().unwrap();
    let text = fs::read_to_string(path).unwrap();
    let stem = path.file_stem().unwrap().to_str().unwrap();
    if stem == "simulated" {
        return match parse_simulated(name, &text, &catalog()) {
            Ok(simulated) => simulated.warnings,
            Err(findings) => findings,
        };
    }
    let node = matches!(stem, "node-mtu" | "across-mtu").then_some("gate");
    match parse_part(name, &text, &catalog(), &machine_of(stem), node) {
        Ok(loaded) => loaded.warnings,
        Err(findings) => findings,
    }
}

#[test]
fn bad_files_are_explained() {
    for path in bad_files() {
        assert_snapshot(&path.with_extension("txt"), &findings_in(&path).to_string());
    }
}

#[test]
fn findings_serialise() {
    let findings = findings_in(&here("src/tests/bad/names.toml"));
    let json = serde_json::to_string_pretty(&findings).unwrap();
    assert_snapshot(&here("src/tests/bad/names.json"), &format!("{json}\n"));
}

#[test]
fn every_code_has_a_bad_file() {
    let mut seen: BTreeSet<&str> = BTreeSet::new();
    for path in bad_files() {
        seen.extend(findings_in(&path).0.iter().map(|finding| finding.code.name()));
    }
    // Found by looking at files, which `parse` does not; `files_are_looked_for` shows them.
    seen.extend([Code::Unreadable, Code::FileMissing, Code::ProgramMissing].map(Code::name));
    let unseen: Vec<&str> =
        Code::ALL.iter().map(|code| code.name()).filter(|name| !seen.contains(name)).collect();
    assert_eq!(unseen, Vec::<&str>::new());
}

#[test]
fn the_guide_lists_every_code() {
    let guide = fs::read_to_string(here("../docs/guide/configuration.md")).unwrap();
    for code in Code::ALL {
        let row = format!("| `{}` | {} |", code.name(), code.sentence());
        assert!(guide.contains(&row), "docs/guide/configuration.md lacks the row\n{row}");
    }
}

#[test]
fn the_published_schema_is_current() {
    let schema = serde_json::to_string_pretty(&schema()).unwrap();
    assert_snapshot(&here("../docs/guide/headgate.schema.json"), &format!("{schema}\n"));
}

#[test]
fn the_guide_names_every_key() {
    fn keys(schema: &serde_json::Value, found: &mut BTreeSet<String>) {
        if let Some(properties) = schema.get("properties").and_then(|properties| properties.as_object()) {
            found.extend(properties.keys().cloned());
        }
        match schema {
            serde_json::Value::Object(map) => map.values().for_each(|value| keys(value, found)),
            serde_json::Value::Array(list) => list.iter().for_each(|value| keys(value, found)),
            _ => {}
        }
    }
    let guide = fs::read_to_string(here("../docs/guide/configuration.md")).unwrap();
    let mut all = BTreeSet::new();
    keys(&schema(), &mut all);
    let absent: Vec<&String> = all
        .iter()
        .filter(|key| !guide.contains(&format!("`{key}`")) && !guide.contains(&format!("[{key}]")))
        .collect();
    assert!(absent.is_empty(), "docs/guide/configuration.md does not describe {absent:?}");
}

#[test]
fn programs_are_looked_for() {
    let missing = |programs, any| {
        let mut report = Report::default();
        let tool = ToolUse { span: 0..1, programs, any, install: "install it" };
        files::check(&[], &[tool], &mut report);
        report.has(Code::ProgramMissing)
    };
    assert!(!missing(&["sh", "no-such-program"], true));
    assert!(missing(&["sh", "no-such-program"], false));
    assert!(missing(&["no-such-program", "nor-this"], true));
}

#[test]
fn files_are_looked_for() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("headgate.toml");
    let absent = load(&path, &catalog(), &machine(), None).unwrap_err();
    assert_eq!((absent.0[0].code, absent.0[0].line), (Code::Unreadable, 0));

    fs::write(&path, b"[memory]\nbuffers = \xff\n").unwrap();
    let binary = load(&path, &catalog(), &machine(), None).unwrap_err();
    assert_eq!((binary.0[0].code, binary.0[0].line, binary.0[0].column), (Code::Unreadable, 2, 11));

    let text = r#"
port = [
    { name = "a", kind = "pcap", read = "in.pcap" },
    { name = "b", kind = "pcap", write = "out/b.pcapng" },
]
nf = [{ name = "own", exec = ["./own"] }]
chain = [{ name = "c", stages = ["own"], out = "b" }]
rule = [{ chain = "c" }]
"#;
    fs::write(&path, text).unwrap();
    let findings = load(&path, &catalog(), &machine(), None).unwrap_err();
    let found: Vec<(Code, usize)> = findings.0.iter().map(|one| (one.code, one.line)).collect();
    assert_eq!(found, [(Code::FileMissing, 3), (Code::FileMissing, 4), (Code::FileMissing, 6)]);

    fs::write(folder.path().join("in.pcap"), b"").unwrap();
    fs::write(folder.path().join("own"), b"").unwrap();
    fs::create_dir(folder.path().join("out")).unwrap();
    let loaded = load(&path, &catalog(), &machine(), None).unwrap();
    assert_eq!(loaded.warnings.0, []);

    // One file, whatever it is called: by a link, or by a way around although it is not there yet.
    std::os::unix::fs::symlink("in.pcap", folder.path().join("linked.pcap")).unwrap();
    for (read, first, second) in
        [("in.pcap", "linked.pcap", "x"), ("linked.pcap", "x", "in.pcap"), ("in.pcap", "x", "out/../x")]
    {
        let text = format!(
            "port = [{{ name = 'a', kind = 'pcap', read = '{read}' }},
                     {{ name = 'b', kind = 'pcap', write = '{first}' }},
                     {{ name = 'c', kind = 'pcap', write = '{second}' }}]"
        );
        fs::write(&path, text).unwrap();
        let findings = load(&path, &catalog(), &machine(), None).unwrap_err();
        let twice = findings.0.iter().filter(|one| one.code == Code::FileTwice).count();
        assert_eq!(twice, 1, "{read} {first} {second}: {findings}");
    }
}
