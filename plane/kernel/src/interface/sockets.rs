//! Both sockets of an interface.
//!
//! One receives into a ring, the other sends: a socket with a ring to send sends nothing else, and frames of
//! 64 KiB would make that ring as large. The options of the first are those of [`crate::open`], and
//! - `PACKET_VNET_HDR`: what is left to do on a frame stands in front of it;
//! - `PACKET_COPY_THRESH`: a frame longer than the ring's comes whole by the socket.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::Arc;

use headgate_shm::Region;
use headgate_wire::ethernet;
use headgate_wire::offload::{self, Header};

use super::entrance::{Loss, Source};
use super::terms::{Frames, Kind, Terms};
use crate::mapped::{self, Incoming, Rings};
use crate::open::{self, OpenError, PACKET_IGNORE_OUTGOING, bind_to, promiscuous, refused};

// linux/if_packet.h
const PACKET_COPY_THRESH: i32 = 7;
/// Beside a frame of the ring: the whole lies in the socket.
const COPIED: u32 = 1 << 1;

/// Memory of long frames that may wait, in bytes. Our choice: 160 of 64 KiB with their overhead, some 6 ms of
/// 15 Gbit/s.
const WAITING_BYTES: i32 = 16 << 20;
/// Memory of frames that were sent and are still on their way through the kernel, in bytes. Our choice: as
/// much.
const LEAVING_BYTES: i32 = 16 << 20;
/// A frame of the ring is to hold Ethernet, a tag that the kernel took out, and this much, in bytes.
const BESIDE_MTU_BYTES: u32 = 18;

/// Sockets of an interface, and the ring of the one that receives.
pub(super) struct Sockets {
    pub(super) ring: Rings,
    /// Number of the ring's next frame.
    pub(super) next: u32,
    pub(super) receiving: Arc<OwnedFd>,
    pub(super) sending: OwnedFd,
    /// The longest frame, without VLAN tag, that the interface carried when it was opened.
    pub(super) sent_bytes_max: u32,
}

/// Shape of the ring of a socket that receives, and the place in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingFacts {
    /// Frames of the ring.
    pub frames: u32,
    /// Bytes of each.
    pub frame_bytes: u32,
    /// Number of the next one.
    pub next: u32,
    /// The longest frame, without VLAN tag, that the interface carries, in bytes.
    pub sent_bytes_max: u32,
}

impl Sockets {
    /// Goes on with sockets of another process, which has stopped to use them.
    ///
    /// # Errors
    /// The kernel's, or that no ring has this shape.
    pub(super) fn adopt(facts: RingFacts, receiving: OwnedFd, sending: OwnedFd) -> io::Result<Self> {
        let RingFacts { frames, frame_bytes, next, sent_bytes_max } = facts;
        if next >= frames {
            return Err(io::Error::other(format!("a ring of {frames} frames has no frame {next}")));
        }
        let ring = mapped::adopted(&receiving, frames, frame_bytes)?;
        Ok(Self { ring, next, receiving: Arc::new(receiving), sending, sent_bytes_max })
    }

    /// Returns what another process needs to go on.
    pub(super) const fn facts(&self) -> RingFacts {
        let (frames, frame_bytes) = self.ring.shape();
        RingFacts { frames, frame_bytes, next: self.next, sent_bytes_max: self.sent_bytes_max }
    }

    /// Opens both on an interface of the calling thread's namespace.
    ///
    /// # Errors
    /// [`OpenError`].
    pub(super) fn open(terms: &Terms) -> Result<Self, OpenError> {
        let name = terms.name.as_str();
        let (index, receiving) = promiscuous(name)?;
        let flag = |socket, option| open::set(socket, libc::SOL_PACKET, option, 1i32);
        flag(&receiving, libc::PACKET_VNET_HDR).map_err(refused(name, "ask what frames lack"))?;
        let version = libc::tpacket_versions::TPACKET_V2 as i32;
        open::set(&receiving, libc::SOL_PACKET, libc::PACKET_VERSION, version)
            .map_err(refused(name, "choose the kind of its ring"))?;
        flag(&receiving, PACKET_COPY_THRESH).map_err(refused(name, "ask for long frames"))?;
        flag(&receiving, PACKET_IGNORE_OUTGOING).map_err(refused(name, "leave out what is sent on it"))?;
        open::set(&receiving, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, WAITING_BYTES)
            .map_err(refused(name, "set its receive buffer"))?;
        let sending = open::packet_socket().map_err(refused(name, "open a packet socket"))?;
        flag(&sending, libc::PACKET_VNET_HDR).map_err(refused(name, "ask to send long frames"))?;
        open::set(&sending, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, LEAVING_BYTES)
            .map_err(refused(name, "set its send buffer"))?;
        // Of no protocol: it receives nothing.
        bind_to(&sending, index, 0).map_err(refused(name, "bind to it"))?;
        let sent_bytes_max = open::frame_bytes_max(sending.as_fd()).map_err(refused(name, "read its MTU"))?;
        let frame_bytes =
            terms.frame_bytes.min(sent_bytes_max + BESIDE_MTU_BYTES) + offload::HEADER_LENGTH as u32;
        let ring = mapped::receiving(&receiving, terms.waiting, frame_bytes)
            .map_err(refused(name, "make its ring"))?;
        if let Kind::SocketsFor(Frames { word: Some(word), .. }) = terms.kind {
            keep_only(&receiving, word).map_err(refused(name, "choose among its frames"))?;
        }
        bind_to(&receiving, index, terms.kind.protocol()).map_err(refused(name, "bind to it"))?;
        let receiving = Arc::new(receiving);
        Ok(Self { ring, next: 0, receiving, sending, sent_bytes_max })
    }

