//! Tap: what one watcher wants of the packets of a worker, and the ring that it gets them by.

use std::sync::Arc;

use headgate_shm::{Descriptor, Region};
use headgate_units::{ChainId, RegionId, Ticks};
use headgate_wire::ethernet::{self, ethertype};
use headgate_wire::nsh::{Header, next_protocol};

use super::bpf::{Filter, Instruction};
use super::picks::{InstanceSet, Picks};
use super::record::{At, Record, Step, origin_bytes};
use super::ring::RecordWriter;
use crate::board::Station;
use crate::holders::Place;

/// Bytes of a frame that a filter sees. Our choice: all headers, options and extension headers included, of
/// what filters ask for; a load behind them matches nothing.
const FILTER_BYTES: usize = 512;
/// Most bytes of a frame that are kept: those of the longest one.
pub const KEPT_BYTES_MAX: usize = 1 << 17;

/// Steps of a packet's way that a tap records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Steps(u16);

impl Steps {
    /// Every station, and every end.
    pub const ALL: Self = Self(u16::MAX);
    /// The stations of a chain: from `admit` on.
    pub const OF_CHAIN: Self = Self(!(1 << Station::Arrive as u16 | 1 << Station::Classify as u16));
    /// Arrivals, and the stations of all chains.
    pub const WHOLE: Self = Self(!(1 << Station::Classify as u16));
    /// The ways to end: out of a port, or for a reason.
    pub const ENDS: Self = Self(1 << Station::Emit as u16 | Self::DROPS.0);
    /// The ends for a reason.
    pub const DROPS: Self = Self(1 << Step::ENDS);

    const fn has(self, step: Step) -> bool {
        self.has_kind(step.kind())
    }

    const fn has_kind(self, kind: usize) -> bool {
        self.0 >> kind & 1 != 0
    }
}

/// Choice of packets.
pub struct Wanted {
    /// Steps that are recorded.
    pub steps: Steps,
    /// Chain; `None`: all.
    pub chain: Option<ChainId>,
    /// Instances; `None`: all, and stations that are no instance's.
    pub instances: Option<Arc<InstanceSet>>,
    /// Filter of frames, as they are at each station; of a picked packet as it arrived.
    pub filter: Option<Filter<Box<[Instruction]>>>,
    /// Most bytes of each frame that are kept.
    pub bytes: u32,
    /// Where packets are followed: those that are, of all that match when they arrive.
    pub picks: Option<Arc<Picks>>,
}

/// Packets at one step.
#[derive(Clone, Copy)]
pub(crate) struct Seen<'a> {
    pub step: Step,
    pub at: At,
    pub region: RegionId,
    pub memory: &'a Region,
    pub time: Ticks,
}

impl Seen<'_> {
    /// Copies the first bytes of a packet out. A descriptor that names none, as of a buffer that was taken
    /// back from a dead NF, has none.
    fn read(&self, packet: Descriptor, into: &mut [u8]) -> usize {
        if self.memory.geometry().check(packet).is_err() { 0 } else { self.memory.read(packet, into) }
    }
}

/// What one watcher wants, and its ring.
pub struct Tap {
    wanted: Wanted,
    ring: RecordWriter,
    frame: Box<[u8]>,
}

impl Tap {
    /// Returns a tap that puts its records into a ring.
    #[must_use]
    pub fn new(wanted: Wanted, ring: RecordWriter) -> Self {
        let bytes = (wanted.bytes as usize).clamp(FILTER_BYTES, KEPT_BYTES_MAX);
        Self { wanted, ring, frame: vec![0; bytes].into_boxed_slice() }
    }

    /// Returns whether a packet is being followed, so that no step of it may be missed.
    pub(super) fn follows(&self) -> bool {
        self.wanted.picks.as_ref().is_some_and(|picks| picks.out() > 0)
    }

    fn wants(&self, at: At, place: Place) -> bool {
        let in_chain = self.wanted.chain.is_none_or(|chain| place.chain() == chain);
        let here = match (&self.wanted.instances, at) {
            (None, _) => true,
            (Some(set), At::Instance(number)) => set.has(number),
            (Some(_), _) => false,
        };
        in_chain && here
    }

    /// Returns whether packets that are not looked at are counted one by one, by chain or instance.
    pub(super) const fn is_choosy(&self) -> bool {
        self.wanted.picks.is_none() && (self.wanted.chain.is_some() || self.wanted.instances.is_some())
    }

    /// Counts packets by kind of step, which there was no time to look at.
    pub(super) fn miss_all(&mut self, unseen: &[u64; Step::KINDS]) {
        let missed = match &self.wanted.picks {
            Some(picks) if picks.left() > 0 => unseen[Step::Passed(Station::Arrive).kind()],
            Some(_) => 0,
            None => {
                (0..).zip(unseen).filter(|(kind, _)| self.wanted.steps.has_kind(*kind)).map(|(_, n)| n).sum()
            }
        };
        if missed > 0 {
            self.ring.count_unseen(missed);
        }
    }

