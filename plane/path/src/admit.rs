//! Station 3, admit: a packet whose chain cannot serve it ends here, at the head, before any work is
//! spent on it.
//!
//! Today a chain is closed when one of its stages is down and must not be bypassed. Backpressure closes
//! chains here too.

use headgate_shm::Descriptor;

use crate::drop::Reason;
use crate::plan::UNCLAIMED;
use crate::worker::Worker;

impl Worker {
    /// Counts `packets` into their common chain and says whether they may go on. If not, they have ended.
    #[inline(always)]
    pub(crate) fn admit(&mut self, chain: u16, region: u8, packets: &[Descriptor]) -> bool {
        self.board.chains[chain as usize].entered.add(packets.len() as u64);
        let Some(reason) = self.plan.closed(chain) else { return true };
        self.end(chain, region, reason, packets);
        false
    }

    /// A packet that never came to a chain.
    #[cold]
    pub(crate) fn turn_away(&mut self, region: u8, reason: Reason, packet: Descriptor) {
        self.board.chains[UNCLAIMED as usize].entered.add(1);
        self.end(UNCLAIMED, region, reason, &[packet]);
    }
}
