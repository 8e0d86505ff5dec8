//! The Unix socket of a server: made for this user alone, and taken away at the end.

use std::fs::{Permissions, remove_dir, remove_file, set_permissions, symlink_metadata};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use headgate_api::place;

/// A socket while its server listens. Dropping it removes it.
#[derive(Debug)]
pub struct Socket {
    path: PathBuf,
    /// Folder that is ours to take away.
    folder: Option<PathBuf>,
}

impl Socket {
    /// Listens, in place of a server that left its socket behind. A folder that is missing is made.
    ///
    /// # Errors
    /// The kernel's, or that another server listens there.
    pub fn listen(path: &Path) -> io::Result<(Self, UnixListener)> {
        let is_ours =
            |folder: &&Path| *folder == place::folder() || !folder.as_os_str().is_empty() && !folder.exists();
        let folder = path.parent().filter(is_ours).map(Path::to_owned);
        folder.as_deref().map_or(Ok(()), place::make_own)?;
        match UnixStream::connect(path) {
            Ok(_) => return Err(io::Error::other("another server listens there")),
            Err(error) if error.kind() == ErrorKind::ConnectionRefused && is_socket(path) => {
                remove_file(path)?
            }
            // Nothing is there, or something that is no socket, which stays.
            Err(_) => {}
        }
        let listener = UnixListener::bind(path)?;
        let socket = Self { path: path.to_owned(), folder };
        // Whatever the umask is. The server asks the kernel for the user of each connection too.
        set_permissions(path, Permissions::from_mode(0o600))?;
        listener.set_nonblocking(true)?;
        Ok((socket, listener))
    }
}

fn is_socket(path: &Path) -> bool {
    symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket())
}

impl Drop for Socket {
    fn drop(&mut self) {
        // One that is gone already is as good, and a folder that is not empty belongs to a manager too.
        let _ = remove_file(&self.path);
        let _ = self.folder.as_ref().map(remove_dir);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;

    use super::*;

    #[test]
    fn a_socket_that_was_left_is_replaced_and_one_in_use_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("new/edge+http.sock");
        let (socket, listener) = Socket::listen(&path).unwrap();
        let modes = [&path, path.parent().unwrap()].map(|path| path.metadata().unwrap().mode() & 0o777);
        assert_eq!(modes, [0o600, 0o700]);
        let error = Socket::listen(&path).unwrap_err();
        assert!(error.to_string().contains("another server"), "{error}");
        drop(listener);
        let (later, _listener) = Socket::listen(&path).unwrap();
        drop(later);
        assert!(!path.exists() && path.parent().unwrap().exists(), "a folder that was there stays");
        drop(socket);
        assert!(!path.parent().unwrap().exists());
    }

    #[test]
    fn what_is_no_socket_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("edge+http.sock");
        std::fs::write(&path, "mine").unwrap();
        assert!(Socket::listen(&path).is_err());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "mine");
    }
}
