//! One device with its stack: every call to the queue, and what must hold after each.

use std::collections::VecDeque;

use headgate_shm::geometry::HEADROOM_BYTES;
use headgate_shm::{Descriptor, Stack};

use super::scenarios::Need;
use super::{Abilities, Backend, Behaviour, Checked, Device, Gives, Missed, ledger::Ledger, require};
use crate::QueueCounters;
use crate::testing::{HERTZ, frame, numbered, stack_of};

/// Cycles between two calls: a microsecond, about what a worker's pass takes.
const STEP_CYCLES: u64 = HERTZ / 1_000_000;
/// Value of a descriptor that a queue has not written.
const UNWRITTEN: Descriptor = Descriptor(u64::MAX);

/// The stack a device is opened with; a queue that works on any region also meets the other.
pub(super) const OWN: usize = 0;
/// The number of that stack's region.
const OWN_REGION: u8 = 3;

pub(super) struct Bed {
    pub(super) abilities: Abilities,
    pub(super) device: Box<dyn Device>,
    stacks: [Stack; 2],
    /// Packets of each stack in our hands.
    hands: [Vec<Descriptor>; 2],
    buffers: usize,
    /// Frames that were not offered yet.
    pending: VecDeque<Vec<u8>>,
    ledger: Ledger,
    now: u64,
    counters: QueueCounters,
    region: Option<u8>,
    is_finished: bool,
    /// The number of the next frame that is sent.
    number: usize,
    /// Whether each buffer was found, by its index.
    places: Vec<bool>,
}

impl Bed {
    pub(super) fn open(backend: &mut dyn Backend, need: Need) -> Self {
        let abilities = backend.abilities();
        let count = abilities.buffers;
        // Regions have numbers of buffers that the other has not, so that one that goes astray is known.
        let mut own = stack_of(2 * count, OWN_REGION, 0..count);
        let other = stack_of(2 * count, OWN_REGION + 1, count..2 * count);
        let wanted = need.frames(&abilities);
        let room = own.region().geometry().frame_bytes_max() as usize;
        let fits = |frame: &Vec<u8>| frame.len() <= room;
        let incoming = backend.incoming(&wanted);
        let mut device = backend.open(&mut own, &incoming);
        let (mut ledger, mut pending) = (Ledger::default(), VecDeque::new());
        match abilities.gives {
            Gives::Nothing => {}
            Gives::Supply { .. } => ledger.expect(incoming),
            Gives::Offered => pending.extend(incoming),
            Gives::Itself => pending.extend(incoming.into_iter().filter(fits)),
        }
        let queue = device.queue();
        let (counters, region, is_finished) = (queue.counters(), queue.region(), queue.is_finished());
        let (hands, buffers) = ([Vec::new(), Vec::new()], 2 * count as usize);
        let (stacks, now, number) = ([own, other], STEP_CYCLES, 1 << 24);
        Self {
            abilities,
            device,
            stacks,
            hands,
            buffers,
            pending,
            ledger,
            now,
            counters,
            region,
            is_finished,
            number,
            places: vec![false; buffers],
        }
    }

    fn step(&mut self) -> u64 {
        self.now += STEP_CYCLES;
        self.now
    }

    /// Frames that can still come.
    pub(super) fn coming(&self) -> usize {
        self.pending.len() + self.ledger.on_their_way()
    }

    pub(super) fn counters(&mut self) -> QueueCounters {
        self.device.count_losses();
        self.device.queue().counters()
    }

    /// Buffers that are free.
    pub(super) fn free(&self) -> usize {
        self.stacks[OWN].len()
    }

    /// Whether the queue works on any region.
    pub(super) const fn is_anywhere(&self) -> bool {
        self.region.is_none()
    }

    /// Whether it says that it gives nothing any more.
    pub(super) const fn is_finished(&self) -> bool {
        self.is_finished
    }

