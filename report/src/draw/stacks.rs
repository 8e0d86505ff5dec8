//! Horizontal bars made of parts.

use plotters::style::text_anchor::{HPos, VPos};

use super::frame::{Field, Key, NAME, NUMBER, SIDE, WIDTH, lines_of};
use super::ink::Ink;
use super::paper::{NUMBERS, Paper, document, width};
use super::scale::{Scale, short};
use crate::plot::{Stack, Stacks};

/// Height of a bar, and from one to the next.
const BAR: i32 = 30;
const STEP: i32 = 48;
/// Most room for the names at the left.
const NAMES_MOST: i32 = 220;
const BELOW: i32 = 64;

/// Draws them.
pub fn draw(title: &str, stacks: &Stacks) -> String {
    let drawn =
        |part: usize| stacks.rows.iter().any(|row| row.parts.get(part).is_some_and(|size| *size > 0.0));
    let parts = stacks.parts.iter().enumerate().filter(|(part, _)| drawn(*part));
    let key = Key::of(parts.map(|(part, name)| (name.as_str(), Ink::part(part))));
    let names = stacks.rows.iter().map(|row| width(&row.name, NAME)).max().unwrap_or(0).min(NAMES_MOST);
    let totals = stacks.rows.iter().map(|row| width(&row.total, NUMBERS)).max().unwrap_or(0);
    let top = key.height() + 4;
    let field = Field {
        left: SIDE + names + 14,
        right: WIDTH - SIDE - totals.min(WIDTH / 3) - 10,
        top,
        bottom: top + stacks.rows.len().max(1) as i32 * STEP,
    };
    document(title, (WIDTH, field.bottom + BELOW), |paper| {
        key.draw(paper, title);
        let ends = stacks.rows.iter().flat_map(|row| [row.parts.iter().sum(), row.frame.unwrap_or(0.0)]);
        let scale = Scale::over(&stacks.value, ends, [field.left, field.right]);
        field.draw_lengths(paper, &scale, &axis(stacks));
        for (number, row) in stacks.rows.iter().enumerate() {
            draw_row(paper, row, &scale, field.left, field.top + number as i32 * STEP + (STEP - BAR) / 2);
        }
        paper.line(vec![(field.left, field.top), (field.left, field.bottom)], Ink::ZERO, 2);
        if stacks.rows.is_empty() {
            field.say_empty(paper);
        }
    })
}

fn axis(stacks: &Stacks) -> String {
    let is_framed = stacks.rows.iter().any(|row| row.frame.is_some());
    let frame = if is_framed { format!(" (frame: {})", stacks.frame) } else { String::new() };
    format!("{}{frame}", stacks.value.label)
}

fn draw_row(paper: &Paper<'_>, row: &Stack, scale: &Scale, left: i32, top: i32) {
    let middle = top + BAR / 2;
    let name = lines_of(&row.name.replace(['.', ' '], "\u{a0}"), NAMES_MOST).concat();
    paper.words(&name, (left - 10, middle), (HPos::Right, VPos::Center), NAME, Ink::TEXT);
    let (mut sum, mut end) = (0.0, left);
    for (part, size) in row.parts.iter().enumerate().filter(|(_, size)| **size > 0.0) {
        let (from, ink) = (scale.at(sum), Ink::part(part));
        sum += size;
        end = scale.at(sum);
        paper.block((from, top), (end, top + BAR), ink);
        let number = short(*size);
        if width(&number, NUMBER) + 6 <= end - from {
            let at = (i32::midpoint(from, end), middle);
            paper.words(&number, at, (HPos::Center, VPos::Center), NUMBER, ink.words_on());
        }
    }
    if let Some(frame) = row.frame {
        let right = scale.at(frame);
        paper.outline((left, top - 3), (right, top + BAR + 3), Ink::TEXT, 2);
        end = end.max(right);
    }
    paper.words(&row.total, (end + 8, middle), (HPos::Left, VPos::Center), NUMBERS, Ink::TEXT);
}
