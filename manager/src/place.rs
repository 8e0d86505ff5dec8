//! Place of a manager: its lock and its sockets, for as long as it runs.

use std::fs::{File, Permissions};
use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use headgate_api::place::{self, folder, nf_socket};
use headgate_host::lock::Attempt;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

/// Reason why a manager's place could not be taken.
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
        /// Its process number, as it wrote it down.
        pid: String,
    },
    /// The folder or a file in it cannot be used.
    #[error("cannot {step} {path}: {cause}")]
    Unusable {
        /// Step that failed.
        step: &'static str,
        /// Path of the file or folder.
        path: String,
        /// The kernel's error.
        cause: std::io::Error,
    },
}

/// Place of a running manager. Dropping it removes the socket and the lock.
pub struct Place {
    socket: PathBuf,
    lock_path: PathBuf,
    /// Locked file; the kernel releases the lock however we end.
    _lock: File,
}

impl Place {
    /// Takes the place and listens. A socket left by a manager that crashed is replaced.
    ///
    /// # Errors
    /// [`PlaceError`].
    pub fn take(name: &str) -> Result<(Self, UnixListener), PlaceError> {
        Self::take_in(&folder(), name)
    }

    fn take_in(folder: &Path, name: &str) -> Result<(Self, UnixListener), PlaceError> {
        make_own(folder)?;
        let lock_path = folder.join(format!("{name}.lock"));
        let lock = lock(name, &lock_path)?;
        let socket = folder.join(format!("{name}.sock"));
        match std::fs::remove_file(&socket) {
            Err(cause) if cause.kind() != ErrorKind::NotFound => {
                return Err(unusable("remove the stale socket", &socket)(cause));
            }
            _ => {}
        }
        let listener = UnixListener::bind(&socket).map_err(unusable("listen at", &socket))?;
        // Whatever the umask is: a process that can connect can stop this manager.
        allow(&socket, 0o600)?;
        Ok((Self { socket, lock_path, _lock: lock }, listener))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // A missing file is as good. The lock is removed while it is held, see `lock`.
        let _ = std::fs::remove_file(&self.socket);
        let _ = std::fs::remove_file(&self.lock_path);
    }
}

/// Most connections not accepted yet. Our choice: the control loop accepts every few milliseconds.
const BACKLOG: i32 = 16;

/// Socket of a manager for NFs while it listens. Dropping it removes it.
#[derive(Debug)]
pub struct NfPlace {
    path: PathBuf,
    listener: OwnedFd,
}

impl NfPlace {
    /// Listens, without ever waiting. With `for_others` every user may connect, else only this one.
    ///
    /// # Errors
    /// [`PlaceError`], also when another manager of this name listens there.
    pub fn take(name: &str, for_others: bool) -> Result<Self, PlaceError> {
        let folder = folder();
        make_own(&folder)?;
        let path = nf_socket(name);
        Self::listen(&path, for_others).map_err(|cause| unusable("listen at", &path)(cause))
    }

    pub(crate) fn listen(path: &Path, for_others: bool) -> std::io::Result<Self> {
        let address = SocketAddrUnix::new(path)?;
        let socket = || {
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)
        };
        // AGAIN: it has many connections to accept.
        if matches!(rustix::net::connect(&socket()?, &address), Ok(()) | Err(Errno::AGAIN)) {
            return Err(std::io::Error::other("another manager of this name listens there; stop it first"));
        }
        match std::fs::remove_file(path) {
            Err(cause) if cause.kind() != ErrorKind::NotFound => return Err(cause),
            _ => {}
        }
        let listener = socket()?;
        rustix::net::bind(&listener, &address)?;
        let place = Self { path: path.to_owned(), listener };
        // Before anybody can connect. On a kernel that cannot refuse files, each connection has a thread.
        headgate_session::inbox::refuse_files(&place.listener);
        place.set_mode(for_others)?;
        rustix::net::listen(&place.listener, BACKLOG)?;
        Ok(place)
    }

    /// Lets every user connect, or only this one.
    ///
    /// # Errors
    /// The kernel's.
    pub fn set_mode(&self, for_others: bool) -> std::io::Result<()> {
        if for_others && let Some(folder) = self.path.parent() {
            // To pass through it; what else is in it, others can neither list nor open.
            std::fs::set_permissions(folder, Permissions::from_mode(0o711))?;
        }
        let mode = if for_others { 0o666 } else { 0o600 };
        std::fs::set_permissions(&self.path, Permissions::from_mode(mode))
    }

    /// Returns its path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the descriptor to accept from.
    #[must_use]
    pub const fn listener(&self) -> &OwnedFd {
        &self.listener
    }
}

