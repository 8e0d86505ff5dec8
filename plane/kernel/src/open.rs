//! The manager's part: a socket on an interface, ready to be handed to an NF.
//!
//! Options that every driver needs, and why (packet(7)):
//! - protocol 0 until it is bound, or packets of every interface would come in meanwhile;
//! - `PACKET_IGNORE_OUTGOING`: what goes out on the interface is not received again, neither what the host
//!   sends nor what the NF does;
//! - promiscuous membership: packets for all addresses come in. The kernel counts such wishes and forgets
//!   this one with the socket, so nothing has to be undone;
//! - `PACKET_AUXDATA`: the kernel takes VLAN tags out of frames and says there what they were;
//! - a receive buffer for the configured number of packets: beyond that the kernel drops and counts.
//!
//! A socket of AF_XDP (`xdp`) needs none of them but the membership, which another socket keeps for it.
//!
//! All of it happens in the network namespace of the calling thread. The socket stays with that namespace
//! wherever the NF lives.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use headgate_session::kernel_io::{Driver, KernelIo};
use headgate_shm::Region;

use crate::{mapped, xdp};

// linux/if_packet.h
pub(crate) const PACKET_IGNORE_OUTGOING: i32 = 23;

/// Memory that a frame of up to 192 bytes takes of a socket's receive buffer, in bytes: `truesize` of an skb
/// on x86-64, 256 bytes of head and 512 of data.
const SMALL_FRAME_BYTES: u32 = 768;

/// Error of opening an interface.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// There is no interface of this name.
    #[error("there is no interface {name:?}; there are: {}", existing.join(", "))]
    NoSuchInterface {
        /// The name.
        name: String,
        /// The interfaces that are there.
        existing: Vec<String>,
    },
    /// We lack the right.
    #[error(
        "interface {name}: cannot {step}: this takes CAP_NET_RAW, and CAP_NET_ADMIN and CAP_BPF with driver = \"xdp\"; run as root"
    )]
    NotPermitted {
        /// The interface.
        name: String,
        /// Step that failed.
        step: &'static str,
    },
    /// This machine, or what confines us, has no TAPs.
    #[error(
        "TAP {name}: cannot open /dev/net/tun: {cause}; load the module (`modprobe tun`), and give a manager in a \
         container this device"
    )]
    NoTunDevice {
        /// The interface.
        name: String,
        /// The kernel's error.
        cause: io::Error,
    },
    /// Another program has it.
    #[error("TAP {name} is taken by another program; end that, or take another name")]
    TapTaken {
        /// The interface.
        name: String,
    },
    /// What is there is no TAP that could be taken.
    #[error(
        "interface {name} is there, and is no TAP of one queue; take another name, or the interface as it is with \
         `interface = \"{name}\"`"
    )]
    NoTap {
        /// The interface.
        name: String,
    },
    /// We lack the right to make or take it.
    #[error(
        "TAP {name}: this takes CAP_NET_ADMIN, or one that was made for this user: `ip tuntap add {name} mode tap \
         user NAME`"
    )]
    TapNotPermitted {
        /// The interface.
        name: String,
    },
    /// The kernel refused.
    #[error("interface {name}: cannot {step}: {cause}")]
    Refused {
        /// The interface.
        name: String,
        /// Step that failed.
        step: &'static str,
        /// The kernel's error.
        cause: io::Error,
    },
}

/// An interface that was opened.
#[derive(Debug)]
pub struct Opened {
    /// The NF's.
    pub socket: OwnedFd,
    /// Descriptors that we must keep open as long as the NF is to have packets.
    pub keeps: Vec<OwnedFd>,
    /// Whether the interface's driver lays packets where the NF has them, without a copy.
    pub is_zero_copy: bool,
}

/// Opens a socket on an interface of the calling thread's namespace. `memory` is that of the NF's pool.
///
/// # Errors
/// [`OpenError`].
pub fn open(name: &str, io: &KernelIo, memory: &Region) -> Result<Opened, OpenError> {
    if io.driver != Driver::Xdp {
        let socket = open_packet(name, io)?;
        return Ok(Opened { socket, keeps: Vec::new(), is_zero_copy: false });
    }
    let (index, wish) = promiscuous(name)?;
    let [socket, link] = xdp::open(index as u32, name, io, memory)
        .map_err(|xdp::Refused { step, cause }| refused(name, step)(cause))?;
    let is_zero_copy = xdp::is_zero_copy(&socket);
    Ok(Opened { socket, keeps: vec![link, wish], is_zero_copy })
}

