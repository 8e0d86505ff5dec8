//! The weights of all NFs, as a state machine.

use alloc::string::String;
use alloc::vec::Vec;

use super::{
    Action, COSTS_EVERY, Event, LOADS_EVERY, Load, Nf, RENEW_EVERY, RETRY_EVERY, Report, Rules, UNKNOWN_COST,
};
use crate::cost::{Account, Cost, Judgement, ServiceTimes};
use crate::decision::Decision;
use crate::share::{self, Contender, Demand};
use crate::units::{CoreId, InstanceId, Instant, Rate, RegionId, Span};
use crate::wake;

/// Everything known of an instance.
#[derive(Clone, Debug)]
struct Known {
    nf: Nf,
    in_service: bool,
    /// Whether its process is in a control group.
    has_group: bool,
    cost: Cost,
    demand: Demand,
    /// Its share as written.
    share: Option<u32>,
    /// Whether its slice was written for a core on which others wait for its end.
    is_waited_for: bool,
    /// Whether people were told that its claim is overridden.
    override_told: bool,
}

impl Known {
    fn competes(&self) -> bool {
        self.in_service && self.has_group && self.nf.is_weighed()
    }

    /// The part of a core that it has something of.
    const fn part(&self) -> (CoreId, RegionId) {
        (self.nf.core, self.nf.domain)
    }

    /// Returns whether it is to be in a group and is not.
    fn lacks_group(&self) -> bool {
        self.in_service && self.nf.is_weighed() && !self.has_group
    }
}

/// A refusal that lasts.
#[derive(Clone, Debug)]
struct Refused {
    why: String,
    retry_at: Instant,
}

/// The weights of all NFs.
#[derive(Clone, Debug)]
pub struct Weights {
    rules: Rules,
    /// By instance.
    known: Vec<Option<Known>>,
    /// By instance, also before it has a process: whether it feeds another NF of its core.
    feeds: Vec<bool>,
    next_loads: Instant,
    next_weights: Instant,
    next_costs: Instant,
    next_renewal: Instant,
    /// Loads were asked for, and shares are to be decided by them; whether all are to be written.
    sharing: Option<bool>,
    refused: Option<Refused>,
    // Room for one core's NFs, so that a decision allocates nothing.
    members: Vec<usize>,
    contenders: Vec<Contender>,
    in_force: Vec<u32>,
    shares: Vec<u32>,
}

impl Decision for Weights {
    type Setup = Rules;
    type Event = Event;
    type Sample = ();
    type Action = Action;

    fn new(rules: Rules) -> Self {
        Self {
            rules,
            known: Vec::new(),
            feeds: Vec::new(),
            next_loads: Instant::default(),
            next_weights: Instant::default(),
            next_costs: Instant::default(),
            next_renewal: Instant::default(),
            sharing: None,
            refused: None,
            members: Vec::new(),
            contenders: Vec::new(),
            in_force: Vec::new(),
            shares: Vec::new(),
        }
    }

    fn on(&mut self, now: Instant, event: Event, actions: &mut Vec<Action>) {
        match event {
            Event::Begins { instance, nf } => self.on_begins(instance, nf),
            Event::Feeds { instance, feeds } => self.on_feeds(instance, feeds),
            Event::Ready(instance) => self.on_ready(instance, actions),
            Event::Ended(instance) => self.on_ended(instance),
            Event::Entered(instance) => self.on_entered(instance, actions),
            Event::Refused { instance, why } => self.on_refused(now, instance, why, actions),
            Event::GroupsRefused { why } => self.note_refusal(now, why, actions),
            Event::Load { instance, load } => self.on_load(now, instance, &load),
            Event::ServiceTime { instance, time, count } => self.on_service_time(now, instance, time, count),
            Event::Costs { instance, account } => self.on_costs(now, instance, account, actions),
        }
    }

    fn poll(&mut self, now: Instant, (): &(), actions: &mut Vec<Action>) {
        if let Some(renew) = self.sharing.take() {
            return self.share_cores(renew, actions);
        }
        if !self.next_loads.is_due(now) {
            return;
        }
        self.next_loads = now + LOADS_EVERY.min(self.rules.every);
        actions.push(Action::SampleLoads);
        if !self.next_weights.is_due(now) {
            return;
        }
        self.next_weights = now + self.rules.every;
        if self.next_costs.is_due(now) {
            self.next_costs = now + COSTS_EVERY;
            actions.push(Action::SampleCosts);
        }
        if self.rules.weighs {
            self.retry(now, actions);
            let renew = self.next_renewal.is_due(now);
            if renew {
                self.next_renewal = now + RENEW_EVERY;
            }
            self.sharing = Some(renew);
        }
    }

