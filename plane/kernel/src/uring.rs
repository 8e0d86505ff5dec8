//! The driver for packet sockets through io_uring: requests lie in a ring that the kernel shares, and one
//! call has it work on all of them.
//!
//! - To receive takes one request whatever the batch: it goes on from packet to packet (multishot) until
//!   nothing is there or the buffers that were provided, a batch of them, are used up.
//! - To send takes one request for each packet.
//!
//! No request waits: each is `MSG_DONTWAIT`, so it is over when the call that submits it returns, and what is
//! waited for is the socket, with `poll`, as in the other drivers. So no buffer is the kernel's in between.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU16, Ordering};

use headgate_shm::descriptor::Descriptor;
use headgate_shm::geometry::HEADROOM_BYTES;
use io_uring::types::{BufRingEntry, Fd};
use io_uring::{IoUring, cqueue, opcode};

use crate::counts::Counts;
use crate::packet::{self, Control};
use crate::{BATCH_MAX, InterfaceError, InterfaceIo, Pool, is_passing, loss, lost_since_asked};

/// Bytes of `struct io_uring_recvmsg_out` (linux/io_uring.h), which stands before what was received.
const TOLD_BYTES: usize = 16;
/// Offset at which a provided buffer starts, so that the packet in it lies behind the headroom.
const START_BYTES: usize = HEADROOM_BYTES as usize - TOLD_BYTES - size_of::<Control>();
/// The only group of buffers.
const GROUP: u16 = 0;
/// Buffers that may be provided: a power of two.
const PLACES: usize = BATCH_MAX.next_power_of_two();
/// `user_data` of requests that receive; those that send have their place in the batch.
const RECEIVES: u64 = u64::MAX;

const _: () = assert!(TOLD_BYTES + size_of::<Control>() <= HEADROOM_BYTES as usize);

/// `struct io_uring_recvmsg_out`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Told {
    name_bytes: u32,
    control_bytes: u32,
    payload_bytes: u32,
    flags: u32,
}

/// The ring by which buffers are provided.
struct Provided {
    base: NonNull<BufRingEntry>,
    tail: u16,
}

impl Provided {
    const BYTES: usize = PLACES * size_of::<BufRingEntry>();

    fn register(ring: &IoUring) -> io::Result<Self> {
        let (protection, flags) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a fresh mapping.
        let base = unsafe { libc::mmap(std::ptr::null_mut(), Self::BYTES, protection, flags, -1, 0) };
        let Some(start) = NonNull::new(base.cast()).filter(|_| base != libc::MAP_FAILED) else {
            return Err(io::Error::last_os_error());
        };
        let made = Self { base: start, tail: 0 };
        // SAFETY: a mapping of its own, of so many entries, that outlives the ring: whoever has both drops
        // the ring first.
        unsafe { ring.submitter().register_buf_ring_with_flags(base as u64, PLACES as u16, GROUP, 0)? };
        Ok(made)
    }

    /// Lays a buffer down; the kernel sees it after [`Self::publish`].
    fn put(&mut self, start: *mut u8, bytes: u32, number: u16) {
        let place = usize::from(self.tail) % PLACES;
        // SAFETY: a place of the ring. The tail in the first entry is in a field that this does not touch.
        let entry = unsafe { &mut *self.base.as_ptr().add(place) };
        entry.set_addr(start as u64);
        entry.set_len(bytes);
        entry.set_bid(number);
        self.tail = self.tail.wrapping_add(1);
    }

    fn publish(&self) {
        // SAFETY: the first entry of the ring; kernel and NF use the field as an atomic.
        let tail = unsafe { &*BufRingEntry::tail(self.base.as_ptr()).cast::<AtomicU16>() };
        // provide-release, with the kernel's acquire when it takes a buffer.
        tail.store(self.tail, Ordering::Release);
    }
}

