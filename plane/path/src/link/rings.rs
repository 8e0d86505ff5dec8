//! Link to an NF on rings in shared memory: packets stay where they are, and only their descriptors go back
//! and forth.
//!
//! Here the manager reads words that an untrusted NF wrote. A descriptor is believed only after its index,
//! extent and holder were checked; the first offence condemns the NF: nothing is read from it or given to it
//! any more.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Sender;

use headgate_decide::congestion::Average;
use headgate_decide::pressure::QueueMarks;
use headgate_decide::wake::{CallMarks, Cores};
use headgate_shm::ring::{Consumer, Producer};
use headgate_shm::{Descriptor, ManagerSide, Offence};
use headgate_units::{CoreId, InstanceId, RegionId};

use crate::BURST;
use crate::board::InstanceCounts;
use crate::burst::{Agreement, Burst, Run};
use crate::delay::{self, Delayed};
use crate::drop::DropReason;
use crate::event::Event;
use crate::holders::{Holder, Place};
use crate::ledger::Ledger;
use crate::mark::mark_all;
use crate::probe::{Probe, Told};
use crate::view::View;

use super::lend::Lend;
use super::service::{Handling, Remains, Service, Taken};
use super::sleep::Sleep;

/// Ends of the rings of an NF that is ready.
pub struct RingEnds {
    /// The core it runs on, for wake-up calls: NFs of one core share it.
    pub core: CoreId,
    /// Whether it ever sleeps.
    pub sleeps: bool,
    /// Marks from which a call is worth it.
    pub marks: CallMarks,
    /// Treatment of an NF that cannot keep up.
    pub handling: Handling,
    /// Number of empty buffers to lend it for packets it makes, at most [`headgate_shm::control::LENT_MAX`]
    /// and fewer than its ring has places.
    pub lend: u32,
    /// Whether it takes frames that are not cut yet.
    pub takes_long: bool,
    /// Its memory.
    pub side: Arc<ManagerSide>,
}

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
    /// Its sleep, and its worker's memory of calls.
    sleep: Sleep,
    /// Packet whose delay here is being measured.
    probe: Probe,
    /// Its offence, if it was condemned.
    offence: Option<Offence>,
    events: Sender<Event>,
}

