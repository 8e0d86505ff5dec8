//! Tests of all drivers by the same questions, over a veth pair in a namespace of its own. It takes root.

mod common;

use std::net::UdpSocket;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use headgate_host::network::{Links, Mac};
use headgate_kernel::{InterfaceError, InterfaceIo, Pool, attach, check_error, open};
use headgate_session::kernel_io::{Driver, KernelIo};
use headgate_shm::descriptor::Descriptor;
use headgate_shm::geometry::HEADROOM_BYTES;
use headgate_wire::checksum::Sum;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

const DRIVERS: [Driver; 4] = [Driver::Packet, Driver::Mapped, Driver::Uring, Driver::Xdp];
const BATCHES: [u32; 3] = [1, 32, 256];
const FRAME_BYTES: u32 = 2048;
/// Maximum time of any step before a test gives up.
const PATIENCE: Duration = Duration::from_secs(20);

/// Two interfaces with a cable between them: `near` is the one under test.
struct Bed {
    near: Box<dyn InterfaceIo>,
    far: Box<dyn InterfaceIo>,
    pool: Pool,
    /// Descriptors that the manager would keep open.
    _keeps: Vec<OwnedFd>,
}

fn io(driver: Driver, batch: u32, queue: u32) -> KernelIo {
    KernelIo { driver, batch, queue, frame_bytes: FRAME_BYTES, interfaces: ["near".into(), "far".into()] }
}

/// Runs a test for every driver and batch, each in a namespace of its own; says so when it cannot.
fn for_all(test: &str, work: impl Fn(&mut Bed, &KernelIo) + Sync) {
    if !common::is_root(test) {
        return;
    }
    for driver in DRIVERS {
        for batch in BATCHES {
            let io = io(driver, batch, 1024);
            common::in_namespace(|namespace| {
                common::cable(namespace, "near", "far", 1500);
                let mut bed = bed(&io);
                work(&mut bed, &io);
            });
        }
    }
}

fn bed(io: &KernelIo) -> Bed {
    let mut first = opened(&KernelIo { driver: Driver::Packet, ..io.clone() });
    let started = Instant::now();
    for _ in 0..2 {
        // The kernel needs a moment to see the cable plugged in, and drops what is sent before.
        while !wait(&*first.near, Duration::from_millis(10)) {
            assert!(started.elapsed() < PATIENCE, "{io:?}: nothing comes");
            first.send_far(&[frame(0, 60)]);
        }
        std::mem::swap(&mut first.near, &mut first.far);
    }
    drop(first);
    opened(io)
}

fn opened(io: &KernelIo) -> Bed {
    let mut pool = Pool::over(Pool::memory(io, 1024).unwrap());
    let mut keeps = Vec::new();
    let mut cable = |name| {
        let opened = open::open(name, io, pool.region()).unwrap();
        keeps.extend(opened.keeps);
        attach(opened.socket, io, &mut pool).unwrap()
    };
    Bed { near: cable("near"), far: cable("far"), pool, _keeps: keeps }
}

impl Bed {
    fn put(&mut self, frame: &[u8]) -> Descriptor {
        // Any free buffer will do; this one was never given to a cable.
        let taken = self.pool.lend().expect("the pool is large");
        self.pool.region().write(taken.index(), HEADROOM_BYTES, frame);
        taken.with_extent(HEADROOM_BYTES, frame.len() as u32)
    }

    fn get(&mut self, packet: Descriptor) -> Vec<u8> {
        let mut bytes = vec![0; packet.length() as usize];
        self.pool.region().read(packet, &mut bytes);
        self.pool.put(packet);
        bytes
    }

    fn send_far(&mut self, frames: &[Vec<u8>]) {
        let packets: Vec<_> = frames.iter().map(|frame| self.put(frame)).collect();
        self.far.send(&mut self.pool, &packets).unwrap();
    }

    /// The frames that come in near, as many as are waited for.
    fn receive(&mut self, count: usize) -> Vec<Vec<u8>> {
        let (mut frames, started) = (Vec::new(), Instant::now());
        while frames.len() < count {
            let counts = self.near.counts();
            assert!(started.elapsed() < PATIENCE, "{} of {count} frames came; {counts:?}", frames.len());
            wait(&*self.near, Duration::from_millis(100));
            let mut packets = Vec::new();
            self.near.receive(&mut self.pool, &mut packets).unwrap();
            frames.extend(packets.into_iter().map(|packet| self.get(packet)));
        }
        frames
    }
}

fn wait(cable: &dyn InterfaceIo, patience: Duration) -> bool {
    let mut polled = [PollFd::from_borrowed_fd(cable.ear(), PollFlags::IN)];
    let patience = Timespec { tv_sec: 0, tv_nsec: i64::from(patience.subsec_nanos()) };
    poll(&mut polled, Some(&patience)).is_ok() && polled[0].revents().contains(PollFlags::IN)
}

/// A frame of an EtherType that nobody speaks, its number in its payload.
fn frame(number: usize, bytes: usize) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x88, 0xb5];
    frame.extend((number as u32).to_be_bytes());
    frame.resize(bytes, 0x5a);
    frame
}

