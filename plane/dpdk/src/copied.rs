//! A queue whose driver works on private mbufs: one copy each way.

use std::ptr;
use std::sync::Arc;

use headgate_shm::geometry::HEADROOM_BYTES;
use headgate_shm::{Descriptor, Region, Stack};

use crate::ffi::{self, rte_mbuf};
use crate::private_pool::PrivatePool;
use crate::queue::{BURST, Batch, Lane, Lost, VLAN_TAG_BYTES, restore_tag};

pub(crate) struct Copied {
    pool: Arc<PrivatePool>,
}

impl Copied {
    pub(crate) const fn new(pool: Arc<PrivatePool>) -> Self {
        Self { pool }
    }

    pub(crate) fn receive(
        &mut self,
        lane: &mut Lane,
        stack: &mut Stack,
        into: &mut [Descriptor],
    ) -> (usize, usize) {
        let mut mbufs = [ptr::null_mut(); BURST];
        // What has no buffer waits in the driver.
        let most = into.len().min(stack.len());
        if most == 0 {
            return (0, 0);
        }
        let came = lane.rx_burst(&mut mbufs, most);
        let mut kept = 0;
        for &mbuf in &mbufs[..came] {
            // SAFETY: the driver handed the mbuf over, so it is ours to read.
            match copy_in(lane, unsafe { &*mbuf }, stack) {
                Ok(descriptor) => {
                    lane.counters.received_bytes += u64::from(descriptor.length());
                    into[kept] = descriptor;
                    kept += 1;
                }
                Err(lost) => lane.count_lost(&lost),
            }
        }
        PrivatePool::give(&mut mbufs[..came]);
        lane.counters.received += kept as u64;
        (came, kept)
    }

    pub(crate) fn transmit(&mut self, lane: &mut Lane, stack: &mut Stack, burst: &[Descriptor]) -> usize {
        let fits = |packet: &Descriptor| packet.length() <= lane.sent_bytes_max;
        let wanted = burst.iter().filter(|packet| fits(packet)).count();
        let mut fresh = [ptr::null_mut(); BURST];
        // None are free when the device has not sent the last ones yet: the packets wait.
        if !self.pool.take(&mut fresh[..wanted]) {
            return 0;
        }
        let mut batch = Batch::new();
        for (place, packet) in burst.iter().enumerate().filter(|(_, packet)| fits(packet)) {
            let mbuf = fresh[batch.count];
            // SAFETY: just taken and seen by nobody else; `fits` bounds the length by its room.
            unsafe { copy_out(stack.region(), *packet, mbuf) };
            batch.push(mbuf, place);
        }
        let sent = lane.tx_burst(&mut batch);
        PrivatePool::give(&mut batch.mbufs[sent..batch.count]);
        let done = batch.done(sent, burst.len());
        lane.settle(burst, done, |_| ());
        burst[..done].iter().for_each(|packet| stack.give(packet.index()));
        done
    }
}

/// Copies a frame, all its segments, into a buffer of the stack.
fn copy_in(lane: &Lane, mbuf: &rte_mbuf, stack: &mut Stack) -> Result<Descriptor, Lost> {
    lane.accept(mbuf, stack.region().geometry().frame_bytes_max() - VLAN_TAG_BYTES)?;
    let index = stack.take().ok_or(Lost::Failed)?;
    let region = stack.region();
    let mut length = 0;
    let mut segment = Some(mbuf);
    while let Some(part) = segment {
        let bytes = u32::from(part.data_len).min(mbuf.pkt_len - length);
        // SAFETY: an mbuf names `data_len` bytes of its own memory.
        let data = unsafe {
            let start = part.buf_addr.cast::<u8>().add(usize::from(part.data_off));
            std::slice::from_raw_parts(start, bytes as usize)
        };
        region.write(index, HEADROOM_BYTES + length, data);
        length += bytes;
        // SAFETY: null, or the next segment of the same packet.
        segment = unsafe { part.next.as_ref() };
    }
    let mut offset = HEADROOM_BYTES;
    if mbuf.ol_flags & ffi::HG_MBUF_VLAN_STRIPPED != 0 {
        // SAFETY: the frame is longer than an Ethernet header and has the headroom before it; the
        // buffer came from the stack, so no NF was told of it.
        unsafe { restore_tag(region.buffer(index).add(offset as usize), mbuf.vlan_tci) };
        offset -= VLAN_TAG_BYTES;
        length += VLAN_TAG_BYTES;
    }
    Ok(Descriptor::new(index, offset, length, 0))
}

/// Copies a packet to an mbuf.
///
/// # Safety
/// `mbuf` is fresh, the caller's, and has room for the packet.
unsafe fn copy_out(region: &Region, packet: Descriptor, mbuf: *mut rte_mbuf) {
    // SAFETY: by the contract above.
    unsafe {
        let start = (*mbuf).buf_addr.cast::<u8>().add(usize::from((*mbuf).data_off));
        region.read(packet, std::slice::from_raw_parts_mut(start, packet.length() as usize));
        (*mbuf).pkt_len = packet.length();
        (*mbuf).data_len = packet.length() as u16;
    }
}
