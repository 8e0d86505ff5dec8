//! Resolution of scheduling: the keys of `[scheduler]`, and each NF's policy.

use super::super::codes::Code;
use super::super::document::{ChainTable, Document, NfTable, SchedulerTable};
use super::super::model::{Chain, Nf, Policy, Scheduler, Unis};
use super::super::read::At;
use super::super::values::{LoopKind, Mode, Nice, PolicyKind};
use super::{Resolver, core_list, items};

/// Priority among real-time tasks when the file names none. Our choice: the middle of the kernel's range, as
/// the kernel itself chooses for interrupt handlers in threads, and far below its watchdogs at 99.
const RT_PRIORITY_DEFAULT: u8 = 50;

impl Resolver<'_> {
    pub(super) fn scheduler(&mut self, table: &SchedulerTable) -> Option<Scheduler> {
        let (high, low) = (table.high_watermark.found.as_ref()?, table.low_watermark.found.as_ref()?);
        if low.value >= high.value {
            let message = format!(
                "the watermarks cross: an NF overloaded from {} % on would be so until below {} %",
                high.value.0, low.value.0
            );
            let help = "make `low_watermark` less than `high_watermark`, like 60 and 80";
            // The key that the file has; a default has the span of the whole table.
            let at = if table.low_watermark.key.is_some() { &low.span } else { &high.span };
            self.report.add(Code::KeyConflict, at, message).help(help);
        }
        let mode = *table.mode.value()?;
        self.check_unis(table, mode);
        Some(Scheduler {
            mode,
            high_watermark: high.value.0 as u32,
            low_watermark: low.value.0 as u32,
            ecn_watermark: table.ecn_watermark.value()?.0 as u32,
            queue_time_us: table.queue_time_us.value()?.0 as u32,
            shed_by_flow: *table.shed_by_flow.value()?,
            pending: table.pending.value()?.0 as u32,
            weights_every_ms: table.weights_every_ms.value()?.0 as u32,
            claim_cores: table.claim_cores.value()?.0 as u32,
            nf_weight: table.nf_weight.value()?.0 as u32,
            rr_quantum_ms: table.rr_quantum_ms.value().map(|ms| ms.0 as u32),
            unis: Unis {
                gamma: table.unis_gamma.value()?.0 as u32,
                occupancy: *table.unis_occupancy.value()?,
                core: table.unis_core.value().map(|core| core.0 as u32),
            },
            lift_rt_limit: *table.lift_rt_limit.value()?,
            reserve_cores: *table.reserve_cores.value()?,
        })
    }

    /// Reports keys of a scheduler that is not there.
    fn check_unis(&mut self, table: &SchedulerTable, mode: Mode) {
        let core = table.unis_core.found.as_ref();
        if let Some(at) = core {
            self.core_exists(at.value.0 as u32, &at.span);
        }
        let keys = [
            (&table.unis_gamma.key, "unis_gamma"),
            (&table.unis_occupancy.key, "unis_occupancy"),
            (&table.unis_core.key, "unis_core"),
        ];
        for (key, name) in keys {
            let Some(key) = key.as_ref().filter(|_| mode != Mode::Unis) else { continue };
            let message = format!("`{name}` has no effect with the mode {}", mode.word());
            self.report.add(Code::KeyConflict, key, message).help("set `mode = \"unis\"`, or leave it out");
        }
    }

    /// Other programs must have a core.
    pub(super) fn check_reserved(&mut self, table: Option<&SchedulerTable>, nfs: &[Option<Nf>]) {
        let Some(at) = table.and_then(|table| table.reserve_cores.found.as_ref()).filter(|at| at.value)
        else {
            return;
        };
        let taken: Vec<u32> =
            nfs.iter().flatten().filter(|nf| !nf.is_resident()).flat_map(|nf| nf.cores.clone()).collect();
        if self.machine.cores.iter().all(|core| taken.contains(core)) {
            let cores = core_list(&self.machine.cores);
            let message = format!("NFs have {cores}, all that there are: other programs would have none");
            let help = "put the NFs on fewer cores, or leave `reserve_cores` out";
            self.report.add(Code::KeyConflict, &at.span, message).help(help);
        }
    }

    /// An NF that polls before all fair tasks leaves none of its core to them: reports those that would never
    /// run beside it.
    pub(super) fn check_turns(
        &mut self,
        document: &Document,
        scheduler: &Scheduler,
        nfs: &[Option<Nf>],
        workers: &[u32],
    ) {
        let has_slices = |nf: &Nf| nf.has_slices(scheduler.mode);
        let taken: Vec<u32> =
            nfs.iter().flatten().filter(|nf| has_slices(nf)).flat_map(|nf| nf.cores.clone()).collect();
        for (table, nf) in items(&document.nf).iter().zip(nfs) {
            let Some(nf) = nf else { continue };
            let span = table.value.core.found.as_ref().map_or(&table.span, |core| &core.span);
            if has_slices(nf) {
                if let Some(core) = nf.cores.iter().find(|core| workers.contains(core)) {
                    let message =
                        format!("NF `{}` would take core {core} from the manager's worker", nf.name);
                    let help = "give NFs that poll a core without a worker, or set `loop = \"notified\"`";
                    self.report.add(Code::KeyConflict, span, message).help(help);
                }
                if let Some(policy) = &table.value.policy.key
                    && nf.policy.is_real_time()
                {
                    let message =
                        "with the mode unis the time slices of a polling NF have real-time priority already";
                    self.report.add(Code::KeyConflict, policy, message).help("leave `policy` out");
                }
            } else if let Some(core) = nf.cores.iter().find(|core| taken.contains(core))
                && !nf.is_resident()
            {
                let message = format!(
                    "NF `{}` would never run: NFs that poll have the time slices of core {core}",
                    nf.name
                );
                let help = "put it on another core, or set `loop = \"polling\"`";
                self.report.add(Code::KeyConflict, span, message).help(help);
            }
        }
        if let Some(core) = scheduler.unis.core.filter(|core| taken.contains(core))
            && let Some(at) = document.scheduler.value().and_then(|table| table.unis_core.found.as_ref())
        {
            let message = format!("core {core} has NFs, and a scheduler that polls leaves them nothing");
            self.report
                .add(Code::KeyConflict, &at.span, message)
                .help("leave `unis_core` out, or name another");
        }
    }

    /// Reports floors that nobody keeps.
    pub(super) fn check_floors(
        &mut self,
        tables: &[At<ChainTable>],
        chains: &[Option<Chain>],
        nfs: &[Option<Nf>],
        mode: Mode,
    ) {
        for (table, chain) in tables.iter().zip(chains) {
            let (Some(key), Some(chain)) = (&table.value.rate_floor.key, chain) else { continue };
            let mut stages = chain.stages.iter().map(|stage| nfs.get(stage.index()).and_then(Option::as_ref));
            if stages.any(|nf| nf.is_none_or(|nf| nf.has_slices(mode))) {
                continue;
            }
            if chain.stages.is_empty() {
                continue;
            }
            let message =
                format!("`rate_floor` has no effect: no NF of chain `{}` has time slices", chain.name);
            let help = "set `mode = \"unis\"` and `loop = \"polling\"` at its NFs, or leave `rate_floor` out";
            self.report.add(Code::KeyConflict, key, message).help(help);
        }
    }

    /// Reports a quantum that nobody uses: it is the whole machine's and not changed without need.
    pub(super) fn check_quantum(&mut self, scheduler: Option<&SchedulerTable>, document: &Document) {
        let Some(key) = scheduler.and_then(|table| table.rr_quantum_ms.key.as_ref()) else { return };
        let round_robin = Some(&PolicyKind::RoundRobin);
        if items(&document.nf).iter().all(|nf| nf.value.policy.value() != round_robin) {
            let message = "`rr_quantum_ms` has no effect: no NF has the policy rr";
            let help = "set `policy = \"rr\"` at an NF, or leave `rr_quantum_ms` out";
            self.report.add(Code::KeyConflict, key, message).help(help);
        }
    }

    /// The policy of an NF, every key that does not fit it reported.
    pub(super) fn policy(&mut self, table: &NfTable) -> Option<Policy> {
        if table.policy.is_broken() || table.nice.is_broken() {
            return None;
        }
        let notified = *table.r#loop.value()? == LoopKind::Notified;
        let default = if notified { PolicyKind::Batch } else { PolicyKind::Normal };
        let kind = table.policy.value().copied().unwrap_or(default);
        let real_time = matches!(kind, PolicyKind::RoundRobin | PolicyKind::Fifo);
        let misplaced = match real_time {
            true => [(&table.nice.key, "nice"), (&table.slice_us.key, "slice_us")],
            false => [(&table.rt_priority.key, "rt_priority"), (&None, "")],
        };
        for (key, name) in misplaced {
            let Some(key) = key else { continue };
            let message = format!("`{name}` has no effect with the policy {}", kind.word());
            let help = match real_time {
                true => "leave it out, or set `policy` to \"normal\" or \"batch\"",
                false => "leave it out, or set `policy` to \"rr\" or \"fifo\"",
            };
            let finding = self.report.add(Code::KeyConflict, key, message);
            finding.help(help);
            if let Some(policy) = &table.policy.key {
                finding.beside(policy.clone(), "the policy");
            }
        }
        let nice = table.nice.value().map_or(0, |Nice(nice)| *nice);
        let slice_us = table.slice_us.value().map(|us| us.0 as u32);
        let rt_priority = table.rt_priority.value().map_or(RT_PRIORITY_DEFAULT, |priority| priority.0 as u8);
        Some(match kind {
            PolicyKind::Normal => Policy::Normal { nice, slice_us },
            PolicyKind::Batch => Policy::Batch { nice, slice_us },
            PolicyKind::RoundRobin => Policy::RoundRobin { rt_priority },
            PolicyKind::Fifo => Policy::Fifo { rt_priority },
        })
    }
}
