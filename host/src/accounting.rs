//! Counters of the kernel: CPU time of the machine, of a process and of its threads, frames of an interface.
//!
//! The kernel charges the work it does for arriving frames to the task that happens to run when it does it:
//! the network stack of a receiver is often part of the sender's system time. The sums are right all the
//! same.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use crate::files::{self, FileError};

const MACHINE: &str = "/proc/stat";
const INTERFACES: &str = "/proc/thread-self/net/dev";

/// CPU time of all cores since the machine started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MachineTime {
    /// Time in which they worked for a task, interrupts included.
    pub busy: Duration,
    /// Time in which they had nothing to do.
    pub idle: Duration,
}

/// CPU time of a process and all its threads, children not included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessTime {
    /// Time in its own code.
    pub user: Duration,
    /// Time in the kernel.
    pub system: Duration,
}

/// Context switches of a thread since it began (proc_pid_status(5)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Switches {
    /// Switches because the task slept or gave up its core.
    pub voluntary: u64,
    /// Switches because its core was given to another.
    pub involuntary: u64,
}

/// Frames and bytes of an interface since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InterfaceCounters {
    /// Frames that came in; what the kernel glued together or did not cut counts once.
    pub received: u64,
    /// Their bytes.
    pub received_bytes: u64,
    /// Frames that went out.
    pub sent: u64,
    /// Their bytes.
    pub sent_bytes: u64,
}

/// Returns the CPU time of the machine.
///
/// # Errors
/// [`FileError`] where `/proc` is not what it should be.
pub fn machine() -> Result<MachineTime, FileError> {
    let text = files::read(MACHINE)?;
    times_in(&text, "cpu ").ok_or_else(|| content(MACHINE, text, "the CPU times of proc_stat(5)"))
}

/// Returns the CPU time of one core.
///
/// # Errors
/// As [`machine`], also when there is no such core.
pub fn core(core: u32) -> Result<MachineTime, FileError> {
    let text = files::read(MACHINE)?;
    times_in(&text, &format!("cpu{core} ")).ok_or_else(|| content(MACHINE, text, "a table with that core"))
}

/// Returns the time that the hypervisor gave to others while a core had something to do, by core; nothing
/// where there is no hypervisor that says so.
///
/// # Errors
/// As [`machine`].
pub fn stolen() -> Result<BTreeMap<u32, Duration>, FileError> {
    Ok(stolen_in(&files::read(MACHINE)?))
}

/// Returns that of a process.
///
/// # Errors
/// As [`machine`], also when the process is gone.
pub fn process(pid: u32) -> Result<ProcessTime, FileError> {
    let path = format!("/proc/{pid}/stat");
    let text = files::read(&path)?;
    process_in(&text).ok_or_else(|| content(&path, text, "a process as in proc_pid_stat(5)"))
}

/// Returns the CPU time of the first thread of a process that has this name (at most 15 bytes); `None` where
/// there is none, or where the kernel keeps no count by thread.
#[must_use]
pub fn thread(pid: u32, name: &str) -> Option<Duration> {
    let named = |folder: &PathBuf| {
        std::fs::read_to_string(folder.join("comm")).is_ok_and(|comm| comm.trim_end() == name)
    };
    let all = std::fs::read_dir(format!("/proc/{pid}/task")).ok()?.flatten().map(|entry| entry.path());
    let thread = all.into_iter().find(named)?;
    let text = std::fs::read_to_string(thread.join("schedstat")).ok()?;
    text.split_whitespace().next()?.parse().ok().map(Duration::from_nanos)
}

/// Returns how often a process's first thread gave up its core, and how often it was taken from it; `None`
/// when the process is gone.
#[must_use]
pub fn switches(pid: u32) -> Option<Switches> {
    switches_in(&std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?)
}

/// Returns the counters of an interface of the calling thread's network namespace.
///
/// # Errors
/// As [`machine`], also when there is no such interface.
pub fn interface(name: &str) -> Result<InterfaceCounters, FileError> {
    let text = files::read(INTERFACES)?;
    interface_in(&text, name).ok_or_else(|| content(INTERFACES, text, "a table with that interface"))
}

fn content(path: &str, content: String, expected: &'static str) -> FileError {
    FileError::Content { path: path.into(), content, expected }
}

fn ticks(count: u64) -> Duration {
    Duration::from_secs_f64(count as f64 / rustix::param::clock_ticks_per_second() as f64)
}

/// `cpu` user nice system idle iowait irq softirq steal …; what a hypervisor stole is neither. `who` is the
/// first word, with the space behind it.
fn times_in(text: &str, who: &str) -> Option<MachineTime> {
    let line = text.lines().find_map(|line| line.strip_prefix(who))?;
    let counts: Vec<u64> = line.split_whitespace().map_while(|word| word.parse().ok()).collect();
    let [user, nice, system, idle, waiting, interrupts, soft_interrupts, ..] = counts[..] else {
        return None;
    };
    let busy = user + nice + system + interrupts + soft_interrupts;
    Some(MachineTime { busy: ticks(busy), idle: ticks(idle + waiting) })
}

