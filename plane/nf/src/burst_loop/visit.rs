//! A visit: a step of the loop where its thread is not its own, but that of whoever hands it packets.

use std::sync::atomic::Ordering;

use super::{BurstLoop, LoopError, Visit};
use crate::clock::cycles;

impl BurstLoop {
    /// Works on one burst, if there is one. Never sleeps, and never waits for anybody.
    #[inline]
    pub(crate) fn visit(&mut self) -> Result<Visit, LoopError> {
        if self.ended().is_some() {
            return self.leave();
        }
        if self.has_mail() {
            self.read_mail()?;
        }
        if self.attached.side.orders().blocked.load(Ordering::Relaxed) != 0 {
            return self.rest();
        }
        if self.pass()? {
            self.idle_samples = 0;
            return Ok(Visit::Worked);
        }
        Ok(Visit::Idle)
    }

    /// Blocked by backpressure: only timers go on.
    #[cold]
    fn rest(&mut self) -> Result<Visit, LoopError> {
        if self.clock.is_due(cycles()) {
            self.tick()?;
        }
        Ok(Visit::Idle)
    }

    #[cold]
    fn leave(&mut self) -> Result<Visit, LoopError> {
        self.drain()?;
        self.nfs.stop();
        self.give_made()?;
        self.environment.tell_counters()?;
        Ok(Visit::Ended)
    }
}
