//! Standbys of NFs: how they come, and take over.

use headgate_path::worker::Command;
use headgate_units::InstanceId;

use super::World;

impl World {
    /// Starts a standby of an instance, with a handler that forwards.
    pub fn stand_by(&mut self, number: u16) {
        let (nf, ends) = self.make_nf(number);
        self.standbys.insert(number, nf);
        self.post(number, Command::StandBy(Box::new(ends)));
    }

    /// Ends an instance's process, for its standby to take over.
    pub fn die(&mut self, number: u16) {
        self.nfs.remove(&number);
        self.post(number, Command::TakeOver { number: InstanceId(number) });
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

    fn post(&self, number: u16, command: Command) {
        self.mailboxes[self.instances[number as usize].worker as usize].post(command);
    }
}
