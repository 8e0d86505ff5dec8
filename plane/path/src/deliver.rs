//! Station 4, deliver: each packet into the receive ring of the instance that is next on its way.
//!
//! Packets that go the same way follow each other, so the burst is cut into runs with one target and
//! each run is handed on as a whole.

use std::collections::VecDeque;

use headgate_decide::spread;
use headgate_shm::{Descriptor, Offence};

use crate::BURST;
use crate::drop::Reason;
use crate::holders::{Origin, Place, WORKER};
use crate::plan::Hop;
use crate::worker::{Event, Worker};

impl Worker {
    /// Sends packets of one region on to where their places say.
    #[inline]
    pub(crate) fn steer(&mut self, now: u64, region: u8, packets: &mut [Descriptor], places: &mut [Place]) {
        let mut start = 0;
        while start < packets.len() {
            let (hop, end) = self.run_from(region, start, packets, places);
            let (run, run_places) = (&mut packets[start..end], &mut places[start..end]);
            match hop {
                Hop::Instance { position, number } => {
                    self.deliver(now, number, position, region, run, run_places);
                }
                Hop::Port(port) => self.emit(now, port, region, run, run_places),
                Hop::End(reason) => self.end_each(region, reason, run, run_places),
                Hop::Spread { .. } => unreachable!("run_from resolves spreading"),
            }
            start = end;
        }
    }

    /// Where the packet at `start` goes next, and where the run of packets that go there too ends. The
    /// plan is asked once for packets that go the same way, and for each only where flows are spread.
    #[inline(always)]
    fn run_from(&self, region: u8, start: usize, packets: &[Descriptor], places: &[Place]) -> (Hop, usize) {
        let place = places[start];
        let planned = self.plan.hop(place.chain(), place.position());
        let mut end = start + 1;
        if let Hop::Spread { .. } = planned {
            let hop = self.spread_hop(region, packets[start], planned);
            while end < packets.len() {
                let other = self.plan.hop(places[end].chain(), places[end].position());
                if self.spread_hop(region, packets[end], other) != hop {
                    break;
                }
                end += 1;
            }
            return (hop, end);
        }
        let mut way = place.way();
        while end < packets.len() {
            let other = places[end];
            if other.way() != way {
                if self.plan.hop(other.chain(), other.position()) != planned {
                    break;
                }
                way = other.way();
            }
            end += 1;
        }
        (planned, end)
    }

    /// Which instance the packet's flow goes to, where the plan spreads flows.
    #[inline(always)]
    fn spread_hop(&self, region: u8, packet: Descriptor, planned: Hop) -> Hop {
        let Hop::Spread { position, stage } = planned else { return planned };
        let origin = self.stores[region as usize].holders.origin(packet.index());
        Hop::Instance { position, number: self.plan.table(stage)[spread::slot(origin.flow)].0 }
    }

    /// Puts packets into the receive ring of an instance, as many as it may hold.
    #[inline]
    fn deliver(
        &mut self,
        now: u64,
        number: u16,
        position: u8,
        region: u8,
        packets: &mut [Descriptor],
        places: &mut [Place],
    ) {
        let Some(instance) = self.instances[number as usize].as_deref_mut() else {
            let worker = self.plan.instances[number as usize].worker;
            if worker == self.number {
                return self.give(now, number, position, region, packets, places);
            }
            return self.ship(worker, None, region, packets, places);
        };
        if instance.offence.is_some() {
            return self.end_each(region, Reason::StageDown, packets, places);
        }
        if instance.region != region {
            return self.deliver_across(now, number, position, region, packets, places);
        }
        let room = if instance.waiting.is_empty() { instance.window() } else { 0 };
        for place in places.iter_mut() {
            *place = place.at(position);
        }
        if instance.marks_packets() {
            self.mark(number, region, packets);
        }
        let fit = packets.len().min(room);
        self.hand_over(number, region, &mut packets[..fit], &places[..fit]);
        if fit < packets.len() {
            self.hold(number, position, region, &packets[fit..], &places[fit..]);
        }
        if let Some(instance) = self.instances[number as usize].as_deref_mut() {
            instance.probe.on_delivered(now, instance.sent_to());
        }
    }

    /// Into the ring, which has room for all of them if the NF takes what it returns.
    #[inline(always)]
    fn hand_over(&mut self, number: u16, region: u8, packets: &mut [Descriptor], places: &[Place]) {
        let Some(instance) = self.instances[number as usize].as_deref_mut() else { return };
        let (holders, holder) = (&self.stores[region as usize].holders, instance.holder());
        for (packet, place) in packets.iter_mut().zip(places) {
            holders.set_place(packet.index(), place.held_by(holder));
            *packet = packet.with_tag(u32::from(place.port()));
        }
        let pushed = instance.to_nf.push(packets).unwrap_or(0);
        instance.held += pushed as u32;
        let counts = &self.board.instances[number as usize];
        counts.delivered.add(pushed as u64);
        counts.held.set(u64::from(instance.held));
        if pushed < packets.len() {
            self.condemn(number, Offence::ReceiveIndex);
            self.end_each(region, Reason::StageDown, &packets[pushed..], &places[pushed..]);
        }
    }

