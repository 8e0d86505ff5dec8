//! Layout of the memory of one NF instance.
//!
//! Two pieces. The *control region* is writable by both sides: rings, doorbell, the NF's counters. The
//! *directives* page is written by the manager and mapped read-only by the NF: a seal forbids it any
//! other mapping. Both are made anew for each incarnation of an NF, so a stray child of a dead one
//! writes into memory nobody reads.
//!
//! ```text
//! control region            writer    reader
//!   0     doorbell          both      both      (doorbell.rs)
//!   128   rx produced       manager   NF
//!   256   rx consumed       NF        manager
//!   384   tx produced       NF        manager
//!   392   owner             NF, kernel manager  whether the NF's thread has ended (owner.rs)
//!   512   tx consumed       manager   NF
//!   640   progress          NF        manager
//!   768   interfaces        NF        manager   what it did on interfaces of the kernel
//!   896   lend produced     manager   NF
//!   1024  lend consumed     NF        manager
//!   2048  counters          NF        manager   64 of the NF's own
//!   2560  service times     NF        manager   256 counts of 4 bytes (histogram.rs)
//!   4096  rx slots          manager   NF        ring size x 8 bytes
//!   ...   tx slots          NF        manager   ring size x 8 bytes
//!   ...   lend slots        manager   NF        64 x 8 bytes: empty buffers for packets it makes
//! directives
//!   0     orders            manager   NF
//! ```
//!
//! Fields with different writers are two cache lines apart, because the adjacent-line prefetcher moves
//! lines in pairs.

use std::mem::offset_of;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use crate::doorbell;
use crate::histogram::{BUCKETS, bucket_of};
use crate::memory::{Memory, MemoryError, PAGE_BYTES, PagesWanted};
use crate::owner::Owner;
use crate::ring::{Consumer, Parts, Producer, RING_MAX};

/// Version of the interface, the newest that is spoken here. It changes whenever anything in this file or in
/// the descriptor changes its meaning.
pub const ABI_VERSION: u32 = 10;
/// Oldest version that is spoken here. It rises to [`ABI_VERSION`] with a change that this code does not
/// know to do without; between the two, both sides do as the version says that they agreed on.
pub const ABI_VERSION_MIN: u32 = 8;
const _: () = assert!(ABI_VERSION_MIN <= ABI_VERSION);
/// Version from which on a process can be a standby: one of before would take over at once.
pub const STANDBY_VERSION: u32 = 9;
/// Version from which on packets may have times of their own: a process of one before takes no file of them.
pub const TIMES_VERSION: u32 = 10;
/// Counters an NF can publish.
pub const COUNTERS: usize = 64;
/// Buffers that an NF can be lent at a time for packets it makes, and places of the lend ring. Our choice:
/// one for each packet of a burst, so that an NF can answer each, and 128 KiB of the region at most.
pub const LENT_MAX: u32 = 64;
/// Part of its ring that an NF can be lent at most: what is lent is taken off the packets it may hold, and
/// those are to reach the high watermark (80 percent by default) before there is no more room.
const LENT_RING_PART: u32 = 8;

/// Returns how many buffers an NF is lent that asked for so many and has rings of `ring` descriptors.
#[must_use]
pub const fn lent_for(asked: u32, ring: u32) -> u32 {
    let most = if ring / LENT_RING_PART < LENT_MAX { ring / LENT_RING_PART } else { LENT_MAX };
    if asked < most { asked } else { most }
}

/// A value alone in its pair of cache lines.
#[repr(C, align(128))]
pub struct Line<T>(pub T);

/// An NF's own counters of its work. The manager shows them and decides nothing on it alone.
#[repr(C)]
pub struct Progress {
    /// Packets the NF was given, ever.
    pub packets: AtomicU64,
    /// Bursts it worked on, ever.
    pub bursts: AtomicU64,
    /// Times it went to sleep.
    pub sleeps: AtomicU64,
    /// TSC cycles spent in the handler, over the bursts that were timed.
    pub handler_cycles: AtomicU64,
    /// Packets in the bursts that were timed.
    pub handler_packets: AtomicU64,
    /// Not 0 while packets wait for its disk and not for it.
    pub disk_waits: AtomicU64,
    /// Grows several times a second while [`Progress::disk_waits`] says so and its loop runs.
    pub disk_beats: AtomicU64,
    /// Times it found its receive ring empty and went on.
    pub empty_polls: AtomicU64,
}

