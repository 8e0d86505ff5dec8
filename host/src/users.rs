//! User ids of our own: one for each trust domain of each manager of this machine.
//!
//! They need no entry in `/etc/passwd`; they lie where neither people nor systemd's dynamic users
//! (61184-65519) nor containers' subordinate users usually are. A domain gets the same number again whenever
//! it can, because files that its NFs wrote belong to it: the first choice follows from the names of manager
//! and domain. Two first choices may be the same, and two managers must never share a user, so a number is
//! held by a lock; where it is taken, the next one is tried.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use crate::lock::Lock;
use crate::undo::Action;

/// The first number: "hg" in ASCII, shifted up.
const FIRST: u32 = 0x6867_0000;
/// Number of user ids. Our choice: with ten domains, two first choices are the same once in 1,500 machines.
const COUNT: u32 = 1 << 16;
/// Numbers tried. Our choice: more than domains of a machine.
const TRIES: u32 = 1024;

/// Reason why no user id could be had.
#[derive(Debug, thiserror::Error)]
pub enum UserError {
    /// The folder cannot be used.
    #[error("cannot hold a user number in {}: {source}", folder.display())]
    Folder {
        /// The folder.
        folder: PathBuf,
        /// Cause.
        source: io::Error,
    },
    /// All ids that were tried are taken.
    #[error(
        "no user number is left for trust domain {domain:?}: {TRIES} locks in {} are held by managers of this machine; \
         stop some, or name a user in the [[nf]] (`user = …`)", folder.display()
    )]
    NoneLeft {
        /// The domain.
        domain: String,
        /// The folder.
        folder: PathBuf,
    },
}

/// A user number that no other manager of this machine has, until it is dropped.
#[derive(Debug)]
pub struct UserNumber {
    number: u32,
    _lock: Lock,
}

impl UserNumber {
    /// Takes a number for a trust domain. `folder` has the locks of all managers of this machine
    /// (`/run/headgate/users`); one process asks once for each of its domains.
    ///
    /// # Errors
    /// [`UserError`].
    pub fn take(
        folder: &Path,
        manager: &str,
        domain: &str,
        undo: &mut dyn FnMut(Action),
    ) -> Result<Self, UserError> {
        let failed = |source| UserError::Folder { folder: folder.to_owned(), source };
        // The last one who leaves removes it.
        undo(Action::RemoveDirectory { path: folder.to_owned() });
        make_own(folder).map_err(failed)?;
        let first = first_choice(manager, domain);
        for step in 0..TRIES {
            let number = FIRST + (first + step) % COUNT;
            let path = folder.join(number.to_string());
            let lock = match Lock::take(&path, undo) {
                // That one just left.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    make_own(folder).and_then(|()| Lock::take(&path, undo))
                }
                taken => taken,
            };
            let lock = lock.map_err(failed)?;
            if let Some(lock) = lock {
                return Ok(Self { number, _lock: lock });
            }
        }
        Err(UserError::NoneLeft { domain: domain.to_owned(), folder: folder.to_owned() })
    }

    /// Returns the number: of the user, and of its only group.
    pub fn number(&self) -> u32 {
        self.number
    }
}

/// FNV-1a over both names, folded to the range. The names cannot run into each other: neither has a zero
/// byte.
fn first_choice(manager: &str, domain: &str) -> u32 {
    let bytes = manager.bytes().chain([0]).chain(domain.bytes());
    let hash = bytes.fold(0x811c_9dc5u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    (hash >> 16 ^ hash) % COUNT
}

/// Makes the folder unless it is there, and refuses one that another user made, who could hold every lock.
fn make_own(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let found = fs::symlink_metadata(folder)?;
    match found.is_dir() && found.uid() == rustix::process::geteuid().as_raw() {
        true => Ok(()),
        false => Err(io::Error::other(format!("it belongs to user {}; remove it", found.uid()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(folder: &Path, manager: &str, domain: &str) -> UserNumber {
        UserNumber::take(folder, manager, domain, &mut |_| {}).unwrap()
    }

    #[test]
    fn a_domain_gets_its_number_again_and_nobody_else_has_it_meanwhile() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("users");
        let first = take(&folder, "edge", "default");
        let other = take(&folder, "edge", "default");
        assert_eq!(other.number(), FIRST + (first.number() - FIRST + 1) % COUNT, "the next one");
        let number = first.number();
        drop(first);
        assert_eq!(take(&folder, "edge", "default").number(), number);
        drop(other);
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
    }

    #[test]
    fn the_folder_goes_with_the_last_number() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("users");
        let mut undone = Vec::new();
        let number = UserNumber::take(&folder, "edge", "default", &mut |action| undone.push(action)).unwrap();
        let other = take(&folder, "other", "default");
        drop(number);
        undone.iter().rev().for_each(|action| action.perform().unwrap());
        assert!(folder.exists(), "another manager has a number");
        drop(other);
        undone.iter().rev().for_each(|action| action.perform().unwrap());
        assert!(!folder.exists());
    }

    #[test]
    fn names_choose_numbers_of_the_range() {
        let mut seen = std::collections::HashSet::new();
        for manager in ["a", "b", "headgate", "edge-1"] {
            for domain in ["default", "inner", "outer", "a", "b"] {
                let choice = first_choice(manager, domain);
                assert!(choice < COUNT);
                seen.insert(choice);
            }
        }
        assert_eq!(seen.len(), 20, "these names happen to have one each");
        assert_ne!(first_choice("ab", "c"), first_choice("a", "bc"));
    }

    #[test]
    fn what_a_killed_manager_left_is_taken_over() {
        let folder = tempfile::tempdir().unwrap();
        let number = take(folder.path(), "edge", "inner").number();
        let left = folder.path().join(number.to_string());
        fs::write(&left, crate::testing::pid_of_nobody().as_raw_pid().to_string()).unwrap();
        assert_eq!(take(folder.path(), "edge", "inner").number(), number);
    }

    #[test]
    fn a_folder_of_somebody_else_is_refused() {
        if !crate::credentials::is_root() {
            return crate::testing::skip("giving a folder away takes root");
        }
        let folder = tempfile::tempdir().unwrap();
        std::os::unix::fs::chown(folder.path(), Some(65534), None).unwrap();
        let error = UserNumber::take(folder.path(), "edge", "inner", &mut |_| {}).unwrap_err();
        assert!(error.to_string().contains("belongs to user 65534"), "{error}");
    }
}
