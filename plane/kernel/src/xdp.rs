//! The driver for sockets of AF_XDP: the interface hands packets over before the host's stack sees them, into
//! memory that the NF works on in place.
//!
//! Nothing is received by a system call, and one call has the kernel send a batch. The NF's own buffers are
//! the memory of its sockets (UMEM), so between receive and send it copies nothing; the kernel copies once
//! each way, or not at all where the interface's driver can (zero-copy).
//!
//! Division of work:
//! - the manager opens the socket, gives it memory and rings, binds it to the interface's one queue, and puts
//!   a [program] onto the interface that sends packets to it;
//! - the NF has the socket and the memory, maps the rings, and needs no rights.
//!
//! Nobody says here what an interface took out of a frame before: a checksum that was left to a card is
//! recognised by what stands in its place ([`frame::complete_checksum`]), a VLAN tag taken out by a
//! card's driver is lost (`ethtool -K IFACE rxvlan off`).

mod program;
mod rings;

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use headgate_session::kernel_io::KernelIo;
use headgate_shm::descriptor::Descriptor;
use headgate_shm::geometry::HEADROOM_BYTES;
use headgate_shm::{Geometry, Region};

use crate::counts::Counts;
use crate::{BATCH_MAX, InterfaceError, InterfaceIo, Pool, frame, is_passing, loss, open};
use rings::Rings;

/// Bytes of a buffer: a page, which drivers that write into it themselves ask for.
const BUFFER_BYTES: u32 = 4096;
/// Bytes before a received frame, `XDP_PACKET_HEADROOM` of linux/bpf.h.
const ROOM_BEFORE_BYTES: u32 = 256;
/// The longest frame that fits.
pub const FRAME_BYTES_MAX: u32 = BUFFER_BYTES - ROOM_BEFORE_BYTES;
/// Maximum memory of receive buffers on each interface. Our choice: it is memory that cannot be swapped.
const RECEIVE_BYTES_MAX: u32 = 16 << 20;
/// Packets on their way out of each interface. Our choice: two of the longest batches.
const SENDING: u32 = 2 * BATCH_MAX as u32;
/// Bits of an address in a descriptor; above them is the offset of unaligned mode, which is not ours.
const ADDRESS_MASK: u64 = (1 << 48) - 1;
// linux/if_xdp.h
const XDP_MAX_TX_SKB_BUDGET: i32 = 9;
// linux/ethtool.h
const ETHTOOL_GCHANNELS: u32 = 0x3c;
// linux/sockios.h
const SIOCETHTOOL: libc::Ioctl = 0x8946;

const _: () = assert!(ROOM_BEFORE_BYTES >= HEADROOM_BYTES);

/// Packets that may wait to be received.
fn receiving(queue: u32) -> u32 {
    queue.next_power_of_two().clamp(BATCH_MAX as u32, RECEIVE_BYTES_MAX / BUFFER_BYTES)
}

/// The buffers of two interfaces: those the kernel receives into and sends from, those in hand and `spare`.
pub fn geometry(queue: u32, spare: u32) -> Geometry {
    let buffers = 2 * (receiving(queue) + SENDING + BATCH_MAX as u32) + spare;
    Geometry::announced(buffers, BUFFER_BYTES, 0)
        .unwrap_or_else(|| unreachable!("constants say that it fits"))
}

/// Reason for which there is no such socket.
pub struct Refused {
    /// Step that failed.
    pub step: &'static str,
    /// The kernel's error.
    pub cause: io::Error,
}

fn refused(step: &'static str) -> impl FnOnce(io::Error) -> Refused {
    move |cause| Refused { step, cause }
}

