//! Packets that wait until they are due.

use std::collections::VecDeque;

use headgate_shm::geometry::{HEADROOM_BYTES, STRIDE_MAX};
use headgate_shm::{Descriptor, Stack};

struct Waiting {
    due: u64,
    packet: Descriptor,
}

/// Packets in the order in which they are due; of those due at once the first comes first.
pub(super) struct DelayLine {
    /// Never more than there is room for, so it does not grow.
    packets: VecDeque<Waiting>,
    room: usize,
    /// Time at which the last one is due that nobody overtakes.
    last_due: u64,
    /// A frame on its way from one buffer to another.
    frame: Box<[u8]>,
}

impl DelayLine {
    pub(super) fn new(room: usize) -> Self {
        let frame = vec![0; STRIDE_MAX as usize].into();
        Self { packets: VecDeque::with_capacity(room), room, last_due: 0, frame }
    }

    pub(super) fn len(&self) -> usize {
        self.packets.len()
    }

    pub(super) fn room(&self) -> usize {
        self.room.saturating_sub(self.packets.len())
    }

    /// Adds a packet. One that is late is overtaken by those that are due before it; any other waits for
    /// those before it, so that it overtakes none but late ones.
    pub(super) fn put(&mut self, packet: Descriptor, due: u64, is_late: bool) {
        let due = if is_late { due } else { due.max(self.last_due) };
        if !is_late {
            self.last_due = due;
        }
        let place = self.packets.partition_point(|waiting| waiting.due <= due);
        self.packets.insert(place, Waiting { due, packet });
    }

    /// Writes packets that are due to `into`, in order; returns how many. They stay until they are forgotten.
    pub(super) fn due(&self, now: u64, into: &mut [Descriptor]) -> usize {
        let due = self.packets.iter().take_while(|waiting| waiting.due <= now);
        let places = into.iter_mut().zip(due);
        places.map(|(place, waiting)| *place = waiting.packet).count()
    }

    /// Removes the first packets.
    pub(super) fn forget(&mut self, count: usize) {
        self.packets.drain(..count);
    }

    /// Gives the buffers of all packets back.
    pub(super) fn drain(&mut self, stack: &mut Stack) {
        stack.give_many(self.packets.drain(..).map(|waiting| waiting.packet.index()));
    }

    /// Copies a packet into another buffer; `None` when none is free.
    pub(super) fn copy(&mut self, stack: &mut Stack, packet: Descriptor) -> Option<Descriptor> {
        let index = stack.take()?;
        let length = stack.region().read(packet, &mut self.frame);
        stack.region().write(index, HEADROOM_BYTES, &self.frame[..length]);
        Some(Descriptor::new(index, HEADROOM_BYTES, packet.length(), packet.tag()))
    }
}
