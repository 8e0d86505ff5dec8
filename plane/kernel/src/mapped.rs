//! The driver for packet sockets with rings in shared memory (PACKET_MMAP, TPACKET_V2; packet_mmap of the
//! kernel's documentation).
//!
//! Packets are received without any system call; one call makes the kernel send all that lie in the ring.
//! What is left of the cost is a copy each way, as the NF may hold a packet longer than the ring may wait.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use headgate_shm::Region;
use headgate_shm::descriptor::Descriptor;
use headgate_shm::geometry::HEADROOM_BYTES;
use headgate_wire::offload;

use crate::counts::Counts;
use crate::frame::Aside;
use crate::{BATCH_MAX, InterfaceError, InterfaceIo, Pool, is_passing, loss, lost_since_asked, open, packet};

// linux/if_packet.h
const TO_KERNEL: u32 = 0;
const TO_USER: u32 = 1;
const SEND_REQUEST: u32 = 1;
const WRONG_FORMAT: u32 = 4;

/// Bytes of `struct tpacket2_hdr`, behind which a frame to be sent starts.
const SEND_HEADER_BYTES: usize = 32;
/// Offset at which the kernel puts a received Ethernet frame: `TPACKET_ALIGN(TPACKET2_HDRLEN + 16) - 14`.
const RECEIVE_HEADER_BYTES: u32 = 66;
const PAGE_BYTES: u32 = 4096;
/// Maximum memory of one ring. Our choice: it is kernel memory that cannot be swapped.
const RING_BYTES_MAX: u32 = 16 << 20;

/// The shape of a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shape {
    frame_bytes: u32,
    frames: u32,
}

impl Shape {
    /// A ring for `queue` frames of that length, or as many as may be.
    fn of(queue: u32, frame_bytes: u32) -> Self {
        let frame_bytes = (RECEIVE_HEADER_BYTES + frame_bytes).next_power_of_two().max(PAGE_BYTES / 2);
        let frames = queue.next_power_of_two().clamp(BATCH_MAX as u32, RING_BYTES_MAX / frame_bytes);
        Self { frame_bytes, frames }
    }

    const fn request(self) -> libc::tpacket_req {
        let block = if self.frame_bytes > PAGE_BYTES { self.frame_bytes } else { PAGE_BYTES };
        libc::tpacket_req {
            tp_block_size: block,
            tp_block_nr: self.bytes() as u32 / block,
            tp_frame_size: self.frame_bytes,
            tp_frame_nr: self.frames,
        }
    }

    const fn bytes(self) -> usize {
        self.frame_bytes as usize * self.frames as usize
    }
}

/// The manager's part: gives a socket its rings.
pub fn prepare(socket: &OwnedFd, queue: u32, frame_bytes: u32) -> io::Result<()> {
    let request = Shape::of(queue, frame_bytes).request();
    open::set(socket, libc::SOL_PACKET, libc::PACKET_VERSION, libc::tpacket_versions::TPACKET_V2 as i32)?;
    // A frame the device refuses is skipped instead of blocking those behind it.
    open::set(socket, libc::SOL_PACKET, libc::PACKET_LOSS, 1i32)?;
    open::set(socket, libc::SOL_PACKET, libc::PACKET_RX_RING, request)?;
    open::set(socket, libc::SOL_PACKET, libc::PACKET_TX_RING, request)
}

/// Gives a socket a ring to receive, and maps it.
#[cfg(feature = "port")]
pub(crate) fn receiving(socket: &OwnedFd, queue: u32, frame_bytes: u32) -> io::Result<Rings> {
    let shape = Shape::of(queue, frame_bytes);
    open::set(socket, libc::SOL_PACKET, libc::PACKET_RX_RING, shape.request())?;
    Rings::map(socket, shape, 1)
}

/// Maps the ring of a socket that another process gave it.
#[cfg(feature = "port")]
pub(crate) fn adopted(socket: &OwnedFd, frames: u32, frame_bytes: u32) -> io::Result<Rings> {
    let shape = Shape { frame_bytes, frames };
    if !frames.is_power_of_two() || !frame_bytes.is_power_of_two() || frame_bytes < PAGE_BYTES / 2 {
        return Err(io::Error::other(format!("no ring has {frames} frames of {frame_bytes} bytes")));
    }
    if u64::from(frames) * u64::from(frame_bytes) > u64::from(RING_BYTES_MAX) {
        return Err(io::Error::other(format!("{frames} frames of {frame_bytes} bytes are no ring of ours")));
    }
    Rings::map(socket, shape, 1)
}

/// Rings as they are mapped: that to receive, behind it that to send where there is one.
pub(crate) struct Rings {
    base: NonNull<u8>,
    shape: Shape,
    rings: u32,
}

