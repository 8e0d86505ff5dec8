//! The README's first example, run as it is printed.

use std::fs;

use headgate_tests::{machine, programs, walk};

/// The README's heading over the example, and the one behind it.
const SECTION: [&str; 2] = ["\n## Use it\n", "\nThe same file can have more:\n"];

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
    let start = readme.find(SECTION[0]).expect("the README has the section");
    let end = readme.find(SECTION[1]).expect("the section has an end");
    let blocks = walk::blocks(&readme[start..end]);
    assert!(blocks.iter().any(|block| block.file() == Some("edge.toml")), "{blocks:#?}");
    let folder = tempfile::tempdir().unwrap();
    let said = walk::walk("README.md", &blocks, folder.path(), &[]);
    for wanted in [" 0% packet loss", "iperf Done", "HTTP/1.0 200 OK", "accounts hold"] {
        assert!(said.contains(wanted), "no {wanted:?} in\n{said}");
    }
    assert!(!said.contains("warning["), "{said}");
}
