//! Link to an NF on rings in shared memory: packets stay where they are, and only their descriptors go back
//! and forth.
//!
//! Here the manager reads words that an untrusted NF wrote. A descriptor is believed only after its index,
//! extent and holder were checked; the first offence condemns the NF: nothing is read from it or given to it
//! any more.
//!
//! - [`take`]: packets out of the ring of an NF, each checked;
//! - [`straight`]: the same where all go one way;
//! - [`succession`]: what an instance with a standby needs; [`takeover`]: a standby in the place of a process
//!   that died.

mod ends;
mod straight;
mod succession;
mod take;
mod takeover;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Sender;

use headgate_decide::congestion::Average;
use headgate_decide::pressure::QueueMarks;
use headgate_decide::wake::{Cores, Hold, Seat};
use headgate_shm::ring::{Batch, Consumer, Producer};
use headgate_shm::{Descriptor, ManagerSide, Offence};
use headgate_units::{InstanceId, RegionId};

use crate::BURST;
use crate::board::InstanceCounts;
use crate::burst::{Burst, Run};
use crate::delay::{self, Delayed};
use crate::drop::DropReason;
use crate::event::Event;
use crate::holders::{Holder, Place, Records};
use crate::ledger::Ledger;
use crate::mark::mark_all;
use crate::probe::{Probe, Told};
use crate::view::View;

use super::lend::Lend;
use super::service::{Handling, Remains, Service};
use super::sleep::Sleep;
pub use ends::RingEnds;
use succession::Succession;

/// NF on rings as its worker sees it.
pub(crate) struct Rings {
    number: InstanceId,
    region: RegionId,
    handling: Handling,
    takes_long: bool,
    to_nf: Producer,
    from_nf: Consumer,
    side: Arc<ManagerSide>,
    /// Packets in its rings and hands. With the buffers it is lent never more than a ring is long, so its
    /// transmit ring always has room and an honest NF never waits for the manager.
    held: u32,
    /// Most packets it may hold.
    capacity: u32,
    /// Buffers for packets it makes, if it asked for some.
    lend: Option<Box<Lend>>,
    /// Its smoothed queue.
    queue: Average,
    /// Packets that others have worked on, waiting for room in its ring.
    pending: VecDeque<(Descriptor, Place)>,
    is_blocked: bool,
    /// Whether the last packets that it returned went on one way: the next ones are tried straight.
    goes_straight: bool,
    /// Its sleep, and its worker's memory of calls.
    sleep: Sleep,
    /// Packet whose delay here is being measured.
    probe: Probe,
    /// Its offence, if it was condemned.
    offence: Option<Offence>,
    /// What its standby will need, if it is to have one.
    succession: Option<Box<Succession>>,
    events: Sender<Event>,
}

impl Rings {
    /// Takes an instance into service whose packets lie in buffers below `indices`.
    pub fn new(service: Service, ends: RingEnds, indices: u32) -> Self {
        let lend =
            (ends.lend > 0).then(|| Box::new(Lend::new(&service, ends.lend, ends.side.lend_producer())));
        let capacity = ends.side.layout().ring() - ends.lend;
        let holder = Holder::instance(service.number);
        let succession = |base| Box::new(Succession::new(holder, base, capacity, indices));
        Self {
            number: service.number,
            region: service.region,
            capacity,
            lend,
            succession: ends.protected.map(succession),
            handling: ends.handling,
            takes_long: ends.takes_long,
            to_nf: ends.side.receive_producer(),
            from_nf: ends.side.transmit_consumer(),
            side: ends.side,
            held: 0,
            queue: Average::default(),
            pending: VecDeque::with_capacity(ends.handling.pending_max as usize),
            is_blocked: false,
            goes_straight: false,
            sleep: Sleep::new(Seat::new(ends.core, service.region), ends.sleeps, ends.marks),
            probe: Probe::default(),
            offence: None,
            events: service.events,
        }
    }

    pub const fn queue_marks(&self) -> Option<QueueMarks> {
        self.handling.marks
    }

    pub const fn can_sleep(&self) -> bool {
        self.sleep.is_possible()
    }

    /// Returns whether it is condemned.
    #[inline(always)]
    pub const fn is_condemned(&self) -> bool {
        self.offence.is_some()
    }

    #[inline(always)]
    pub fn depth(&self) -> u32 {
        self.held + self.pending.len() as u32
    }

    /// Returns whether nothing can come from it before something goes to it. One that makes packets gives
    /// them when it likes.
    pub fn is_quiet(&self) -> bool {
        self.depth() == 0 && self.lend.is_none()
    }

    /// Returns how many more packets it may hold.
    #[inline(always)]
    const fn window(&self) -> usize {
        (self.capacity - self.held) as usize
    }