    /// Counts packets at a step, which there is no time to look at.
    pub(super) fn miss(&mut self, step: Step, at: At, places: &[Place]) {
        match &self.wanted.picks {
            Some(picks) if picks.left() > 0 && step == Step::Passed(Station::Arrive) => {
                self.ring.count_unseen(places.len() as u64);
            }
            None if self.wanted.steps.has(step) => {
                let missed = match (self.wanted.chain, &self.wanted.instances) {
                    (None, None) => places.len(),
                    _ => places.iter().filter(|place| self.wants(at, **place)).count(),
                };
                self.ring.count_unseen(missed as u64);
            }
            _ => {}
        }
    }

    /// Counts packets of one place at a step.
    pub(super) fn miss_run(&mut self, step: Step, at: At, place: Place, packets: usize) {
        if self.wanted.picks.is_none() && self.wanted.steps.has(step) && self.wants(at, place) {
            self.ring.count_unseen(packets as u64);
        }
    }

    /// Records the packets at a step that are wanted.
    pub(super) fn look(&mut self, seen: Seen<'_>, packets: &[Descriptor], places: &[Place]) {
        if self.wanted.picks.is_some() {
            return packets.iter().zip(places).for_each(|(packet, place)| self.follow(seen, *packet, *place));
        }
        if !self.wanted.steps.has(seen.step) {
            return;
        }
        for (&packet, &place) in packets.iter().zip(places) {
            if self.wants(seen.at, place) && self.matches(seen, packet) {
                self.put(seen, packet, place);
            }
        }
    }

    /// Returns whether the filter takes a packet as it is now, or the frame behind its service header.
    fn matches(&mut self, seen: Seen<'_>, packet: Descriptor) -> bool {
        let Some(filter) = &self.wanted.filter else { return true };
        let head = &mut self.frame[..FILTER_BYTES];
        let count = seen.read(packet, head);
        let head = &head[..count];
        filter.matches(head, packet.length())
            || inside(head).is_some_and(|at| filter.matches(&head[at..], packet.length() - at as u32))
    }

    fn put(&mut self, seen: Seen<'_>, packet: Descriptor, place: Place) {
        let bytes = (self.wanted.bytes as usize).min(self.frame.len());
        let kept = seen.read(packet, &mut self.frame[..bytes]);
        self.ring.put(record(seen, packet, place), &self.frame[..kept]);
    }

    /// Records a packet that is followed, or begins to follow it when it arrives.
    fn follow(&mut self, seen: Seen<'_>, packet: Descriptor, place: Place) {
        let Some(picks) = self.wanted.picks.clone() else { return };
        let (region, index) = (seen.region, packet.index());
        let was_picked = picks.has(region, index);
        if seen.step == Step::Passed(Station::Arrive) {
            if was_picked {
                self.ring.put(record(Seen { step: Step::Gone, ..seen }, packet, place), &[]);
                picks.forget(region, index);
            }
            if picks.left() > 0 && self.matches(seen, packet) && picks.pick(region, index) {
                self.put(seen, packet, place);
            }
            return;
        }
        if !was_picked {
            return;
        }
        if self.wanted.chain.is_some_and(|chain| place.chain() != chain) {
            self.ring.put(record(Seen { step: Step::Other, ..seen }, packet, place), &[]);
            return picks.take_back(region, index);
        }
        self.put(seen, packet, place);
        if matches!(seen.step, Step::Passed(Station::Emit) | Step::Ended(_)) {
            picks.forget(region, index);
        }
    }

    /// Follows a packet to the buffer of another region that it was copied to.
    pub(super) fn copied(&mut self, to: Seen<'_>, copy: Descriptor, place: Place, from: (RegionId, u32)) {
        let Some(picks) = self.wanted.picks.as_ref().filter(|picks| picks.has(from.0, from.1)) else {
            return;
        };
        picks.follow(from, (to.region, copy.index()));
        self.ring.put(record(to, copy, place), &origin_bytes(from.0, from.1));
    }
}

const fn record(seen: Seen<'_>, packet: Descriptor, place: Place) -> Record {
    let Seen { step, at, region, time, .. } = seen;
    Record { step, at, region, packet, place, time, kept: 0 }
}

/// Returns where the frame begins that lies behind a service header (RFC 8300); `None` where there is none.
fn inside(head: &[u8]) -> Option<usize> {
    const NSH: [u8; 2] = ethertype::NSH.to_be_bytes();
    let behind = head.get(ethernet::HEADER_LENGTH..)?;
    if head[ethernet::HEADER_LENGTH - 2..ethernet::HEADER_LENGTH] != NSH {
        return None;
    }
    let base = Header::new(behind).ok()?.base();
    let at = ethernet::HEADER_LENGTH + base.length();
    (base.next_protocol() == next_protocol::ETHERNET && at <= head.len()).then_some(at)
}
