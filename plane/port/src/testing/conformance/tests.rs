//! The suite itself: a good queue passes, and for each behaviour there is a queue that misses it and is
//! found.

use headgate_shm::geometry::HEADROOM_BYTES;
use headgate_shm::{Descriptor, Stack};

use super::{Behaviour, LONG_BYTES, check, run};
use crate::testing::frame;
use crate::testing::link::{TestLink, TestLinkQueue, Wrapped};
use crate::{Bell, Queue, QueueCounters};

#[test]
fn good_queues_pass() {
    for (keeps, ends) in [(false, false), (true, false), (false, true), (true, true)] {
        run(&mut Wrapped { keeps, ends, wrap: |queue| queue });
    }
}

/// Fault of a planted queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    KeepsABuffer,
    HoldsNothing,
    ReceivesMore,
    TakesMore,
    HandsOverTwice,
    WritesNoDescriptor,
    ChangesAByteIn,
    ChangesAByteOut,
    SwapsIn,
    SwapsOut,
    RepeatsIn,
    LosesIn,
    LosesOut,
    CountsPacketsTwice,
    CountsNoBytes,
    CountsAnew,
    GivesRefusedBack,
    GivesBackTwice,
    CountsEmptyBursts,
    StarvesShortBursts,
    ForgetsWithoutBuffers,
    InventsWithoutBuffers,
    NeverFull,
    NeverEmptyAgain,
    CountsNoLongFrames,
    BlocksAtLongFramesIn,
    BlocksAtLongFramesOut,
    CountsLongFramesSent,
    MovesToAnotherRegion,
    IsOfAnotherRegion,
    GoesOnAfterTheEnd,
    NeverEnds,
    ReceivesInTend,
    CountsInTend,
    WaitsForever,
    RingsNever,
}

use Behaviour as B;

const PLANTED: &[(Fault, Behaviour)] = &[
    (Fault::KeepsABuffer, B::BuffersConserved),
    (Fault::HoldsNothing, B::BuffersConserved),
    (Fault::ReceivesMore, B::NoMoreThanAsked),
    (Fault::TakesMore, B::NoMoreThanAsked),
    (Fault::HandsOverTwice, B::PacketsSound),
    (Fault::WritesNoDescriptor, B::PacketsSound),
    (Fault::ChangesAByteIn, B::BytesKept),
    (Fault::ChangesAByteOut, B::BytesKept),
    (Fault::SwapsIn, B::OrderKept),
    (Fault::SwapsOut, B::OrderKept),
    (Fault::RepeatsIn, B::OrderKept),
    (Fault::LosesIn, B::NothingLost),
    (Fault::LosesOut, B::NothingLost),
    (Fault::CountsPacketsTwice, B::CountersTrue),
    (Fault::CountsNoBytes, B::CountersTrue),
    (Fault::CountsAnew, B::CountersMonotone),
    (Fault::GivesRefusedBack, B::TakenIsOwned),
    (Fault::GivesBackTwice, B::GivenBackOnce),
    (Fault::CountsEmptyBursts, B::EmptyBurst),
    (Fault::StarvesShortBursts, B::AnyBurst),
    (Fault::ForgetsWithoutBuffers, B::NothingLost),
    (Fault::InventsWithoutBuffers, B::EmptyStack),
    (Fault::NeverFull, B::FullDevice),
    (Fault::NeverEmptyAgain, B::FullDevice),
    (Fault::CountsNoLongFrames, B::LongFrames),
    (Fault::BlocksAtLongFramesIn, B::LongFrames),
    (Fault::BlocksAtLongFramesOut, B::LongFrames),
    (Fault::CountsLongFramesSent, B::LongFrames),
    (Fault::MovesToAnotherRegion, B::RegionHonoured),
    (Fault::IsOfAnotherRegion, B::RegionHonoured),
    (Fault::GoesOnAfterTheEnd, B::FinishedForGood),
    (Fault::NeverEnds, B::FinishedForGood),
    (Fault::ReceivesInTend, B::TendHarmless),
    (Fault::CountsInTend, B::TendHarmless),
    (Fault::WaitsForever, B::WaitingTrue),
    (Fault::RingsNever, B::BellRings),
];

