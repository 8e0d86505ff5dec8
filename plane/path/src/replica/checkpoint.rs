//! Checkpoints of a group between two nodes: state of all NFs, in parts, and its end, which says whether all
//! of it came.

use headgate_decide::replicate::{Cut, Epoch, Peer, View};
use headgate_wire::replica::{Kind, Message, Part, StateEnd, StateSum, sum_of_state};

use crate::BURST;
use crate::ledger::Ledger;

use super::codec::cut_out;
use super::common::{Clock, States};
use super::link::{Links, PART_BYTES};

/// Bytes of the end of a checkpoint: a cut, and sums of up to 64 NFs.
const END_BYTES: usize = 1024;
/// Maximum number of bytes of a commit: the entries of a whole journal.
pub(super) const COMMIT_BYTES_MAX: u32 = 1 << 20;

/// Message of parts that is being put together.
#[derive(Default)]
pub(crate) struct Assembly {
    bytes: Vec<u8>,
    /// Whether each part of [`PART_BYTES`] is there, and how many are not.
    has: Vec<bool>,
    missing: usize,
}

impl Assembly {
    /// Takes a part, of a message of at most so many bytes. Returns whether it could be one.
    pub fn take(&mut self, part: &Part, bytes_max: u32) -> bool {
        let (offset, total) = (part.offset as usize, part.total as usize);
        let expected = total.saturating_sub(offset).min(PART_BYTES);
        let is_sound = offset.is_multiple_of(PART_BYTES) && part.bytes.len() == expected;
        if !is_sound || part.total > bytes_max {
            return false;
        }
        if self.bytes.len() != total || self.has.is_empty() {
            self.missing = total.div_ceil(PART_BYTES).max(1);
            self.bytes.clear();
            self.bytes.resize(total, 0);
            self.has.clear();
            self.has.resize(self.missing, false);
        }
        let Some(has) = self.has.get_mut(offset / PART_BYTES) else { return false };
        self.bytes[offset..offset + expected].copy_from_slice(part.bytes);
        self.missing -= usize::from(!std::mem::replace(has, true));
        true
    }

    /// Returns the message, if all of it came.
    pub fn whole(&self) -> Option<&[u8]> {
        (self.missing == 0 && !self.has.is_empty()).then_some(&self.bytes)
    }

    pub fn clear(&mut self) {
        self.bytes.clear();
        self.has.clear();
        self.missing = 0;
    }
}

/// Parts of a message of so many bytes: the first byte and the length of each.
pub(crate) fn parts(total: usize) -> impl Iterator<Item = (usize, usize)> {
    let count = total.div_ceil(PART_BYTES).max(1);
    (0..count).map(move |part| (part * PART_BYTES, (total - part * PART_BYTES).min(PART_BYTES)))
}

/// Checkpoint that the active node made.
pub(crate) struct Outgoing {
    pub epoch: Epoch,
    /// The checkpoint that it rests on.
    base: Option<Epoch>,
    states: States,
    /// Where it is sent to, while it is.
    sending: Option<Sending>,
}

struct Sending {
    to: Peer,
    view: View,
    cut: Cut,
    nf: usize,
    offset: usize,
}

impl Outgoing {
    pub const fn new(epoch: Epoch, base: Option<Epoch>, states: States) -> Self {
        Self { epoch, base, states, sending: None }
    }

    /// Sends all of it, unless it is being sent.
    pub fn begin(&mut self, to: Peer, view: View, cut: Cut) {
        if self.sending.as_ref().is_none_or(|sending| sending.view != view) {
            self.sending = Some(Sending { to, view, cut, nf: 0, offset: 0 });
        }
    }

    /// Sends some parts, as many as the link takes of a burst.
    pub fn send_some(&mut self, clock: Clock, ledger: &mut Ledger, links: &mut Links) {
        let Some(mut sending) = self.sending.take() else { return };
        for _ in 0..BURST {
            let Some(state) = self.states.get(sending.nf) else {
                return self.send_end(clock, ledger, links, sending);
            };
            let end = state.len().min(sending.offset + PART_BYTES);
            let part = Part {
                offset: sending.offset as u32,
                total: state.len() as u32,
                bytes: &state[sending.offset..end],
            };
            let mut header = links.header(Kind::State, sending.view.0);
            (header.lane, header.seq) = (sending.nf as u16, self.epoch.0);
            if !links.send(clock.ticks, ledger, sending.to, header, &Message::Part(part)) {
                break;
            }
            sending.offset = end;
            if end == state.len() {
                (sending.nf, sending.offset) = (sending.nf + 1, 0);
            }
        }
        self.sending = Some(sending);
    }