/// Opens a packet socket, for any driver that works on one.
///
/// # Errors
/// [`OpenError`].
pub fn open_packet(name: &str, io: &KernelIo) -> Result<OwnedFd, OpenError> {
    let (index, socket) = promiscuous(name)?;
    let flag = |option| set(&socket, libc::SOL_PACKET, option, 1i32);
    if io.driver == Driver::Mapped {
        mapped::prepare(&socket, io.queue, io.frame_bytes).map_err(refused(name, "make its rings"))?;
    } else {
        flag(libc::PACKET_AUXDATA).map_err(refused(name, "ask for VLAN tags"))?;
        // The kernel doubles what it is told, to account for its own records (socket(7)).
        let room = (u64::from(io.queue) * u64::from(SMALL_FRAME_BYTES) / 2).min(i32::MAX as u64) as i32;
        set(&socket, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, room)
            .map_err(refused(name, "set its receive buffer"))?;
    }
    flag(PACKET_IGNORE_OUTGOING).map_err(refused(name, "leave out what is sent on it"))?;
    bind(&socket, index).map_err(refused(name, "bind to it"))?;
    Ok(socket)
}

/// The number of an interface, and a packet socket that is not bound yet and has it take packets for all
/// addresses.
pub(crate) fn promiscuous(name: &str) -> Result<(i32, OwnedFd), OpenError> {
    let index = index_of(name)
        .ok_or_else(|| OpenError::NoSuchInterface { name: name.to_owned(), existing: present() })?;
    let socket = packet_socket().map_err(refused(name, "open a packet socket"))?;
    let wish = libc::packet_mreq {
        mr_ifindex: index,
        mr_type: libc::PACKET_MR_PROMISC as u16,
        mr_alen: 0,
        mr_address: [0; 8],
    };
    set(&socket, libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, wish)
        .map_err(refused(name, "receive packets for all addresses"))?;
    Ok((index, socket))
}

pub(crate) fn refused(name: &str, step: &'static str) -> impl FnOnce(io::Error) -> OpenError {
    move |cause| match cause.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => OpenError::NotPermitted { name: name.to_owned(), step },
        _ => OpenError::Refused { name: name.to_owned(), step, cause },
    }
}

/// Whether a socket still has its interface: the kernel sets the number of a packet socket's to -1 when it
/// goes. An interface that goes is down first, and the socket tells of that alone.
#[must_use]
pub fn is_bound(socket: BorrowedFd<'_>) -> bool {
    // Those of AF_XDP have no address.
    bound_to(socket).map_or_else(|_| !xdp::is_unbound(socket), |index| index > 0)
}

/// The number of a packet socket's interface; not above 0 when it has none.
fn bound_to(socket: BorrowedFd<'_>) -> io::Result<i32> {
    // SAFETY: all zeroes is a valid address.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    let mut bytes = size_of_val(&address) as libc::socklen_t;
    // SAFETY: writes at most `bytes` bytes.
    let refused = unsafe { libc::getsockname(socket.as_raw_fd(), (&raw mut address).cast(), &raw mut bytes) };
    if refused == 0 { Ok(address.sll_ifindex) } else { Err(io::Error::last_os_error()) }
}

/// The longest frame, without VLAN tag, that a packet socket's interface sends now, in bytes.
#[cfg(feature = "port")]
pub(crate) fn frame_bytes_max(socket: BorrowedFd<'_>) -> io::Result<u32> {
    ask(socket, libc::SIOCGIFMTU).map(longest)
}

/// The same of an interface of the calling thread's namespace.
#[cfg(feature = "port")]
pub(crate) fn frame_bytes_max_of(name: &str) -> io::Result<u32> {
    let mut request = named(name);
    let any = rustix::net::socket(rustix::net::AddressFamily::INET, rustix::net::SocketType::DGRAM, None)?;
    call(any.as_fd(), libc::SIOCGIFMTU, &mut request)?;
    Ok(longest(request))
}

/// Switches an interface of the calling thread's namespace on.
#[cfg(feature = "port")]
pub(crate) fn switch_on(name: &str) -> io::Result<()> {
    let mut request = named(name);
    let any = rustix::net::socket(rustix::net::AddressFamily::INET, rustix::net::SocketType::DGRAM, None)?;
    call(any.as_fd(), libc::SIOCGIFFLAGS, &mut request)?;
    // SAFETY: the question was answered by flags here.
    let flags = unsafe { request.ifr_ifru.ifru_flags };
    request.ifr_ifru.ifru_flags = flags | libc::IFF_UP as libc::c_short;
    call(any.as_fd(), libc::SIOCSIFFLAGS, &mut request)
}

