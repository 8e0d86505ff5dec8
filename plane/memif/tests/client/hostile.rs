//! A client that lies in every field it can.

use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use headgate_memif::Meeting;
use headgate_memif::message::{MESSAGE_BYTES, VERSION};
use headgate_shm::geometry::HEADROOM_BYTES;
use headgate_shm::{Descriptor, Geometry, PagesWanted, Region, Stack};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::SealFlags;
use rustix::net::sockopt;
use rustix::time::Timespec;

use crate::peer::{Client, SMALL, Which, connected, meeting, outcome};

const LOG2_RING: u8 = SMALL.log2_ring;
const RING: usize = SMALL.ring();
const RING_BYTES: usize = SMALL.ring_bytes();
const BUFFER_BYTES: usize = SMALL.buffer_bytes;
const BUFFERS_AT: usize = SMALL.buffers_at();
const BYTES: usize = SMALL.bytes();

fn stack() -> Stack {
    let region = Region::create("test", Geometry::new(64, 256).unwrap(), PagesWanted::Ordinary).unwrap();
    Stack::new(region, 0, 0..64)
}

fn packet(stack: &mut Stack, bytes: &[u8]) -> Descriptor {
    let index = stack.take().unwrap();
    stack.region().write(index, HEADROOM_BYTES, bytes);
    Descriptor::new(index, HEADROOM_BYTES, bytes.len() as u32, 0)
}

#[test]
fn packets_pass_both_ways_and_long_ones_in_pieces() {
    let (mut meeting, client, mut cable) = connected("both-ways", SMALL);
    let mut stack = stack();
    let long: Vec<u8> = (0..150).collect();
    let packets = [packet(&mut stack, &[7; 60]), packet(&mut stack, &long)];
    assert_eq!(cable.transmit(stack.region(), &packets), 0, "no buffer was offered");
    assert_eq!(cable.watch().waiting(), RING as u32, "it has not begun");
    client.set_head(Which::ToClient, RING as u16);
    assert_eq!(cable.watch().waiting(), 0);
    assert_eq!(cable.transmit(stack.region(), &packets), 2);
    assert_eq!(cable.watch().waiting(), 4);
    assert_eq!(client.read(BUFFERS_AT, 60), [7; 60]);
    let pieces = [64, 64, 22].map(|length: u32| length);
    for (slot, (length, goes_on)) in pieces.into_iter().zip([1u16, 1, 0]).enumerate() {
        let descriptor = client.read(128 + 16 * (slot + 1), 8);
        assert_eq!(descriptor[..2], goes_on.to_ne_bytes());
        assert_eq!(descriptor[4..], length.to_ne_bytes());
    }
    assert_eq!(client.read(BUFFERS_AT + BUFFER_BYTES, 128), long[..128]);

    // The same bytes come back, in pieces.
    let back = BUFFERS_AT + RING * BUFFER_BYTES;
    client.write(back, &long);
    for (slot, (length, goes_on)) in pieces.into_iter().zip([1, 1, 0]).enumerate() {
        client.descriptor(Which::FromClient, slot, goes_on, 0, length, (back + slot * 64) as u32);
    }
    client.set_head(Which::FromClient, 3);
    assert_eq!(cable.watch().returning(), 3);
    let mut into = [Descriptor::default(); 8];
    assert_eq!(cable.receive(&mut stack, &mut into), 1);
    let mut bytes = vec![0; 150];
    assert_eq!(stack.region().read(into[0], &mut bytes), 150);
    assert_eq!(bytes, long);
    assert_eq!(client.read(RING_BYTES + 64, 2), 3u16.to_ne_bytes());
    assert!(meeting.tend().is_ok());
    drop(client);
    let gone = outcome(&mut meeting).err().expect("it went");
    assert_eq!(gone, "memif: it has disconnected");
}

#[test]
fn a_full_ring_takes_no_more_and_goes_round() {
    let (_meeting, client, mut cable) = connected("full", SMALL);
    let mut stack = stack();
    let packets: Vec<Descriptor> = (0..20).map(|byte| packet(&mut stack, &[byte; 20])).collect();
    client.set_head(Which::ToClient, RING as u16);
    assert_eq!(cable.transmit(stack.region(), &packets), RING);
    assert_eq!(cable.transmit(stack.region(), &packets), 0);
    // The indices pass their end many times.
    let mut head = RING as u16;
    for _ in 0..20_000 {
        head = head.wrapping_add(4);
        client.set_head(Which::ToClient, head);
        assert_eq!(cable.transmit(stack.region(), &packets), 4);
    }
    assert_eq!(cable.counts().sent, RING as u64 + 80_000);
}

