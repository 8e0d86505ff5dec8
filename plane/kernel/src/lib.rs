//! Packets between an NF and interfaces of the kernel: SCC's case, where a system call is what a packet
//! costs and many packets in one call are the cure (SCC, section 5.1.1).
//!
//! Two processes share the work, so that an NF needs no rights of its own:
//! - the manager opens a socket on an interface ([`open::open`]), in whichever network namespace the
//!   interface lives, and hands it to the NF;
//! - the NF makes a [`InterfaceIo`] of it: what it receives from and sends to.
//!
//! ```text
//! open     manager   a socket with the options that the drivers need
//! pool     NF        the buffers that packets lie in between receive and send
//! packet   NF        driver: recvmmsg and sendmmsg, or recvmsg and send for one packet a call
//! mapped   NF        driver: rings shared with the kernel (PACKET_MMAP)
//! uring    NF        driver: packet sockets through io_uring
//! xdp      both      driver: packets before the host's stack, in place (AF_XDP)
//! frame    both      what a frame from the kernel lacks: its VLAN tag, its checksum
//! interface  manager an interface for a worker, which never waits: ports, and external programs
//! vxlan_gpe  manager a link over a routed network for a worker
//! ```
//!
//! No driver waits for a full batch: each takes what is there and goes on.

mod counts;
pub mod frame;
#[cfg(feature = "port")]
pub mod interface;
mod mapped;
pub mod open;
mod packet;
mod pool;
mod uring;
#[cfg(feature = "port")]
pub mod vxlan_gpe;
mod xdp;

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use headgate_session::kernel_io::{Driver, KernelIo};
use headgate_shm::descriptor::Descriptor;

pub use counts::Counts;
pub use pool::Pool;
pub use xdp::FRAME_BYTES_MAX as XDP_FRAME_BYTES_MAX;

/// Maximum number of packets of one system call, the end of the range that SCC studies (figure 8).
pub const BATCH_MAX: usize = 256;

/// Reason why an interface takes and gives no packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InterfaceError {
    /// It is switched off. The socket works again when it is switched on.
    #[error("it is switched off")]
    Down,
    /// It is no more. Another of the same name needs another socket.
    #[error("it is gone")]
    Gone,
}

/// One interface, as an NF sends and receives by it.
pub trait InterfaceIo {
    /// Takes what is there, at most a batch, into buffers of `pool`; each packet is appended to `into`, its
    /// tag untouched (0). True when there may be more.
    ///
    /// # Errors
    /// [`InterfaceError`]; what came before it is in `into`.
    fn receive(&mut self, pool: &mut Pool, into: &mut Vec<Descriptor>) -> Result<bool, InterfaceError>;

    /// Sends packets of `pool`, which get their buffers back. What the kernel does not take now is lost and
    /// counted: like a NIC's, its queue is not waited for.
    ///
    /// # Errors
    /// [`InterfaceError`]; the packets are lost and counted.
    fn send(&mut self, pool: &mut Pool, packets: &[Descriptor]) -> Result<(), InterfaceError>;

    /// From now on so many packets are the most of one call, 1 to [`BATCH_MAX`].
    fn set_batch(&mut self, batch: usize);

    /// Readable when there are packets.
    fn ear(&self) -> BorrowedFd<'_>;

    /// Returns the counts so far.
    fn counts(&self) -> Counts;

    /// Asks the kernel how many packets found no room in the socket, and adds them to the counts; and whether
    /// the interface works, where nothing else would tell.
    ///
    /// # Errors
    /// [`InterfaceError`].
    fn check_losses(&mut self) -> Result<(), InterfaceError>;
}

/// Makes a cable of a socket that [`open::open`] opened for the same I/O, with the memory of this pool.
///
/// # Errors
/// The kernel's error.
pub fn attach(socket: OwnedFd, io: &KernelIo, pool: &mut Pool) -> io::Result<Box<dyn InterfaceIo>> {
    let batch = (io.batch as usize).clamp(1, BATCH_MAX);
    Ok(match io.driver {
        Driver::Packet => Box::new(packet::PacketSocket::new(socket, batch, pool)),
        Driver::Mapped => Box::new(mapped::MappedRings::new(socket, batch, io.queue, io.frame_bytes)?),
        Driver::Uring => Box::new(uring::Uring::new(socket, batch)?),
        Driver::Xdp => Box::new(xdp::XdpSocket::new(socket, io, batch, pool)?),
    })
}

/// Returns the reason for which this kernel, or what confines this process, has no such driver; `None` where
/// it has.
#[must_use]
pub fn missing(driver: Driver) -> Option<io::Error> {
    match driver {
        Driver::Packet | Driver::Mapped => None,
        Driver::Uring => uring::missing(),
        Driver::Xdp => xdp::missing(),
    }
}

/// Has the driver of an interface of the calling thread's namespace send all that comes by it out of another
/// interface there, without the host's stack (XDP redirect); with `None` it passes all up to the host, as it
/// would without. Ends when the descriptor is closed. It is what the kernel can do by itself, to be compared
/// with.
///
/// # Errors
/// The kernel's error, `NotFound` for an interface that is not there.
pub fn forward_by_xdp(interface: &str, to: Option<&str>) -> io::Result<OwnedFd> {
    xdp::forward(interface, to)
}

/// Reads the error of a socket, when `poll` says that there is one. It is told once.
///
/// # Errors
/// [`InterfaceError`].
pub fn check_error(socket: BorrowedFd<'_>) -> Result<(), InterfaceError> {
    let told = match rustix::net::sockopt::socket_error(socket) {
        Ok(Ok(())) => return Ok(()),
        Ok(Err(told)) | Err(told) => told,
    };
    loss(socket, &told.into()).map_or(Ok(()), Err)
}

/// Whether an error means that the interface does not work, and how badly.
fn loss(socket: BorrowedFd<'_>, error: &io::Error) -> Option<InterfaceError> {
    match error.raw_os_error()? {
        libc::ENETDOWN | libc::ENXIO | libc::ENODEV => {
            Some(if open::is_bound(socket) { InterfaceError::Down } else { InterfaceError::Gone })
        }
        _ => None,
    }
}

/// Whether the call was only too early, or disturbed: nothing was there, or there was no room.
fn is_passing(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EINTR | libc::ENOBUFS | libc::ENOMEM))
}

/// Packets that found no room in a packet socket since the last time somebody asked.
fn lost_since_asked(socket: BorrowedFd<'_>) -> u64 {
    // SAFETY: all zeroes is a valid answer.
    let mut answer: libc::tpacket_stats = unsafe { std::mem::zeroed() };
    let mut bytes = size_of_val(&answer) as libc::socklen_t;
    let (into, length) = ((&raw mut answer).cast(), &raw mut bytes);
    let (file, option) = (socket.as_fd().as_raw_fd(), libc::PACKET_STATISTICS);
    // SAFETY: writes at most `bytes` bytes. Asking resets the kernel's count.
    let refused = unsafe { libc::getsockopt(file, libc::SOL_PACKET, option, into, length) };
    if refused == 0 { u64::from(answer.tp_drops) } else { 0 }
}
