//! Scheduling that a file asks for and that the kernel would not grant this process: said before the start,
//! as the manager says it from then on.

use super::super::codes::Code;
use super::super::document::{Document, NfTable};
use super::super::model::{Config, Nf, Policy};
use super::super::read::At;
use super::super::report::Span;
use super::{Resolver, items};

impl Resolver<'_> {
    /// Warns of policies, nice values and slices that are refused, and of real-time tasks that are stopped.
    pub(super) fn warn_not_granted(&mut self, document: &Document, config: &Config) {
        for (table, nf) in items(&document.nf).iter().zip(&config.nfs) {
            self.warn_refused(table, nf);
        }
        let mode = config.scheduler.mode;
        let has_slices = config.nfs.iter().any(|nf| nf.has_slices(mode));
        let key = document.scheduler.value().and_then(|table| table.mode.key.as_ref());
        if let Some((key, why)) = key.zip(self.machine.refused.real_time.clone()).filter(|_| has_slices) {
            let message = format!("NFs would have no time slices: {why}");
            self.report.add(Code::PolicyRefused, key, message).help(
                "without the right the kernel shares their cores evenly; give it, or choose another `mode`",
            );
        }
        let of_nfs = || items(&document.nf).iter().zip(&config.nfs);
        let first = of_nfs().find(|(_, nf)| nf.policy.is_real_time());
        let policy = first.and_then(|(table, _)| table.value.policy.key.as_ref());
        if let Some(key) = key.filter(|_| has_slices).or(policy)
            && !config.scheduler.lift_rt_limit
            && self.machine.refused.real_time.is_none()
        {
            self.warn_limited(key);
        }
    }

    fn warn_refused(&mut self, at: &At<NfTable>, nf: &Nf) {
        let (table, refused) = (&at.value, &self.machine.refused);
        let asked = match nf.policy {
            Policy::RoundRobin { .. } | Policy::Fifo { .. } => vec![(&table.policy.key, &refused.real_time)],
            Policy::Normal { nice, slice_us } | Policy::Batch { nice, slice_us } => {
                let nice = (nice < 0).then_some((&table.nice.key, &refused.negative_nice));
                let slice = slice_us.map(|_| (&table.slice_us.key, &refused.slices));
                nice.into_iter().chain(slice).collect()
            }
        };
        let found = asked.into_iter().filter_map(|(key, why)| Some((key.clone()?, why.clone()?)));
        let found: Vec<(Span, String)> = found.collect();
        for (key, why) in found {
            let message = format!("NF `{}` would not run so: {why}", nf.name);
            let help = "it runs under the policy that it has without, and `headgate status` says so";
            self.report.add(Code::PolicyRefused, &key, message).help(help);
        }
    }

    fn warn_limited(&mut self, key: &Span) {
        let Some(us) = self.machine.refused.real_time_us else { return };
        let message = format!(
            "the kernel may take each core from real-time tasks for {} ms of a second, in which these NFs stand still",
            (1_000_000 - us) / 1000
        );
        let help = "set `lift_rt_limit = true` in [scheduler], or `sysctl kernel.sched_rt_runtime_us=-1`";
        self.report.add(Code::RealTimeLimited, key, message).help(help);
    }
}
