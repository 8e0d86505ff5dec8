//! Long frames and checksums that are begun: what comes of them against what Linux makes of the same. It
//! takes root.

#[path = "../common/mod.rs"]
mod common;
mod long;
mod shared;
mod tap;

use std::io::Write as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use common::{cable, inside};
use headgate_host::network::{Links, Offload};
use headgate_kernel::interface::{self, Kind, State, Terms, Watch};
use headgate_kernel::{InterfaceIo, Pool, attach, open};
use headgate_port::Queue;
use headgate_port::testing::{packets, receive, stack};
use headgate_session::kernel_io::{Driver, KernelIo};
use headgate_shm::Stack;
use headgate_wire::checksum::Sum;
use headgate_wire::frame::{Frame, Network, Transport};
use headgate_wire::ip::protocol;
use headgate_wire::tcp::flag;
use headgate_wire::vlan::Tag;
use headgate_wire::{MacAddress, ipv4};

/// Maximum time of any step before a test gives up.
const PATIENCE: Duration = Duration::from_secs(20);
const KIND_TCP4: u8 = 1;
const KIND_TCP6: u8 = 4;
const KIND_UDP: u8 = 5;
const KIND_ECN: u8 = 0x80;
const NEEDS_CHECKSUM: u8 = 1;

fn port(name: &str) -> (Box<dyn Queue>, Watch) {
    port_for(name, Kind::Sockets)
}

fn port_for(name: &str, kind: Kind) -> (Box<dyn Queue>, Watch) {
    let name = name.to_owned();
    interface::open(Terms { name, kind, waiting: 1024, frame_bytes: 2048, joins: true }).unwrap()
}

/// A plain packet socket, which sees frames as Linux hands them over.
fn plain(name: &str) -> (Box<dyn InterfaceIo>, Pool) {
    let interfaces = [name.to_owned(), name.to_owned()];
    let io = KernelIo { driver: Driver::Packet, batch: 32, queue: 4096, frame_bytes: 9000, interfaces };
    let mut pool = Pool::over(Pool::memory(&io, 1024).unwrap());
    let socket = open::open(name, &io, pool.region()).unwrap().socket;
    (attach(socket, &io, &mut pool).unwrap(), pool)
}

/// A socket that sends frames with a virtio header in front.
fn sender(name: &str) -> OwnedFd {
    let name = std::ffi::CString::new(name).unwrap();
    // SAFETY: a terminated string.
    let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
    assert!(index > 0);
    // SAFETY: plain calls with values of the right size; the descriptor is owned at once.
    unsafe {
        let file = libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0);
        assert!(file >= 0);
        let on = 1i32;
        let set = libc::setsockopt(file, libc::SOL_PACKET, libc::PACKET_VNET_HDR, (&raw const on).cast(), 4);
        assert_eq!(set, 0);
        let mut address: libc::sockaddr_ll = std::mem::zeroed();
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_ifindex = index as i32;
        let bytes = size_of_val(&address) as u32;
        assert_eq!(libc::bind(file, (&raw const address).cast(), bytes), 0);
        OwnedFd::from_raw_fd(file)
    }
}

/// Sends a frame behind its virtio header, all in one.
fn send(socket: &OwnedFd, bytes: &[u8]) {
    // SAFETY: sends from a borrowed slice.
    let sent = unsafe { libc::send(socket.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), 0) };
    assert_eq!(sent, bytes.len() as isize, "{}", std::io::Error::last_os_error());
}

#[derive(Clone, Copy, Debug)]
struct Shape {
    is_ipv6: bool,
    is_udp: bool,
    tag: Option<u16>,
    payload: usize,
    segment: usize,
    flags: u8,
}