/// An NF's own counters of one of its interfaces of the kernel, since its start.
#[repr(C)]
pub struct InterfaceCounts {
    /// Packets that came in.
    pub received: AtomicU64,
    /// Packets that went out.
    pub sent: AtomicU64,
    /// System calls made to receive and to send.
    pub calls: AtomicU64,
    /// Packets that found no room in its socket.
    pub lost: AtomicU64,
    /// Packets that the kernel did not take.
    pub unsent: AtomicU64,
    /// Packets longer than a buffer, or than the interface carries.
    pub too_long: AtomicU64,
}

/// The same of both, and what lies between.
#[repr(C)]
pub struct KernelCounts {
    /// The interface towards the chain's entry, and that towards its end.
    pub interfaces: [InterfaceCounts; 2],
    /// System calls made to wait for packets.
    pub waits: AtomicU64,
    /// Packets that the NF ended.
    pub dropped: AtomicU64,
}

/// What the worker reads in each pass of an NF: one cache line.
#[repr(C)]
struct Returned {
    produced: AtomicU32,
    _gap: AtomicU32,
    owner: Owner,
}

/// The fixed part of the control region.
#[repr(C)]
pub struct Header {
    doorbell: Line<AtomicU32>,
    rx_produced: Line<AtomicU32>,
    rx_consumed: Line<AtomicU32>,
    tx_produced: Line<Returned>,
    tx_consumed: Line<AtomicU32>,
    progress: Line<Progress>,
    kernel: Line<KernelCounts>,
    lend_produced: Line<AtomicU32>,
    lend_consumed: Line<AtomicU32>,
}

const COUNTERS_OFFSET: usize = 2048;
const SERVICE_OFFSET: usize = 2560;
const SLOTS_OFFSET: usize = 4096;
const _: () = {
    assert!(offset_of!(Header, rx_produced) == 128);
    assert!(offset_of!(Header, rx_consumed) == 256);
    assert!(offset_of!(Header, tx_produced) == 384);
    assert!(size_of::<Returned>() == 64);
    assert!(offset_of!(Returned, owner).is_multiple_of(align_of::<u64>()));
    assert!(offset_of!(Header, tx_consumed) == 512);
    assert!(offset_of!(Header, progress) == 640);
    assert!(offset_of!(Header, kernel) == 768);
    assert!(offset_of!(Header, lend_produced) == 896);
    assert!(offset_of!(Header, lend_consumed) == 1024);
    assert!(size_of::<Header>() <= COUNTERS_OFFSET);
    assert!(COUNTERS_OFFSET + COUNTERS * size_of::<u64>() <= SERVICE_OFFSET);
    assert!(SERVICE_OFFSET + BUCKETS * size_of::<u32>() <= SLOTS_OFFSET);
};

/// The manager's orders to an NF.
#[repr(C)]
pub struct Orders {
    /// 1: sleep until the doorbell rings.
    pub blocked: AtomicU32,
    /// 1: finish the burst at hand, return every packet, say goodbye and exit.
    pub stop: AtomicU32,
    /// Messages the manager has sent over the socket, ever.
    pub mail: AtomicU32,
    /// Time for which to poll an empty ring before sleeping, in microseconds.
    pub poll_micros: AtomicU32,
    /// 1: another NF of this core is awake and has packets: sleep after a batch, and without polling.
    pub must_yield: AtomicU32,
    /// Packets of one time slice of the core.
    pub batch: AtomicU32,
    /// Most packets of one system call on interfaces of the kernel; 0 before that was changed.
    pub call_batch: AtomicU32,
    /// Longest time slice, in microseconds.
    pub slice_micros: AtomicU32,
    /// 1: a standby is the instance's process from now on. Stored last of the three.
    pub go: AtomicU32,
    /// Packets that all processes of the instance returned before it went (wraps).
    pub base: AtomicU32,
    /// Number of its first packets that it works on alone, each in a burst of its own.
    pub alone: AtomicU32,
}

