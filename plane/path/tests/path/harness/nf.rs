//! An NF in this process, on the NF's side of the shared memory and with mappings of its own.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use headgate_shm::ring::{Consumer, Producer};
use headgate_shm::{Descriptor, ManagerSide, Memory, NfSide, Region, doorbell};

/// Handler of an NF: returns a packet with a verdict, and changed if it likes.
pub type Handler = Box<dyn FnMut(&Region, Descriptor) -> Descriptor + Send>;

/// Handler of an NF that makes packets: returns what it puts into its transmit ring for a packet, in this
/// order; it can take empty buffers.
pub type Making = Box<dyn FnMut(&Region, Descriptor, &mut Consumer) -> Vec<Descriptor> + Send>;

/// Makes a packet in a buffer that is lent, if there is one now.
pub fn make(region: &Region, lent: &mut Consumer, frame: &[u8], tag: u32) -> Option<Descriptor> {
    let mut empty = [Descriptor::default()];
    (lent.pop(&mut empty) == Ok(1)).then(|| {
        region.write(empty[0].index(), empty[0].offset(), frame);
        empty[0].with_extent(empty[0].offset(), frame.len() as u32).with_tag(tag)
    })
}

/// Well-behaved NF.
pub struct Nf {
    pub side: NfSide,
    /// The other side of its memory.
    pub manager: Arc<ManagerSide>,
    pub receive: Consumer,
    pub transmit: Producer,
    pub region: Region,
    /// Its descriptor of the control region's file.
    pub control: OwnedFd,
    pub handler: Handler,
    pub lent: Consumer,
    /// Handler that makes packets, in place of `handler`.
    pub making: Option<Making>,
    /// Whether it goes to sleep when it finds nothing to do.
    pub naps: bool,
}

impl Nf {
    /// Attaches over duplicates of the manager's files, as an NF process would.
    pub fn attach(manager: &Arc<ManagerSide>, region: &Region) -> Self {
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
            control: manager.control().duplicate_file().unwrap(),
            handler: Box::new(|_, packet| packet.with_tag(0)),
            lent: side.lend_consumer(),
            making: None,
            naps: false,
            side,
            manager: manager.clone(),
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
        let packets = self.take(self.receive.size() as usize);
        for packet in packets.iter().copied() {
            let back = match &mut self.making {
                Some(making) => making(&self.region, packet, &mut self.lent),
                None => vec![(self.handler)(&self.region, packet)],
            };
            self.give_back(&back);
        }
        if self.naps && packets.is_empty() {
            doorbell::announce(self.side.doorbell());
            if self.receive.refresh().unwrap() > 0 {
                doorbell::withdraw(self.side.doorbell());
            }
        }
        packets.len()
    }
}