const SHAPES: [Shape; 8] = {
    let tcp = Shape {
        is_ipv6: false,
        is_udp: false,
        tag: None,
        payload: 60_000,
        segment: 1448,
        flags: flag::ACK | flag::PSH,
    };
    [
        tcp,
        Shape { is_ipv6: true, payload: 20_001, segment: 1428, ..tcp },
        Shape { tag: Some(7), payload: 10_000, ..tcp },
        Shape { flags: flag::ACK | flag::PSH | flag::FIN | flag::ECE, payload: 4345, ..tcp },
        Shape { flags: flag::ACK | flag::CWR, payload: 4345, ..tcp },
        Shape { payload: 1001, segment: 100, ..tcp },
        Shape { is_udp: true, payload: 20_000, segment: 1400, ..tcp },
        Shape { is_udp: true, is_ipv6: true, payload: 4001, segment: 1000, ..tcp },
    ]
};

/// A long frame with its virtio header in front, as a TAP or a virtual machine sends it.
fn long(shape: Shape) -> Vec<u8> {
    let addresses: [IpAddr; 2] = if shape.is_ipv6 {
        [Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1).into(), Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 2).into()]
    } else {
        [Ipv4Addr::new(10, 0, 0, 1).into(), Ipv4Addr::new(10, 0, 0, 2).into()]
    };
    let mut network = Network::between(addresses[0], addresses[1]).unwrap();
    if let Network::V4(header) = &mut network {
        header.identification = 4711;
    }
    let (number, head, place) = if shape.is_udp { (protocol::UDP, 8, 6) } else { (protocol::TCP, 20, 16) };
    let plan = Frame {
        destination: MacAddress([2, 0, 0, 0, 0, 1]),
        source: MacAddress([2, 0, 0, 0, 0, 2]),
        tags: [shape.tag.map(Tag::customer), None],
        network,
        transport: Transport::Raw(number),
    };
    let l4 = plan.headers_length();
    let mut frame = vec![0; l4 + head + shape.payload];
    plan.write(&mut frame, head + shape.payload, |bytes| {
        for (at, byte) in bytes.iter_mut().enumerate() {
            *byte = (at * 11 + at / 253) as u8;
        }
        bytes[..4].copy_from_slice(&[0x10, 0, 0x20, 0]);
        if shape.is_udp {
            bytes[4..6].copy_from_slice(&((head + shape.payload) as u16).to_be_bytes());
        } else {
            (bytes[12], bytes[13]) = (5 << 4, shape.flags);
            bytes[18..20].fill(0);
        }
    })
    .unwrap();
    let length = (head + shape.payload) as u32;
    let begun = match (addresses[0], addresses[1]) {
        (IpAddr::V4(one), IpAddr::V4(other)) => Sum::pseudo_ipv4(one, other, number, length as u16),
        (IpAddr::V6(one), IpAddr::V6(other)) => Sum::pseudo_ipv6(one, other, number, length),
        _ => unreachable!("both are of one version"),
    };
    frame[l4 + place..l4 + place + 2].copy_from_slice(&(!begun.finish()).to_be_bytes());
    let kind = match (shape.is_udp, shape.is_ipv6) {
        (true, _) => KIND_UDP,
        (false, false) => KIND_TCP4,
        (false, true) => KIND_TCP6,
    };
    let ecn = if shape.flags & flag::CWR != 0 { KIND_ECN } else { 0 };
    let mut bytes = vec![NEEDS_CHECKSUM, kind | ecn];
    for word in [l4 + head, shape.segment, l4, place] {
        bytes.extend((word as u16).to_ne_bytes());
    }
    bytes.extend(frame);
    bytes
}

/// Receives until so many frames have come.
fn take(queue: &mut dyn Queue, stack: &mut Stack, count: usize) -> Vec<Vec<u8>> {
    let (mut all, end) = (Vec::new(), Instant::now() + PATIENCE);
    while all.len() < count {
        assert!(Instant::now() < end, "{} of {count} came; {:?}", all.len(), queue.counters());
        all.extend(receive(queue, 0, stack, 128));
    }
    all
}

fn take_plain(io: &mut dyn InterfaceIo, pool: &mut Pool, count: usize) -> Vec<Vec<u8>> {
    let (mut all, end) = (Vec::new(), Instant::now() + PATIENCE);
    while all.len() < count {
        assert!(Instant::now() < end, "{} of {count} came; {:?}", all.len(), io.counts());
        let mut came = Vec::new();
        io.receive(pool, &mut came).unwrap();
        for packet in came {
            let mut bytes = vec![0; packet.length() as usize];
            pool.region().read(packet, &mut bytes);
            pool.put(packet);
            all.push(bytes);
        }
    }
    all
}