impl Rings {
    pub fn new(service: Service, ends: RingEnds) -> Self {
        let lend =
            (ends.lend > 0).then(|| Box::new(Lend::new(&service, ends.lend, ends.side.lend_producer())));
        Self {
            number: service.number,
            region: service.region,
            capacity: ends.side.layout().ring() - ends.lend,
            lend,
            handling: ends.handling,
            takes_long: ends.takes_long,
            to_nf: ends.side.receive_producer(),
            from_nf: ends.side.transmit_consumer(),
            side: ends.side,
            held: 0,
            queue: Average::default(),
            pending: VecDeque::with_capacity(ends.handling.pending_max as usize),
            is_blocked: false,
            sleep: Sleep::new(ends.core, ends.sleeps, ends.marks),
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

    /// Notes the NF's load on its core. Returns whether it sleeps while packets wait for it.
    #[inline(always)]
    pub fn note_core(&mut self, cores: &mut Cores) -> bool {
        let given_on = self.given_on();
        !self.is_condemned()
            && self.sleep.note(self.side.doorbell(), self.held, given_on, self.is_blocked, cores)
    }

    /// Returns how many packets it has given on, ever (wraps).
    #[inline(always)]
    fn given_on(&self) -> u32 {
        self.to_nf.produced().wrapping_sub(self.held)
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
            && let Some(must_yield) = self.sleep.must_yield(view.now, self.held, self.given_on(), cores)
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
        self.hand_over(ledger, fits, |place| place.at(position));
        if !late.is_empty() {
            self.keep_pending(ledger, position, late);
        }
        self.probe.on_delivered(view.now, self.sent_to());
    }

    /// Puts packets into the ring, which has room for all of them if the NF takes what it returns.
    #[inline(always)]
    fn hand_over(&mut self, ledger: &mut Ledger, run: Run, here: impl Fn(Place) -> Place) {
        let (holders, holder) = (&ledger.store(self.region).holders, Holder::instance(self.number));
        for (packet, place) in run.packets.iter_mut().zip(run.places.iter()) {
            holders.set_place(packet.index(), here(*place).held_by(holder));
            *packet = packet.with_tag(u32::from(place.port().0));
        }
        let pushed = self.to_nf.push(run.packets).unwrap_or(0);
        self.held += pushed as u32;
        let counts = &ledger.board.instances[self.number.index()];
        counts.delivered.add(pushed as u64);
        counts.held.set(u64::from(self.held));
        if pushed < run.len() {
            self.condemn(Offence::ReceiveIndex);
            ledger.end_run(DropReason::StageDown, &run.split_at(pushed).1);
        }
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
        self.hand_over(ledger, burst.all(), |place| place);
    }

    /// Takes the packets that the NF returned out of its transmit ring, after checking each.
    #[inline]
    pub fn take(&mut self, view: &View, ledger: &mut Ledger, burst: &mut Burst) -> Taken {
        burst.begin(self.region, 0);
        if self.is_condemned() {
            return Taken::Nothing;
        }
        let Ok(count) = self.from_nf.pop(&mut burst.packets) else {
            self.condemn(Offence::TransmitIndex);
            return Taken::Nothing;
        };
        if count == 0 {
            return Taken::Nothing;
        }
        burst.count = count;
        let (mut taken, offence) = self.check(ledger, burst);
        if let Some(offence) = offence {
            self.condemn(offence);
        }
        let mut returned = burst.count;
        if let Some(lend) = &mut self.lend {
            (returned, taken) = lend.sort_out(view, ledger, burst, taken);
        }
        self.held -= returned as u32;
        let counts = &ledger.board.instances[self.number.index()];
        counts.returned.add(returned as u64);
        counts.held.set(u64::from(self.held));
        self.probe_returned(view, ledger);
        taken
    }

    /// Checks descriptors one by one and takes their buffers out of the NF's hands; the burst ends before the
    /// first offence.
    #[inline(always)]
    fn check(&self, ledger: &Ledger, burst: &mut Burst) -> (Taken, Option<Offence>) {
        let store = ledger.store(self.region);
        let (geometry, holder) = (store.stack.region().geometry(), Holder::instance(self.number));
        let (mut good, mut offence, mut verdicts, mut ways) = (0, None, 0, Agreement::default());
        for at in 0..burst.count.min(BURST) {
            let packet = burst.packets[at];
            if let Err(found) = geometry.check(packet) {
                offence = Some(found);
                break;
            }
            let slot = store.holders.slot(packet.index());
            let held = slot.get();
            if held.holder() != holder {
                offence = Some(Offence::NotHeld);
                break;
            }
            let place = held.advanced();
            slot.set(place);
            burst.places[at] = place;
            verdicts |= packet.tag();
            ways.add(place.way());
            good = at + 1;
        }
        burst.count = good;
        let taken = match (good, verdicts, ways.is_one()) {
            (0, ..) => Taken::Nothing,
            (_, 0, true) => Taken::OneWay,
            (_, 0, false) => Taken::Onward,
            _ => Taken::Verdicts,
        };
        (taken, offence)
    }

    /// Counts packets that came back.
    #[inline(always)]
    fn probe_returned(&mut self, view: &View, ledger: &Ledger) {
        let used = self.lend.as_ref().map_or(0, |lend| lend.used());
        let returned = self.from_nf.consumed().wrapping_sub(used);
        if let Some((waited, worked)) = self.probe.on_returned(view.now, returned) {
            if let Some(waited) = waited {
                delay::note(&ledger.board, Delayed::Queueing(self.number), waited);
            }
            delay::note(&ledger.board, Delayed::Processing(self.number), worked);
        }
    }

    /// Samples its queue, and where the watched packet is; lends it buffers in place of those it used.
    #[inline(always)]
    pub fn tend(&mut self, view: &View, ledger: &mut Ledger) {
        self.queue = self.queue.sample(self.depth());
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
    pub fn reclaim(self, ledger: &mut Ledger) -> Remains {
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
