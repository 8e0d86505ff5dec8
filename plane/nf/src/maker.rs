//! Packets that an NF makes: answers, resets, probes, copies.
//!
//! An NF owns no buffer. One that makes packets asks at its start how many empty ones it wants to be lent
//! ([`Context::maker`](crate::Context::maker)), has so many from then on, and writes its packets in place.
//! What it used is replaced within a pass of the manager's worker, some microseconds; until then there may be
//! none left, and [`MakeError::NoneLent`] says so: an NF drops its answer then, as a router does that has no
//! buffer.
//!
//! ```no_run
//! use headgate_nf::{Burst, Context, Counter, NfError, MakeError, Maker, NetworkFunction, Way};
//!
//! /// Sends each frame back to where it came from, and a copy of it on.
//! struct Mirror {
//!     maker: Maker,
//!     missed: Counter,
//! }
//!
//! impl NetworkFunction for Mirror {
//!     fn process(&mut self, burst: &mut Burst, _: &mut Context) {
//!         for mut packet in burst.packets() {
//!             let copy = self.maker.after(&packet, Way::Next, packet.len(), |frame| {
//!                 frame.copy_from_slice(packet.data());
//!             });
//!             if let Err(MakeError::NoneLent) = copy {
//!                 self.missed.add(1);
//!             }
//!             packet.send_to(packet.ingress());
//!         }
//!     }
//! }
//!
//! fn main() -> std::process::ExitCode {
//!     headgate_nf::run(|context: &mut Context| -> Result<_, NfError> {
//!         Ok(Mirror { maker: context.maker(64)?, missed: context.counter("missed")? })
//!     })
//! }
//! ```
//!
//! A made packet leaves right behind the packet it follows, and is counted in that one's chain, as `made`.
//! One that is made by itself, in a timer, is best given a chain by name ([`Way::Chain`]); without one it
//! goes the way of the packet that the NF returned last.
//!
//! In a process of several NFs those behind the maker see its packets too, after the burst in which they were
//! made; those before it do not.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use headgate_shm::control::LENT_MAX;
use headgate_shm::descriptor::Descriptor;
use headgate_shm::geometry::{FRAME_BYTES_MIN, HEADROOM_BYTES};
use headgate_shm::ring::Consumer;
use headgate_shm::{Region, Verdict};

use crate::context::{Port, Stage};
use crate::packet::Packet;

/// A chain that visits the NF.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Chain(pub(crate) u16);

impl Chain {
    /// Its number.
    #[must_use]
    pub const fn number(self) -> u16 {
        self.0
    }
}

/// Way that a made packet takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// On along the chain of the packet it follows.
    Next,
    /// On along this chain, from the stage behind the NF.
    Chain(Chain),
    /// Out of this port. Back the way a packet came is [`Packet::ingress`].
    Port(Port),
    /// To this stage of the chain.
    Stage(Stage),
}

impl Way {
    const fn tag(self) -> u32 {
        match self {
            Self::Next => Verdict::NEXT,
            // Numbers that fit no tag are never told to an NF.
            Self::Chain(Chain(number)) => match Verdict::onto_chain(number) {
                Some(tag) => tag,
                None => Verdict::Drop.encode(),
            },
            Self::Port(Port(number)) => Verdict::Port(number).encode(),
            Self::Stage(Stage(number)) => Verdict::Stage(number).encode(),
        }
    }

    /// Returns the way that a tag names, none for a drop.
    pub(crate) const fn of_tag(tag: u32) -> Option<Self> {
        match (Verdict::chain_of(tag), Verdict::decode(tag)) {
            (Some(chain), _) => Some(Self::Chain(Chain(chain))),
            (None, Verdict::Next) => Some(Self::Next),
            (None, Verdict::Port(port)) => Some(Self::Port(Port(port))),
            (None, Verdict::Stage(stage)) => Some(Self::Stage(Stage(stage))),
            (None, Verdict::Drop) => None,
        }
    }
}

/// Reason why a packet was not made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MakeError {
    /// No buffer is left: all that the NF is lent are used, and are replaced within microseconds.
    #[error("no buffer is lent now; go on without the packet, and count it")]
    NoneLent,
    /// The length is that of no frame that fits a buffer.
    #[error("a frame has {FRAME_BYTES_MIN} to {most} bytes here, not {asked}")]
    Length {
        /// Bytes that were asked for.
        asked: usize,
        /// Bytes of the longest frame.
        most: usize,
    },
    /// The packet was to be made and dropped.
    #[error("a packet that is made goes somewhere: on, to a stage, or out of a port")]
    Nowhere,
    /// The packet to follow is none of the burst at hand.
    #[error("the packet to follow is not one of the burst at hand")]
    NotHere,
}

/// Reason why an NF cannot make packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "an NF can be lent 1 to {LENT_MAX} buffers, not {asked}; ask for as many packets as it makes for one burst"
)]
pub struct MakerError {
    /// Buffers that were asked for.
    pub asked: u32,
}

