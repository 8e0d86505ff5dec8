//! Counters of a process through `perf_event_open(2)`: its system calls, its caches and its translations.
//!
//! System calls are counted by the tracepoint `raw_syscalls:sys_enter`, which needs no hardware. Its number
//! stands in tracefs; where that is not mounted, a mount of our own that is attached nowhere is asked, so
//! nothing changes for anybody. Caches and TLBs are the generic events of the kernel, which it maps to what
//! the processor has; virtual machines often have none.
//!
//! Where there are more events than counters, the kernel counts them one after another and says for how long;
//! the count is then scaled to the whole time ([`scaled`]), and [`Reading::counted_part`] says how much of it
//! was seen.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use perf_event::events::{Cache, CacheId, CacheOp, CacheResult, Event, Tracepoint};
use perf_event::{Builder, Counter};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};
use rustix::process::Pid;

use super::tally;

/// Event that is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// System calls.
    Calls,
    /// Loads.
    Loads,
    /// Stores.
    Stores,
    /// Lines that the first cache had not.
    L1Misses,
    /// Loads that came to the last cache.
    LastLoads,
    /// Stores that came to the last cache.
    LastStores,
    /// Loads that the last cache had not.
    LastLoadMisses,
    /// Stores that the last cache had not.
    LastStoreMisses,
    /// Loads whose translation took a walk.
    LoadWalks,
    /// Stores whose translation took a walk.
    StoreWalks,
}

impl Kind {
    /// Every event.
    pub const ALL: [Self; 10] = [
        Self::Calls,
        Self::Loads,
        Self::Stores,
        Self::L1Misses,
        Self::LastLoads,
        Self::LastStores,
        Self::LastLoadMisses,
        Self::LastStoreMisses,
        Self::LoadWalks,
        Self::StoreWalks,
    ];

    const fn cache(self) -> Option<Cache> {
        let (which, operation, result) = match self {
            Self::Calls => return None,
            Self::Loads => (CacheId::L1D, CacheOp::READ, CacheResult::ACCESS),
            Self::Stores => (CacheId::L1D, CacheOp::WRITE, CacheResult::ACCESS),
            Self::L1Misses => (CacheId::L1D, CacheOp::READ, CacheResult::MISS),
            Self::LastLoads => (CacheId::LL, CacheOp::READ, CacheResult::ACCESS),
            Self::LastStores => (CacheId::LL, CacheOp::WRITE, CacheResult::ACCESS),
            Self::LastLoadMisses => (CacheId::LL, CacheOp::READ, CacheResult::MISS),
            Self::LastStoreMisses => (CacheId::LL, CacheOp::WRITE, CacheResult::MISS),
            Self::LoadWalks => (CacheId::DTLB, CacheOp::READ, CacheResult::MISS),
            Self::StoreWalks => (CacheId::DTLB, CacheOp::WRITE, CacheResult::MISS),
        };
        Some(Cache { which, operation, result })
    }
}

/// Reason why something is not counted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CounterError {
    /// The processor, or the hypervisor, offers no such counter.
    #[error(
        "this machine has no hardware counters for data accesses (no PMU, as in most virtual machines): \
         bare metal has them, and so have virtual machines with a virtual PMU"
    )]
    NoHardware,
    /// The user may not.
    #[error(
        "not permitted to count {what} (perf_event_paranoid is {paranoid}): run as root or with CAP_PERFMON, \
         or lower /proc/sys/kernel/perf_event_paranoid"
    )]
    NotPermitted {
        /// Event that was to be counted.
        what: &'static str,
        /// The kernel's setting, or `unknown`.
        paranoid: String,
    },
    /// The kernel has no tracepoints, or shows them to nobody.
    #[error("system calls cannot be counted: no tracepoint raw_syscalls:sys_enter: {why}")]
    NoTracepoint {
        /// Error of opening it.
        why: String,
    },
    /// Something else.
    #[error("cannot count {what}: {why}")]
    Other {
        /// Event that was to be counted.
        what: &'static str,
        /// Error from the kernel.
        why: String,
    },
}

/// Counters of one process, from now on.
pub struct Watch {
    counters: Vec<(Kind, Counter)>,
    errors: Vec<CounterError>,
    /// Whether the kernel's part in the process is counted too.
    with_kernel: bool,
}

