//! Succession: what an instance with a standby needs, so that the standby can go on where its process died.
//!
//! A packet that died with its process has no other copy: the receive ring is the process's to spoil, and
//! what it had taken out is in it no more. So what is given to it is noted here ([`Given`]), in the order and
//! with the extent in which it was delivered. At a death, what was returned in good order is taken as ever;
//! what is left is put into the standby's receive ring, the ends of the rings are swapped, and the standby is
//! ordered to go. That takes no lock and no memory, and the place of no packet changes: it was in the hands
//! of this instance and still is.
//!
//! Which packet is suspected of having killed its processes, and what becomes of it, is
//! [`headgate_decide::takeover`]. A packet that ends as poison leaves its buffer retired, for the standby may
//! still have to undo what was written there: it is free once the standby has returned something.

use std::collections::VecDeque;

use headgate_decide::takeover::Takeover;
use headgate_shm::Descriptor;

use crate::holders::{Holder, Records};

use super::ends::RingEnds;

/// Most buffers of poison that wait for a standby to work. Our choice: each takes three deaths; a packet
/// beyond is delivered once more.
pub(super) const RETIRED_MAX: usize = 8;

/// Packets that were given to an instance, in their order, some of which it has returned.
pub(super) struct Given {
    pub(super) entries: VecDeque<(Descriptor, u64)>,
    /// Number of the last delivery of each buffer: a buffer that came back may be given again.
    number_of: Box<[u64]>,
    /// Number of the delivery that was last.
    last: u64,
    most: usize,
    holder: Holder,
}

impl Given {
    /// Returns the notes of an instance that holds up to `held_max` packets in buffers below `indices`.
    fn new(holder: Holder, held_max: u32, indices: u32) -> Self {
        // Twice what can be held: what came back behind one that did not is sorted out now and then.
        let most = 2 * held_max as usize;
        let (entries, number_of) = (VecDeque::with_capacity(most), vec![0; indices as usize]);
        Self { entries, number_of: number_of.into_boxed_slice(), last: 0, most, holder }
    }

    /// Notes a packet as it is delivered.
    #[inline(always)]
    pub(super) fn note(&mut self, records: Records, packet: Descriptor) {
        self.forget_oldest(records);
        if self.entries.len() == self.most {
            self.sort_out(records);
        }
        self.last += 1;
        self.number_of[packet.index() as usize] = self.last;
        self.entries.push_back((packet, self.last));
    }

    /// Forgets the oldest packets if they came back, two at most: packets come back in about their order, so
    /// the notes stay as short as what is held.
    #[inline(always)]
    fn forget_oldest(&mut self, records: Records) {
        for _ in 0..2 {
            let Some(&(packet, number)) = self.entries.front() else { return };
            if is_held(self.holder, &self.number_of, records, packet, number) {
                return;
            }
            self.entries.pop_front();
        }
    }

    /// Forgets packets that came back.
    #[cold]
    pub(super) fn sort_out(&mut self, records: Records) {
        let Self { entries, number_of, holder, .. } = self;
        entries.retain(|&(packet, number)| is_held(*holder, number_of, records, packet, number));
    }
}

/// Returns whether a holder still has a packet from the delivery of this number.
#[inline(always)]
fn is_held(holder: Holder, number_of: &[u64], records: Records, packet: Descriptor, number: u64) -> bool {
    let place = records.place(packet.index());
    // A buffer that came back may have been lent to it, empty.
    place.holder() == holder && !place.is_lent() && number_of[packet.index() as usize] == number
}

/// State of an instance that has a standby, or is to have one.
pub(super) struct Succession {
    pub(super) given: Given,
    pub(super) takeover: Takeover,
    /// The standby, if one is ready.
    pub(super) standby: Option<Box<RingEnds>>,
    /// Whether its process has died, and packets wait for the next one.
    pub(super) is_dead: bool,
    /// Buffers of packets that ended as poison.
    pub(super) retired: Vec<Descriptor>,
}

impl Succession {
    /// Returns the succession of an instance whose processes returned `base` packets so far (wraps).
    pub(super) fn new(holder: Holder, base: u32, held_max: u32, indices: u32) -> Self {
        let mut takeover = Takeover::default();
        takeover.on_death(base.into(), None);
        let (given, retired) = (Given::new(holder, held_max, indices), Vec::with_capacity(RETIRED_MAX));
        Self { given, takeover, standby: None, is_dead: false, retired }
    }
}