/// The segments of a frame as Linux makes them: sent on an interface whose offloads are off.
fn by_linux(shape: Shape) -> Vec<Vec<u8>> {
    let (mut io, mut pool) = plain("plain-in");
    send(&sender("plain-out"), &long(shape));
    take_plain(&mut *io, &mut pool, shape.payload.div_ceil(shape.segment))
}

#[test]
fn segments_are_those_that_linux_makes() {
    inside("segments_are_those_that_linux_makes", |namespace| {
        cable(namespace, "near", "far", 1500);
        cable(namespace, "plain-in", "plain-out", 1500);
        let mut links = Links::here().unwrap();
        // What needs it falls with it: cutting.
        links.set_offload("plain-out", Offload::TransmitChecksum, false).unwrap();
        let (mut queue, _) = port("near");
        let socket = sender("far");
        // Fewer buffers than segments: the rest waits.
        let mut stack = stack(16);
        let mut all = Vec::new();
        for shape in SHAPES {
            send(&socket, &long(shape));
            let ours = take(&mut *queue, &mut stack, shape.payload.div_ceil(shape.segment));
            assert_eq!(ours, by_linux(shape), "{shape:?}");
            all.extend(ours);
        }
        let counters = queue.counters();
        assert_eq!((counters.too_long, counters.missed, counters.bad_offload), (0, 0, 0));
        find_no_fault(&all);
    });
}

/// Has tshark read frames; says so where there is none.
fn find_no_fault(frames: &[Vec<u8>]) {
    static FILES: AtomicU32 = AtomicU32::new(0);
    let number = FILES.fetch_add(1, Ordering::Relaxed);
    let file = std::env::temp_dir().join(format!("headgate-offload-{}-{number}.pcap", std::process::id()));
    let mut bytes = Vec::new();
    for word in [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 65_535, 1] {
        bytes.extend(word.to_ne_bytes());
    }
    for frame in frames {
        for word in [0, 0, frame.len() as u32, frame.len() as u32] {
            bytes.extend(word.to_ne_bytes());
        }
        bytes.extend(frame);
    }
    std::fs::write(&file, bytes).unwrap();
    let wrong =
        "tcp.checksum.status != 1 || udp.checksum.status != 1 || ip.checksum.status == 0 || _ws.malformed";
    let asked = ["tcp", "udp", "ip"].map(|layer| format!("{layer}.check_checksum:TRUE"));
    let told = Command::new("tshark")
        .arg("-r")
        .arg(&file)
        .args(asked.iter().flat_map(|one| ["-o", one]))
        .args(["-Y", wrong])
        .output();
    std::fs::remove_file(&file).unwrap();
    match told {
        Ok(told) => {
            assert!(told.status.success(), "{}", String::from_utf8_lossy(&told.stderr));
            assert_eq!(String::from_utf8_lossy(&told.stdout), "");
        }
        Err(_) => {
            let _ = writeln!(std::io::stderr(), "no tshark here: it is not asked");
        }
    }
}

#[test]
fn segments_of_a_burst_leave_as_one_and_are_the_same_when_cut() {
    inside("segments_of_a_burst_leave_as_one_and_are_the_same_when_cut", |namespace| {
        cable(namespace, "near", "far", 1500);
        let (mut queue, _) = port("near");
        let (mut other, _) = port("far");
        let mut stack = stack(256);
        for shape in SHAPES.into_iter().filter(|shape| !shape.is_udp) {
            send(&sender("far"), &long(shape));
            let segments = take(&mut *queue, &mut stack, shape.payload.div_ceil(shape.segment));
            let (mut io, mut pool) = plain("far");
            let sent = packets(&mut stack, &segments);
            assert_eq!(queue.transmit(0, &mut stack, &sent), segments.len());
            assert_eq!(take(&mut *other, &mut stack, segments.len()), segments, "{shape:?}");
            // For a socket that asks for nothing it is one frame, and longer than its buffers.
            let end = Instant::now() + PATIENCE;
            let mut came = Vec::new();
            while io.counts().too_long == 0 && came.is_empty() {
                assert!(Instant::now() < end);
                io.receive(&mut pool, &mut came).unwrap();
            }
            let longest = shape.payload + 100;
            assert!(longest > 9000 || came.len() == 1 && came[0].length() as usize > shape.payload);
        }
    });
}

