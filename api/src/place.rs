//! Paths of a manager's sockets and lock.

use std::path::PathBuf;

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

/// The file that the manager of this name holds a lock on.
#[must_use]
pub fn lock_file(name: &str) -> PathBuf {
    folder().join(format!("{name}.lock"))
}

/// Every file of the manager of this name, its lock last.
#[must_use]
pub fn files(name: &str) -> Vec<PathBuf> {
    vec![api_socket(name), nf_socket(name), lock_file(name)]
}
