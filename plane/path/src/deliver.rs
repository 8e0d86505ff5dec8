//! Station 4, deliver: packets to the instance that is next on their way.
//!
//! How that is done depends on the instance's link: for an NF, its receive ring ([`crate::link`]). An
//! instance never holds more packets than its ring has places; packets beyond that wait at the worker or end.

use crate::board::Station;
use crate::burst::Run;
use crate::ledger::Ledger;
use crate::stages::Stages;
use crate::trace::At;
use crate::view::View;

impl Stages {
    /// Hands packets to one of the instances, at which they are at this position of their chains.
    #[inline]
    pub fn deliver(&mut self, view: &View, ledger: &mut Ledger, at: usize, position: u8, run: Run) {
        let instance = self.instance(at);
        if ledger.watch.is_on() {
            let at = At::Instance(instance.number);
            ledger.passed(Station::Deliver, at, run.region, run.packets, run.places);
        }
        instance.link.deliver(view, ledger, position, run);
    }
}