impl Orders {
    /// Orders a standby to go.
    pub fn promote(&self, base: u32, alone: u32) {
        self.base.store(base, Ordering::Relaxed);
        self.alone.store(alone, Ordering::Relaxed);
        self.go.store(1, Ordering::Release); // O-release, with O-acquire
    }

    /// Returns `base` and `alone` once a standby is to go.
    #[must_use]
    pub fn promoted(&self) -> Option<(u32, u32)> {
        let goes = self.go.load(Ordering::Acquire) != 0; // O-acquire, with O-release
        goes.then(|| (self.base.load(Ordering::Relaxed), self.alone.load(Ordering::Relaxed)))
    }
}

/// Sizes and offsets of a control region with rings of `ring` descriptors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ControlLayout {
    ring: u32,
}

impl ControlLayout {
    /// A layout with rings of `ring` descriptors.
    ///
    /// # Errors
    /// A sentence when the size is no power of two between 64 and [`RING_MAX`].
    pub fn new(ring: u32) -> Result<Self, String> {
        if !ring.is_power_of_two() || !(64..=RING_MAX).contains(&ring) {
            return Err(format!("a ring has a power of two of descriptors, 64 to {RING_MAX}, not {ring}"));
        }
        Ok(Self { ring })
    }

    /// Descriptors in each ring.
    #[must_use]
    pub const fn ring(self) -> u32 {
        self.ring
    }

    /// Bytes of the control region.
    #[must_use]
    pub const fn bytes(self) -> usize {
        SLOTS_OFFSET + (2 * self.ring + LENT_MAX) as usize * size_of::<u64>()
    }
}

/// One mapped control region with its directives, from either side.
struct Shared {
    control: Arc<Memory>,
    directives: Arc<Memory>,
    layout: ControlLayout,
}

impl Shared {
    fn header(&self) -> &Header {
        // SAFETY: the region is at least `layout.bytes()` long, page-aligned, and made of atomics only.
        unsafe { self.control.base().cast().as_ref() }
    }

    fn orders(&self) -> &Orders {
        // SAFETY: a whole page, aligned, of atomics only.
        unsafe { self.directives.base().cast().as_ref() }
    }

    fn counter(&self, index: usize) -> &AtomicU64 {
        assert!(index < COUNTERS);
        // SAFETY: the assertion and the constants above keep it inside the region.
        unsafe { &*self.control.base().as_ptr().add(COUNTERS_OFFSET).cast::<AtomicU64>().add(index) }
    }

    fn service_counts(&self) -> &[AtomicU32; BUCKETS] {
        // SAFETY: the constants above keep it inside the region, whose start is page-aligned.
        unsafe { &*self.control.base().as_ptr().add(SERVICE_OFFSET).cast() }
    }

    /// The ring of `size` descriptors whose slots lie behind `before` others.
    fn ring(&self, produced: &AtomicU32, consumed: &AtomicU32, before: u32, size: u32) -> Parts {
        let slots = SLOTS_OFFSET + before as usize * size_of::<u64>();
        // SAFETY: inside the region by `ControlLayout::bytes`.
        let slots = unsafe { self.control.base().add(slots).cast() };
        // SAFETY: all three lie in the mapping that the parts keep alive; the size was checked.
        unsafe {
            Parts::new(NonNull::from(produced), NonNull::from(consumed), slots, size, self.control.clone())
        }
    }

    fn receive_ring(&self) -> Parts {
        let header = self.header();
        self.ring(&header.rx_produced.0, &header.rx_consumed.0, 0, self.layout.ring)
    }

    fn transmit_ring(&self) -> Parts {
        let (header, ring) = (self.header(), self.layout.ring);
        self.ring(&header.tx_produced.0.produced, &header.tx_consumed.0, ring, ring)
    }

    fn lend_ring(&self) -> Parts {
        let header = self.header();
        self.ring(&header.lend_produced.0, &header.lend_consumed.0, 2 * self.layout.ring, LENT_MAX)
    }
}