    fn poll_at(&self) -> Option<Instant> {
        // Shares are decided as soon as the samples that were asked for are there.
        Some(if self.sharing.is_some() { Instant::default() } else { self.next_loads })
    }
}

impl Weights {
    /// Returns what an instance says its packets cost.
    #[must_use]
    pub fn claim(&self, instance: InstanceId) -> Option<ServiceTimes> {
        self.get(instance)?.cost.claim()
    }

    /// Returns CPU time for each packet that an instance returned.
    #[must_use]
    pub fn accounted(&self, instance: InstanceId) -> Option<Span> {
        self.get(instance)?.cost.accounted()
    }

    /// Returns whether an instance's claim is overridden by CPU accounting.
    #[must_use]
    pub fn is_overridden(&self, instance: InstanceId) -> bool {
        self.get(instance).is_some_and(|known| known.cost.is_overridden())
    }

    /// Returns how many packets come for an instance.
    #[must_use]
    pub fn arrivals(&self, instance: InstanceId) -> Rate {
        self.get(instance).map_or(Rate(0.0), |known| known.demand.rate())
    }

    /// Returns the share of an instance, in parts of [`share::WHOLE`]; `None` while the kernel decides.
    #[must_use]
    pub fn share(&self, instance: InstanceId) -> Option<u32> {
        self.get(instance)?.share
    }

    /// Returns why weights are not set.
    #[must_use]
    pub fn refused(&self) -> Option<&str> {
        self.refused.as_ref().map(|refused| refused.why.as_str())
    }

    /// Returns whether [`Event::Costs`] is to bring the kernel's account. What an NF on interfaces returns
    /// passes us by, so its claim can be held against nothing.
    #[must_use]
    pub fn wants_account(&self, now: Instant, instance: InstanceId) -> bool {
        self.get(instance).is_some_and(|known| known.nf.is_seen && known.cost.wants_account(now))
    }

    fn get(&self, instance: InstanceId) -> Option<&Known> {
        self.known.get(instance.index())?.as_ref()
    }

    fn get_mut(&mut self, instance: InstanceId) -> Option<&mut Known> {
        self.known.get_mut(instance.index())?.as_mut()
    }

    fn all(&self) -> impl Iterator<Item = (InstanceId, &Known)> {
        let all = self.known.iter().enumerate();
        all.filter_map(|(at, known)| Some((InstanceId(at as u16), known.as_ref()?)))
    }

    fn on_begins(&mut self, instance: InstanceId, nf: Nf) {
        if self.known.len() <= instance.index() {
            self.known.resize_with(instance.index() + 1, || None);
        }
        let before = self.known[instance.index()].take();
        // Packets have come for the instance, whichever process it had.
        let demand = before.map_or_else(Demand::default, |known| known.demand);
        self.known[instance.index()] = Some(Known {
            nf,
            in_service: false,
            has_group: false,
            cost: Cost::default(),
            demand,
            share: None,
            is_waited_for: false,
            override_told: false,
        });
    }

    fn on_feeds(&mut self, instance: InstanceId, feeds: bool) {
        if self.feeds.len() <= instance.index() {
            self.feeds.resize(instance.index() + 1, false);
        }
        self.feeds[instance.index()] = feeds;
    }

    fn on_ready(&mut self, instance: InstanceId, actions: &mut Vec<Action>) {
        let weighs = self.rules.weighs;
        let Some(known) = self.get_mut(instance) else { return };
        known.in_service = true;
        let has_group = weighs && known.nf.is_weighed() || known.nf.is_real_time;
        if has_group && !known.has_group {
            actions.push(Action::Enter(instance));
        }
    }

    fn on_ended(&mut self, instance: InstanceId) {
        if let Some(known) = self.get_mut(instance) {
            known.in_service = false;
        }
    }

    fn on_entered(&mut self, instance: InstanceId, actions: &mut Vec<Action>) {
        let Some(known) = self.get_mut(instance) else { return };
        known.has_group = true;
        if self.refused.is_some() && !self.all().any(|(_, known)| known.lacks_group()) {
            self.refused = None;
            actions.push(Action::Report(Report::SetAgain));
        }
    }

    fn on_refused(&mut self, now: Instant, instance: InstanceId, why: String, actions: &mut Vec<Action>) {
        let Some(known) = self.get_mut(instance) else { return };
        // A group that is gone or not ours any more is made anew.
        (known.has_group, known.share) = (false, None);
        if known.nf.is_real_time {
            actions.push(Action::Report(Report::NoRealTimeGroup { instance, why }));
        } else {
            self.note_refusal(now, why, actions);
        }
    }

