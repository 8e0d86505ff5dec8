//! Paths of a manager's sockets and lock.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

/// End of the name of a manager's lock, behind the manager's own name.
pub const LOCK_ENDING: &str = ".lock";

/// The folder: `/run/headgate` for root, the user's runtime folder or one in `/tmp` for others.
#[must_use]
pub fn folder() -> PathBuf {
    let uid = rustix::process::geteuid().as_raw();
    if uid == 0 {
        return PathBuf::from("/run/headgate");
    }
    match std::env::var_os("XDG_RUNTIME_DIR") {
        // An empty one counts as none (XDG Base Directory Specification).
        Some(runtime) if !runtime.is_empty() => PathBuf::from(runtime).join("headgate"),
        _ => PathBuf::from(format!("/tmp/headgate-{uid}")),
    }
}

/// The API socket of the manager of this name.
#[must_use]
pub fn api_socket(name: &str) -> PathBuf {
    folder().join(format!("{name}.sock"))
}

/// The socket of the manager of this name at which NFs attach that it does not start. `+` is in no name,
/// so it is no other manager's API socket.
#[must_use]
pub fn nf_socket(name: &str) -> PathBuf {
    folder().join(format!("{name}+nf.sock"))
}

/// The socket of the server that serves the API of the manager of this name over HTTP.
#[must_use]
pub fn http_socket(name: &str) -> PathBuf {
    folder().join(format!("{name}+http.sock"))
}

/// Makes a folder unless it is there, and refuses one that another user made: in `/tmp` anybody can, and
/// could then put a socket of their own in place of ours.
///
/// # Errors
/// The kernel's, or that it belongs to another user.
pub fn make_own(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let found = std::fs::symlink_metadata(folder)?;
    let owner = found.uid();
    if !found.is_dir() || owner != rustix::process::geteuid().as_raw() {
        let why = format!("it is not a folder of this user but belongs to user {owner}; remove it");
        return Err(io::Error::other(why));
    }
    Ok(())
}

/// The file that the manager of this name holds a lock on.
#[must_use]
pub fn lock_file(name: &str) -> PathBuf {
    folder().join(format!("{name}{LOCK_ENDING}"))
}

/// Returns the name of the manager of this user that is this process; `None` when there is none.
#[must_use]
pub fn manager_of(pid: u32) -> Option<String> {
    manager_in(&folder(), pid)
}

fn manager_in(folder: &Path, pid: u32) -> Option<String> {
    let name = |entry: std::fs::DirEntry| {
        let name = entry.file_name().to_str()?.strip_suffix(LOCK_ENDING)?.to_owned();
        // Its lock has its number.
        let written = std::fs::read_to_string(entry.path()).ok()?;
        (written.trim().parse() == Ok(pid)).then_some(name)
    };
    std::fs::read_dir(folder).ok()?.filter_map(Result::ok).find_map(name)
}

/// Every file of the manager of this name, its lock last.
#[must_use]
pub fn files(name: &str) -> Vec<PathBuf> {
    vec![api_socket(name), nf_socket(name), lock_file(name)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manager_is_found_by_its_process() {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in
            [("edge.lock", "17\n"), ("core.lock", "18"), ("edge.sock", "17"), ("odd.lock", "")]
        {
            std::fs::write(folder.path().join(name), text).unwrap();
        }
        assert_eq!(manager_in(folder.path(), 18).as_deref(), Some("core"));
        assert_eq!(manager_in(folder.path(), 17).as_deref(), Some("edge"));
        assert_eq!(manager_in(folder.path(), 19), None);
        assert_eq!(manager_in(&folder.path().join("none"), 17), None);
    }
}
