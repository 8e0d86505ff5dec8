//! Repairs of the af_packet driver's sockets.
//!
//! The driver of DPDK 22.11 (`rte_eth_af_packet.c`) opens one packet socket for each queue and maps
//! its rings. Four of the options it chooses spoil the traffic, and cannot be changed from outside:
//! - it joins every socket, also a single one, to a fanout group with `PACKET_FANOUT_FLAG_DEFRAG`: the
//!   kernel reassembles IPv4 fragments before they are delivered, and the whole is then cut to a frame
//!   of the ring;
//! - it does not set `PACKET_IGNORE_OUTGOING`: what the host itself sends on the interface (neighbour
//!   discovery, multicast reports) comes in as if it had been received, and with several queues so does
//!   what the other queues send;
//! - between opening the ring and binding it, packets of every interface of the machine come in;
//! - the group rolls over: when one queue is full its flows move to another, out of order.
//!
//! Besides, it never asks the kernel how many packets were lost because a ring was full. And it asks the
//! kernel to send only when it is given packets: what the kernel could not take then (no memory, an
//! interface that had been down) lies in the ring until there is something else to send.
//!
//! So once the driver has opened a socket and before the device is started, a socket of ours with the
//! same rings and the right options takes its place: mapped over the driver's mapping, at the same
//! address, and made the file that the driver's number names. The driver notices nothing, since all it
//! keeps is the number and the address. The rest is done when the control thread asks for the losses.
//!
//! Rejected: living with it (fragments are lost), or interposing `setsockopt` (every user of it in the
//! process would go through ours).

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::devargs::Devargs;
use crate::interface::{self, Interface};

// linux/if_packet.h
const PACKET_IGNORE_OUTGOING: i32 = 23;
const FANOUT_HASH: u32 = 0;
const FANOUT_UNIQUE_ID: u32 = 0x2000;
const FANOUT_IGNORE_OUTGOING: u32 = 0x4000;

/// Bytes of `struct tpacket2_hdr`, before which nothing else is in a frame to be sent.
const SEND_HEADER_BYTES: u32 = 32;
/// Offset at which the kernel puts a received Ethernet frame: `TPACKET_ALIGN(TPACKET2_HDRLEN + 16) - 14`.
const RECEIVE_HEADER_BYTES: u32 = 66;
/// Frame sizes we choose are multiples of it, so that 16 fill whole pages (our choice).
const FRAME_STEP_BYTES: u32 = 256;
const PAGE_BYTES: u32 = 4096;
/// Frames of each ring. Our choice: 4 ms at 1 Mpps, which is how long the worker's thread may be kept
/// off its core by another at the kernel's 250 ticks a second.
const FRAMES: u32 = 4096;
/// Maximum memory of the frames of a ring. Our choice: it is kernel memory that cannot be swapped.
const RING_BYTES_MAX: u32 = 16 << 20;

/// The shape of a socket's rings, one to receive and one to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ring {
    pub(crate) frame_bytes: u32,
    block_bytes: u32,
    frames: u32,
}

impl Ring {
    /// The largest frames that the driver accepts for buffers with `room` bytes behind the headroom.
    pub(crate) fn fitting(room: u32) -> Self {
        let most = (room + SEND_HEADER_BYTES) / FRAME_STEP_BYTES * FRAME_STEP_BYTES;
        let frame_bytes = most.max(FRAME_STEP_BYTES);
        // The least whole number of pages that is a whole number of frames: the driver takes the
        // frames of all blocks to be one row.
        let together = PAGE_BYTES / (1 << frame_bytes.trailing_zeros().min(PAGE_BYTES.trailing_zeros()));
        let frames = FRAMES.min(RING_BYTES_MAX / frame_bytes) / together * together;
        Self { frame_bytes, block_bytes: frame_bytes * together, frames }
    }

    /// The smallest `room` with which frames of that length come whole.
    pub(crate) const fn room_for(received_bytes: u32) -> u32 {
        let frame_bytes = received_bytes + RECEIVE_HEADER_BYTES + 1;
        frame_bytes.next_multiple_of(FRAME_STEP_BYTES) - SEND_HEADER_BYTES
    }

