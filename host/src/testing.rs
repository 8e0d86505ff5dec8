//! Helpers for several tests of this room.

use std::io::{self, Write};
use std::process::Command;

use rustix::process::Pid;
use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities};

/// Says why a test proves nothing here, past the test runner, which swallows what a passing test
/// prints.
pub(crate) fn skip(reason: &str) {
    writeln!(io::stderr(), "skipped: {reason}").unwrap();
}

/// A pid that was a process's a moment ago.
pub(crate) fn pid_of_nobody() -> Pid {
    let mut child = Command::new("/bin/true").spawn().unwrap();
    child.wait().unwrap();
    Pid::from_raw(child.id() as i32).unwrap()
}

/// Makes the calling thread as powerless as an ordinary user's, files apart.
pub(crate) fn drop_capabilities() {
    let none = CapabilitySet::empty();
    let sets = CapabilitySets { effective: none, permitted: none, inheritable: none };
    set_capabilities(None, sets).unwrap();
}
