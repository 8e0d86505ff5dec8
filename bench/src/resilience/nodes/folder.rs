//! Folder of what nodes keep on disk, which goes with this process, also when it is asked to end.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, Once, PoisonError};
use std::thread;

use anyhow::Context as _;
use headgate_api::exit::Exit;
use headgate_host::signals::{self, Wish};

/// Folders that are there now.
static THERE: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// A folder.
pub(super) struct Folder(tempfile::TempDir);

impl Folder {
    /// Makes one among temporary files.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn new() -> anyhow::Result<Self> {
        watch()?;
        let folder = tempfile::Builder::new().prefix("headgate-bench-").tempdir();
        let folder = folder.context("no folder for what nodes keep")?;
        there().push(folder.path().to_owned());
        Ok(Self(folder))
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        there().retain(|path| path != self.0.path());
    }
}

fn there() -> std::sync::MutexGuard<'static, Vec<PathBuf>> {
    THERE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Ends this process in its way once it is asked to end. Managers end in order by themselves then.
fn watch() -> anyhow::Result<()> {
    static WATCHED: Once = Once::new();
    let wish = signals::catch()?;
    let mut started = Ok(());
    WATCHED.call_once(|| {
        let thread = thread::Builder::new().name("bench-stop".to_owned());
        started = thread.spawn(move || end_when_asked(wish)).map(drop);
    });
    Ok(started?)
}

fn end_when_asked(wish: &Wish) {
    while wish.wait(0, None) == 0 {}
    for folder in &*there() {
        // What cannot be removed is among temporary files.
        let _ = fs::remove_dir_all(folder);
    }
    signals::exit_at_once(Exit::Failed as i32);
}
