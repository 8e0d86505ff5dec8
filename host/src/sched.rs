//! Scheduling classes: policy, nice value, real-time priority and slice of a task.

use std::fmt;
use std::fs;
use std::io;
use std::mem;
use std::path::PathBuf;

use rustix::io::Errno;
use rustix::process::Pid;
use serde::{Deserialize, Serialize};

use crate::cgroup::CpuController;
use crate::credentials::{Capability, has_capability};
use crate::files::{self, FileError};

/// Shortest slice the kernel takes, in ns (`__setparam_fair`, Linux 6.12 and later).
pub const SLICE_NS_MIN: u64 = 100_000;
/// Longest slice the kernel takes, in ns (as above).
pub const SLICE_NS_MAX: u64 = 100_000_000;
/// Range of nice values, sched(7).
const NICE: std::ops::RangeInclusive<i8> = -20..=19;
/// Range of real-time priorities, sched(7).
const PRIORITY: std::ops::RangeInclusive<u8> = 1..=99;

/// Scheduling policy of a task in the kernel. Illegal mixtures cannot be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Policy {
    /// `SCHED_OTHER`: a fair share, weighted by the nice value.
    Normal {
        /// -20 (most) to 19 (least).
        nice: i8,
        /// The run between two pre-emptions the task asks for; `None`: the kernel's default.
        slice_ns: Option<u64>,
    },
    /// `SCHED_BATCH`: as `Normal`, but a waking task does not pre-empt.
    Batch {
        /// -20 (most) to 19 (least).
        nice: i8,
        /// Length of slices, as for `Normal`.
        slice_ns: Option<u64>,
    },
    /// `SCHED_RR`: before every fair task, alternating with others of its priority.
    RoundRobin {
        /// 1 (lowest) to 99.
        priority: u8,
    },
    /// `SCHED_FIFO`: before every fair task, until it sleeps.
    Fifo {
        /// 1 (lowest) to 99.
        priority: u8,
    },
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut fair = |name, nice, slice_ns: &Option<u64>| {
            write!(f, "{name} with nice {nice}")?;
            slice_ns.map_or(Ok(()), |ns| write!(f, " and slices of {ns} ns"))
        };
        match self {
            Policy::Normal { nice, slice_ns } => fair("normal", nice, slice_ns),
            Policy::Batch { nice, slice_ns } => fair("batch", nice, slice_ns),
            Policy::RoundRobin { priority } => write!(f, "rr with priority {priority}"),
            Policy::Fifo { priority } => write!(f, "fifo with priority {priority}"),
        }
    }
}

/// Reason why a task's scheduling could not be set or read.
#[derive(Debug, thiserror::Error)]
pub enum SchedError {
    /// The kernel refused for want of a right.
    #[error("not permitted to schedule {} as {policy}: {reason}", name_of(*task))]
    NotPermitted {
        /// The task; `None` is the calling thread.
        task: Option<Pid>,
        /// Requested policy.
        policy: Policy,
        /// Missing right.
        reason: MissingRight,
    },
    /// A number outside the kernel's range.
    #[error("{what} {value} is out of range: {range}")]
    OutOfRange {
        /// Name of the number.
        what: &'static str,
        /// Its value.
        value: i64,
        /// Allowed range.
        range: &'static str,
    },
    /// The kernel took the request and left the slice as it was.
    #[error(
        "this kernel keeps slices of {kept_ns} ns where {wanted_ns} ns were asked for: \
         slices per task came with Linux 6.12; leave the slice out"
    )]
    SliceIgnored {
        /// The slice asked for.
        wanted_ns: u64,
        /// The slice in force (0 where the kernel does not say).
        kept_ns: u64,
    },
    /// The task is gone.
    #[error("there is no process or thread {}: it has ended", task.as_raw_pid())]
    NoSuchTask {
        /// The task.
        task: Pid,
    },
    /// The task is under a policy that is none of [`Policy`].
    #[error("{} is under kernel policy {number} (idle, deadline or sched_ext), which Headgate does not handle", name_of(*task))]
    ForeignPolicy {
        /// The task; `None` is the calling thread.
        task: Option<Pid>,
        /// The kernel's number of the policy.
        number: u32,
    },
    /// The kernel refused for a reason that is not one of the above.
    #[error("{call}: {source}")]
    System {
        /// The system call.
        call: &'static str,
        /// Its error.
        source: io::Error,
    },
}

/// Right that is missing.
#[derive(Debug, PartialEq, Eq)]
pub enum MissingRight {
    /// Neither the capability nor a resource limit allows it.
    NoCapability,
    /// Version 1 groups give real-time tasks no time unless told to.
    NoRealTimeInGroup(PathBuf),
    /// The capability is there and the kernel still refuses.
    Unknown,
}

