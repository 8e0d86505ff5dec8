//! Messages of the daemon on standard error, one line each. All but the last word of one that fails go by the
//! log, which nobody waits for.

use std::fmt::Display;
use std::io::Write as _;
use std::time::Duration;

use headgate_api::progress::{self, Events};
use headgate_api::status::Snapshot;
use headgate_config::Diagnostics;
use headgate_manager::log::Log;

/// Longest wait for a log at the end. Our choice: a reader that is there takes all of it at once.
const LAST_WORDS_PATIENCE: Duration = Duration::from_secs(1);

/// Prints a message. A failed write is no reason to stop.
pub fn tell(message: impl Display) {
    let _ = writeln!(std::io::stderr(), "headgate: {message}");
}

/// Prints a text that has its own lines.
pub fn print(text: impl Display) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// Reporter of events, each once; silent in quiet mode.
#[derive(Debug)]
pub struct Messages {
    log: Option<Log>,
    events: Events,
}

impl Messages {
    /// Returns a reporter that has reported nothing yet.
    pub fn new(log: Option<Log>) -> Self {
        Self { log, events: Events::default() }
    }

    /// Returns whether messages are printed.
    pub const fn are_told(&self) -> bool {
        self.log.is_some()
    }

    /// Says one message.
    pub fn tell(&self, message: impl Display) {
        if let Some(log) = &self.log {
            log.line(format!("headgate: {message}"));
        }
    }

    /// Waits until what was said is written, as far as somebody takes it.
    pub fn flush(&self) {
        if let Some(log) = &self.log {
            log.flush(LAST_WORDS_PATIENCE);
        }
    }

    /// Prints warnings about the configuration.
    pub fn warn(&self, warnings: &Diagnostics) {
        if let Some(log) = self.log.as_ref().filter(|_| !warnings.0.is_empty()) {
            log.line(warnings.to_string().trim_end().to_owned());
        }
    }

    /// Reports what was started. Events until then are part of that.
    pub fn started(&mut self, now: &Snapshot) {
        for line in progress::started(now) {
            self.tell(line);
        }
        self.events.seen(now);
    }

    /// Reports new events. Returns whether there were any.
    pub fn events(&mut self, now: &Snapshot) -> bool {
        let new = self.events.new_in(now);
        for event in &new {
            if let Some(log) = &self.log {
                log.event(event, format!("headgate: {}", progress::line(event)));
            }
        }
        !new.is_empty()
    }
}