impl Drop for Provided {
    fn drop(&mut self) {
        // SAFETY: mapped by `register` with this length; nothing refers to it any more. It cannot fail then.
        unsafe { libc::munmap(self.base.as_ptr().cast(), Self::BYTES) };
    }
}

/// One interface behind io_uring.
pub struct Uring {
    // Before what it refers to.
    ring: IoUring,
    provided: Provided,
    socket: OwnedFd,
    batch: usize,
    counts: Counts,
    /// The buffer of each number, where one was provided.
    buffers: Vec<Option<u32>>,
    /// Numbers without a buffer.
    free: Vec<u16>,
    /// Parts of a message to receive beside a packet.
    header: Box<libc::msghdr>,
    /// Result of each packet of a batch.
    outcomes: Vec<i32>,
}

impl Uring {
    /// A cable of a socket.
    pub fn new(socket: OwnedFd, batch: usize) -> io::Result<Self> {
        let mut builder = IoUring::builder();
        builder.setup_single_issuer().setup_submit_all().setup_cqsize(2 * PLACES as u32).dontfork();
        let ring = builder.build(PLACES as u32).map_err(explained)?;
        let provided = Provided::register(&ring).map_err(explained)?;
        // SAFETY: all zeroes is a message without address, data and control.
        let mut header: Box<libc::msghdr> = Box::new(unsafe { std::mem::zeroed() });
        header.msg_controllen = size_of::<Control>();
        Ok(Self {
            ring,
            provided,
            socket,
            batch,
            counts: Counts::default(),
            buffers: vec![None; PLACES],
            free: (0..PLACES as u16).collect(),
            header,
            outcomes: vec![0; PLACES],
        })
    }

    /// Provides a batch of buffers, or as many as there are.
    fn refill(&mut self, pool: &mut Pool) {
        let bytes = pool.region().geometry().stride() - START_BYTES as u32;
        while PLACES - self.free.len() < self.batch {
            let Some(index) = pool.take() else { break };
            let Some(number) = self.free.pop() else { unreachable!("a batch is no more than the places") };
            self.buffers[usize::from(number)] = Some(index);
            self.provided.put(pool.region().buffer(index).wrapping_add(START_BYTES), bytes, number);
        }
        self.provided.publish();
    }

    /// One system call. What is in the ring is over when it returns.
    fn call(&mut self) -> io::Result<()> {
        self.counts.calls += 1;
        self.ring.submit().map(|_| ())
    }

    fn ask_to_receive(&mut self) {
        let file = Fd(self.socket.as_raw_fd());
        let request = opcode::RecvMsgMulti::new(file, &raw const *self.header, GROUP)
            .flags(libc::MSG_DONTWAIT as u32)
            .build()
            .user_data(RECEIVES);
        // SAFETY: the header and the buffers that were provided live as long as `self`. There is room: all
        // earlier requests are over.
        let pushed = unsafe { self.ring.submission().push(&request) };
        debug_assert!(pushed.is_ok());
    }

    /// The packet that the kernel tells of, if it came whole.
    fn packet(&mut self, done: &cqueue::Entry, pool: &mut Pool) -> Option<Descriptor> {
        let number = cqueue::buffer_select(done.flags())?;
        let index = self.buffers.get_mut(usize::from(number))?.take()?;
        self.free.push(number);
        let start = pool.region().buffer(index).wrapping_add(START_BYTES);
        // SAFETY: the kernel has laid both down before the packet, in this buffer, which is aligned; no
        // request has it any more.
        let (told, control) =
            unsafe { (start.cast::<Told>().read(), start.add(TOLD_BYTES).cast::<Control>().read()) };
        let packet = Descriptor::new(index, HEADROOM_BYTES, told.payload_bytes, 0);
        let cut = told.flags & libc::MSG_TRUNC as u32 != 0;
        if cut || pool.region().geometry().check(packet).is_err() {
            self.counts.too_long += 1;
            pool.put(packet);
            return None;
        }
        let aside = packet::aside(told.control_bytes as usize, &control);
        Some(packet::completed(packet, aside, pool))
    }