/// Counts since the watch began. Absent: not countable here.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Reading {
    counts: [Option<u64>; Kind::ALL.len()],
    /// The smallest part of the time that one of the counters was on, 0 to 1.
    pub counted_part: f64,
}

impl Reading {
    /// The count of one kind.
    #[must_use]
    pub const fn at(&self, kind: Kind) -> Option<u64> {
        self.counts[kind as usize]
    }

    /// Loads' and stores' counts together: that of stores may be missing where a processor has no such event.
    #[must_use]
    pub fn both(&self, loads: Kind, stores: Kind) -> Option<u64> {
        Some(self.at(loads)? + self.at(stores).unwrap_or(0))
    }

    fn add(&mut self, kind: Kind, count: u64) {
        let sum = self.counts[kind as usize].get_or_insert(0);
        *sum = sum.saturating_add(count);
    }
}

/// A count for the whole time, of one that was taken for a part of it; `None` when it was never taken.
#[must_use]
pub fn scaled(count: u64, enabled_ns: u64, running_ns: u64) -> Option<u64> {
    match (enabled_ns, running_ns) {
        // Enabled for a process that did not run: there was nothing to count.
        (_, 0) if count == 0 => Some(0),
        (_, 0) => None,
        (enabled, running) if running >= enabled => Some(count),
        (enabled, running) => {
            u64::try_from(u128::from(count) * u128::from(enabled) / u128::from(running)).ok()
        }
    }
}

impl Watch {
    /// Counts what the threads that a process has now do from now on. What cannot be counted is left out and
    /// has its reason in [`Watch::errors`].
    #[must_use]
    pub fn start(process: Pid) -> Self {
        let mut watch = Self { counters: Vec::new(), errors: Vec::new(), with_kernel: true };
        let threads = tally::threads(process).unwrap_or_default();
        for kind in Kind::ALL {
            let mut opened = Vec::new();
            let all = threads.iter().try_for_each(|&thread| {
                opened.push((kind, watch.open(kind, thread)?));
                Ok(())
            });
            match all {
                Ok(()) => watch.counters.append(&mut opened),
                // Not every processor counts stores; loads stand for both then.
                Err(_) if kind_is_optional(kind) => {}
                Err(error) if !watch.errors.contains(&error) => watch.errors.push(error),
                Err(_) => {}
            }
        }
        watch
    }

    /// Returns the reasons why events are not counted.
    #[must_use]
    pub fn errors(&self) -> &[CounterError] {
        &self.errors
    }

    /// Returns whether hardware counters hold what the kernel did for the process too; without the right to
    /// that, they hold its own code alone.
    #[must_use]
    pub const fn with_kernel(&self) -> bool {
        self.with_kernel
    }

    /// Returns the counts until now.
    #[must_use]
    pub fn read(&mut self) -> Reading {
        let mut reading = Reading { counted_part: 1.0, ..Reading::default() };
        for (kind, counter) in &mut self.counters {
            let Ok(data) = counter.read_full() else { continue };
            let enabled = data.time_enabled().unwrap_or_default().as_nanos() as u64;
            let running = data.time_running().unwrap_or_default().as_nanos() as u64;
            if let Some(count) = scaled(data.count(), enabled, running) {
                reading.add(*kind, count);
            }
            if enabled > 0 {
                reading.counted_part = reading.counted_part.min(running as f64 / enabled as f64);
            }
        }
        reading
    }

    fn open(&mut self, kind: Kind, thread: Pid) -> Result<Counter, CounterError> {
        match kind.cache() {
            None => {
                let id = tracepoint("raw_syscalls/sys_enter").map_err(|error| match is_refusal(&error) {
                    true => explain("system calls", &error),
                    false => CounterError::NoTracepoint { why: error.to_string() },
                })?;
                begin(Tracepoint::with_id(id), thread, true).map_err(|error| explain("system calls", &error))
            }
            Some(event) => match begin(event.clone(), thread, self.with_kernel) {
                Err(error) if self.with_kernel && is_refusal(&error) => {
                    self.with_kernel = false;
                    begin(event, thread, false).map_err(|error| explain("data accesses", &error))
                }
                counter => counter.map_err(|error| explain("data accesses", &error)),
            },
        }
    }
}

