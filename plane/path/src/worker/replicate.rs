//! Groups of a worker: what comes from other nodes, and what goes to them.

use headgate_units::Ticks;

use crate::BURST;
use crate::commit;
use crate::drop::DropReason;
use crate::emit::emit;
use crate::plan::Hop;
use crate::replica::{self, Clock, Role};
use crate::route::route;
use crate::view::View;

use super::Worker;

/// Packets that may have ended between two passes before the list of them grows. Our choice: what an NF's
/// ring takes by default.
const ENDS: usize = commit::LATCH_PLACES;

impl Worker {
    const fn clock(&self, now: Ticks) -> Clock {
        Clock { ticks: now, ticks_per_micro: self.ticks_per_micro }
    }

    /// Obeys a command for a group, or takes part in one.
    #[cold]
    pub(super) fn obey_for_group(&mut self, now: Ticks, number: u16, command: replica::Command) {
        if let replica::Command::Join(setup) = &command
            && let Role::Member { .. } = setup.role
        {
            self.ledger.ends.get_or_insert_with(|| Vec::with_capacity(ENDS));
            self.stages.in_group = true;
        }
        let clock = self.clock(now);
        self.groups.obey(clock, &mut self.ledger, number, command);
    }

    /// Takes in what other nodes of its groups sent. Returns how many frames that were.
    #[cold]
    pub(super) fn take_from_nodes(&mut self, now: Ticks) -> usize {
        (0..self.groups.count()).map(|at| self.take_from_nodes_of(now, at)).sum()
    }

    fn take_from_nodes_of(&mut self, now: Ticks, at: usize) -> usize {
        if self.groups.of(at).has_left() {
            return 0;
        }
        let (clock, mut moved) = (self.clock(now), 0);
        for link in 0..self.groups.of(at).links().count() {
            let count = self.groups.of(at).links_mut().receive(now, &mut self.ledger, link);
            moved += count;
            // Trains have more packets than a burst.
            for first in (0..count).step_by(BURST) {
                self.burst.count = 0;
                for number in first..count.min(first + BURST) {
                    let group = self.groups.of(at);
                    group.receive(clock, &mut self.ledger, [link, number], &mut self.burst);
                }
                self.send_on_for(now, at);
            }
        }
        loop {
            self.burst.count = 0;
            let count = self.groups.of(at).let_in(clock, &mut self.ledger, &mut self.burst);
            if count == 0 {
                return moved;
            }
            moved += count;
            self.send_on_for(now, at);
        }
    }

    /// Sends packets on that came from another node for a group: into their chain, or out of a port.
    fn send_on_for(&mut self, now: Ticks, at: usize) {
        if self.burst.count == 0 {
            return;
        }
        self.burst.is_one_way = false;
        route(&self.plan, &self.ledger, &mut self.burst);
        if self.groups.of(at).is_gate() {
            self.let_outputs_leave(now);
        } else {
            self.send_on(now);
        }
    }

    /// Sends outputs of the group out of the ports of their chains.
    fn let_outputs_leave(&mut self, now: Ticks) {
        let view = View { now, plan: &self.plan, signals: &self.signals };
        let mut start = 0;
        while start < self.burst.count {
            let (hop, run) = self.burst.run_from(start);
            start += run.len();
            match hop.unpack() {
                Hop::Port(port) => match self.ports.of(port) {
                    Some(queue) => {
                        emit(&view, &mut self.ledger, &mut self.ports, &mut self.exits.whole, queue, run);
                    }
                    None => self.exits.ship_to_port(&view, &mut self.ledger, port, run),
                },
                Hop::End(reason) => self.ledger.end_run(reason, &run),
                _ => self.ledger.end_run(DropReason::NoExit, &run),
            }
        }
    }

    /// Does what is due in each pass.
    #[cold]
    pub(super) fn tend_groups(&mut self, now: Ticks) {
        let clock = self.clock(now);
        let view = View { now, plan: &self.plan, signals: &self.signals };
        self.groups.tend(&view, clock, &mut self.ledger, &mut self.stages);
    }
}
