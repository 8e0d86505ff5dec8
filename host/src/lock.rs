//! Files that one process at a time holds locked, and that are gone when nobody does.
//!
//! The kernel lets go of a lock however its holder ends; the file is removed by the holder, or by the janitor
//! ([`Action::RemoveUnlocked`]).

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use rustix::process::Pid;

use crate::undo::Action;
use crate::{identity, process};

/// Longest time for which a lock may be held after its holder ended: its janitor takes it to remove the file.
/// Our choice: a thousand times what that takes.
const JANITOR_PATIENCE: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_millis(1);

/// A lock that is held until it is dropped. Then its file goes.
#[derive(Debug)]
pub struct Lock {
    path: PathBuf,
    file: File,
}

impl Lock {
    /// Takes a lock. `None` while a process that runs holds it.
    ///
    /// # Errors
    /// The kernel's, when the file cannot be made or opened.
    pub fn take(path: &Path, undo: &mut dyn FnMut(Action)) -> io::Result<Option<Self>> {
        let Attempt::Held(file) = attempt(path, &|| Ok(false))? else { return Ok(None) };
        undo(Action::RemoveUnlocked { lock: path.to_owned(), files: Vec::new() });
        Ok(Some(Self { path: path.to_owned(), file }))
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // While it is held, so that nobody else's goes.
        let _ = fs::remove_file(&self.path);
        let _ = flock(&self.file, FlockOperation::Unlock);
    }
}

/// Outcome of an attempt to lock a file.
#[derive(Debug)]
pub enum Attempt {
    /// It is ours until it is closed, and has our number in it.
    Held(File),
    /// A process has it, whose number is in it.
    Taken {
        /// The number, as it is written there.
        pid: String,
    },
}

/// Locks a file, which is made where it is not there, and writes this process's number into it. Where its
/// folder is gone, which who ended just now may have taken away, `make_folder` makes it anew, or returns
/// false.
///
/// # Errors
/// The kernel's, when the file or its folder cannot be made or opened.
pub fn attempt(path: &Path, make_folder: &dyn Fn() -> io::Result<bool>) -> io::Result<Attempt> {
    let start = Instant::now();
    loop {
        let mut options = OpenOptions::new();
        // A process that can open it can lock it, so no other user may.
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let mut file = match options.open(path) {
            Err(cause)
                if cause.kind() == ErrorKind::NotFound
                    && start.elapsed() < JANITOR_PATIENCE
                    && make_folder()? =>
            {
                continue;
            }
            open => open?,
        };
        if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
            let mut pid = String::new();
            let _ = file.read_to_string(&mut pid);
            let pid = pid.trim();
            if runs(pid) || start.elapsed() > JANITOR_PATIENCE {
                return Ok(Attempt::Taken { pid: pid.to_owned() });
            }
            thread::sleep(PAUSE);
            continue;
        }
        // Its holder may have removed it after we had opened it: then this lock keeps nobody out.
        if !identity::is_at(&file, path)? {
            continue;
        }
        file.set_len(0)?;
        file.rewind()?;
        write!(file, "{}", std::process::id())?;
        return Ok(Attempt::Held(file));
    }
}

/// Returns whether the process of this number runs.
fn runs(pid: &str) -> bool {
    let pid = pid.parse().ok().and_then(Pid::from_raw);
    pid.is_some_and(|pid| process::is_alive(pid).unwrap_or(true))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_is_for_one_and_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let mut undone = Vec::new();
        let lock = Lock::take(&path, &mut |action| undone.push(action)).unwrap().unwrap();
        assert_eq!(undone, [Action::RemoveUnlocked { lock: path.clone(), files: Vec::new() }]);
        assert!(Lock::take(&path, &mut |_| {}).unwrap().is_none());
        drop(lock);
        assert!(!path.exists());
    }

    #[test]
    fn the_janitor_of_a_process_that_ended_is_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        fs::write(&path, crate::testing::pid_of_nobody().as_raw_pid().to_string()).unwrap();
        let janitor = File::open(&path).unwrap();
        flock(&janitor, FlockOperation::LockExclusive).unwrap();
        let taking = thread::spawn({
            let path = path.clone();
            move || Lock::take(&path, &mut |_| {}).unwrap()
        });
        thread::sleep(Duration::from_millis(20));
        fs::remove_file(&path).unwrap();
        drop(janitor);
        let lock = taking.join().unwrap().unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), std::process::id().to_string());
        drop(lock);
    }
}
