//! One queue of a device, used by one worker: the packet path, a burst at a time.

use std::sync::Arc;

use headgate_port::{self as port, QueueCounters};
use headgate_shm::geometry::FRAME_BYTES_MIN;
use headgate_shm::{Descriptor, Stack};

use crate::checksums::Checksums;
use crate::copied::Copied;
use crate::device::Device;
use crate::direct::Direct;
use crate::ffi::{self, rte_mbuf};

/// Packets handed to or taken from a driver in one call. Our choice: twice DPDK's usual 32, as calls
/// from here cost a little more; pointers of a burst fill 8 cache lines.
pub(crate) const BURST: usize = 64;

/// Queue of a device, and what it can carry.
pub(crate) struct Lane {
    pub(crate) device: Arc<Device>,
    pub(crate) number: u16,
    /// The longest frame the driver hands over whole, in bytes.
    pub(crate) received_bytes_max: u32,
    /// The longest frame the device sends, in bytes.
    pub(crate) sent_bytes_max: u32,
    /// Completes what the kernel left out, where it does.
    pub(crate) checksums: Option<Checksums>,
    pub(crate) counters: QueueCounters,
}

enum Way {
    Direct(Direct),
    Copied(Copied),
}

/// One queue of a device, used by one worker.
pub struct Queue {
    lane: Lane,
    way: Way,
}

// SAFETY: the pointers below are to mbufs and pools that may be used by any thread, one at a time,
// and a queue is used by the one thread that owns it.
unsafe impl Send for Queue {}

impl Queue {
    pub(crate) const fn direct(lane: Lane, direct: Direct) -> Self {
        Self { lane, way: Way::Direct(direct) }
    }

    pub(crate) const fn copied(lane: Lane, copied: Copied) -> Self {
        Self { lane, way: Way::Copied(copied) }
    }
}

impl port::Queue for Queue {
    #[inline]
    fn receive(&mut self, _now: u64, stack: &mut Stack, into: &mut [Descriptor]) -> usize {
        let mut got = 0;
        // Bounded, so that a flood of frames that are all refused ends the call too.
        for _ in 0..into.len().div_ceil(BURST) {
            let most = (into.len() - got).min(BURST);
            let space = &mut into[got..got + most];
            let (came, kept) = match &mut self.way {
                Way::Direct(direct) => direct.receive(&mut self.lane, stack, space),
                Way::Copied(copied) => copied.receive(&mut self.lane, stack, space),
            };
            if let Some(checksums) = &mut self.lane.checksums {
                checksums.complete(stack.region(), &into[got..got + kept]);
            }
            got += kept;
            if came < most {
                break;
            }
        }
        got
    }

    #[inline]
    fn transmit(&mut self, _now: u64, stack: &mut Stack, packets: &[Descriptor]) -> usize {
        let mut taken = 0;
        for burst in packets.chunks(BURST) {
            let done = match &mut self.way {
                Way::Direct(direct) => direct.transmit(&mut self.lane, stack, burst),
                Way::Copied(copied) => copied.transmit(&mut self.lane, stack, burst),
            };
            taken += done;
            if done < burst.len() {
                break;
            }
        }
        taken
    }

    /// Collects buffers of what was sent meanwhile.
    #[inline]
    fn tend(&mut self, _now: u64, stack: &mut Stack) {
        if let Way::Direct(direct) = &mut self.way {
            direct.tend(&self.lane, stack);
        }
    }

    /// Returns its counters; the first queue includes what the driver and the kernel lost, as of the
    /// last [`crate::Port::losses`].
    fn counters(&self) -> QueueCounters {
        let mut counters = self.lane.counters;
        if self.lane.number == 0 {
            let losses = self.lane.device.published();
            counters.missed += losses.missed;
            counters.too_long += losses.too_long;
            counters.failed += losses.failed;
        }
        counters
    }

    /// The region it is bound to; `None` when it copies, from and to any.
    fn region(&self) -> Option<u8> {
        match &self.way {
            Way::Direct(direct) => Some(direct.region),
            Way::Copied(_) => None,
        }
    }

    /// Buffers of the region that the driver holds.
    fn holds(&self) -> usize {
        match &self.way {
            Way::Direct(direct) => direct.held.max(0) as usize,
            Way::Copied(_) => 0,
        }
    }
}

/// Reason for which a packet that came is not handed on.
pub(crate) enum Lost {
    TooLong,
    Failed,
}

impl Lane {
    /// Checks what every received frame must be, however it gets into the region.
    #[inline(always)]
    pub(crate) fn accept(&self, mbuf: &rte_mbuf, room: u32) -> Result<(), Lost> {
        if mbuf.pkt_len > room.min(self.received_bytes_max) {
            return Err(Lost::TooLong);
        }
        if mbuf.pkt_len < FRAME_BYTES_MIN { Err(Lost::Failed) } else { Ok(()) }
    }

