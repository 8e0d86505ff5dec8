//! Station 6, emit: out of a port.

use headgate_shm::Descriptor;

use crate::BURST;
use crate::board::Station;
use crate::drop::Reason;
use crate::holders::Place;
use crate::worker::Worker;

impl Worker {
    /// Sends packets that lie in one region out of a port.
    pub(crate) fn emit(
        &mut self,
        now: u64,
        port: u16,
        region: u8,
        packets: &mut [Descriptor],
        places: &[Place],
    ) {
        let Some(home) = self.plan.ports.get(port as usize) else {
            return self.end_each(region, Reason::NoSuchPort, packets, places);
        };
        let Some(&Some(device)) = self.device_of_port.get(port as usize) else {
            let worker = home.worker_for[self.number as usize];
            return self.ship(worker, Some(port as u8), region, packets, places);
        };
        let previous = self.enter(Station::Emit);
        match self.devices[device as usize].device.region() {
            Some(own) if own != region => self.emit_across(now, device, own, region, packets, places),
            _ => self.emit_here(now, device, region, packets, places),
        }
        self.passed(Station::Emit, packets.len());
        self.leave(previous);
    }

    fn emit_here(&mut self, now: u64, device: u8, region: u8, packets: &[Descriptor], places: &[Place]) {
        let store = &mut self.stores[region as usize];
        for packet in packets {
            store.holders.set_place(packet.index(), Place::FREE);
        }
        let sent = self.devices[device as usize].device.transmit(now, &mut store.stack, packets);
        let mut start = 0;
        while start < sent {
            let chain = places[start].chain();
            let run = places[start..sent].iter().take_while(|place| place.chain() == chain).count();
            self.board.chains[chain as usize].left.add(run as u64);
            start += run;
        }
        self.sample_whole(now, region, &packets[..sent], &places[..sent]);
        if sent < packets.len() {
            self.end_each(region, Reason::PortFull, &packets[sent..], &places[sent..]);
        }
    }

    /// The port can only send from its own region: each packet is copied once.
    fn emit_across(
        &mut self,
        now: u64,
        device: u8,
        own: u8,
        region: u8,
        packets: &mut [Descriptor],
        places: &[Place],
    ) {
        let mut kept = [Place::default(); BURST];
        let count = self.cross(region, own, packets, places, &mut kept);
        self.emit_here(now, device, own, &packets[..count], &kept[..count]);
    }
}
