//! Packets of a generator that left, by a capture: which are missing, and when each left.

use std::path::Path;

use anyhow::Context as _;
use headgate_api::status::Snapshot;
use headgate_generator::stamp::{CYCLES_BITS, Stamp};
use headgate_wire::pcap::Records;

/// Time before a death whose packets say what a packet's delay was.
const BEFORE_NS: u64 = 100_000_000;
/// Part of a delay beyond the one before at which what waited is taken as worked off. Our choice: below what
/// a host notices, and above what a worker waits for its core.
const CAUGHT_UP_NS: f64 = 1e6;

/// Reason of packets that the port of a capture could not take.
const NOT_TAKEN: &str = "port-full";

/// Returns the packets that were to leave into a capture while the disk was behind: the bench's own fault,
/// and no loss of what it measures.
pub(crate) fn not_recorded(now: &Snapshot) -> u64 {
    now.drops.iter().filter(|drop| drop.reason == NOT_TAKEN).map(|drop| drop.count).sum()
}

/// A packet that left.
#[derive(Clone, Copy, Debug)]
struct Left {
    /// Time at which it left, in nanoseconds since 1970.
    at_ns: u64,
    /// Its number.
    sequence: u32,
    /// Cycles from the making of the first packet here to that of this one.
    cycles: u64,
    /// Time stamp counter when it was made.
    made: u64,
}

/// Packets that left, in the order in which they did.
#[derive(Debug)]
pub(crate) struct Captured {
    packets: Vec<Left>,
    ns_of_cycle: f64,
}

impl Captured {
    /// Reads those of a capture.
    ///
    /// # Errors
    /// It cannot be read, or has other packets too.
    pub fn read(file: &Path) -> anyhow::Result<Self> {
        Self::read_with(file, false)
    }

    /// Reads those of a capture whose writer was killed: it may end within a packet.
    ///
    /// # Errors
    /// As [`Captured::read`].
    pub fn read_of_killed(file: &Path) -> anyhow::Result<Self> {
        Self::read_with(file, true)
    }

    fn read_with(file: &Path, may_be_cut: bool) -> anyhow::Result<Self> {
        let bytes = std::fs::read(file).context("the packets that left cannot be read")?;
        let mut packets: Vec<Left> = Vec::new();
        let mut first = None;
        for record in Records::new(&bytes)? {
            let record = match record {
                Err(_) if may_be_cut => break,
                record => record?,
            };
            let at_ns = record.time_ns.unwrap_or_default();
            let frame = &bytes[record.bytes];
            let stamp = Stamp::find(frame, frame.len());
            let stamp = stamp.context("a frame that no generator made has left")?;
            let first = *first.get_or_insert(stamp.cycles);
            let cycles = stamp.cycles.wrapping_sub(first) & ((1 << CYCLES_BITS) - 1);
            packets.push(Left { at_ns, sequence: stamp.sequence, cycles, made: stamp.cycles });
        }
        Ok(Self::of(packets))
    }

    fn of(packets: Vec<Left>) -> Self {
        let ends = packets.first().zip(packets.last());
        let slope =
            |(first, last): (&Left, &Left)| (last.at_ns - first.at_ns) as f64 / (last.cycles.max(1) as f64);
        Self { ns_of_cycle: ends.map_or(0.0, slope), packets }
    }

    /// Returns how many numbers up to the last one are missing, from 0 on: of the generator that runs, where
    /// one before left packets that were still on their way.
    pub fn missing(&self) -> u64 {
        let begins = |pair: &[Left]| pair[1].sequence < pair[0].sequence && pair[1].made > pair[0].made;
        let first = self.packets.windows(2).rposition(begins).map_or(0, |at| at + 1);
        let packets = &self.packets[first..];
        let last = packets.iter().map(|packet| packet.sequence).max();
        let all = last.map_or(0, |last| u64::from(last) + 1);
        all.saturating_sub(packets.len() as u64 - late(packets))
    }

    /// Returns how many left again, or behind one that was made later.
    pub fn doubled(&self) -> u64 {
        late(&self.packets)
    }

