//! Cores: those that there are, those that we may use, and pinning to one.

mod limits;
mod placement;
mod users;

pub use limits::{Cpuset, cpuset, given};
pub use placement::Placement;
pub use users::{TaskOn, threads_named, users_of};

use std::collections::HashSet;
use std::fmt;
use std::fs;
use std::io;
use std::str::FromStr;
use std::thread;

use rustix::io::Errno;
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::files::{self, FileError};

const ONLINE: &str = "/sys/devices/system/cpu/online";

/// Reason why a thread could not be put on a core.
#[derive(Debug, thiserror::Error)]
pub enum CoresError {
    /// The machine has no such core, or it is offline.
    #[error("there is no core {core}: this machine has {online}; name one of these")]
    NoSuchCore {
        /// The core that was asked for.
        core: u32,
        /// The cores that are online.
        online: CoreList,
    },
    /// The core exists and is not ours to use.
    #[error(
        "core {core} exists, but this process may use only {allowed}: name one of these, \
         or widen the cpuset of its cgroup or container"
    )]
    NotAllowed {
        /// The core that was asked for.
        core: u32,
        /// The cores of our cpuset.
        allowed: CoreList,
    },
    /// No core was named.
    #[error("an empty list of cores: name at least one")]
    NoCores,
    /// The task is gone.
    #[error("there is no process or thread {}: it has ended", task.as_raw_pid())]
    NoSuchTask {
        /// The task that was to be moved.
        task: Pid,
    },
    /// The task belongs to another user.
    #[error(
        "not permitted to move {}: it runs as another user; run as root or with CAP_SYS_NICE",
        name_of(task)
    )]
    NotPermitted {
        /// The task that was to be moved.
        task: Option<Pid>,
    },
    /// A text that is not a list of cores.
    #[error("{text:?} is not a list of cores: write it as in \"0-3,8\"")]
    NotAList {
        /// The text.
        text: String,
    },
    /// The kernel would not say which cores there are.
    #[error(transparent)]
    File(#[from] FileError),
    /// The kernel refused for a reason that is not one of the above.
    #[error("{call}: {source}")]
    System {
        /// The system call.
        call: &'static str,
        /// Its error.
        source: io::Error,
    },
}

fn name_of(task: &Option<Pid>) -> String {
    task.map_or("this thread".into(), |task| format!("process {}", task.as_raw_pid()))
}

/// A set of cores in rising order, written as the kernel writes it: `0-3,8`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CoreList(Vec<u32>);

impl CoreList {
    /// The cores in rising order.
    pub fn as_slice(&self) -> &[u32] {
        &self.0
    }

    /// Returns whether `core` is one of them.
    pub fn contains(&self, core: u32) -> bool {
        self.0.binary_search(&core).is_ok()
    }

    /// Returns their number.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn of(set: &CpuSet) -> Self {
        let cores = 0..CpuSet::MAX_CPU as u32;
        cores.filter(|&core| set.is_set(core as usize)).collect()
    }

    fn as_set(&self) -> CpuSet {
        let mut set = CpuSet::new();
        let cores = self.0.iter().map(|&core| core as usize);
        cores.filter(|&core| core < CpuSet::MAX_CPU).for_each(|core| set.set(core));
        set
    }
}

impl FromIterator<u32> for CoreList {
    fn from_iter<I: IntoIterator<Item = u32>>(cores: I) -> Self {
        let mut cores: Vec<u32> = cores.into_iter().collect();
        cores.sort_unstable();
        cores.dedup();
        Self(cores)
    }
}

impl FromStr for CoreList {
    type Err = CoresError;

    fn from_str(text: &str) -> Result<Self, CoresError> {
        let not_a_list = || CoresError::NotAList { text: text.into() };
        let number = |digits: &str| digits.trim().parse::<u32>().map_err(|_| not_a_list());
        let mut cores = Vec::new();
        for range in text.trim().split(',').filter(|range| !range.is_empty()) {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let (first, last) = (number(first)?, number(last)?);
            if first > last || last as usize >= CpuSet::MAX_CPU {
                return Err(not_a_list());
            }
            cores.extend(first..=last);
        }
        Ok(cores.into_iter().collect())
    }
}

