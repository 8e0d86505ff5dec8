//! Live view of the demo: one table, drawn anew every second.

use headgate_api::status::PortStatus;
use headgate_units::text as units;

use crate::output::{Ink, Output, Paint};
use crate::view::{self, Interval};

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
        Self { out, in_place: out.note_paint.is_in_place(), drawn: 0, last: String::new() }
    }

    /// Shows the last second.
    pub fn show(&mut self, title: &str, interval: Interval<'_>) {
        self.draw(page(title, interval, self.out.note_paint));
    }

    /// Says something that stays.
    pub fn say(&mut self, line: &str) {
        self.erase();
        let paint = self.out.note_paint;
        self.out.narrate(format!("{}\n", paint.ink(Ink::Bold, &paint.wrap(line, 2))));
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
        let columns = self.out.note_paint.columns().unwrap_or(usize::MAX);
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

/// One second: what the hosts do, what came in, what each NF did. Without colours: its lines are cut.
fn page(title: &str, interval: Interval<'_>, paint: Paint) -> String {
    let wrapped = |line: &str| paint.wrap(line, 2) + "\n";
    let others: String = view::held_by_others(interval).lines().map(wrapped).collect();
    wrapped(title) + &wrapped(&streams(interval)) + &view::nfs_brief(interval, paint.without_ink()) + &others
}

/// Describes what came in by each port: bits from hosts, packets from elsewhere.
fn streams(interval: Interval<'_>) -> String {
    let stream = |port: &PortStatus| {
        let rates = interval.port(port);
        match port.kind.as_str() {
            "interface" | "tap" => {
                Some(format!("from the {} {}", port.name, units::bit_rate(rates.received_bits)))
            }
            "null" => None,
            _ => Some(format!("{} {}", port.name, units::packet_rate(rates.received))),
        }
    };
    let streams: Vec<String> = interval.after.ports.iter().filter_map(stream).collect();
    format!("in: {}", streams.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use headgate_api::status::{NfState, NfStatus, Snapshot, WorkerStatus};

    /// Three NFs on core 1 that work a quarter of the time each at most, and wait for most of the rest.
    fn after(seconds: u64) -> Snapshot {
        let nf = |name: &str, share_ns: u64, throttled| NfStatus {
            nf: name.into(),
            instance: name.into(),
            state: NfState::Running,
            pid: Some(7),
            core: 1,
            ring: 4096,
            held: 2048,
            delivered: 173_000 * seconds,
            returned: 173_000 * seconds,
            cpu_ns: share_ns * seconds,
            core_wait_ns: Some(700_000_000 * seconds),
            service_time_ns_mean: Some(361.0),
            throttled,
            drops: [("throttled".to_owned(), u64::from(throttled) * 2200 * seconds)].into(),
            ..NfStatus::default()
        };
        let port = |name: &str, kind: &str| PortStatus {
            name: name.into(),
            kind: kind.into(),
            received: 175_000 * seconds,
            received_bytes: 11_400_000 * seconds,
            ..PortStatus::default()
        };
        Snapshot {
            at_ns: seconds * 1_000_000_000,
            workers: vec![WorkerStatus::default()],
            ports: vec![
                port("generator", "generator"),
                port("left", "interface"),
                port("right", "interface"),
            ],
            nfs: vec![
                nf("firewall", 80_000_000, true),
                nf("monitor", 130_000_000, false),
                nf("router", 20_000_000, false),
            ],
            ..Snapshot::default()
        }
    }

    #[test]
    fn a_second_fits_into_80_columns() {
        let (before, after) = (after(1), after(2));
        let title = "2 s of 16: iperf3 sends TCP from left to right";
        let text = page(title, Interval::between(&before, &after), Paint::default().or_columns(80));
        let wide: Vec<&str> = text.lines().filter(|line| line.chars().count() > 80).collect();
        assert!(wide.is_empty(), "{wide:#?}");
        assert_eq!(text, include_str!("tests/second.txt"), "{text}");
    }

    /// An NF that waits while the other NFs of its core work is nobody else's victim.
    #[test]
    fn neighbours_are_not_others() {
        let (before, mut after) = (after(1), after(2));
        after.nfs[2].cpu_ns += 650_000_000;
        after.nfs[2].core_wait_ns = Some(900_000_000);
        let text = page("", Interval::between(&before, &after), Paint::default());
        assert!(!text.contains("others"), "{text}");
    }
}
