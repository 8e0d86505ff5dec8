//! Wake: calls NFs that sleep while packets wait for them. The choice is `decide::wake`; the call is ours.

use std::sync::atomic::Ordering;

use headgate_decide::wake::{Core, Sleeper, TRICKLE, worth_a_call};
use headgate_shm::{Offence, doorbell};

use crate::instance::Instance;
use crate::worker::Worker;

/// What the cores do on which this worker's NFs run, a bit for each.
#[derive(Clone, Copy, Default)]
struct Cores {
    /// An NF is awake.
    awake: u64,
    /// One that is awake has packets.
    working: u64,
    /// More than one is awake and has packets.
    shared: u64,
    /// One that is awake has so many that it is worth letting it work them off.
    busy: u64,
}

impl Cores {
    const fn of(self, core: u16) -> Core {
        match (self.busy & core_bit(core), self.awake & core_bit(core)) {
            (0, 0) => Core::Idle,
            (0, _) => Core::Looking,
            _ => Core::Working,
        }
    }

    const fn has_worker(&mut self, core: u16, packets: u32) {
        self.awake |= core_bit(core);
        self.shared |= self.working & core_bit(core);
        self.working |= core_bit(core);
        if packets >= TRICKLE {
            self.busy |= core_bit(core);
        }
    }

    /// Whether an NF of this core, with packets or without, is in the way of another one that has some.
    const fn has_others(self, core: u16, packets: u32) -> bool {
        (if packets > 0 { self.shared } else { self.working }) & core_bit(core) != 0
    }
}

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
                instance.waiting_since = 0;
                // One that sleeps for its disk leaves its core to others, with packets or without.
                if !doorbell::is_asleep(instance.side.doorbell()) {
                    match instance.held {
                        0 => cores.awake |= core_bit(instance.core),
                        packets => cores.has_worker(instance.core, packets),
                    }
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
            let (core, sleeper) = (instance.core, instance.sleeper(now, backlog, cores.of(instance.core)));
            if worth_a_call(&instance.marks, &sleeper) {
                instance.called(now);
                self.board.instances[number as usize].calls.add(1);
                cores.has_worker(core, backlog);
            }
        }
    }

    /// Tells NFs that share a core whether another one of it has packets too. Whoever was called just now
    /// is spared until the next look: by then the others may have gone to sleep, and the core was his.
    fn arrange_turns(&mut self, now: u64, cores: Cores) {
        for &number in &self.owned {
            if let Some(instance) = self.instances[number as usize].as_deref_mut() {
                let turns = instance.turns
                    && cores.has_others(instance.core, instance.held)
                    && instance.called_at != now;
                if turns != instance.takes_turns {
                    instance.takes_turns = turns;
                    instance.side.orders().take_turns.store(u32::from(turns), Ordering::Relaxed);
                }
            }
        }
    }
}

impl Instance {
    fn sleeper(&mut self, now: u64, backlog: u32, core: Core) -> Sleeper {
        if self.waiting_since == 0 {
            self.waiting_since = now;
        }
        Sleeper {
            backlog,
            age: now.wrapping_sub(self.waiting_since),
            since_call: now.wrapping_sub(self.called_at),
            moved: self.to_nf.consumed_seen() != self.taken_at_call || self.called_at == 0,
            core,
        }
    }

    fn called(&mut self, now: u64) {
        self.called_at = now;
        self.taken_at_call = self.to_nf.consumed_seen();
        self.waiting_since = 0;
        self.asleep = false;
        if doorbell::take(self.side.doorbell()) {
            doorbell::wake(self.side.doorbell());
        }
    }
}

/// Cores beyond 63 share bits: then a neighbour's NF counts as company, which only delays a call.
const fn core_bit(core: u16) -> u64 {
    1 << (core % 64)
}