/// Makes packets in buffers that the manager lends.
#[derive(Clone)]
pub struct Maker {
    pub(crate) made: Rc<RefCell<Made>>,
    /// Index of this NF in the process.
    pub(crate) owner: usize,
}

impl Maker {
    /// Makes a packet of `length` bytes that leaves right behind another of the burst at hand, whatever
    /// becomes of that one. `fill` writes the frame, which is all zeroes.
    ///
    /// # Errors
    /// [`MakeError`]; `fill` was not called.
    pub fn after(
        &self,
        packet: &Packet<'_>,
        way: Way,
        length: usize,
        fill: impl FnOnce(&mut [u8]),
    ) -> Result<(), MakeError> {
        let follows = Some((packet.descriptor.index(), packet.ingress()));
        self.make(follows, way, length).map(|mut frame| fill(frame.packet().data_mut()))
    }

    /// Makes a packet by itself, in a timer or for a message. With [`Way::Next`] it goes on as the packet
    /// that the NF returned last did, and along the first chain that visits the NF if there was none yet.
    ///
    /// # Errors
    /// As [`Maker::after`].
    pub fn alone(&self, way: Way, length: usize, fill: impl FnOnce(&mut [u8])) -> Result<(), MakeError> {
        self.make(None, way, length).map(|mut frame| fill(frame.packet().data_mut()))
    }

    /// Makes a packet all of zeroes, which follows the one whose buffer lies here and that came by the port
    /// of this number; returns its first byte. Where it goes is a verdict, encoded, or a chain
    /// ([`Verdict::onto_chain`]). For bindings to other languages. Writing through the pointer is sound while
    /// the burst is at hand.
    ///
    /// # Errors
    /// As [`Maker::after`]; [`MakeError::NotHere`] where no buffer of the burst lies there.
    pub fn make_at(
        &self,
        follows: Option<(*const u8, u16)>,
        tag: u16,
        length: usize,
    ) -> Result<*mut u8, MakeError> {
        let region = self.made.borrow().region.clone().ok_or(MakeError::NoneLent)?;
        let index = |buffer: *const u8| {
            let stride = region.geometry().stride() as usize;
            let offset = buffer.addr().wrapping_sub(region.buffer(0).addr());
            let is_one = offset.is_multiple_of(stride) && offset < region.geometry().bytes();
            is_one.then_some((offset / stride) as u32).ok_or(MakeError::NotHere)
        };
        let way = Way::of_tag(tag.into()).ok_or(MakeError::Nowhere)?;
        let follows = follows.map(|(buffer, ingress)| index(buffer).map(|index| (index, Port(ingress))));
        self.make(follows.transpose()?, way, length).map(|mut frame| frame.packet().data_mut().as_mut_ptr())
    }

    fn make(&self, follows: Option<(u32, Port)>, way: Way, length: usize) -> Result<Frame, MakeError> {
        self.made.borrow_mut().make(self.owner, follows, way, length)
    }
}

/// A frame that is being written. Nobody else knows of its buffer before the call that makes it returns.
struct Frame {
    region: Region,
    packet: Descriptor,
}

impl Frame {
    fn packet(&mut self) -> Packet<'_> {
        Packet { received: Descriptor(0), descriptor: &mut self.packet, region: &self.region, saver: None }
    }
}

/// A packet that was made and not given to the manager yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MadePacket {
    pub packet: Descriptor,
    /// The buffer of the packet that it follows.
    pub follows: Option<u32>,
    /// The port which that one came by.
    pub ingress: Port,
    /// NF of the process that made it, if the ones behind that are still to see it.
    unseen_from: Option<usize>,
}

/// Packets that the NFs of a process made, and the empty buffers for more.
pub(crate) struct Made {
    /// None where no packet is ever made, because arguments are only checked.
    region: Option<Region>,
    /// Number of buffers asked for.
    asked: u32,
    lent: Lent,
    /// In the order in which they were made.
    packets: VecDeque<MadePacket>,
}

/// Source of empty buffers.
pub(crate) enum Lent {
    /// The lend ring.
    Ring(Consumer),
    /// The loop that shares the process puts them here.
    Own(Vec<Descriptor>),
}

impl Made {
    pub(crate) const fn new(region: Option<Region>, lent: Lent) -> Self {
        Self { region, asked: 0, lent, packets: VecDeque::new() }
    }

    /// An NF asks for buffers.
    pub(crate) fn ask(&mut self, most: u32) -> Result<(), MakerError> {
        if most == 0 || most > LENT_MAX {
            return Err(MakerError { asked: most });
        }
        self.asked = (self.asked + most).min(LENT_MAX);
        self.packets.reserve(self.asked as usize);
        Ok(())
    }

    /// Returns how many buffers the NFs of the process want to be lent.
    pub(crate) const fn asked(&self) -> u32 {
        self.asked
    }

