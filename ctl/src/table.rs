//! Aligned columns.

use std::fmt::Write as _;

use headgate_units::text::harmless;

use crate::output::{Ink, Paint};

/// Columns stand this far apart.
const GAP: usize = 2;
/// Least width of a column in which words go on in further lines. Our choice: two or three words; in less, a
/// line that the terminal breaks reads better.
const ROOM_MIN: usize = 16;

/// Alignment of a column's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    /// Words.
    Left,
    /// Quantities.
    Right,
}

/// Rows under a heading. What is put into a cell is made harmless for terminals.
#[derive(Clone, Debug)]
pub struct Table {
    columns: Vec<(&'static str, Align)>,
    rows: Vec<Vec<(String, Option<Ink>)>>,
}

impl Table {
    /// Headings; those that begin with `>` stand above quantities.
    pub fn new(headings: &[&'static str]) -> Self {
        let column = |heading: &&'static str| match heading.strip_prefix('>') {
            Some(heading) => (heading, Align::Right),
            None => (*heading, Align::Left),
        };
        Self { columns: headings.iter().map(column).collect(), rows: Vec::new() }
    }

    /// Adds a row, a cell for each column.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.inked_row(cells.into_iter().map(|cell| (cell, None)));
    }

    /// Adds a row whose cells may stand out.
    pub fn inked_row(&mut self, cells: impl IntoIterator<Item = (String, Option<Ink>)>) {
        let row: Vec<_> = cells.into_iter().map(|(text, ink)| (harmless(&text), ink)).collect();
        debug_assert_eq!(row.len(), self.columns.len());
        self.rows.push(row);
    }

    /// Returns whether there is no row.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The text, each line ended. Columns in which every row is empty are left out. A table that is wider
    /// than the lines of `paint` goes on in further lines of its last column, where that has words.
    pub fn render(&self, paint: Paint) -> String {
        let filled = |at: &usize| self.rows.iter().any(|row| !row[*at].0.is_empty());
        let shown: Vec<usize> = (0..self.columns.len()).filter(filled).collect();
        let width = |at: usize| {
            let cells = self.rows.iter().map(|row| row[at].0.chars().count());
            cells.chain([self.columns[at].0.chars().count()]).max().unwrap_or(0)
        };
        let widths: Vec<usize> = shown.iter().map(|&at| width(at)).collect();
        let room = self.room_for_last(paint, &shown, &widths);
        let heading = |&at: &usize| (self.columns[at].0, Some(Ink::Dim));
        let mut text = self.line(paint, &shown, &widths, shown.iter().map(heading));
        for row in &self.rows {
            let mut further = Vec::new();
            let cells = shown.iter().enumerate().map(|(place, &at)| {
                let (text, ink) = &row[at];
                let Some(room) = room.filter(|_| place + 1 == shown.len()) else {
                    return (text.clone(), *ink);
                };
                let mut lines = textwrap::wrap(text, room).into_iter().map(String::from);
                let first = lines.next().unwrap_or_default();
                further.extend(lines.map(|line| (line, *ink)));
                (first, *ink)
            });
            let cells: Vec<_> = cells.collect();
            text += &self.line(paint, &shown, &widths, cells.iter().map(|(text, ink)| (text.as_str(), *ink)));
            for (line, ink) in &further {
                let empty = shown.iter().skip(1).map(|_| ("", None));
                text += &self.line(paint, &shown, &widths, empty.chain([(line.as_str(), *ink)]));
            }
        }
        text
    }

    /// The width that is left for the last column; `None` where all fits, or where nothing is to be done.
    fn room_for_last(&self, paint: Paint, shown: &[usize], widths: &[usize]) -> Option<usize> {
        let (last, before) = widths.split_last()?;
        let is_words = self.columns[*shown.last()?].1 == Align::Left;
        let used: usize = before.iter().map(|width| width + GAP).sum();
        let room = paint.columns()?.checked_sub(used)?;
        (is_words && *last > room && room >= ROOM_MIN).then_some(room)
    }

    fn line<'a>(
        &self,
        paint: Paint,
        shown: &[usize],
        widths: &[usize],
        cells: impl Iterator<Item = (&'a str, Option<Ink>)>,
    ) -> String {
        let mut line = String::new();
        let mut owed = 0;
        for ((&at, &width), (text, ink)) in shown.iter().zip(widths).zip(cells) {
            let room = width.saturating_sub(text.chars().count());
            let (before, after) = match self.columns[at].1 {
                Align::Left => (0, room),
                Align::Right => (room, 0),
            };
            let inked = ink.map_or(text.to_owned(), |ink| paint.ink(ink, text));
            if !text.is_empty() {
                // Spaces are owed until something follows, so that no line ends in them.
                let _ = write!(line, "{:owed$}{:before$}{inked}", "", "");
                owed = after + GAP;
            } else {
                owed += width + GAP;
            }
        }
        line.push('\n');
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_and_no_line_ends_in_spaces() {
        let mut table = Table::new(&["nf", ">packets", "unused", "state", "why"]);
        for (nf, packets, state, why) in
            [("fw", "1,000", "running", ""), ("monitor", "7", "", "killed"), ("x\x1b", "", "waiting", "")]
        {
            table.row([nf, packets, "", state, why].map(String::from));
        }
        let expected = "\
nf       packets  state    why
fw         1,000  running
monitor        7           killed
x\u{fffd}                waiting
";
        assert_eq!(table.render(Paint::default()), expected);
    }

    #[test]
    fn words_of_the_last_column_go_on_below() {
        let mut table = Table::new(&["reason", ">packets", "meaning"]);
        for (reason, packets, meaning) in [
            ("throttled", "1,000", "an NF of its chain is overloaded: shed at the head"),
            ("port", "7", "short"),
        ] {
            table.row([reason, packets, meaning].map(String::from));
        }
        let expected = "\
reason     packets  meaning
throttled    1,000  an NF of its chain
                    is overloaded: shed
                    at the head
port             7  short
";
        assert_eq!(table.render(Paint::default().or_columns(40)), expected);
        assert!(table.render(Paint::default()).lines().all(|line| !line.starts_with(' ')));
        let narrow = table.render(Paint::default().or_columns(30));
        assert_eq!(narrow, table.render(Paint::default()), "ten columns are no place for words");
    }

    #[test]
    fn a_table_without_rows_says_so() {
        assert!(Table::new(&["nf"]).is_empty());
    }
}