    /// Sends these, at most a batch; the outcomes tell of each.
    fn send_batch(&mut self, packets: &[Descriptor], pool: &Pool) -> io::Result<()> {
        let file = Fd(self.socket.as_raw_fd());
        for (place, packet) in packets.iter().enumerate() {
            let start = pool.region().buffer(packet.index()).wrapping_add(packet.offset() as usize);
            let request = opcode::Send::new(file, start, packet.length())
                .flags(libc::MSG_DONTWAIT)
                .build()
                .user_data(place as u64);
            // SAFETY: a frame of the pool whose extent was checked when it was made; it is ours until the
            // request is over. There is room: all earlier requests are over.
            let pushed = unsafe { self.ring.submission().push(&request) };
            debug_assert!(pushed.is_ok());
        }
        self.outcomes[..packets.len()].fill(-libc::EAGAIN);
        let called = self.call();
        let outcomes = &mut self.outcomes;
        for done in self.ring.completion() {
            if let Some(outcome) = outcomes.get_mut(done.user_data() as usize) {
                *outcome = done.result();
            }
        }
        called
    }
}

/// Returns the reason for which there is none here.
pub fn missing() -> Option<io::Error> {
    let ring = IoUring::builder().setup_single_issuer().build(1).map_err(explained);
    ring.and_then(|ring| Provided::register(&ring).map(|provided| drop((ring, provided)))).err()
}

/// Adds to an error why there is no io_uring, and what to do about it.
fn explained(error: io::Error) -> io::Error {
    let why = match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => {
            "the kernel forbids io_uring here (sysctl kernel.io_uring_disabled, or the filter of a container)"
        }
        Some(libc::ENOSYS) => "the kernel has no io_uring",
        Some(libc::EINVAL) => "the kernel's io_uring is too old: Linux 6.0 receives many with one request",
        _ => return error,
    };
    io::Error::new(error.kind(), format!("{why}; take `driver = \"packet\"`"))
}

impl InterfaceIo for Uring {
    fn receive(&mut self, pool: &mut Pool, into: &mut Vec<Descriptor>) -> Result<bool, InterfaceError> {
        let before = into.len();
        self.refill(pool);
        self.ask_to_receive();
        let called = self.call();
        let mut ended = called.err();
        while let Some(done) = { self.ring.completion().next() } {
            if done.result() >= 0 {
                into.extend(self.packet(&done, pool));
            } else {
                ended = Some(io::Error::from_raw_os_error(-done.result()));
            }
        }
        let count = into.len() - before;
        self.counts.received += count as u64;
        match ended {
            // The buffers are used up, or the kernel thinks that one request has received enough.
            None => Ok(count > 0),
            Some(error) if error.raw_os_error() == Some(libc::ENOBUFS) => Ok(count > 0),
            Some(error) => loss(self.socket.as_fd(), &error).map_or(Ok(false), Err),
        }
    }

    fn send(&mut self, pool: &mut Pool, packets: &[Descriptor]) -> Result<(), InterfaceError> {
        let mut ended = Ok(());
        for batch in packets.chunks(self.batch) {
            if ended.is_err() || self.send_batch(batch, pool).is_err_and(|error| !is_passing(&error)) {
                self.counts.unsent += batch.len() as u64;
                continue;
            }
            for outcome in &self.outcomes[..batch.len()] {
                match -outcome {
                    ..=0 => self.counts.sent += 1,
                    libc::EMSGSIZE => self.counts.too_long += 1,
                    error => {
                        self.counts.unsent += 1;
                        let error = io::Error::from_raw_os_error(error);
                        ended = ended.and(loss(self.socket.as_fd(), &error).map_or(Ok(()), Err));
                    }
                }
            }
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
        Ok(())
    }
}
