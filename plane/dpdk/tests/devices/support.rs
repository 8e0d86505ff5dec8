//! A region with a stack, frames, and a peer on the other side of an interface.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::process::Command;
use std::time::{Duration, Instant};

use headgate_dpdk::{DpdkError, Facts, Opened, Port, Queue, Spec};
use headgate_port::Queue as _;
use headgate_shm::{Descriptor, Geometry, PagesWanted, Region, Stack};

/// Maximum time for which packets that must come are waited for.
const PATIENCE: Duration = Duration::from_secs(5);

/// A region whose buffers are all on one stack.
pub struct Ground {
    pub stack: Stack,
    buffers: usize,
}

impl Ground {
    pub fn new(buffers: u32, frame_bytes: u32) -> Self {
        let geometry = Geometry::new(buffers, frame_bytes).unwrap();
        let region = Region::create("test", geometry, PagesWanted::Ordinary).unwrap();
        Self { stack: Stack::new(region, 0, 0..buffers), buffers: buffers as usize }
    }

    pub fn open(&mut self, device: &str) -> Open {
        self.try_open(device, 1, true).unwrap_or_else(|error| panic!("{error}"))
    }

    pub fn try_open(&mut self, device: &str, queues: u16, direct: bool) -> Result<Open, DpdkError> {
        let spec = Spec { device: device.to_owned(), queues, direct, mtu: None };
        let Opened { queues, facts, port } = Port::open(&spec, &mut self.stack)?;
        println!("  {} direct={} {:?}", facts.device, facts.copied.is_none(), facts.notes);
        Ok(Open { queues, facts, port })
    }

    /// Takes a buffer for `frame`.
    pub fn packet(&mut self, frame: &[u8]) -> Descriptor {
        let index = self.stack.take().expect("a free buffer");
        self.stack.region().write(index, 128, frame);
        Descriptor::new(index, 128, frame.len() as u32, 0)
    }

    pub fn bytes(&self, packet: Descriptor) -> Vec<u8> {
        let mut bytes = vec![0; packet.length() as usize];
        self.stack.region().geometry().check(packet).unwrap();
        self.stack.region().read(packet, &mut bytes);
        bytes
    }

    pub fn drop_all(&mut self, packets: &[Descriptor]) {
        packets.iter().for_each(|packet| self.stack.give(packet.index()));
    }

    /// Receives until `count` packets came or patience ends, copies them out and frees them.
    pub fn collect(&mut self, queue: &mut Queue, count: usize) -> Vec<Vec<u8>> {
        let end = Instant::now() + PATIENCE;
        let mut frames = Vec::new();
        let mut into = [Descriptor::default(); 32];
        while frames.len() < count && Instant::now() < end {
            let got = queue.receive(0, &mut self.stack, &mut into);
            frames.extend(into[..got].iter().map(|&packet| self.bytes(packet)));
            self.drop_all(&into[..got]);
            queue.tend(0, &mut self.stack);
        }
        frames
    }

    /// Sends frames, all of which the device must take in time.
    pub fn send(&mut self, queue: &mut Queue, frames: &[Vec<u8>]) {
        let packets: Vec<Descriptor> = frames.iter().map(|frame| self.packet(frame)).collect();
        let (mut sent, end) = (0, Instant::now() + PATIENCE);
        while sent < packets.len() && Instant::now() < end {
            sent += queue.transmit(0, &mut self.stack, &packets[sent..]);
            queue.tend(0, &mut self.stack);
        }
        assert_eq!(sent, packets.len(), "the device took all");
    }

    /// Every buffer is on the stack, once.
    pub fn assert_whole(&self) {
        let mut free = self.stack.free().to_vec();
        free.sort_unstable();
        assert!(free.iter().copied().eq(0..self.buffers as u32), "{} of {}", free.len(), self.buffers);
    }

    pub fn close(&mut self, open: Open) {
        let held: usize = open.queues.iter().map(Queue::holds).sum();
        assert_eq!(self.stack.len() + held, self.buffers, "what is not free is held");
        drop(open.queues);
        assert!(open.port.close(&mut self.stack).is_ok(), "no queue is in use");
        self.assert_whole();
    }
}

pub struct Open {
    pub queues: Vec<Queue>,
    pub facts: Facts,
    pub port: Port,
}

/// An Ethernet frame of `bytes` with a recognisable content. Its type is one for local experiments, so
/// that no protocol of the kernel answers it.
pub fn frame(number: u8, bytes: usize) -> Vec<u8> {
    let mut frame = vec![0x02, 0, 0, 0, 0, 1, 0x02, 0, 0, 0, 0, 2, 0x88, 0xb5];
    frame.extend((14..bytes).map(|place| (place as u8).wrapping_mul(31).wrapping_add(number)));
    frame.truncate(bytes);
    frame
}