#[test]
fn what_was_wrong_leaves_as_it_came() {
    inside("what_was_wrong_leaves_as_it_came", |namespace| {
        cable(namespace, "near", "far", 1500);
        let (mut queue, _) = port("near");
        let mut stack = stack(256);
        send(&sender("far"), &long(SHAPES[0]));
        let mut segments = take(&mut *queue, &mut stack, 42);
        segments[20][700] ^= 1;
        let (mut other, _) = port("far");
        let sent = packets(&mut stack, &segments);
        assert_eq!(queue.transmit(0, &mut stack, &sent), segments.len());
        assert_eq!(take(&mut *other, &mut stack, segments.len()), segments);
    });
}

#[test]
fn nonsense_is_counted_and_survived() {
    inside("nonsense_is_counted_and_survived", |namespace| {
        const VIRTIO: usize = 10;
        cable(namespace, "near", "far", 1500);
        let (mut queue, _) = port("near");
        let mut stack = stack(64);
        let socket = sender("far");
        // Longer than the frame, and a fragment: of what Linux itself does not refuse to send.
        let spoil: [fn(&mut [u8]); 2] = [|ip| ip[2] = 0xff, |ip| ip[6] = 0x20];
        for (number, spoil) in spoil.into_iter().enumerate() {
            let mut bytes = long(SHAPES[0]);
            spoil(&mut bytes[VIRTIO + 14..]);
            if let Ok(mut ip) = ipv4::Packet::new(&mut bytes[VIRTIO + 14..]) {
                ip.fill_checksum();
            }
            send(&socket, &bytes);
            let end = Instant::now() + PATIENCE;
            while queue.counters().bad_offload <= number as u64 {
                assert!(Instant::now() < end, "{number}: {:?}", queue.counters());
                assert!(receive(&mut *queue, 0, &mut stack, 128).is_empty());
            }
        }
        send(&socket, &long(SHAPES[0]));
        assert_eq!(take(&mut *queue, &mut stack, 42).len(), 42);
        assert_eq!(queue.counters().bad_offload, 2);
    });
}

#[test]
fn an_interface_comes_back() {
    inside("an_interface_comes_back", |namespace| {
        cable(namespace, "near", "far", 1500);
        let (mut queue, mut watch) = port("near");
        let mut stack = stack(64);
        let settle = |watch: &mut Watch, state| {
            let end = Instant::now() + PATIENCE;
            while watch.state() != state {
                assert!(Instant::now() < end, "it is {:?}, not {state:?}", watch.state());
                watch.poll();
                std::thread::sleep(Duration::from_millis(1));
            }
        };
        settle(&mut watch, State::Up);
        for turn in 0..4 {
            let mut links = Links::here().unwrap();
            if turn % 2 == 0 {
                links.set_down("far").unwrap();
                settle(&mut watch, State::Down);
                links.set_up("far").unwrap();
            } else {
                links.delete("near").unwrap();
                settle(&mut watch, State::Gone);
                let lost = packets(&mut stack, &[vec![2; 60], vec![2; 60]]);
                let failed = queue.counters().failed;
                assert_eq!(queue.transmit(0, &mut stack, &lost), 2);
                assert_eq!(queue.counters().failed, failed + 2);
                cable(namespace, "near", "far", 1500);
            }
            settle(&mut watch, State::Up);
            queue.tend(0, &mut stack);
            send(&sender("far"), &long(SHAPES[0]));
            take(&mut *queue, &mut stack, 42);
            let sent = packets(&mut stack, &[vec![2; 60]]);
            let before = queue.counters().sent;
            assert_eq!(queue.transmit(0, &mut stack, &sent), 1);
            assert_eq!((queue.counters().sent, stack.len()), (before + 1, 64));
        }
    });
}
