//! Paper to draw on, and how wide words are on it.

use headgate_units::text::harmless;
use plotters::backend::SVGBackend;
use plotters::coord::Shift;
use plotters::drawing::{DrawingArea, IntoDrawingArea};
use plotters::element::{Circle, Drawable, PathElement, PointCollection, Rectangle, Text};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{Color, FontDesc, FontFamily, FontStyle, FontTransform, TextStyle};

use super::ink::Ink;

/// Size of letters: a title, words, numbers beside what they are of.
pub const TITLE: i32 = 19;
pub const WORDS: i32 = 16;
pub const NUMBERS: i32 = 13;
/// Width of a letter by its height, of most fonts without serifs; what is wider overlaps no neighbour yet.
const LETTER: f64 = 0.56;
/// The back end takes a height of lines, and writes one of letters.
const LINE: f64 = 1.24;

/// Returns how wide words are.
pub fn width(words: &str, size: i32) -> i32 {
    (words.chars().count() as f64 * f64::from(size) * LETTER).ceil() as i32
}

/// A point: to the right, and downwards.
pub type Point = (i32, i32);

/// Paper.
pub struct Paper<'a> {
    area: DrawingArea<SVGBackend<'a>, Shift>,
}

/// Returns the document of what is drawn on paper of this size.
pub fn document(title: &str, size: Point, draw: impl FnOnce(&Paper<'_>)) -> String {
    let mut text = String::new();
    {
        let backend = SVGBackend::with_string(&mut text, (size.0 as u32, size.1 as u32));
        let paper = Paper { area: backend.into_drawing_area() };
        paper.block((0, 0), size, Ink::PAGE);
        draw(&paper);
        let _ = paper.area.present();
    }
    let (first, body) = text.split_once('\n').unwrap_or((&text, ""));
    let size = first.strip_prefix("<svg ").unwrap_or(first);
    let (title, rules) = (escaped(title), Ink::rules());
    format!("<svg role=\"img\" {size}\n<title>{title}</title>\n<style>{rules}</style>\n{body}")
}

/// Returns text as it stands in a document: names come from configurations and programs.
pub fn escaped(text: &str) -> String {
    let escape = |letter: char| match letter {
        '&' => "&amp;".to_owned(),
        '<' => "&lt;".to_owned(),
        '>' => "&gt;".to_owned(),
        '"' => "&quot;".to_owned(),
        // Neither of the two is a character of XML.
        '\u{fffe}' | '\u{ffff}' => "\u{fffd}".to_owned(),
        letter => letter.to_string(),
    };
    harmless(text).chars().map(escape).collect()
}

impl<'p> Paper<'p> {
    /// The back end writes into memory, so nothing can fail.
    fn draw<E>(&self, element: &E)
    where
        for<'e> &'e E: PointCollection<'e, Point>,
        E: Drawable<SVGBackend<'p>>,
    {
        let _ = self.area.draw(element);
    }

    /// Draws a filled rectangle.
    pub fn block(&self, from: Point, to: Point, ink: Ink) {
        self.draw(&Rectangle::new([from, to], ink.light().filled()));
    }

    /// Draws the outline of a rectangle.
    pub fn outline(&self, from: Point, to: Point, ink: Ink, width: u32) {
        let corners = vec![from, (to.0, from.1), to, (from.0, to.1), from];
        self.draw(&PathElement::new(corners, ink.light().stroke_width(width)));
    }

    /// Draws a line.
    pub fn line(&self, points: Vec<Point>, ink: Ink, width: u32) {
        self.draw(&PathElement::new(points, ink.light().stroke_width(width)));
    }

    /// Draws a filled circle.
    pub fn dot(&self, centre: Point, radius: i32, ink: Ink) {
        self.draw(&Circle::new(centre, radius, ink.light().filled()));
    }

    /// Writes words; `place` says which side of them lies at the point.
    pub fn words(&self, words: &str, at: Point, place: (HPos, VPos), size: i32, ink: Ink) {
        self.write(words, at, place, (size, ink), FontTransform::None);
    }

    /// Writes words from below to above, centred at the point.
    pub fn upwards(&self, words: &str, at: Point, from: HPos, size: i32, ink: Ink) {
        self.write(words, at, (from, VPos::Center), (size, ink), FontTransform::Rotate270);
    }

    fn write(
        &self,
        words: &str,
        at: Point,
        (across, down): (HPos, VPos),
        (size, ink): (i32, Ink),
        turn: FontTransform,
    ) {
        let style = if size == TITLE { FontStyle::Bold } else { FontStyle::Normal };
        let font = FontDesc::new(FontFamily::SansSerif, f64::from(size) * LINE, style).transform(turn);
        let colour = ink.light();
        let style = TextStyle::from(font).color(&colour).pos(Pos::new(across, down));
        self.draw(&Text::new(harmless(words), at, style));
    }
}
