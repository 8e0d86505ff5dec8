//! Collection of findings while a file is walked, and turning byte ranges into lines and columns.

use std::collections::{BTreeSet, HashSet};
use std::ops::Range;

use super::codes::{Code, Severity};
use super::diagnostics::{Diagnostic, Diagnostics, Excerpt};

/// Bytes of the file's text.
pub type Span = Range<usize>;

/// Longest underline, in characters. Our choice: an inline table of half a screen says no more
/// when all of it is underlined.
const UNDERLINE_CHARS_MAX: usize = 60;

/// Longest line shown, in characters. Our choice: a line that long was written by a program, and
/// its position is given anyway.
const LINE_CHARS_MAX: usize = 300;

/// Most findings reported, errors before warnings. Our choice: nobody reads more before mending
/// some, and a file of one endless line would take a second per thousand to place them.
const FINDINGS_MAX: usize = 500;

/// A finding in the making.
#[derive(Debug)]
pub struct Finding {
    code: Code,
    message: String,
    span: Option<Span>,
    label: String,
    help: Option<String>,
    beside: Vec<(Span, String)>,
}

impl Finding {
    /// The words beside the underline.
    pub fn label(&mut self, label: impl Into<String>) -> &mut Self {
        self.label = label.into();
        self
    }

    /// Cure.
    pub fn help(&mut self, help: impl Into<String>) -> &mut Self {
        self.help = Some(help.into());
        self
    }

    /// Another place that has to do with it.
    pub fn beside(&mut self, span: Span, label: impl Into<String>) -> &mut Self {
        self.beside.push((span, label.into()));
        self
    }
}

/// Everything found so far.
#[derive(Debug, Default)]
pub struct Report {
    findings: Vec<Finding>,
    /// The byte behind which nothing is certain, if the text is that broken.
    guessed_from: Option<usize>,
}

impl Report {
    /// Adds a finding about `span`.
    pub fn add(&mut self, code: Code, span: &Span, message: impl Into<String>) -> &mut Finding {
        self.push(code, Some(span.clone()), message.into())
    }

    /// Adds a finding about the file as a whole.
    pub fn add_about_file(&mut self, code: Code, message: impl Into<String>) -> &mut Finding {
        self.push(code, None, message.into())
    }

    fn push(&mut self, code: Code, span: Option<Span>, message: String) -> &mut Finding {
        let place = self.findings.len();
        self.findings.push(Finding {
            code,
            message,
            span,
            label: String::new(),
            help: None,
            beside: Vec::new(),
        });
        &mut self.findings[place]
    }

    /// Returns whether the file will be refused.
    pub fn has_errors(&self) -> bool {
        self.findings.iter().any(|finding| finding.code.severity() == Severity::Error)
    }

    /// Returns the number of findings that refuse the file.
    pub fn errors(&self) -> usize {
        self.findings.iter().filter(|finding| finding.code.severity() == Severity::Error).count()
    }

    /// Returns whether there is a finding of this kind.
    pub fn has(&self, code: Code) -> bool {
        self.findings.iter().any(|finding| finding.code == code)
    }

    /// Says that the text behind byte `at` was not understood.
    pub fn guessed_from(&mut self, at: usize) {
        self.guessed_from = Some(at);
    }

    /// Keeps what a broken text still allows to say.
    ///
    /// One syntax error makes the parser guess, and its guesses read like mistakes of their own:
    /// keys swallowed by an unclosed bracket are then missing. So of each line only the first syntax
    /// error stays, and beside syntax errors nothing stays that touches such a line, that reports an
    /// absence, or that stands in the part that was not understood.
    pub fn keep_certain(&mut self, source: &Source<'_>) {
        let lines_of = |finding: &Finding| {
            let span = finding.span.clone().unwrap_or(0..0);
            source.line_number(span.start)..=source.line_number(span.end)
        };
        let line_of = |finding: &Finding| *lines_of(finding).start();
        let syntax = |finding: &Finding| finding.code == Code::Syntax;
        let broken: BTreeSet<usize> = self.findings.iter().filter(|one| syntax(one)).map(line_of).collect();
        if broken.is_empty() {
            return;
        }
        let mut said = HashSet::new();
        self.findings.sort_by_key(|finding| finding.span.as_ref().map_or(0, |span| span.start));
        let guessed_from = self.guessed_from.unwrap_or(usize::MAX);
        self.findings.retain(|finding| match finding.code {
            _ if finding.span.as_ref().is_some_and(|span| span.start > guessed_from) => false,
            Code::Syntax => said.insert(line_of(finding)),
            Code::MissingKey | Code::ChainWithoutEnd => false,
            _ => broken.range(lines_of(finding)).next().is_none(),
        });
    }

