//! Books of packets that must have come, left and been counted.

use std::collections::{HashSet, VecDeque};

use super::{Behaviour, Checked, Missed, require};
use crate::QueueCounters;

/// The suite's own books on one device.
#[derive(Default)]
pub(super) struct Ledger {
    /// Frames on their way in.
    expected: VecDeque<Vec<u8>>,
    /// Frames that came, or that one behind them overtook.
    come: Vec<Vec<u8>>,
    /// Frames that did not come although one behind them did.
    skipped: u64,
    /// Frames that were sent and can pass.
    sent: Vec<Vec<u8>>,
    /// Frames that left.
    left: Vec<Vec<u8>>,
    counted: QueueCounters,
}

impl Ledger {
    /// Notes frames that are on their way in.
    pub(super) fn expect(&mut self, frames: impl IntoIterator<Item = Vec<u8>>) {
        self.expected.extend(frames);
    }

    /// Frames that are still on their way in.
    pub(super) fn on_their_way(&self) -> usize {
        self.expected.len()
    }

    /// Notes a frame that came; it is the next one, or those before it were lost.
    pub(super) fn came(&mut self, frame: &[u8]) -> Checked {
        self.counted.received += 1;
        self.counted.received_bytes += frame.len() as u64;
        let Some(ahead) = self.expected.iter().position(|one| one == frame) else {
            let start = &frame[..frame.len().min(24)];
            let (behaviour, what) = if self.come.iter().any(|come| come == frame) {
                (Behaviour::OrderKept, "came late or twice")
            } else {
                (Behaviour::BytesKept, "was never sent to us")
            };
            return Err(Missed(behaviour, format!("a frame of {} bytes {what}: {start:02x?}", frame.len())));
        };
        for _ in 0..ahead {
            self.come.extend(self.expected.pop_front());
        }
        self.skipped += ahead as u64;
        self.come.extend(self.expected.pop_front());
        Ok(())
    }

    /// Notes a frame that the queue took; `passes` where it is not too long for the device.
    pub(super) fn took(&mut self, frame: Vec<u8>, passes: bool) {
        if passes {
            self.counted.sent += 1;
            self.counted.sent_bytes += frame.len() as u64;
            self.sent.push(frame);
        } else {
            self.counted.failed += 1;
        }
    }

    /// Notes frames that left.
    pub(super) fn left(&mut self, frames: Vec<Vec<u8>>) {
        self.left.extend(frames);
    }

    /// Frames that were sent and have not left.
    pub(super) fn on_their_way_out(&self) -> usize {
        self.sent.len().saturating_sub(self.left.len())
    }

    /// Compares with what the queue counted before and now.
    pub(super) fn audit(&self, before: QueueCounters, now: QueueCounters) -> Checked {
        let fields = |all: QueueCounters| {
            [
                ("received", all.received),
                ("received_bytes", all.received_bytes),
                ("sent", all.sent),
                ("sent_bytes", all.sent_bytes),
                ("failed", all.failed),
                ("too_long", all.too_long),
                ("missed", all.missed),
            ]
        };
        for ((name, before), (_, now)) in fields(before).into_iter().zip(fields(now)) {
            let fell = || format!("{name} fell from {before} to {now}");
            require(now >= before, Behaviour::CountersMonotone, fell)?;
        }
        for ((name, counted), (_, wanted)) in fields(now).into_iter().zip(fields(self.counted)).take(5) {
            let wrong = || format!("{name} is {counted} where it should be {wanted}");
            require(counted == wanted, Behaviour::CountersTrue, wrong)?;
        }
        let (lost, skipped) = (now.too_long + now.missed, self.skipped);
        let silent = || format!("{skipped} frames did not come, and {lost} are counted as lost");
        require(skipped <= lost, Behaviour::NothingLost, silent)
    }

    /// Checks, when nothing comes any more, that all came but what is counted.
    pub(super) fn close_in(&mut self, now: QueueCounters) -> Checked {
        self.skipped += self.expected.drain(..).len() as u64;
        let (lost, skipped) = (now.too_long + now.missed, self.skipped);
        let silent = || format!("{skipped} frames did not come, and {lost} are counted as lost");
        require(skipped == lost, Behaviour::NothingLost, silent)
    }

    /// Checks, when nothing leaves any more, that what was sent left, in order.
    pub(super) fn close_out(&self) -> Checked {
        for (number, (left, sent)) in self.left.iter().zip(&self.sent).enumerate() {
            if left == sent {
                continue;
            }
            let known: HashSet<&Vec<u8>> = self.sent.iter().collect();
            let lost = self.sent[number..].contains(left) && !self.left.contains(sent);
            let behaviour = match (known.contains(left), lost) {
                (false, _) => Behaviour::BytesKept,
                (true, true) => Behaviour::NothingLost,
                (true, false) => Behaviour::OrderKept,
            };
            return Err(Missed(behaviour, format!("frame {number} that left is not the one that was sent")));
        }
        let (left, sent) = (self.left.len(), self.sent.len());
        require(left >= sent, Behaviour::NothingLost, || {
            format!("{left} frames left of {sent} that were sent")
        })?;
        require(left <= sent, Behaviour::BytesKept, || format!("{left} frames left and {sent} were sent"))
    }
}
