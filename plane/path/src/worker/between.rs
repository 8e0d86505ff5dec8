//! What a worker tells between two passes: what it waits for, and what it has.

use std::os::fd::BorrowedFd;

use headgate_decide::rest::Quiet;
use headgate_port::Bell;
use headgate_units::RegionId;

use crate::audit::WorkerReport;

use super::Worker;

impl Worker {
    /// Tells what can come, and names the files that can be read from when some of it has. To be called
    /// before a rest.
    pub fn listen<'a>(&'a self, mut hear: impl FnMut(BorrowedFd<'a>)) -> Quiet {
        let mut all_rings = self.stages.are_quiet() && self.intake.workers() < 2;
        if let Some(bell) = self.mailbox.bell() {
            hear(bell);
        }
        let links = self.groups.iter().flat_map(|group| group.links().bells());
        // Packets are left where they are while none are taken in, and would ring without end.
        let ports = self.ports.bells().filter(|_| self.receives);
        for bell in ports.chain(links) {
            match bell {
                Bell::File(file) => hear(file),
                Bell::Missing => all_rings = false,
                Bell::NotNeeded => {}
            }
        }
        Quiet { all_rings, in_group: !self.groups.is_empty() }
    }

    /// Returns the buffers and packets in its hands, for [`crate::audit`].
    #[must_use]
    pub fn report(&self) -> WorkerReport {
        let stores = self.ledger.stores();
        let in_queues = |region: usize| {
            let region = RegionId(region as u8);
            let links = self.groups.iter().map(|group| group.links().hold(region));
            self.ports.hold(region) + self.stages.hold(region) + links.sum::<usize>()
        };
        WorkerReport {
            free: stores.iter().map(|store| [store.stack.free(), store.stack.free_long()].concat()).collect(),
            in_devices: (0..stores.len()).map(in_queues).collect(),
            in_programs: self.stages.outstanding().collect(),
            returns_sent: self.exits.returns_sent(),
            returns_taken: self.intake.returns_taken(),
        }
    }
}
