//! Types that a link of any kind and the code around it share.

use std::collections::VecDeque;
use std::sync::mpsc::Sender;

use headgate_decide::pressure::QueueMarks;
use headgate_shm::Descriptor;
use headgate_units::{InstanceId, RegionId};

use crate::BURST;
use crate::burst::Burst;
use crate::event::{Event, Promotion};
use crate::flows::Seeds;
use crate::holders::Place;

/// Verdicts of a burst that was taken from an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// Nothing goes on.
    Nothing,
    /// Packets that all go on along their chains.
    Onward,
    /// Packets of which some were given another verdict.
    Verdicts,
    /// Packets of which the instance made some.
    Made,
}

/// Remains of an instance that was taken out of service.
#[derive(Default)]
pub(crate) struct Remains {
    /// Packets that died with it.
    pub lost: u32,
    /// Packets that were taken from it, ever (wraps).
    pub returned: u32,
    /// The region of its packets.
    pub region: RegionId,
    /// Packets that waited for room in its ring, and go on without it.
    pub pending: VecDeque<(Descriptor, Place)>,
}

/// What follows from the death of a process.
pub(crate) enum Death {
    /// Its standby is the process of the instance now.
    Succeeded(Promotion),
    /// Its packets wait for a standby.
    Waits,
    /// It has no successor: the instance is to be taken out of service.
    Final,
}

/// Facts of an instance that is taken into service.
pub(crate) struct Service {
    pub number: InstanceId,
    pub region: RegionId,
    /// The key of the flow hash: packets of external programs are hashed anew.
    pub seeds: Seeds,
    pub ticks_per_micro: u64,
    pub events: Sender<Event>,
}

impl Remains {
    /// Makes a burst of packets that waited for an instance which is gone. Returns whether there were any.
    pub fn fill(&mut self, burst: &mut Burst) -> bool {
        let count = self.pending.len().min(BURST);
        for (at, (packet, place)) in self.pending.drain(..count).enumerate() {
            (burst.packets[at], burst.places[at]) = (packet, place);
        }
        burst.begin(self.region, count);
        count > 0
    }
}

/// Treatment of an instance that cannot keep up.
#[derive(Clone, Copy, Debug, Default)]
pub struct Handling {
    /// The marks of its queue; `None`: it is never throttled.
    pub marks: Option<QueueMarks>,
    /// Average queue from which on ECN-capable packets are marked; 0: never.
    pub mark_at: u32,
    /// Most packets that wait at the worker while its ring is full, of those that an NF has worked on.
    pub pending_max: u32,
    /// Whether it yields to its neighbours between batches.
    pub yields: bool,
}