#[test]
fn each_planted_fault_is_found_by_name() {
    for &(fault, behaviour) in PLANTED {
        let mut missed = Vec::new();
        let found = [(false, false), (true, false), (false, true)].into_iter().any(|(keeps, ends)| {
            let wrap = |inner| Planted { inner, fault, calls: 0, extra: QueueCounters::default(), kept: 0 };
            missed.extend(check(&mut Wrapped { keeps, ends, wrap }));
            missed.iter().any(|violation| violation.behaviour == behaviour)
        });
        assert!(found, "{fault:?} should miss {behaviour:?}: {missed:#?}");
    }
}

#[test]
fn each_behaviour_has_a_queue_that_misses_it() {
    let tried: Vec<_> = PLANTED.iter().map(|(_, behaviour)| *behaviour).collect();
    let untried: Vec<_> = B::ALL.iter().filter(|behaviour| !tried.contains(behaviour)).collect();
    assert!(untried.is_empty(), "no queue misses {untried:?}");
}

struct Planted {
    inner: TestLinkQueue,
    fault: Fault,
    calls: u64,
    /// Added to the counters, wrapping.
    extra: QueueCounters,
    /// Buffers it took and holds.
    kept: usize,
}

impl Planted {
    fn lose_in(&mut self, stack: &mut Stack, into: &mut [Descriptor]) -> usize {
        let lost = into[0];
        stack.give(lost.index());
        into.rotate_left(1);
        self.extra.received = self.extra.received.wrapping_sub(1);
        self.extra.received_bytes = self.extra.received_bytes.wrapping_sub(u64::from(lost.length()));
        into.len() - 1
    }

    fn repeat_in(&mut self, stack: &mut Stack, into: &mut [Descriptor], count: usize) -> usize {
        let Some(index) = stack.take().filter(|_| count > 0 && count < into.len()) else { return count };
        let bytes = frame(stack, into[0]);
        stack.region().write(index, HEADROOM_BYTES, &bytes);
        into[count] = Descriptor::new(index, HEADROOM_BYTES, into[0].length(), 0);
        self.extra.received += 1;
        self.extra.received_bytes += bytes.len() as u64;
        count + 1
    }

    fn is_blocked(&self) -> bool {
        let next = self.inner.link.lines().incoming.front().map_or(0, Vec::len);
        self.fault == Fault::BlocksAtLongFramesIn && next >= LONG_BYTES
    }
}

fn change_a_byte(stack: &Stack, packet: Descriptor) {
    let last = frame(stack, packet)[packet.length() as usize - 1];
    stack.region().write(packet.index(), packet.offset() + packet.length() - 1, &[!last]);
}

impl Queue for Planted {
    fn receive(&mut self, now: u64, stack: &mut Stack, into: &mut [Descriptor]) -> usize {
        self.calls += 1;
        let asked = into.len();
        match self.fault {
            Fault::StarvesShortBursts if asked < 4 => return 0,
            Fault::CountsEmptyBursts if asked == 0 => self.extra.received += 1,
            Fault::ForgetsWithoutBuffers if stack.is_empty() => {
                self.inner.link.lines().incoming.pop_front();
            }
            Fault::InventsWithoutBuffers if stack.is_empty() && asked > 0 => {
                into[0] = Descriptor::new(0, HEADROOM_BYTES, 60, 0);
                return 1;
            }
            Fault::BlocksAtLongFramesIn if self.is_blocked() => return 0,
            _ => {}
        }
        let one_at_a_time = self.fault == Fault::BlocksAtLongFramesIn && asked > 0;
        let into = if one_at_a_time { &mut into[..1] } else { into };
        let count = self.inner.receive(now, stack, into);
        match self.fault {
            Fault::KeepsABuffer => drop(stack.take()),
            Fault::ReceivesMore if count == asked => return count + 1,
            Fault::HandsOverTwice if count > 1 => into[1] = into[0],
            Fault::WritesNoDescriptor if count > 0 => into[0] = Descriptor(u64::MAX),
            Fault::ChangesAByteIn if count > 0 => change_a_byte(stack, into[0]),
            Fault::SwapsIn if count > 1 => into.swap(0, 1),
            Fault::RepeatsIn => return self.repeat_in(stack, into, count),
            Fault::LosesIn if count > 1 => return self.lose_in(stack, &mut into[..count]),
            _ => {}
        }
        count
    }

