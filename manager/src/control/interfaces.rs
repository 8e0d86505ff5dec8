//! NFs on interfaces of the kernel: what they are given, and what is told of them.
//!
//! They are launched, scheduled, watched and restarted as any other. Their packets pass the workers by, so
//! to the packet path they are NFs that no chain visits.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};

use headgate_kernel::Pool;
use headgate_path::drop::DropReason;
use headgate_session::kernel_io::KernelIo;
use headgate_shm::Region;
use headgate_shm::control::InterfaceCounts;

use super::Control;
use super::instance::Instance;
use crate::config::model::{Chain, ChainIo};
use crate::status::{ChainStatus, DropStatus, InterfaceStatus, IoStatus, NfStatus};
use crate::wiring;

/// What an NF on interfaces calls its ports: that towards the chain's entry, and that towards its end.
const PORT_NAMES: [&str; 2] = ["in", "out"];

/// What goes with the welcome of an NF on interfaces.
pub struct Interfaces {
    /// What it is told of them.
    pub told: KernelIo,
    /// Where its packets lie; nobody else's do.
    pub memory: Region,
    /// A socket on each.
    pub sockets: [OwnedFd; 2],
    /// What stays open here as long as it has them.
    pub keeps: Vec<OwnedFd>,
    /// Whether each is without a copy.
    pub zero_copy: [bool; 2],
}

impl Control {
    pub(super) fn interfaces_of(&mut self, at: usize) -> Result<Option<Interfaces>, String> {
        let nf = &self.instances[at].nf;
        let Some(io) = &nf.io else { return Ok(None) };
        let told = wiring::describe(nf, io, self.config.memory.buffer_bytes);
        let memory = Pool::memory(&told, 0).map_err(|error| error.to_string())?;
        let [one, other] = self.wiring.sockets(io, &told, &memory)?;
        let zero_copy = [one.is_zero_copy, other.is_zero_copy];
        let keeps = one.keeps.into_iter().chain(other.keeps).collect();
        Ok(Some(Interfaces { told, memory, sockets: [one.socket, other.socket], keeps, zero_copy }))
    }

    /// Tells what happened between stages.
    pub(super) fn tend_wiring(&mut self) {
        for (chain, what) in self.wiring.events() {
            self.log(&chain, what);
        }
    }

    pub(super) fn port_names(&self, on_interfaces: bool) -> Vec<String> {
        if on_interfaces {
            return PORT_NAMES.map(str::to_owned).into();
        }
        self.config.ports.iter().map(|port| port.name.clone()).collect()
    }

    /// The chains on interfaces, as their NFs tell; at the end, as they told when they were to end.
    pub(super) fn interface_chains(&self) -> Vec<ChainStatus> {
        let chains = self.config.chains.iter().filter_map(|chain| Some((chain, chain.io.as_ref()?)));
        let mut chains = chains.peekable();
        if chains.peek().is_none() {
            return Vec::new();
        }
        let now = if self.parting.is_empty() { self.nfs_status() } else { self.parting.clone() };
        chains.map(|(chain, io)| self.interface_chain(chain, io, &now)).collect()
    }

    /// What ended in them.
    pub(super) fn interface_drops(&self) -> Vec<DropStatus> {
        let mut all: Vec<DropStatus> = Vec::new();
        for instance in &self.instances {
            let Some((chain, io)) = self.chain_on_interfaces(instance).zip(instance.io_status()) else {
                continue;
            };
            for (reason, count) in drops(&io).into_iter().filter(|(_, count)| *count > 0) {
                let same = |drop: &&mut DropStatus| drop.chain == chain && drop.reason == reason.name();
                match all.iter_mut().find(same) {
                    Some(drop) => drop.count += count,
                    None => all.push(DropStatus {
                        chain: chain.to_owned(),
                        reason: reason.name().to_owned(),
                        sentence: reason.sentence().to_owned(),
                        count,
                    }),
                }
            }
        }
        all
    }

