//! Wake: calls NFs that sleep while packets wait for them. The choice is `decide::wake`; the call is ours.

use headgate_decide::wake::{Sleeper, worth_a_call};
use headgate_shm::{Offence, doorbell};

use crate::worker::Worker;

impl Worker {
    /// Looks at every instance that may sleep.
    pub(crate) fn wake_sleepers(&mut self, now: u64) {
        doorbell::published();
        let mut busy_cores = 0u64;
        for &number in &self.owned {
            if let Some(instance) = self.instances[number as usize].as_deref()
                && instance.offence.is_none()
                && !(instance.sleeps && doorbell::is_sleeping(instance.side.doorbell()))
            {
                busy_cores |= core_bit(instance.core);
            }
        }
        for at in 0..self.owned.len() {
            let number = self.owned[at];
            let Some(instance) = self.instances[number as usize].as_deref_mut() else { continue };
            if instance.offence.is_some() {
                continue;
            }
            if instance.held == 0 || !instance.sleeps || !doorbell::is_sleeping(instance.side.doorbell()) {
                instance.waiting_since = 0;
                continue;
            }
            let Ok(backlog) = instance.to_nf.refresh() else {
                self.condemn(number, Offence::ReceiveIndex);
                continue;
            };
            if instance.waiting_since == 0 {
                instance.waiting_since = now;
            }
            let taken = instance.to_nf.consumed_seen();
            let sleeper = Sleeper {
                backlog,
                age: now.wrapping_sub(instance.waiting_since),
                since_call: now.wrapping_sub(instance.called_at),
                moved: taken != instance.taken_at_call || instance.called_at == 0,
                core_busy: busy_cores & core_bit(instance.core) != 0,
            };
            if worth_a_call(&instance.marks, &sleeper) {
                instance.called_at = now;
                instance.taken_at_call = taken;
                instance.waiting_since = 0;
                busy_cores |= core_bit(instance.core);
                self.board.instances[number as usize].calls.add(1);
                if doorbell::take(instance.side.doorbell()) {
                    doorbell::wake(instance.side.doorbell());
                }
            }
        }
    }
}

/// Cores beyond 63 share bits: then a neighbour's NF counts as company, which only delays a call.
const fn core_bit(core: u16) -> u64 {
    1 << (core % 64)
}