impl fmt::Display for MissingRight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MissingRight::NoCapability => {
                f.write_str("this process lacks CAP_SYS_NICE; run as root or grant it")
            }
            MissingRight::NoRealTimeInGroup(file) => write!(
                f,
                "its control group gives real-time tasks no time; \
                 write for example 950000 (us per second) to {}, parent groups first",
                file.display()
            ),
            MissingRight::Unknown => f.write_str(
                "the capability CAP_SYS_NICE is there, so a security module or a container forbids it",
            ),
        }
    }
}

fn name_of(task: Option<Pid>) -> String {
    task.map_or("this thread".into(), |task| format!("task {}", task.as_raw_pid()))
}

/// Puts a task under `policy`.
///
/// A pid sets the process's main thread only; threads and children started later inherit. A slice
/// is read back, and it is an error if the kernel did not take it.
pub fn set(task: Option<Pid>, policy: Policy) -> Result<(), SchedError> {
    let attributes = attributes_of(policy)?;
    let raw = Pid::as_raw(task);
    // SAFETY: `attributes` is a `struct sched_attr` whose `size` says how long it is, and lives
    // through the call, which only reads it.
    let result = unsafe { libc::syscall(libc::SYS_sched_setattr, raw, &raw const attributes, 0) };
    if result != 0 {
        return Err(explain("sched_setattr", task, Some(policy)));
    }
    let wanted_ns = attributes.sched_runtime;
    if wanted_ns != 0 {
        let kept_ns = read(task)?.sched_runtime;
        if kept_ns != wanted_ns {
            return Err(SchedError::SliceIgnored { wanted_ns, kept_ns });
        }
    }
    Ok(())
}

/// Puts a task before every fair one, as `SCHED_FIFO` of this priority, for a while: what it starts meanwhile
/// is scheduled fairly again (`SCHED_FLAG_RESET_ON_FORK`), so nothing inherits a priority that is to be taken
/// back. [`set`] takes it back.
///
/// One system call and no allocation: some 0.7 us.
pub fn raise(task: Option<Pid>, priority: u8) -> Result<(), SchedError> {
    set_for_itself(task, Policy::Fifo { priority })
}

/// Gives the calling thread, among fair ones, this niceness and slice; what it starts has the usual ones
/// (`SCHED_FLAG_RESET_ON_FORK`). A kernel without slices of tasks (before Linux 6.12) takes the niceness
/// alone.
pub fn prefer(nice: i8, slice_ns: u64) -> Result<(), SchedError> {
    set_for_itself(None, Policy::Normal { nice, slice_ns: Some(slice_ns) })
}

fn set_for_itself(task: Option<Pid>, policy: Policy) -> Result<(), SchedError> {
    let mut attributes = attributes_of(policy)?;
    attributes.sched_flags = libc::SCHED_FLAG_RESET_ON_FORK as u64;
    // SAFETY: as in `set`.
    let result =
        unsafe { libc::syscall(libc::SYS_sched_setattr, Pid::as_raw(task), &raw const attributes, 0) };
    if result == 0 { Ok(()) } else { Err(explain("sched_setattr", task, Some(policy))) }
}

/// The policy a task is under.
///
/// A fair task's slice is the one in force, also when it is the kernel's default; `None` where
/// the kernel does not say (before Linux 6.12).
pub fn get(task: Option<Pid>) -> Result<Policy, SchedError> {
    let attributes = read(task)?;
    let nice = attributes.sched_nice as i8;
    let slice_ns = Some(attributes.sched_runtime).filter(|&ns| ns != 0);
    let priority = attributes.sched_priority as u8;
    match attributes.sched_policy as i32 {
        libc::SCHED_OTHER => Ok(Policy::Normal { nice, slice_ns }),
        libc::SCHED_BATCH => Ok(Policy::Batch { nice, slice_ns }),
        libc::SCHED_RR => Ok(Policy::RoundRobin { priority }),
        libc::SCHED_FIFO => Ok(Policy::Fifo { priority }),
        _ => Err(SchedError::ForeignPolicy { task, number: attributes.sched_policy }),
    }
}

/// File with the time slice of round-robin tasks (sched(7)).
pub const ROUND_ROBIN_QUANTUM: &str = "/proc/sys/kernel/sched_rr_timeslice_ms";

/// Returns how long a round-robin task runs before another of its priority does, in ms, for the whole
/// machine.
pub fn round_robin_quantum_ms() -> Result<u64, FileError> {
    files::read_number(ROUND_ROBIN_QUANTUM)
}

/// Sets it, for tasks that begin a time slice from now on. The kernel rounds to its tick.
pub fn set_round_robin_quantum_ms(ms: u32) -> Result<(), FileError> {
    files::write(ROUND_ROBIN_QUANTUM, &ms.to_string())
}

