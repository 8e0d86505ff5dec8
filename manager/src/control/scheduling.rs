//! Scheduling by weights, the control loop's part: samples loads and service times, and puts reports into
//! words. [`headgate_decide::weights`] decides when they are sampled and what follows from them; groups and
//! policies are set in [`super::policies`]. Nothing here is on the packet path, and a sample allocates
//! nothing.

use std::sync::atomic::{AtomicU32, Ordering};

use headgate_decide::cost::{Account, ServiceTimes};
use headgate_decide::decision::Decision;
use headgate_decide::record::Entry;
use headgate_decide::share::WHOLE;
use headgate_decide::units::{CoreId, InstanceId, Instant as Moment, Rate, RegionId, Span};
use headgate_decide::weights::{self, Action, Event, Load, Report, Rules, Weights};
use headgate_host::sched;
use headgate_session::message::Loop;
use headgate_shm::histogram::{BUCKETS, middle_of};

use super::instance::Seat;
use super::totals::Totals;
use crate::config::Mode;
use crate::config::model::{Link, Policy, Scheduler};
use crate::record::{Recorded, Recorder};
use crate::status::{EventCode, HistogramStatus};

/// Weights of all NFs, and the samples that decide them.
pub struct Scheduling {
    weights: Recorded<Weights>,
    mode: Mode,
    /// Samples of service times in each bucket as they were counted last, by instance.
    counted: Vec<Option<Box<[u32; BUCKETS]>>>,
    /// Service times since the start.
    service_times: Totals,
    /// Policy of each instance's process, in words.
    policies: Vec<String>,
    /// List of actions; kept for its memory.
    actions: Vec<Action>,
}

/// Figures about an NF's part of its core.
pub struct Figures {
    /// Service time by its own account.
    pub claim: Option<ServiceTimes>,
    /// Distribution of its service times since the start, by its own account.
    pub service_times: Option<HistogramStatus>,
    /// CPU time for each packet.
    pub accounted: Option<Span>,
    /// Whether CPU accounting overrides its own account.
    pub is_overridden: bool,
    /// Arrival rate of packets for it.
    pub arrivals: Rate,
    /// Share of its core that it has, 0 to 1; `None` while the kernel decides.
    pub share: Option<f64>,
    /// Policy of its process, in words.
    pub policy: String,
}

impl Scheduling {
    /// Returns scheduling without NFs.
    pub fn new(config: &Scheduler, recorder: &Recorder) -> Self {
        let every = Span::from_millis(config.weights_every_ms.into());
        let rules = Rules { weighs: config.mode.weighs(), every, claim_cores: config.claim_cores };
        Self {
            weights: Recorded::new(recorder, Moment::default(), rules, Entry::Weights),
            mode: config.mode,
            counted: Vec::new(),
            service_times: Totals::default(),
            policies: Vec::new(),
            actions: Vec::new(),
        }
    }

    /// Returns when the control loop is to call again at the latest. Where nothing is weighed its own passes
    /// are often enough.
    pub fn poll_at(&self) -> Option<Moment> {
        self.weights.poll_at().filter(|_| self.mode.weighs())
    }

    /// Returns whether something is due.
    pub fn is_due(&self, now: Moment) -> bool {
        self.weights.is_due(now)
    }

    /// Returns the actions that are due now. Pass the list back to [`Scheduling::done`].
    pub fn poll(&mut self, now: Moment) -> Vec<Action> {
        let mut actions = std::mem::take(&mut self.actions);
        self.weights.poll(now, &(), &mut actions);
        actions
    }

    /// Takes in an event. The actions that follow are appended.
    pub fn on(&mut self, now: Moment, event: Event, actions: &mut Vec<Action>) {
        self.weights.on(now, event, actions);
    }

    /// Takes back the list of actions.
    pub fn done(&mut self, mut actions: Vec<Action>) {
        actions.clear();
        // The longer one has room for more.
        if actions.capacity() > self.actions.capacity() {
            self.actions = actions;
        }
    }

    /// Notes that an instance has a fresh process.
    pub fn begin(&mut self, now: Moment, seat: &Seat, actions: &mut Vec<Action>) {
        if let Some(counted) = self.counted.get_mut(seat.number.index()) {
            *counted = None;
        }
        let (instance, nf) = (seat.number, traits(seat));
        self.on(now, Event::Begins { instance, nf }, actions);
    }

    /// Takes in the load of an instance.
    pub fn on_load(&mut self, now: Moment, instance: InstanceId, load: Load, actions: &mut Vec<Action>) {
        self.on(now, Event::Load { instance, load }, actions);
    }

    /// Takes in the samples of an instance's service times that were counted since the last ones, in buckets
    /// of cycles.
    pub fn on_service_times(
        &mut self,
        now: Moment,
        instance: InstanceId,
        counts: &[AtomicU32; BUCKETS],
        to_ns: impl Fn(u64) -> u64,
        actions: &mut Vec<Action>,
    ) {
        let at = instance.index();
        if self.counted.len() <= at {
            self.counted.resize_with(at + 1, || None);
        }
        let mut counted = self.counted[at].take().unwrap_or_else(|| Box::new([0; BUCKETS]));
        for (bucket, (count, before)) in counts.iter().zip(counted.iter_mut()).enumerate() {
            let count = count.load(Ordering::Relaxed);
            if count != *before {
                let (time, count_more) = (Span(to_ns(middle_of(bucket))), count.wrapping_sub(*before));
                self.service_times.add(instance.0, time.0, count_more);
                self.on(now, Event::ServiceTime { instance, time, count: count_more }, actions);
                *before = count;
            }
        }
        self.counted[at] = Some(counted);
    }