    fn send_end(&mut self, clock: Clock, ledger: &mut Ledger, links: &mut Links, sending: Sending) {
        let sums = self.states.iter().enumerate().map(|(nf, state)| StateSum {
            nf: nf as u16,
            bytes: state.len() as u32,
            crc: sum_of_state(state),
        });
        let (mut room, base) = ([0; END_BYTES], self.base.map_or(0, |base| base.0));
        let Ok(length) = StateEnd::write(&mut room, &cut_out(&sending.cut), base, sums) else { return };
        let part = Part { offset: 0, total: length as u32, bytes: &room[..length] };
        let mut header = links.header(Kind::StateEnd, sending.view.0);
        header.seq = self.epoch.0;
        if !links.send(clock.ticks, ledger, sending.to, header, &Message::Part(part)) {
            self.sending = Some(sending);
        }
    }
}

/// Checkpoint that comes to a standby.
pub(crate) struct Incoming {
    pub view: View,
    pub epoch: Epoch,
    states: Vec<Assembly>,
    /// Maximum number of bytes of each.
    bytes_max: u32,
}

impl Incoming {
    pub fn new(view: View, epoch: Epoch, nfs: usize, bytes_max: u32) -> Self {
        Self { view, epoch, states: (0..nfs).map(|_| Assembly::default()).collect(), bytes_max }
    }

    /// Takes a part of one NF's state. Returns whether it could be one.
    pub fn take(&mut self, nf: u16, part: &Part) -> bool {
        self.states.get_mut(usize::from(nf)).is_some_and(|state| state.take(part, self.bytes_max))
    }

    /// Returns whether everything is there, as its end says. What has another sum is asked for anew by not
    /// being answered.
    pub fn is_whole(&mut self, end: &StateEnd) -> bool {
        let mut count = 0;
        for sum in end.sums() {
            let Some(state) = self.states.get_mut(usize::from(sum.nf)) else { return false };
            let is_right = state
                .whole()
                .is_some_and(|bytes| bytes.len() == sum.bytes as usize && sum_of_state(bytes) == sum.crc);
            if !is_right {
                if state.whole().is_some() {
                    state.clear();
                }
                return false;
            }
            count += 1;
        }
        count == self.states.len()
    }

    /// Returns what was copied, all of which is there.
    pub fn into_states(self) -> States {
        self.states.into_iter().map(|state| state.bytes).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_whole_when_every_part_came_in_any_order() {
        let message: Vec<u8> = (0..PART_BYTES * 2 + 7).map(|at| at as u8).collect();
        let all: Vec<_> = parts(message.len()).collect();
        assert_eq!(all.len(), 3);
        let mut assembly = Assembly::default();
        for at in [2, 0, 0, 1] {
            assert!(assembly.whole().is_none());
            let (offset, length) = all[at];
            let bytes = &message[offset..offset + length];
            let part = Part { offset: offset as u32, total: message.len() as u32, bytes };
            assert!(assembly.take(&part, 1 << 20));
        }
        assert_eq!(assembly.whole(), Some(&message[..]));
    }

    #[test]
    fn an_empty_message_has_one_part() {
        let mut assembly = Assembly::default();
        assert_eq!(parts(0).collect::<Vec<_>>(), [(0, 0)]);
        assert!(assembly.take(&Part { offset: 0, total: 0, bytes: &[] }, 9));
        assert_eq!(assembly.whole(), Some(&[][..]));
    }

    #[test]
    fn a_part_that_cannot_be_is_refused() {
        let take =
            |offset, total, bytes: &[u8]| Assembly::default().take(&Part { offset, total, bytes }, 10_000);
        assert!(!take(1, 9, &[0; 8]), "not where a part begins");
        assert!(!take(0, 9, &[0; 8]), "shorter than its part");
        assert!(!take(0, 20_000, &[0; PART_BYTES]), "longer than any message");
        assert!(take(0, 9, &[0; 9]));
    }

    #[test]
    fn a_checkpoint_with_a_wrong_sum_is_not_whole() {
        let end = |crc| {
            let mut room = [0; 64];
            let sums = [StateSum { nf: 0, bytes: 4, crc }];
            let length =
                StateEnd::write(&mut room, &headgate_wire::replica::Cut::default(), 0, sums).unwrap();
            room[..length].to_vec()
        };
        let mut incoming = Incoming::new(View(1), Epoch(1), 1, 4);
        let (right, wrong) = (end(sum_of_state(b"abcd")), end(7));
        let part = Part { offset: 0, total: 4, bytes: b"abcd" };
        assert!(!incoming.is_whole(&StateEnd::read(&right).unwrap()), "nothing came");
        assert!(incoming.take(0, &part) && !incoming.take(1, &part), "there is one NF");
        assert!(!incoming.take(0, &Part { offset: 0, total: 5, bytes: b"abcde" }), "no NF has so much");
        assert!(!incoming.is_whole(&StateEnd::read(&wrong).unwrap()));
        assert!(incoming.take(0, &part));
        assert!(incoming.is_whole(&StateEnd::read(&right).unwrap()));
        assert_eq!(incoming.into_states(), [b"abcd".to_vec()]);
    }
}
