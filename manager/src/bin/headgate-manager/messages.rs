//! Messages of the daemon on standard error, one line each.

use std::fmt::Display;
use std::io::Write as _;

use headgate_api::progress::{self, Events};
use headgate_api::status::Snapshot;
use headgate_config::Diagnostics;

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
    quiet: bool,
    events: Events,
}

impl Messages {
    /// Returns a reporter that has reported nothing yet.
    pub fn new(quiet: bool) -> Self {
        Self { quiet, events: Events::default() }
    }

    /// Returns whether messages are printed.
    pub const fn are_told(&self) -> bool {
        !self.quiet
    }

    /// Prints one message.
    pub fn tell(&self, message: impl Display) {
        if !self.quiet {
            tell(message);
        }
    }

    /// Prints warnings about the configuration.
    pub fn warn(&self, warnings: &Diagnostics) {
        if !self.quiet && !warnings.0.is_empty() {
            print(warnings.to_string().trim_end());
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
        let lines = self.events.unseen(now);
        for line in &lines {
            self.tell(line);
        }
        !lines.is_empty()
    }
}