#[test]
fn frames_of_all_lengths_pass_both_ways_in_order() {
    for_all("frames_of_all_lengths_pass_both_ways_in_order", |bed, io| {
        let frames: Vec<_> = (0..300).map(|number| frame(number, 60 + number * 1454 / 299)).collect();
        bed.send_far(&frames);
        assert_eq!(bed.receive(300), frames, "{io:?}");
        std::mem::swap(&mut bed.near, &mut bed.far);
        bed.send_far(&frames);
        assert_eq!(bed.receive(300), frames, "{io:?}, back");
        // What an interface sent itself does not come back to it.
        std::mem::swap(&mut bed.near, &mut bed.far);
        assert!(!wait(&*bed.near, Duration::from_millis(20)), "{io:?}");
        assert_eq!((bed.near.counts().received, bed.near.counts().sent), (300, 300), "{io:?}");
    });
}

#[test]
fn vlan_tags_stay_where_they_were() {
    for_all("vlan_tags_stay_where_they_were", |bed, io| {
        let mut tagged = frame(7, 100);
        tagged.splice(12..12, [0x81, 0, 0x60, 7]);
        let mut twice = tagged.clone();
        twice.splice(12..12, [0x88, 0xa8, 0, 3]);
        bed.send_far(&[tagged.clone(), twice.clone()]);
        assert_eq!(bed.receive(2), [tagged, twice], "{io:?}");
    });
}

#[test]
fn checksums_that_the_kernel_left_out_are_there() {
    for_all("checksums_that_the_kernel_left_out_are_there", |bed, io| {
        let mut links = Links::here().unwrap();
        links.add_address("far", "10.0.0.2".parse().unwrap(), 24).unwrap();
        links.add_neighbour("far", "10.0.0.1".parse().unwrap(), Mac([2, 0, 0, 0, 0, 1])).unwrap();
        let socket = UdpSocket::bind("10.0.0.2:4000").unwrap();
        socket.send_to(b"headgate", "10.0.0.1:9").unwrap();
        let frame = bed.receive(1).remove(0);
        let udp = &frame[34..42 + 8];
        let pseudo = Sum::pseudo_ipv4([10, 0, 0, 2].into(), [10, 0, 0, 1].into(), 17, udp.len() as u16);
        assert_eq!(pseudo.bytes(udp).finish(), 0, "{io:?}: {frame:02x?}");
    });
}

#[test]
fn one_packet_a_call_and_many_are_counted_as_such() {
    for_all("one_packet_a_call_and_many_are_counted_as_such", |bed, io| {
        let frames: Vec<_> = (0..64).map(|number| frame(number, 60)).collect();
        bed.send_far(&frames);
        let calls = 64_u64.div_ceil(u64::from(io.batch));
        assert_eq!(bed.far.counts().calls, calls, "{io:?}");
        bed.receive(64);
        let received = match io.driver {
            Driver::Packet => calls,
            // The kernel ends a request that receives after 32 packets (MULTISHOT_MAX_RETRY of
            // io_uring/net.c).
            Driver::Uring => 64_u64.div_ceil(u64::from(io.batch.min(32))),
            Driver::Mapped | Driver::Xdp => 0,
        };
        assert_eq!(bed.near.counts().calls, received, "{io:?}");
    });
}

#[test]
fn packets_of_one_call_may_become_more_and_fewer() {
    for_all("packets_of_one_call_may_become_more_and_fewer", |bed, io| {
        for batch in [256, 1, 32] {
            bed.near.set_batch(batch);
            bed.far.set_batch(batch);
            let frames: Vec<_> = (0..64).map(|number| frame(number, 60)).collect();
            let before = bed.far.counts().calls;
            bed.send_far(&frames);
            assert_eq!(bed.far.counts().calls - before, 64_u64.div_ceil(batch as u64), "{io:?}");
            assert_eq!(bed.receive(64), frames, "{io:?}");
        }
        // What one takes at once.
        bed.send_far(&[frame(1, 60), frame(2, 60)]);
        wait(&*bed.near, Duration::from_millis(100));
        bed.near.set_batch(1);
        let mut packets = Vec::new();
        // Buffers that were provided before may still be used.
        if io.driver != Driver::Uring {
            bed.near.receive(&mut bed.pool, &mut packets).unwrap();
            assert_eq!(packets.len(), 1, "{io:?}");
        }
    });
}

#[test]
fn packets_that_found_no_room_are_counted() {
    for_all("packets_that_found_no_room_are_counted", |bed, io| {
        let frames: Vec<_> = (0..250).map(|number| frame(number, 60)).collect();
        for _ in 0..40 {
            bed.send_far(&frames);
        }
        bed.near.check_losses().unwrap();
        let mut received = 0;
        while wait(&*bed.near, Duration::ZERO) {
            received += bed.receive(1).len() as u64;
        }
        let counts = bed.near.counts();
        assert!(counts.lost > 0 && received > 0, "{io:?}: {counts:?}");
        assert_eq!(counts.lost + received, bed.far.counts().sent, "{io:?}");
    });
}

