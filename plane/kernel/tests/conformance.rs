//! An interface of the kernel does what every queue does. It takes root.

mod common;

use std::time::Duration;

use common::{cable, inside};
use headgate_host::namespace::Namespace;
use headgate_host::network::Links;
use headgate_kernel::interface::{self, Kind, Terms};
use headgate_kernel::{InterfaceIo, Pool, attach, open};
use headgate_port::Queue;
use headgate_port::testing::conformance::{
    Abilities, Backend, Device, FRAME_BYTES_MAX, Gives, LONG_BYTES, run,
};
use headgate_port::testing::{numbered, packets, receive, stack};
use headgate_session::kernel_io::{Driver, KernelIo};
use headgate_shm::Stack;
use headgate_shm::geometry::HEADROOM_BYTES;

/// An interface whose frames fit the buffers, and one whose frames may not.
const MTUS: [u32; 2] = [1500, 3000];
/// Packets in the ring of the interface under test.
const RING: usize = 1024;

fn io(driver: Driver, queue: u32, frame_bytes: u32) -> KernelIo {
    KernelIo { driver, batch: 32, queue, frame_bytes, interfaces: ["near".into(), "far".into()] }
}

struct Interface<'n> {
    namespace: &'n Namespace,
    mtu: u32,
}

impl Backend for Interface<'_> {
    fn abilities(&self) -> Abilities {
        Abilities {
            gives: Gives::Offered,
            shows_what_left: true,
            brings_long_frames: self.mtu as usize > LONG_BYTES,
            sent_bytes_max: Some(self.mtu + 14).filter(|&most| most < FRAME_BYTES_MAX),
            patience: 500,
            ..Abilities::default()
        }
    }

    fn open(&mut self, _stack: &mut Stack, _incoming: &[Vec<u8>]) -> Box<dyn Device> {
        // What an earlier device left behind.
        let _ = Links::here().unwrap().delete("near");
        cable(self.namespace, "near", "far", self.mtu);
        let far = io(Driver::Packet, 1 << 16, 2 * FRAME_BYTES_MAX);
        let mut pool = Pool::over(Pool::memory(&far, 1024).unwrap());
        let socket = open::open("far", &far, pool.region()).unwrap().socket;
        let far = attach(socket, &far, &mut pool).unwrap();
        let mut ends = Ends { queue: Some(near_queue()), far, pool, offered: 0 };
        ends.wait_for_carrier();
        // What came meanwhile is none of the suite's.
        ends.queue = Some(near_queue());
        ends.offered = 0;
        Box::new(ends)
    }
}

fn near_queue() -> Box<dyn Queue> {
    let terms = Terms {
        name: "near".to_owned(),
        kind: Kind::Sockets,
        waiting: RING as u32,
        frame_bytes: FRAME_BYTES_MAX,
        joins: true,
    };
    interface::open(terms).unwrap().0
}

/// A queue on one interface of a pair, and a packet socket on the other.
struct Ends {
    /// Always there, but while another takes its place.
    queue: Option<Box<dyn Queue>>,
    far: Box<dyn InterfaceIo>,
    pool: Pool,
    offered: u64,
}

impl Ends {
    /// The kernel needs a moment to see the cable plugged in, and drops what is sent before.
    fn wait_for_carrier(&mut self) {
        let mut stack = stack(64);
        for _ in 0..2_000 {
            self.offer(&[numbered(0, 60)]);
            let received = receive(self.queue(), 0, &mut stack, 1).len();
            let sent = packets(&mut stack, &[numbered(0, 60)]);
            assert_eq!(self.queue().transmit(0, &mut stack, &sent), 1);
            if received > 0 && !self.take_left().is_empty() {
                // All that is on its way arrives before the suite begins.
                std::thread::sleep(Duration::from_millis(5));
                self.take_left();
                return;
            }
            self.wait();
        }
        panic!("nothing comes through the pair");
    }
}

impl Device for Ends {
    fn queue(&mut self) -> &mut dyn Queue {
        &mut **self.queue.as_mut().unwrap()
    }

    /// No more than the ring has room for: the kernel drops what is beyond.
    fn offer(&mut self, frames: &[Vec<u8>]) -> usize {
        let counters = self.queue().counters();
        let on_their_way = (self.offered - counters.received - counters.too_long) as usize;
        let count = frames.len().min(RING - on_their_way).min(256);
        let lend = |frame: &Vec<u8>| {
            let taken = self.pool.lend().expect("the pool is large");
            self.pool.region().write(taken.index(), HEADROOM_BYTES, frame);
            taken.with_extent(HEADROOM_BYTES, frame.len() as u32)
        };
        let packets: Vec<_> = frames[..count].iter().map(lend).collect();
        self.far.send(&mut self.pool, &packets).unwrap();
        self.offered += count as u64;
        count
    }

    fn take_left(&mut self) -> Vec<Vec<u8>> {
        let mut frames = Vec::new();
        loop {
            let mut packets = Vec::new();
            self.far.receive(&mut self.pool, &mut packets).unwrap();
            if packets.is_empty() {
                return frames;
            }
            for packet in packets {
                let mut bytes = vec![0; packet.length() as usize];
                self.pool.region().read(packet, &mut bytes);
                self.pool.put(packet);
                frames.push(bytes);
            }
        }
    }

    fn wait(&mut self) {
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn an_interface_is_a_queue() {
    inside("an_interface_is_a_queue", |namespace| {
        for mtu in MTUS {
            run(&mut Interface { namespace, mtu });
        }
    });
}

#[test]
fn one_vlan_tag_is_beyond_the_mtu() {
    inside("one_vlan_tag_is_beyond_the_mtu", |namespace| {
        let mut stack = stack(64);
        let mut ends = Interface { namespace, mtu: 1500 }.open(&mut stack, &[]);
        let tagged = |length: usize, kind: [u8; 2]| {
            let mut frame = numbered(0, length - 4);
            frame.splice(12..12, [kind[0], kind[1], 0, 7]);
            frame
        };
        let (customer, service) = ([0x81, 0], [0x88, 0xa8]);
        let frames = [tagged(1518, customer), tagged(1519, customer), tagged(1518, service)];
        let sent = packets(&mut stack, &frames);
        let before = ends.queue().counters();
        assert_eq!(ends.queue().transmit(0, &mut stack, &sent), 3);
        let mut left = Vec::new();
        while left.is_empty() {
            ends.wait();
            left = ends.take_left();
        }
        assert_eq!(left, frames[..1]);
        let after = ends.queue().counters();
        assert_eq!((after.sent - before.sent, after.failed - before.failed, stack.len()), (1, 2, 64));
    });
}
