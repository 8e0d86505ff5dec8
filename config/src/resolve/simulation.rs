//! Resolution of `[sim]`: what holds of it whatever the simulator can model.

use super::super::codes::Code;
use super::super::document::{Document, SimCostsTable, SimFaultTable, SimNfTable, SimTable, SimTrafficTable};
use super::super::model::{ChainId, Nf, NfId, PortId, Program};
use super::super::read::{At, Field};
use super::super::simulation::{Arrivals, NfCost, Pauses, SimFault, Simulation, Traffic};
use super::super::values::{ArrivalKind, Whole};
use super::names::Names;
use super::{Defined, Resolver, items};

/// The shipped NF whose arguments say what a packet costs.
const SYNTHETIC: &str = "synthetic";

/// Returns the number of cores that a file is modelled with.
pub fn cores_of_model(document: &Document) -> u32 {
    let table = document.sim.value();
    if let Some(cores) = table.and_then(|table| table.cores.value()) {
        return cores.0 as u32;
    }
    let workers = document.manager.value().map_or(&[][..], |table| items(&table.cores));
    let of_nfs = items(&document.nf).iter().filter_map(|nf| nf.value.core.value());
    let of_nodes = items(&document.node).iter().flat_map(|node| items(&node.value.cores));
    let named = of_nfs
        .flat_map(|cores| &cores.0.items)
        .chain(workers)
        .chain(of_nodes)
        .map(|core| core.value.0 as u32 + 1);
    named.max().unwrap_or(0).max(2)
}

