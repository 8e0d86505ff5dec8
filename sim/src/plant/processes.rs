//! Processes of instances that stop, end and begin: what that does to cores, links and packets.

use headgate_decide::spread;
use headgate_decide::units::{InstanceId, Instant};

use super::{Plant, Stage};
use crate::sender::Fate;

impl Plant {
    /// A signal stops an instance's process.
    pub(crate) fn stop(&mut self, instance: usize) {
        let seat = self.links[instance].seat;
        self.cores[seat.core].take_out(seat.task);
        self.nfs[instance].stop();
    }

    /// An instance's process ends.
    pub(crate) fn end(&mut self, now: Instant, instance: usize) {
        let seat = self.links[instance].seat;
        self.cores[seat.core].take_out(seat.task);
        if self.links[instance].set_out(Some(now)) {
            self.note_throttled(now, instance, false);
        }
    }

    /// Its worker takes back what it held. What it had returned goes on, what waited for room goes to another
    /// instance, and the rest ends with it. Returns how many packets do.
    pub(crate) fn reclaim(&mut self, instance: usize) -> u32 {
        let mut lost = 0;
        for run in self.nfs[instance].end() {
            lost += run.packets;
            let chain = self.flows[usize::from(run.flow)].chain;
            self.chains[chain].died += u64::from(run.packets);
            self.tell_sender(&run, Fate::Lost);
        }
        self.links[instance].held -= lost;
        while let Some(run) = self.links[instance].pending.pop(u32::MAX) {
            match self.instance_at(run.flow, run.position) {
                Some(other) => self.deliver(other, run),
                None => self.end_at_down(&run),
            }
        }
        lost
    }

    /// An instance has a fresh process.
    pub(crate) fn begin(&mut self, now: Instant, instance: usize) {
        let seat = self.links[instance].seat;
        self.links[instance].set_out(None);
        self.cores[seat.core].begin(seat.task, now);
    }

    /// Spreads the flows of an NF over the instances of it that have a process. Flows that move may be
    /// overtaken on their old way.
    pub(crate) fn publish(&mut self, nf: usize) {
        let running = |one: &usize| !self.links[*one].is_out;
        let running: Vec<usize> = self.stages[nf].instances.iter().copied().filter(running).collect();
        let before = self.stages[nf].clone();
        self.stages[nf].run_by(running);
        self.note_moves(nf, &before);
    }

    /// Moves some flows of one instance of an NF to another one, which is faster.
    pub(crate) fn relieve(&mut self, nf: usize, from: InstanceId, to: InstanceId) {
        let before = self.stages[nf].clone();
        spread::relieve(&mut self.stages[nf].table, from, to);
        self.note_moves(nf, &before);
    }

    /// Flows of an NF that go to another instance than before may be overtaken on their old way.
    fn note_moves(&mut self, nf: usize, before: &Stage) {
        for flow in &mut self.flows {
            let visits = self.chains[flow.chain].position_of(nf).is_some();
            if visits && before.instance_of(flow.slot) != self.stages[nf].instance_of(flow.slot) {
                flow.moved = flow.entered;
            }
        }
    }
}
