//! Folders for programs that the manager runs, removed with all their contents however we end.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use headgate_host::undo::{Action, Janitor, Ticket};

/// Folder of our own. Dropping it removes it with all that is in it; the janitor does so if we are killed.
pub struct Scratch {
    path: PathBuf,
    janitor: Option<(Arc<Janitor>, Ticket)>,
}

impl Scratch {
    /// Makes an empty one, readable by its owner alone.
    ///
    /// # Errors
    /// A sentence.
    pub fn make(janitor: Option<&Arc<Janitor>>) -> Result<Self, String> {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let home = headgate_api::place::folder();
        crate::place::make_own(&home).map_err(|error| error.to_string())?;
        // Short: a socket in it has 107 bytes for its path (unix(7)).
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let path = home.join(format!("{}-{number}", std::process::id()));
        let remove = Action::RemoveTree { path: path.clone() };
        // A folder left by an earlier process with our number, and no janitor to remove it.
        remove.perform().map_err(|error| error.to_string())?;
        // Without a janitor a crash leaves a folder behind, which the next process with our number removes.
        let ticket = janitor.and_then(|janitor| Some((janitor.clone(), janitor.register(remove).ok()?)));
        let made = crate::place::make_own(&path).map_err(|error| error.to_string());
        let scratch = Self { path, janitor: ticket };
        made.map(|()| scratch)
    }

    /// Returns its path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let removed = Action::RemoveTree { path: self.path.clone() }.perform();
        if removed.is_ok()
            && let Some((janitor, ticket)) = &self.janitor
        {
            // A janitor that has ended has nothing left to do.
            let _ = janitor.withdraw(*ticket);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_are_two_and_each_goes_with_what_is_in_it() {
        let (first, second) = (Scratch::make(None).unwrap(), Scratch::make(None).unwrap());
        let (one, other) = (first.path().to_owned(), second.path().to_owned());
        assert_ne!(one, other);
        std::fs::write(one.join("file"), "").unwrap();
        drop(first);
        assert!(!one.exists() && other.is_dir());
        drop(second);
        assert!(!other.exists());
    }
}