    /// The findings with lines and columns, in the order of the file.
    pub fn finish(mut self, source: &Source<'_>) -> Diagnostics {
        // What several nodes have in common is found at each of them.
        let mut said = HashSet::new();
        self.findings.retain(|one| said.insert((one.code, one.span.clone(), one.message.clone())));
        if self.findings.len() > FINDINGS_MAX {
            self.findings.sort_by_key(|finding| finding.code.severity() == Severity::Warning);
            self.findings.truncate(FINDINGS_MAX);
        }
        self.findings.sort_by_key(|finding| finding.span.as_ref().map_or(0, |span| span.start));
        Diagnostics(self.findings.into_iter().map(|one| source.diagnostic(one)).collect())
    }
}

/// A file's text with its lines found.
#[derive(Debug)]
pub struct Source<'t> {
    name: &'t str,
    text: &'t str,
    line_starts: Vec<usize>,
}

impl<'t> Source<'t> {
    /// `name` is printed as the file's name.
    pub fn new(name: &'t str, text: &'t str) -> Self {
        let after_breaks = text.match_indices('\n').map(|(at, _)| at + 1);
        let line_starts = std::iter::once(0).chain(after_breaks).collect();
        Self { name, text, line_starts }
    }

    /// The file's name.
    pub fn name(&self) -> &'t str {
        self.name
    }

    /// The whole text.
    pub fn text(&self) -> &'t str {
        self.text
    }

    /// The line, from 1, that holds byte `at`; the last one when the text ends before it.
    pub fn line_number(&self, at: usize) -> usize {
        self.line_starts.partition_point(|start| *start <= at)
    }

    /// Line and column, both from 1, of the character that holds byte `at`. A position at or
    /// behind the end of the text is the place behind its last character.
    pub fn position(&self, at: usize) -> (usize, usize) {
        let mut at = at.min(self.text.len());
        while !self.text.is_char_boundary(at) {
            at -= 1;
        }
        let line = self.line_number(at);
        let column = self.text[self.line_starts[line - 1]..at].chars().count() + 1;
        (line, column)
    }

    fn line(&self, line: usize) -> &'t str {
        let start = self.line_starts[line - 1];
        let end = self.line_starts.get(line).map_or(self.text.len(), |next| next - 1);
        self.text[start..end].trim_end_matches('\r')
    }

    /// An underline never leaves the first line of its span.
    fn excerpt(&self, span: &Span, label: String) -> Excerpt {
        let (line, column) = self.position(span.start);
        let (end_line, end_column) = self.position(span.end.max(span.start));
        let text = self.line(line);
        let chars = text.chars().count();
        let end = if end_line == line { end_column } else { chars + 1 };
        let shown = text.chars().take(LINE_CHARS_MAX).map(printable).collect();
        Excerpt {
            line,
            column: column.min(LINE_CHARS_MAX),
            width: end.saturating_sub(column).clamp(1, UNDERLINE_CHARS_MAX),
            text: shown,
            label: label.chars().map(printable).collect(),
        }
    }

    fn diagnostic(&self, finding: Finding) -> Diagnostic {
        let (line, column) = finding.span.as_ref().map_or((0, 0), |span| self.position(span.start));
        let mut excerpts = Vec::new();
        if let Some(span) = &finding.span {
            excerpts.push(self.excerpt(span, finding.label));
            for (span, label) in finding.beside {
                excerpts.push(self.excerpt(&span, label));
            }
        }
        Diagnostic {
            severity: finding.code.severity(),
            code: finding.code,
            file: self.name.to_owned(),
            line,
            column,
            message: finding.message.chars().map(printable).collect(),
            help: finding.help.map(|help| help.chars().map(printable).collect()),
            excerpts,
        }
    }
}

/// `1 rate`, `2 rates`.
pub fn counted(count: usize, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

/// A file may hold escape sequences; a terminal must not obey them.
fn printable(character: char) -> char {
    match character {
        '\t' => ' ',
        character if character.is_control() => '\u{fffd}',
        character => character,
    }
}