    /// Returns how many packets were given to it or wait for room in its ring, ever (wraps).
    #[inline(always)]
    fn sent_to(&self) -> u32 {
        self.to_nf.produced().wrapping_add(self.pending.len() as u32)
    }

    pub fn set_blocked(&mut self, blocked: bool) {
        if blocked != self.is_blocked {
            self.is_blocked = blocked;
            self.side.orders().blocked.store(u32::from(blocked), Ordering::Relaxed);
        }
    }

    /// Returns whether it was called and has not taken what it was called for yet.
    pub fn is_on_its_way(&mut self) -> bool {
        // What it has taken by now is only read of one that took nothing by the last time.
        if self.is_condemned() || !self.sleep.is_on_its_way(self.to_nf.consumed_seen()) {
            return false;
        }
        if self.to_nf.refresh().is_err() {
            self.condemn(Offence::ReceiveIndex);
            return false;
        }
        self.sleep.is_on_its_way(self.to_nf.consumed_seen())
    }

    /// Notes the NF's load on its core. Returns whether it sleeps while packets wait for it.
    #[inline(always)]
    pub fn note_core(&mut self, cores: &mut Cores) -> bool {
        let hold = self.hold();
        !self.is_condemned() && self.sleep.note(self.side.doorbell(), hold, self.is_blocked, cores)
    }

    /// Returns what it holds, and how many packets it has given on.
    #[inline(always)]
    fn hold(&self) -> Hold {
        Hold { packets: self.held, given_on: self.to_nf.produced().wrapping_sub(self.held) }
    }

    /// Calls the NF if it sleeps while packets wait for it and that is worth a call.
    pub fn consider_call(&mut self, view: &View, counts: &InstanceCounts, cores: &mut Cores) {
        if self.is_condemned() || !self.sleep.is_asleep() || self.held == 0 || self.is_blocked {
            return;
        }
        let Ok(backlog) = self.to_nf.refresh() else {
            return self.condemn(Offence::ReceiveIndex);
        };
        let taken = self.to_nf.consumed_seen();
        if self.sleep.consider_call(view.now, self.side.doorbell(), backlog, taken, cores) {
            counts.calls.add(1);
        }
    }

    /// Sets whether the NF must yield to the others of its core.
    #[inline(always)]
    pub fn arrange_yield(&mut self, view: &View, cores: &Cores) {
        if self.handling.yields
            && let Some(must_yield) = self.sleep.must_yield(view.now, self.hold(), cores)
        {
            self.side.orders().must_yield.store(u32::from(must_yield), Ordering::Relaxed);
        }
    }

    /// Condemns the NF: nothing is read from it or given to it from now on, and the control loop stops it.
    #[cold]
    pub fn condemn(&mut self, offence: Offence) {
        if self.offence.is_none() {
            self.offence = Some(offence);
            // Without a control loop nobody gets the event, and the process is about to end.
            let _ = self.events.send(Event::Offence { number: self.number, offence });
        }
    }

    /// Puts packets into the receive ring, as many as the NF may hold.
    #[inline]
    pub fn deliver(&mut self, view: &View, ledger: &mut Ledger, position: u8, run: Run) {
        if self.is_condemned() {
            return ledger.end_run(DropReason::StageDown, &run);
        }
        let run = if self.takes_long { run } else { ledger.without_long(run) };
        let run = if run.region == self.region { run } else { ledger.cross(run, self.region) };
        if self.queue.is_congested(self.handling.mark_at) {
            let marked = mark_all(ledger.store(self.region).stack.region(), run.packets);
            ledger.board.instances[self.number.index()].marked.add(marked);
        }
        let room = if self.pending.is_empty() { self.window() } else { 0 };
        let (fits, late) = run.split_at_most(room);
        self.hand_over(ledger, Some(position), fits);
        if !late.is_empty() {
            self.keep_pending(ledger, position, late);
        }
        self.probe.on_delivered(view.now, self.sent_to());
    }

    /// Puts packets into the ring, which has room for all of them if the NF takes what it returns.
    #[inline(always)]
    fn hand_over(&mut self, ledger: &mut Ledger, position: Option<u8>, run: Run) {
        let Some(first) = run.places.first() else { return };
        let holder = Holder::instance(self.number);
        let here = |place: Place| position.map_or(place, |position| place.at(position)).held_by(holder);
        let Ok(batch) = self.to_nf.batch(run.len()) else {
            self.condemn(Offence::ReceiveIndex);
            return ledger.end_run(DropReason::StageDown, &run);
        };
        let records = ledger.store(self.region).holders.records();
        if run.is_one_way {
            let there = here(*first);
            put_all(records, batch, run.packets.iter().map(|packet| (*packet, there)));
        } else {
            put_all(records, batch, run.iter().map(|(packet, place)| (packet, here(place))));
        }
        if let Some(succession) = &mut self.succession {
            for (packet, place) in run.iter() {
                succession.given.note(records, packet.with_tag(u32::from(place.port().0)));
            }
        }
        self.note_delivered(ledger, run.len());
    }

