//! An NF in this process, on the NF's side of the shared memory and with mappings of its own.

use std::os::fd::OwnedFd;

use headgate_shm::ring::{Consumer, Producer};
use headgate_shm::{Descriptor, ManagerSide, Memory, NfSide, Region, doorbell};

/// What an NF does with a packet: returns it with a verdict, and changed if it likes.
pub type Handler = Box<dyn FnMut(&Region, Descriptor) -> Descriptor + Send>;

/// A well-behaved NF.
pub struct Nf {
    pub side: NfSide,
    pub receive: Consumer,
    pub transmit: Producer,
    pub region: Region,
    /// Its descriptor of the control region's file.
    pub control: OwnedFd,
    pub handler: Handler,
    /// Goes to sleep when it finds nothing to do.
    pub naps: bool,
}

impl Nf {
    /// Attaches over duplicates of the manager's files, as an NF process would.
    pub fn attach(manager: &ManagerSide, region: &Region) -> Self {
        let map = |memory: &Memory, writable| {
            let file = memory.duplicate_file().unwrap();
            Memory::attach("nf", file, memory.bytes(), writable).unwrap()
        };
        let (control, directives) = (map(manager.control(), true), map(manager.directives(), false));
        let side = NfSide::attach(control, directives, manager.layout()).unwrap();
        Self {
            receive: side.receive_consumer(),
            transmit: side.transmit_producer(),
            region: Region::attach(map(region.memory(), true), region.geometry()).unwrap(),
            side,
            control: manager.control().duplicate_file().unwrap(),
            handler: Box::new(|_, packet| packet.with_tag(0)),
            naps: false,
        }
    }

    /// Takes up to `most` packets and keeps them.
    pub fn take(&mut self, most: usize) -> Vec<Descriptor> {
        let mut packets = vec![Descriptor::default(); most];
        let count = self.receive.pop(&mut packets).unwrap();
        packets.truncate(count);
        packets
    }

    /// Gives packets back, each with its verdict in it.
    pub fn give_back(&mut self, packets: &[Descriptor]) {
        assert_eq!(self.transmit.push(packets), Ok(packets.len()), "an honest NF always finds room");
    }

    /// Works on everything that waits, unless it sleeps. Returns how many packets that were.
    pub fn step(&mut self) -> usize {
        if self.naps && doorbell::is_sleeping(self.side.doorbell()) {
            return 0;
        }
        let mut packets = self.take(self.receive.size() as usize);
        for packet in &mut packets {
            *packet = (self.handler)(&self.region, *packet);
        }
        self.give_back(&packets);
        if self.naps && packets.is_empty() {
            doorbell::announce(self.side.doorbell());
            if self.receive.refresh().unwrap() > 0 {
                doorbell::withdraw(self.side.doorbell());
            }
        }
        packets.len()
    }
}