    /// Has frames come from outside, as many as find room.
    pub(super) fn offer(&mut self) -> Checked {
        if self.abilities.gives == Gives::Itself {
            let count = self.pending.len().min(super::BURST_MAX);
            let frames: Vec<_> = self.pending.drain(..count).collect();
            let refused = self.send(OWN, frames)?;
            refused.into_iter().rev().for_each(|frame| self.pending.push_front(frame));
            return Ok(());
        }
        let frames = self.pending.make_contiguous();
        let count = self.device.offer(frames);
        self.ledger.expect(self.pending.drain(..count));
        Ok(())
    }

    /// One call to receive; the packets are in our hands. How many came.
    pub(super) fn receive(&mut self, on: usize, most: usize) -> Checked<usize> {
        let endless = self.abilities.gives == Gives::Supply { ends: false };
        let most = if endless { most.min(self.ledger.on_their_way()) } else { most };
        // What a device holds already needs no free buffer.
        let (now, free) = (self.step(), self.stacks[on].len() + self.device.queue().holds());
        let mut into = vec![UNWRITTEN; most];
        let count = self.device.queue().receive(now, &mut self.stacks[on], &mut into);
        let more = || format!("{count} packets came into a burst of {most}");
        require(count <= most, Behaviour::NoMoreThanAsked, more)?;
        require(count <= free, Behaviour::EmptyStack, || format!("{count} came with {free} free buffers"))?;
        let came_after_end = self.is_finished && count > 0;
        require(!came_after_end, Behaviour::FinishedForGood, || {
            format!("{count} packets came after the end")
        })?;
        for packet in &into[..count] {
            self.require_sound(on, *packet)?;
            self.ledger.came(&frame(&self.stacks[on], *packet))?;
            self.hands[on].push(*packet);
        }
        self.audit().map(|()| count)
    }

    fn require_sound(&self, on: usize, packet: Descriptor) -> Checked {
        let stack = &self.stacks[on];
        let told = || format!("it handed over {packet:?}, which is no packet of this region");
        let sound = packet != UNWRITTEN && stack.region().geometry().check(packet).is_ok();
        require(sound, Behaviour::PacketsSound, told)?;
        let is_free = stack.free().contains(&packet.index());
        let is_here = self.hands[on].iter().any(|held| held.index() == packet.index());
        let twice = || format!("it handed over buffer {}, which it did not take", packet.index());
        require(!is_free && !is_here, Behaviour::PacketsSound, twice)
    }

    /// Receives until something came, at most `most`.
    pub(super) fn receive_some(&mut self, on: usize, most: usize) -> Checked<usize> {
        for _ in 0..self.abilities.patience {
            self.offer()?;
            let count = self.receive(on, most)?;
            if count > 0 {
                return Ok(count);
            }
            self.tend()?;
            self.device.wait();
        }
        let coming = self.coming();
        let nothing = format!("nothing came into a burst of {most} although {coming} frames are to come");
        Err(Missed(Behaviour::AnyBurst, nothing))
    }

    /// Makes frames of these lengths.
    pub(super) fn make(&mut self, lengths: impl IntoIterator<Item = usize>) -> Vec<Vec<u8>> {
        let make = |length| {
            self.number += 1;
            numbered(self.number, length)
        };
        lengths.into_iter().map(make).collect()
    }

    /// One call to transmit with frames in new buffers, as many as there are; what was not taken.
    pub(super) fn send(&mut self, on: usize, mut frames: Vec<Vec<u8>>) -> Checked<Vec<Vec<u8>>> {
        let free = self.stacks[on].len();
        let mut refused = frames.split_off(frames.len().min(free));
        let mut packets = Vec::new();
        for frame in &frames {
            let Some(index) = self.stacks[on].take() else { break };
            self.stacks[on].region().write(index, HEADROOM_BYTES, frame);
            packets.push(Descriptor::new(index, HEADROOM_BYTES, frame.len() as u32, 0));
        }
        let taken = self.transmit(on, &packets, &frames)?;
        self.give(on, packets.len() - taken);
        refused.splice(0..0, frames.drain(taken..));
        Ok(refused)
    }