    fn note_refusal(&mut self, now: Instant, why: String, actions: &mut Vec<Action>) {
        if self.refused.is_none() {
            actions.push(Action::Report(Report::Refused { why: why.clone() }));
        }
        self.refused = Some(Refused { why, retry_at: now + RETRY_EVERY });
    }

    fn on_load(&mut self, now: Instant, instance: InstanceId, load: &Load) {
        if let Some(known) = self.get_mut(instance) {
            known.demand.on_sample(now, load.arrived(), load.backlog);
            known.cost.on_ring(load.backlog > 0);
        }
    }

    fn on_service_time(&mut self, now: Instant, instance: InstanceId, time: Span, count: u32) {
        if let Some(known) = self.get_mut(instance) {
            known.cost.on_service_time(now, time, count);
        }
    }

    fn on_costs(
        &mut self,
        now: Instant,
        instance: InstanceId,
        account: Option<Account>,
        actions: &mut Vec<Action>,
    ) {
        let Some(known) = self.get_mut(instance) else { return };
        known.cost.poll(now);
        let judgement = account.and_then(|account| known.cost.on_account(now, account));
        if let Some(Judgement::Overridden { claimed, accounted }) = judgement
            && !core::mem::replace(&mut known.override_told, true)
        {
            actions.push(Action::Report(Report::Overridden { instance, claimed, accounted }));
        }
    }

    /// Tries again what was refused.
    fn retry(&self, now: Instant, actions: &mut Vec<Action>) {
        if self.refused.as_ref().is_some_and(|refused| refused.retry_at.is_due(now)) {
            let without = self.all().filter(|(_, known)| known.lacks_group());
            actions.extend(without.map(|(instance, _)| Action::Enter(instance)));
        }
    }

    /// Decides the shares of every domain of every core, and writes those that changed enough, or all.
    fn share_cores(&mut self, renew: bool, actions: &mut Vec<Action>) {
        for first in 0..self.known.len() {
            let Some(part) = self.part_of(first) else { continue };
            // Each part once: with the first of its NFs.
            if (0..first).any(|before| self.part_of(before) == Some(part)) {
                continue;
            }
            self.gather(first, part);
            let is_waited_for = self.is_waited_for(part);
            let renew =
                renew || self.known[first].as_ref().is_some_and(|it| it.is_waited_for != is_waited_for);
            if share::share(&self.contenders, &mut self.shares)
                && (renew || share::is_worth_writing(&self.in_force, &self.shares))
            {
                self.write(is_waited_for, actions);
            }
        }
    }

    /// Returns whether a core has NFs that wait for the end of a slice, with processes or between two: those
    /// of other domains, and those that take the core from nobody.
    fn is_waited_for(&self, (core, domain): (CoreId, RegionId)) -> bool {
        let waits = |nf: &Nf| nf.core == core && (nf.domain != domain || nf.is_batch);
        self.all().any(|(_, other)| waits(&other.nf))
    }

    /// The part of a core that an instance competes for: what its domain has of it.
    fn part_of(&self, at: usize) -> Option<(CoreId, RegionId)> {
        self.known[at].as_ref().filter(|known| known.competes()).map(Known::part)
    }

    fn gather(&mut self, first: usize, part: (CoreId, RegionId)) {
        self.members.clear();
        self.contenders.clear();
        self.in_force.clear();
        for (at, known) in self.known.iter().enumerate().skip(first) {
            let Some(known) = known.as_ref().filter(|known| known.competes() && known.part() == part) else {
                continue;
            };
            let service_time = known.cost.service_time().unwrap_or(UNKNOWN_COST);
            let work_ns = known.demand.work_ns(service_time);
            self.members.push(at);
            self.in_force.push(known.share.unwrap_or(0));
            self.contenders.push(Contender {
                work_ns: share::bounded(work_ns, self.rules.claim_cores),
                priority: known.nf.priority,
                feeds: self.feeds.get(at).is_some_and(|feeds| *feeds),
            });
        }
        self.shares.clear();
        self.shares.resize(self.members.len(), 0);
    }

    fn write(&mut self, is_waited_for: bool, actions: &mut Vec<Action>) {
        for (&at, &share) in self.members.iter().zip(&self.shares) {
            let Some(known) = &mut self.known[at] else { continue };
            (known.share, known.is_waited_for) = (Some(share), is_waited_for);
            let feeds = self.feeds.get(at).is_some_and(|feeds| *feeds);
            actions.push(Action::Write {
                instance: InstanceId(at as u16),
                share,
                slice: known.nf.slice.unwrap_or_else(|| share::slice(share, is_waited_for)),
                yields_after: wake::slice(share, share::WHOLE, feeds),
            });
        }
    }
}