/// The longest frame by the answer to a question for an MTU.
#[cfg(feature = "port")]
fn longest(answer: libc::ifreq) -> u32 {
    const ETHERNET_HEADER_BYTES: u32 = 14;
    // SAFETY: the question was answered by an integer here.
    let mtu = unsafe { answer.ifr_ifru.ifru_mtu };
    mtu.max(0) as u32 + ETHERNET_HEADER_BYTES
}

/// A request that names an interface; of a longer name the first bytes.
#[cfg(feature = "port")]
pub(crate) fn named(name: &str) -> libc::ifreq {
    // SAFETY: all zeroes is a valid request.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    let room = request.ifr_name.len() - 1;
    for (to, from) in request.ifr_name[..room].iter_mut().zip(name.bytes()) {
        *to = from.cast_signed();
    }
    request
}

/// Makes a call by which an interface is asked or told something, on any socket or TAP.
#[cfg(feature = "port")]
pub(crate) fn call(file: BorrowedFd<'_>, question: libc::Ioctl, request: &mut libc::ifreq) -> io::Result<()> {
    // SAFETY: reads and writes one request of this shape, as all calls on interfaces do.
    let refused = unsafe { libc::ioctl(file.as_raw_fd(), question, &raw mut *request) };
    if refused < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Whether a packet socket's interface is switched on and joined to one that is.
#[cfg(feature = "port")]
pub(crate) fn is_running(socket: BorrowedFd<'_>) -> io::Result<bool> {
    let answer = ask(socket, libc::SIOCGIFFLAGS)?;
    // SAFETY: the question was answered by flags here.
    let flags = i32::from(unsafe { answer.ifr_ifru.ifru_flags });
    Ok(flags & libc::IFF_UP != 0 && flags & libc::IFF_RUNNING != 0)
}

/// Asks for a property of a packet socket's interface.
#[cfg(feature = "port")]
fn ask(socket: BorrowedFd<'_>, question: libc::Ioctl) -> io::Result<libc::ifreq> {
    // SAFETY: all zeroes is a valid request.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    request.ifr_ifru.ifru_ifindex = bound_to(socket)?;
    // Wherever the interface lives, the socket is of its namespace: its name, and by that its properties.
    for question in [libc::SIOCGIFNAME, question] {
        call(socket, question, &mut request)?;
    }
    Ok(request)
}

pub(crate) fn index_of(name: &str) -> Option<i32> {
    let name = CString::new(name).ok()?;
    // SAFETY: a terminated string.
    let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
    (index != 0).then_some(index as i32)
}

fn present() -> Vec<String> {
    // SAFETY: returns an array to be freed below, or null.
    let array = unsafe { libc::if_nameindex() };
    let mut names = Vec::new();
    if array.is_null() {
        return names;
    }
    let mut entry = array;
    // SAFETY: the array ends with an entry of index 0; names before that are terminated strings.
    unsafe {
        while (*entry).if_index != 0 {
            names.push(CStr::from_ptr((*entry).if_name).to_string_lossy().into_owned());
            entry = entry.add(1);
        }
        libc::if_freenameindex(array);
    }
    names
}

/// One that no packets come to until it is bound.
pub(crate) fn packet_socket() -> io::Result<OwnedFd> {
    // SAFETY: a plain call; the descriptor is owned at once.
    let file = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
    if file < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: just opened and owned by nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(file) })
}

/// Sets a socket option to the bytes of `value`.
pub(crate) fn set<T: Copy>(socket: &impl AsFd, level: i32, option: i32, value: T) -> io::Result<()> {
    // SAFETY: the kernel reads `size_of::<T>()` bytes of `value`.
    let refused = unsafe {
        let value = (&raw const value).cast();
        libc::setsockopt(socket.as_fd().as_raw_fd(), level, option, value, size_of::<T>() as libc::socklen_t)
    };
    if refused == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn bind(socket: &OwnedFd, index: i32) -> io::Result<()> {
    bind_to(socket, index, libc::ETH_P_ALL as u16)
}

/// Binds a packet socket to an interface, for packets of one protocol, or of none (0).
pub(crate) fn bind_to(socket: &OwnedFd, index: i32, protocol: u16) -> io::Result<()> {
    // SAFETY: all zeroes is a valid address.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = protocol.to_be();
    address.sll_ifindex = index;
    let bytes = size_of_val(&address) as libc::socklen_t;
    // SAFETY: an address of the length given.
    let refused = unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), bytes) };
    if refused == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