/// The manager's part: a socket of an interface, and the link that packets come by as long as it is open.
pub fn open(interface: u32, name: &str, io: &KernelIo, region: &Region) -> Result<[OwnedFd; 2], Refused> {
    let queues = queues(name).map_err(refused("count its queues"))?;
    if queues > 1 {
        let cause =
            format!("it has {queues}, and a socket gets the packets of one: ethtool -L {name} combined 1");
        return Err(Refused { step: "take all of its queues", cause: io::Error::other(cause) });
    }
    let socket = socket().map_err(refused("open a socket of AF_XDP"))?;
    prepare(&socket, io, region).map_err(refused("give its socket memory and rings"))?;
    bind(&socket, interface).map_err(|cause| match cause.raw_os_error() {
        Some(libc::EBUSY) => {
            let cause =
                io::Error::other("another program has one on it; end that, or take `driver = \"mapped\"`");
            Refused { step: "bind a socket of AF_XDP to it", cause }
        }
        _ => Refused { step: "bind a socket of AF_XDP to it", cause },
    })?;
    let link = program::attach(socket.as_fd(), interface).map_err(|cause| match cause.raw_os_error() {
        Some(libc::EBUSY) => {
            let cause =
                io::Error::other(format!("another is there; take it off: ip link set dev {name} xdp off"));
            Refused { step: "put our program onto it", cause }
        }
        _ => Refused { step: "put a program onto it that passes packets on (XDP)", cause },
    })?;
    Ok([socket, link])
}

fn socket() -> io::Result<OwnedFd> {
    // SAFETY: a plain call; the descriptor is owned at once.
    let file = unsafe { libc::socket(libc::AF_XDP, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
    if file < 0 {
        let error = io::Error::last_os_error();
        return Err(match error.raw_os_error() {
            Some(libc::EAFNOSUPPORT) => io::Error::other("the kernel has none; take `driver = \"mapped\"`"),
            _ => error,
        });
    }
    // SAFETY: just opened and owned by nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(file) })
}

/// [`crate::forward_by_xdp`].
pub fn forward(interface: &str, to: Option<&str>) -> io::Result<OwnedFd> {
    let index = |name: &str| {
        let none = || io::Error::new(io::ErrorKind::NotFound, format!("there is no interface {name:?}"));
        open::index_of(name).map(|index| index as u32).ok_or_else(none)
    };
    program::forward(index(interface)?, to.map(index).transpose()?)
}

/// Returns the reason for which there are no such sockets here.
pub fn missing() -> Option<io::Error> {
    socket().err()
}

fn prepare(socket: &OwnedFd, io: &KernelIo, region: &Region) -> io::Result<()> {
    let geometry = region.geometry();
    let memory = libc::xdp_umem_reg_v1 {
        addr: region.buffer(0) as u64,
        len: geometry.bytes() as u64,
        chunk_size: geometry.stride(),
        headroom: 0,
    };
    let set = |option, places: u32| open::set(socket, libc::SOL_XDP, option, places);
    open::set(socket, libc::SOL_XDP, libc::XDP_UMEM_REG, memory)?;
    set(libc::XDP_UMEM_FILL_RING, receiving(io.queue))?;
    set(libc::XDP_RX_RING, receiving(io.queue))?;
    set(libc::XDP_UMEM_COMPLETION_RING, SENDING)?;
    set(libc::XDP_TX_RING, SENDING)?;
    // Since Linux 6.17; before, a call sends 32 at most, and there is another call.
    let _ = set(XDP_MAX_TX_SKB_BUDGET, BATCH_MAX as u32);
    Ok(())
}

fn bind(socket: &OwnedFd, interface: u32) -> io::Result<()> {
    let address = libc::sockaddr_xdp {
        sxdp_family: libc::AF_XDP as u16,
        // Neither copy nor zero-copy: the kernel takes the better one that the driver has.
        sxdp_flags: libc::XDP_USE_NEED_WAKEUP,
        sxdp_ifindex: interface,
        sxdp_queue_id: program::QUEUE,
        sxdp_shared_umem_fd: 0,
    };
    let bytes = size_of_val(&address) as libc::socklen_t;
    // SAFETY: an address of the length given.
    let refused = unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), bytes) };
    if refused == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Whether the driver reads and writes the memory itself, by what the kernel says of a socket that is bound.
