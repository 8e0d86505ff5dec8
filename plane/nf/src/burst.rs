//! A burst: the packets an NF works on in one call.

use std::iter::Zip;
use std::rc::Rc;
use std::slice;

use headgate_shm::descriptor::{ARGUMENT_COUNT, Descriptor};
use headgate_shm::ring::{Consumer, RingIndexError};
use headgate_shm::{Region, TimesView, Verdict};

use crate::context::Port;
use crate::packet::Packet;
use crate::saver::Saver;
use crate::state::core::Core;

/// Most packets in a burst. Our choice: the packets an NF is to see fit one word, the descriptors eight cache
/// lines, and what is paid once a burst (two ring indices, a check of the orders, a read of the TSC) is
/// spread over enough packets not to be noticed; twice as many would only let the first one wait longer.
pub const BURST_MAX: usize = u64::BITS as usize;

/// The tag of a packet that is to be held. It names no port and no stage, and reads as a drop: a later NF of
/// the process does not see the packet.
pub(crate) const HELD: u32 = Verdict::Drop.encode() | (ARGUMENT_COUNT - 1);

/// Packets to work on, each with a verdict that starts as [`Verdict::Next`].
///
/// In a process of several NFs a later one sees only packets on which the earlier ones gave no other
/// verdict.
pub struct Burst {
    region: Region,
    /// As they came: the tag is the port of entry.
    received: [Descriptor; BURST_MAX],
    /// As they go: the tag is the verdict.
    packets: [Descriptor; BURST_MAX],
    count: usize,
    /// A bit for each packet the NF at work is to see.
    visible: u64,
    /// Saves packets before they change, where a standby may be given them again.
    saver: Option<Saver>,
    /// Times of packets, where they have their own, and that of these.
    times: Option<TimesView>,
    time_us: u64,
}

impl Burst {
    pub(crate) const fn new(region: Region) -> Self {
        let empty = [Descriptor(0); BURST_MAX];
        Self {
            region,
            received: empty,
            packets: empty,
            count: 0,
            visible: 0,
            saver: None,
            times: None,
            time_us: 0,
        }
    }

    /// Has each burst be of packets of one time: these are their times.
    pub(crate) fn go_by(&mut self, times: TimesView) {
        self.times = Some(times);
    }

    /// Returns the time of its packets in microseconds, where they have one of their own.
    #[inline(always)]
    pub(crate) fn time_us(&self) -> Option<u64> {
        self.times.as_ref().map(|_| self.time_us)
    }

    /// Lets packets be saved before they change, if they are to be.
    pub(crate) fn save_by(&mut self, core: &Rc<Core>) {
        self.saver = core.saves_packets().then(|| Saver::new(core.clone(), &self.region));
    }

    /// Returns whether its packets lie in this region.
    pub(crate) fn is_of(&self, region: &Region) -> bool {
        self.region.buffer(0) == region.buffer(0)
    }

    /// Takes the next packets out of the ring; returns how many.
    #[inline]
    pub(crate) fn fill(&mut self, ring: &mut Consumer) -> Result<usize, RingIndexError> {
        self.fill_up_to(BURST_MAX, ring)
    }

    /// Takes up to `most` packets out of the ring; returns how many.
    #[inline(always)]
    pub(crate) fn fill_up_to(&mut self, most: usize, ring: &mut Consumer) -> Result<usize, RingIndexError> {
        if self.times.is_some() {
            return self.fill_of_one_time(most, ring);
        }
        let mut slots = self.received.iter_mut().zip(&mut self.packets);
        let open =
            |came: Descriptor| slots.next().map(|(received, packet)| open(received, packet, came)).is_some();
        let count = ring.take_while(most, open)?;
        self.show(count);
        Ok(count)
    }

    /// Takes up to `most` packets out of the ring, up to the first of another time than the first one.
    fn fill_of_one_time(&mut self, most: usize, ring: &mut Consumer) -> Result<usize, RingIndexError> {
        let mut slots = self.received.iter_mut().zip(&mut self.packets);
        let mut first = None;
        let count = ring.take_while(most, |came| {
            let time = self.times.as_ref().map_or(0, |times| times.of(came.index()));
            let is_of_it = *first.get_or_insert(time) == time;
            is_of_it && slots.next().map(|(received, packet)| open(received, packet, came)).is_some()
        })?;
        self.time_us = first.unwrap_or(self.time_us);
        self.show(count);
        Ok(count)
    }

    /// Takes these packets, at most [`BURST_MAX`].
    pub(crate) fn load(&mut self, packets: &[Descriptor]) {
        let slots = self.received.iter_mut().zip(&mut self.packets);
        slots.zip(packets).for_each(|((received, packet), came)| open(received, packet, *came));
        self.show(packets.len());
    }

