//! Devices without a kernel interface.

use std::path::Path;
use std::process::{Command, Stdio};

use headgate_dpdk::Queue;
use headgate_port::Queue as _;
use headgate_shm::{Descriptor, Stack};

use crate::support::{Ground, assert_frames, frame, frames, wait_for};

pub fn null() {
    let mut ground = Ground::new(256, 2048);
    let mut null = ground.open("net_null0,size=200,copy=1");
    assert_eq!(null.facts.driver, "net_null");
    make_and_take(&mut ground, &mut null.queues[0], 200);
    // A stack without buffers is no error: nothing comes.
    let all: Vec<u32> = ground.stack.take_many(256).collect();
    assert_eq!(null.queues[0].receive(0, &mut ground.stack, &mut [Descriptor::default(); 32]), 0);
    all.into_iter().for_each(|index| ground.stack.give(index));
    ground.close(null);
}

pub fn null_copied() {
    let mut ground = Ground::new(256, 2048);
    let mut null = ground.try_open("net_null1,size=100,copy=1", 1, false).unwrap();
    assert!(null.facts.copied.as_ref().unwrap().contains("direct = false"));
    assert_eq!(null.queues[0].region(), None);
    make_and_take(&mut ground, &mut null.queues[0], 100);
    ground.close(null);
}

fn make_and_take(ground: &mut Ground, queue: &mut Queue, bytes: u64) {
    let mut into = [Descriptor::default(); 100];
    let got = queue.receive(0, &mut ground.stack, &mut into);
    assert_eq!(got, 100, "more than a burst at once");
    assert_eq!(ground.stack.len(), 156);
    assert!(into.iter().all(|packet| u64::from(packet.length()) == bytes && packet.offset() == 128));
    assert_eq!(queue.transmit(0, &mut ground.stack, &into), 100);
    let counters = queue.counters();
    assert_eq!((counters.received, counters.received_bytes), (100, 100 * bytes));
    assert_eq!((counters.sent, counters.sent_bytes), (100, 100 * bytes));
    ground.assert_whole();
}

/// Each worker's queue uses that worker's stack; a packet may be received by one and sent by another.
pub fn null_two_queues() {
    let mut ground = Ground::new(256, 2048);
    let mut null = ground.try_open("net_null2,size=64", 2, true).unwrap();
    let (queues, region) = (std::mem::take(&mut null.queues), ground.stack.region().clone());
    let shares: Vec<Vec<u32>> = (0..2).map(|_| ground.stack.take_many(128).collect()).collect();
    let workers = queues.into_iter().zip(shares).map(|(mut queue, share)| {
        let mut stack = Stack::new(region.clone(), 0, share.into_iter());
        std::thread::spawn(move || {
            let mut into = [Descriptor::default(); 32];
            for _ in 0..10_000 {
                let got = queue.receive(0, &mut stack, &mut into);
                assert_eq!(queue.transmit(0, &mut stack, &into[..got]), got);
                queue.tend(0, &mut stack);
            }
            assert_eq!(queue.counters().sent, 320_000);
            stack
        })
    });
    for worker in workers.collect::<Vec<_>>() {
        let stack = worker.join().unwrap();
        stack.free().iter().for_each(|&index| ground.stack.give(index));
    }
    ground.close(null);
}

pub fn pcap() {
    let folder = tempfile::tempdir().unwrap();
    let (read, write) = (folder.path().join("in.pcap"), folder.path().join("out.pcap"));
    let mut there: Vec<Vec<u8>> = (60..1560).step_by(7).map(|bytes| frame(bytes as u8, bytes)).collect();
    let wanted = there.clone();
    there.insert(50, frame(1, 9000));
    there.insert(100, frame(2, 9));
    std::fs::write(&read, capture(&there)).unwrap();

    let mut ground = Ground::new(512, 2048);
    let device = format!("net_pcap0,rx_pcap={},tx_pcap={}", read.display(), write.display());
    let mut pcap = ground.open(&device);
    let mut into = [Descriptor::default(); 32];
    for _ in 0..wanted.len() {
        let got = pcap.queues[0].receive(0, &mut ground.stack, &mut into);
        assert_eq!(pcap.queues[0].transmit(0, &mut ground.stack, &into[..got]), got);
    }
    let counters = pcap.queues[0].counters();
    assert_eq!((counters.received, counters.sent), (wanted.len() as u64, wanted.len() as u64));
    assert_eq!((counters.too_long, counters.failed), (1, 1), "the jumbo frame and the runt");
    ground.close(pcap);
    assert_frames(&frames_of(&std::fs::read(&write).unwrap()), &wanted);
}

