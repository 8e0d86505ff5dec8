//! Pages of 2 MiB: their number, reserving more, giving them back.

use std::fs;
use std::io;

use crate::files::{self, FileError};

/// Size of the pages this module handles.
pub const PAGE_BYTES: u64 = 2 << 20;

const POOL: &str = "/sys/kernel/mm/hugepages/hugepages-2048kB";
const SHMEM_STATE: &str = "/sys/kernel/mm/transparent_hugepage/shmem_enabled";

/// The machine's pool of 2 MiB pages at one moment, in pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pool {
    /// Pages in the pool (`nr_hugepages`).
    pub total: u64,
    /// Pages nobody has touched yet (`free_hugepages`).
    pub free: u64,
    /// Number of the free pages that are promised to a mapping (`resv_hugepages`).
    pub reserved: u64,
}

impl Pool {
    /// Pages that a new mapping can get.
    pub fn available(&self) -> u64 {
        self.free.saturating_sub(self.reserved)
    }
}

/// Error of reading or reserving hugepages.
#[derive(Debug, thiserror::Error)]
pub enum HugepagesError {
    /// The kernel or the processor has none.
    #[error("this kernel offers no 2 MiB pages ({POOL} is not there): use ordinary pages")]
    NotOffered,
    /// Memory is too scarce or too fragmented.
    #[error(
        "asked the kernel for {wanted} pages of 2 MiB and got {got}: its free memory is too \
         scarce or too scattered; free some, reboot, or reserve at boot with hugepages={wanted}"
    )]
    NotEnough {
        /// Pages asked for.
        wanted: u64,
        /// Pages it could make; they were given back.
        got: u64,
    },
    /// The kernel's files could not be used.
    #[error(transparent)]
    File(#[from] FileError),
}

/// Reads the pool.
pub fn pool() -> Result<Pool, HugepagesError> {
    if let Err(error) = fs::metadata(POOL)
        && error.kind() == io::ErrorKind::NotFound
    {
        return Err(HugepagesError::NotOffered);
    }
    let number = |name: &str| files::read_number(format!("{POOL}/{name}"));
    Ok(Pool {
        total: number("nr_hugepages")?,
        free: number("free_hugepages")?,
        reserved: number("resv_hugepages")?,
    })
}

/// Adds `pages` to the pool, all or none. [`give_back`] is the way back.
///
/// The kernel takes a total and not a difference, so two programs that do this at the same instant
/// can undo one another; the pages really got are counted to notice.
pub fn reserve(pages: u64) -> Result<(), HugepagesError> {
    let before = pool()?.total;
    write_total(before + pages)?;
    let got = pool()?.total.saturating_sub(before);
    if got < pages {
        give_back(got)?;
        return Err(HugepagesError::NotEnough { wanted: pages, got });
    }
    Ok(())
}

/// Takes `pages` from the pool. Pages in use leave it when their last user ends.
pub fn give_back(pages: u64) -> Result<(), HugepagesError> {
    let total = pool()?.total;
    write_total(total.saturating_sub(pages))
}

fn write_total(pages: u64) -> Result<(), HugepagesError> {
    let path = format!("{POOL}/nr_hugepages");
    Ok(files::write(path, &pages.to_string())?)
}

/// The word in force in `/sys/kernel/mm/transparent_hugepage/shmem_enabled` (`always`, `advise`,
/// `never`, …): whether ordinary shared memory may come in 2 MiB pages. `None` where the kernel
/// has no such thing.
pub fn transparent_for_shared_memory() -> Option<String> {
    chosen(&fs::read_to_string(SHMEM_STATE).ok()?)
}

/// The word in brackets, as in `always [never] force`.
fn chosen(text: &str) -> Option<String> {
    let (_, rest) = text.split_once('[')?;
    let (word, _) = rest.split_once(']')?;
    Some(word.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::skip;

    #[test]
    fn the_word_in_brackets_is_in_force() {
        let text = "always within_size advise [never] deny force\n";
        assert_eq!(chosen(text).as_deref(), Some("never"));
        assert_eq!(chosen("nothing chosen"), None);
    }

    #[test]
    fn pages_come_and_go_back() {
        let before = match pool() {
            Ok(pool) => pool,
            Err(error) => return skip(&error.to_string()),
        };
        match reserve(2) {
            Ok(()) => {}
            Err(error @ (HugepagesError::File(_) | HugepagesError::NotEnough { .. })) => {
                return skip(&error.to_string());
            }
            Err(error) => panic!("{error}"),
        }
        let during = pool().unwrap();
        give_back(2).unwrap();
        assert!(during.total >= 2, "{before:?} {during:?}");
        assert!(during.available() <= during.free);
    }
}