    /// One call to transmit with packets from our hands, the first ones; how many there were and it took.
    pub(super) fn forward(&mut self, on: usize, most: usize) -> Checked<(usize, usize)> {
        let count = most.min(self.hands[on].len());
        let packets: Vec<_> = self.hands[on].drain(..count).collect();
        let frames: Vec<_> = packets.iter().map(|packet| frame(&self.stacks[on], *packet)).collect();
        self.transmit(on, &packets, &frames).map(|taken| (count, taken))
    }

    /// Sends packets; those that were not taken come last in our hands.
    fn transmit(&mut self, on: usize, packets: &[Descriptor], frames: &[Vec<u8>]) -> Checked<usize> {
        let now = self.step();
        let taken = self.device.queue().transmit(now, &mut self.stacks[on], packets);
        let count = packets.len();
        let more = || format!("it took {taken} packets of {count}");
        require(taken <= count, Behaviour::NoMoreThanAsked, more)?;
        self.hands[on].extend(&packets[taken..]);
        for frame in &frames[..taken] {
            let passes = self.abilities.sent_bytes_max.is_none_or(|most| frame.len() <= most as usize);
            if passes && self.abilities.gives == Gives::Itself {
                self.ledger.expect([frame.clone()]);
            }
            self.ledger.took(frame.clone(), passes);
        }
        self.audit().map(|()| taken)
    }

    /// Sends frames until all were taken, while what leaves is taken at the other end.
    pub(super) fn send_all(&mut self, on: usize, frames: Vec<Vec<u8>>) -> Checked {
        let (mut rest, mut patience) = (frames, self.abilities.patience);
        while !rest.is_empty() {
            let before = rest.len();
            rest = self.send(on, rest)?;
            patience = if rest.len() < before { self.abilities.patience } else { patience - 1 };
            let never = || format!("it never took {before} packets");
            require(patience > 0, Behaviour::FullDevice, never)?;
            if !rest.is_empty() {
                self.make_room(on)?;
            }
        }
        Ok(())
    }

    /// Takes what left, so that the device has room.
    pub(super) fn make_room(&mut self, on: usize) -> Checked {
        if self.abilities.gives == Gives::Itself {
            self.receive(on, super::BURST_MAX)?;
            self.give_all(on);
        }
        self.tend()?;
        self.device.wait();
        self.take_left();
        Ok(())
    }

    pub(super) fn take_left(&mut self) {
        let left = self.device.take_left();
        self.ledger.left(left);
    }

    /// Tends once: no packet moves, and buffers only come back.
    pub(super) fn tend(&mut self) -> Checked {
        let (now, free) = (self.step(), self.stacks[OWN].len());
        let before = self.device.queue().counters();
        self.device.queue().tend(now, &mut self.stacks[OWN]);
        let after = self.device.queue().counters();
        let counted = || format!("tending turned {before:?} into {after:?}");
        require(before == after, Behaviour::TendHarmless, counted)?;
        let taken = || "tending took buffers".to_owned();
        require(self.stacks[OWN].len() >= free, Behaviour::TendHarmless, taken)?;
        self.audit()
    }

    /// Gives the last packets in our hands back.
    pub(super) fn give(&mut self, on: usize, count: usize) {
        let keep = self.hands[on].len() - count;
        let given: Vec<_> = self.hands[on].drain(keep..).collect();
        self.stacks[on].give_many(given.iter().map(|packet| packet.index()));
    }

    pub(super) fn give_all(&mut self, on: usize) {
        self.give(on, self.hands[on].len());
    }

    /// Takes buffers until so many are free.
    pub(super) fn starve(&mut self, on: usize, free: usize) {
        while self.stacks[on].len() > free
            && let Some(index) = self.stacks[on].take()
        {
            self.hands[on].push(Descriptor::new(index, HEADROOM_BYTES, 60, 0));
        }
    }

