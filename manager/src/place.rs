//! Where a manager leaves what others must find: its socket and its lock.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{ErrorKind, Read, Seek, Write};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;

use rustix::fs::{FlockOperation, flock};

/// The folder: `/run/headgate` for root, the user's runtime folder or one in `/tmp` for others.
#[must_use]
pub fn folder() -> PathBuf {
    let uid = rustix::process::geteuid().as_raw();
    if uid == 0 {
        return PathBuf::from("/run/headgate");
    }
    match std::env::var_os("XDG_RUNTIME_DIR") {
        Some(runtime) => PathBuf::from(runtime).join("headgate"),
        None => PathBuf::from(format!("/tmp/headgate-{uid}")),
    }
}

/// The API socket of the manager of this name.
#[must_use]
pub fn api_socket(name: &str) -> PathBuf {
    folder().join(format!("{name}.sock"))
}

/// Why a manager's place could not be taken.
#[derive(Debug, thiserror::Error)]
pub enum PlaceError {
    /// Another manager has this name.
    #[error(
        "a manager named {name:?} is already running (pid {pid}); change it with `headgate apply FILE`, \
         stop it with `headgate down --name {name}`, or give this one another manager.name"
    )]
    Taken {
        /// The name.
        name: String,
        /// Its process, as it wrote it down.
        pid: String,
    },
    /// The folder or a file in it cannot be used.
    #[error("cannot {step} {path}: {cause}")]
    Unusable {
        /// What was tried.
        step: &'static str,
        /// Where.
        path: String,
        /// What the kernel said.
        cause: std::io::Error,
    },
}

/// A manager's place while it runs. Dropping it removes the socket.
pub struct Place {
    socket: PathBuf,
    /// Held locked; the kernel lets go of it however we end.
    _lock: File,
}

impl Place {
    /// Takes the place and listens. A socket left by a manager that crashed is replaced.
    ///
    /// # Errors
    /// [`PlaceError`].
    pub fn take(name: &str) -> Result<(Self, UnixListener), PlaceError> {
        let folder = folder();
        let unusable = |step, path: &std::path::Path| {
            let path = path.display().to_string();
            move |cause| PlaceError::Unusable { step, path, cause }
        };
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&folder)
            .map_err(unusable("create the folder", &folder))?;
        let path = folder.join(format!("{name}.lock"));
        let mut lock = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(unusable("open", &path))?;
        if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
            let mut pid = String::new();
            let _ = lock.read_to_string(&mut pid);
            return Err(PlaceError::Taken { name: name.to_owned(), pid: pid.trim().to_owned() });
        }
        let mut pid = || -> std::io::Result<()> {
            lock.set_len(0)?;
            lock.rewind()?;
            write!(lock, "{}", std::process::id())
        };
        pid().map_err(unusable("write", &path))?;
        let socket = api_socket(name);
        match std::fs::remove_file(&socket) {
            Err(cause) if cause.kind() != ErrorKind::NotFound => {
                return Err(unusable("remove the stale socket", &socket)(cause));
            }
            _ => {}
        }
        let listener = UnixListener::bind(&socket).map_err(unusable("listen at", &socket))?;
        Ok((Self { socket, _lock: lock }, listener))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // Gone already is as good.
        let _ = std::fs::remove_file(&self.socket);
    }
}
