//! DPDK devices do what every queue does: drivers that need no hardware and no rights.

use std::path::PathBuf;

use headgate_dpdk::{Port, Queue, Spec};
use headgate_port::testing::conformance::{Abilities, Backend, Device, Gives, run};
use headgate_shm::Stack;
use headgate_wire::pcap::{Records, classic};
use tempfile::TempDir;

/// An open device with one queue.
struct Opened {
    /// There until it is closed.
    queue: Queue,
    port: Port,
    /// The capture it writes, if it does.
    writes: Option<PathBuf>,
}

/// Names of devices are used once in a process.
fn open(stack: &mut Stack, device: String, direct: bool, writes: Option<PathBuf>) -> Box<dyn Device> {
    let opened = Port::open(&Spec { device, queues: 1, direct, mtu: None }, stack);
    let mut opened = opened.unwrap_or_else(|error| panic!("{error}"));
    Box::new(Opened { queue: opened.queues.remove(0), port: opened.port, writes })
}

impl Device for Opened {
    fn queue(&mut self) -> &mut dyn headgate_port::Queue {
        &mut self.queue
    }

    fn count_losses(&mut self) {
        let _ = self.port.losses();
    }

    fn close(self: Box<Self>, stack: &mut Stack) -> Vec<Vec<u8>> {
        let Self { queue, port, writes } = *self;
        drop(queue);
        assert!(port.close(stack).is_ok(), "nobody else holds the device");
        let Some(path) = writes else { return Vec::new() };
        let capture = std::fs::read(path).unwrap();
        let records = Records::new(&capture).unwrap().map(Result::unwrap);
        records.map(|record| capture[record.bytes].to_vec()).collect()
    }
}

/// `net_null`: makes frames of zeroes without end, and takes all.
struct Null {
    direct: bool,
    opened: u32,
}

const NULL_FRAME_BYTES: usize = 100;

impl Backend for Null {
    fn abilities(&self) -> Abilities {
        Abilities { gives: Gives::Supply { ends: false }, ..Abilities::default() }
    }

    fn incoming(&mut self, wanted: &[Vec<u8>]) -> Vec<Vec<u8>> {
        vec![vec![0; NULL_FRAME_BYTES]; wanted.len()]
    }

    fn open(&mut self, stack: &mut Stack, _incoming: &[Vec<u8>]) -> Box<dyn Device> {
        self.opened += 1;
        let number = self.opened * 2 + u32::from(self.direct);
        open(stack, format!("net_null{number},size={NULL_FRAME_BYTES},copy=1"), self.direct, None)
    }
}

/// `net_ring`: what is sent comes back, and waits in a ring of 1024 places.
struct Ring {
    direct: bool,
    opened: u32,
}

impl Backend for Ring {
    fn abilities(&self) -> Abilities {
        Abilities { gives: Gives::Itself, fills: true, buffers: 2048, ..Abilities::default() }
    }

    fn open(&mut self, stack: &mut Stack, _incoming: &[Vec<u8>]) -> Box<dyn Device> {
        self.opened += 1;
        open(stack, format!("net_ring{}", self.opened * 2 + u32::from(self.direct)), self.direct, None)
    }
}

/// `net_pcap`: reads a capture and writes another.
struct Pcap {
    direct: bool,
    opened: u32,
    folder: TempDir,
}

impl Backend for Pcap {
    fn abilities(&self) -> Abilities {
        // The driver does not say that its capture has ended.
        let gives = Gives::Supply { ends: false };
        Abilities { gives, shows_what_left: true, brings_long_frames: true, ..Abilities::default() }
    }

    fn open(&mut self, stack: &mut Stack, incoming: &[Vec<u8>]) -> Box<dyn Device> {
        self.opened += 1;
        let (read, write) = (self.folder.path().join("in.pcap"), self.folder.path().join("out.pcap"));
        let mut capture = classic::header(u32::from(u16::MAX)).to_vec();
        for frame in incoming {
            let length = frame.len() as u32;
            capture.extend(classic::record_header(0, length, length));
            capture.extend(frame);
        }
        std::fs::write(&read, capture).unwrap();
        let number = self.opened * 2 + u32::from(self.direct);
        let device = format!("net_pcap{number},rx_pcap={},tx_pcap={}", read.display(), write.display());
        open(stack, device, self.direct, Some(write))
    }
}

#[test]
fn devices_are_queues() {
    for direct in [true, false] {
        run(&mut Null { direct, opened: 0 });
        run(&mut Ring { direct, opened: 0 });
        run(&mut Pcap { direct, opened: 0, folder: TempDir::new().unwrap() });
    }
}
