//! UDP sockets for talking with the neighbour at the other end of a link, and with nobody behind it.
//!
//! What a neighbour sends has a TTL (hop limit) of 255, which no router leaves as it is (GTSM, RFC 5082). The
//! kernel's own filter (`IP_MINTTL`) is for TCP alone, so each datagram is received with the TTL that it has.

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;

/// The only TTL of a packet that no router has forwarded. RFC 5082, 3.
const TTL: libc::c_int = 255;
/// Class selector 6, for routing protocols (RFC 4594, 3.2), as the byte of the header.
const CLASS_SELECTOR_6: libc::c_int = 0xc0;

/// Reason why there is no socket.
#[derive(Debug, thiserror::Error)]
pub enum NeighbourError {
    /// The interface is not there, or may not be bound to.
    #[error("cannot use interface {interface}: {source}; `ip link` shows those that are there")]
    Interface {
        /// The interface.
        interface: String,
        /// Cause.
        source: io::Error,
    },
    /// The address is not an own one, or its port is taken.
    #[error("cannot bind {address} on {interface}: {source}; {}", mend(source, interface, address))]
    Bind {
        /// The interface.
        interface: String,
        /// The address.
        address: SocketAddr,
        /// Cause.
        source: io::Error,
    },
    /// The kernel refused an option.
    #[error("cannot send with a TTL of 255, or be told that of what comes: {0}")]
    Option(io::Error),
}

fn mend(error: &io::Error, interface: &str, address: &SocketAddr) -> String {
    match error.kind() {
        io::ErrorKind::AddrNotAvailable => {
            format!(
                "give the interface the address: `ip address add {}/LENGTH dev {interface}`",
                address.ip()
            )
        }
        io::ErrorKind::AddrInUse => "stop the other program that speaks BFD on it".to_owned(),
        _ => "run as root".to_owned(),
    }
}

/// Opens a socket that is bound to an address of an interface, sends with a TTL of 255 and receives by
/// [`receive`]. Reading from it does not wait.
///
/// # Errors
/// [`NeighbourError`].
pub fn open(interface: &str, address: SocketAddr) -> Result<UdpSocket, NeighbourError> {
    let socket = open_routed(interface, address)?;
    bind_to(&socket, interface)
        .map_err(|source| NeighbourError::Interface { interface: interface.to_owned(), source })?;
    Ok(socket)
}

/// Opens the one of a link: on one wire, or over a routed network.
///
/// # Errors
/// [`NeighbourError`].
pub fn of_link(interface: &str, address: SocketAddr, is_routed: bool) -> Result<UdpSocket, NeighbourError> {
    if is_routed { open_routed(interface, address) } else { open(interface, address) }
}

/// Opens one whose datagrams come and go by any interface, for somebody behind routers: what comes has any
/// TTL. `interface` is where the address is looked for, in messages.
///
/// # Errors
/// [`NeighbourError`].
fn open_routed(interface: &str, address: SocketAddr) -> Result<UdpSocket, NeighbourError> {
    let bind = |source| NeighbourError::Bind { interface: interface.to_owned(), address, source };
    let socket = UdpSocket::bind(address).map_err(bind)?;
    let options = match address.ip() {
        IpAddr::V4(_) => [
            (libc::IPPROTO_IP, libc::IP_TTL, TTL),
            (libc::IPPROTO_IP, libc::IP_RECVTTL, 1),
            (libc::IPPROTO_IP, libc::IP_TOS, CLASS_SELECTOR_6),
        ],
        IpAddr::V6(_) => [
            (libc::IPPROTO_IPV6, libc::IPV6_UNICAST_HOPS, TTL),
            (libc::IPPROTO_IPV6, libc::IPV6_RECVHOPLIMIT, 1),
            (libc::IPPROTO_IPV6, libc::IPV6_TCLASS, CLASS_SELECTOR_6),
        ],
    };
    for (level, name, value) in options {
        set(&socket, level, name, value).map_err(NeighbourError::Option)?;
    }
    socket.set_nonblocking(true).map_err(NeighbourError::Option)?;
    Ok(socket)
}

/// A datagram that was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// Bytes of it that were kept.
    pub length: usize,
    /// Its sender.
    pub from: IpAddr,
    /// Its TTL or hop limit; 0 where the kernel does not tell.
    pub ttl: u8,
}

/// Bytes for what the kernel tells beside a datagram: one integer, aligned as the kernel has it.
#[repr(C, align(8))]
struct Beside([u8; 64]);