    #[cold]
    pub(crate) const fn count_lost(&mut self, lost: &Lost) {
        match lost {
            Lost::TooLong => self.counters.too_long += 1,
            Lost::Failed => self.counters.failed += 1,
        }
    }

    pub(crate) fn rx_burst(&self, mbufs: &mut [*mut rte_mbuf; BURST], most: usize) -> usize {
        debug_assert!(most <= BURST);
        let port = self.device.port;
        // SAFETY: the device is started, this queue of it is ours alone, and there is room for `most`.
        usize::from(unsafe { ffi::hg_rx_burst(port, self.number, mbufs.as_mut_ptr(), most as u16) })
    }

    pub(crate) fn tx_burst(&self, batch: &mut Batch) -> usize {
        let (port, mbufs) = (self.device.port, batch.mbufs.as_mut_ptr());
        // SAFETY: as in `rx_burst`; the first `count` are mbufs of ours that describe whole frames.
        usize::from(unsafe { ffi::hg_tx_burst(port, self.number, mbufs, batch.count as u16) })
    }

    /// Counts the first `done` packets of a burst and calls `lose` for those that were too long to go
    /// to the driver at all.
    #[inline(always)]
    pub(crate) fn settle(&mut self, burst: &[Descriptor], done: usize, mut lose: impl FnMut(u32)) {
        for packet in &burst[..done] {
            if packet.length() > self.sent_bytes_max {
                self.counters.failed += 1;
                lose(packet.index());
            } else {
                self.counters.sent += 1;
                self.counters.sent_bytes += u64::from(packet.length());
            }
        }
    }
}

/// Mbufs for one call into the driver, and where in the burst each stands: the device does not send
/// frames above its MTU, so these are left out.
pub(crate) struct Batch {
    pub(crate) mbufs: [*mut rte_mbuf; BURST],
    places: [u8; BURST],
    pub(crate) count: usize,
}

const _: () = assert!(BURST <= u8::MAX as usize);

impl Batch {
    pub(crate) const fn new() -> Self {
        Self { mbufs: [std::ptr::null_mut(); BURST], places: [0; BURST], count: 0 }
    }

    #[inline(always)]
    pub(crate) fn push(&mut self, mbuf: *mut rte_mbuf, place: usize) {
        self.mbufs[self.count] = mbuf;
        self.places[self.count] = place as u8;
        self.count += 1;
    }

    /// Returns the number of packets of a burst of `all` that are done with when the driver took the first
    /// `sent` mbufs.
    #[inline(always)]
    pub(crate) fn done(&self, sent: usize, all: usize) -> usize {
        if sent < self.count { usize::from(self.places[sent]) } else { all }
    }
}

/// Puts a VLAN tag that the driver took out of the frame back in front of its type; the frame then
/// starts `VLAN_TAG_BYTES` earlier.
///
/// # Safety
/// `frame` starts a frame of at least 12 bytes with `VLAN_TAG_BYTES` of headroom, owned by the caller.
pub(crate) unsafe fn restore_tag(frame: *mut u8, control: u16) {
    /// IEEE 802.1Q. Drivers do not tell which of the tag types it was.
    const TYPE: u16 = 0x8100;
    /// Destination and source of an Ethernet frame.
    const ADDRESSES_BYTES: usize = 12;
    // SAFETY: by the contract above.
    unsafe {
        let start = frame.sub(VLAN_TAG_BYTES as usize);
        frame.copy_to(start, ADDRESSES_BYTES);
        let tag = start.add(ADDRESSES_BYTES).cast::<[u8; 4]>();
        let ([a, b], [c, d]) = (TYPE.to_be_bytes(), control.to_be_bytes());
        tag.write_unaligned([a, b, c, d]);
    }
}

/// Bytes of a VLAN tag.
pub(crate) const VLAN_TAG_BYTES: u32 = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_goes_back_between_addresses_and_type() {
        let mut bytes = [0u8; 24];
        for (value, byte) in bytes[4..].iter_mut().enumerate() {
            *byte = value as u8;
        }
        let mut buffer = bytes;
        // SAFETY: 4 bytes before the frame and 20 in it.
        unsafe { restore_tag(buffer.as_mut_ptr().add(4), 0x2064) };
        let wanted: Vec<u8> = (0..12).chain([0x81, 0, 0x20, 0x64]).chain(12..20).collect();
        assert_eq!(buffer.as_slice(), wanted);
    }

    #[test]
    fn packets_before_the_first_unsent_one_are_done() {
        let mut batch = Batch::new();
        for place in [0, 2, 3, 7] {
            batch.push(std::ptr::null_mut(), place);
        }
        assert_eq!([0, 1, 2, 3, 4].map(|sent| batch.done(sent, 9)), [0, 2, 3, 7, 9]);
    }
}