const fn kind_is_optional(kind: Kind) -> bool {
    matches!(kind, Kind::Stores | Kind::LastStores | Kind::LastStoreMisses | Kind::StoreWalks)
}

fn begin<E: Event>(event: E, thread: Pid, with_kernel: bool) -> io::Result<Counter> {
    let mut builder = Builder::new(event);
    builder.observe_pid(thread.as_raw_pid()).any_cpu().exclude_kernel(!with_kernel);
    let mut counter = builder.build()?;
    counter.enable()?;
    Ok(counter)
}

fn is_refusal(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::ACCESS | Errno::PERM))
}

fn explain(what: &'static str, error: &io::Error) -> CounterError {
    match Errno::from_io_error(error) {
        Some(Errno::ACCESS | Errno::PERM) => {
            let paranoid = std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid");
            let paranoid = paranoid.map_or("unknown".to_owned(), |text| text.trim().to_owned());
            CounterError::NotPermitted { what, paranoid }
        }
        // What kernels say of an event that no PMU has, or of hardware without a PMU (perf_event_open(2)).
        Some(Errno::NOENT | Errno::OPNOTSUPP | Errno::NODEV | Errno::NXIO) => CounterError::NoHardware,
        _ => CounterError::Other { what, why: error.to_string() },
    }
}

/// Conventional mount points of tracefs.
const TRACEFS: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];

/// The number of a tracepoint, `group/name`.
fn tracepoint(name: &str) -> io::Result<u64> {
    let path = format!("events/{name}/id");
    let mounted = TRACEFS.iter().find_map(|at| std::fs::read_to_string(format!("{at}/{path}")).ok());
    let text = match mounted {
        Some(text) => text,
        None => {
            let root = detached("tracefs")?;
            let file = rustix::fs::openat(&root, &path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
            io::read_to_string(std::fs::File::from(file))?
        }
    };
    text.trim().parse().map_err(|_| io::Error::other(format!("{path} holds {text:?}, not a number")))
}

/// A file system that is mounted nowhere: it goes when the file descriptor does.
fn detached(kind: &str) -> io::Result<OwnedFd> {
    let context = fsopen(kind, FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_create(context.as_fd())?;
    Ok(fsmount(context.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::MOUNT_ATTR_RDONLY)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_of_a_part_of_the_time_is_scaled_to_the_whole() {
        assert_eq!(scaled(100, 1000, 1000), Some(100));
        assert_eq!(scaled(100, 1000, 250), Some(400));
        assert_eq!(scaled(u64::MAX / 2, 1 << 40, 1 << 20), None);
        assert_eq!(scaled(0, 0, 0), Some(0));
        assert_eq!(scaled(0, 1000, 0), Some(0));
        assert_eq!(scaled(7, 1000, 0), None);
    }

    #[test]
    fn what_the_kernel_refuses_is_told_apart() {
        let of = |errno: Errno| explain("data accesses", &errno.into());
        assert_eq!(of(Errno::NOENT), CounterError::NoHardware);
        assert_eq!(of(Errno::OPNOTSUPP), CounterError::NoHardware);
        assert!(matches!(of(Errno::ACCESS), CounterError::NotPermitted { .. }));
        assert!(matches!(of(Errno::MFILE), CounterError::Other { .. }));
        assert!(of(Errno::PERM).to_string().contains("CAP_PERFMON"));
    }

    /// Each is counted, or there is a word on why it is not.
    #[test]
    fn a_watch_counts_or_says_why_not() {
        let thread = rustix::thread::gettid();
        let mut watch = Watch::start(thread);
        let before = watch.read();
        for _ in 0..1000 {
            let _ = rustix::process::getppid();
        }
        let after = watch.read();
        match (before.at(Kind::Calls), after.at(Kind::Calls)) {
            (Some(before), Some(after)) => assert!(after >= before + 1000, "{before} {after}"),
            _ => assert!(!watch.errors().is_empty()),
        }
        if after.at(Kind::Loads).is_none() {
            assert!(watch.errors().len() <= 3 && !watch.errors().is_empty(), "{:?}", watch.errors());
        }
    }
}
