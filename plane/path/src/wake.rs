//! Wake: calls NFs that sleep while packets wait for them. The choice is `decide::wake`; the call is ours.

use std::sync::atomic::Ordering;

use headgate_decide::wake::{Cores, worth_a_call};
use headgate_shm::{Offence, doorbell};
use headgate_units::{CoreId, Ticks};

use crate::instance::Instance;
use crate::worker::Worker;

impl Worker {
    /// Looks at every instance that may sleep.
    pub(crate) fn wake_sleepers(&mut self, now: u64) {
        doorbell::published();
        let mut cores = Cores::default();
        let mut sleepers = 0;
        for &number in &self.owned {
            if let Some(instance) = self.instances[number as usize].as_deref_mut()
                && instance.offence.is_none()
            {
                instance.asleep = instance.sleeps && doorbell::is_sleeping(instance.side.doorbell());
                if instance.asleep && instance.held > 0 && !instance.rests {
                    sleepers += 1;
                    continue;
                }
                instance.calls.on_awake();
                // One that sleeps for its disk leaves its core to others, with packets or without.
                if !doorbell::is_asleep(instance.side.doorbell()) {
                    cores.note_awake(CoreId(instance.core), instance.held);
                }
            }
        }
        if sleepers > 0 {
            self.consider_sleepers(now, &mut cores);
        }
        self.arrange_turns(now, cores);
    }

    /// Asks of each sleeper with packets whether it is worth a call.
    fn consider_sleepers(&mut self, now: u64, cores: &mut Cores) {
        for at in 0..self.owned.len() {
            let number = self.owned[at];
            let Some(instance) = self.instances[number as usize].as_deref_mut() else { continue };
            if instance.offence.is_some() || !instance.asleep || instance.held == 0 || instance.rests {
                continue;
            }
            let Ok(backlog) = instance.to_nf.refresh() else {
                self.condemn(number, Offence::ReceiveIndex);
                continue;
            };
            let core = CoreId(instance.core);
            let taken = instance.to_nf.consumed_seen();
            let sleeper = instance.calls.on_asleep(Ticks(now), backlog, taken, cores.state(core));
            if worth_a_call(&instance.marks, &sleeper) {
                instance.called(now);
                self.board.instances[number as usize].calls.add(1);
                cores.note_awake(core, backlog);
            }
        }
    }

    /// Tells NFs that share a core whether another one of it has packets too. Whoever was called just now
    /// is spared until the next look: by then the others may have gone to sleep, and the core was his.
    fn arrange_turns(&mut self, now: u64, cores: Cores) {
        for &number in &self.owned {
            if let Some(instance) = self.instances[number as usize].as_deref_mut() {
                let turns = instance.turns
                    && cores.must_yield(CoreId(instance.core), instance.held)
                    && !instance.calls.is_just_called(Ticks(now));
                if turns != instance.takes_turns {
                    instance.takes_turns = turns;
                    instance.side.orders().take_turns.store(u32::from(turns), Ordering::Relaxed);
                }
            }
        }
    }
}

impl Instance {
    fn called(&mut self, now: u64) {
        self.calls.on_call(Ticks(now), self.to_nf.consumed_seen());
        self.asleep = false;
        if doorbell::take(self.side.doorbell()) {
            doorbell::wake(self.side.doorbell());
        }
    }
}