    /// Adds the shape to a device's arguments.
    pub(crate) fn describe(self, device: &mut Devargs) {
        device.add("framesz", self.frame_bytes);
        device.add("blocksz", self.block_bytes);
        device.add("framecnt", self.frames);
    }

    /// The shape that a device's arguments ask for, with the driver's defaults; `None` for one that the
    /// driver refuses.
    pub(crate) fn of(device: &Devargs) -> Option<Self> {
        let number = |key, default: u32| device.get(key).map_or(Some(default), |text| text.parse().ok());
        let ring = Self {
            frame_bytes: number("framesz", 2048)?,
            block_bytes: number("blocksz", PAGE_BYTES)?,
            frames: number("framecnt", 512)?,
        };
        let sound = ring.frame_bytes > RECEIVE_HEADER_BYTES && ring.block_bytes >= ring.frame_bytes;
        sound.then_some(ring)
    }

    /// The longest frame that is certain to have come whole. The kernel cuts what is longer, and the
    /// driver does not tell; so one that fills the space to the last byte counts as cut.
    pub(crate) const fn received_bytes_max(self) -> u32 {
        self.frame_bytes - RECEIVE_HEADER_BYTES - 1
    }

    /// The longest frame that the driver sends; it drops what is longer.
    pub(crate) const fn sent_bytes_max(self) -> u32 {
        self.frame_bytes - SEND_HEADER_BYTES
    }

    const fn request(self) -> libc::tpacket_req {
        libc::tpacket_req {
            tp_block_size: self.block_bytes,
            tp_block_nr: self.frames / (self.block_bytes / self.frame_bytes),
            tp_frame_size: self.frame_bytes,
            tp_frame_nr: self.frames,
        }
    }

    const fn mapped_bytes(self) -> usize {
        let request = self.request();
        2 * request.tp_block_size as usize * request.tp_block_nr as usize
    }
}

/// The sockets of a device's queues. The numbers are the driver's, which closes them.
pub(crate) struct PacketSockets {
    files: Vec<RawFd>,
    lost: AtomicU64,
}

impl PacketSockets {
    /// Puts sockets of ours in the place of those of `files` that are packet sockets. Before the device
    /// is started, as long as the driver's rings are not in use.
    pub(crate) fn replace(
        device: &Devargs,
        ring: Ring,
        interface: &Interface,
        files: &[RawFd],
    ) -> io::Result<Self> {
        let files: Vec<RawFd> = files.iter().copied().filter(|&file| is_packet_socket(file)).collect();
        let bypass = device.get("qdisc_bypass") != Some("0");
        let mut group = None;
        for &file in &files {
            let ours = open(ring, bypass)?;
            take_mapping(&ours, file, ring.mapped_bytes())?;
            bind(ours.as_raw_fd(), interface)?;
            if files.len() > 1 {
                group = Some(join(&ours, group)?);
            }
            // SAFETY: both are open; the driver's socket, unmapped above, is closed by this.
            if unsafe { libc::dup3(ours.as_raw_fd(), file, libc::O_CLOEXEC) } < 0 {
                return Err(io::Error::last_os_error());
            }
        }
        Ok(Self { files, lost: AtomicU64::new(0) })
    }

    /// Returns whether the kernel lets the sockets be bound to another interface: not those of a group.
    pub(crate) const fn can_move(&self) -> bool {
        self.files.len() == 1
    }

    /// Returns whether the kernel still has the sockets at this interface.
    pub(crate) fn are_bound_to(&self, interface: &Interface) -> bool {
        self.files.iter().all(|&file| bound_to(file) == Some(interface.index))
    }

    /// Binds the sockets to another interface. Their rings, and what is in them, stay; what the driver does
    /// meanwhile finds no interface or the new one. Returns what keeps that taking packets for all addresses.
    pub(crate) fn move_to(&self, interface: &Interface) -> io::Result<OwnedFd> {
        for &file in &self.files {
            bind(file, interface)?;
        }
        interface::promiscuous(interface)
    }