    fn chain_on_interfaces(&self, instance: &Instance) -> Option<&str> {
        let visits = |chain: &&Chain| {
            let mut stages = chain.stages.iter();
            chain.io.is_some() && stages.any(|nf| self.config.nfs[nf.index()].name == instance.nf.name)
        };
        self.config.chains.iter().find(visits).map(|chain| chain.name.as_str())
    }

    fn interface_chain(&self, chain: &Chain, io: &ChainIo, nfs: &[NfStatus]) -> ChainStatus {
        let names: Vec<&String> = chain.stages.iter().map(|nf| &self.config.nfs[nf.index()].name).collect();
        let of_stage = |name: &&String| {
            let here = nfs.iter().find(|nf| nf.nf == **name);
            here.and_then(|nf| nf.io.clone()).unwrap_or_default()
        };
        let stages: Vec<IoStatus> = names.iter().map(of_stage).collect();
        let ends = [stages.first().map(|io| &io.interfaces[0]), stages.last().map(|io| &io.interfaces[1])];
        let both = |pick: fn(&InterfaceStatus) -> u64| ends.iter().flatten().map(|end| pick(end)).sum();
        ChainStatus {
            name: chain.name.clone(),
            entry: Some(io.entry.clone()),
            stages: names.into_iter().cloned().collect(),
            out: io.end.clone(),
            entered: both(|interface| interface.received + interface.lost),
            left: both(|interface| interface.sent),
            dropped: stages.iter().flat_map(drops).map(|(_, count)| count).sum(),
            switch: self.wiring.switch_status(&chain.name),
            ..ChainStatus::default()
        }
    }
}

impl Instance {
    /// What its processes say they did on interfaces, if it works on some.
    pub(super) fn io_status(&self) -> Option<IoStatus> {
        let io = self.nf.io.as_ref()?;
        let side = self.process.as_ref().and_then(|process| process.side.as_ref());
        let counts = side.map(|side| side.kernel_counts());
        let before = &self.io_before;
        let read = |value: &AtomicU64| value.load(Ordering::Relaxed);
        let interface = |at: usize| {
            let counts: Option<&InterfaceCounts> = counts.map(|counts| &counts.interfaces[at]);
            let count = |pick: fn(&InterfaceCounts) -> &AtomicU64| counts.map_or(0, |all| read(pick(all)));
            InterfaceStatus {
                name: io.sides[at].to_string(),
                received: before.interfaces[at].received + count(|all| &all.received),
                sent: before.interfaces[at].sent + count(|all| &all.sent),
                calls: before.interfaces[at].calls + count(|all| &all.calls),
                lost: before.interfaces[at].lost + count(|all| &all.lost),
                unsent: before.interfaces[at].unsent + count(|all| &all.unsent),
                too_long: before.interfaces[at].too_long + count(|all| &all.too_long),
                zero_copy: self.process.as_ref().is_some_and(|process| process.zero_copy[at]),
            }
        };
        Some(IoStatus {
            driver: io.driver.name().to_owned(),
            batch: io.batch,
            waits: before.waits + counts.map_or(0, |counts| read(&counts.waits)),
            dropped: before.dropped + counts.map_or(0, |counts| read(&counts.dropped)),
            interfaces: [interface(0), interface(1)],
        })
    }
}

/// Packets that ended at an NF on interfaces, by reason.
pub(super) fn drops(io: &IoStatus) -> [(DropReason, u64); 4] {
    let sum = |pick: fn(&InterfaceStatus) -> u64| io.interfaces.iter().map(pick).sum::<u64>();
    [
        (DropReason::NfVerdict, io.dropped),
        (DropReason::StageFull, sum(|interface| interface.lost)),
        (DropReason::PortFull, sum(|interface| interface.unsent)),
        (DropReason::TooLong, sum(|interface| interface.too_long)),
    ]
}