impl fmt::Display for CoreList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("no core");
        }
        let runs = self.0.chunk_by(|a, b| a + 1 == *b);
        for (index, run) in runs.enumerate() {
            let separator = if index == 0 { "" } else { "," };
            match run {
                [only] => write!(f, "{separator}{only}")?,
                run => write!(f, "{separator}{}-{}", run[0], run[run.len() - 1])?,
            }
        }
        Ok(())
    }
}

/// The cores that are online, up to the 1024th.
pub fn online() -> Result<CoreList, CoresError> {
    files::read(ONLINE)?.parse()
}

/// The cores on which `task` may run at present.
pub fn affinity(task: Option<Pid>) -> Result<CoreList, CoresError> {
    sched_getaffinity(task)
        .map(|set| CoreList::of(&set))
        .map_err(|errno| explain("sched_getaffinity", task, errno))
}

/// The cores this process may choose from: its cpuset, whatever it is pinned to at present.
///
/// A short-lived thread asks for every core that is online and reads what it was given, for that
/// answers alike under cgroup v1, v2 and in containers that hide both.
pub fn allowed() -> Result<CoreList, CoresError> {
    let online = online()?;
    let ask = || {
        let set = online.as_set();
        sched_setaffinity(None, &set).map_err(|errno| explain("sched_setaffinity", None, errno))?;
        affinity(None)
    };
    thread::scope(|scope| scope.spawn(ask).join().expect("asking does not panic"))
}

/// Keeps the calling thread on one core.
pub fn pin_current_thread(core: u32) -> Result<(), CoresError> {
    pin(None, &[core].into_iter().collect())
}

/// Keeps the calling thread, and threads it starts from now on, off these cores, where there are others: of
/// those that it was given when it was started, or else of all that this process may use. Returns whether
/// there are; if not, nothing changes.
pub fn keep_current_thread_off(cores: &[u32]) -> Result<bool, CoresError> {
    let without =
        |all: CoreList| all.0.into_iter().filter(|core| !cores.contains(core)).collect::<CoreList>();
    let own = without(affinity(None)?);
    let others = if own.is_empty() { without(allowed()?) } else { own };
    if others.is_empty() { Ok(false) } else { pin(None, &others).map(|()| true) }
}

/// Keeps a task on the given cores.
///
/// A pid moves that process's main thread only; threads it starts later inherit.
pub fn pin(task: Option<Pid>, cores: &CoreList) -> Result<(), CoresError> {
    if cores.is_empty() {
        return Err(CoresError::NoCores);
    }
    let online = online()?;
    if let Some(&core) = cores.0.iter().find(|&&core| !online.contains(core)) {
        return Err(CoresError::NoSuchCore { core, online });
    }
    sched_setaffinity(task, &cores.as_set())
        .map_err(|errno| explain("sched_setaffinity", task, errno))
        .and_then(|()| confirm(task, cores))
        .map_err(|error| blame_cpuset(error, cores))
}

/// Searches again for threads of a process that started while others were moved. Our choice: a thread that is
/// moved has its children where it is, so a process needs more only to escape.
const PIN_PASSES: usize = 4;

/// Keeps every thread of a process on the given cores.
pub fn pin_process(process: Pid, cores: &CoreList) -> Result<(), CoresError> {
    let mut moved = HashSet::new();
    for _ in 0..PIN_PASSES {
        let before = moved.len();
        for thread in threads(process)? {
            if !moved.insert(thread) {
                continue;
            }
            match pin(Some(thread), cores) {
                // One thread of several may end at any time.
                Err(CoresError::NoSuchTask { .. }) if thread != process => {}
                result => result?,
            }
        }
        if moved.len() == before {
            break;
        }
    }
    Ok(())
}