/// Receives a datagram by a socket that [`open`] made, without waiting. What does not fit is cut.
///
/// # Errors
/// The kernel's; [`io::ErrorKind::WouldBlock`] where none has come.
pub fn receive(socket: &UdpSocket, bytes: &mut [u8]) -> io::Result<Received> {
    // SAFETY: all zero is a value of these structs of the kernel: no address, no family.
    let (mut from, mut message): (libc::sockaddr_storage, libc::msghdr) = unsafe { std::mem::zeroed() };
    let mut beside = Beside([0; 64]);
    let mut part = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    message.msg_name = (&raw mut from).cast();
    message.msg_namelen = size_of::<libc::sockaddr_storage>() as libc::socklen_t;
    (message.msg_iov, message.msg_iovlen) = (&raw mut part, 1);
    (message.msg_control, message.msg_controllen) = (beside.0.as_mut_ptr().cast(), beside.0.len());
    // SAFETY: each pointer of the message leads to as many bytes as the length beside it says, all of which
    // live until the call has returned.
    let length = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, 0) };
    let length = usize::try_from(length).map_err(|_| io::Error::last_os_error())?;
    // SAFETY: the kernel has filled in the message, and what it points to is still there.
    let ttl = unsafe { ttl_of(&message) };
    let from = sender(&from).ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))?;
    Ok(Received { length, from, ttl: ttl.unwrap_or(0) })
}

/// # Safety
/// The message was filled in by the kernel, and its control bytes are there.
unsafe fn ttl_of(message: &libc::msghdr) -> Option<u8> {
    // SAFETY: as the caller says; the macros of the kernel's headers stay within the control bytes.
    unsafe {
        let mut header = libc::CMSG_FIRSTHDR(message);
        while let Some(one) = header.as_ref() {
            let kind = (one.cmsg_level, one.cmsg_type);
            if kind == (libc::IPPROTO_IP, libc::IP_TTL) || kind == (libc::IPPROTO_IPV6, libc::IPV6_HOPLIMIT) {
                return u8::try_from(libc::CMSG_DATA(one).cast::<libc::c_int>().read_unaligned()).ok();
            }
            header = libc::CMSG_NXTHDR(message, one);
        }
    }
    None
}

fn sender(from: &libc::sockaddr_storage) -> Option<IpAddr> {
    let at = std::ptr::from_ref(from);
    match libc::c_int::from(from.ss_family) {
        libc::AF_INET => {
            // SAFETY: an address of this family is one of this type, and fits into the storage.
            let address = unsafe { &*at.cast::<libc::sockaddr_in>() };
            Some(IpAddr::from(address.sin_addr.s_addr.to_ne_bytes()))
        }
        libc::AF_INET6 => {
            // SAFETY: as above.
            let address = unsafe { &*at.cast::<libc::sockaddr_in6>() };
            Some(IpAddr::from(address.sin6_addr.s6_addr))
        }
        _ => None,
    }
}

fn bind_to(socket: &UdpSocket, interface: &str) -> io::Result<()> {
    let name = interface.as_bytes();
    // SAFETY: the kernel reads as many bytes as the name has.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_BINDTODEVICE,
            name.as_ptr().cast(),
            name.len() as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn set(socket: &UdpSocket, level: libc::c_int, name: libc::c_int, value: libc::c_int) -> io::Result<()> {
    let bytes = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: the kernel reads one integer.
    let result =
        unsafe { libc::setsockopt(socket.as_raw_fd(), level, name, (&raw const value).cast(), bytes) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(port: u16) -> SocketAddr {
        (IpAddr::from([127, 0, 0, 1]), port).into()
    }

    #[test]
    fn each_datagram_comes_with_its_sender_and_its_ttl() {
        for local in [at(0), "[::1]:0".parse().unwrap()] {
            let ours = match open("lo", local) {
                Ok(ours) => ours,
                Err(error) => {
                    eprintln!("skipped for {local}: {error}");
                    continue;
                }
            };
            let mut bytes = [0; 4];
            assert_eq!(receive(&ours, &mut bytes).unwrap_err().kind(), io::ErrorKind::WouldBlock);
            let to = ours.local_addr().unwrap();
            let neighbour = open("lo", local).unwrap();
            neighbour.send_to(b"near", to).unwrap();
            let from = local.ip();
            assert_eq!(receive(&ours, &mut bytes).unwrap(), Received { length: 4, from, ttl: 255 });
            assert_eq!(&bytes, b"near");
            let (level, name) = match from {
                IpAddr::V4(_) => (libc::IPPROTO_IP, libc::IP_TTL),
                IpAddr::V6(_) => (libc::IPPROTO_IPV6, libc::IPV6_UNICAST_HOPS),
            };
            set(&neighbour, level, name, 254).unwrap();
            neighbour.send_to(b"through a router", to).unwrap();
            assert_eq!(receive(&ours, &mut bytes).unwrap(), Received { length: 4, from, ttl: 254 });
        }
    }

    #[test]
    fn what_cannot_be_bound_is_said_with_its_cure() {
        let refused = open("lo", (IpAddr::from([192, 0, 2, 1]), 0).into()).unwrap_err().to_string();
        assert!(refused.contains("ip address add 192.0.2.1"), "{refused}");
        let refused = open("no-such-if", at(0)).unwrap_err().to_string();
        assert!(refused.contains("no-such-if"), "{refused}");
    }
}
