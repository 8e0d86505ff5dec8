//! Reclaim: what an NF held when it died, or was stopped, comes back.
//!
//! Called only when the process can no longer write (its pidfd is readable). What it had already
//! returned in good order goes on; everything else that the holder table says it held has ended.

use crate::drop::Reason;
use crate::worker::Worker;
use headgate_shm::Descriptor;

impl Worker {
    /// Takes an instance out of service. Returns how many packets died with it.
    pub(crate) fn reclaim(&mut self, now: u64, number: u16) -> u32 {
        if let Some(at) = self.boxes.iter().position(|it| it.number() == number) {
            return self.reclaim_box(now, at);
        }
        while self.hop(now, number) > 0 {}
        let Some(instance) = self.instances[number as usize].take() else { return 0 };
        self.owned.retain(|&owned| owned != number);
        self.pressure.set(number, false);
        self.diverts.forget(number);
        let region = instance.region;
        let holders = self.stores[region as usize].holders.clone();
        let mut lost = 0;
        for (index, place) in holders.held_by(instance.holder()) {
            self.end(place.chain(), region, Reason::NfDied, &[Descriptor::new(index, 0, 0, 0)]);
            lost += 1;
        }
        let counts = &self.board.instances[number as usize];
        counts.drops[Reason::NfDied as usize].add(u64::from(lost));
        counts.held.set(0);
        counts.waiting.set(0);
        self.forward_waiting(now, region, instance.waiting);
        lost
    }
}