    /// Takes packets that were worked on before: each as it goes and as it came. Returns how many.
    pub(crate) fn refill(&mut self, packets: impl Iterator<Item = (Descriptor, Descriptor)>) -> usize {
        let mut count = 0;
        for (place, (packet, received)) in packets.take(BURST_MAX).enumerate() {
            self.packets[place] = packet.with_tag(Verdict::NEXT);
            self.received[place] = received;
            count = place + 1;
        }
        self.show(count);
        count
    }

    /// Takes out the packets marked as [`HELD`] for which `take` finds a place; it is given each as it goes
    /// and as it came. The others go on.
    pub(crate) fn take_held(&mut self, mut take: impl FnMut(Descriptor, Descriptor) -> bool) {
        let mut kept = 0;
        for place in 0..self.count {
            let (mut packet, received) = (self.packets[place], self.received[place]);
            if packet.tag() == HELD {
                packet = packet.with_tag(Verdict::NEXT);
                if take(packet, received) {
                    continue;
                }
            }
            (self.packets[kept], self.received[kept]) = (packet, received);
            kept += 1;
        }
        self.show(kept);
    }

    #[inline(always)]
    fn show(&mut self, count: usize) {
        self.count = count;
        self.visible = u64::MAX.checked_shr((BURST_MAX - count) as u32).unwrap_or(0);
    }

    /// Asks the cache for every packet's first line.
    #[inline(always)]
    pub(crate) fn prefetch(&self) {
        for packet in &self.packets[..self.count] {
            self.region.prefetch(*packet);
        }
    }

    /// Hides the packets that have their verdict; true when any is left.
    #[inline]
    pub(crate) fn hide_decided(&mut self) -> bool {
        let tags = self.packets[..self.count].iter().fold(0, |tags, packet| tags | packet.tag());
        if tags != Verdict::NEXT {
            let bits = self.packets[..self.count].iter().enumerate();
            self.visible =
                bits.fold(0, |set, (bit, packet)| set | u64::from(packet.tag() == Verdict::NEXT) << bit);
        }
        self.visible != 0
    }

    /// Returns all packets with their verdicts, to return to the manager.
    #[inline(always)]
    pub(crate) fn decided(&self) -> &[Descriptor] {
        &self.packets[..self.count]
    }

    /// Returns the number of packets to work on, at most [`BURST_MAX`].
    #[inline(always)]
    #[must_use]
    pub const fn len(&self) -> usize {
        self.visible.count_ones() as usize
    }

    /// Whether there is none.
    #[inline(always)]
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.visible == 0
    }

    /// The packets, in the order in which they came.
    #[inline(always)]
    pub fn packets(&mut self) -> Packets<'_> {
        Packets {
            pairs: self.packets[..self.count].iter_mut().zip(&self.received),
            visible: self.visible,
            region: &self.region,
            saver: self.saver.as_ref(),
        }
    }

    /// Sends every packet out of this port, without reading any.
    #[inline]
    pub fn send_all_to(&mut self, port: Port) {
        let verdict = Verdict::Port(port.number());
        if self.len() == self.count {
            for packet in &mut self.packets[..self.count] {
                *packet = packet.with_verdict(verdict);
            }
        } else {
            self.packets().for_each(|mut packet| packet.set_verdict(verdict));
        }
    }
}

/// Takes a packet as it came: no NF has given a verdict on it yet.
#[inline(always)]
const fn open(received: &mut Descriptor, packet: &mut Descriptor, came: Descriptor) {
    *received = came;
    *packet = came.with_tag(Verdict::NEXT);
}

/// The packets of a burst.
pub struct Packets<'a> {
    pairs: Zip<slice::IterMut<'a, Descriptor>, slice::Iter<'a, Descriptor>>,
    visible: u64,
    region: &'a Region,
    saver: Option<&'a Saver>,
}

impl<'a> Iterator for Packets<'a> {
    type Item = Packet<'a>;

    #[inline(always)]
    fn next(&mut self) -> Option<Packet<'a>> {
        while self.visible != 0 {
            let is_visible = self.visible & 1 != 0;
            self.visible >>= 1;
            let (descriptor, received) = self.pairs.next()?;
            if is_visible {
                let (region, saver) = (self.region, self.saver);
                return Some(Packet { descriptor, received: *received, region, saver });
            }
        }
        None
    }

    #[inline(always)]
    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.visible.count_ones() as usize;
        (left, Some(left))
    }
}

impl ExactSizeIterator for Packets<'_> {}

impl<'a> IntoIterator for &'a mut Burst {
    type Item = Packet<'a>;
    type IntoIter = Packets<'a>;

    #[inline(always)]
    fn into_iter(self) -> Packets<'a> {
        self.packets()
    }
}

#[cfg(test)]
mod tests;
