//! The worker's end of a connection. Copies, because the client may write to its memory at any time.

use std::ptr::NonNull;
use std::sync::Arc;

use headgate_shm::geometry::{FRAME_BYTES_MIN, HEADROOM_BYTES};
use headgate_shm::{Descriptor, Region, Stack};

use crate::ring::{ClientOffence, Piece, Shared, Watch};

/// Counts of its work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Packets received.
    pub received: u64,
    /// Their bytes.
    pub received_bytes: u64,
    /// Packets sent.
    pub sent: u64,
    /// Their bytes.
    pub sent_bytes: u64,
    /// Packets that came and fit no buffer, or are no Ethernet frames.
    pub unfit: u64,
    /// Packets that were to be sent and are longer than all buffers of the client's ring together.
    pub failed: u64,
}

/// Outcome of sending one packet.
enum Sending {
    /// It lies in so many of the client's buffers.
    Done(u16),
    /// The client has to offer more buffers first.
    NoRoom,
    /// The client can never offer enough.
    NeverFits,
}

/// A connection to a client, as its worker uses it.
pub struct Connection {
    shared: Arc<Shared>,
    /// Our indices in the ring to the client and in that from it.
    sent: u16,
    received: u16,
    counts: Counts,
}

impl Connection {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared, sent: 0, received: 0, counts: Counts::default() }
    }

    /// Returns a view of it for others.
    #[must_use]
    pub fn watch(&self) -> Watch {
        Watch(self.shared.clone())
    }

    /// Returns the counts so far.
    #[must_use]
    pub const fn counts(&self) -> Counts {
        self.counts
    }

    /// Copies packets of a region into buffers that the client offers, as many as there are. Returns how many
    /// are done with; their buffers stay the caller's.
    pub fn transmit(&mut self, region: &Region, packets: &[Descriptor]) -> usize {
        if self.shared.offence().is_some() {
            return 0;
        }
        let before = self.sent;
        let (done, offence) = self.send_all(region, packets);
        if self.sent != before {
            self.shared.to_client.set_tail(self.sent);
        }
        if let Some(offence) = offence {
            self.shared.condemn(offence);
        }
        done
    }

    fn send_all(&mut self, region: &Region, packets: &[Descriptor]) -> (usize, Option<ClientOffence>) {
        let mut free = match self.shared.to_client.offered(self.sent) {
            Ok(free) => free,
            Err(offence) => return (0, Some(offence)),
        };
        for (count, packet) in packets.iter().enumerate() {
            match self.send(region, *packet, free) {
                Ok(Sending::Done(used)) => {
                    free -= used;
                    self.sent = self.sent.wrapping_add(used);
                    self.counts.sent += 1;
                    self.counts.sent_bytes += u64::from(packet.length());
                }
                Ok(Sending::NeverFits) => self.counts.failed += 1,
                Ok(Sending::NoRoom) => return (count, None),
                Err(offence) => return (count, Some(offence)),
            }
        }
        (packets.len(), None)
    }

    fn send(&self, region: &Region, packet: Descriptor, free: u16) -> Result<Sending, ClientOffence> {
        let ring = &self.shared.to_client;
        let (mut done, mut used) = (0, 0);
        while done < packet.length() {
            if used == free {
                return Ok(if free == ring.size() { Sending::NeverFits } else { Sending::NoRoom });
            }
            let index = self.sent.wrapping_add(used);
            let buffer = ring.piece(index);
            let into = self.shared.place(buffer)?;
            let length = buffer.length.min(packet.length() - done);
            if length == 0 {
                return Err(ClientOffence::Extent);
            }
            let part = packet.with_extent(packet.offset() + done, length);
            assert!(part.offset() + length <= region.geometry().stride());
            let from = region.buffer(part.index()).wrapping_add(part.offset() as usize);
            // SAFETY: `length` bytes from `from` offence in the buffer, as was asserted, and `length` bytes
            // from `into` in the client's memory, as was checked; the two are different mappings. An
            // untrusted client that writes to either at the same time spoils a packet.
            unsafe { into.as_ptr().copy_from_nonoverlapping(from, length as usize) };
            done += length;
            used += 1;
            ring.fill(index, Piece { length, goes_on: done < packet.length(), ..buffer });
        }
        Ok(Sending::Done(used))
    }

    /// Copies packets that the client sent into buffers of `stack`. Without a free buffer they stay where
    /// they are.
    pub fn receive(&mut self, stack: &mut Stack, into: &mut [Descriptor]) -> usize {
        if self.shared.offence().is_some() {
            return 0;
        }
        let before = self.received;
        let mut count = 0;
        let result = self.receive_all(stack, into, &mut count);
        if self.received != before {
            self.shared.from_client.set_tail(self.received);
        }
        if let Err(offence) = result {
            self.shared.condemn(offence);
        }
        count
    }

    fn receive_all(
        &mut self,
        stack: &mut Stack,
        into: &mut [Descriptor],
        count: &mut usize,
    ) -> Result<(), ClientOffence> {
        let mut offered = self.shared.from_client.offered(self.received)?;
        // What does not fit takes time too: no more than a burst is examined.
        for _ in 0..into.len() {
            if offered == 0 || *count == into.len() {
                break;
            }
            let Some(index) = stack.take() else { break };
            let taken = self.take(stack, index, offered);
            let (length, used) = match taken {
                Ok(taken) => taken,
                Err(offence) => {
                    stack.give(index);
                    return Err(offence);
                }
            };
            offered -= used;
            self.received = self.received.wrapping_add(used);
            match length {
                Some(length) => {
                    into[*count] = Descriptor::new(index, HEADROOM_BYTES, length, 0);
                    *count += 1;
                    self.counts.received += 1;
                    self.counts.received_bytes += u64::from(length);
                }
                None => {
                    stack.give(index);
                    self.counts.unfit += 1;
                }
            }
        }
        Ok(())
    }

    /// Copies the next packet into a buffer. Its length, unless it does not fit, and how many descriptors it
    /// had.
    fn take(&self, stack: &Stack, index: u32, offered: u16) -> Result<(Option<u32>, u16), ClientOffence> {
        let room = stack.region().geometry().frame_bytes_max();
        let (mut length, mut used) = (0u32, 0);
        loop {
            if used == offered {
                return Err(ClientOffence::Endless);
            }
            let piece = self.shared.from_client.piece(self.received.wrapping_add(used));
            let from = self.shared.place(piece)?;
            used += 1;
            if piece.length <= room.saturating_sub(length) {
                copy_in(stack.region(), index, HEADROOM_BYTES + length, from, piece.length);
            }
            length = length.saturating_add(piece.length);
            if !piece.goes_on {
                break;
            }
        }
        Ok(((FRAME_BYTES_MIN..=room).contains(&length).then_some(length), used))
    }
}

/// Copies a piece of a client's memory, which was checked, into a buffer.
fn copy_in(region: &Region, index: u32, offset: u32, from: NonNull<u8>, length: u32) {
    assert!(offset + length <= region.geometry().stride());
    let into = region.buffer(index).wrapping_add(offset as usize);
    // SAFETY: `length` bytes from `from` offence in the client's memory, as the caller checked, and `length`
    // bytes from `into` in the buffer, as was asserted; the two are different mappings. An untrusted client
    // that writes to either at the same time spoils a packet.
    unsafe { into.copy_from_nonoverlapping(from.as_ptr(), length as usize) };
}