/// The manager's ends of one incarnation of an NF. Split: the worker takes the rings, the control loop
/// keeps the orders, both may read the rest.
pub struct ManagerSide {
    shared: Shared,
    /// The process that it was handed to, where a worker may have to end it.
    process: OnceLock<OwnedFd>,
    /// Whether no standby is to take over from the process.
    is_last: AtomicBool,
}

impl ManagerSide {
    /// Makes the memory of one incarnation.
    ///
    /// # Errors
    /// [`MemoryError`] when the kernel refuses.
    pub fn create(name: &str, layout: ControlLayout) -> Result<Self, MemoryError> {
        let control = Memory::create(name, layout.bytes(), PagesWanted::Ordinary)?;
        let directives = Memory::create_for_readers(name, PAGE_BYTES)?;
        let shared = Shared { control: Arc::new(control), directives: Arc::new(directives), layout };
        Ok(Self { shared, process: OnceLock::new(), is_last: AtomicBool::new(false) })
    }

    /// The layout it was made with.
    #[must_use]
    pub const fn layout(&self) -> ControlLayout {
        self.shared.layout
    }

    /// The control region, to hand over and to guard.
    #[must_use]
    pub const fn control(&self) -> &Arc<Memory> {
        &self.shared.control
    }

    /// The directives page, to hand over.
    #[must_use]
    pub const fn directives(&self) -> &Arc<Memory> {
        &self.shared.directives
    }

    /// The producer of the NF's receive ring. Once per incarnation.
    #[must_use]
    pub fn receive_producer(&self) -> Producer {
        Producer::new(self.shared.receive_ring())
    }

    /// The consumer of the NF's transmit ring. Once per incarnation.
    #[must_use]
    pub fn transmit_consumer(&self) -> Consumer {
        Consumer::new(self.shared.transmit_ring())
    }

    /// The producer of the NF's lend ring: empty buffers for packets that it makes. Once per incarnation.
    #[must_use]
    pub fn lend_producer(&self) -> Producer {
        Producer::new(self.shared.lend_ring())
    }

    /// Notes the process that it was handed to, by its pidfd, so that a worker can end it. Once.
    ///
    /// # Errors
    /// The kernel's, when there is no descriptor left.
    pub fn bind(&self, process: BorrowedFd<'_>) -> std::io::Result<()> {
        // One that is bound stays bound: it was handed to one process.
        let _ = self.process.set(process.try_clone_to_owned()?);
        Ok(())
    }

    /// Returns whether a standby may take over from its process now: its thread has ended, by the word of the
    /// kernel or its own lie, it can be ended, and nobody has said that it is to have no successor.
    #[inline(always)]
    #[must_use]
    pub fn can_be_succeeded(&self) -> bool {
        self.owner().has_died() && self.is_succeeded()
    }

    #[cold]
    fn is_succeeded(&self) -> bool {
        // L-acquire, with L-release: who says so kills the process after that, so a death of that is seen
        // here only after it was said.
        !self.is_last.load(Ordering::Acquire) && self.process.get().is_some()
    }

    /// Says that no standby is to take over from its process.
    pub fn have_no_successor(&self) {
        self.is_last.store(true, Ordering::Release); // L-release, with L-acquire
    }

    /// Kills its process: none of its threads goes on after its next interrupt. For one that has ended
    /// nothing happens. Without effect where none was noted.
    pub fn kill(&self) {
        if let Some(process) = self.process.get() {
            // Ended and reaped meanwhile: just as well.
            let _ = rustix::process::pidfd_send_signal(process, rustix::process::Signal::KILL);
        }
    }

    /// Returns the owner of its transmit ring.
    #[inline(always)]
    #[must_use]
    pub fn owner(&self) -> &Owner {
        &self.shared.header().tx_produced.0.owner
    }

    /// The doorbell's word.
    #[inline(always)]
    #[must_use]
    pub fn doorbell(&self) -> &AtomicU32 {
        &self.shared.header().doorbell.0
    }

    /// The orders.
    #[must_use]
    pub fn orders(&self) -> &Orders {
        self.shared.orders()
    }

