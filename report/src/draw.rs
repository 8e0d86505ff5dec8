//! The drawing of plots, as SVG.
//!
//! A picture is drawn in the colours of a light page, and a rule for pages in the dark replaces each of them
//! (`ink`). Everything is placed by hand in units of the picture (`paper`); plotters writes the elements.

mod bars;
mod frame;
mod ink;
mod lines;
mod paper;
mod scale;
mod spans;
mod stacks;
#[cfg(test)]
mod tests;

pub(crate) use paper::escaped;
pub(crate) use scale::short;

use crate::plot::{Drawing, Plot};

/// Returns a plot as an SVG document.
#[must_use]
pub fn svg(plot: &Plot) -> String {
    match &plot.drawing {
        Drawing::Bars(bars) => bars::draw(&plot.title, bars),
        Drawing::Lines(lines) => lines::draw(&plot.title, lines),
        Drawing::Stacks(stacks) => stacks::draw(&plot.title, stacks),
        Drawing::Spans(spans) => spans::draw(&plot.title, spans),
    }
}
