//! Characters that bars and sparklines are made of, and colours.

use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Span;

use crate::output::Ink;

/// Characters and colours of a terminal.
#[derive(Clone, Copy, Debug)]
pub struct Glyphs {
    full: char,
    empty: char,
    /// Place of a watermark, and of one that is reached.
    mark: char,
    mark_reached: char,
    /// From nothing to the most.
    spark: [char; 8],
    /// Whether there are colours.
    is_inked: bool,
}

impl Glyphs {
    /// Returns those of a terminal, which shows more than ASCII when its locale says so.
    pub fn new(is_unicode: bool, is_inked: bool) -> Self {
        match is_unicode {
            true => Self {
                full: '█',
                empty: '·',
                mark: '┊',
                mark_reached: '╋',
                spark: ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'],
                is_inked,
            },
            false => Self {
                full: '#',
                empty: '.',
                mark: '|',
                mark_reached: '+',
                spark: ['_', '.', ',', '-', '~', '=', '*', '#'],
                is_inked,
            },
        }
    }

    /// Returns those that the environment asks for: the locale of characters, by the first of its variables
    /// that is set (POSIX.1-2024, 8.2).
    pub fn of_environment(is_inked: bool) -> Self {
        let set = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(set).unwrap_or_default();
        let locale = locale.to_ascii_lowercase();
        Self::new(locale.contains("utf-8") || locale.contains("utf8"), is_inked)
    }

    /// Returns whether there are colours.
    pub const fn has_ink(self) -> bool {
        self.is_inked
    }

    /// Returns text in an ink.
    pub fn span(self, text: impl Into<String>, ink: Option<Ink>) -> Span<'static> {
        let style = match ink.filter(|_| self.is_inked) {
            None => Style::new(),
            Some(Ink::Bold) => Style::new().add_modifier(Modifier::BOLD),
            Some(Ink::Dim) => Style::new().add_modifier(Modifier::DIM),
            Some(Ink::Green) => Style::new().fg(Color::Green),
            Some(Ink::Yellow) => Style::new().fg(Color::Yellow),
            Some(Ink::Red) => Style::new().fg(Color::Red),
        };
        Span::styled(text.into(), style)
    }

    /// Returns a bar that is full to this part, with a mark at each of two parts: above the low one it is
    /// yellow, above the high one red.
    pub fn bar(self, full: f64, marks: Option<[f64; 2]>, width: usize) -> Vec<Span<'static>> {
        let cell_of = |part: f64| (part * width as f64) as usize;
        // A queue that is not empty shows.
        let filled = if full > 0.0 { cell_of(full).clamp(1, width) } else { 0 };
        let at = marks.map(|marks| marks.map(|mark| cell_of(mark).min(width.saturating_sub(1))));
        let cell = |place: usize| {
            let ink = match at {
                Some([low, _]) if place < low => Some(Ink::Green),
                Some([_, high]) if place < high => Some(Ink::Yellow),
                Some(_) => Some(Ink::Red),
                None => Some(Ink::Green),
            };
            let is_mark = at.is_some_and(|at| at.contains(&place));
            match place < filled {
                true => self.span(if is_mark { self.mark_reached } else { self.full }, ink),
                false if is_mark => self.span(self.mark, None),
                false => self.span(self.empty, Some(Ink::Dim)),
            }
        };
        (0..width).map(cell).collect()
    }

    /// Returns the last values as a line, the newest at its right end; `most` is as high as a line goes.
    pub fn sparkline(self, values: impl DoubleEndedIterator<Item = f64>, most: f64, width: usize) -> String {
        let height = |value: f64| {
            let part = if most > 0.0 { (value / most).clamp(0.0, 1.0) } else { 0.0 };
            self.spark[((part * self.spark.len() as f64) as usize).min(self.spark.len() - 1)]
        };
        let newest_first: Vec<char> = values.rev().take(width).map(height).collect();
        newest_first.into_iter().rev().collect()
    }
}
