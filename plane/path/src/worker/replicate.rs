//! Group of a worker: what comes from other nodes, and what goes to them.

use headgate_units::Ticks;

use crate::BURST;
use crate::commit;
use crate::drop::DropReason;
use crate::emit::emit;
use crate::plan::Hop;
use crate::replica::{self, Clock, Replica, Role};
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

    /// Obeys a command for the group, or takes part in one.
    #[cold]
    pub(super) fn obey_for_group(&mut self, now: Ticks, command: replica::Command) {
        let clock = self.clock(now);
        if let replica::Command::Join(setup) = command {
            if let Role::Member { .. } = &setup.role {
                self.ledger.ends = Some(Vec::with_capacity(ENDS));
                self.stages.in_group = true;
            }
            self.replica = Some(Box::new(Replica::new(clock, *setup)));
        } else if let Some(replica) = &mut self.replica {
            replica.obey(clock, &mut self.ledger, command);
        }
    }

    /// Takes in what other nodes of the group sent. Returns how many frames that were.
    #[cold]
    pub(super) fn take_from_nodes(&mut self, now: Ticks) -> usize {
        let Some(mut replica) = self.replica.take_if(|replica| !replica.has_left()) else { return 0 };
        let (clock, mut moved) = (self.clock(now), 0);
        for link in 0..replica.links().count() {
            let count = replica.links_mut().receive(now, &mut self.ledger, link);
            moved += count;
            // Trains have more packets than a burst.
            for first in (0..count).step_by(BURST) {
                self.burst.count = 0;
                for number in first..count.min(first + BURST) {
                    let at = [link, number];
                    match &mut *replica {
                        Replica::Gate(gate) => gate.receive(clock, &mut self.ledger, at, &mut self.burst),
                        Replica::Member(member) => {
                            member.receive(clock, &mut self.ledger, at, &mut self.burst);
                        }
                    }
                }
                replica = self.send_on_for(now, replica);
            }
        }
        loop {
            self.burst.count = 0;
            let count = match &mut *replica {
                Replica::Gate(_) => 0,
                Replica::Member(member) => member.let_in(clock, &mut self.ledger, &mut self.burst),
            };
            if count == 0 {
                break;
            }
            moved += count;
            replica = self.send_on_for(now, replica);
        }
        self.replica = Some(replica);
        moved
    }

    /// Sends packets on that came from another node: into their chain, or out of a port.
    fn send_on_for(&mut self, now: Ticks, replica: Box<Replica>) -> Box<Replica> {
        if self.burst.count == 0 {
            return replica;
        }
        self.burst.is_one_way = false;
        route(&self.plan, &self.ledger, &mut self.burst);
        if let Replica::Gate(_) = *replica {
            self.let_outputs_leave(now);
            return replica;
        }
        self.replica = Some(replica);
        self.send_on(now);
        self.replica.take().expect("a group is not left within a pass")
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
    pub(super) fn tend_group(&mut self, now: Ticks) {
        let clock = self.clock(now);
        let view = View { now, plan: &self.plan, signals: &self.signals };
        match self.replica.as_deref_mut() {
            Some(Replica::Gate(gate)) => {
                gate.poll(clock, &mut self.ledger);
                gate.links.tend(now, &mut self.ledger);
            }
            Some(Replica::Member(member)) => {
                member.poll(&view, clock, &mut self.ledger, &mut self.stages);
                member.links.tend(now, &mut self.ledger);
            }
            None => {}
        }
    }
}
