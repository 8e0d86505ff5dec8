//! The driver for packet sockets: one system call for many packets, both ways (SCC, section 5.1.1).
//!
//! A batch of 1 is SCC's baseline and takes other calls, `recvmsg` and `send`, as a program does that knows
//! nothing of batches. Descriptors of messages are laid out once; a call changes only those it used.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use headgate_shm::descriptor::Descriptor;
use headgate_shm::geometry::HEADROOM_BYTES;

use crate::counts::Counts;
use crate::frame::{self, Aside, TAG_BYTES};
use crate::{BATCH_MAX, InterfaceError, InterfaceIo, Pool, loss, lost_since_asked};

// linux/if_packet.h
const PACKET_AUXDATA: i32 = 8;

/// The kernel's information beside a frame, as a control message.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Control {
    header: libc::cmsghdr,
    data: libc::tpacket_auxdata,
}

/// One interface behind a packet socket.
pub struct PacketSocket {
    socket: OwnedFd,
    batch: usize,
    counts: Counts,
    /// The buffer to receive into at each place.
    places: Vec<u32>,
    /// Leading places whose buffers were given away.
    emptied: usize,
    incoming: Messages,
    asides: Vec<Control>,
    outgoing: Messages,
}

/// Headers of messages, each with one piece of data.
struct Messages {
    headers: Vec<libc::mmsghdr>,
    pieces: Vec<libc::iovec>,
}

impl Messages {
    fn new(count: usize) -> Self {
        let mut pieces = vec![libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; count];
        let header = |piece: &mut libc::iovec| {
            // SAFETY: all zeroes is a message without address, data and control.
            let mut header: libc::mmsghdr = unsafe { std::mem::zeroed() };
            header.msg_hdr.msg_iov = piece;
            header.msg_hdr.msg_iovlen = 1;
            header
        };
        Self { headers: pieces.iter_mut().map(header).collect(), pieces }
    }
}

impl PacketSocket {
    /// A cable of a socket; `batch` packets are the most of one call. There are places for the longest batch.
    pub fn new(socket: OwnedFd, batch: usize, pool: &mut Pool) -> Self {
        // SAFETY: integers all of them.
        let mut asides = vec![unsafe { std::mem::zeroed::<Control>() }; BATCH_MAX];
        let mut incoming = Messages::new(BATCH_MAX);
        for (header, aside) in incoming.headers.iter_mut().zip(&mut asides) {
            header.msg_hdr.msg_control = std::ptr::from_mut(aside).cast();
            header.msg_hdr.msg_controllen = size_of::<Control>();
        }
        let outgoing = Messages::new(BATCH_MAX);
        let counts = Counts::default();
        let places = vec![0; BATCH_MAX];
        let mut made = Self { socket, batch, counts, places, emptied: BATCH_MAX, incoming, asides, outgoing };
        made.refill(pool);
        made
    }

    /// Gives every place a buffer. How many have one: all, unless the pool is dry.
    fn refill(&mut self, pool: &mut Pool) -> usize {
        let stride = pool.region().geometry().stride();
        while self.emptied > 0 {
            let Some(index) = pool.take() else { break };
            self.emptied -= 1;
            let start = pool.region().buffer(index).wrapping_add(HEADROOM_BYTES as usize);
            self.places[self.emptied] = index;
            self.incoming.pieces[self.emptied] =
                libc::iovec { iov_base: start.cast(), iov_len: (stride - HEADROOM_BYTES) as usize };
        }
        // Filled from behind, so what is missing is at the front and nothing can be received.
        if self.emptied == 0 { self.batch } else { 0 }
    }

    /// One system call. How many messages it filled.
    fn call(&mut self) -> io::Result<usize> {
        self.counts.calls += 1;
        let (file, headers) = (self.socket.as_raw_fd(), self.incoming.headers.as_mut_ptr());
        let count = if self.batch == 1 {
            // SAFETY: the header's pieces are a buffer of the pool, which nobody else has, and a control
            // message of ours; both live as long as `self`.
            let bytes = unsafe { libc::recvmsg(file, &raw mut (*headers).msg_hdr, libc::MSG_DONTWAIT) };
            if bytes >= 0 {
                self.incoming.headers[0].msg_len = bytes as u32;
            }
            bytes.min(1)
        } else {
            let most = self.batch as u32;
            // SAFETY: as above, for `batch` headers.
            let count =
                unsafe { libc::recvmmsg(file, headers, most, libc::MSG_DONTWAIT, std::ptr::null_mut()) };
            count as isize
        };
        usize::try_from(count).map_err(|_| io::Error::last_os_error())
    }

