//! Bars side by side in groups. Many groups lie in several rows, which have the same scale.

use plotters::style::text_anchor::{HPos, VPos};

use super::frame::{Field, Key, LEFT, LINE, NAME, NUMBER, SIDE, WIDTH, lines_of};
use super::ink::Ink;
use super::paper::{Paper, document, width};
use super::scale::{Scale, short};
use crate::plot::{Bar, Bars};

/// Height of the field of a row, where there is one and where there are several.
const HIGH: i32 = 300;
const LOW: i32 = 190;
/// Part of a group's room that its bars take.
const BARS_PART: f64 = 0.82;
/// Most that a bar is wide, and least.
const BAR_MOST: i32 = 64;
const BAR_LEAST: i32 = 15;
/// Widest name of a group that makes others take another row.
const NAME_MOST: i32 = 120;

/// How groups are laid out.
struct Layout<'a> {
    bars: &'a Bars,
    /// Groups of a row, and rows.
    per_row: usize,
    rows: usize,
    /// Room of a group, and width of a bar.
    room: i32,
    bar: i32,
    /// Height of a row's field, and of the names below it.
    field: i32,
    names: i32,
    /// Whether the numbers stand upright, because one of them is wider than a bar.
    upright: bool,
}

impl<'a> Layout<'a> {
    fn of(bars: &'a Bars) -> Self {
        let series = bars.series.len().max(1) as i32;
        let longest = bars.groups.iter().flat_map(|name| name.split(['.', ' ']));
        let longest = longest.map(|part| width(part, NAME)).fold(0, i32::max).min(NAME_MOST);
        let least = (longest + 14).max((f64::from(series * BAR_LEAST) / BARS_PART).ceil() as i32);
        let groups = bars.groups.len().max(1);
        let most = ((WIDTH - SIDE - LEFT) / least).max(1) as usize;
        let rows = groups.div_ceil(most);
        let per_row = groups.div_ceil(rows);
        let room = (WIDTH - SIDE - LEFT) / per_row as i32;
        let bar = ((f64::from(room) * BARS_PART) as i32 / series).clamp(2, BAR_MOST);
        let names = bars.groups.iter().map(|name| lines_of(name, room).len()).max().unwrap_or(1).max(1);
        let field = if rows == 1 { HIGH } else { LOW };
        let upright = bars.bars.iter().any(|of| width(&short(of.value), NUMBER) > bar);
        Self { bars, per_row, rows, room, bar, field, names: names as i32 * (LINE - 3) + 16, upright }
    }

    /// Returns the middle of a bar.
    fn middle(&self, bar: &Bar) -> i32 {
        let series = self.bars.series.len().max(1) as i32;
        let group = LEFT + (bar.group % self.per_row) as i32 * self.room + self.room / 2;
        group - self.bar * series / 2 + self.bar * bar.series as i32 + self.bar / 2
    }

    fn draw_row(&self, paper: &Paper<'_>, row: usize, top: i32) {
        let field = Field { left: LEFT, right: WIDTH - SIDE, top, bottom: top + self.field };
        // Above the highest bar its number stands.
        let above = if self.upright { 46 } else { 26 };
        let values = self.bars.bars.iter().flat_map(|bar| [bar.value, bar.interval[0], bar.interval[1]]);
        let scale = Scale::over(&self.bars.value, values, [field.bottom, field.top + above]);
        field.draw_heights(paper, &scale, &self.bars.value.label);
        let (first, end) = (row * self.per_row, (row + 1) * self.per_row);
        let is_here = |bar: &&Bar| (first..end).contains(&bar.group) && bar.value.is_finite();
        for bar in self.bars.bars.iter().filter(is_here) {
            self.draw_bar(paper, bar, &scale, &field);
        }
        field.draw_zero(paper, &scale);
        for (place, name) in self.bars.groups.iter().skip(first).take(self.per_row).enumerate() {
            let middle = LEFT + place as i32 * self.room + self.room / 2;
            for (line, words) in lines_of(name, self.room - 6).iter().enumerate() {
                let y = field.bottom + 9 + line as i32 * (LINE - 3);
                paper.words(words, (middle, y), (HPos::Center, VPos::Top), NAME, Ink::TEXT);
            }
        }
        if self.bars.bars.is_empty() {
            field.say_empty(paper);
        }
    }

    fn draw_bar(&self, paper: &Paper<'_>, bar: &Bar, scale: &Scale, field: &Field) {
        let (middle, ink) = (self.middle(bar), Ink::series(bar.series));
        let half = (self.bar / 2 - 1).max(1);
        let (zero, height) = (scale.zero().unwrap_or(field.bottom), scale.at(bar.value));
        paper.block((middle - half, height.min(zero)), (middle + half, height.max(zero)), ink);
        let [low, high] = bar.interval.map(|end| scale.at(end));
        let mut top = height.min(zero);
        if low != high {
            let wing = (half / 2).clamp(1, 7);
            paper.line(vec![(middle, low), (middle, high)], Ink::TEXT, 1);
            for end in [low, high] {
                paper.line(vec![(middle - wing, end), (middle + wing, end)], Ink::TEXT, 1);
            }
            top = top.min(high);
        }
        let number = short(bar.value);
        if self.upright {
            paper.upwards(&number, (middle, top - 5), HPos::Left, NUMBER, Ink::QUIET);
        } else {
            paper.words(&number, (middle, top - 4), (HPos::Center, VPos::Bottom), NUMBER, Ink::QUIET);
        }
    }
}

/// Draws them.
pub fn draw(title: &str, bars: &Bars) -> String {
    let key = Key::of(bars.series.iter().enumerate().map(|(at, name)| (name.as_str(), Ink::series(at))));
    let layout = Layout::of(bars);
    let row = layout.field + layout.names;
    let height = key.height() + layout.rows as i32 * row + LINE + 14;
    document(title, (WIDTH, height), |paper| {
        key.draw(paper, title);
        for number in 0..layout.rows {
            layout.draw_row(paper, number, key.height() + number as i32 * row);
        }
        let field = Field { left: LEFT, right: WIDTH - SIDE, top: 0, bottom: 0 };
        field.name_below(paper, &bars.of, height - LINE - 6);
    })
}
