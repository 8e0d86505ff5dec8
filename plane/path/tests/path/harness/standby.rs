//! Standbys of NFs: how they come, and take over.

use std::os::fd::{AsFd, OwnedFd};
use std::process::Command as Program;
use std::sync::{Arc, LazyLock};

use headgate_path::worker::Command;
use headgate_shm::ManagerSide;
use headgate_shm::owner::DIED;
use headgate_units::InstanceId;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::World;

/// Offset of the owner's word in a control region: see `headgate_shm::control`.
const OWNER: u64 = 392;

/// A process that has ended.
static ENDED: LazyLock<OwnedFd> = LazyLock::new(|| {
    let mut child = Program::new("true").spawn().expect("every machine has it");
    let process = pidfd_open(Pid::from_child(&child), PidfdFlags::empty()).unwrap();
    child.wait().unwrap();
    process
});

impl World {
    /// Starts a standby of an instance, with a handler that forwards.
    pub fn stand_by(&mut self, number: u16) {
        let (nf, ends) = self.make_nf(number);
        self.standbys.insert(number, nf);
        self.post(number, Command::StandBy(Box::new(ends)));
    }

    /// Ends an instance's process, for its standby to take over. The control loop sees it.
    pub fn die(&mut self, number: u16) {
        let dead = self.nfs.remove(&number).expect("it has a process").manager;
        self.post(number, Command::TakeOver { number: InstanceId(number), dead });
    }

    /// Ends an instance's process, as the kernel tells its worker. Returns its memory.
    pub fn die_seen(&mut self, number: u16) -> Arc<ManagerSide> {
        let nf = self.nfs.remove(&number).expect("it has a process");
        nf.manager.bind(ENDED.as_fd()).unwrap();
        rustix::io::pwrite(&nf.control, &DIED.to_ne_bytes(), OWNER).unwrap();
        nf.manager
    }

    /// Makes the standby of an instance, which was told to go, the NF that works. Returns its base and the
    /// packets that it works on alone.
    #[track_caller]
    pub fn promote(&mut self, number: u16) -> (u32, u32) {
        let nf = self.standbys.remove(&number).unwrap();
        let orders = nf.side.orders().promoted().expect("it was told to go");
        self.nfs.insert(number, nf);
        orders
    }

    pub fn post(&self, number: u16, command: Command) {
        self.mailboxes[self.instances[number as usize].worker as usize].post(command);
    }
}