    fn transmit(&mut self, now: u64, stack: &mut Stack, packets: &[Descriptor]) -> usize {
        self.calls += 1;
        let (mut packets, count) = (packets.to_vec(), packets.len());
        match self.fault {
            Fault::TakesMore => return count + 1,
            Fault::ChangesAByteOut if count > 0 => change_a_byte(stack, packets[0]),
            Fault::SwapsOut if count > 1 => packets.swap(0, 1),
            Fault::LosesOut if count > 1 => {
                let lost = packets.pop().expect("there are two");
                let taken = self.inner.transmit(now, stack, &packets);
                if taken < packets.len() {
                    return taken;
                }
                stack.give(lost.index());
                self.extra.sent += 1;
                self.extra.sent_bytes += u64::from(lost.length());
                return count;
            }
            Fault::NeverEmptyAgain if self.kept > 0 => return 0,
            Fault::BlocksAtLongFramesOut => {
                let long = packets.iter().position(|packet| packet.length() > TestLink::FRAME_BYTES_MAX);
                packets.truncate(long.unwrap_or(count));
            }
            Fault::CountsLongFramesSent => {
                let long = packets.iter().filter(|packet| packet.length() > TestLink::FRAME_BYTES_MAX);
                self.extra.sent += long.count() as u64;
            }
            _ => {}
        }
        let taken = self.inner.transmit(now, stack, &packets);
        let refused = &packets[taken..];
        match self.fault {
            Fault::GivesRefusedBack => stack.give_many(refused.iter().map(|packet| packet.index())),
            Fault::GivesBackTwice if taken > 0 => stack.give(packets[0].index()),
            Fault::NeverFull => {
                stack.give_many(refused.iter().map(|packet| packet.index()));
                self.extra.sent += refused.len() as u64;
                self.extra.sent_bytes += refused.iter().map(|packet| u64::from(packet.length())).sum::<u64>();
                return count;
            }
            // Remembers by a number that is otherwise unused that it has been full.
            Fault::NeverEmptyAgain if !refused.is_empty() => self.kept = 1,
            _ => {}
        }
        taken
    }

    fn tend(&mut self, now: u64, stack: &mut Stack) {
        self.inner.tend(now, stack);
        match self.fault {
            Fault::ReceivesInTend => self.kept += usize::from(stack.take().is_some()),
            Fault::CountsInTend => self.extra.sent += 1,
            _ => {}
        }
    }

    fn bell(&self) -> Bell<'_> {
        if self.fault == Fault::RingsNever { Bell::NotNeeded } else { self.inner.bell() }
    }

    fn counters(&self) -> QueueCounters {
        let inner = self.inner.counters();
        let mut counters = QueueCounters {
            received: inner.received.wrapping_add(self.extra.received),
            received_bytes: inner.received_bytes.wrapping_add(self.extra.received_bytes),
            sent: inner.sent.wrapping_add(self.extra.sent),
            sent_bytes: inner.sent_bytes.wrapping_add(self.extra.sent_bytes),
            ..inner
        };
        match self.fault {
            Fault::CountsPacketsTwice => counters.received *= 2,
            Fault::CountsNoBytes => counters.sent_bytes = 0,
            Fault::CountsNoLongFrames => counters.too_long = 0,
            Fault::CountsAnew if self.calls % 16 == 15 => counters = QueueCounters::default(),
            _ => {}
        }
        counters
    }

    fn region(&self) -> Option<u8> {
        match self.fault {
            Fault::IsOfAnotherRegion => Some(9),
            Fault::MovesToAnotherRegion if self.calls > 10 => Some(9),
            _ => self.inner.region(),
        }
    }

    fn holds(&self) -> usize {
        match self.fault {
            Fault::HoldsNothing => 0,
            Fault::ReceivesInTend => self.inner.holds() + self.kept,
            _ => self.inner.holds(),
        }
    }

    fn waiting(&self) -> Option<u32> {
        if self.fault == Fault::WaitsForever { Some(1) } else { self.inner.waiting() }
    }

    fn is_finished(&self) -> bool {
        match self.fault {
            Fault::GoesOnAfterTheEnd => true,
            Fault::NeverEnds => false,
            _ => self.inner.is_finished(),
        }
    }
}