    /// # Safety
    /// The kernel may write to the bytes that `into` names during the call.
    unsafe fn fetch_to(&self, into: libc::iovec) -> Option<(usize, [u8; offload::HEADER_LENGTH])> {
        // An interface that went down is told once, in the place of a frame.
        const TRIES: usize = 3;
        let mut header = [0; offload::HEADER_LENGTH];
        for _ in 0..TRIES {
            let mut pieces = [piece(&mut header), into];
            // SAFETY: all zeroes is a message without address, data and control.
            let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
            (message.msg_iov, message.msg_iovlen) = (pieces.as_mut_ptr(), pieces.len());
            let flags = libc::MSG_DONTWAIT | libc::MSG_TRUNC;
            // SAFETY: the header is ours, the other piece is as the caller promises.
            let bytes = unsafe { libc::recvmsg(self.receiving.as_raw_fd(), &raw mut message, flags) };
            match usize::try_from(bytes) {
                Ok(bytes) => return Some((bytes.checked_sub(header.len())?, header)),
                Err(_) if io::Error::last_os_error().raw_os_error() == Some(libc::EAGAIN) => break,
                Err(_) => {}
            }
        }
        None
    }
}

/// Has a packet socket receive only frames with a word behind the Ethernet header: its offset there, and its
/// value.
fn keep_only(socket: &OwnedFd, (at, value): (u8, u16)) -> io::Result<()> {
    // linux/bpf_common.h: load a half word, jump if it is equal, return.
    const LOAD: u16 = (libc::BPF_LD | libc::BPF_H | libc::BPF_ABS) as u16;
    const IF_EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
    let step = |code, jf, k| libc::sock_filter { code, jt: 0, jf, k };
    let mut program = [
        step(LOAD, 0, ethernet::HEADER_LENGTH as u32 + u32::from(at)),
        step(IF_EQUAL, 1, u32::from(value)),
        step(RETURN, 0, u32::MAX),
        step(RETURN, 0, 0),
    ];
    let program = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    // The kernel copies the program that this leads to.
    open::set(socket, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, program)
}

impl Source for Sockets {
    fn is_filled(&mut self) -> bool {
        self.ring.is_filled(self.next)
    }

    fn incoming(&self) -> Option<Incoming<'_>> {
        self.ring.incoming(self.next)
    }

    /// What stands beside the frame is the same in the ring and in the socket.
    fn take(&self, incoming: &Incoming<'_>, into: &mut [u8]) -> Result<Header, Loss> {
        let length = incoming.length as usize;
        if incoming.bytes.len() == length {
            into[..length].copy_from_slice(incoming.bytes);
            return Ok(Header::from_bytes(incoming.virtio));
        }
        if incoming.aside.status & COPIED == 0 {
            return Err(Loss::Missed);
        }
        let room = into.len();
        // SAFETY: an exclusive borrow.
        match unsafe { self.fetch_to(piece(into)) } {
            Some((bytes, virtio)) if bytes == length && bytes <= room => Ok(Header::from_bytes(virtio)),
            Some(_) => Err(Loss::TooLong),
            // The socket had no room for the whole.
            None => Err(Loss::Missed),
        }
    }

    fn take_into(&self, incoming: &Incoming<'_>, region: &Region, index: u32, offset: u32) -> bool {
        let length = incoming.length as usize;
        if incoming.bytes.len() == length {
            region.write(index, offset, incoming.bytes);
            return true;
        }
        let into = libc::iovec { iov_base: region.frame(index, offset, length).cast(), iov_len: length };
        // SAFETY: these bytes lie in the buffer, which is the caller's; an untrusted process writing there
        // meanwhile can only spoil the bytes of its own domain's packets.
        let fetch = || unsafe { self.fetch_to(into) };
        incoming.aside.status & COPIED != 0 && fetch().is_some_and(|(bytes, _)| bytes == length)
    }

    fn release(&mut self) {
        self.next = self.ring.release(self.next);
    }
}

const fn piece(bytes: &mut [u8]) -> libc::iovec {
    libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() }
}