pub fn is_zero_copy(socket: &OwnedFd) -> bool {
    let told = option(socket.as_fd(), libc::XDP_OPTIONS, libc::xdp_options { flags: 0 });
    told.is_ok_and(|told| told.flags & libc::XDP_OPTIONS_ZEROCOPY != 0)
}

/// `struct ethtool_channels`.
#[repr(C)]
#[derive(Default)]
struct Channels {
    command: u32,
    /// Most of receive, send, other, combined.
    most: [u32; 4],
    /// Numbers that there are, in the same order.
    are: [u32; 4],
}

/// Receive queues of an interface; one where the driver knows nothing of queues.
fn queues(name: &str) -> io::Result<u32> {
    let socket = open::packet_socket()?;
    let mut channels = Channels { command: ETHTOOL_GCHANNELS, ..Channels::default() };
    // SAFETY: integers, byte arrays and pointers, for all of which zero is a value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    // All but the last, so that it ends with a zero.
    let room = request.ifr_name.len() - 1;
    for (to, from) in request.ifr_name[..room].iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_data = (&raw mut channels).cast();
    // SAFETY: names an interface and points to the structure of the command; both live through the call.
    if unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL, &raw mut request) } == 0 {
        return Ok(channels.are[0] + channels.are[3]);
    }
    match io::Error::last_os_error() {
        error if error.raw_os_error() == Some(libc::EOPNOTSUPP) => Ok(1),
        error => Err(error),
    }
}

/// Whether a socket is one of AF_XDP that lost its interface; only such a one answers so.
pub fn is_unbound(socket: BorrowedFd<'_>) -> bool {
    health(socket).is_err_and(|error| error.raw_os_error() == Some(libc::ENXIO))
}

