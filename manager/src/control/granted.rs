//! Scheduling that NFs ask for, and whether they have it.
//!
//! A policy is set when an NF is ready. From then on it is compared once a second with the one in force: what
//! the kernel refused may be granted later, and what it granted may be taken away. As long as an NF runs
//! otherwise than its file asks, [`Granted::limitations`] says so, with the kernel's reason.

use std::collections::BTreeMap;

use headgate_decide::units::{InstanceId, Instant as Moment};
use headgate_host::Pid;
use headgate_host::sched::{self, Policy, SchedError};

use crate::status::EventCode;

/// Scheduling that was asked for and not granted.
#[derive(Default)]
pub struct Granted {
    /// When policies are compared next.
    pub next_check: Moment,
    /// Reasons why instances do not run as their file asks, in sentences.
    refused: BTreeMap<InstanceId, String>,
    /// Setting that keeps real-time tasks from all of a core, in a sentence.
    pub stall: Option<String>,
}

impl Granted {
    /// Returns what is not granted now, in sentences. `name` gives the name of an instance.
    pub fn limitations(&self, name: impl Fn(InstanceId) -> String) -> Vec<String> {
        let refused = self.refused.iter().map(|(instance, why)| format!("{} {why}", name(*instance)));
        refused.chain(self.stall.clone()).collect()
    }

    /// Returns why an instance does not run as its file asks; `None` when it does.
    pub fn refusal(&self, instance: InstanceId) -> Option<&String> {
        self.refused.get(&instance)
    }

    /// Forgets an instance whose process has ended.
    pub fn forget(&mut self, instance: InstanceId) {
        self.refused.remove(&instance);
    }

    /// Takes in what became of an instance's policy. Returns the event to report when that has changed.
    pub fn note(&mut self, instance: InstanceId, outcome: &Outcome) -> Option<(EventCode, String)> {
        let Outcome { wanted, before, in_force, error } = outcome;
        let why = error.as_ref().map(|error| {
            format!("asks for the policy {}, and runs under the policy {in_force}: {error}", word(*wanted))
        });
        let earlier = match &why {
            Some(why) => self.refused.insert(instance, why.clone()),
            None => self.refused.remove(&instance),
        };
        match (why, earlier) {
            (Some(why), earlier) => {
                (earlier.as_ref() != Some(&why)).then_some((EventCode::PolicyRefused, why))
            }
            (None, Some(_)) => {
                Some((EventCode::PolicyGranted, format!("runs under the policy {in_force}, as it asks for")))
            }
            (None, None) => before.as_ref().map(|before| {
                let what = format!("runs under the policy {in_force} again: somebody had given it {before}");
                (EventCode::PolicyGranted, what)
            }),
        }
    }
}

/// What became of a policy that was set.
pub struct Outcome {
    /// The policy that was asked for.
    pub wanted: Policy,
    /// The policy that somebody else had given it meanwhile, in words.
    pub before: Option<&'static str>,
    /// The policy in force, in words.
    pub in_force: &'static str,
    /// Reason why it is not the one that was asked for.
    pub error: Option<SchedError>,
}

impl Outcome {
    /// Gives a process a policy.
    pub fn set(process: Pid, wanted: Policy, before: Option<&'static str>) -> Self {
        let error = sched::set(Some(process), wanted).err();
        Self { wanted, before, in_force: sched::get(Some(process)).map_or("unknown", word), error }
    }
}

/// Returns whether a task has its policy. What follows from nice values and slices is decided elsewhere.
pub fn is_same(wanted: Policy, in_force: Policy) -> bool {
    if is_real_time(wanted) { wanted == in_force } else { word(wanted) == word(in_force) }
}

/// Returns whether a policy is one of real time.
pub const fn is_real_time(policy: Policy) -> bool {
    matches!(policy, Policy::Fifo { .. } | Policy::RoundRobin { .. })
}

/// Returns the configuration's word for a policy.
pub const fn word(policy: Policy) -> &'static str {
    match policy {
        Policy::Normal { .. } => "normal",
        Policy::Batch { .. } => "batch",
        Policy::RoundRobin { .. } => "rr",
        Policy::Fifo { .. } => "fifo",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use headgate_host::sched::MissingRight;

    const FIFO: Policy = Policy::Fifo { priority: 5 };
    const NORMAL: Policy = Policy::Normal { nice: 0, slice_ns: None };
    const NF: InstanceId = InstanceId(3);

    fn refused() -> Outcome {
        let error = SchedError::NotPermitted { task: None, policy: FIFO, reason: MissingRight::NoCapability };
        Outcome { wanted: FIFO, before: None, in_force: "normal", error: Some(error) }
    }

    fn said(all: &Granted) -> Vec<String> {
        all.limitations(|instance| format!("nf{}", instance.0))
    }

    fn granted(before: Option<&'static str>) -> Outcome {
        Outcome { wanted: FIFO, before, in_force: "fifo", error: None }
    }

    #[test]
    fn what_is_refused_is_told_once_and_stands_until_it_is_granted() {
        let mut all = Granted::default();
        let (code, what) = all.note(NF, &refused()).unwrap();
        assert_eq!(code, EventCode::PolicyRefused);
        assert!(what.contains("asks for the policy fifo, and runs under the policy normal"), "{what}");
        assert!(what.contains("CAP_SYS_NICE"), "with the cure: {what}");
        assert_eq!(all.note(NF, &refused()), None, "told already");
        assert_eq!(said(&all), [format!("nf3 {what}")]);
        let (code, _) = all.note(NF, &granted(Some("normal"))).unwrap();
        assert_eq!((code, said(&all).len()), (EventCode::PolicyGranted, 0));
        assert_eq!(all.note(NF, &granted(None)), None);
    }

    #[test]
    fn what_somebody_took_away_is_told() {
        let mut all = Granted::default();
        let (code, what) = all.note(NF, &granted(Some("normal"))).unwrap();
        assert_eq!(code, EventCode::PolicyGranted);
        assert!(what.contains("somebody had given it normal"), "{what}");
    }

    #[test]
    fn a_process_that_ended_is_forgotten() {
        let mut all = Granted::default();
        all.note(NF, &refused());
        all.forget(NF);
        assert_eq!(said(&all), [""; 0]);
        assert!(all.note(NF, &refused()).is_some(), "the next one is reported");
    }

    #[test]
    fn fair_tasks_differ_by_kind_only_and_real_time_ones_by_priority() {
        assert!(is_same(NORMAL, Policy::Normal { nice: 0, slice_ns: Some(2_000_000) }));
        assert!(!is_same(NORMAL, Policy::Batch { nice: 0, slice_ns: None }));
        assert!(
            !is_same(FIFO, Policy::Fifo { priority: 6 }) && is_same(FIFO, FIFO) && !is_same(FIFO, NORMAL)
        );
    }
}