    /// Returns where packets lie.
    pub(crate) fn region(&self) -> Option<Region> {
        self.region.clone()
    }

    /// Returns whether nothing was made.
    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// Uses another region from now on, where a loop has its own buffers.
    pub(crate) fn move_to(&mut self, region: &Region) {
        debug_assert!(self.packets.is_empty(), "packets were left in another region");
        self.region = Some(region.clone());
        self.lent = Lent::Own(Vec::new());
    }

    /// Fills up what is lent, where a loop has its own buffers.
    pub(crate) fn refill(&mut self, mut take: impl FnMut() -> Option<u32>) {
        let Lent::Own(empty) = &mut self.lent else { return };
        while empty.len() + self.packets.len() < self.asked as usize {
            let Some(index) = take() else { return };
            empty.push(Descriptor::new(index, HEADROOM_BYTES, 0, 0));
        }
    }

    fn take_empty(&mut self) -> Option<Descriptor> {
        match &mut self.lent {
            Lent::Own(empty) => empty.pop(),
            Lent::Ring(ring) => {
                // One at a time: the ring's index says how many were used. A manager that breaks its ring is
                // found out by the loop.
                let mut empty = [Descriptor::default()];
                matches!(ring.pop(&mut empty), Ok(1)).then_some(empty[0])
            }
        }
    }

    fn make(
        &mut self,
        owner: usize,
        follows: Option<(u32, Port)>,
        way: Way,
        length: usize,
    ) -> Result<Frame, MakeError> {
        let region = self.region.clone().ok_or(MakeError::NoneLent)?;
        let geometry = region.geometry();
        let most = geometry.frame_bytes_max() as usize;
        if !(FRAME_BYTES_MIN as usize..=most).contains(&length) {
            return Err(MakeError::Length { asked: length, most });
        }
        let empty = self.take_empty().ok_or(MakeError::NoneLent)?;
        let packet = Descriptor::new(empty.index(), HEADROOM_BYTES, length as u32, way.tag());
        // What a manager lends is believed only where it lies in the mapping.
        geometry.check(packet).map_err(|_| MakeError::NoneLent)?;
        let sees = matches!(way, Way::Next | Way::Chain(_));
        self.packets.push_back(MadePacket {
            packet,
            follows: follows.map(|(index, _)| index),
            ingress: follows.map_or(Port(0), |(_, ingress)| ingress),
            unseen_from: sees.then_some(owner),
        });
        let mut frame = Frame { region, packet };
        frame.packet().data_mut().fill(0);
        Ok(frame)
    }

    /// Returns the NF whose packets the ones behind it are to see next, and moves these into `into`, as they
    /// go and as they came.
    pub(crate) fn take_unseen(&mut self, into: &mut Vec<MadePacket>) -> Option<usize> {
        let owner = self.packets.iter().filter_map(|made| made.unseen_from).min()?;
        for made in self.packets.iter_mut().filter(|made| made.unseen_from == Some(owner)) {
            made.unseen_from = None;
            into.push(*made);
        }
        Some(owner)
    }

    /// Other NFs saw these packets, and decided so on them. Those that are not among the decided ones are
    /// held by one of the NFs, and come back as packets like any others.
    pub(crate) fn settle(&mut self, shown: &[MadePacket], decided: &[Descriptor]) {
        self.packets.retain_mut(|made| {
            let index = made.packet.index();
            if !shown.iter().any(|one| one.packet.index() == index) {
                return true;
            }
            let Some(seen) = decided.iter().find(|seen| seen.index() == index) else { return false };
            // "Next" is as the maker said: along the chain that it named.
            let tag = if seen.tag() == Verdict::NEXT { made.packet.tag() } else { seen.tag() };
            made.packet = seen.with_tag(tag);
            true
        });
    }

    /// Returns these packets, behind each of them those that follow it, and before all those that follow
    /// none.
    pub(crate) fn merged(&mut self, burst: &[Descriptor]) -> Vec<Descriptor> {
        let mut merged = Vec::with_capacity(burst.len() + self.packets.len());
        let mut made = Vec::with_capacity(self.packets.len());
        self.take(|index| burst.iter().any(|packet| packet.index() == index), |one| made.push(one));
        let behind = |index| made.iter().filter(move |one| one.follows == index).map(|one| one.packet);
        merged.extend(behind(None));
        for packet in burst {
            merged.push(*packet);
            merged.extend(behind(Some(packet.index())));
        }
        merged
    }

    /// Hands over, in the order of their making, packets that follow none, and those that follow a packet
    /// which `has` knows.
    pub(crate) fn take(&mut self, has: impl Fn(u32) -> bool, mut give: impl FnMut(MadePacket)) {
        self.packets.retain(|made| {
            let goes = made.follows.is_none_or(&has);
            if goes {
                give(*made);
            }
            !goes
        });
    }
}

#[cfg(test)]
mod tests;