    /// Returns what tells its packets from all others of this machine: when each was made, and its number.
    pub fn made(&self) -> impl Iterator<Item = (u64, u32)> {
        self.packets.iter().map(|packet| (packet.made, packet.sequence))
    }

    /// Returns the longest time between two of them, of those that left at these times and the next.
    pub fn longest_pause_ns(&self, from_ns: u64, to_ns: u64) -> Option<u64> {
        let before = self.packets.partition_point(|packet| packet.at_ns < from_ns).saturating_sub(1);
        let pauses = self.packets[before..].windows(2);
        let soon = pauses.take_while(|pair| pair[0].at_ns <= to_ns);
        soon.map(|pair| pair[1].at_ns - pair[0].at_ns).max()
    }

    /// Returns the time from a death until a packet had the delay of those before the death, of those that
    /// left when packets left again.
    pub fn caught_up_ns(&self, death_ns: u64, again_ns: u64) -> Option<u64> {
        let at = |ns: u64| self.packets.partition_point(|packet| packet.at_ns < ns);
        let death = at(death_ns);
        let before = &self.packets[at(death_ns.saturating_sub(BEFORE_NS))..death];
        // A delay, but for a number that is the same for all.
        let delay = |packet: &Left| packet.at_ns as f64 - packet.cycles as f64 * self.ns_of_cycle;
        let mut delays: Vec<f64> = before.iter().map(delay).collect();
        delays.sort_by(f64::total_cmp);
        let usual = *delays.get(delays.len() / 2)?;
        let mut after = self.packets[at(again_ns).max(death)..].iter();
        let caught_up = after.find(|packet| delay(packet) <= usual + CAUGHT_UP_NS)?;
        Some(caught_up.at_ns - death_ns)
    }
}

/// Returns how many left again, or behind one that was made later.
fn late(packets: &[Left]) -> u64 {
    let mut last = None;
    let is_late = |packet: &&Left| {
        let made = Some((packet.made, packet.sequence));
        let is_late = made <= last;
        last = last.max(made);
        is_late
    };
    packets.iter().filter(is_late).count() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// A packet each millisecond, of 1000 cycles; those made while nothing leaves leave together afterwards.
    fn with_a_pause(from: u64, to: u64) -> Vec<Left> {
        let left = |number: u64| {
            let at = if (from..to).contains(&number) { to } else { number };
            Left { at_ns: at * MS, sequence: number as u32, cycles: number * 1000, made: number * 1000 }
        };
        (0..1000).map(left).collect()
    }

    #[test]
    fn what_is_missing_or_doubled_is_counted() {
        let mut packets = with_a_pause(500, 540);
        assert_eq!(
            (Captured::of(packets.clone()).missing(), Captured::of(packets.clone()).doubled()),
            (0, 0)
        );
        packets.remove(300);
        packets.insert(700, packets[650]);
        let captured = Captured::of(packets);
        assert_eq!((captured.missing(), captured.doubled()), (1, 1));
        assert_eq!(Captured::of(Vec::new()).missing(), 0);
    }

    #[test]
    fn a_generator_that_begins_anew_is_told_from_one_that_goes_back() {
        // 200 packets of the one before were on their way; of its own the fifth is missing.
        let mut packets = with_a_pause(0, 0).split_off(800);
        let again =
            with_a_pause(0, 0).into_iter().map(|packet| Left { made: packet.made + 2_000_000, ..packet });
        packets.extend(again);
        packets.remove(205);
        let captured = Captured::of(packets);
        assert_eq!((captured.missing(), captured.doubled()), (1, 0));
        assert_eq!(captured.made().next(), Some((800_000, 800)));
    }

    #[test]
    fn a_pause_ends_and_what_waited_is_worked_off() {
        let captured = Captured::of(with_a_pause(500, 540));
        assert_eq!(captured.longest_pause_ns(490 * MS, 520 * MS), Some(41 * MS));
        assert_eq!(captured.longest_pause_ns(600 * MS, 700 * MS), Some(MS));
        // The last of those that waited is a millisecond late.
        assert_eq!(captured.caught_up_ns(499 * MS + 1, 540 * MS).map(|ns| ns / MS), Some(40));
        assert_eq!(captured.caught_up_ns(700 * MS, 2000 * MS), None);
    }
}