impl Resolver<'_> {
    /// The table, as far as it can be told; every mistake in it is reported.
    pub(super) fn simulation(
        &mut self,
        document: &Document,
        defined: &Defined<'_>,
        nfs: &[Option<Nf>],
    ) -> Option<Simulation> {
        let table = document.sim.value()?;
        let own_costs = self.nf_costs(table, &defined.nfs, nfs);
        let traffic = items(&table.traffic).iter().filter_map(|at| self.traffic(at, defined)).collect();
        let pauses = self.pauses(table, &defined.nfs, nfs.len());
        let faults = items(&table.fault).iter().filter_map(|at| self.fault(at, &defined.nfs, nfs)).collect();
        let of = |(nf, own): (&Option<Nf>, Option<u64>)| own.map(NfCost::Cycles).or_else(|| synthetic(nf));
        Some(Simulation {
            seed: table.seed.value()?.0,
            warm_up_ns: table.warm_up.value()?.0,
            horizon_ns: table.horizon.value()?.0,
            cost_file: table.cost_file.value().map(|file| self.folder.join(&file.0)),
            costs: table.costs.value().map(costs)?,
            nfs: nfs.iter().zip(own_costs).map(of).collect(),
            pauses,
            faults,
            traffic,
        })
    }

    fn pauses(&mut self, table: &SimTable, names: &Names<'_>, count: usize) -> Vec<Option<Pauses>> {
        let mut pauses = vec![None; count];
        for at in items(&table.nf) {
            let SimNfTable { name, pause_every, pause, .. } = &at.value;
            let both = match (&pause_every.key, &pause.key) {
                (Some(span), None) | (None, Some(span)) => {
                    let message = "a pause has a length, and packets between two of them";
                    self.report.add(Code::MissingKey, span, message).help("give `pause_every` and `pause`");
                    continue;
                }
                _ => pause_every.value().zip(pause.value()),
            };
            let place = name.found.as_ref().and_then(|name| names.find(name, self.report));
            if let (Some(slot), Some((every, length))) = (place.and_then(|nf| pauses.get_mut(nf)), both) {
                *slot = Some(Pauses { every: every.0 as u32, length_ns: length.0 });
            }
        }
        pauses
    }

    fn fault(&mut self, at: &At<SimFaultTable>, names: &Names<'_>, nfs: &[Option<Nf>]) -> Option<SimFault> {
        let SimFaultTable { nf, instance, at: when, what, .. } = &at.value;
        let number = names.find(nf.found.as_ref()?, self.report)?;
        let instance = instance.value()?.0 as u16;
        let instances = nfs.get(number)?.as_ref()?.cores.len();
        if usize::from(instance) >= instances {
            let span = at.value.instance.key.as_ref().unwrap_or(&at.span);
            let message = format!("there is no instance {instance}: the NF has {instances}");
            self.report.add(Code::OutOfRange, span, message).help("count from 0");
            return None;
        }
        Some(SimFault { nf: NfId(number as u16), instance, at_ns: when.value()?.0, what: *what.value()? })
    }

    fn nf_costs(&mut self, table: &SimTable, names: &Names<'_>, nfs: &[Option<Nf>]) -> Vec<Option<u64>> {
        let mut costs = vec![None; nfs.len()];
        for SimNfTable { name, cycles, .. } in items(&table.nf).iter().map(|at| &at.value) {
            let Some(name) = &name.found else { continue };
            let (place, cycles) = (names.find(name, self.report), cycles.value());
            let Some((cost, cycles)) = place.and_then(|place| costs.get_mut(place)).zip(cycles) else {
                continue;
            };
            if cost.replace(cycles.0).is_some() {
                let message = format!("the NF `{}` has two costs", name.value.0);
                self.report.add(Code::KeyConflict, &name.span, message).help("leave one [[sim.nf]] out");
            }
        }
        costs
    }

    fn traffic(&mut self, at: &At<SimTrafficTable>, defined: &Defined<'_>) -> Option<Traffic> {
        let table = &at.value;
        let chain = table.chain.found.as_ref().and_then(|name| defined.chains.find(name, self.report));
        let port = defined.ports.find(table.port.found.as_ref()?, self.report)?;
        let arrivals = self.arrivals(table);
        Some(Traffic {
            port: PortId(port as u16),
            chain: chain.map(|chain| ChainId(chain as u16)),
            rate: self.rate(at)?,
            bytes: table.size.value()?.0 as u32,
            arrivals: arrivals?,
        })
    }

    /// Returns the rate of traffic: a capture has its own.
    fn rate(&mut self, at: &At<SimTrafficTable>) -> Option<u64> {
        let SimTrafficTable { rate, arrivals, .. } = &at.value;
        let replays = *arrivals.value()? == ArrivalKind::Capture;
        match &rate.key {
            Some(span) if replays => {
                let message = "`rate` has no effect with capture arrivals";
                self.report.add(Code::KeyConflict, span, message).help("leave it out: the capture says it");
                None
            }
            None if replays => Some(0),
            None => {
                let message = "traffic needs `rate`";
                let help = "add `rate = \"1M\"`: packets per second";
                self.report.add(Code::MissingKey, &at.span, message).help(help);
                None
            }
            Some(_) => Some(rate.value()?.0),
        }
    }

    /// Keys that only one kind of arrivals has, and needs.
    fn check_keys_of(&mut self, kind: ArrivalKind, table: &SimTrafficTable) {
        let all = [
            (&table.capture.key, "capture", ArrivalKind::Capture, "capture = \"FILE\""),
            (&table.rtt.key, "rtt", ArrivalKind::Tcp, "rtt = \"1ms\""),
            (&table.window.key, "window", ArrivalKind::Tcp, ""),
            (&table.ecn.key, "ecn", ArrivalKind::Tcp, ""),
        ];
        for (key, name, of, example) in all {
            match key {
                Some(span) if kind != of => {
                    let message = format!("`{name}` has no effect with {} arrivals", kind.word());
                    let help = format!("set `arrivals = \"{}\"`, or leave it out", of.word());
                    self.report.add(Code::KeyConflict, span, message).help(help);
                }
                None if kind == of && !example.is_empty() => {
                    let message = format!("{} arrivals need `{name}`", kind.word());
                    let help = format!("add `{example}`");
                    let span = table.arrivals.key.as_ref().unwrap_or(&table.span);
                    self.report.add(Code::MissingKey, span, message).help(help);
                }
                _ => {}
            }
        }
    }

    fn arrivals(&mut self, table: &SimTrafficTable) -> Option<Arrivals> {
        let kind = *table.arrivals.value()?;
        self.check_keys_of(kind, table);
        let bursts = matches!(kind, ArrivalKind::OnOff | ArrivalKind::HeavyTailed);
        for (key, name) in [(&table.on, "on"), (&table.off, "off")] {
            match &key.key {
                Some(span) if !bursts => {
                    let message = format!("`{name}` has no effect with {} arrivals", kind.word());
                    let help = "set `arrivals = \"on-off\"`, or leave it out";
                    self.report.add(Code::KeyConflict, span, message).help(help);
                }
                None if bursts => {
                    let message = format!("bursts need `{name}`");
                    let help = format!("add `{name} = \"1ms\"`: their mean length is `on`, the pause `off`");
                    self.report.add(Code::MissingKey, &table.span, message).help(help);
                }
                _ => {}
            }
        }
        Some(match kind {
            ArrivalKind::Constant => Arrivals::Constant,
            ArrivalKind::Poisson => Arrivals::Poisson,
            ArrivalKind::OnOff => {
                Arrivals::OnOff { on_ns: table.on.value()?.0, off_ns: table.off.value()?.0 }
            }
            ArrivalKind::HeavyTailed => {
                Arrivals::HeavyTailed { on_ns: table.on.value()?.0, off_ns: table.off.value()?.0 }
            }
            ArrivalKind::Capture => Arrivals::Capture(self.folder.join(&table.capture.value()?.0)),
            ArrivalKind::Tcp => Arrivals::Tcp {
                rtt_ns: table.rtt.value()?.0,
                window: table.window.value()?.0 as u32,
                ecn: *table.ecn.value()?,
            },
        })
    }
}