fn threads(process: Pid) -> Result<Vec<Pid>, CoresError> {
    let entries = fs::read_dir(format!("/proc/{}/task", process.as_raw_pid()))
        .map_err(|_| CoresError::NoSuchTask { task: process })?;
    let number = |entry: fs::DirEntry| Pid::from_raw(entry.file_name().to_str()?.parse().ok()?);
    Ok(entries.filter_map(Result::ok).filter_map(number).collect())
}

/// The kernel silently leaves out the cores that the cpuset forbids, so read what became of it.
fn confirm(task: Option<Pid>, wanted: &CoreList) -> Result<(), CoresError> {
    let got = affinity(task)?;
    match wanted.0.iter().find(|&&core| !got.contains(core)) {
        None => Ok(()),
        Some(&core) => Err(CoresError::NotAllowed { core, allowed: got }),
    }
}

/// `sched_setaffinity` gives EINVAL when the cpuset leaves none of the wanted cores.
fn blame_cpuset(error: CoresError, wanted: &CoreList) -> CoresError {
    let none_left = matches!(&error, CoresError::System { source, .. }
        if Errno::from_io_error(source) == Some(Errno::INVAL));
    if !none_left && !matches!(error, CoresError::NotAllowed { .. }) {
        return error;
    }
    let Ok(allowed) = allowed() else { return error };
    match wanted.0.iter().find(|&&core| !allowed.contains(core)) {
        Some(&core) => CoresError::NotAllowed { core, allowed },
        None => error,
    }
}

fn explain(call: &'static str, task: Option<Pid>, errno: Errno) -> CoresError {
    match (errno, task) {
        (Errno::SRCH, Some(task)) => CoresError::NoSuchTask { task },
        (Errno::PERM, task) => CoresError::NotPermitted { task },
        _ => CoresError::System { call, source: errno.into() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_thread_of_a_process_is_moved() {
        use std::process::{Command, Stdio};
        let core = *allowed().unwrap().as_slice().last().unwrap();
        let mut child = Command::new("sleep").arg("1000").stdin(Stdio::null()).spawn().unwrap();
        let pid = Pid::from_child(&child);
        pin_process(pid, &[core].into_iter().collect()).unwrap();
        assert_eq!(affinity(Some(pid)).unwrap().as_slice(), [core]);
        child.kill().unwrap();
        child.wait().unwrap();
        let gone = pin_process(pid, &[core].into_iter().collect());
        assert!(matches!(gone, Err(CoresError::NoSuchTask { .. })), "{gone:?}");
    }

    #[test]
    fn lists_read_and_write_as_the_kernel_does() {
        for text in ["0", "0-3", "0,2", "0-3,8,10-11"] {
            assert_eq!(text.parse::<CoreList>().unwrap().to_string(), text);
        }
        assert_eq!("".parse::<CoreList>().unwrap().to_string(), "no core");
        assert_eq!("3,1,2,1".parse::<CoreList>().unwrap().to_string(), "1-3");
    }

    #[test]
    fn other_texts_are_no_lists() {
        for text in ["a", "1-", "-1", "3-1", "0-4294967295", "1 2"] {
            assert!(text.parse::<CoreList>().is_err(), "{text}");
        }
    }

    #[test]
    fn pinning_is_seen_and_leaves_the_allowed_cores_as_they_were() {
        thread::spawn(|| {
            let allowed_before = allowed().unwrap();
            let core = allowed_before.as_slice()[0];
            pin_current_thread(core).unwrap();
            assert_eq!(affinity(None).unwrap().as_slice(), [core]);
            assert_eq!(allowed().unwrap(), allowed_before);
        })
        .join()
        .unwrap();
    }

    #[test]
    fn a_core_that_is_not_there_is_refused_with_those_that_are() {
        let online = online().unwrap();
        let core = online.as_slice()[online.len() - 1] + 1;
        let error = pin_current_thread(core).unwrap_err().to_string();
        assert_eq!(error, format!("there is no core {core}: this machine has {online}; name one of these"));
    }

    #[test]
    fn no_core_at_all_is_refused() {
        let error = pin(None, &CoreList::default()).unwrap_err();
        assert!(matches!(error, CoresError::NoCores));
    }
}
