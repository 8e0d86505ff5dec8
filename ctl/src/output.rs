//! Output of the command: data to standard output, messages to standard error, colour only to people.

use std::fmt;
use std::io::{self, IsTerminal, Write};

use serde::Serialize;

/// Style of a word, where a terminal can show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ink {
    /// A heading.
    Bold,
    /// Beside the point.
    Dim,
    /// Good.
    Green,
    /// Worth attention.
    Yellow,
    /// Bad.
    Red,
}

impl Ink {
    /// ECMA-48, 8.3.117 (SGR).
    const fn code(self) -> &'static str {
        match self {
            Self::Bold => "1",
            Self::Dim => "2",
            Self::Green => "32",
            Self::Yellow => "33",
            Self::Red => "31",
        }
    }
}

/// Colours, or none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Paint {
    on: bool,
}

impl Paint {
    /// Makes the paint of a stream: on for a terminal, unless `NO_COLOR` (no-color.org) is set or the
    /// terminal is dumb.
    fn of(stream: &impl IsTerminal) -> Self {
        let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        Self { on: stream.is_terminal() && !is_set("NO_COLOR") && !dumb }
    }

    /// Returns whether a terminal shows it.
    pub const fn is_on(self) -> bool {
        self.on
    }

    /// The text in this ink.
    pub fn ink(self, ink: Ink, text: &str) -> String {
        match self.on {
            true => format!("\x1b[{}m{text}\x1b[0m", ink.code()),
            false => text.to_owned(),
        }
    }
}

/// The two streams of a command.
#[derive(Clone, Copy, Debug)]
pub struct Output {
    /// Whether standard output gets one JSON document and nothing else.
    pub json: bool,
    /// Colours of standard output.
    pub data_paint: Paint,
    /// Colours of standard error.
    pub note_paint: Paint,
}

impl Output {
    /// Makes the output of this process.
    pub fn of_process(json: bool) -> Self {
        Self { json, data_paint: Paint::of(&io::stdout()), note_paint: Paint::of(&io::stderr()) }
    }

    /// Text for people. In `--json` it is not for them, and is left out.
    pub fn text(&self, text: impl fmt::Display) -> io::Result<()> {
        if self.json {
            return Ok(());
        }
        let mut stdout = io::stdout().lock();
        write!(stdout, "{text}")?;
        stdout.flush()
    }

    /// The one JSON document. Without `--json` it is left out.
    pub fn document(&self, value: &impl Serialize) -> io::Result<()> {
        if !self.json {
            return Ok(());
        }
        let mut stdout = io::stdout().lock();
        serde_json::to_writer_pretty(&mut stdout, value)?;
        writeln!(stdout)?;
        stdout.flush()
    }

    /// Prints a message for people. One that cannot be written is no reason to stop.
    pub fn note(&self, message: impl fmt::Display) {
        let _ = writeln!(io::stderr(), "headgate: {message}");
    }

    /// Words on standard error, as they are.
    pub fn narrate(&self, text: impl fmt::Display) {
        let _ = write!(io::stderr(), "{text}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ink_is_seen_only_where_it_is_on() {
        assert_eq!(Paint { on: true }.ink(Ink::Red, "fail"), "\x1b[31mfail\x1b[0m");
        assert_eq!(Paint { on: false }.ink(Ink::Red, "fail"), "fail");
    }
}