    /// Returns the NF's own counters of its work.
    #[must_use]
    pub fn progress(&self) -> &Progress {
        &self.shared.header().progress.0
    }

    /// Returns the NF's own counters of interfaces of the kernel, if it works on some.
    #[must_use]
    pub fn kernel_counts(&self) -> &KernelCounts {
        &self.shared.header().kernel.0
    }

    /// One of the NF's own counters.
    ///
    /// # Panics
    /// When `index` is not below [`COUNTERS`].
    #[must_use]
    pub fn counter(&self, index: usize) -> u64 {
        self.shared.counter(index).load(Ordering::Relaxed)
    }

    /// Returns the number of samples of its service time in each bucket, ever, by the NF's own word; counts
    /// wrap.
    #[must_use]
    pub fn service_counts(&self) -> &[AtomicU32; BUCKETS] {
        self.shared.service_counts()
    }

    /// Packets in its receive ring, as the NF says: at most as many as the ring holds.
    #[must_use]
    pub fn backlog(&self) -> u32 {
        let header = self.shared.header();
        // Consumed first: the worker may be delivering meanwhile, and a backlog is never negative.
        let consumed = header.rx_consumed.0.load(Ordering::Relaxed);
        let produced = header.rx_produced.0.load(Ordering::Relaxed);
        produced.wrapping_sub(consumed).min(self.shared.layout.ring)
    }

    /// Packets in its transmit ring that the worker has not taken, as the NF says: at most as many as the
    /// ring holds.
    #[must_use]
    pub fn returning(&self) -> u32 {
        let header = self.shared.header();
        let consumed = header.tx_consumed.0.load(Ordering::Relaxed);
        let produced = header.tx_produced.0.produced.load(Ordering::Relaxed);
        produced.wrapping_sub(consumed).min(self.shared.layout.ring)
    }

    /// Packets it has taken or made and not returned, as the NF says: at most as many as the ring holds.
    #[must_use]
    pub fn in_hand(&self) -> u32 {
        let header = self.shared.header();
        // Returned first: it may return some meanwhile, and what it has is never negative.
        let returned = header.tx_produced.0.produced.load(Ordering::Relaxed);
        let taken = header.rx_consumed.0.load(Ordering::Relaxed);
        let made = header.lend_consumed.0.load(Ordering::Relaxed);
        taken.wrapping_add(made).wrapping_sub(returned).min(self.shared.layout.ring)
    }

    /// Packets it has taken out of its receive ring, ever (wraps), as it says.
    #[must_use]
    pub fn taken(&self) -> u32 {
        self.shared.header().rx_consumed.0.load(Ordering::Relaxed)
    }
}

/// The NF's ends of its own incarnation.
pub struct NfSide {
    shared: Shared,
}

impl NfSide {
    /// Maps what the manager handed over.
    ///
    /// # Errors
    /// [`MemoryError`] when the files are not what the layout needs.
    pub fn attach(control: Memory, directives: Memory, layout: ControlLayout) -> Result<Self, MemoryError> {
        if control.bytes() < layout.bytes() || directives.bytes() < PAGE_BYTES {
            return Err(MemoryError::NotSealed { name: "control region".to_owned(), bytes: layout.bytes() });
        }
        Ok(Self { shared: Shared { control: Arc::new(control), directives: Arc::new(directives), layout } })
    }

    /// The consumer of the receive ring. Once.
    #[must_use]
    pub fn receive_consumer(&self) -> Consumer {
        Consumer::new(self.shared.receive_ring())
    }

    /// The producer of the transmit ring. Once.
    #[must_use]
    pub fn transmit_producer(&self) -> Producer {
        Producer::new(self.shared.transmit_ring())
    }

    /// The consumer of the lend ring. Once.
    #[must_use]
    pub fn lend_consumer(&self) -> Consumer {
        Consumer::new(self.shared.lend_ring())
    }

    /// The doorbell's word.
    #[must_use]
    pub fn doorbell(&self) -> &AtomicU32 {
        &self.shared.header().doorbell.0
    }