/// A capture file of the classic format, microseconds, Ethernet.
fn capture(frames: &[Vec<u8>]) -> Vec<u8> {
    let mut file: Vec<u8> =
        [0xa1b2_c3d4u32, 0x0004_0002, 0, 0, 65_535, 1].iter().flat_map(|word| word.to_le_bytes()).collect();
    for frame in frames {
        let length = frame.len() as u32;
        file.extend([0, 0, length, length].iter().flat_map(|word: &u32| word.to_le_bytes()));
        file.extend(frame);
    }
    file
}

fn frames_of(file: &[u8]) -> Vec<Vec<u8>> {
    let mut rest = &file[24..];
    let mut frames = Vec::new();
    while let Some((header, after)) = rest.split_at_checked(16) {
        let length = u32::from_le_bytes(header[8..12].try_into().unwrap()) as usize;
        let (frame, after) = after.split_at(length);
        frames.push(frame.to_vec());
        rest = after;
    }
    frames
}

pub fn ring() {
    let mut ground = Ground::new(256, 2048);
    let mut ring = ground.open("net_ring0");
    let sent = frames(20, 100);
    ground.send(&mut ring.queues[0], &sent);
    assert_eq!(ring.queues[0].holds(), 20);
    assert_frames(&ground.collect(&mut ring.queues[0], 20), &sent);
    // What nobody fetched comes back when the device closes.
    ground.send(&mut ring.queues[0], &sent);
    ground.close(ring);
}

/// Variable with the path of the socket for the peer of [`memif`]; set in the peer's environment.
pub const MEMIF_SOCKET: &str = "HEADGATE_TEST_MEMIF_SOCKET";

fn memif_device(number: u8, role: &str, socket: &Path) -> String {
    format!("net_memif{number},role={role},id=0,socket={},socket-abstract=no", socket.display())
}

/// A peer in another process, with DPDK and a region of its own, sends back what it gets and is killed.
pub fn memif() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("memif.sock");
    let mut ground = Ground::new(1024, 2048);
    let mut server = ground.open(&memif_device(0, "server", &socket));
    let mut peer = Command::new(std::env::current_exe().unwrap())
        .env(MEMIF_SOCKET, &socket)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    wait_for(|| server.port.link().up);
    for sent in frames(300, 1500).chunks(100) {
        ground.send(&mut server.queues[0], sent);
        assert_frames(&ground.collect(&mut server.queues[0], sent.len()), sent);
    }
    peer.kill().unwrap();
    peer.wait().unwrap();
    wait_for(|| !server.port.link().up);
    assert_eq!(server.queues[0].receive(0, &mut ground.stack, &mut [Descriptor::default(); 8]), 0);
    ground.close(server);
}

/// The peer, until it is killed.
pub fn memif_peer(socket: &Path) {
    // SAFETY: a plain call: the peer dies with the test.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
    let mut ground = Ground::new(1024, 2048);
    let mut client = ground.open(&memif_device(0, "client", socket));
    let mut into = [Descriptor::default(); 32];
    loop {
        let got = client.queues[0].receive(0, &mut ground.stack, &mut into);
        let mut sent = 0;
        while sent < got {
            sent += client.queues[0].transmit(0, &mut ground.stack, &into[sent..got]);
        }
        client.queues[0].tend(0, &mut ground.stack);
    }
}
