//! The worker's end of one NF instance.

use std::collections::VecDeque;
use std::sync::Arc;

use headgate_decide::congestion::Average;
use headgate_decide::pressure::{self, Load};
use headgate_decide::wake::{CallMarks, Calls};
use headgate_shm::ring::{Consumer, Producer};
use headgate_shm::{Descriptor, ManagerSide, Offence};

use crate::delay::Probe;
use crate::holders::{FIRST_INSTANCE, Place};
use crate::pressure::Handling;

/// What the control loop hands to a worker when an NF is ready.
pub struct InstanceEnds {
    /// The instance's number.
    pub number: u16,
    /// The region of its trust domain.
    pub region: u8,
    /// The core it runs on, for wake-up calls: NFs of one core take turns.
    pub core: u16,
    /// Whether it ever sleeps.
    pub sleeps: bool,
    /// When a call is worth it.
    pub marks: CallMarks,
    /// What is done when it cannot keep up.
    pub handling: Handling,
    /// Its memory.
    pub side: Arc<ManagerSide>,
}

/// An NF instance as its worker sees it.
pub struct Instance {
    pub(crate) number: u16,
    pub(crate) region: u8,
    pub(crate) core: u16,
    pub(crate) sleeps: bool,
    pub(crate) marks: CallMarks,
    pub(crate) to_nf: Producer,
    pub(crate) from_nf: Consumer,
    pub(crate) side: Arc<ManagerSide>,
    /// Buffers in its rings and hands. Never more than a ring is long, so its transmit ring always has
    /// room and an honest NF never waits for the manager.
    pub(crate) held: u32,
    /// When it is throttled, and what is thought of it now.
    pub(crate) pressure: Option<pressure::QueueMarks>,
    pub(crate) load: Load,
    /// Its smoothed queue, and from which one on packets are marked; 0: never.
    pub(crate) queue: Average,
    pub(crate) mark_at: u32,
    /// Whether it was sent to rest.
    pub(crate) rests: bool,
    /// Packets others have worked on that wait for room in its ring.
    pub(crate) waiting: VecDeque<(Descriptor, Place)>,
    /// Most of them.
    pub(crate) hold: usize,
    /// Whether it takes turns at all.
    pub(crate) turns: bool,
    /// Whether it slept when this worker last looked.
    pub(crate) asleep: bool,
    /// Whether it was told to take turns with its neighbours.
    pub(crate) takes_turns: bool,
    /// When it was last called.
    pub(crate) calls: Calls,
    /// The packet whose delay here is being measured.
    pub(crate) probe: Probe,
    /// What it did wrong; from then on nothing is read from it or given to it.
    pub(crate) offence: Option<Offence>,
}

impl Instance {
    /// Takes over the ends of a fresh incarnation.
    #[must_use]
    pub fn new(ends: InstanceEnds) -> Self {
        Self {
            number: ends.number,
            region: ends.region,
            core: ends.core,
            sleeps: ends.sleeps,
            marks: ends.marks,
            to_nf: ends.side.receive_producer(),
            from_nf: ends.side.transmit_consumer(),
            side: ends.side,
            held: 0,
            pressure: ends.handling.marks,
            load: Load::Clear,
            queue: Average::default(),
            mark_at: ends.handling.mark_at,
            rests: false,
            waiting: VecDeque::with_capacity(ends.handling.hold as usize),
            hold: ends.handling.hold as usize,
            turns: ends.handling.turns,
            asleep: false,
            takes_turns: false,
            calls: Calls::default(),
            probe: Probe::default(),
            offence: None,
        }
    }

    /// Its number as a holder.
    #[inline(always)]
    pub(crate) const fn holder(&self) -> u16 {
        FIRST_INSTANCE + self.number
    }

    /// Whether packets on their way to it are marked.
    #[inline(always)]
    pub(crate) const fn marks_packets(&self) -> bool {
        self.queue.is_congested(self.mark_at)
    }

    /// Packets given to it and those that wait for room in its ring, ever (wraps).
    #[inline(always)]
    pub(crate) fn sent_to(&self) -> u32 {
        self.to_nf.produced().wrapping_add(self.waiting.len() as u32)
    }

    /// How many more packets it may hold.
    #[inline(always)]
    pub(crate) const fn window(&self) -> usize {
        (self.to_nf.size() - self.held) as usize
    }
}