    /// Returns the bell that rings the doorbell from another thread of the NF's process.
    #[must_use]
    pub fn bell(&self) -> Bell {
        Bell { control: self.shared.control.clone() }
    }

    /// Returns the owner of the transmit ring, and the memory it lies in.
    #[must_use]
    pub fn owner(&self) -> (&Owner, Arc<Memory>) {
        (&self.shared.header().tx_produced.0.owner, self.shared.control.clone())
    }

    /// The manager's orders.
    #[must_use]
    pub fn orders(&self) -> &Orders {
        self.shared.orders()
    }

    /// Returns the place for the NF's own counters.
    #[must_use]
    pub fn progress(&self) -> &Progress {
        &self.shared.header().progress.0
    }

    /// Returns the place for the NF's own counters of interfaces of the kernel.
    #[must_use]
    pub fn kernel_counts(&self) -> &KernelCounts {
        &self.shared.header().kernel.0
    }

    /// Counts a sample of the service time, in TSC cycles for one packet. Only the NF's loop may call this.
    pub fn count_service(&self, cycles: u64) {
        let count = &self.shared.service_counts()[bucket_of(cycles)];
        count.store(count.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
    }

    /// One of the NF's own counters.
    ///
    /// # Panics
    /// When `index` is not below [`COUNTERS`].
    #[must_use]
    pub fn counter(&self, index: usize) -> &AtomicU64 {
        self.shared.counter(index)
    }
}

/// Rings an NF's own doorbell from another thread of its process.
#[derive(Clone)]
pub struct Bell {
    control: Arc<Memory>,
}

impl Bell {
    /// Wakes the NF if it sleeps. What it is woken for must be visible to it before.
    pub fn ring(&self) {
        // SAFETY: a control region of at least `ControlLayout::bytes`, page-aligned, made of atomics only.
        let header: &Header = unsafe { self.control.base().cast().as_ref() };
        let word = &header.doorbell.0;
        doorbell::published();
        if doorbell::take(word) {
            doorbell::wake(word);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::descriptor::Descriptor;
    use rustix::io::Errno;
    use rustix::mm::{MapFlags, ProtFlags};
    use std::os::fd::AsFd;

    fn nf_side(manager: &ManagerSide) -> NfSide {
        let layout = manager.layout();
        let attach = |memory: &Memory, writable| {
            Memory::attach("test", memory.duplicate_file().unwrap(), PAGE_BYTES, writable).unwrap()
        };
        NfSide::attach(attach(manager.control(), true), attach(manager.directives(), false), layout).unwrap()
    }

    /// Who says that it has died is succeeded only where it can be ended, and where nobody forbids it.
    #[test]
    fn a_process_is_succeeded_that_died_and_can_be_ended() {
        let manager = ManagerSide::create("test", ControlLayout::new(64).unwrap()).unwrap();
        let mut process = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let flags = rustix::process::PidfdFlags::empty();
        let pidfd = rustix::process::pidfd_open(rustix::process::Pid::from_child(&process), flags).unwrap();
        let owner = manager.owner().lock().cast::<u32>();
        // SAFETY: the owner's word, which is as aligned as its line.
        unsafe { owner.write_volatile(crate::owner::DIED | 7) };
        assert!(manager.owner().has_died() && !manager.can_be_succeeded());
        manager.bind(pidfd.as_fd()).unwrap();
        assert!(manager.can_be_succeeded());
        manager.kill();
        let status = process.wait().unwrap();
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(libc::SIGKILL));
        manager.have_no_successor();
        assert!(!manager.can_be_succeeded());
        manager.owner().clear();
        assert!(!manager.owner().has_died());
        manager.kill();
    }

    #[test]
    fn both_sides_meet_in_the_rings() {
        let manager = ManagerSide::create("test", ControlLayout::new(64).unwrap()).unwrap();
        let nf = nf_side(&manager);
        let (mut to_nf, mut from_nf) = (manager.receive_producer(), manager.transmit_consumer());
        let (mut receive, mut transmit) = (nf.receive_consumer(), nf.transmit_producer());
        let sent: Vec<_> = (0..64).map(Descriptor).collect();
        assert_eq!(to_nf.push(&sent), Ok(64));
        assert_eq!(to_nf.push(&sent), Ok(0));
        let mut got = [Descriptor::default(); 64];
        assert_eq!(receive.pop(&mut got), Ok(64));
        assert_eq!(got.as_slice(), sent.as_slice());
        assert_eq!(transmit.push(&got), Ok(64));
        assert_eq!(from_nf.refresh(), Ok(64));
    }

    #[test]
    fn empty_buffers_pass_by_a_ring_of_their_own() {
        let manager = ManagerSide::create("test", ControlLayout::new(128).unwrap()).unwrap();
        let nf = nf_side(&manager);
        let (mut lend, mut lent) = (manager.lend_producer(), nf.lend_consumer());
        let (mut to_nf, mut receive) = (manager.receive_producer(), nf.receive_consumer());
        let empty: Vec<_> = (0..u64::from(LENT_MAX)).map(Descriptor).collect();
        assert_eq!(lend.push(&empty), Ok(LENT_MAX as usize));
        assert_eq!(to_nf.push(&[Descriptor(7); 128]), Ok(128));
        assert_eq!(nf.transmit_producer().push(&[Descriptor(9); 126]), Ok(126));
        let mut got = [Descriptor::default(); LENT_MAX as usize];
        assert_eq!(lent.pop(&mut got), Ok(LENT_MAX as usize));
        assert_eq!(got.as_slice(), empty.as_slice());
        assert_eq!(receive.pop(&mut got), Ok(LENT_MAX as usize));
        assert!(got.iter().all(|packet| *packet == Descriptor(7)));
        assert_eq!(manager.in_hand(), 2, "64 taken and 64 made, of which 126 were returned");
    }

    #[test]
    fn what_is_lent_leaves_room_for_packets() {
        assert_eq!([0, 3, 64, 1000].map(|asked| lent_for(asked, 4096)), [0, 3, 64, 64]);
        assert_eq!([3, 64].map(|asked| lent_for(asked, 64)), [3, 8]);
    }

    #[test]
    fn what_an_nf_says_of_itself_arrives() {
        let manager = ManagerSide::create("test", ControlLayout::new(64).unwrap()).unwrap();
        let nf = nf_side(&manager);
        nf.count_service(1000);
        nf.count_service(1000);
        let counts = manager.service_counts();
        assert_eq!(counts[bucket_of(1000)].load(Ordering::Relaxed), 2);
        assert_eq!(counts.iter().map(|count| count.load(Ordering::Relaxed)).sum::<u32>(), 2);
        assert_eq!(nf.counter(COUNTERS - 1).load(Ordering::Relaxed), 0);
        assert_eq!(manager.receive_producer().push(&[Descriptor(1); 5]), Ok(5));
        assert_eq!(manager.backlog(), 5);
        nf.shared.header().rx_consumed.0.store(u32::MAX / 2, Ordering::Relaxed);
        assert_eq!(manager.backlog(), 64);
    }

    #[test]
    fn directives_cannot_be_mapped_writable_by_a_stranger() {
        let manager = ManagerSide::create("test", ControlLayout::new(64).unwrap()).unwrap();
        let stranger = manager.directives().duplicate_file().unwrap();
        // SAFETY: asks for a fresh mapping, which must be refused.
        let mapped = unsafe {
            rustix::mm::mmap(
                std::ptr::null_mut(),
                PAGE_BYTES,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED,
                &stranger,
                0,
            )
        };
        assert_eq!(mapped.err(), Some(Errno::PERM));
        assert_eq!(rustix::io::write(&stranger, b"x").err(), Some(Errno::PERM));
        manager.orders().stop.store(1, Ordering::Relaxed);
        assert_eq!(nf_side(&manager).orders().stop.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn memory_can_neither_shrink_nor_grow() {
        let memory = Memory::create("test", 3 * PAGE_BYTES, PagesWanted::Ordinary).unwrap();
        for bytes in [0, PAGE_BYTES, 4 * PAGE_BYTES] {
            assert_eq!(rustix::fs::ftruncate(memory.file(), bytes as u64).err(), Some(Errno::PERM));
        }
    }
}
