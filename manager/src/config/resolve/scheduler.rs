//! Who gets a shared core: the keys of [scheduler], and each NF's policy.

use super::super::codes::Code;
use super::super::document::{Document, NfTable, SchedulerTable};
use super::super::model::{Policy, Scheduler};
use super::super::values::{LoopKind, Nice, PolicyKind};
use super::{Resolver, items};

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
        Some(Scheduler {
            mode: *table.mode.value()?,
            high_watermark: high.value.0 as u32,
            low_watermark: low.value.0 as u32,
            ecn_watermark: table.ecn_watermark.value()?.0 as u32,
            queue_time_us: table.queue_time_us.value()?.0 as u32,
            shed_by_flow: *table.shed_by_flow.value()?,
            hold: table.hold.value()?.0 as u32,
            weights_every_ms: table.weights_every_ms.value()?.0 as u32,
            rr_quantum_ms: table.rr_quantum_ms.value().map(|ms| ms.0 as u32),
        })
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