/// Returns the cost that the arguments of a synthetic NF say.
fn synthetic(nf: &Option<Nf>) -> Option<NfCost> {
    let Program::Run(shipped) = nf.as_ref()?.origin.program()? else { return None };
    let cycles = shipped.args.get("cycles").filter(|_| shipped.run == SYNTHETIC)?;
    Some(NfCost::Synthetic(cycles.clone()))
}

/// Returns the costs that the file gives.
fn costs(table: &SimCostsTable) -> Vec<(&'static str, u64)> {
    fn given<const MIN: u64, const MAX: u64>(field: &Field<Whole<MIN, MAX>>) -> Option<u64> {
        field.value().map(|value| value.0)
    }
    let all = [
        ("cycles_per_micro", given(&table.cycles_per_micro)),
        ("worker_enter_ps", given(&table.worker_enter_ps)),
        ("worker_shed_ps", given(&table.worker_shed_ps)),
        ("worker_hop_ps", given(&table.worker_hop_ps)),
        ("worker_leave_ps", given(&table.worker_leave_ps)),
        ("worker_pass_ns", given(&table.worker_pass_ns)),
        ("nf_packet_ps", given(&table.nf_packet_ps)),
        ("nf_burst_ns", given(&table.nf_burst_ns)),
        ("switch_ns", given(&table.switch_ns)),
        ("refill_ns", given(&table.refill_ns)),
        ("refill_after_ns", given(&table.refill_after_ns)),
        ("yield_ns", given(&table.yield_ns)),
        ("call_awake_ns", given(&table.call_awake_ns)),
        ("call_idle_ns", given(&table.call_idle_ns)),
        ("wake_idle_ns", given(&table.wake_idle_ns)),
        ("slice_switch_ns", given(&table.slice_switch_ns)),
        ("tick_least_ns", given(&table.tick_least_ns)),
        ("tick_most_ns", given(&table.tick_most_ns)),
    ];
    all.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
}
