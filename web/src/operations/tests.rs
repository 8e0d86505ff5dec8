use std::collections::BTreeSet;

use headgate_api::Request;

use super::*;

/// What can be asked of a manager can be asked here. The list of requests is that of their reader.
#[test]
fn every_request_has_an_operation() {
    let error = serde_json::from_str::<Request>(r#"{"ask":"nothing"}"#).unwrap_err().to_string();
    let (_, words) = error.split_once("expected one of ").unwrap_or_else(|| panic!("{error}"));
    let words: BTreeSet<&str> = words.split('`').skip(1).step_by(2).collect();
    assert!(words.contains("snapshot") && words.contains("stop"), "{error}");
    // Two are for managers among each other, and one starts a program of the caller's choice, as the
    // manager's user: a user of its own socket may do that anyway, and nobody else.
    let local: BTreeSet<&str> = ["hand-over", "not-followed", "upgrade"].into();
    let operations = all();
    let asked: BTreeSet<&str> = operations.iter().filter_map(|operation| operation.request).collect();
    assert!(asked.is_disjoint(&local));
    assert_eq!(asked.union(&local).copied().collect::<BTreeSet<_>>(), words);
}

#[test]
fn names_and_paths_are_unique() {
    let operations = all();
    let ids: BTreeSet<&str> = operations.iter().map(|operation| operation.id).collect();
    assert_eq!(ids.len(), operations.len());
    let paths: BTreeSet<(&str, &str)> =
        operations.iter().map(|operation| (operation.method.as_str(), operation.path)).collect();
    assert_eq!(paths.len(), operations.len());
}
