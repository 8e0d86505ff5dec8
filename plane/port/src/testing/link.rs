//! Links in memory, with the test at the other end: the plainest queue there is.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use headgate_shm::geometry::HEADROOM_BYTES;
use headgate_shm::{Descriptor, Stack};

use super::conformance::{Abilities, Backend, Device, Gives};
use super::frame;
use crate::{Queue, QueueCounters, count_received, count_sent};

/// Frames on their way, each way at most [`TestLink::ROOM`].
#[derive(Debug, Default)]
pub(super) struct Lines {
    pub(super) incoming: VecDeque<Vec<u8>>,
    outgoing: VecDeque<Vec<u8>>,
}

/// Handle for the test's end of a link in memory.
#[derive(Clone, Debug, Default)]
pub struct TestLink(Arc<Mutex<Lines>>);

impl TestLink {
    /// Frames on their way in one direction. Our choice: a few bursts.
    pub const ROOM: usize = 300;
    /// The longest frame it carries, in bytes: that of an ordinary link.
    pub const FRAME_BYTES_MAX: u32 = 1514;

    pub(super) fn lines(&self) -> MutexGuard<'_, Lines> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has frames come, in order, as many as there is room for; returns how many.
    pub fn offer(&self, frames: &[Vec<u8>]) -> usize {
        let incoming = &mut self.lines().incoming;
        let count = frames.len().min(Self::ROOM - incoming.len());
        incoming.extend(frames[..count].iter().cloned());
        count
    }

    /// Takes what was sent.
    pub fn take_left(&self) -> Vec<Vec<u8>> {
        self.lines().outgoing.drain(..).collect()
    }

    /// Makes the queue at this end.
    #[must_use]
    pub fn queue(&self) -> TestLinkQueue {
        TestLinkQueue {
            link: self.clone(),
            keeps: None,
            supply: None,
            unsent: VecDeque::with_capacity(Self::ROOM),
            counters: QueueCounters::default(),
        }
    }
}

/// The queue of a link. Copies, unless it keeps what it sends.
pub struct TestLinkQueue {
    pub(super) link: TestLink,
    /// Like a driver's, its buffers come back by `tend` once the other end has taken the frames; then it
    /// works on one region alone.
    keeps: Option<u8>,
    /// Frames that come by themselves, until they end.
    supply: Option<VecDeque<Vec<u8>>>,
    /// Buffers whose frames are on their way out.
    unsent: VecDeque<u32>,
    counters: QueueCounters,
}

impl TestLinkQueue {
    /// Lets it keep the buffers of what it sends, of this region, until the frames are taken.
    #[must_use]
    pub fn keeping(self, region: u8) -> Self {
        Self { keeps: Some(region), ..self }
    }

    fn next_frame(&mut self) -> Option<Vec<u8>> {
        match &mut self.supply {
            Some(supply) => supply.pop_front(),
            None => self.link.lines().incoming.pop_front(),
        }
    }
}

impl Queue for TestLinkQueue {
    fn receive(&mut self, _now: u64, stack: &mut Stack, into: &mut [Descriptor]) -> usize {
        let mut count = 0;
        while count < into.len() && !stack.is_empty() {
            let Some(frame) = self.next_frame() else { break };
            if frame.len() > stack.region().geometry().frame_bytes_max() as usize {
                self.counters.too_long += 1;
                continue;
            }
            let Some(index) = stack.take() else { break };
            stack.region().write(index, HEADROOM_BYTES, &frame);
            into[count] = Descriptor::new(index, HEADROOM_BYTES, frame.len() as u32, 0);
            count += 1;
        }
        count_received(&mut self.counters, &into[..count]);
        count
    }

    fn transmit(&mut self, _now: u64, stack: &mut Stack, packets: &[Descriptor]) -> usize {
        let outgoing = &mut self.link.lines().outgoing;
        let room = TestLink::ROOM - outgoing.len().max(self.unsent.len());
        let taken = &packets[..packets.len().min(room)];
        for packet in taken {
            if packet.length() > TestLink::FRAME_BYTES_MAX {
                self.counters.failed += 1;
                stack.give(packet.index());
                continue;
            }
            outgoing.push_back(frame(stack, *packet));
            count_sent(&mut self.counters, std::slice::from_ref(packet));
            match self.keeps {
                Some(_) => self.unsent.push_back(packet.index()),
                None => stack.give(packet.index()),
            }
        }
        taken.len()
    }

    fn tend(&mut self, _now: u64, stack: &mut Stack) {
        let done = self.unsent.len().saturating_sub(self.link.lines().outgoing.len());
        for index in self.unsent.drain(..done) {
            stack.give(index);
        }
    }

    fn counters(&self) -> QueueCounters {
        self.counters
    }

    fn region(&self) -> Option<u8> {
        self.keeps
    }

    fn holds(&self) -> usize {
        self.unsent.len()
    }

    fn waiting(&self) -> Option<u32> {
        Some(self.link.lines().outgoing.len() as u32)
    }

    fn is_finished(&self) -> bool {
        self.supply.as_ref().is_some_and(VecDeque::is_empty)
    }
}

/// Links as a back end, each queue wrapped by whatever is under test.
pub struct Wrapped<W> {
    /// Whether queues keep buffers of what they send.
    pub keeps: bool,
    /// Whether frames come from a supply that ends.
    pub ends: bool,
    /// Wrapper put around a queue.
    pub wrap: W,
}

impl<W: FnMut(TestLinkQueue) -> Q, Q: Queue + 'static> Backend for Wrapped<W> {
    fn abilities(&self) -> Abilities {
        let gives = if self.ends { Gives::Supply { ends: true } } else { Gives::Offered };
        Abilities {
            gives,
            shows_what_left: true,
            fills: true,
            brings_long_frames: !self.ends,
            sent_bytes_max: Some(TestLink::FRAME_BYTES_MAX),
            ..Abilities::default()
        }
    }

    fn open(&mut self, stack: &mut Stack, incoming: &[Vec<u8>]) -> Box<dyn Device> {
        let link = TestLink::default();
        let mut queue = link.queue();
        queue.keeps = self.keeps.then(|| stack.id());
        queue.supply = self.ends.then(|| incoming.iter().cloned().collect());
        Box::new(Ends { link, queue: (self.wrap)(queue) })
    }
}

/// Both ends of a link.
struct Ends<Q> {
    link: TestLink,
    queue: Q,
}

impl<Q: Queue> Device for Ends<Q> {
    fn queue(&mut self) -> &mut dyn Queue {
        &mut self.queue
    }

    fn offer(&mut self, frames: &[Vec<u8>]) -> usize {
        self.link.offer(frames)
    }

    fn take_left(&mut self) -> Vec<Vec<u8>> {
        self.link.take_left()
    }

    fn close(mut self: Box<Self>, stack: &mut Stack) -> Vec<Vec<u8>> {
        let left = self.link.take_left();
        self.queue.tend(u64::MAX, stack);
        left
    }
}
