//! Log of DPDK and its drivers, kept instead of printed.
//!
//! The last lines are kept, so that an error can be told with the driver's own words and the manager
//! can hand the rest on as events.

use std::collections::VecDeque;
use std::ffi::c_char;
use std::sync::{Mutex, Once, PoisonError};

use crate::ffi;

/// Number of lines that are kept (our choice: what fits a screen and no flood fills memory).
const LINES_MAX: usize = 64;
/// Length at which a line is cut, in bytes (our choice, against a driver that never ends its line).
const LINE_BYTES_MAX: usize = 512;

struct Log {
    lines: VecDeque<String>,
    /// Lines ever begun; the last kept line is number `total - 1`.
    total: u64,
    partial: String,
}

static LOG: Mutex<Log> = Mutex::new(Log { lines: VecDeque::new(), total: 0, partial: String::new() });

impl Log {
    fn take(&mut self, text: &str) {
        for part in text.split_inclusive('\n') {
            self.partial.push_str(part);
            if self.partial.ends_with('\n') || self.partial.len() >= LINE_BYTES_MAX {
                let line = std::mem::take(&mut self.partial);
                if self.lines.len() == LINES_MAX {
                    self.lines.pop_front();
                }
                self.lines.push_back(line.trim().to_owned());
                self.total += 1;
            }
        }
    }

    fn since(&self, mark: u64) -> impl Iterator<Item = &str> {
        let fresh = self.total.saturating_sub(mark) as usize;
        self.lines.iter().skip(self.lines.len().saturating_sub(fresh)).map(String::as_str)
    }
}

fn log() -> std::sync::MutexGuard<'static, Log> {
    LOG.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Called by C's stream with each message.
extern "C" fn take(text: *const c_char, length: usize) {
    // SAFETY: the stream hands over `length` bytes it just formatted.
    let bytes = unsafe { std::slice::from_raw_parts(text.cast::<u8>(), length) };
    log().take(&String::from_utf8_lossy(bytes));
}

/// Makes DPDK write here. Before the environment layer starts, so that its own words are caught too.
pub(crate) fn catch() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: `take` lives as long as the process; a null stream means "as before", to stderr.
        let refused = unsafe { ffi::rte_openlog_stream(ffi::hg_log_stream(Some(take))) };
        debug_assert_eq!(refused, 0);
    });
}

/// Runs `step` and returns what was said meanwhile, joined to one line.
pub(crate) fn during<T>(step: impl FnOnce() -> T) -> (T, Said) {
    let mark = log().total;
    let result = step();
    let said: Vec<String> =
        log().since(mark).filter(|line| !tells_nothing(line)).map(str::to_owned).collect();
    (result, Said(said.join("; ")))
}

/// Returns whether a line is one that EAL adds to every message of a driver.
fn tells_nothing(line: &str) -> bool {
    ["EAL: Driver cannot attach", "EAL: Failed to attach"].iter().any(|start| line.starts_with(start))
}

/// DPDK's messages while it refused something; shown in parentheses, or not at all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Said(pub String);

impl std::fmt::Display for Said {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.0.is_empty() { Ok(()) } else { write!(f, " (DPDK says: {})", self.0) }
    }
}

/// Returns the lines since number `mark` (0 at first), and the mark for the next call.
#[must_use]
pub fn since(mark: u64) -> (Vec<String>, u64) {
    let log = log();
    (log.since(mark).map(str::to_owned).collect(), log.total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_are_kept_and_partial_ones_joined() {
        let mut log = Log { lines: VecDeque::new(), total: 0, partial: String::new() };
        log.take("EAL: a ");
        log.take("b\nEAL: c\nEAL: ");
        assert_eq!(log.since(0).collect::<Vec<_>>(), ["EAL: a b", "EAL: c"]);
        for _ in 0..100 {
            log.take("more\n");
        }
        assert_eq!(log.since(0).count(), LINES_MAX);
        assert_eq!(log.since(log.total - 2).count(), 2);
        assert_eq!(log.since(log.total).count(), 0);
    }
}