/// A frame in the ring, as the kernel laid it there.
pub(crate) struct Incoming<'a> {
    /// Its bytes, or the first of them.
    pub(crate) bytes: &'a [u8],
    /// Bytes of the whole frame.
    pub(crate) length: u32,
    /// What is said beside it.
    pub(crate) aside: Aside,
    /// Bytes that stand in front of it, where the socket was asked for a virtio header.
    #[cfg_attr(not(feature = "port"), expect(dead_code, reason = "only a worker's socket asks for it"))]
    pub(crate) virtio: [u8; offload::HEADER_LENGTH],
}

impl Rings {
    /// Maps the `rings` rings of a socket that was given them.
    fn map(socket: &OwnedFd, shape: Shape, rings: u32) -> io::Result<Self> {
        let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED);
        let bytes = rings as usize * shape.bytes();
        // SAFETY: a fresh mapping.
        let base =
            unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, flags, socket.as_raw_fd(), 0) };
        match NonNull::new(base.cast::<u8>()) {
            Some(start) if base != libc::MAP_FAILED => Ok(Self { base: start, shape, rings }),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Frames of each ring, and bytes of each.
    #[cfg(feature = "port")]
    pub(crate) const fn shape(&self) -> (u32, u32) {
        (self.shape.frames, self.shape.frame_bytes)
    }

    /// The frame of that number; those to send follow those to receive.
    fn frame(&self, number: u32) -> *mut u8 {
        assert!(number < self.rings * self.shape.frames);
        // SAFETY: the assertion keeps it inside the mapping.
        unsafe { self.base.as_ptr().add(number as usize * self.shape.frame_bytes as usize) }
    }

    /// The word by which a frame changes hands.
    fn status(&self, number: u32) -> &AtomicU32 {
        // SAFETY: the first word of a frame, which is aligned; kernel and NF use it as an atomic.
        unsafe { &*self.frame(number).cast() }
    }

    /// Whether the kernel has filled a frame.
    pub(crate) fn is_filled(&self, number: u32) -> bool {
        // rx-acquire, with the kernel's release of the frame.
        self.status(number).load(Ordering::Acquire) & TO_USER != 0
    }

    /// A frame that the kernel has filled; `None` when its header is nonsense.
    pub(crate) fn incoming(&self, number: u32) -> Option<Incoming<'_>> {
        // SAFETY: the frame is ours since its status said so, and starts with such a header.
        let header: libc::tpacket2_hdr = unsafe { self.frame(number).cast::<libc::tpacket2_hdr>().read() };
        let aside =
            Aside { status: header.tp_status, tag: header.tp_vlan_tci, tag_type: header.tp_vlan_tpid };
        let (start, bytes) = (u32::from(header.tp_mac), header.tp_snaplen);
        let before = (start as usize).checked_sub(offload::HEADER_LENGTH)?;
        start.checked_add(bytes).filter(|&end| end <= self.shape.frame_bytes)?;
        let mut virtio = [0; offload::HEADER_LENGTH];
        // SAFETY: these bytes, and `bytes` from `start` on, lie in the frame, as was checked.
        let bytes = unsafe {
            let frame = self.frame(number);
            virtio.copy_from_slice(std::slice::from_raw_parts(frame.add(before), offload::HEADER_LENGTH));
            std::slice::from_raw_parts(frame.add(start as usize), bytes as usize)
        };
        Some(Incoming { bytes, length: header.tp_len, aside, virtio })
    }

    /// Gives a frame back to the kernel. Returns the number of the next one.
    pub(crate) fn release(&self, number: u32) -> u32 {
        // rx-release, with the kernel's acquire when it fills the frame again.
        self.status(number).store(TO_KERNEL, Ordering::Release);
        (number + 1) % self.shape.frames
    }
}

// SAFETY: the mapping belongs to this value alone; what the kernel shares in it is accessed as atomics.
unsafe impl Send for Rings {}

impl Drop for Rings {
    fn drop(&mut self) {
        // SAFETY: mapped by `map` with this length; nothing refers to it any more. It cannot fail then.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.rings as usize * self.shape.bytes()) };
    }
}

/// One interface behind rings.
pub struct MappedRings {
    rings: Rings,
    socket: OwnedFd,
    batch: usize,
    counts: Counts,
    next_received: u32,
    next_sent: u32,
    /// Whether frames lie in the ring that the kernel was not asked to send, or could not.
    is_pending: bool,
}

impl MappedRings {
    /// A cable of a socket that [`prepare`] gave rings of that shape.
    pub fn new(socket: OwnedFd, batch: usize, queue: u32, frame_bytes: u32) -> io::Result<Self> {
        let rings = Rings::map(&socket, Shape::of(queue, frame_bytes), 2)?;
        let counts = Counts::default();
        Ok(Self { rings, socket, batch, counts, next_received: 0, next_sent: 0, is_pending: false })
    }

    /// The bytes of a frame that the kernel filled, unless it did not come whole, and what is said beside
    /// them.
    fn bytes_in(&self, number: u32) -> Option<(&[u8], Aside)> {
        let incoming = self.rings.incoming(number)?;
        (incoming.bytes.len() == incoming.length as usize).then_some((incoming.bytes, incoming.aside))
    }