    /// Counts packets that were put into the ring.
    #[inline(always)]
    fn note_delivered(&mut self, ledger: &Ledger, count: usize) {
        self.held += count as u32;
        let counts = &ledger.board.instances[self.number.index()];
        counts.delivered.add(count as u64);
        counts.held.set(u64::from(self.held));
    }

    /// Handles a full ring. Packets that no NF has worked on yet end here; the others wait, as many as may.
    #[cold]
    fn keep_pending(&mut self, ledger: &mut Ledger, position: u8, run: Run) {
        let most = self.handling.pending_max as usize;
        let room = if position > 0 { most - self.pending.len() } else { 0 };
        let (stay, late) = run.split_at_most(room);
        let holders = &ledger.store(self.region).holders;
        for (packet, place) in stay.iter() {
            let place = place.at(position).held_by(Holder::WORKER);
            holders.set_place(packet.index(), place);
            self.pending.push_back((packet, place));
        }
        ledger.board.instances[self.number.index()].pending.set(self.pending.len() as u64);
        ledger.end_at_full(self.number, position > 0, &late);
    }

    /// Moves packets that waited for room into the ring.
    #[inline(always)]
    pub fn deliver_pending(&mut self, ledger: &mut Ledger, burst: &mut Burst) {
        if !self.pending.is_empty() && !self.is_condemned() {
            self.deliver_some_pending(ledger, burst);
        }
    }

    #[cold]
    fn deliver_some_pending(&mut self, ledger: &mut Ledger, burst: &mut Burst) {
        let count = self.pending.len().min(self.window()).min(BURST);
        for (at, (packet, place)) in self.pending.drain(..count).enumerate() {
            (burst.packets[at], burst.places[at]) = (packet, place);
        }
        burst.begin(self.region, count);
        ledger.board.instances[self.number.index()].pending.set(self.pending.len() as u64);
        self.hand_over(ledger, None, burst.all());
    }

    /// Samples its queue, and where the watched packet is; lends it buffers in place of those it used.
    #[inline(always)]
    pub fn tend(&mut self, view: &View, ledger: &mut Ledger) {
        self.queue = self.queue.sample(self.depth());
        self.free_retired(ledger, false);
        if let Some(lend) = &mut self.lend
            && lend.is_short()
            && self.offence.is_none()
            && let Err(offence) = lend.lend_more(ledger)
        {
            self.condemn(offence);
        }
        if self.probe.is_due(view.now) && !self.is_condemned() {
            self.sample_watched(view, ledger);
        }
    }

    #[cold]
    fn sample_watched(&mut self, view: &View, ledger: &Ledger) {
        if self.to_nf.refresh().is_err() {
            return self.condemn(Offence::ReceiveIndex);
        }
        match self.probe.on_taken(view.now, self.to_nf.consumed_seen()) {
            Some(Told::Waited(delay)) => delay::note(&ledger.board, Delayed::Queueing(self.number), delay),
            Some(Told::Worked(delay)) => delay::note(&ledger.board, Delayed::Processing(self.number), delay),
            None => {}
        }
    }

    /// Takes back all that the holder table says it held, and ends these packets. Its process can no longer
    /// write.
    pub fn reclaim(mut self, ledger: &mut Ledger) -> Remains {
        self.free_retired(ledger, true);
        let holders = ledger.store(self.region).holders.clone();
        let mut lost = 0;
        for (index, place) in holders.held_by(Holder::instance(self.number)) {
            let packet = Descriptor::new(index, 0, 0, 0);
            if place.is_lent() {
                ledger.release(self.region, packet);
                continue;
            }
            ledger.end(place.chain(), self.region, DropReason::NfDied, &[packet]);
            lost += 1;
        }
        let counts = &ledger.board.instances[self.number.index()];
        counts.pending.set(0);
        counts.lent.set(0);
        Remains { lost, returned: self.from_nf.consumed(), region: self.region, pending: self.pending }
    }
}

/// Puts packets into a ring, each at its place from there on.
#[inline(always)]
fn put_all(records: Records, mut batch: Batch, packets: impl Iterator<Item = (Descriptor, Place)>) {
    for (packet, place) in packets {
        records.set_place(packet.index(), place);
        batch.put(packet.with_tag(u32::from(place.port().0)));
    }
    batch.publish();
}
