//! Succession of processes: what a worker does when the process of an instance has died, or a standby comes.
//!
//! A death is seen in two ways. Where the process has a standby, the worker sees it itself, in the pass after
//! the thread's last instruction ([`headgate_shm::owner`]). The control loop hears of every death, later, by
//! the pidfd; of one that the worker has seen it is told, and what it says of that process then has no
//! effect.

use std::sync::Arc;

use headgate_shm::ManagerSide;
use headgate_shm::cpu::cycles;
use headgate_units::{InstanceId, Ticks};

use crate::BURST;
use crate::event::{Event, Promotion};
use crate::link::Death;
use crate::route::route;
use crate::stages::InstanceEnds;
use crate::view::View;

use super::Worker;

/// Most bursts that are taken from an instance that has ended: the largest ring, 65,536 packets.
const LAST_BURSTS: usize = 65_536 / BURST;

impl Worker {
    /// Takes a standby; it may take over at once.
    pub(super) fn stand_by(&mut self, ends: InstanceEnds) {
        let number = ends.number;
        let Some(at) = self.stages.find(number) else { return };
        if let Some(promotion) = self.stages.instance(at).link.stand_by(ends.link, &mut self.ledger) {
            self.tell(Event::Promoted { number, promotion });
        }
    }

    pub(super) fn dismiss(&mut self, number: InstanceId) {
        if let Some(at) = self.stages.find(number) {
            self.stages.instance(at).link.dismiss();
        }
        self.tell(Event::Dismissed { number });
    }

    /// Lets a standby take over from a process that has died. Packets that this had returned in good order go
    /// on, and the standby is given the others.
    pub(super) fn take_over(&mut self, now: Ticks, number: InstanceId, dead: &Arc<ManagerSide>) {
        let Some(at) = self.stages.find(number) else { return self.reclaim(now, number, Some(dead)) };
        if self.stages.instance(at).link.has_another(dead) {
            return;
        }
        self.take_last(now, at);
        match self.stages.instance(at).link.on_death(&mut self.ledger) {
            Death::Succeeded(promotion) => self.tell(Event::Promoted { number, promotion }),
            Death::Waits => {}
            Death::Final => self.reclaim(now, number, None),
        }
    }

    /// Lets standbys take over from processes that were seen to have died. Such a process is ended before
    /// anything that it returned is taken: it may have written itself that it has died.
    #[cold]
    pub(super) fn succeed_the_dead(&mut self, now: Ticks) {
        while let Some(at) = self.stages.to_be_succeeded() {
            let seen = cycles();
            let instance = self.stages.instance(at);
            let number = instance.number;
            instance.link.end_process();
            self.take_last(now, at);
            // One whose standby cannot go on is condemned now, and the control loop hears of its end.
            if let Death::Succeeded(promotion) = self.stages.instance(at).link.on_death(&mut self.ledger) {
                let took = Some(Ticks(cycles().wrapping_sub(seen)));
                self.tell(Event::Promoted { number, promotion: Promotion { took, ..promotion } });
            }
        }
    }

    /// Sends on what an instance whose process has ended had returned.
    fn take_last(&mut self, now: Ticks, at: usize) {
        // Another program that has an interface of an external program may go on sending: not for ever.
        for _ in 0..LAST_BURSTS {
            if self.hop(now, at) == 0 {
                break;
            }
        }
    }

    /// Takes an instance out of service. Packets that it had returned in good order go on, and everything
    /// else that it held has ended. Tells how many packets died with it, and how many it had returned, ever.
    pub(super) fn reclaim(&mut self, now: Ticks, number: InstanceId, dead: Option<&Arc<ManagerSide>>) {
        let Some(at) = self.stages.find(number) else {
            return self.tell(Event::Reclaimed { number, lost: 0, returned: 0 });
        };
        if dead.is_some_and(|dead| self.stages.instance(at).link.has_another(dead)) {
            return;
        }
        self.take_last(now, at);
        let view = View { now, plan: &self.plan, signals: &self.signals };
        let mut remains = self.stages.reclaim(&view, &mut self.ledger, at);
        while remains.fill(&mut self.burst) {
            route(&self.plan, &self.ledger, &mut self.burst);
            self.send_on(now);
        }
        self.tell(Event::Reclaimed { number, lost: remains.lost, returned: remains.returned });
    }
}