    /// The ring is full. Packets that cost an NF nothing yet end here; the others wait, as many as may.
    #[cold]
    fn hold(&mut self, number: u16, position: u8, region: u8, packets: &[Descriptor], places: &[Place]) {
        let Some(instance) = self.instances[number as usize].as_deref_mut() else { return };
        let room = if position > 0 { instance.hold - instance.waiting.len() } else { 0 };
        let holders = &self.stores[region as usize].holders;
        let stay = packets.len().min(room);
        for (packet, place) in packets[..stay].iter().zip(places) {
            holders.set_place(packet.index(), place.held_by(WORKER));
            instance.waiting.push_back((*packet, *place));
        }
        let counts = &self.board.instances[number as usize];
        counts.waiting.set(instance.waiting.len() as u64);
        if stay < packets.len() {
            counts.drops[Reason::StageFull as usize].add((packets.len() - stay) as u64);
            for place in places[stay..].iter().filter(|_| position > 0) {
                self.board.chains[place.chain() as usize].wasted.add(1);
            }
            self.end_each(region, Reason::StageFull, &packets[stay..], &places[stay..]);
        }
    }

    /// Lets packets that waited for room in a ring into it.
    pub(crate) fn let_in(&mut self, number: u16) {
        let Some(instance) = self.instances[number as usize].as_deref_mut() else { return };
        if instance.waiting.is_empty() || instance.offence.is_some() {
            return;
        }
        let (region, count) = (instance.region, instance.waiting.len().min(instance.window()).min(BURST));
        let (mut packets, mut places) = ([Descriptor::default(); BURST], [Place::default(); BURST]);
        for (at, (packet, place)) in instance.waiting.drain(..count).enumerate() {
            packets[at] = packet;
            places[at] = place;
        }
        self.board.instances[number as usize].waiting.set(instance.waiting.len() as u64);
        self.hand_over(number, region, &mut packets[..count], &places[..count]);
    }

    /// Sends packets that waited for an instance on by the plan as it is now: the instance is gone.
    pub(crate) fn forward_waiting(&mut self, now: u64, region: u8, waiting: VecDeque<(Descriptor, Place)>) {
        for (packet, place) in waiting {
            self.steer(now, region, &mut [packet], &mut [place]);
        }
    }

    /// The instance belongs to another trust domain: each packet is copied once, by us.
    fn deliver_across(
        &mut self,
        now: u64,
        number: u16,
        position: u8,
        region: u8,
        packets: &mut [Descriptor],
        places: &[Place],
    ) {
        let Some(instance) = self.instances[number as usize].as_deref() else { return };
        let own = instance.region;
        let mut kept = [Place::default(); BURST];
        let count = self.cross(region, own, packets, places, &mut kept);
        self.deliver(now, number, position, own, &mut packets[..count], &mut kept[..count]);
    }

    /// Copies packets to another region. What was copied stands at the front of `packets` and `kept`
    /// afterwards; returns how many. The rest has ended.
    pub(crate) fn cross(
        &mut self,
        from: u8,
        to: u8,
        packets: &mut [Descriptor],
        places: &[Place],
        kept: &mut [Place],
    ) -> usize {
        let mut count = 0;
        for number in 0..packets.len() {
            let (packet, place) = (packets[number], places[number]);
            match self.copy_across(from, to, packet, place) {
                Ok(copy) => {
                    packets[count] = copy;
                    kept[count] = place;
                    count += 1;
                    self.release(from, packet);
                }
                Err(reason) => self.end(place.chain(), from, reason, &[packet]),
            }
        }
        count
    }

    fn copy_across(
        &mut self,
        from: u8,
        to: u8,
        packet: Descriptor,
        place: Place,
    ) -> Result<Descriptor, Reason> {
        let [source, target] = self
            .stores
            .get_disjoint_mut([from as usize, to as usize])
            .expect("packets cross between different regions");
        let index = target.stack.take().ok_or(Reason::NoBuffer)?;
        match source.stack.region().copy_across(packet, target.stack.region(), index) {
            Ok(copy) => {
                let origin: Origin = source.holders.origin(packet.index());
                target.holders.set_origin(index, origin);
                target.holders.set_place(index, place.held_by(WORKER));
                Ok(copy)
            }
            Err(_) => {
                target.stack.give(index);
                Err(Reason::TooLong)
            }
        }
    }

    /// From now on nothing is read from this NF or given to it; the control loop stops it.
    #[cold]
    pub(crate) fn condemn(&mut self, number: u16, offence: Offence) {
        if let Some(instance) = self.instances[number as usize].as_deref_mut()
            && instance.offence.is_none()
        {
            instance.offence = Some(offence);
            self.tell(Event::Offence { number, offence });
        }
    }
}