    /// Makes the kernel send what the driver left in the rings, and returns how many packets it dropped
    /// because a ring was full, since the device was opened.
    pub(crate) fn flush_and_count(&self) -> u64 {
        for &file in &self.files {
            // SAFETY: no data and no address; at worst an error, which the next call meets again.
            unsafe { libc::sendto(file, std::ptr::null(), 0, libc::MSG_DONTWAIT, std::ptr::null(), 0) };
            // SAFETY: all zeroes is a valid answer.
            let mut answer: libc::tpacket_stats = unsafe { std::mem::zeroed() };
            let mut bytes = size_of_val(&answer) as libc::socklen_t;
            let (into, length) = ((&raw mut answer).cast(), &raw mut bytes);
            // SAFETY: writes at most `bytes` bytes. Asking resets the kernel's count.
            if unsafe { libc::getsockopt(file, libc::SOL_PACKET, libc::PACKET_STATISTICS, into, length) } == 0
            {
                self.lost.fetch_add(u64::from(answer.tp_drops), Ordering::Relaxed);
            }
        }
        self.lost.load(Ordering::Relaxed)
    }
}

fn is_packet_socket(file: RawFd) -> bool {
    let mut domain = 0i32;
    let mut bytes = size_of_val(&domain) as libc::socklen_t;
    let (into, length) = ((&raw mut domain).cast(), &raw mut bytes);
    // SAFETY: writes one int; on a number that is no socket it fails.
    let asked = unsafe { libc::getsockopt(file, libc::SOL_SOCKET, libc::SO_DOMAIN, into, length) };
    asked == 0 && domain == libc::AF_PACKET
}

/// A socket with the options the driver sets, and rings.
fn open(ring: Ring, bypass: bool) -> io::Result<OwnedFd> {
    let socket = interface::socket(libc::AF_PACKET, libc::SOCK_RAW)?;
    let set = |option, value: i32| interface::set(&socket, libc::SOL_PACKET, option, value);
    set(libc::PACKET_VERSION, libc::tpacket_versions::TPACKET_V2 as i32)?;
    // A frame the device refuses is skipped instead of blocking those behind it.
    set(libc::PACKET_LOSS, 1)?;
    set(libc::PACKET_QDISC_BYPASS, i32::from(bypass))?;
    set(PACKET_IGNORE_OUTGOING, 1)?;
    interface::set(&socket, libc::SOL_PACKET, libc::PACKET_RX_RING, ring.request())?;
    interface::set(&socket, libc::SOL_PACKET, libc::PACKET_TX_RING, ring.request())?;
    Ok(socket)
}

