//! What the daemon tells on standard error, a line each.

use std::fmt::Display;
use std::io::Write as _;

use headgate_api::progress::{self, Events};
use headgate_api::status::Snapshot;
use headgate_config::Diagnostics;

/// Tells something. What nobody can read is no reason to stop.
pub fn tell(message: impl Display) {
    let _ = writeln!(std::io::stderr(), "headgate: {message}");
}

/// Prints a text that has its own lines.
pub fn print(text: impl Display) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// What happens, told once; nothing of it where quiet was asked for.
#[derive(Debug)]
pub struct Messages {
    quiet: bool,
    events: Events,
}

impl Messages {
    /// Nothing was told yet.
    pub fn new(quiet: bool) -> Self {
        Self { quiet, events: Events::default() }
    }

    /// Returns whether anything is told.
    pub const fn are_told(&self) -> bool {
        !self.quiet
    }

    /// Tells one thing.
    pub fn tell(&self, message: impl Display) {
        if !self.quiet {
            tell(message);
        }
    }

    /// Tells what the writer of the configuration should look at again.
    pub fn warn(&self, warnings: &Diagnostics) {
        if !self.quiet && !warnings.0.is_empty() {
            print(warnings.to_string().trim_end());
        }
    }

    /// Tells what was started. Events until then are part of that.
    pub fn started(&mut self, now: &Snapshot) {
        for line in progress::started(now) {
            self.tell(line);
        }
        self.events.seen(now);
    }

    /// Tells events that are new. Returns whether there were any.
    pub fn events(&mut self, now: &Snapshot) -> bool {
        let lines = self.events.unseen(now);
        for line in &lines {
            self.tell(line);
        }
        !lines.is_empty()
    }
}
