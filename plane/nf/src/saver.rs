//! Saver of packets: a death is to leave them as they were delivered, for a standby is given them again.

use std::cell::Cell;
use std::rc::Rc;

use headgate_shm::{Descriptor, Region};

use crate::state::core::Core;

/// Saves packets of the burst at hand before they change.
pub(crate) struct Saver {
    core: Rc<Core>,
    /// Number of the burst in which the packet of a buffer was saved last.
    saved_in: Box<[Cell<u64>]>,
}

impl Saver {
    pub(crate) fn new(core: Rc<Core>, region: &Region) -> Self {
        let indices = region.geometry().indices() as usize;
        Self { core, saved_in: vec![Cell::new(0); indices].into_boxed_slice() }
    }

    /// Saves a packet as it was delivered, unless it was saved in this burst.
    #[inline]
    pub(crate) fn save(&self, received: Descriptor, region: &Region) {
        let saved_in = &self.saved_in[received.index() as usize];
        if saved_in.replace(self.core.edition()) != self.core.edition() {
            self.core.save_packet(received, region);
        }
    }
}
