//! Termination of all processes of groups, however fast they start others.
//!
//! A process that is killed may have started another one just before. Version 2 kills a whole group at once
//! (`cgroup.kill`, Linux 5.14). Where it does not, the group is first kept from growing: by a limit of no
//! process (`pids.max`), or, without that controller, by freezing it. Then every process in it is killed,
//! again and again until it is empty. A process that is dying is in no group any more, reaped or not.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::files;

/// Returns the processes of a group; none when there is no such group.
pub(super) fn members(directory: &Path) -> Vec<Pid> {
    let text = fs::read_to_string(directory.join("cgroup.procs")).unwrap_or_default();
    let mut members: Vec<Pid> = text.lines().filter_map(|line| Pid::from_raw(line.parse().ok()?)).collect();
    // Version 1 may name one twice.
    members.sort_unstable_by_key(|pid| pid.as_raw_pid());
    members.dedup();
    members
}

/// Puts each process of a group into the first of these that takes it; one that none takes stays.
pub(crate) fn move_members(directory: &Path, into: &[PathBuf]) {
    for pid in members(directory) {
        let number = pid.as_raw_pid().to_string();
        into.iter().any(|group| files::write(group.join("cgroup.procs"), &number).is_ok());
    }
}

/// Kills the processes of a group, those that are started meanwhile not among them.
pub fn end_members(directory: &Path) -> io::Result<()> {
    for pid in members(directory) {
        // Held before it is looked for again, so that its number is its own when it is killed.
        let Ok(process) = pidfd_open(pid, PidfdFlags::empty()) else { continue };
        if members(directory).contains(&pid) {
            pidfd_send_signal(process, Signal::KILL)?;
        }
    }
    Ok(())
}

/// Kills who is in these groups and whomever they start meanwhile, and returns how many were still there: a
/// process dies when it is next scheduled, so the caller comes again until there is none. The groups are of
/// no use afterwards.
pub(super) fn end_for_good(directories: &[&Path]) -> io::Result<usize> {
    for directory in directories {
        // What a version or a kernel has no file for is done by one of the others.
        let _ = files::write(directory.join("cgroup.kill"), "1");
        let _ = files::write(directory.join("pids.max"), "0");
    }
    let is_closed =
        |directory: &&Path| ["cgroup.kill", "pids.max"].iter().any(|name| directory.join(name).exists());
    let freezers: Vec<PathBuf> = match directories.iter().any(is_closed) {
        true => Vec::new(),
        false => directories.iter().map(|directory| directory.join("freezer.state")).collect(),
    };
    for freezer in &freezers {
        let _ = files::write(freezer, "FROZEN");
    }
    let killed = directories.iter().try_for_each(|directory| end_members(directory));
    // What is frozen does not die before it thaws.
    for freezer in &freezers {
        let _ = files::write(freezer, "THAWED");
    }
    killed?;
    let mut left: Vec<Pid> = directories.iter().flat_map(|directory| members(directory)).collect();
    left.sort_unstable_by_key(|pid| pid.as_raw_pid());
    left.dedup();
    Ok(left.len())
}

/// Ends the processes in a group and in groups below it, and removes the groups, the lowest first. While a
/// process is left in them, the error says that they are busy.
pub(crate) fn remove_tree(top: &Path) -> io::Result<()> {
    if !top.exists() {
        return Ok(());
    }
    let all = with_all_below(top);
    let directories: Vec<&Path> = all.iter().map(PathBuf::as_path).collect();
    end_for_good(&directories)?;
    remove(&all)
}

/// Removes a group and those below it that have no process: one in them keeps its group and those above.
pub(crate) fn remove_empty(top: &Path) -> io::Result<()> {
    remove(&with_all_below(top))
}

/// Returns a group and all below it, the highest first.
fn with_all_below(top: &Path) -> Vec<PathBuf> {
    let mut all = vec![top.to_owned()];
    let mut next = 0;
    while next < all.len() {
        let below = fs::read_dir(&all[next]).into_iter().flatten().flatten().map(|entry| entry.path());
        let groups: Vec<PathBuf> = below.filter(|path| path.is_dir()).collect();
        all.extend(groups);
        next += 1;
    }
    all
}

fn remove(groups: &[PathBuf]) -> io::Result<()> {
    groups.iter().rev().map(|group| gone(fs::remove_dir(group))).fold(Ok(()), Result::and)
}

fn gone(removed: io::Result<()>) -> io::Result<()> {
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}
