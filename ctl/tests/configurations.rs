//! `headgate check` with the NFs that are shipped: the configurations in the documentation, and mistakes in
//! arguments.

mod common;

use std::fs;
use std::path::{Path, PathBuf};

use common::{run, written};
use serde_json::Value as Json;

fn json(text: &str) -> Json {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("not one JSON document: {error}: {text}"))
}

#[test]
fn the_examples_of_the_guide_are_right() {
    let folder = tempfile::tempdir().unwrap();
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/guide/examples");
    for example in fs::read_dir(examples).unwrap().map(|entry| entry.unwrap().path()) {
        let text = fs::read_to_string(&example).unwrap();
        // The captures that examples name are for the reader to provide.
        let copy = folder.path().join(example.file_name().unwrap());
        fs::write(&copy, text).unwrap();
        fs::write(folder.path().join("in.pcap"), "").unwrap();
        let (code, data, messages) = run(folder.path(), &["check", copy.to_str().unwrap()]);
        let lacks_cores = messages.contains("[core-missing]");
        assert!(code == 0 || lacks_cores, "{}: {messages}", example.display());
        assert!(data.starts_with("Manager ") || lacks_cores, "{data}");
    }
}

/// Every page of the documentation.
fn pages() -> Vec<PathBuf> {
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut folders = vec![top.join("docs")];
    let mut pages: Vec<PathBuf> = ["README.md", "CONTRIBUTING.md"].map(|page| top.join(page)).into();
    while let Some(folder) = folders.pop() {
        for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                pages.push(path);
            }
        }
    }
    pages
}

/// The configurations in a page. One that shows a part of a file stands behind a comment, invisible where the
/// page is read, that has the rest: `<!-- completed by:`. A block of another program stands behind
/// `<!-- not a configuration -->`.
fn configurations(page: &str) -> Vec<String> {
    let mut before = "";
    let mut found = Vec::new();
    for (number, part) in page.split("```").enumerate() {
        let block = part.strip_prefix("toml\n").filter(|_| number % 2 == 1);
        let block = block.filter(|_| !before.trim_end().ends_with("<!-- not a configuration -->"));
        let rest = before
            .rsplit_once("<!-- completed by:\n")
            .and_then(|(_, rest)| rest.trim_end().strip_suffix("-->"));
        found.extend(block.map(|block| format!("{}{block}", rest.unwrap_or_default())));
        before = part;
    }
    found
}

/// Every block of configuration that a reader may copy is accepted, but for what this machine lacks.
#[test]
fn the_configurations_in_the_text_are_right() {
    let folder = tempfile::tempdir().unwrap();
    let mut checked = 0;
    for page in pages() {
        for text in configurations(&fs::read_to_string(&page).unwrap()) {
            let (_, data, _) = run(folder.path(), &["check", &written(folder.path(), &text), "--json"]);
            let diagnostics = json(&data)["diagnostics"].clone();
            let of_this_machine = ["core-missing", "file-missing", "program-missing"].map(Json::from);
            let wrong: Vec<&Json> = diagnostics.as_array().unwrap().iter().collect();
            let wrong: Vec<&&Json> = wrong
                .iter()
                .filter(|one| one["severity"] == "error" && !of_this_machine.contains(&one["code"]))
                .collect();
            assert!(wrong.is_empty(), "{}: {wrong:#?}\n{text}", page.display());
            checked += 1;
        }
    }
    assert!(checked >= 8, "{checked} blocks found");
}

/// Each mistake inside `args` has its own line, column and path: the NFs themselves were asked.
#[test]
fn arguments_are_checked_by_the_nfs() {
    let folder = tempfile::tempdir().unwrap();
    let text = r#"
port = [{ name = "west", kind = "generator" }, { name = "east", kind = "null" }]
chain = [{ name = "c", stages = ["fw", "way", "mon"], out = "east" }]
rule = [{ in = "west", chain = "c" }]

[[nf]]
name = "fw"
run = "firewall"
args.rules = [
    { action = "deny", protocol = "tcp" },
    { action = "alow", source = "10.0.0.1/8" },
    { acton = "deny", protcol = "udp", destination_port = 70000 },
    { protocol = "udp" },
]

[[nf]]
name = "way"
run = "router"
[nf.args]
interfaces.east = { mac = "02:00:00:00:00:01" }
routes = [{ prefix = "10.0.0.0/8", port = "eest", next_hop = "02:00:00:00:00:02" }]

[[nf]]
name = "mon"
run = "monitor"
args = { idle_timeout = 30, top = 1000 }
"#;
    let path = written(folder.path(), text);
    let (code, data, _) = run(folder.path(), &["check", &path, "--json"]);
    assert_eq!(code, 4, "{data}");
    let document = json(&data);
    let found: Vec<String> = document["diagnostics"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| {
            let of = |key: &str| one[key].as_str().unwrap_or_default().to_owned();
            format!("{}:{} {}; {}", one["line"], one["column"], of("message"), of("help"))
        })
        .collect();
    assert_eq!(found, include_str!("arguments.txt").lines().collect::<Vec<_>>(), "{found:#?}");
    // What the types of arguments cannot say is said once they can be read.
    let text = text.replace("idle_timeout = 30, ", "");
    let (_, data, _) = run(folder.path(), &["check", &written(folder.path(), &text), "--json"]);
    assert!(data.contains("`top` is 1000; it may be at most 100"), "{data}");
}