/// File with the number of microseconds of each second that real-time tasks may use of a core, for the whole
/// machine; -1 is all (sched(7)).
pub const REAL_TIME_LIMIT: &str = "/proc/sys/kernel/sched_rt_runtime_us";

/// Returns the value in that file; `None` where the kernel has no such bound.
pub fn real_time_limit_us() -> Option<i64> {
    fs::read_to_string(REAL_TIME_LIMIT).ok()?.trim().parse().ok()
}

/// Lets real-time tasks use all of a core, on the whole machine.
pub fn lift_real_time_limit() -> Result<(), FileError> {
    files::write(REAL_TIME_LIMIT, "-1")
}

fn empty_attributes() -> libc::sched_attr {
    libc::sched_attr {
        size: mem::size_of::<libc::sched_attr>() as u32,
        sched_policy: 0,
        sched_flags: 0,
        sched_nice: 0,
        sched_priority: 0,
        sched_runtime: 0,
        sched_deadline: 0,
        sched_period: 0,
    }
}

fn attributes_of(policy: Policy) -> Result<libc::sched_attr, SchedError> {
    let mut attributes = empty_attributes();
    let mut fair = |number: i32, nice: i8, slice_ns: Option<u64>| {
        check("nice value", i64::from(nice), NICE.contains(&nice), "-20 to 19")?;
        if let Some(ns) = slice_ns {
            let fits = (SLICE_NS_MIN..=SLICE_NS_MAX).contains(&ns);
            let value = i64::try_from(ns).unwrap_or(i64::MAX);
            check("slice of (ns)", value, fits, "100000 to 100000000 (0.1 to 100 ms)")?;
        }
        attributes.sched_policy = number as u32;
        attributes.sched_nice = i32::from(nice);
        attributes.sched_runtime = slice_ns.unwrap_or(0);
        Ok(())
    };
    match policy {
        Policy::Normal { nice, slice_ns } => fair(libc::SCHED_OTHER, nice, slice_ns)?,
        Policy::Batch { nice, slice_ns } => fair(libc::SCHED_BATCH, nice, slice_ns)?,
        Policy::RoundRobin { priority } | Policy::Fifo { priority } => {
            let fits = PRIORITY.contains(&priority);
            check("real-time priority", i64::from(priority), fits, "1 to 99")?;
            let round_robin = matches!(policy, Policy::RoundRobin { .. });
            let number = if round_robin { libc::SCHED_RR } else { libc::SCHED_FIFO };
            attributes.sched_policy = number as u32;
            attributes.sched_priority = u32::from(priority);
        }
    }
    Ok(attributes)
}

fn check(what: &'static str, value: i64, fits: bool, range: &'static str) -> Result<(), SchedError> {
    match fits {
        true => Ok(()),
        false => Err(SchedError::OutOfRange { what, value, range }),
    }
}

fn read(task: Option<Pid>) -> Result<libc::sched_attr, SchedError> {
    let mut attributes = empty_attributes();
    let raw = Pid::as_raw(task);
    // SAFETY: the kernel writes at most the given size, which is that of `attributes`; every bit
    // pattern is a value of its fields.
    let result = unsafe {
        let pointer = &raw mut attributes;
        libc::syscall(libc::SYS_sched_getattr, raw, pointer, attributes.size, 0)
    };
    match result {
        0 => Ok(attributes),
        _ => Err(explain("sched_getattr", task, None)),
    }
}

/// Turns `errno` of the call just made into an error that says what to do.
fn explain(call: &'static str, task: Option<Pid>, policy: Option<Policy>) -> SchedError {
    let source = io::Error::last_os_error();
    match (Errno::from_io_error(&source), task, policy) {
        (Some(Errno::SRCH), Some(task), _) => SchedError::NoSuchTask { task },
        (Some(Errno::PERM), task, Some(policy)) => {
            SchedError::NotPermitted { task, policy, reason: missing_right(task, policy) }
        }
        _ => SchedError::System { call, source },
    }
}

fn missing_right(task: Option<Pid>, policy: Policy) -> MissingRight {
    if !has_capability(Capability::SysNice) {
        return MissingRight::NoCapability;
    }
    let real_time = matches!(policy, Policy::RoundRobin { .. } | Policy::Fifo { .. });
    let group = CpuController::find().group_of(task);
    let Some(file) = group.map(|group| group.join("cpu.rt_runtime_us")) else {
        return MissingRight::Unknown;
    };
    let no_time = fs::read_to_string(&file).is_ok_and(|us| us.trim() == "0");
    match real_time && no_time {
        true => MissingRight::NoRealTimeInGroup(file),
        false => MissingRight::Unknown,
    }
}

#[cfg(test)]
mod tests;
