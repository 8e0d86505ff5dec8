//! What plots have in common: title, key, axes.

use plotters::style::text_anchor::{HPos, VPos};

use super::ink::Ink;
use super::paper::{NUMBERS, Paper, Point, TITLE, WORDS, width};
use super::scale::Scale;

/// Width of a picture: that of a page's text. Our choice.
pub const WIDTH: i32 = 900;
/// Room at the sides.
pub const SIDE: i32 = 18;
/// Room for the numbers and the name of the axis at the left.
pub const LEFT: i32 = 100;
/// Height of a line of words.
pub const LINE: i32 = 22;
/// Side of a square of the key.
const SQUARE: i32 = 14;
/// Room between entries of the key.
const GAP: i32 = 22;
/// Room above and below the title.
const TITLE_ROOM: i32 = 40;

/// The key: names, each with its colour, in as many lines as they need.
pub struct Key {
    entries: Vec<(Point, String, Ink)>,
    height: i32,
}

impl Key {
    /// Makes the key. What has only one name needs none.
    pub fn of<'a>(names: impl Iterator<Item = (&'a str, Ink)>) -> Self {
        let names: Vec<_> = names.collect();
        let (mut at, mut entries) = ((SIDE, TITLE_ROOM), Vec::new());
        if names.len() < 2 {
            return Self { entries, height: TITLE_ROOM };
        }
        for (name, ink) in names {
            let room = SQUARE + 6 + width(name, WORDS) + GAP;
            if at.0 > SIDE && at.0 + room > WIDTH - SIDE {
                at = (SIDE, at.1 + LINE);
            }
            entries.push((at, name.to_owned(), ink));
            at.0 += room;
        }
        Self { entries, height: at.1 + LINE + 8 }
    }

    /// Returns how much of the picture title and key take.
    pub const fn height(&self) -> i32 {
        self.height
    }

    /// Draws title and key.
    pub fn draw(&self, paper: &Paper<'_>, title: &str) {
        paper.words(title, (SIDE, 12), (HPos::Left, VPos::Top), TITLE, Ink::TEXT);
        for ((x, y), name, ink) in &self.entries {
            let middle = y + LINE / 2;
            paper.block((*x, middle - SQUARE / 2), (x + SQUARE, middle + SQUARE / 2), *ink);
            paper.words(name, (x + SQUARE + 6, middle), (HPos::Left, VPos::Center), WORDS, Ink::TEXT);
        }
    }
}

/// A field between axes.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    pub left: i32,
    pub right: i32,
    pub top: i32,
    pub bottom: i32,
}

impl Field {
    /// Draws the axis at the left: a quiet grid, numbers, and its name.
    pub fn draw_heights(&self, paper: &Paper<'_>, scale: &Scale, label: &str) {
        for (y, number) in scale.ticks() {
            paper.line(vec![(self.left, y), (self.right, y)], Ink::GRID, 1);
            paper.words(&number, (self.left - 8, y), (HPos::Right, VPos::Center), WORDS - 1, Ink::QUIET);
        }
        let middle = i32::midpoint(self.top, self.bottom);
        paper.upwards(label, (SIDE, middle), HPos::Center, WORDS, Ink::TEXT);
    }

    /// Draws the axis below: a quiet grid, numbers, and its name.
    pub fn draw_lengths(&self, paper: &Paper<'_>, scale: &Scale, label: &str) {
        let mut free = i32::MIN;
        for (x, number) in scale.ticks() {
            paper.line(vec![(x, self.top), (x, self.bottom)], Ink::GRID, 1);
            // Ticks of factors may be narrower than their numbers.
            let half = width(&number, WORDS - 1) / 2;
            if x - half > free {
                paper.words(&number, (x, self.bottom + 8), (HPos::Center, VPos::Top), WORDS - 1, Ink::QUIET);
                free = x + half + 6;
            }
        }
        self.name_below(paper, label, self.bottom + 32);
    }

    /// Writes the name of the axis below.
    pub fn name_below(&self, paper: &Paper<'_>, label: &str, y: i32) {
        let middle = i32::midpoint(self.left, self.right);
        paper.words(label, (middle, y), (HPos::Center, VPos::Top), WORDS, Ink::TEXT);
    }

    /// Draws the line at zero of a scale of heights.
    pub fn draw_zero(&self, paper: &Paper<'_>, scale: &Scale) {
        let y = scale.zero().unwrap_or(self.bottom);
        paper.line(vec![(self.left, y), (self.right, y)], Ink::ZERO, 2);
    }

    /// Says that there is nothing to draw.
    pub fn say_empty(&self, paper: &Paper<'_>) {
        let middle = (i32::midpoint(self.left, self.right), i32::midpoint(self.top, self.bottom));
        paper.words("nothing was measured", middle, (HPos::Center, VPos::Center), WORDS, Ink::QUIET);
    }
}

/// Returns a name in lines: a dot or a space may end one, and what is still too long ends in dots.
pub fn lines_of(name: &str, room: i32) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for part in name.split(['.', ' ']).filter(|part| !part.is_empty()) {
        match lines.last_mut() {
            Some(line) if width(line, NAME) + width(part, NAME) + NAME <= room => {
                line.push(' ');
                line.push_str(part);
            }
            _ => lines.push(part.to_owned()),
        }
    }
    let fits = |line: String| {
        let most = (room / width("n", NAME).max(1)).max(2) as usize;
        if line.chars().count() <= most { line } else { line.chars().take(most - 1).chain(['…']).collect() }
    };
    lines.into_iter().map(fits).collect()
}

/// Size of the names of groups.
pub const NAME: i32 = 15;
/// Size of numbers at what they are of.
pub const NUMBER: i32 = NUMBERS;
