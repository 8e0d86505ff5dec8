//! The machine the tests run on.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use headgate_host::cores::{self, Placement};
use headgate_host::sched;
use rustix::fs::{FlockOperation, flock};

use crate::programs;

/// Folders below which groups of a manager are looked for, and how deep: those of this process, and of
/// systemd's services and sessions.
const GROUPS: &str = "/sys/fs/cgroup";
const GROUPS_DEPTH: u32 = 4;

/// Returns the core of managers.
#[must_use]
pub fn manager_core() -> u32 {
    placement().manager
}

/// Returns the core of NFs.
#[must_use]
pub fn nf_core() -> u32 {
    placement().nfs
}

fn placement() -> Placement {
    Placement::choose().expect("the kernel says which cores there are")
}

/// Returns whether this process is root.
#[must_use]
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Says why a test proves nothing here, past the test runner, which swallows what a passing test prints.
pub fn skip(test: &str, reason: &str) {
    // A closed standard error has nobody to tell.
    let _ = writeln!(std::io::stderr(), "{test}: skipped: {reason}");
}

/// Returns whether a program is there; says so when it is not.
#[must_use]
pub fn has_program(test: &str, program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let places = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]);
    let found = places.into_iter().any(|folder| folder.join(program).is_file());
    if !found {
        skip(test, &format!("there is no `{program}` on this machine"));
    }
    found
}

/// Returns whether NFs can have time slices here.
///
/// # Panics
/// Panics if the kernel keeps this thread where it is.
#[must_use]
pub fn has_slices(test: &str) -> bool {
    // A task that waits on the NFs' core waits for them to have no packets.
    cores::keep_current_thread_off(&[nf_core()]).expect("a thread may be kept off a core");
    let tried = std::thread::spawn(|| sched::raise(None, 1)).join().expect("nothing panics there");
    let why = match tried {
        _ if manager_core() == nf_core() => "it takes two cores".to_owned(),
        Err(error) => error.to_string(),
        Ok(()) => return true,
    };
    skip(test, &why);
    false
}

/// Lets one test at a time have the cores, over all processes of this build.
///
/// # Panics
/// Panics if the build folder cannot be written.
#[must_use]
pub fn alone() -> File {
    let path = programs::folder().join("headgate-tests.lock");
    let lock = OpenOptions::new().create(true).truncate(false).write(true).open(&path);
    let lock = lock.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    flock(&lock, FlockOperation::LockExclusive).expect("a lock can be waited for");
    lock
}

/// Returns the control groups of all NFs of the manager `tests` in a process: one in each hierarchy.
#[must_use]
pub fn groups_of(process: u32) -> Vec<PathBuf> {
    fn search(folder: &Path, name: &str, depth: u32, found: &mut Vec<PathBuf>) {
        let folders = fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
        for folder in folders.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
            if folder.file_name() == name {
                found.push(folder.path());
            } else if depth > 0 {
                search(&folder.path(), name, depth - 1, found);
            }
        }
    }
    let mut found = Vec::new();
    search(Path::new(GROUPS), &format!("headgate-tests-{process}"), GROUPS_DEPTH, &mut found);
    found
}