#[test]
fn a_frame_longer_than_the_interface_carries_is_left_out_alone() {
    for_all("a_frame_longer_than_the_interface_carries_is_left_out_alone", |bed, io| {
        let (short, long) = (frame(1, 60), frame(2, 1900));
        bed.send_far(&[short.clone(), long, short.clone()]);
        assert_eq!(bed.receive(2), [short.clone(), short], "{io:?}");
        if io.driver == Driver::Packet {
            assert_eq!(bed.far.counts().too_long, 1, "{io:?}");
        }
    });
}

#[test]
fn an_interface_that_is_down_comes_back_and_one_that_is_gone_does_not() {
    for_all("an_interface_that_is_down_comes_back_and_one_that_is_gone_does_not", |bed, io| {
        let loss = |bed: &mut Bed| {
            let started = Instant::now();
            loop {
                let packet = bed.put(&frame(0, 60));
                let mut none = Vec::new();
                let tried = bed.near.receive(&mut bed.pool, &mut none).map(|_| ());
                let tried = tried.and(bed.near.send(&mut bed.pool, &[packet]));
                let tried = tried.and(check_error(bed.near.ear()));
                if tried.is_err() || started.elapsed() > PATIENCE {
                    return tried;
                }
            }
        };
        let mut links = Links::here().unwrap();
        links.set_down("near").unwrap();
        assert_eq!(loss(bed), Err(InterfaceError::Down), "{io:?}");
        links.set_up("near").unwrap();
        // What is left of it is told once.
        let _ = check_error(bed.near.ear());
        assert_eq!(check_error(bed.near.ear()), Ok(()), "{io:?}");
        // The kernel needs a moment to see the cable plugged in.
        let started = Instant::now();
        while !wait(&*bed.near, Duration::from_millis(10)) {
            assert!(started.elapsed() < PATIENCE, "{io:?}: nothing comes");
            bed.send_far(&[frame(1, 60)]);
        }
        assert_eq!(bed.receive(1).last(), Some(&frame(1, 60)), "{io:?}");
        links.delete("near").unwrap();
        assert_eq!(loss(bed), Err(InterfaceError::Gone), "{io:?}");
    });
}

#[test]
fn a_program_goes_with_the_descriptors_and_another_one_is_told_of() {
    for_all("a_program_goes_with_the_descriptors_and_another_one_is_told_of", |bed, io| {
        if io.driver != Driver::Xdp {
            return;
        }
        let taken = open::open("near", io, bed.pool.region()).unwrap_err().to_string();
        assert!(taken.contains("near") && taken.contains("another program"), "{taken}");
        let memory = Pool::memory(io, 0).unwrap();
        *bed = opened(&KernelIo { driver: Driver::Packet, ..io.clone() });
        open::open("near", io, &memory).expect("what was there is gone");
    });
}

#[test]
fn an_interface_that_is_not_there_is_told_with_those_that_are() {
    let io = io(Driver::Packet, 1, 64);
    let memory = Pool::memory(&io, 0).unwrap();
    let refused = open::open("no-such-if", &io, &memory).unwrap_err().to_string();
    assert!(refused.contains("no-such-if") && refused.contains("lo"), "{refused}");
}

/// What the kernel does by itself, with which chains are compared.
#[test]
fn an_interface_forwards_by_xdp_until_it_is_told_no_more() {
    common::inside("an_interface_forwards_by_xdp_until_it_is_told_no_more", |namespace| {
        common::cable(namespace, "source", "near", 1500);
        common::cable(namespace, "beyond", "end", 1500);
        let missing = headgate_kernel::forward_by_xdp("near", Some("nowhere"));
        assert!(missing.is_err_and(|error| error.to_string().contains("nowhere")));
        let packet = KernelIo { interfaces: ["source".into(), "end".into()], ..io(Driver::Packet, 32, 1024) };
        let mut pool = Pool::over(Pool::memory(&packet, 1024).unwrap());
        let mut cable = |name| {
            let socket = open::open(name, &packet, pool.region()).unwrap().socket;
            attach(socket, &packet, &mut pool).unwrap()
        };
        let (mut source, mut end) = (cable("source"), cable("end"));
        // An interface takes frames of others by XDP where it has a program itself.
        let links = [("near", Some("beyond")), ("end", None)]
            .map(|(name, to)| headgate_kernel::forward_by_xdp(name, to).unwrap());
        let mut passes = |pool: &mut Pool| {
            let lent = pool.lend().unwrap();
            let bytes = frame(7, 60);
            pool.region().write(lent.index(), HEADROOM_BYTES, &bytes);
            source.send(pool, &[lent.with_extent(HEADROOM_BYTES, bytes.len() as u32)]).unwrap();
            let mut came = Vec::new();
            if wait(&*end, Duration::from_millis(20)) {
                end.receive(pool, &mut came).unwrap();
            }
            came.iter().for_each(|packet| pool.put(*packet));
            !came.is_empty()
        };
        let end = Instant::now() + PATIENCE;
        while !passes(&mut pool) {
            assert!(Instant::now() < end, "nothing is forwarded");
        }
        drop(links);
        while passes(&mut pool) {
            assert!(Instant::now() < end, "it is forwarded still");
        }
    });
}
