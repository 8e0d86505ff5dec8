//! Output of the command: data to standard output, messages to standard error, colour only to people.

use std::fmt;
use std::io::{self, BufWriter, IsTerminal, StdoutLock, Write};
use std::os::fd::AsFd;

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

/// How a stream is written: its colours and its width.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Paint {
    on: bool,
    /// Whether lines can be drawn anew in their place.
    in_place: bool,
    /// Columns of a line; `None` where nothing breaks lines, as in a pipe.
    columns: Option<usize>,
}

impl Paint {
    /// Makes the paint of a stream. Colours are on for a terminal, unless `NO_COLOR` (no-color.org) is set or
    /// the terminal is dumb. The width is that of `COLUMNS`, else the terminal's.
    fn of(stream: &(impl IsTerminal + AsFd)) -> Self {
        let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        let asked = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
        let size = || rustix::termios::tcgetwinsize(stream).ok().map(|size| usize::from(size.ws_col));
        let in_place = stream.is_terminal() && !dumb;
        let columns = asked.or_else(size).filter(|columns| *columns > 0);
        Self { on: in_place && !is_set("NO_COLOR"), in_place, columns }
    }

    /// Returns whether lines can be drawn anew in their place, as on a terminal.
    pub const fn is_in_place(self) -> bool {
        self.in_place
    }

    /// Returns whether words may be in colour.
    pub const fn has_ink(self) -> bool {
        self.on
    }

    /// Columns of a line; `None` where nothing breaks lines.
    pub const fn columns(self) -> Option<usize> {
        self.columns
    }

    /// The same without colours.
    #[must_use]
    pub const fn without_ink(self) -> Self {
        Self { on: false, ..self }
    }

    /// The same, with this width where there is none.
    #[must_use]
    pub const fn or_columns(self, columns: usize) -> Self {
        match self.columns {
            Some(_) => self,
            None => Self { columns: Some(columns), ..self },
        }
    }

    /// The text in this ink.
    pub fn ink(self, ink: Ink, text: &str) -> String {
        match self.on {
            true => format!("\x1b[{}m{text}\x1b[0m", ink.code()),
            false => text.to_owned(),
        }
    }

    /// Findings about a configuration, their severity inked and their sentences in lines that fit. Lines of
    /// the file stay as they are, and so do the marks below them.
    pub fn report(self, findings: &str) -> String {
        let mut text = String::new();
        for line in findings.lines() {
            let inks = [("error[", Ink::Red), ("warning[", Ink::Yellow)];
            if let Some((_, ink)) = inks.into_iter().find(|(start, _)| line.starts_with(start)) {
                let line = self.wrap(line, NOTE_INDENT);
                let (severity, rest) = line.split_once(':').unwrap_or((&line, ""));
                text += &format!("{}:{rest}", self.ink(ink, severity));
            } else if let Some((before, _)) =
                line.split_once(HELP).filter(|(before, _)| before.trim().is_empty())
            {
                text += &self.wrap(line, before.len() + HELP.len());
            } else {
                text += line;
            }
            text.push('\n');
        }
        text
    }

    /// The text in lines that fit, those after the first indented so far. Words longer than a line stay
    /// whole: they are paths and commands, to be copied.
    pub fn wrap(self, text: &str, indent: usize) -> String {
        let Some(columns) = self.columns else { return text.to_owned() };
        let indent = " ".repeat(indent.min(columns / 2));
        let options = textwrap::Options::new(columns)
            .break_words(false)
            .word_splitter(textwrap::WordSplitter::NoHyphenation)
            .subsequent_indent(&indent);
        textwrap::fill(text, options)
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

/// Standard output, written in large pieces: by itself it would write each line of a document of ten
/// thousand chains alone.
fn data() -> BufWriter<StdoutLock<'static>> {
    BufWriter::new(io::stdout().lock())
}

/// Start of a cure in a finding.
const HELP: &str = " = help: ";
/// Columns by which the further lines of a message are indented. Our choice: enough to be seen.
const NOTE_INDENT: usize = 2;

impl Output {
    /// Returns the same for text that is made for a width: where there is none, it is this one.
    #[must_use]
    pub const fn or_columns(self, columns: usize) -> Self {
        let (data_paint, note_paint) =
            (self.data_paint.or_columns(columns), self.note_paint.or_columns(columns));
        Self { data_paint, note_paint, ..self }
    }

    /// Makes the output of this process.
    pub fn of_process(json: bool) -> Self {
        Self { json, data_paint: Paint::of(&io::stdout()), note_paint: Paint::of(&io::stderr()) }
    }

    /// Text for people. In `--json` it is not for them, and is left out.
    pub fn text(&self, text: impl fmt::Display) -> io::Result<()> {
        if self.json {
            return Ok(());
        }
        let mut data = data();
        write!(data, "{text}")?;
        data.flush()
    }

    /// The one JSON document. Without `--json` it is left out.
    pub fn document(&self, value: &impl Serialize) -> io::Result<()> {
        if !self.json {
            return Ok(());
        }
        let mut data = data();
        serde_json::to_writer_pretty(&mut data, value)?;
        writeln!(data)?;
        data.flush()
    }

    /// One of many JSON documents, on a line of its own. Without `--json` it is left out.
    pub fn document_line(&self, value: &impl Serialize) -> io::Result<()> {
        if !self.json {
            return Ok(());
        }
        let mut data = data();
        serde_json::to_writer(&mut data, value)?;
        writeln!(data)?;
        data.flush()
    }

    /// Prints a message for people. One that cannot be written is no reason to stop.
    pub fn note(&self, message: impl fmt::Display) {
        let text = self.note_paint.wrap(&format!("headgate: {message}"), NOTE_INDENT);
        let _ = writeln!(io::stderr(), "{text}");
    }

    /// Prints the findings about a configuration.
    pub fn report(&self, findings: impl fmt::Display) {
        self.narrate(self.note_paint.report(&findings.to_string()));
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
        let on = Paint { on: true, ..Paint::default() };
        assert_eq!(on.ink(Ink::Red, "fail"), "\x1b[31mfail\x1b[0m");
        assert_eq!(Paint::default().ink(Ink::Red, "fail"), "fail");
    }

    #[test]
    fn findings_fit_and_lines_of_the_file_stay() {
        let findings = "error[bad]: something is wrong here\n --> a.toml:1:1\n  |\n\
                        1 | a_long_line_of_the_file = \"as it is\"\n  = help: mend it in this way\n\na.toml: 1 error\n";
        assert_eq!(Paint::default().report(findings), findings);
        let narrow = Paint { on: true, ..Paint::default() }.or_columns(24).report(findings);
        let expected = "\x1b[31merror[bad]\x1b[0m: something is\n  wrong here\n --> a.toml:1:1\n  |\n\
                        1 | a_long_line_of_the_file = \"as it is\"\n  = help: mend it in\n          this way\n\n\
                        a.toml: 1 error\n";
        assert_eq!(narrow, expected);
    }

    #[test]
    fn lines_fit_where_something_would_break_them() {
        let text = "headgate: nf firewall failed: /a/path/that/is/long cannot be opened";
        assert_eq!(Paint::default().wrap(text, 2), text);
        let narrow = Paint::default().or_columns(24).wrap(text, 2);
        assert_eq!(narrow, "headgate: nf firewall\n  failed:\n  /a/path/that/is/long\n  cannot be opened");
    }
}