#[test]
fn what_a_client_may_not_bring_is_refused_with_a_reason() {
    type Say = fn(&Client);
    let cases: [(&str, Say, &str); 11] = [
        ("version", |it| it.init(1 << 8), "it speaks version 1.0"),
        ("stranger", |it| it.add_region(0, BYTES as u64), "did not say who it is"),
        (
            "order",
            |it| {
                it.init(VERSION);
                it.add_region(3, BYTES as u64)
            },
            "its memory has number 3",
        ),
        (
            "huge",
            |it| {
                it.init(VERSION);
                it.add_region(0, u64::MAX)
            },
            "it brought memory of",
        ),
        (
            "larger",
            |it| {
                it.init(VERSION);
                it.add_region(0, BYTES as u64 + 4096)
            },
            "could shrink",
        ),
        (
            "no-ring",
            |it| {
                it.init(VERSION);
                it.add_region(0, BYTES as u64);
                it.connect()
            },
            "good ring",
        ),
        (
            "outside",
            |it| {
                it.init(VERSION);
                it.add_region(0, BYTES as u64);
                it.add_ring(Which::ToClient, 0, BYTES as u32 - 64, LOG2_RING);
                it.add_ring(Which::FromClient, 0, RING_BYTES as u32, LOG2_RING);
                it.connect();
            },
            "good ring",
        ),
        (
            "overlong",
            |it| {
                it.init(VERSION);
                it.add_region(0, BYTES as u64);
                it.add_ring(Which::ToClient, 0, 0, 255);
                it.add_ring(Which::FromClient, 0, u32::MAX, LOG2_RING);
                it.connect();
            },
            "good ring",
        ),
        (
            "nowhere",
            |it| {
                it.init(VERSION);
                it.add_region(0, BYTES as u64);
                it.add_ring(Which::ToClient, 7, 0, LOG2_RING);
                it.add_ring(Which::FromClient, 0, 1, LOG2_RING);
                it.connect();
            },
            "good ring",
        ),
        (
            "twice",
            |it| {
                it.init(VERSION);
                it.add_ring(Which::ToClient, 0, 0, LOG2_RING);
                it.add_ring(Which::ToClient, 0, 0, LOG2_RING);
            },
            "more than one ring",
        ),
        ("garbage", |it| it.say(&[&[0xff; MESSAGE_BYTES]], None), "a message that is none"),
    ];
    for (name, say, reason) in cases {
        let mut meeting = meeting(name);
        let client = Client::come(&mut meeting, SealFlags::SHRINK, SMALL);
        say(&client);
        let why = outcome(&mut meeting).err().expect(name);
        assert!(why.contains(reason), "{name}: {why}");
    }
}

#[test]
fn memory_that_could_shrink_is_refused() {
    let mut meeting = meeting("shrink");
    let client = Client::come(&mut meeting, SealFlags::GROW, SMALL);
    client.introduce();
    let why = outcome(&mut meeting).err().expect("it is refused");
    assert!(why.contains("F_SEAL_SHRINK"), "{why}");
}

#[test]
fn only_the_expected_user_is_let_in() {
    let user = rustix::process::geteuid().as_raw() + 1;
    let name = format!("headgate-test-{}-user", std::process::id());
    let mut meeting = Meeting::open(&name, user, 1024).unwrap();
    let client = Client::come(&mut meeting, SealFlags::SHRINK, SMALL);
    client.introduce();
    // It is shown out, and nothing comes of it.
    let mut polled = [PollFd::new(client.socket(), PollFlags::IN)];
    let limit = Timespec { tv_sec: 10, tv_nsec: 0 };
    assert_eq!(poll(&mut polled, Some(&limit)), Ok(1));
    assert!(polled[0].revents().contains(PollFlags::HUP));
    assert!(meeting.tend().is_ok_and(|cable| cable.is_none()));
}

/// Time for which an attacker would have whoever closes his file wait.
const LINGER: Duration = Duration::from_secs(600);

/// A socket that lingers, with something to send that nobody takes; the second is who does not.
fn trap() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut sender = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (taker, _) = listener.accept().unwrap();
    sender.set_nonblocking(true).unwrap();
    while sender.write(&[0; 64 << 10]).is_ok() {}
    sender.set_nonblocking(false).unwrap();
    sockopt::set_socket_linger(&sender, Some(LINGER)).unwrap();
    (sender, taker)
}

/// Received, in the queue of its socket, and in that of a connection that nobody let in.
#[test]
fn a_file_that_takes_its_time_to_close_holds_nobody() {
    let start = Instant::now();
    let mut meeting = meeting("trap");
    let client = Client::come(&mut meeting, SealFlags::SHRINK, SMALL);
    client.init(VERSION);
    let (file, _taker) = trap();
    let memory = [&4u16.to_ne_bytes()[..], &0u16.to_ne_bytes(), &4096u64.to_ne_bytes()];
    for _ in 0..3 {
        client.say(&memory, Some(file.as_fd()));
    }
    let other = Client::come(&mut meeting, SealFlags::SHRINK, SMALL);
    other.say(&memory, Some(file.as_fd()));
    // Whoever closes it last waits, and that may be us.
    std::thread::spawn(move || drop(file));
    let why = outcome(&mut meeting).err().expect("it is no memory");
    assert!(why.contains("F_SEAL_SHRINK"), "{why}");
    drop(meeting);
    assert!(start.elapsed() < LINGER / 2);
}