/// Maps the rings of `ours` where those of the driver's socket `file` are mapped.
fn take_mapping(ours: &OwnedFd, file: RawFd, bytes: usize) -> io::Result<()> {
    let link = std::fs::read_link(format!("/proc/self/fd/{file}"))?;
    let maps = std::fs::read_to_string("/proc/self/maps")?;
    let start = mapping_of(&maps, &link.to_string_lossy(), bytes)
        .ok_or_else(|| io::Error::other("the driver's rings are not mapped as expected"))?;
    let (protection, flags) =
        (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_LOCKED | libc::MAP_FIXED);
    let address = std::ptr::with_exposed_provenance_mut(start);
    // SAFETY: replaces exactly the mapping of the driver's rings, of the same size, by one that holds
    // the same. Nothing uses it: the device is not started.
    let mapped = unsafe { libc::mmap(address, bytes, protection, flags, ours.as_raw_fd(), 0) };
    if mapped == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Returns the address at which a file is mapped, if it is once and in this size. `maps` is
/// `/proc/self/maps`.
fn mapping_of(maps: &str, link: &str, bytes: usize) -> Option<usize> {
    let mut found = maps.lines().filter(|line| line.split_whitespace().nth(5) == Some(link));
    let (line, more) = (found.next()?, found.next());
    let (start, end) = line.split_whitespace().next()?.split_once('-')?;
    let (start, end) = (usize::from_str_radix(start, 16).ok()?, usize::from_str_radix(end, 16).ok()?);
    (more.is_none() && end - start == bytes).then_some(start)
}

fn bind(socket: RawFd, interface: &Interface) -> io::Result<()> {
    // SAFETY: all zeroes is a valid address.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
    address.sll_ifindex = interface.index;
    let bytes = size_of_val(&address) as libc::socklen_t;
    // SAFETY: an address of the length given.
    let refused = unsafe { libc::bind(socket, (&raw const address).cast(), bytes) };
    if refused == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Returns the number of the interface that a socket is bound to; -1 after that was deleted
/// (`packet_notifier`).
fn bound_to(socket: RawFd) -> Option<i32> {
    // SAFETY: all zeroes is a valid address.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    let mut bytes = size_of_val(&address) as libc::socklen_t;
    // SAFETY: writes at most `bytes` bytes.
    let refused = unsafe { libc::getsockname(socket, (&raw mut address).cast(), &raw mut bytes) };
    (refused == 0).then_some(address.sll_ifindex)
}

/// Joins the group that shares the interface's packets by flow, or founds it; returns its number.
fn join(socket: &OwnedFd, group: Option<u32>) -> io::Result<u32> {
    let mode = (FANOUT_HASH | FANOUT_IGNORE_OUTGOING) << 16;
    let founding = (FANOUT_UNIQUE_ID << 16) * u32::from(group.is_none());
    let option = libc::PACKET_FANOUT;
    interface::set(socket, libc::SOL_PACKET, option, group.unwrap_or(0) | mode | founding)?;
    let mut number = 0u32;
    let mut bytes = size_of_val(&number) as libc::socklen_t;
    let (into, length) = ((&raw mut number).cast(), &raw mut bytes);
    // SAFETY: writes one int.
    let refused = unsafe { libc::getsockopt(socket.as_raw_fd(), libc::SOL_PACKET, option, into, length) };
    if refused == 0 { Ok(number & 0xffff) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rings_fit_the_buffers_and_fill_their_blocks() {
        for room in [64, 1600, 2048, 2112, 4096, 9018, 9216, 16_383] {
            let ring = Ring::fitting(room);
            assert!(ring.frame_bytes - SEND_HEADER_BYTES <= room.max(FRAME_STEP_BYTES), "{room}");
            assert_eq!(ring.block_bytes % PAGE_BYTES, 0, "{room}");
            assert_eq!(ring.block_bytes % ring.frame_bytes, 0, "{room}");
            assert_eq!(ring.frames % (ring.block_bytes / ring.frame_bytes), 0, "{room}");
            assert!(ring.frames * ring.frame_bytes <= RING_BYTES_MAX, "{room}");
        }
        assert_eq!(Ring::fitting(2112).frame_bytes, 2048);
        assert_eq!(Ring::fitting(9216).frame_bytes, 9216);
    }

    #[test]
    fn the_room_for_a_frame_is_the_smallest_that_takes_it_whole() {
        for frame_bytes in [1518, 1981, 1982, 9018] {
            let room = Ring::room_for(frame_bytes);
            assert!(Ring::fitting(room).received_bytes_max() >= frame_bytes, "{frame_bytes}");
            assert!(Ring::fitting(room - 1).received_bytes_max() < frame_bytes, "{frame_bytes}");
        }
        assert_eq!(Ring::room_for(9018), 9184);
    }

    #[test]
    fn a_shape_survives_the_arguments() {
        let mut device = Devargs::parse("net_af_packet0,iface=lo").unwrap();
        assert_eq!(Ring::of(&device).map(|ring| ring.frame_bytes), Some(2048));
        Ring::fitting(9216).describe(&mut device);
        assert_eq!(Ring::of(&device), Some(Ring::fitting(9216)));
        let bad = Devargs::parse("net_af_packet0,iface=lo,framesz=8192").unwrap();
        assert_eq!(Ring::of(&bad), None);
    }

    #[test]
    fn the_mapping_of_a_socket_is_found() {
        let maps = "\
7f0000000000-7f0000001000 r--p 00000000 00:1d 5 /lib/x
7f0000002000-7f0000004000 rw-s 00000000 00:09 4711 socket:[4711]
7f0000006000-7f0000007000 rw-p 00000000 00:00 0 \n";
        assert_eq!(mapping_of(maps, "socket:[4711]", 0x2000), Some(0x7f00_0000_2000));
        assert_eq!(mapping_of(maps, "socket:[4711]", 0x1000), None);
        assert_eq!(mapping_of(maps, "socket:[4712]", 0x2000), None);
    }
}
