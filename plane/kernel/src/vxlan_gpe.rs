//! A link over a routed network as a queue of a worker: service headers in datagrams of VXLAN-GPE
//! (draft-ietf-nvo3-vxlan-gpe), to one neighbour. Its route is the kernel's.
//!
//! The packet path sees frames as by any link: an Ethernet header stands where the one of the tunnel was,
//! with addresses of nobody ([`OWN`], [`PEER`]), and is left out again when a frame leaves. The socket is
//! connected, so the kernel gives it datagrams of the neighbour's address and port alone. One whose header is
//! none of ours becomes a frame without a service header, which the path counts as malformed.

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd as _, AsRawFd as _};

use headgate_port::{Bell, Queue, QueueCounters};
use headgate_shm::geometry::HEADROOM_BYTES;
use headgate_shm::{Descriptor, Region, Stack};
use headgate_wire::MacAddress;
use headgate_wire::ethernet::{self, ethertype};
use headgate_wire::vxlan_gpe::{self, LENGTH, PORT, next_protocol};

use crate::open::set;

/// Ethernet address of this end, as the path has it; locally administered, and on no wire.
pub const OWN: [u8; 6] = [2, b'H', b'G', b'P', b'E', 1];
/// Ethernet address of the other end.
pub const PEER: [u8; 6] = [2, b'H', b'G', b'P', b'E', 2];

/// Datagrams of one call. Our choice: half a burst of the packet path.
const MESSAGES: usize = 64;
/// Bytes that the kernel keeps for either direction. Our choice: what a gigabit brings in 30 ms.
const SOCKET_BYTES: libc::c_int = 4 << 20;
const LINK: usize = ethernet::HEADER_LENGTH;

/// Reason why there is no such link.
#[derive(Debug, thiserror::Error)]
pub enum TunnelError {
    /// The address is not an own one, or its port is taken.
    #[error(
        "cannot bind {address} for VXLAN-GPE: {cause}; give the interface that address, and stop other programs that \
         use the port"
    )]
    Bind {
        /// The address.
        address: SocketAddr,
        /// The kernel's error.
        cause: io::Error,
    },
    /// The neighbour cannot be sent to.
    #[error("cannot send to {address}: {cause}; `ip route get {}` shows the way there", address.ip())]
    Connect {
        /// Its address.
        address: SocketAddr,
        /// The kernel's error.
        cause: io::Error,
    },
    /// The kernel refused an option.
    #[error("cannot set up the socket: {0}")]
    Option(io::Error),
}

/// Opens the link between two addresses as a queue, for frames of at most so many bytes.
///
/// # Errors
/// [`TunnelError`].
pub fn open(own: IpAddr, peer: IpAddr, frame_bytes_max: u32) -> Result<Box<dyn Queue>, TunnelError> {
    let (own, peer) = (SocketAddr::from((own, PORT)), SocketAddr::from((peer, PORT)));
    let socket = UdpSocket::bind(own).map_err(|cause| TunnelError::Bind { address: own, cause })?;
    socket.connect(peer).map_err(|cause| TunnelError::Connect { address: peer, cause })?;
    socket.set_nonblocking(true).map_err(TunnelError::Option)?;
    // A datagram that is too long is lost here and counted, and not cut on its way.
    let whole = match own {
        SocketAddr::V4(_) => (libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_DO),
        SocketAddr::V6(_) => (libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, libc::IPV6_PMTUDISC_DO),
    };
    let (level, name, value) = whole;
    set(&socket, level, name, value).map_err(TunnelError::Option)?;
    for name in [libc::SO_RCVBUFFORCE, libc::SO_SNDBUFFORCE] {
        // Without the right for more it has what all have.
        let _ = set(&socket, libc::SOL_SOCKET, name, SOCKET_BYTES);
    }
    // What came before it was connected may be anybody's.
    while socket.recv(&mut [0]).is_ok() {}
    Ok(Box::new(Tunnel::new(socket, frame_bytes_max as usize)))
}

struct Tunnel {
    socket: UdpSocket,
    /// What a datagram begins with.
    header: Box<[u8; LENGTH]>,
    /// What a frame that came begins with.
    link: [u8; LINK],
    /// Datagrams that came, each in its place of `place_bytes`.
    private: Box<[u8]>,
    place_bytes: usize,
    pieces: Box<[[libc::iovec; 2]]>,
    messages: Box<[libc::mmsghdr]>,
    counters: QueueCounters,
}

// SAFETY: the addresses in it are of its own boxes and of packets of the call that is made; outside of a call
// nobody follows them.
unsafe impl Send for Tunnel {}