#[test]
fn a_client_that_never_stops_talking_is_shown_out() {
    let (mut meeting, client, _cable) = connected("talk", SMALL);
    let start = Instant::now();
    // Its messages are read by a thread, which has the core when it has it.
    while start.elapsed() < Duration::from_secs(30) {
        client.say(&[&1u16.to_ne_bytes()], None);
        if let Err(error) = meeting.tend() {
            assert_eq!(error.to_string(), "memif: it sent more than 1024 messages");
            return;
        }
    }
    panic!("it was never shown out");
}

/// Memory that a worker still has of a connection stays usable after its meeting, and goes with it.
#[test]
fn memory_outlives_its_meeting_as_long_as_somebody_has_it() {
    let (meeting, client, mut cable) = connected("outlive", SMALL);
    let mut stack = stack();
    let sent = packet(&mut stack, &[1; 60]);
    client.set_head(Which::ToClient, RING as u16);
    drop(meeting);
    assert_eq!(cable.transmit(stack.region(), &[sent]), 1);
    let maps = || std::fs::read_to_string("/proc/self/maps").unwrap().matches("memfd:outlive").count();
    assert_eq!(maps(), 1);
    drop(cable);
    let start = Instant::now();
    while maps() > 0 {
        assert!(start.elapsed() < Duration::from_secs(10), "nobody gave it up");
        std::thread::yield_now();
    }
}

/// Each lie ends the connection with its reason and touches nothing of ours.
#[test]
fn lies_in_the_rings_end_the_connection() {
    type Lie = fn(&Client);
    let lies: [(&str, Lie, &str); 6] = [
        ("to-index", |it| it.set_head(Which::ToClient, RING as u16 + 1), "index is impossible"),
        ("from-index", |it| it.set_head(Which::FromClient, 0x8000), "index is impossible"),
        (
            "to-extent",
            |it| {
                it.descriptor(Which::ToClient, 0, 0, 0, u32::MAX, u32::MAX);
                it.set_head(Which::ToClient, 1);
            },
            "memory that it does not have",
        ),
        (
            "to-empty",
            |it| {
                it.descriptor(Which::ToClient, 0, 0, 0, 0, 0);
                it.set_head(Which::ToClient, 1);
            },
            "memory that it does not have",
        ),
        (
            "from-region",
            |it| {
                it.descriptor(Which::FromClient, 0, 0, 9, 60, 0);
                it.set_head(Which::FromClient, 1);
            },
            "memory that it does not have",
        ),
        (
            "endless",
            |it| {
                (0..RING).for_each(|slot| it.descriptor(Which::FromClient, slot, 1, 0, 20, 0));
                it.set_head(Which::FromClient, RING as u16);
            },
            "without an end",
        ),
    ];
    for (name, lie, reason) in lies {
        let (mut meeting, client, mut cable) = connected(name, SMALL);
        let mut stack = stack();
        let sent = packet(&mut stack, &[1; 60]);
        lie(&client);
        cable.transmit(stack.region(), &[sent]);
        assert_eq!(cable.receive(&mut stack, &mut [Descriptor::default(); 8]), 0, "{name}");
        let why = meeting.tend().err().expect(name).to_string();
        assert!(why.contains(reason), "{name}: {why}");
        stack.give(sent.index());
        assert_eq!(stack.len(), 64, "{name}: every buffer is there");
        assert_eq!(cable.transmit(stack.region(), &[sent]), 0, "{name}");
    }
}

#[test]
fn packets_that_are_none_are_counted_and_passed_over() {
    let (mut meeting, client, mut cable) = connected("unfit", SMALL);
    let mut stack = stack();
    client.descriptor(Which::FromClient, 0, 0, 0, 0, 0);
    client.descriptor(Which::FromClient, 1, 0, 0, 13, 0);
    // Longer than a buffer of ours, and inside its memory.
    client.descriptor(Which::FromClient, 2, 0, 0, 1000, 0);
    client.descriptor(Which::FromClient, 3, 0, 0, 60, 0);
    client.set_head(Which::FromClient, 4);
    let mut into = [Descriptor::default(); 8];
    assert_eq!(cable.receive(&mut stack, &mut into), 1);
    assert_eq!((into[0].length(), cable.counts().unfit), (60, 3));
    assert!(meeting.tend().is_ok());
}

/// Nonsense in every byte of the rings: the buffers of ours stay ours.
#[test]
fn noise_in_the_rings_harms_nobody() {
    let mut seed = 0x9e37_79b9_7f4a_7c15u64;
    let mut next = || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (seed >> 33) as u8
    };
    for round in 0..200 {
        let (_meeting, client, mut cable) = connected(&format!("noise{round}"), SMALL);
        let noise: Vec<u8> = (0..2 * RING_BYTES).map(|_| next()).collect();
        client.write(0, &noise);
        client.set_head(Which::ToClient, u16::from(next() % 17));
        client.set_head(Which::FromClient, u16::from(next() % 17));
        let mut stack = stack();
        let sent = packet(&mut stack, &[1; 200]);
        cable.transmit(stack.region(), &[sent]);
        let mut into = [Descriptor::default(); 8];
        let count = cable.receive(&mut stack, &mut into);
        assert!(into[..count].iter().all(|packet| stack.region().geometry().check(*packet).is_ok()));
        assert_eq!(stack.len() + count + 1, 64);
    }
}