    /// Checks what must hold at any time.
    fn audit(&mut self) -> Checked {
        self.device.count_losses();
        let queue = self.device.queue();
        let (counters, holds, region) = (queue.counters(), queue.holds(), queue.region());
        let (is_finished, was_finished) = (queue.is_finished(), self.is_finished);
        let mut known = holds;
        for (stack, hand) in self.stacks.iter().zip(&self.hands) {
            known += require_apart(stack, hand, &mut self.places)?;
        }
        let own = 0..self.abilities.buffers;
        let strayed = self.stacks[OWN].free().iter().find(|index| !own.contains(index));
        let told = || format!("buffer {strayed:?} of another region came back to this one");
        require(strayed.is_none(), Behaviour::RegionHonoured, told)?;
        let all = self.buffers;
        let told = || format!("{known} buffers of {all} are known of, {holds} of them to the queue");
        require(known == all, Behaviour::BuffersConserved, told)?;
        let moved = || format!("its region was {:?} and is {region:?}", self.region);
        require(region == self.region, Behaviour::RegionHonoured, moved)?;
        let again = || "it had finished and has not any more".to_owned();
        require(is_finished || !was_finished, Behaviour::FinishedForGood, again)?;
        self.is_finished = is_finished;
        let before = std::mem::replace(&mut self.counters, counters);
        self.ledger.audit(before, counters)
    }

    /// Whether its region is that of the stack it was opened with, or none.
    pub(super) fn require_own_region(&self) -> Checked {
        let told = || format!("it works on region {:?} and was opened for {OWN_REGION}", self.region);
        require(self.region.is_none_or(|region| region == OWN_REGION), Behaviour::RegionHonoured, told)
    }

    /// Returns the number of packets that it says are waiting.
    pub(super) fn waiting(&mut self) -> Option<u32> {
        self.device.queue().waiting()
    }

    /// Brings all in that is to come, and takes what leaves.
    pub(super) fn finish(&mut self) -> Checked {
        (OWN..self.stacks.len()).for_each(|on| self.give_all(on));
        if self.abilities.gives != Gives::Nothing {
            self.bring_in()?;
        }
        self.bring_out()?;
        let counters = self.counters();
        self.ledger.close_in(counters)
    }

    fn bring_in(&mut self) -> Checked {
        let mut patience = self.abilities.patience;
        while self.coming() > 0 && patience > 0 {
            self.offer()?;
            let count = self.receive(OWN, super::BURST_MAX)?;
            self.give_all(OWN);
            self.take_left();
            if count > 0 {
                patience = self.abilities.patience;
            } else {
                patience -= 1;
                self.tend()?;
                self.device.wait();
            }
        }
        Ok(())
    }

    fn bring_out(&mut self) -> Checked {
        for _ in 0..self.abilities.patience {
            self.tend()?;
            self.take_left();
            if !self.abilities.shows_what_left || self.ledger.on_their_way_out() == 0 {
                break;
            }
            self.device.wait();
        }
        // Buffers of what was taken last come back.
        self.tend()
    }

    /// Ends the device: all buffers are back, and what was sent has left.
    pub(super) fn close(mut self) -> Checked {
        (OWN..self.stacks.len()).for_each(|on| self.give_all(on));
        let left = self.device.close(&mut self.stacks[OWN]);
        self.ledger.left(left);
        let back: usize = self.stacks.iter().map(Stack::len).sum();
        let all = self.buffers;
        let missing = || format!("{back} buffers of {all} are back at its end");
        require(back == all, Behaviour::BuffersConserved, missing)?;
        if self.abilities.shows_what_left { self.ledger.close_out() } else { Ok(()) }
    }
}

/// Whether buffers lie on the stack or in our hands once; how many there are.
fn require_apart(stack: &Stack, hand: &[Descriptor], places: &mut [bool]) -> Checked<usize> {
    places.fill(false);
    let mut is_new = |index: u32| !std::mem::replace(&mut places[index as usize], true);
    for &index in stack.free() {
        let twice = || format!("buffer {index} lies on the stack twice");
        require(is_new(index), Behaviour::GivenBackOnce, twice)?;
    }
    for index in hand.iter().map(|packet| packet.index()) {
        let ours = || format!("buffer {index} lies on the stack and is ours");
        require(is_new(index), Behaviour::TakenIsOwned, ours)?;
    }
    Ok(stack.len() + hand.len())
}
