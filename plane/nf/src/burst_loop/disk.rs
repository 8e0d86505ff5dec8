//! The loop of an NF that reads or writes files: completions between bursts, suspension, a last flush.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use headgate_shm::doorbell;

use super::{BurstLoop, LoopError, add, give_back};
use crate::burst::Burst;
use crate::disk::drive;
use crate::disk::requests::Requests;

/// Maximum time that packets wait for their reads when the NF ends, and then records for their file. Our
/// choice: the two together end before the manager's patience of 2 s, and the slowest disk there is writes
/// two buffers of 1 MiB in less.
const LAST_READS: Duration = Duration::from_millis(700);
const LAST_WRITES: Duration = Duration::from_millis(800);

impl BurstLoop {
    /// Only where an NF uses the disk.
    fn requests(&self) -> Rc<RefCell<Requests>> {
        self.environment.disk.requests.get().expect("an NF of the process uses the disk").clone()
    }

    /// As `pass_plain`, with what the disk has done before and what it is to do after.
    #[inline(never)]
    pub(super) fn pass_with_disk(&mut self, sampled: bool) -> Result<usize, LoopError> {
        let requests = self.requests();
        self.hear_disk(&requests)?;
        self.is_suspended = !requests.borrow().has_room();
        let count = if self.is_suspended { 0 } else { self.burst.fill(&mut self.receive)? };
        if count > 0 {
            self.process(sampled);
            requests.borrow_mut().absorb(&mut self.burst);
            requests.borrow_mut().start();
            self.give_back()?;
            self.note_burst(count);
        }
        let waits = self.is_suspended || requests.borrow().held() > 0;
        self.attached.side.progress().disk_waits.store(u64::from(waits), Ordering::Relaxed);
        Ok(count)
    }

    /// Takes in what the disk has done, tells the NFs, and begins what they ask for then.
    fn hear_disk(&mut self, requests: &RefCell<Requests>) -> Result<(), LoopError> {
        let now = self.environment.clock.now();
        requests.borrow_mut().poll(now);
        let (attached, environment, transmit) = (&self.attached, &self.environment, &mut self.transmit);
        let give = |burst: &mut Burst| give_back(attached, environment, transmit, burst);
        drive::tell(requests, &mut self.nfs, &mut self.burst, give)?;
        requests.borrow_mut().poll(now);
        self.give_made()
    }

    /// Says that the loop runs, for the manager that sees packets waiting.
    pub(super) fn beat(&self) {
        if self.uses_disk() {
            add(&self.attached.side.progress().disk_beats, 1);
        }
    }

    pub(super) fn has_disk_news(&self) -> bool {
        let requests = self.environment.disk.requests.get();
        requests.is_some_and(|requests| requests.borrow_mut().has_news())
    }

    pub(super) fn next_disk_due(&self) -> Option<Duration> {
        self.environment.disk.requests.get()?.borrow().next_due()
    }

    /// Suspended: sleeps until the disk has done something, or something else than packets wants the NF.
    pub(super) fn wait_for_disk(&mut self) -> Result<(), LoopError> {
        let patience = self.patience();
        if patience.is_zero() {
            return Ok(());
        }
        let suspended = |this: &mut Self| Ok(!this.is_summoned() && !this.has_disk_news());
        let slept = self.sleep_while(doorbell::announce_suspended, suspended, patience)?;
        if slept && !self.has_disk_news() {
            self.check_link()?;
        }
        Ok(())
    }

    /// The end: works off what is in the receive ring and on hold, lets the NFs say their last, and writes
    /// what there is to write; each as long as the disk takes, but not for ever.
    pub(super) fn drain_with_disk(&mut self) -> Result<(), LoopError> {
        let requests = self.requests();
        let end = self.receive.consumed().wrapping_add(self.receive.size());
        let mut until = Some(self.environment.clock.now() + LAST_READS);
        loop {
            let may_take = end.wrapping_sub(self.receive.consumed()) as i32 > 0;
            if may_take && self.pass()? {
                continue;
            }
            self.hear_disk(&requests)?;
            let is_done = requests.borrow().held() == 0 && !(may_take && self.is_suspended);
            if is_done {
                break;
            }
            if !self.wait_until(&requests, until)? && until.take().is_some() {
                requests.borrow_mut().give_up_reads();
                requests.borrow_mut().give_up_logs();
            }
        }
        self.nfs.stop();
        self.flush(&requests)
    }

    fn flush(&mut self, requests: &RefCell<Requests>) -> Result<(), LoopError> {
        let until = Some(self.environment.clock.now() + LAST_WRITES);
        loop {
            requests.borrow_mut().flush_all();
            self.hear_disk(requests)?;
            let is_told = !requests.borrow_mut().has_news();
            if is_told && !requests.borrow().is_writing() {
                break;
            }
            if !self.wait_until(requests, until)? {
                requests.borrow_mut().give_up_logs();
            }
        }
        requests.borrow_mut().close();
        Ok(())
    }

    /// Sleeps until the disk has done something. False when that took too long.
    fn wait_until(
        &mut self,
        requests: &RefCell<Requests>,
        until: Option<Duration>,
    ) -> Result<bool, LoopError> {
        let left = until.unwrap_or_default().saturating_sub(self.environment.clock.now());
        if left.is_zero() {
            return Ok(false);
        }
        let waits = |_: &mut Self| Ok(!requests.borrow_mut().has_news());
        self.sleep_while(doorbell::announce_suspended, waits, left.min(super::PATIENCE))?;
        Ok(true)
    }
}

#[cfg(test)]
#[path = "disk_tests.rs"]
mod tests;
