//! What there is of machines, cables and chains over them, as plain values.

use headgate_decide::spread::SLOTS;
use headgate_decide::units::Span;
use serde::{Deserialize, Serialize};

use crate::costs::Costs;
use crate::scene::{Arrivals, Nf, Scheduler};

/// Machines, the cables between them, and chains over them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkedScene {
    /// Seed of everything that is drawn.
    pub seed: u64,
    /// Time before counts begin.
    pub warm_up: Span,
    /// Time for which is counted.
    pub horizon: Span,
    /// Time between two computations of prices, after each of which flows may move.
    pub period: Span,
    /// What things cost on all machines.
    pub costs: Costs,
    /// Scheduling of NFs on all machines.
    pub scheduler: Scheduler,
    /// The machines, each with one worker.
    pub machines: Vec<Machine>,
    /// The cables.
    pub cables: Vec<Cable>,
    /// The chains.
    pub chains: Vec<LinkedChain>,
}

/// A machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// Its name.
    pub name: String,
    /// Its NFs.
    pub nfs: Vec<Nf>,
}

/// A cable, which carries packets in both directions at once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cable {
    /// The machines at its ends.
    pub ends: [u16; 2],
    /// Bits per second in each direction.
    pub rate: u64,
    /// Time that a bit takes.
    pub delay: Span,
    /// Packets that wait for each direction.
    pub queue: u32,
    /// Packets of a million that are lost by chance.
    #[serde(default)]
    pub loss_ppm: u32,
}

/// A chain over machines.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkedChain {
    /// Its name.
    pub name: String,
    /// By stage the NFs that may work on a packet, one of a machine at most. That of the first stage is on
    /// the machine by which packets come.
    pub stages: Vec<Vec<Host>>,
    /// Machine that packets leave by.
    pub exit: u16,
    /// When packets come.
    pub arrivals: Arrivals,
    /// Bytes of a frame.
    pub bytes: u32,
    /// Number of flows that share its packets and are steered each by itself.
    pub flows: u16,
}

/// An NF of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Host {
    /// The machine.
    pub machine: u16,
    /// The NF, among those of the machine.
    pub nf: u16,
}

const MACHINES_MAX: usize = 64;
const STAGES_MAX: usize = 16;
const DELAY_MIN: Span = Span::from_micros(1);

impl LinkedChain {
    /// Machine that packets come by.
    pub(crate) fn entry(&self) -> u16 {
        self.stages[0][0].machine
    }

    /// Returns the NF of a machine that works at a position.
    pub(crate) fn nf_at(&self, machine: u16, position: usize) -> Option<u16> {
        let hosts = self.stages.get(position)?;
        hosts.iter().find(|host| host.machine == machine).map(|host| host.nf)
    }
}

impl LinkedScene {
    /// Returns everything that is wrong with it, each a sentence with its place. What is wrong with a single
    /// machine is told by its own scene.
    #[must_use]
    pub fn mistakes(&self) -> Vec<String> {
        let mut found = Vec::new();
        let mut check = |is_right: bool, what: String| {
            if !is_right {
                found.push(what);
            }
        };
        let machines = self.machines.len();
        check((1..=MACHINES_MAX).contains(&machines), format!("machines: there are 1 to {MACHINES_MAX}"));
        check(self.period > Span::ZERO, "period: prices are computed after some time".to_owned());
        for (number, cable) in self.cables.iter().enumerate() {
            let place = format!("cables[{number}]");
            let [one, other] = cable.ends.map(usize::from);
            let joins_two = one != other && one.max(other) < machines;
            check(joins_two, format!("{place}.ends: a cable joins two machines, numbered from 0"));
            check(cable.rate > 0, format!("{place}.rate: nothing passes a cable without a rate"));
            let takes_time = (DELAY_MIN..=Span::from_secs(10)).contains(&cable.delay);
            check(takes_time, format!("{place}.delay: a bit takes 1 us to 10 s"));
            check(cable.queue > 0, format!("{place}.queue: one packet waits at least"));
            check(cable.loss_ppm < 1_000_000, format!("{place}.loss_ppm: fewer than all are lost"));
        }
        for (number, chain) in self.chains.iter().enumerate() {
            self.check_chain(&format!("chains[{number}]"), chain, &mut check);
        }
        found
    }

    fn check_chain(&self, place: &str, chain: &LinkedChain, check: &mut impl FnMut(bool, String)) {
        let machines = self.machines.len();
        let count = chain.stages.len();
        check((1..=STAGES_MAX).contains(&count), format!("{place}.stages: there are 1 to {STAGES_MAX}"));
        let first = chain.stages.first().is_some_and(|hosts| hosts.len() == 1);
        check(first, format!("{place}.stages[0]: one NF, on the machine that packets come by"));
        for (at, hosts) in chain.stages.iter().enumerate() {
            let is_there = |host: &Host| {
                let machine = self.machines.get(usize::from(host.machine));
                machine.is_some_and(|machine| usize::from(host.nf) < machine.nfs.len())
            };
            let are = !hosts.is_empty() && hosts.iter().all(is_there);
            check(are, format!("{place}.stages[{at}]: an NF of a machine, or several"));
            let twice =
                |(at, host): (usize, &Host)| hosts[..at].iter().any(|one| one.machine == host.machine);
            let once = !hosts.iter().enumerate().any(twice);
            check(once, format!("{place}.stages[{at}]: one NF of a machine at most"));
        }
        check(usize::from(chain.exit) < machines, format!("{place}.exit: there is no such machine"));
        check(
            (1..=SLOTS).contains(&usize::from(chain.flows)),
            format!("{place}.flows: there are 1 to {SLOTS}"),
        );
        let rate = chain.arrivals.rate().unwrap_or(0);
        check(
            rate >= u64::from(chain.flows),
            format!("{place}.arrivals: a packet a second of each flow at least"),
        );
        let heeds = matches!(chain.arrivals, Arrivals::Tcp { .. });
        check(
            !heeds,
            format!("{place}.arrivals: senders of TCP hear nothing over cables; choose another kind"),
        );
    }
}
