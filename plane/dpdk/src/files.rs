//! The file descriptors that DPDK and its drivers open in this process.
//!
//! They open most of them without close-on-exec; a launched NF would inherit a socket that sees all
//! traffic. So every step that opens some is followed by marking those. What their own threads open
//! later is not marked (EAL's epoll file, a memif peer's connection): whoever launches a process still
//! has to close what it does not mean to hand on.

use std::fs::DirEntry;
use std::os::fd::RawFd;
use std::path::PathBuf;

/// The descriptors open now and what each names, in rising order. A number alone would not tell a file
/// from the one that had the number before.
fn open_now() -> Vec<(RawFd, PathBuf)> {
    let Ok(entries) = std::fs::read_dir("/proc/self/fd") else { return Vec::new() };
    let number = |entry: &DirEntry| entry.file_name().to_str()?.parse().ok();
    let mut open: Vec<(RawFd, PathBuf)> = entries
        .filter_map(Result::ok)
        .filter_map(|entry| Some((number(&entry)?, std::fs::read_link(entry.path()).ok()?)))
        .collect();
    open.sort_unstable();
    open
}

/// Runs `step`, marks what it opened close-on-exec and returns that, in rising order.
///
/// A descriptor another thread opened meanwhile is marked too, which harms nothing: this process
/// hands descriptors on explicitly.
pub(crate) fn opened_during<T>(step: impl FnOnce() -> T) -> (T, Vec<RawFd>) {
    let before = open_now();
    let result = step();
    let mut fresh = open_now();
    fresh.retain(|file| before.binary_search(file).is_err());
    (result, fresh.into_iter().map(|(file, _)| file).filter(|&file| close_on_exec(file)).collect())
}

/// False when the descriptor is not open any more, as the directory handle of [`open_now`] is not.
fn close_on_exec(file: RawFd) -> bool {
    // SAFETY: both calls take any number; on one that is not open they fail and change nothing.
    unsafe {
        let flags = libc::fcntl(file, libc::F_GETFD);
        flags >= 0 && libc::fcntl(file, libc::F_SETFD, flags | libc::FD_CLOEXEC) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::io::FdFlags;
    use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

    #[test]
    fn what_a_step_opens_is_found_and_marked() {
        let (file, fresh) = opened_during(|| {
            // SAFETY: a plain call; the descriptor is owned just below.
            let file = unsafe { libc::eventfd(0, 0) };
            assert!(file >= 0);
            // SAFETY: just opened and owned by nobody else.
            unsafe { OwnedFd::from_raw_fd(file) }
        });
        assert!(fresh.contains(&file.as_raw_fd()));
        assert!(rustix::io::fcntl_getfd(&file).unwrap().contains(FdFlags::CLOEXEC));
    }
}
