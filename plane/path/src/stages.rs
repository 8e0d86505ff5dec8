//! Stages: the instances of NFs in the hands of a worker.

use std::sync::mpsc::Sender;

use headgate_decide::pressure::Load;
use headgate_units::{ChainId, InstanceId, RegionId};

use crate::burst::Burst;
use crate::drop::DropReason;
use crate::event::Event;
use crate::flows::Seeds;
use crate::instance::Instance;
use crate::ledger::Ledger;
use crate::link::{Link, LinkEnds, Remains, Service};
use crate::view::View;
use crate::wake::wake;

/// Instance that is ready, as the control loop hands it to a worker.
pub struct InstanceEnds {
    /// The instance.
    pub number: InstanceId,
    /// The region of its trust domain.
    pub region: RegionId,
    /// The ends of its link.
    pub link: LinkEnds,
}

/// Index of an instance that this worker does not have.
const ABSENT: u16 = u16::MAX;

/// State of the stations `deliver` and `hop`.
pub(crate) struct Stages {
    /// Instances in the order in which they came.
    instances: Vec<Instance>,
    /// Instance number -> its index.
    index_of: Box<[u16]>,
    /// Number of blocked instances.
    blocked: usize,
    /// Whether packets stop between instances, for a group whose order is written down.
    pub in_group: bool,
    seeds: Seeds,
    ticks_per_micro: u64,
    events: Sender<Event>,
}

impl Stages {
    /// Returns stages without instances, of which there can be so many.
    pub fn new(instances: usize, seeds: Seeds, ticks_per_micro: u64, events: Sender<Event>) -> Self {
        Self {
            instances: Vec::with_capacity(instances),
            index_of: vec![ABSENT; instances].into_boxed_slice(),
            blocked: 0,
            in_group: false,
            seeds,
            ticks_per_micro,
            events,
        }
    }

    /// Returns how many instances there are.
    pub const fn count(&self) -> usize {
        self.instances.len()
    }

    /// Returns where an instance is among them.
    #[inline(always)]
    pub fn find(&self, number: InstanceId) -> Option<usize> {
        let index = self.index_of[number.index()];
        (index != ABSENT).then_some(index as usize)
    }

    /// Returns an instance.
    #[inline(always)]
    pub fn instance(&mut self, at: usize) -> &mut Instance {
        &mut self.instances[at]
    }

    /// Returns two instances; `None` where they are one.
    #[inline(always)]
    pub fn pair(&mut self, one: usize, other: usize) -> Option<[&mut Instance; 2]> {
        self.instances.get_disjoint_mut([one, other]).ok()
    }

    /// Returns whether nothing can come from the instances before something goes to them.
    pub fn are_quiet(&self) -> bool {
        self.instances.iter().all(|instance| instance.link.is_quiet())
    }

    /// Returns how many buffers of a region are in the hands of instances' queues.
    pub fn hold(&self, region: RegionId) -> usize {
        self.instances.iter().map(|instance| instance.link.holds(region)).sum()
    }

    /// Returns the packets that are outstanding at instances but lie in no buffer of ours, with their chain.
    pub fn outstanding(&self) -> impl Iterator<Item = (ChainId, u64)> + '_ {
        self.instances.iter().filter_map(|instance| instance.link.outstanding())
    }

    /// Takes an instance into service. The one before it was reclaimed: its buffers would otherwise be this
    /// one's to return.
    pub fn attach(&mut self, ends: InstanceEnds, ledger: &Ledger) {
        let InstanceEnds { number, region, link } = ends;
        debug_assert!(self.find(number).is_none(), "instance {number} is attached before it was reclaimed");
        if self.find(number).is_some() {
            return;
        }
        let service = Service {
            number,
            region,
            seeds: self.seeds,
            ticks_per_micro: self.ticks_per_micro,
            events: self.events.clone(),
        };
        let indices = ledger.store(region).holders.indices();
        let link = Link::new(service, link, indices);
        self.index_of[number.index()] = self.instances.len() as u16;
        self.instances.push(Instance { number, queue_marks: link.queue_marks(), load: Load::Clear, link });
    }

    /// Takes an instance out of service; packets that it returned in good order were taken before. Returns
    /// the rest.
    pub fn reclaim(&mut self, view: &View, ledger: &mut Ledger, at: usize) -> Remains {
        let instance = self.instances.remove(at);
        self.index_of[instance.number.index()] = ABSENT;
        for (index, later) in self.instances.iter().enumerate().skip(at) {
            self.index_of[later.number.index()] = index as u16;
        }
        view.signals.pressure.set(instance.number, false);
        view.signals.diverts.forget(instance.number);
        let remains = instance.link.reclaim(ledger);
        let counts = &ledger.board.instances[instance.number.index()];
        counts.drops[DropReason::NfDied as usize].add(remains.lost.into());
        counts.held.set(0);
        remains
    }

    /// Returns an instance whose process has died and whose standby can take over at once.
    #[cold]
    pub fn to_be_succeeded(&self) -> Option<usize> {
        self.instances.iter().position(|instance| instance.link.is_to_be_succeeded())
    }

    /// Does what is due in each pass: judges queues, blocks and calls NFs, flushes interfaces. Returns
    /// whether a process was seen to have died whose standby can take over at once.
    pub fn tend(&mut self, view: &View, ledger: &mut Ledger) -> bool {
        let mut saw_death = false;
        for instance in &mut self.instances {
            instance.link.tend(view, ledger);
            instance.weigh(view, &ledger.board);
            saw_death |= instance.link.is_to_be_succeeded();
        }
        if view.signals.pressure.any() || self.blocked > 0 {
            self.block(view);
        }
        wake(&mut self.instances, view, &ledger.board);
        saw_death
    }

    /// Blocks the instances that only feed those that cannot keep up.
    #[cold]
    fn block(&mut self, view: &View) {
        self.blocked = 0;
        for instance in &mut self.instances {
            let blocked = instance.must_block(view);
            instance.link.set_blocked(blocked);
            self.blocked += usize::from(blocked);
        }
    }

    /// Moves packets that waited for room at an instance there.
    #[inline(always)]
    pub fn deliver_pending(&mut self, at: usize, ledger: &mut Ledger, burst: &mut Burst) {
        self.instances[at].link.deliver_pending(ledger, burst);
    }
}