    /// The packet at a place, if it came whole.
    fn packet_at(&mut self, place: usize, pool: &mut Pool) -> Option<Descriptor> {
        let header = &mut self.incoming.headers[place];
        let length = header.msg_len as usize;
        let aside = aside(header.msg_hdr.msg_controllen, &self.asides[place]);
        let cut = header.msg_hdr.msg_flags & libc::MSG_TRUNC != 0;
        header.msg_hdr.msg_controllen = size_of::<Control>();
        let packet = Descriptor::new(self.places[place], HEADROOM_BYTES, length as u32, 0);
        if cut || pool.region().geometry().check(packet).is_err() {
            self.counts.too_long += 1;
            return None;
        }
        Some(completed(packet, aside, pool))
    }

    /// Sends these, at most a batch, each in its message. How many the kernel took of them, and what it said
    /// of the next.
    fn send_batch(&mut self, packets: &[Descriptor], pool: &Pool) -> (usize, Option<io::Error>) {
        self.counts.calls += 1;
        let file = self.socket.as_raw_fd();
        let pieces = self.outgoing.pieces.iter_mut().zip(packets);
        for (piece, packet) in pieces {
            let start = pool.region().buffer(packet.index()).wrapping_add(packet.offset() as usize);
            *piece = libc::iovec { iov_base: start.cast(), iov_len: packet.length() as usize };
        }
        let sent = if self.batch == 1 {
            let piece = &self.outgoing.pieces[0];
            // SAFETY: the piece is a frame of the pool; its extent was checked when it was made.
            unsafe { libc::send(file, piece.iov_base, piece.iov_len, libc::MSG_DONTWAIT).min(1) }
        } else {
            let headers = self.outgoing.headers.as_mut_ptr();
            // SAFETY: as above, for as many headers as there are packets.
            unsafe { libc::sendmmsg(file, headers, packets.len() as u32, libc::MSG_DONTWAIT) as isize }
        };
        usize::try_from(sent).map_or_else(|_| (0, Some(io::Error::last_os_error())), |sent| (sent, None))
    }
}

/// A packet with its tag and its checksum.
pub(crate) fn completed(packet: Descriptor, aside: Aside, pool: &mut Pool) -> Descriptor {
    if aside.status & (frame::VLAN_VALID | frame::CHECKSUM_NOT_READY) == 0 {
        return packet;
    }
    complete(packet, aside, pool)
}

#[cold]
fn complete(packet: Descriptor, aside: Aside, pool: &mut Pool) -> Descriptor {
    let mut packet = packet;
    if let Some(tag) = aside.tag_bytes() {
        let tagged =
            packet.with_extent(packet.offset() - TAG_BYTES as u32, packet.length() + TAG_BYTES as u32);
        packet = tagged;
        frame::insert_tag(pool.bytes_of(packet), tag);
    }
    if aside.lacks_checksum() {
        frame::complete_checksum(pool.bytes_of(packet));
    }
    packet
}

/// Returns the kernel's information beside the frame of a message, in so many bytes.
pub(crate) fn aside(bytes: usize, control: &Control) -> Aside {
    let said = bytes >= size_of::<Control>()
        && control.header.cmsg_level == libc::SOL_PACKET
        && control.header.cmsg_type == PACKET_AUXDATA;
    if !said {
        return Aside::default();
    }
    let data = &control.data;
    Aside { status: data.tp_status, tag: data.tp_vlan_tci, tag_type: data.tp_vlan_tpid }
}

impl InterfaceIo for PacketSocket {
    fn receive(&mut self, pool: &mut Pool, into: &mut Vec<Descriptor>) -> Result<bool, InterfaceError> {
        if self.refill(pool) == 0 {
            return Ok(true);
        }
        let count = match self.call() {
            Ok(count) => count,
            Err(error) => return loss(self.socket.as_fd(), &error).map_or(Ok(false), Err),
        };
        let mut kept = 0;
        for place in 0..count {
            if let Some(packet) = self.packet_at(place, pool) {
                into.push(packet);
                kept += 1;
            } else {
                pool.put(Descriptor::new(self.places[place], 0, 0, 0));
            }
        }
        self.emptied = count;
        self.counts.received += kept;
        Ok(count == self.batch)
    }

    fn send(&mut self, pool: &mut Pool, packets: &[Descriptor]) -> Result<(), InterfaceError> {
        let mut rest = packets;
        let mut ended = Ok(());
        while !rest.is_empty() && ended.is_ok() {
            let (sent, error) = self.send_batch(&rest[..rest.len().min(self.batch)], pool);
            self.counts.sent += sent as u64;
            rest = &rest[sent..];
            let Some(error) = error else { continue };
            match error.raw_os_error() {
                Some(libc::EINTR) => {}
                Some(libc::EMSGSIZE) => {
                    self.counts.too_long += 1;
                    rest = &rest[1..];
                }
                // The queue is full: the others would find it so too.
                Some(libc::EAGAIN) => break,
                _ => {
                    ended = loss(self.socket.as_fd(), &error).map_or(Ok(()), Err);
                    if ended.is_ok() {
                        self.counts.unsent += 1;
                        rest = &rest[1..];
                    }
                }
            }
        }
        self.counts.unsent += rest.len() as u64;
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
        Ok(())
    }
}
