//! A queue whose driver works on the packet region itself.

use std::ptr;
use std::sync::Arc;

use headgate_shm::descriptor::OFFSET_MAX;
use headgate_shm::geometry::FRAME_BYTES_MAX;
use headgate_shm::{Descriptor, Stack};

use crate::ffi::{self, rte_mbuf};
use crate::pool::RegionPool;
use crate::queue::{BURST, Batch, Lane, Lost, VLAN_TAG_BYTES, restore_tag};

pub(crate) struct Direct {
    pub(crate) pool: Arc<RegionPool>,
    pub(crate) region: u8,
    /// Buffers the driver holds.
    pub(crate) held: i64,
    /// Buffers it holds when nothing waits to be sent: its receive ring.
    resting: i64,
    /// Whether something was sent since the last tending.
    busy: bool,
    /// Whether the driver can be asked to free what it has sent.
    cleans: bool,
}

impl Direct {
    /// `held`: buffers the driver took into this queue's receive ring when it was set up.
    pub(crate) const fn new(pool: Arc<RegionPool>, region: u8, held: i64) -> Self {
        Self { pool, region, held, resting: held, busy: false, cleans: true }
    }

    #[inline]
    pub(crate) fn receive(
        &mut self,
        lane: &mut Lane,
        stack: &mut Stack,
        into: &mut [Descriptor],
    ) -> (usize, usize) {
        debug_assert_eq!(stack.id(), self.region);
        let mut mbufs = [ptr::null_mut(); BURST];
        let came = self.pool.with(stack, &mut self.held, || lane.rx_burst(&mut mbufs, into.len()));
        let mut kept = 0;
        for &mbuf in &mbufs[..came] {
            match self.describe(lane, mbuf) {
                Ok(descriptor) => {
                    lane.counters.received_bytes += u64::from(descriptor.length());
                    into[kept] = descriptor;
                    kept += 1;
                }
                Err(lost) => self.discard(lane, stack, mbuf, &lost),
            }
        }
        lane.counters.received += kept as u64;
        self.held -= kept as i64;
        (came, kept)
    }

    /// Returns the driver's mbuf as a descriptor. Mbufs are the manager's private memory, but a
    /// driver's word is checked too before it becomes an index.
    #[inline(always)]
    fn describe(&self, lane: &Lane, mbuf: *mut rte_mbuf) -> Result<Descriptor, Lost> {
        // SAFETY: the driver handed the mbuf over, so it is ours to read.
        let filled = unsafe { &*mbuf };
        if filled.nb_segs != 1 {
            return Err(Lost::TooLong);
        }
        lane.accept(filled, FRAME_BYTES_MAX - VLAN_TAG_BYTES)?;
        let (mut offset, mut length) = (u32::from(filled.data_off), filled.pkt_len);
        let room = u32::from(filled.buf_len);
        let index = self.pool.index(mbuf).ok_or(Lost::Failed)?;
        if offset > OFFSET_MAX || offset + length > room {
            return Err(Lost::Failed);
        }
        if filled.ol_flags & ffi::HG_MBUF_VLAN_STRIPPED != 0 && offset >= VLAN_TAG_BYTES {
            let frame = self.pool.region().buffer(index).wrapping_add(offset as usize);
            // SAFETY: the frame is inside the buffer, longer than an Ethernet header, and has 4 bytes
            // before it; the buffer came from a stack, so no NF was told of it.
            unsafe { restore_tag(frame, filled.vlan_tci) };
            offset -= VLAN_TAG_BYTES;
            length += VLAN_TAG_BYTES;
        }
        Ok(Descriptor::new(index, offset, length, 0))
    }

    #[cold]
    fn discard(&mut self, lane: &mut Lane, stack: &mut Stack, mbuf: *mut rte_mbuf, lost: &Lost) {
        lane.count_lost(lost);
        // SAFETY: ours since the driver handed it over, forgotten here; frees all its segments.
        self.pool.with(stack, &mut self.held, || unsafe { ffi::hg_mbuf_free(mbuf) });
    }

    #[inline]
    pub(crate) fn transmit(&mut self, lane: &mut Lane, stack: &mut Stack, burst: &[Descriptor]) -> usize {
        debug_assert_eq!(stack.id(), self.region);
        let mut batch = Batch::new();
        for (place, packet) in burst.iter().enumerate() {
            if packet.length() <= lane.sent_bytes_max {
                let mbuf = self.pool.dress(packet.index(), packet.offset(), packet.length());
                batch.push(mbuf, place);
            }
        }
        let sent = self.pool.with(stack, &mut self.held, || lane.tx_burst(&mut batch));
        self.held += sent as i64;
        self.busy |= sent > 0;
        let done = batch.done(sent, burst.len());
        lane.settle(burst, done, |index| stack.give(index));
        done
    }

    #[inline]
    pub(crate) fn tend(&mut self, lane: &Lane, stack: &mut Stack) {
        self.pool.empty_depot(stack);
        // Drivers free what was sent when they need the place, so the last packets of a burst of
        // traffic would be held until the next one.
        let idle = !std::mem::take(&mut self.busy);
        if idle && self.cleans && self.held > self.resting {
            let (port, number) = (lane.device.port, lane.number);
            let freed = self.pool.with(stack, &mut self.held, || {
                // SAFETY: a started queue of ours; 0 frees all that was sent.
                unsafe { ffi::rte_eth_tx_done_cleanup(port, number, 0) }
            });
            self.cleans = freed >= 0;
        }
    }
}