/// `cpuN` and seven times before the stolen one.
fn stolen_in(text: &str) -> BTreeMap<u32, Duration> {
    let of_line = |line: &str| {
        let (core, counts) = line.strip_prefix("cpu")?.split_once(' ')?;
        Some((core.parse().ok()?, ticks(counts.split_whitespace().nth(7)?.parse().ok()?)))
    };
    text.lines().filter_map(of_line).collect()
}

/// The 14th and 15th fields; the second is a name in parentheses that may hold anything.
fn process_in(text: &str) -> Option<ProcessTime> {
    let (_, fields) = text.rsplit_once(')')?;
    let mut fields = fields.split_whitespace().skip(11);
    let mut next = || fields.next()?.parse().ok().map(ticks);
    Some(ProcessTime { user: next()?, system: next()? })
}

fn switches_in(text: &str) -> Option<Switches> {
    let count = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().parse().ok()
    };
    Some(Switches {
        voluntary: count("voluntary_ctxt_switches:")?,
        involuntary: count("nonvoluntary_ctxt_switches:")?,
    })
}

/// `name: bytes packets` and six more of what came in, then `bytes packets` of what went out.
fn interface_in(text: &str, name: &str) -> Option<InterfaceCounters> {
    let of_line = |line: &str| {
        let (there, counts) = line.split_once(':')?;
        let counts: Vec<u64> = counts.split_whitespace().map_while(|word| word.parse().ok()).collect();
        (there.trim() == name && counts.len() > 9).then(|| InterfaceCounters {
            received: counts[1],
            received_bytes: counts[0],
            sent: counts[9],
            sent_bytes: counts[8],
        })
    };
    text.lines().find_map(of_line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn switches_and_threads_are_those_of_who_was_named() {
        let text = "Name:\ta\nvoluntary_ctxt_switches:\t12\nnonvoluntary_ctxt_switches:\t3\n";
        assert_eq!(switches_in(text), Some(Switches { voluntary: 12, involuntary: 3 }));
        assert_eq!(switches_in("Name:\ta\n"), None);
        assert!(switches(std::process::id()).is_some());
        assert_eq!(thread(std::process::id(), "nobody"), None);
    }

    #[test]
    fn the_kernels_tables_are_read() {
        let second = rustix::param::clock_ticks_per_second();
        let text = format!("cpu  {second} 0 {second} {second} 0 0 {second} 7 0 0\ncpu0 1 1 1\n");
        let expected = MachineTime { busy: Duration::from_secs(3), idle: Duration::from_secs(1) };
        assert_eq!(times_in(&text, "cpu "), Some(expected));
        assert_eq!(times_in("cpu0 1 2 3 4 5 6 7 8", "cpu "), None);
        let text = format!("cpu 1 1 1 1 1 1 1\ncpu1 {second} 0 0 {second} 0 0 0 0\n");
        let expected = MachineTime { busy: Duration::from_secs(1), idle: Duration::from_secs(1) };
        assert_eq!(times_in(&text, "cpu1 "), Some(expected));

        let text = format!("7 (a) b) R 1 2 3 4 5 6 7 8 9 10 {second} 0 0 0 20 0");
        let expected = ProcessTime { user: Duration::from_secs(1), system: Duration::ZERO };
        assert_eq!(process_in(&text), Some(expected));

        let text = "Inter-|\n face |bytes\n    lo: 1 2 0 0 0 0 0 0 3 4 0 0 0 0 0 0\n";
        let expected = InterfaceCounters { received: 2, received_bytes: 1, sent: 4, sent_bytes: 3 };
        assert_eq!(interface_in(text, "lo"), Some(expected));
        assert_eq!(interface_in(text, "eth0"), None);
    }

    #[test]
    fn stolen_time_is_by_core() {
        let second = rustix::param::clock_ticks_per_second();
        let text = format!(
            "cpu  1 1 1 1 1 1 1 9 0 0\ncpu0 1 1 1 1 1 1 1 {second} 0 0\ncpu12 1 1 1 1 1 1 1 0\ncpu3 1\n"
        );
        let expected = [(0, Duration::from_secs(1)), (12, Duration::ZERO)];
        assert_eq!(stolen_in(&text), expected.into_iter().collect());
        assert!(!stolen().unwrap().is_empty());
    }

    #[test]
    fn this_machine_has_them() {
        assert!(machine().unwrap().busy > Duration::ZERO);
        process(std::process::id()).unwrap();
        assert!(interface("no-such-one").is_err());
    }
}
