//! Every dependency's licence is one we may ship with Apache-2.0. The list is that of `deny.toml`.

use std::process::Command;

/// The licences that `deny.toml` allows.
fn allowed() -> Vec<String> {
    let text = include_str!("../../deny.toml");
    let list = text.split_once("allow = [").and_then(|(_, rest)| rest.split_once(']')).expect("a list").0;
    list.split('"').skip(1).step_by(2).map(str::to_owned).collect()
}

/// Returns whether an SPDX expression can be met: `OR` offers, `AND` demands. `/` is an old spelling of `OR`.
fn is_allowed(expression: &str, allowed: &[String]) -> bool {
    let expression = expression.replace('/', " OR ").replace(['(', ')'], " ");
    expression
        .split(" AND ")
        .all(|demand| demand.split(" OR ").any(|offer| allowed.iter().any(|licence| licence == offer.trim())))
}

#[test]
fn licences_of_dependencies_are_allowed() {
    let output = Command::new(env!("CARGO"))
        .args([
            "metadata",
            "--format-version",
            "1",
            "--locked",
            "--filter-platform",
            "x86_64-unknown-linux-gnu",
        ])
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).expect("cargo prints JSON");
    let allowed = allowed();
    assert!(allowed.len() > 5, "deny.toml could not be read");
    let packages = metadata["packages"].as_array().expect("packages");
    assert!(packages.len() > 20, "no dependencies were seen");
    let refused: Vec<String> = packages
        .iter()
        .filter(|package| !package["license"].as_str().is_some_and(|licence| is_allowed(licence, &allowed)))
        .map(|package| format!("{} {}: {}", package["name"], package["version"], package["license"]))
        .collect();
    assert!(refused.is_empty(), "licences to check: {refused:#?}");
}

#[test]
fn expressions_are_read() {
    let allowed = ["MIT".to_owned(), "Apache-2.0".to_owned()];
    for good in ["MIT", "MIT OR GPL-3.0", "MIT/Apache-2.0", "MIT AND Apache-2.0", "(GPL-2.0 OR MIT) AND MIT"]
    {
        assert!(is_allowed(good, &allowed), "{good}");
    }
    for bad in ["GPL-3.0", "MIT AND GPL-3.0", ""] {
        assert!(!is_allowed(bad, &allowed), "{bad}");
    }
}