    /// Takes in the kernel's counts of an instance, if they are wanted. Call it after its service times.
    pub fn on_costs(
        &mut self,
        now: Moment,
        instance: InstanceId,
        account: impl FnOnce() -> Option<Account>,
        actions: &mut Vec<Action>,
    ) {
        let account = if self.weights.wants_account(now, instance) { account() } else { None };
        self.on(now, Event::Costs { instance, account }, actions);
    }

    /// Notes the policy of an instance's process.
    pub fn note_policy(&mut self, instance: InstanceId, policy: &str) {
        let at = instance.index();
        if self.policies.len() <= at {
            self.policies.resize_with(at + 1, String::new);
        }
        policy.clone_into(&mut self.policies[at]);
    }

    /// Returns the figures of an instance.
    pub fn figures(&self, id: InstanceId) -> Figures {
        Figures {
            claim: self.weights.claim(id),
            service_times: self.service_times.of(id.0),
            accounted: self.weights.accounted(id),
            is_overridden: self.weights.is_overridden(id),
            arrivals: self.weights.arrivals(id),
            share: self.weights.share(id).map(|share| f64::from(share) / f64::from(WHOLE)),
            policy: self.policies.get(id.index()).cloned().unwrap_or_default(),
        }
    }

    /// Returns whether NFs get the share of their core that their packets need.
    pub const fn weighs(&self) -> bool {
        self.mode.weighs()
    }

    /// Returns whether an instance's share is decided here.
    pub fn is_weighed(&self, seat: &Seat) -> bool {
        self.mode.weighs() && traits(seat).is_weighed()
    }

    /// Returns the word for the mode of scheduling.
    pub fn mode(&self) -> &'static str {
        self.mode.word()
    }

    /// Returns the reason why weights are not set.
    pub fn refused(&self) -> Option<&str> {
        self.weights.refused()
    }
}

/// Returns the facts of an instance's NF that weights need.
fn traits(seat: &Seat) -> weights::Nf {
    let nf = &seat.nf;
    let slice = match nf.policy {
        Policy::Normal { slice_us, .. } | Policy::Batch { slice_us, .. } => slice_us,
        Policy::RoundRobin { .. } | Policy::Fifo { .. } => None,
    };
    weights::Nf {
        core: CoreId(seat.core as u16),
        domain: RegionId(seat.nf.domain.index() as u8),
        priority: nf.priority,
        slice: slice.map(|us| Span::from_micros(us.into())),
        // Packets of an NF on interfaces of the kernel bypass the workers, and the cost of packets to an
        // external program is unknown. One in its worker has no process that could be weighed.
        is_seen: matches!(nf.link, Link::Rings) && !nf.is_resident(),
        sleeps: nf.waits == Loop::Notified,
        is_real_time: nf.policy.is_real_time(),
        is_batch: matches!(nf.policy, Policy::Batch { .. }),
    }
}

/// Returns a report for people, and the instance it is about; `None`: about the manager.
pub fn sentence(report: &Report) -> (EventCode, Option<InstanceId>, String) {
    match report {
        Report::Refused { why } => (
            EventCode::WeightsNotSet,
            None,
            format!("weights cannot be set, so the kernel shares cores evenly meanwhile: {why}"),
        ),
        Report::SetAgain => (EventCode::WeightsSet, None, "weights are set again".to_owned()),
        Report::NoRealTimeGroup { instance, why } => (
            EventCode::SchedulingLimited,
            Some(*instance),
            format!("has no control group with time for real-time tasks: {why}"),
        ),
        Report::Overridden { instance, claimed, accounted } => (
            EventCode::ServiceTimeOverridden,
            Some(*instance),
            format!(
                "its service time is overridden by CPU accounting: it says that a packet takes {} ns, and the \
                 kernel counts {} ns of CPU time for each",
                claimed.0, accounted.0
            ),
        ),
    }
}

/// Returns a policy, as the kernel takes it.
pub fn kernel_policy(policy: Policy) -> sched::Policy {
    let ns = |us: Option<u32>| us.map(|us| u64::from(us) * 1000);
    match policy {
        Policy::Normal { nice, slice_us } => sched::Policy::Normal { nice, slice_ns: ns(slice_us) },
        Policy::Batch { nice, slice_us } => sched::Policy::Batch { nice, slice_ns: ns(slice_us) },
        Policy::RoundRobin { rt_priority } => sched::Policy::RoundRobin { priority: rt_priority },
        Policy::Fifo { rt_priority } => sched::Policy::Fifo { priority: rt_priority },
    }
}

/// Returns a policy with this slice, where it has slices.
pub const fn with_slice(policy: sched::Policy, slice: Span) -> sched::Policy {
    let slice_ns = Some(slice.0);
    match policy {
        sched::Policy::Normal { nice, .. } => sched::Policy::Normal { nice, slice_ns },
        sched::Policy::Batch { nice, .. } => sched::Policy::Batch { nice, slice_ns },
        real_time => real_time,
    }
}

#[cfg(test)]
mod tests;
