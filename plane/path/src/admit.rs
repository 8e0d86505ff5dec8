//! Station 3, admit: a packet whose chain cannot serve it ends here, at the head, before any work is
//! spent on it.
//!
//! A chain is closed when one of its stages is down and must not be bypassed, or throttled
//! ([`crate::pressure`]); one with a delay bound lets in as many packets as it can serve in time
//! ([`crate::bound`]).

use headgate_shm::Descriptor;

use crate::drop::Reason;
use crate::holders::Place;
use crate::plan::UNCLAIMED;
use crate::worker::Worker;

impl Worker {
    /// Counts `packets` into their common chain. Those that may go on stay, at the front, and the others
    /// have ended; returns how many stay.
    #[inline(always)]
    pub(crate) fn admit(
        &mut self,
        chain: u16,
        region: u8,
        packets: &mut [Descriptor],
        places: &mut [Place],
    ) -> usize {
        self.board.chains[chain as usize].entered.add(packets.len() as u64);
        if let Some(reason) = self.plan.closed(chain) {
            self.end(chain, region, reason, packets);
            return 0;
        }
        let mut kept = packets.len();
        if self.pressure.any() {
            kept = self.shed(chain, region, packets, places);
        }
        if self.plan.is_bounded(chain) {
            kept = self.limit(chain, region, &mut packets[..kept], &mut places[..kept]);
        }
        kept
    }

    /// A packet that never came to a chain.
    #[cold]
    pub(crate) fn turn_away(&mut self, region: u8, reason: Reason, packet: Descriptor) {
        self.board.chains[UNCLAIMED as usize].entered.add(1);
        self.end(UNCLAIMED, region, reason, &[packet]);
    }
}
