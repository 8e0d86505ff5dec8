//! Who had what, and when.

use plotters::style::text_anchor::{HPos, VPos};

use super::frame::{Field, Key, NAME, SIDE, WIDTH};
use super::ink::Ink;
use super::paper::{document, width};
use super::scale::Scale;
use crate::plot::Spans;

/// Height of a lane, and of what is drawn in it.
const STEP: i32 = 46;
const SPAN: i32 = 32;
const NAMES_MOST: i32 = 200;
const BELOW: i32 = 64;

/// Draws them.
pub fn draw(title: &str, spans: &Spans) -> String {
    let names = spans.owners.iter().enumerate();
    let key = Key::of(names.map(|(at, name)| (name.as_str(), Ink::series(at + 1))));
    let names = spans.lanes.iter().map(|name| width(name, NAME)).max().unwrap_or(0).min(NAMES_MOST);
    let top = key.height() + 4;
    let bottom = top + spans.lanes.len().max(1) as i32 * STEP;
    let field = Field { left: SIDE + names + 14, right: WIDTH - SIDE - 12, top, bottom };
    document(title, (WIDTH, field.bottom + BELOW), |paper| {
        key.draw(paper, title);
        let scale = Scale::over(
            &spans.time,
            spans.spans.iter().flat_map(|span| span.time),
            [field.left, field.right],
        );
        field.draw_lengths(paper, &scale, &spans.time.label);
        let lane_top = |lane: usize| field.top + lane as i32 * STEP + (STEP - SPAN) / 2;
        for (lane, name) in spans.lanes.iter().enumerate() {
            let at = (field.left - 10, lane_top(lane) + SPAN / 2);
            paper.words(name, at, (HPos::Right, VPos::Center), NAME, Ink::TEXT);
        }
        for span in &spans.spans {
            let [from, to] = span.time.map(|time| scale.at(time));
            let top = lane_top(span.lane);
            // What is shorter than a point is seen all the same.
            paper.block((from, top), (to.max(from + 1), top + SPAN), Ink::series(span.owner + 1));
        }
        if spans.spans.is_empty() {
            field.say_empty(paper);
        }
    })
}
