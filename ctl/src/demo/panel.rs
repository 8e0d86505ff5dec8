//! Live view of the demo: one table, drawn anew every second.

use headgate_api::status::PortStatus;
use headgate_units::text as units;

use crate::output::{Ink, Output, Paint};
use crate::view::{self, Interval};

/// Columns of a terminal that does not say.
const COLUMNS_DEFAULT: usize = 80;

/// A place on standard error. On a terminal the table stays in place and messages scroll above it;
/// elsewhere everything is written one after the other.
#[derive(Debug)]
pub struct Panel<'a> {
    out: &'a Output,
    in_place: bool,
    /// The lines now on the screen that the next drawing replaces.
    drawn: usize,
    last: String,
}

impl<'a> Panel<'a> {
    /// An empty one.
    pub fn new(out: &'a Output) -> Self {
        Self { out, in_place: out.note_paint.is_on(), drawn: 0, last: String::new() }
    }

    /// Shows the last second.
    pub fn show(&mut self, title: &str, interval: Interval<'_>) {
        let paint = Paint::default();
        let mut text = format!("{title}\n{}\n", streams(interval));
        text += &view::nfs_brief(interval, paint);
        self.draw(text);
    }

    /// Says something that stays.
    pub fn say(&mut self, line: &str) {
        self.erase();
        self.out.narrate(format!("{}\n", self.out.note_paint.ink(Ink::Bold, line)));
        let last = std::mem::take(&mut self.last);
        if self.in_place && !last.is_empty() {
            self.draw(last);
        }
    }

    fn draw(&mut self, text: String) {
        self.erase();
        if !self.in_place {
            self.out.narrate(format!("{text}\n"));
            return;
        }
        // A line that the terminal breaks would count as two.
        let columns = columns();
        let lines: Vec<String> = text.lines().map(|line| line.chars().take(columns).collect()).collect();
        self.out.narrate(format!("{}\n", lines.join("\n")));
        self.drawn = lines.len();
        self.last = text;
    }

    /// ECMA-48: cursor up so many lines, clear from there to the end.
    fn erase(&mut self) {
        if self.drawn > 0 {
            self.out.narrate(format!("\x1b[{}A\x1b[J", self.drawn));
            self.drawn = 0;
        }
    }
}

fn columns() -> usize {
    let size = rustix::termios::tcgetwinsize(std::io::stderr());
    size.map_or(COLUMNS_DEFAULT, |size| usize::from(size.ws_col)).max(1)
}

/// Describes what came in by each port: bits from hosts, packets from elsewhere.
fn streams(interval: Interval<'_>) -> String {
    let stream = |port: &PortStatus| {
        let rates = interval.port(port);
        match port.kind.as_str() {
            "dpdk" => Some(format!("from the {} {}", port.name, units::bit_rate(rates.received_bits))),
            "null" => None,
            _ => Some(format!("{} {}", port.name, units::packet_rate(rates.received))),
        }
    };
    let streams: Vec<String> = interval.after.ports.iter().filter_map(stream).collect();
    format!("in: {}", streams.join(", "))
}