/// Whether the socket's interface works. No error is told otherwise: neither `poll` nor SO_ERROR says that an
/// interface is switched off.
fn health(socket: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: no data; of AF_XDP the call checks the interface, and wakes its driver if that asked to be.
    let checked = unsafe { libc::recv(socket.as_raw_fd(), std::ptr::null_mut(), 0, libc::MSG_DONTWAIT) };
    if checked < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Reads an option into what `empty` is replaced by; shorter answers of older kernels leave its end.
fn option<T: Copy>(socket: BorrowedFd<'_>, option: i32, empty: T) -> io::Result<T> {
    let mut answer = empty;
    let mut bytes = size_of::<T>() as libc::socklen_t;
    let (into, length) = ((&raw mut answer).cast(), &raw mut bytes);
    // SAFETY: writes at most `bytes` bytes.
    let refused = unsafe { libc::getsockopt(socket.as_raw_fd(), libc::SOL_XDP, option, into, length) };
    if refused == 0 { Ok(answer) } else { Err(io::Error::last_os_error()) }
}

/// One interface behind a socket of AF_XDP.
pub struct XdpSocket {
    rings: Rings,
    socket: OwnedFd,
    batch: usize,
    counts: Counts,
    /// Buffers that the kernel has to receive into, or has filled.
    lent: u32,
    lent_max: u32,
}

impl XdpSocket {
    /// A cable of a socket that [`open`] gave the memory of this pool.
    pub fn new(socket: OwnedFd, io: &KernelIo, batch: usize, pool: &mut Pool) -> io::Result<Self> {
        let lent_max = receiving(io.queue);
        let rings = Rings::map(socket.as_fd(), lent_max, SENDING)?;
        let mut made = Self { rings, socket, batch, counts: Counts::default(), lent: 0, lent_max };
        made.refill(pool);
        Ok(made)
    }

    /// Lends the kernel buffers to receive into.
    fn refill(&mut self, pool: &mut Pool) {
        let missing = (self.lent_max - self.lent).min(self.rings.fill.room());
        for _ in 0..missing {
            let Some(index) = pool.take() else { break };
            self.rings.fill.put(address(index, 0));
            self.lent += 1;
        }
        self.rings.fill.publish();
        if missing > 0 && self.rings.fill.needs_call() {
            // A driver that stopped for want of buffers. The check for losses finds the reason.
            let _ = health(self.socket.as_fd());
        }
    }

    /// Gives buffers back whose packets went.
    fn reap(&mut self, pool: &mut Pool) {
        let mut any = false;
        while let Some(address) = self.rings.sent.take() {
            pool.put_index(index(address));
            any = true;
        }
        if any {
            self.rings.sent.release();
        }
    }

    /// The packet that the kernel tells of, if it is a whole one.
    fn packet(&mut self, told: libc::xdp_desc, pool: &mut Pool) -> Option<Descriptor> {
        let offset = (told.addr & ADDRESS_MASK) as u32 % BUFFER_BYTES;
        let packet = Descriptor::new(index(told.addr), offset, told.len, 0);
        let continued = told.options & libc::XDP_PKT_CONTD != 0;
        if continued || pool.region().geometry().check(packet).is_err() {
            self.counts.too_long += 1;
            pool.put_index(index(told.addr));
            return None;
        }
        frame::complete_checksum(pool.bytes_of(packet));
        Some(packet)
    }

    /// Has the kernel send what lies in the ring, with as few calls as it lets us.
    fn push(&mut self) -> Result<(), InterfaceError> {
        while self.rings.send.is_pending() && self.rings.send.needs_call() {
            let room = self.rings.send.room();
            self.counts.calls += 1;
            // SAFETY: no data and no address.
            let sent = unsafe {
                let file = self.socket.as_raw_fd();
                libc::sendto(file, std::ptr::null(), 0, libc::MSG_DONTWAIT, std::ptr::null(), 0)
            };
            if sent >= 0 {
                return Ok(());
            }
            let error = io::Error::last_os_error();
            if !is_passing(&error) && error.raw_os_error() != Some(libc::EBUSY) {
                return loss(self.socket.as_fd(), &error).map_or(Ok(()), Err);
            }
            // A call sends so many and no more; without progress the rest waits for the next call.
            if self.rings.send.room() == room {
                return Ok(());
            }
        }
        Ok(())
    }
}

fn address(index: u32, offset: u32) -> u64 {
    u64::from(index) * u64::from(BUFFER_BYTES) + u64::from(offset)
}

fn index(address: u64) -> u32 {
    ((address & ADDRESS_MASK) / u64::from(BUFFER_BYTES)) as u32
}

impl InterfaceIo for XdpSocket {
    fn receive(&mut self, pool: &mut Pool, into: &mut Vec<Descriptor>) -> Result<bool, InterfaceError> {
        let mut taken = 0;
        while taken < self.batch {
            let Some(told) = self.rings.received.take() else { break };
            taken += 1;
            if let Some(packet) = self.packet(told, pool) {
                into.push(packet);
                self.counts.received += 1;
            }
        }
        if taken > 0 {
            self.rings.received.release();
            self.lent -= taken as u32;
            self.reap(pool);
            self.refill(pool);
        }
        Ok(taken == self.batch)
    }

    fn send(&mut self, pool: &mut Pool, packets: &[Descriptor]) -> Result<(), InterfaceError> {
        let mut ended = Ok(());
        for batch in packets.chunks(self.batch) {
            self.reap(pool);
            for packet in batch {
                if self.rings.send.room() == 0 {
                    self.counts.unsent += 1;
                    pool.put(*packet);
                    continue;
                }
                let addr = address(packet.index(), packet.offset());
                self.rings.send.put(libc::xdp_desc { addr, len: packet.length(), options: 0 });
                self.counts.sent += 1;
            }
            self.rings.send.publish();
            ended = ended.and(self.push());
        }
        self.reap(pool);
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
        // SAFETY: integers all of them.
        let empty: libc::xdp_statistics = unsafe { std::mem::zeroed() };
        if let Ok(all) = option(self.socket.as_fd(), libc::XDP_STATISTICS, empty) {
            self.counts.lost = all.rx_dropped + all.rx_ring_full;
        }
        self.push()?;
        let checked = health(self.socket.as_fd());
        checked.or_else(|error| loss(self.socket.as_fd(), &error).map_or(Ok(()), Err))
    }
}