    /// Copies a frame that the kernel gave into a buffer.
    fn copy_in(&mut self, number: u32, pool: &mut Pool) -> Option<Descriptor> {
        let index = if self.bytes_in(number).is_some() { pool.take() } else { None };
        let Some((index, (bytes, aside))) = index.zip(self.bytes_in(number)) else {
            self.counts.too_long += 1;
            return None;
        };
        let packet = Descriptor::new(index, HEADROOM_BYTES, bytes.len() as u32, 0);
        if pool.region().geometry().check(packet).is_err() {
            self.counts.too_long += 1;
            pool.put(packet);
            return None;
        }
        pool.region().write(index, HEADROOM_BYTES, bytes);
        Some(packet::completed(packet, aside, pool))
    }

    /// The longest frame that the ring has room for, in bytes.
    pub(crate) const fn sent_bytes_max(&self) -> u32 {
        self.rings.shape.frame_bytes - SEND_HEADER_BYTES as u32
    }

    /// Lays a packet into the ring; false when there is no room.
    pub(crate) fn lay(&mut self, packet: Descriptor, region: &Region) -> bool {
        let number = self.rings.shape.frames + self.next_sent;
        // tx-acquire, with the kernel's release of the frame.
        let status = self.rings.status(number).load(Ordering::Acquire);
        if status != TO_KERNEL && status != WRONG_FORMAT {
            return false;
        }
        let length = packet.length() as usize;
        if packet.length() > self.sent_bytes_max() {
            self.counts.too_long += 1;
            return true;
        }
        let frame = self.rings.frame(number);
        let header = frame.cast::<libc::tpacket2_hdr>();
        // SAFETY: the frame is ours since its status said so; behind its header lies room for a frame that
        // long, as was checked.
        unsafe {
            (&raw mut (*header).tp_len).write(packet.length());
            let into = std::slice::from_raw_parts_mut(frame.add(SEND_HEADER_BYTES), length);
            region.read(packet, into);
        }
        // tx-release, with the kernel's acquire when it is asked to send.
        self.rings.status(number).store(SEND_REQUEST, Ordering::Release);
        self.next_sent = (self.next_sent + 1) % self.rings.shape.frames;
        self.counts.sent += 1;
        true
    }

    /// Has the kernel send what lies in the ring.
    pub(crate) fn push(&mut self) -> Result<(), InterfaceError> {
        self.counts.calls += 1;
        // SAFETY: no data and no address.
        let sent = unsafe {
            libc::sendto(
                self.socket.as_raw_fd(),
                std::ptr::null(),
                0,
                libc::MSG_DONTWAIT,
                std::ptr::null(),
                0,
            )
        };
        self.is_pending = false;
        if sent >= 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        self.is_pending = is_passing(&error);
        loss(self.socket.as_fd(), &error).map_or(Ok(()), Err)
    }
}

impl MappedRings {
    /// Has the kernel send what it could not send before.
    pub(crate) fn push_again(&mut self) -> Result<(), InterfaceError> {
        if self.is_pending { self.push() } else { Ok(()) }
    }
}

impl InterfaceIo for MappedRings {
    fn receive(&mut self, pool: &mut Pool, into: &mut Vec<Descriptor>) -> Result<bool, InterfaceError> {
        for _ in 0..self.batch {
            let number = self.next_received;
            if !self.rings.is_filled(number) {
                return Ok(false);
            }
            if let Some(packet) = self.copy_in(number, pool) {
                into.push(packet);
                self.counts.received += 1;
            }
            self.next_received = self.rings.release(number);
        }
        Ok(true)
    }

    fn send(&mut self, pool: &mut Pool, packets: &[Descriptor]) -> Result<(), InterfaceError> {
        let mut ended = Ok(());
        for batch in packets.chunks(self.batch) {
            for packet in batch {
                if !self.lay(*packet, pool.region()) {
                    self.counts.unsent += 1;
                }
            }
            ended = ended.and(self.push());
        }
        packets.iter().for_each(|packet| pool.put(*packet));
        ended
    }

    fn set_batch(&mut self, batch: usize) {
        self.batch = batch;
    }

    fn ear(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    fn counts(&self) -> Counts {
        self.counts
    }

    fn check_losses(&mut self) -> Result<(), InterfaceError> {
        self.counts.lost += lost_since_asked(self.socket.as_fd());
        self.push_again()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rings_fill_whole_blocks_and_take_whole_frames() {
        for frame_bytes in [64, 1518, 2048, 9018, 16_383] {
            for queue in [64, 4096, 65_536] {
                let shape = Shape::of(queue, frame_bytes);
                let request = shape.request();
                assert!(shape.frame_bytes >= frame_bytes + RECEIVE_HEADER_BYTES);
                assert_eq!(request.tp_block_size % PAGE_BYTES, 0);
                assert_eq!(request.tp_block_size as usize * request.tp_block_nr as usize, shape.bytes());
                assert!(shape.bytes() <= RING_BYTES_MAX as usize, "{queue} of {frame_bytes}");
            }
        }
    }
}
