//! Tasks that use a core, and threads by their name: found by reading those of all processes.
//!
//! That takes some ten microseconds for each thread of the machine, so it is for a message, not for a
//! measurement.

use std::fs;

use rustix::process::Pid;

use super::affinity;
use crate::process;

/// Most tasks that are read. Our choice: 50 ms, and busy machines have fewer.
const TASKS_MAX: usize = 4096;

/// A task of some process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskOn {
    /// The process.
    pub process: Pid,
    /// Name of the process, at most 15 bytes.
    pub program: String,
    /// Name of the thread, at most 15 bytes.
    pub name: String,
    /// Core that it runs on, waits for, or is kept on.
    pub core: u32,
}

/// Returns the tasks that run on a core or wait for it at this moment.
#[must_use]
pub fn users_of(core: u32) -> Vec<TaskOn> {
    all_threads(false).filter_map(|(process, thread)| ready(process, thread, core)).collect()
}

/// Returns the threads whose names begin so, and that are kept on one core.
#[must_use]
pub fn threads_named(prefix: &str) -> Vec<TaskOn> {
    let named = |(process, thread): (Pid, Pid)| {
        let name = name_of(process, thread)?;
        let kept_on = name.starts_with(prefix).then(|| affinity(Some(thread)).ok())??;
        let &[core] = kept_on.as_slice() else { return None };
        Some(TaskOn { process, program: name_of(process, process)?, name, core })
    };
    all_threads(true).filter_map(named).collect()
}

/// Returns all threads with their processes; of processes with several threads only, if that is asked for.
fn all_threads(several: bool) -> impl Iterator<Item = (Pid, Pid)> {
    let number = |entry: fs::DirEntry| Pid::from_raw(entry.file_name().to_str()?.parse().ok()?);
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten().filter_map(number);
    let of = move |process: Pid| {
        let threads = process::threads(process);
        let wanted = !several || threads.len() > 1;
        threads.into_iter().filter(move |_| wanted).map(move |thread| (process, thread))
    };
    processes.flat_map(of).take(TASKS_MAX)
}

fn name_of(process: Pid, thread: Pid) -> Option<String> {
    let path = format!("/proc/{}/task/{}/comm", process.as_raw_pid(), thread.as_raw_pid());
    Some(fs::read_to_string(path).ok()?.trim_end().to_owned())
}

fn ready(process: Pid, thread: Pid, on: u32) -> Option<TaskOn> {
    let path = format!("/proc/{}/task/{}/stat", process.as_raw_pid(), thread.as_raw_pid());
    let (name, core) = ready_in(&fs::read_to_string(path).ok()?)?;
    (core == on).then(|| TaskOn {
        process,
        program: name_of(process, process).unwrap_or_default(),
        name,
        core,
    })
}

/// Name and core of a task that is ready to run: the second, third and 39th field of `proc_pid_stat(5)`. The
/// name is in parentheses and may hold anything.
fn ready_in(stat: &str) -> Option<(String, u32)> {
    let (before, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace();
    if fields.next()? != "R" {
        return None;
    }
    Some((before.split_once('(')?.1.to_owned(), fields.nth(35)?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;
    use crate::cores::{allowed, pin_current_thread};

    #[test]
    fn a_task_is_ready_by_its_state_whatever_its_name_is() {
        let rest = "1 2 ".repeat(17) + "3";
        let stat = |state: &str| format!("7 (a) R (b) {state} {rest} 5 0 0");
        assert_eq!(ready_in(&stat("R")), Some(("a) R (b".to_owned(), 5)));
        assert_eq!(ready_in(&stat("S")), None);
        assert_eq!(ready_in("7 (a"), None);
    }

    #[test]
    fn a_thread_that_polls_is_found_on_its_core_and_by_its_name() {
        const NAME: &str = "hg-users-test";
        let (core, stop, begun) =
            (*allowed().unwrap().as_slice().last().unwrap(), AtomicBool::new(false), AtomicBool::new(false));
        std::thread::scope(|scope| {
            let poll = || {
                pin_current_thread(core).unwrap();
                begun.store(true, Ordering::Relaxed);
                while !stop.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            };
            std::thread::Builder::new().name(NAME.to_owned()).spawn_scoped(scope, poll).unwrap();
            while !begun.load(Ordering::Relaxed) {
                std::thread::yield_now();
            }
            let process = rustix::process::getpid();
            let program = name_of(process, process).unwrap();
            let expected = TaskOn { process, program, name: NAME.to_owned(), core };
            let (users, named) = (users_of(core), threads_named(NAME));
            stop.store(true, Ordering::Relaxed);
            assert!(users.contains(&expected), "{users:?}");
            assert_eq!(named, [expected]);
        });
    }
}
