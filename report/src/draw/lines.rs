//! Lines over a common axis.

use super::frame::{Field, Key, LEFT, SIDE, WIDTH};
use super::ink::Ink;
use super::paper::{Paper, Point, document};
use super::scale::Scale;
use crate::plot::{Line, Lines};

const HEIGHT: i32 = 320;
/// Room for the numbers and the name of the axis below.
const BELOW: i32 = 64;
/// Points up to which each of them is marked.
const MARKED_MOST: usize = 16;

/// Draws them.
pub fn draw(title: &str, lines: &Lines) -> String {
    let names = lines.series.iter().enumerate();
    let key = Key::of(names.map(|(at, line)| (line.name.as_str(), ink(lines, at))));
    let top = key.height();
    let field = Field { left: LEFT, right: WIDTH - SIDE - 12, top, bottom: top + HEIGHT };
    document(title, (WIDTH, field.bottom + BELOW), |paper| {
        key.draw(paper, title);
        let points = || lines.series.iter().flat_map(|line| &line.points);
        let x = Scale::over(&lines.x, points().map(|point| point.0), [field.left, field.right]);
        let y = Scale::over(&lines.y, points().map(|point| point.1), [field.bottom, field.top + 6]);
        field.draw_lengths(paper, &x, &lines.x.label);
        field.draw_heights(paper, &y, &lines.y.label);
        field.draw_zero(paper, &y);
        for (number, line) in lines.series.iter().enumerate() {
            draw_line(paper, lines, line, ink(lines, number), [&x, &y]);
        }
        if points().next().is_none() {
            field.say_empty(paper);
        }
    })
}

/// The grey that comes first is for what bars are compared with; lines are as good as each other.
fn ink(lines: &Lines, number: usize) -> Ink {
    Ink::series(number + usize::from(lines.series.len() < 7) * 3)
}

fn draw_line(paper: &Paper<'_>, lines: &Lines, line: &Line, ink: Ink, [x, y]: [&Scale; 2]) {
    let can_be_drawn = |&&(at, value): &&(f64, f64)| {
        let is_on = |value: f64, is_logarithmic: bool| value.is_finite() && (!is_logarithmic || value > 0.0);
        is_on(at, lines.x.logarithmic) && is_on(value, lines.y.logarithmic)
    };
    let places: Vec<Point> =
        line.points.iter().filter(can_be_drawn).map(|&(at, value)| (x.at(at), y.at(value))).collect();
    if line.points.len() <= MARKED_MOST && !lines.steps {
        for place in &places {
            paper.dot(*place, 4, ink);
        }
    }
    let mut path: Vec<Point> = Vec::with_capacity(places.len());
    for place in places {
        if let Some(&(_, before)) = path.last().filter(|_| lines.steps) {
            path.push((place.0, before));
        }
        // Many points of one place say no more than one.
        if path.last() != Some(&place) {
            path.push(place);
        }
    }
    if path.len() > 1 {
        paper.line(path, ink, 2);
    }
}