impl Tunnel {
    fn new(socket: UdpSocket, frame_bytes_max: usize) -> Self {
        // A byte more than fits, to see that one is too long.
        let place_bytes = LENGTH + frame_bytes_max - LINK + 1;
        let mut link = [0; LINK];
        let (destination, source) = (MacAddress(OWN), MacAddress(PEER));
        let header = ethernet::Header { destination, source, ethertype: ethertype::NSH };
        header.write(&mut link).expect("it is that long");
        let nothing = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };
        // SAFETY: all zeroes is a message without address, data and control.
        let messages = vec![unsafe { std::mem::zeroed::<libc::mmsghdr>() }; MESSAGES].into();
        Self {
            socket,
            header: Box::new(vxlan_gpe::header(next_protocol::NSH)),
            link,
            private: vec![0; MESSAGES * place_bytes].into(),
            place_bytes,
            pieces: vec![[nothing; 2]; MESSAGES].into(),
            messages,
            counters: QueueCounters::default(),
        }
    }

    /// Has the kernel lay datagrams into private memory. Returns how many.
    fn take(&mut self, most: usize) -> usize {
        let count = most.min(MESSAGES);
        for (number, place) in self.private.chunks_exact_mut(self.place_bytes).take(count).enumerate() {
            self.pieces[number][0] =
                libc::iovec { iov_base: place.as_mut_ptr().cast(), iov_len: place.len() };
            let message = &mut self.messages[number].msg_hdr;
            (message.msg_iov, message.msg_iovlen) = (self.pieces[number].as_mut_ptr(), 1);
        }
        let file = self.socket.as_raw_fd();
        // SAFETY: each of the first `count` messages has one piece: a place of private memory.
        let taken = unsafe {
            libc::recvmmsg(
                file,
                self.messages.as_mut_ptr(),
                count as u32,
                libc::MSG_DONTWAIT,
                std::ptr::null_mut(),
            )
        };
        // Nothing is there, or the kernel tells of a datagram that did not arrive.
        usize::try_from(taken).unwrap_or(0)
    }

    /// Makes a frame of a datagram in a buffer. `None` where it is too long for one.
    fn frame(&mut self, region: &Region, index: u32, number: usize) -> Option<Descriptor> {
        let length = self.messages[number].msg_len as usize;
        let datagram = &self.private[number * self.place_bytes..][..length];
        if length == self.place_bytes {
            self.counters.too_long += 1;
            return None;
        }
        let inside = match vxlan_gpe::parse(datagram) {
            Ok(next_protocol::NSH) => &datagram[LENGTH..],
            _ => &[],
        };
        let offset = HEADROOM_BYTES;
        region.write(index, offset, &self.link);
        region.write(index, offset + LINK as u32, inside);
        Some(Descriptor::new(index, offset, (LINK + inside.len()) as u32, 0))
    }

    /// Makes messages of packets, until one cannot be one. Returns how many.
    fn lay_out(&mut self, region: &Region, packets: &[Descriptor]) -> usize {
        let can_leave = |packet: &&Descriptor| {
            packet.length() as usize > LINK && !region.geometry().is_long(packet.index())
        };
        let fit = packets.iter().take(MESSAGES).take_while(can_leave);
        let mut count = 0;
        for packet in fit {
            let inside = packet.length() as usize - LINK;
            let start = region.frame(packet.index(), packet.offset() + LINK as u32, inside);
            self.pieces[count] = [
                libc::iovec { iov_base: self.header.as_mut_ptr().cast(), iov_len: LENGTH },
                libc::iovec { iov_base: start.cast(), iov_len: inside },
            ];
            let message = &mut self.messages[count].msg_hdr;
            (message.msg_iov, message.msg_iovlen) = (self.pieces[count].as_mut_ptr(), 2);
            count += 1;
        }
        count
    }

    /// Has the kernel send the first `count` messages. Returns how many are done with, and whether there is
    /// no room for more.
    fn hand_over(&mut self, count: usize, packets: &[Descriptor]) -> (usize, bool) {
        let mut at = 0;
        while at < count {
            let (file, rest) = (self.socket.as_raw_fd(), &mut self.messages[at..count]);
            // SAFETY: each message has two pieces: the header, and a frame in a buffer of the region, whose
            // extent was checked when the packet came back from its NF.
            let sent =
                unsafe { libc::sendmmsg(file, rest.as_mut_ptr(), rest.len() as u32, libc::MSG_DONTWAIT) };
            if let Ok(sent) = usize::try_from(sent) {
                headgate_port::count_sent(&mut self.counters, &packets[at..at + sent]);
                at += sent;
                continue;
            }
            match io::Error::last_os_error().raw_os_error() {
                Some(libc::EINTR) => {}
                Some(libc::EAGAIN) => return (at, true),
                // Too long for the way, no way, or nobody there, as an earlier one has found: lost here.
                _ => {
                    self.counters.failed += 1;
                    at += 1;
                }
            }
        }
        (at, false)
    }
}

impl Queue for Tunnel {
    fn receive(&mut self, _now: u64, stack: &mut Stack, into: &mut [Descriptor]) -> usize {
        let taken = self.take(into.len());
        let mut count = 0;
        for number in 0..taken {
            let Some(index) = stack.take() else {
                self.counters.missed += 1;
                continue;
            };
            match self.frame(stack.region(), index, number) {
                Some(packet) => {
                    into[count] = packet;
                    count += 1;
                }
                None => stack.give(index),
            }
        }
        headgate_port::count_received(&mut self.counters, &into[..count]);
        count
    }

    fn transmit(&mut self, _now: u64, stack: &mut Stack, packets: &[Descriptor]) -> usize {
        let mut done = 0;
        while done < packets.len() {
            let rest = &packets[done..];
            let count = self.lay_out(stack.region(), rest);
            if count == 0 {
                self.counters.failed += 1;
                done += 1;
                continue;
            }
            let (sent, is_full) = self.hand_over(count, rest);
            done += sent;
            if is_full {
                break;
            }
        }
        headgate_port::give_back(stack, &packets[..done]);
        done
    }

    fn bell(&self) -> Bell<'_> {
        Bell::File(self.socket.as_fd())
    }

    fn counters(&self) -> QueueCounters {
        self.counters
    }
}

#[cfg(test)]
mod tests;