impl Drop for NfPlace {
    fn drop(&mut self) {
        // A missing file is as good.
        let _ = std::fs::remove_file(&self.path);
    }
}

fn allow(path: &Path, mode: u32) -> Result<(), PlaceError> {
    std::fs::set_permissions(path, Permissions::from_mode(mode)).map_err(unusable("protect", path))
}

fn unusable(step: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> PlaceError {
    let path = path.display().to_string();
    move |cause| PlaceError::Unusable { step, path, cause }
}

/// Makes the folder unless it is there.
pub(crate) fn make_own(folder: &Path) -> Result<(), PlaceError> {
    place::make_own(folder).map_err(unusable("use", folder))
}

/// Locks the file at `path` and writes this process's number into it.
fn lock(name: &str, path: &Path) -> Result<File, PlaceError> {
    let make_folder = || path.parent().map_or(Ok(false), |folder| place::make_own(folder).map(|()| true));
    match headgate_host::lock::attempt(path, &make_folder).map_err(unusable("lock", path))? {
        Attempt::Held(file) => Ok(file),
        Attempt::Taken { pid } => Err(PlaceError::Taken { name: name.to_owned(), pid }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;
    use std::os::unix::net::UnixStream;

    #[test]
    fn a_place_is_for_one_and_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let take = || Place::take_in(folder.path(), "one");
        let (place, _listener) = take().unwrap();
        let Err(PlaceError::Taken { pid, .. }) = take() else { panic!("taken twice") };
        assert_eq!(pid, std::process::id().to_string());
        UnixStream::connect(folder.path().join("one.sock")).unwrap();
        drop(place);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        take().unwrap();
    }

    #[test]
    fn only_the_socket_for_nfs_is_for_others_and_only_when_told() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::set_permissions(folder.path(), Permissions::from_mode(0o700)).unwrap();
        let mode = |path: &Path| std::fs::metadata(path).unwrap().mode() & 0o777;
        let (_place, _listener) = Place::take_in(folder.path(), "one").unwrap();
        for file in ["one.sock", "one.lock"] {
            assert_eq!(mode(&folder.path().join(file)), 0o600, "{file}");
        }
        let path = folder.path().join("one+nf.sock");
        let listening = NfPlace::listen(&path, false).unwrap();
        assert_eq!((mode(&path), mode(folder.path())), (0o600, 0o700));
        listening.set_mode(true).unwrap();
        assert_eq!((mode(&path), mode(folder.path())), (0o666, 0o711));
        let taken = NfPlace::listen(&path, false).unwrap_err();
        assert!(taken.to_string().contains("another manager"), "{taken}");
        drop(listening);
        assert!(!path.exists());
        // A socket left by a crash.
        drop(UnixListener::bind(&path).unwrap());
        NfPlace::listen(&path, false).unwrap();
    }

    #[test]
    fn what_a_crash_left_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("one.lock"), "1").unwrap();
        drop(UnixListener::bind(folder.path().join("one.sock")).unwrap());
        let (_place, _listener) = Place::take_in(folder.path(), "one").unwrap();
        UnixStream::connect(folder.path().join("one.sock")).unwrap();
    }

    /// Many managers at once, each releasing at once: at any moment at most one has the place.
    #[test]
    fn a_lock_that_is_being_removed_keeps_others_out() {
        let folder = tempfile::tempdir().unwrap();
        let holders = std::sync::atomic::AtomicU32::new(0);
        let compete = || {
            for _ in 0..200 {
                let Ok((place, _listener)) = Place::take_in(folder.path(), "one") else { continue };
                assert_eq!(holders.fetch_add(1, std::sync::atomic::Ordering::SeqCst), 0);
                holders.fetch_sub(1, std::sync::atomic::Ordering::SeqCst);
                drop(place);
            }
        };
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(compete);
            }
        });
    }

    #[test]
    fn what_is_no_folder_of_ours_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(folder.path(), &link).unwrap();
        let Err(error) = Place::take_in(&link, "one") else { panic!("taken") };
        assert!(error.to_string().contains("not a folder of this user"), "{error}");
    }
}