pub fn frames(count: usize, bytes: usize) -> Vec<Vec<u8>> {
    (0..count).map(|number| frame(number as u8, bytes)).collect()
}

/// Frames are as wanted; says where they are not in a line instead of a page.
#[track_caller]
pub fn assert_frames(came: &[Vec<u8>], wanted: &[Vec<u8>]) {
    if let Some(number) = came.iter().zip(wanted).position(|(came, wanted)| came != wanted) {
        let (came, wanted) = (&came[number], &wanted[number]);
        let place = came.iter().zip(wanted).position(|(came, wanted)| came != wanted);
        let lengths = (came.len(), wanted.len());
        panic!("frame {number} differs at byte {place:?}, {lengths:?} bytes long: {:x?}", &came[..40]);
    }
    assert_eq!(came.len(), wanted.len(), "number of frames");
}

/// A launched NF must not inherit a device's sockets.
pub fn assert_close_on_exec() {
    for entry in std::fs::read_dir("/proc/self/fdinfo").unwrap().flatten() {
        let name = entry.file_name().into_string().unwrap();
        let Ok(info) = std::fs::read_to_string(entry.path()) else { continue };
        let flags = info.lines().find_map(|line| line.strip_prefix("flags:")).unwrap();
        let flags = i32::from_str_radix(flags.trim(), 8).unwrap();
        let link = std::fs::read_link(format!("/proc/self/fd/{name}")).unwrap_or_default();
        let traffic = ["socket:", "/dev/net/tun"].iter().any(|it| link.to_string_lossy().starts_with(it));
        let inherited = name.parse::<i32>().unwrap() < 3;
        assert!(!traffic || inherited || flags & libc::O_CLOEXEC != 0, "{name} is {}", link.display());
    }
}

pub fn wait_for(condition: impl Fn() -> bool) {
    for _ in 0..200 {
        if condition() {
            return;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("waited 10 s in vain");
}

/// Puts this thread, and processes and threads it starts, into a network namespace of its own, which
/// goes when the last of them does.
pub fn enter_new_network() -> io::Result<()> {
    // SAFETY: a plain call.
    if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // The kernel's own neighbour discovery would be among the packets.
    std::fs::write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1")
}

pub fn ip(arguments: &str) {
    let done = Command::new("ip").args(arguments.split(' ')).status().expect("`ip` runs");
    assert!(done.success(), "ip {arguments}");
}

/// Two joined interfaces, up.
pub fn veth(one: &str, other: &str) {
    ip(&format!("link add {one} type veth peer name {other}"));
    for end in [one, other] {
        ip(&format!("link set {end} up"));
    }
}

/// A packet socket on an interface: the peer of a device under test.
pub struct Peer(OwnedFd);

impl Peer {
    pub fn on(interface: &str) -> Self {
        let name = CString::new(interface).unwrap();
        // SAFETY: plain calls; the descriptor is owned at once, the address is zeroed then filled.
        unsafe {
            let file = libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0);
            assert!(file >= 0);
            let peer = Self(OwnedFd::from_raw_fd(file));
            let mut address: libc::sockaddr_ll = std::mem::zeroed();
            address.sll_family = libc::AF_PACKET as u16;
            address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
            address.sll_ifindex = libc::if_nametoindex(name.as_ptr()) as i32;
            let length = size_of_val(&address) as u32;
            assert_eq!(libc::bind(file, (&raw const address).cast(), length), 0);
            let ignore_outgoing = 23;
            let one = 1i32;
            libc::setsockopt(file, libc::SOL_PACKET, ignore_outgoing, (&raw const one).cast(), 4);
            let wait = libc::timeval { tv_sec: 0, tv_usec: 20_000 };
            let length = size_of_val(&wait) as u32;
            libc::setsockopt(file, libc::SOL_SOCKET, libc::SO_RCVTIMEO, (&raw const wait).cast(), length);
            peer
        }
    }

    pub fn send(&self, frame: &[u8]) {
        // SAFETY: a slice and its length.
        let sent = unsafe { libc::send(self.0.as_raw_fd(), frame.as_ptr().cast(), frame.len(), 0) };
        assert_eq!(sent, frame.len() as isize, "{}", io::Error::last_os_error());
    }

    /// The next `count` frames, fewer when patience ends.
    pub fn receive(&self, count: usize) -> Vec<Vec<u8>> {
        let end = Instant::now() + PATIENCE;
        let mut frames = Vec::new();
        while frames.len() < count && Instant::now() < end {
            let mut frame = vec![0u8; 20_000];
            // SAFETY: room for as many bytes as are asked for.
            let got = unsafe { libc::recv(self.0.as_raw_fd(), frame.as_mut_ptr().cast(), frame.len(), 0) };
            if got >= 0 {
                frame.truncate(got as usize);
                frames.push(frame);
            }
        }
        frames
    }
}
