//! Names of what runs, for completions and for those who misspelt one.

use std::ffi::OsString;
use std::fs;
use std::io;

use clap_complete::engine::CompletionCandidate;
use headgate_api::status::{Snapshot, UNCLAIMED};
use headgate_api::{self as api, Request, place};

/// Returns the names of managers that have a lock, in their order.
///
/// # Errors
/// The folder is there and cannot be read.
pub fn managers() -> io::Result<Vec<String>> {
    let entries = match fs::read_dir(place::folder()) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let name =
        |entry: fs::DirEntry| entry.file_name().to_str()?.strip_suffix(place::LOCK_ENDING).map(str::to_owned);
    let mut names: Vec<String> = entries.filter_map(Result::ok).filter_map(name).collect();
    names.sort();
    Ok(names)
}

/// Completes a manager's name.
pub fn manager_candidates() -> Vec<CompletionCandidate> {
    managers().unwrap_or_default().into_iter().map(CompletionCandidate::new).collect()
}

/// Completes an NF's name: those of the manager that the words before name, or of `default`.
pub fn nfs() -> Vec<CompletionCandidate> {
    let Some(now) = snapshot() else { return Vec::new() };
    let mut names: Vec<String> = now.nfs.iter().map(|nf| nf.nf.clone()).collect();
    names.extend(now.nfs.iter().filter(|nf| nf.instance != nf.nf).map(|nf| nf.instance.clone()));
    names.dedup();
    names.into_iter().map(CompletionCandidate::new).collect()
}

/// Completes a group's name, in the same way.
pub fn groups() -> Vec<CompletionCandidate> {
    let Some(now) = snapshot() else { return Vec::new() };
    now.groups.into_iter().map(|group| CompletionCandidate::new(group.name)).collect()
}

/// Completes a chain's name, in the same way.
pub fn chains() -> Vec<CompletionCandidate> {
    let Some(now) = snapshot() else { return Vec::new() };
    let names = now.chains.into_iter().map(|chain| chain.name).filter(|name| name != UNCLAIMED);
    names.map(CompletionCandidate::new).collect()
}

/// A manager that does not answer has no names.
fn snapshot() -> Option<Snapshot> {
    api::call(&named(std::env::args_os()), &Request::Snapshot { audit: false }).ok()
}

/// Returns the manager that a command line is about.
fn named(words: impl Iterator<Item = OsString>) -> String {
    let words: Vec<String> = words.map(|word| word.to_string_lossy().into_owned()).collect();
    let behind = words.iter().position(|word| word == "--name").and_then(|at| words.get(at + 1));
    let within = words.iter().find_map(|word| word.strip_prefix("--name="));
    behind.map(String::as_str).or(within).filter(|name| !name.is_empty()).unwrap_or("default").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_manager_is_that_of_the_words_before() {
        let of = |line: &str| named(line.split(' ').map(OsString::from));
        assert_eq!(of("headgate -- headgate tell --name edge "), "edge");
        assert_eq!(of("headgate -- headgate tell --name=core fw"), "core");
        assert_eq!(of("headgate -- headgate tell --name "), "default");
        assert_eq!(of("headgate -- headgate tell"), "default");
    }
}
