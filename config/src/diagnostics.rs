//! Findings about a configuration: what is wrong, where, why, and how to mend it.

use std::fmt;

use serde::Serialize;

use super::codes::{Code, Severity};

/// Most errors that one line has. Our choice: what a line of a log has room for.
const ERRORS_IN_A_LINE: usize = 5;

/// One finding. Serialises to the object of `headgate check --json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Diagnostic {
    /// Whether the file is refused because of it.
    pub severity: Severity,
    /// Its kind.
    pub code: Code,
    /// The file as the operator named it.
    pub file: String,
    /// Line, from 1; 0 when the finding concerns the file as a whole.
    pub line: usize,
    /// Column in characters, from 1; 0 when the finding concerns the file as a whole.
    pub column: usize,
    /// Description of what is wrong, and why.
    pub message: String,
    /// Cure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub help: Option<String>,
    /// The lines to show, the one that is wrong first.
    #[serde(skip)]
    pub excerpts: Vec<Excerpt>,
}

/// A line of the file with a part of it underlined.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Excerpt {
    /// Line, from 1.
    pub line: usize,
    /// First underlined character, from 1.
    pub column: usize,
    /// Underlined characters, at least 1.
    pub width: usize,
    /// The whole line, without control characters, one character for each of the file's.
    pub text: String,
    /// Text beside the underline.
    pub label: String,
}

/// All findings about one file, in the order of its lines.
///
/// `Display` is the report for people; it ends with a newline unless it is empty.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Diagnostics(pub Vec<Diagnostic>);

impl Diagnostics {
    /// Returns whether the file must be refused.
    pub fn has_errors(&self) -> bool {
        self.count(Severity::Error) > 0
    }

    /// Returns the first errors in one line, each with its place, for a log.
    pub fn in_a_line(&self) -> String {
        let errors = || self.0.iter().filter(|one| one.severity == Severity::Error);
        let one = |one: &Diagnostic| match one.line {
            0 => format!("{}: {}", one.file, one.message),
            line => format!("{}:{line}:{}: {}", one.file, one.column, one.message),
        };
        let mut parts: Vec<String> = errors().take(ERRORS_IN_A_LINE).map(one).collect();
        let more = errors().count() - parts.len();
        parts.extend((more > 0).then(|| format!("and {more} more")));
        parts.join("; ")
    }

    /// Adds findings about the same file, without those that are known.
    pub fn join(&mut self, others: Self) {
        for one in others.0 {
            if !self.0.contains(&one) {
                self.0.push(one);
            }
        }
        self.0.sort_by_key(|one| (one.line, one.column));
    }

    fn count(&self, severity: Severity) -> usize {
        self.0.iter().filter(|one| one.severity == severity).count()
    }
}

impl std::error::Error for Diagnostics {}

impl fmt::Display for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(first) = self.0.first() else {
            return Ok(());
        };
        for one in &self.0 {
            writeln!(f, "{one}")?;
        }
        let mut totals = Vec::new();
        for (severity, word) in [(Severity::Error, "error"), (Severity::Warning, "warning")] {
            match self.count(severity) {
                0 => {}
                1 => totals.push(format!("1 {word}")),
                many => totals.push(format!("{many} {word}s")),
            }
        }
        writeln!(f, "{}: {}", first.file, totals.join(", "))
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let severity = match self.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        };
        writeln!(f, "{severity}[{}]: {}", self.code.name(), self.message)?;
        let last_line = self.excerpts.iter().map(|excerpt| excerpt.line).max();
        let gutter = last_line.unwrap_or(0).to_string().len();
        if self.line == 0 {
            writeln!(f, "{:gutter$}--> {}", "", self.file)?;
        } else {
            writeln!(f, "{:gutter$}--> {}:{}:{}", "", self.file, self.line, self.column)?;
        }
        self.write_excerpts(f, gutter)?;
        if let Some(help) = &self.help {
            writeln!(f, "{:gutter$} = help: {help}", "")?;
        }
        Ok(())
    }
}

impl Diagnostic {
    /// The lines in file order; `^` marks what is wrong, `-` what it collides with.
    fn write_excerpts(&self, f: &mut fmt::Formatter<'_>, gutter: usize) -> fmt::Result {
        let mut marked: Vec<(char, &Excerpt)> = Vec::new();
        for (place, excerpt) in self.excerpts.iter().enumerate() {
            marked.push((if place == 0 { '^' } else { '-' }, excerpt));
        }
        marked.sort_by_key(|(_, excerpt)| (excerpt.line, excerpt.column));
        let mut line_before = None;
        for (mark, excerpt) in marked {
            match line_before {
                None => writeln!(f, "{:gutter$} |", "")?,
                Some(line) if line + 1 < excerpt.line => writeln!(f, "{:.>gutter$}", "...")?,
                Some(_) => {}
            }
            if line_before != Some(excerpt.line) {
                writeln!(f, "{:>gutter$} | {}", excerpt.line, excerpt.text)?;
            }
            let indent = excerpt.column - 1;
            let underline = mark.to_string().repeat(excerpt.width);
            let label = format!("{:gutter$} | {:indent$}{underline} {}", "", "", excerpt.label);
            writeln!(f, "{}", label.trim_end())?;
            line_before = Some(excerpt.line);
        }
        Ok(())
    }
}
