//! The kernel's account of a process: all its threads together.

use std::fs;

use rustix::process::Pid;

use crate::process::{self, ProcessError};

/// Counters of the threads of a process since they began. Of threads that have ended nothing is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Threads that were counted.
    pub threads: u64,
    /// Time on a core, in nanoseconds.
    pub run_ns: u64,
    /// Time ready to run without a core, in nanoseconds.
    pub ready_ns: u64,
    /// Times one gave up its core by sleeping.
    pub voluntary_switches: u64,
    /// Times the core was taken from one.
    pub involuntary_switches: u64,
    /// Times one was moved to another core; `None` where the kernel does not say (`/proc/PID/sched`).
    pub migrations: Option<u64>,
    /// Page faults that took no disk.
    pub minor_faults: u64,
    /// Page faults that did.
    pub major_faults: u64,
}

impl Tally {
    /// Returns the growth since an earlier tally. A thread that ended in between took its account with it;
    /// nothing falls below zero for that.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        Self {
            threads: self.threads,
            run_ns: self.run_ns.saturating_sub(before.run_ns),
            ready_ns: self.ready_ns.saturating_sub(before.ready_ns),
            voluntary_switches: self.voluntary_switches.saturating_sub(before.voluntary_switches),
            involuntary_switches: self.involuntary_switches.saturating_sub(before.involuntary_switches),
            migrations: self.migrations.zip(before.migrations).map(|(now, then)| now.saturating_sub(then)),
            minor_faults: self.minor_faults.saturating_sub(before.minor_faults),
            major_faults: self.major_faults.saturating_sub(before.major_faults),
        }
    }

    /// Switches of both kinds.
    #[must_use]
    pub const fn switches(&self) -> u64 {
        self.voluntary_switches + self.involuntary_switches
    }

    fn add(&mut self, thread: &process::Observation, migrations: Option<u64>) {
        self.threads += 1;
        self.run_ns += thread.on_core_ns;
        self.ready_ns += thread.waiting_ns;
        self.voluntary_switches += thread.voluntary_switches;
        self.involuntary_switches += thread.involuntary_switches;
        self.migrations = self.migrations.zip(migrations).map(|(sum, more)| sum + more);
    }
}

/// Ids of the threads of a process, in rising order.
///
/// # Errors
/// [`ProcessError::NoSuchProcess`].
pub fn threads(process: Pid) -> Result<Vec<Pid>, ProcessError> {
    let entries = fs::read_dir(format!("/proc/{}/task", process.as_raw_pid()))
        .map_err(|_| ProcessError::NoSuchProcess { pid: process })?;
    let number = |entry: fs::DirEntry| Pid::from_raw(entry.file_name().to_str()?.parse().ok()?);
    let mut threads: Vec<Pid> = entries.filter_map(Result::ok).filter_map(number).collect();
    threads.sort_by_key(|thread| thread.as_raw_pid());
    Ok(threads)
}

/// The account of a process at this moment.
///
/// # Errors
/// [`ProcessError`]: it is gone, or its files hold something unknown.
pub fn of(process: Pid) -> Result<Tally, ProcessError> {
    let mut tally = Tally { migrations: Some(0), ..Tally::default() };
    for thread in threads(process)? {
        let sched = format!("/proc/{}/task/{}/sched", process.as_raw_pid(), thread.as_raw_pid());
        let migrations = fs::read_to_string(sched).ok().as_deref().and_then(migrations_in);
        match process::observe(thread) {
            Ok(observation) => tally.add(&observation, migrations),
            // One thread of several may end at any time.
            Err(ProcessError::NoSuchProcess { .. }) if thread != process => {}
            Err(error) => return Err(error),
        }
    }
    let stat = fs::read_to_string(format!("/proc/{}/stat", process.as_raw_pid()));
    (tally.minor_faults, tally.major_faults) =
        stat.ok().as_deref().and_then(faults_in).ok_or(ProcessError::NoSuchProcess { pid: process })?;
    Ok(tally)
}

/// `se.nr_migrations : 12`.
fn migrations_in(sched: &str) -> Option<u64> {
    crate::files::field(sched, "se.nr_migrations")?.parse().ok()
}

/// The 10th and 12th field (proc_pid_stat(5)); the second is a name in parentheses that may hold anything.
fn faults_in(stat: &str) -> Option<(u64, u64)> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace().skip(7);
    let minor = fields.next()?.parse().ok()?;
    Some((minor, fields.nth(1)?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_and_migrations_are_read_where_they_stand() {
        assert_eq!(faults_in("7 (a) b) R 1 2 3 4 5 6 777 8 9 10 11"), Some((777, 9)));
        assert_eq!(faults_in("7 (a) R 1 2"), None);
        assert_eq!(migrations_in("se.vruntime  :  2.5\nse.nr_migrations   :    12\n"), Some(12));
        assert_eq!(migrations_in("se.vruntime : 2.5\n"), None);
    }

    #[test]
    fn a_process_has_run_and_its_threads_are_counted() {
        let own = Pid::from_raw(std::process::id() as i32).unwrap();
        let before = of(own).unwrap();
        let after = std::thread::scope(|scope| {
            let (ready, wait) = std::sync::mpsc::channel();
            let (let_go, held) = std::sync::mpsc::channel::<()>();
            scope.spawn(move || {
                ready.send(()).unwrap();
                let _ = held.recv();
            });
            wait.recv().unwrap();
            let after = of(own).unwrap();
            drop(let_go);
            after
        });
        assert!(after.threads > 1 && before.run_ns > 0, "{before:?} {after:?}");
        assert!(after.minor_faults >= before.minor_faults);
        let gone = of(Pid::from_raw(i32::MAX).unwrap());
        assert!(matches!(gone, Err(ProcessError::NoSuchProcess { .. })), "{gone:?}");
    }

    #[test]
    fn an_account_that_shrank_is_no_difference() {
        let before = Tally { run_ns: 50, migrations: Some(1), ..Tally::default() };
        let after = Tally { ready_ns: 9, voluntary_switches: 3, ..Tally::default() };
        let since = after.since(&before);
        assert_eq!((since.run_ns, since.ready_ns, since.switches(), since.migrations), (0, 9, 3, None));
    }
}
