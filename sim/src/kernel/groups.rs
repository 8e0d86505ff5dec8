//! Groups of the fair class: trust domains that share a core. Each is an entity of the core with the weight
//! of its part, and shares what it gets among its own tasks. With one domain there is nothing to share.

use super::fair::{Fair, WEIGHT};

/// A domain's tasks.
#[derive(Clone, Debug)]
struct Group {
    domain: u16,
    fair: Fair,
}

/// The fair tasks of a core, by their number there.
#[derive(Clone, Debug)]
pub(crate) struct Groups {
    /// The groups as entities, where there are several.
    top: Fair,
    groups: Vec<Group>,
    /// By task: its group, and its number in it.
    seats: Vec<(usize, usize)>,
    tick: u64,
}

impl Groups {
    pub(crate) fn new(tick: u64) -> Self {
        Self { top: Fair::new(tick), groups: Vec::new(), seats: Vec::new(), tick }
    }

    /// Adds a task of a domain with this part, which sleeps.
    pub(crate) fn add(&mut self, slice: u64, preempts: bool, (domain, part): (u16, u32)) {
        let group = self.groups.iter().position(|group| group.domain == domain).unwrap_or_else(|| {
            self.top.add(slice, true);
            self.top.set_weight(self.groups.len(), u64::from(part) * WEIGHT);
            self.groups.push(Group { domain, fair: Fair::new(self.tick) });
            self.groups.len() - 1
        });
        let number = self.seats.iter().filter(|(of, _)| *of == group).count();
        self.groups[group].fair.add(slice, preempts);
        self.seats.push((group, number));
    }

    /// Returns how many tasks want the core.
    pub(crate) fn runnable(&self) -> usize {
        self.groups.iter().map(|group| group.fair.runnable()).sum()
    }

    /// A task wakes. Returns whether the one that runs must make way.
    pub(crate) fn wake(&mut self, task: usize) -> bool {
        let (group, number) = self.seats[task];
        let fair = &mut self.groups[group].fair;
        let may_preempt = fair.may_preempt(number);
        let preempts = fair.wake(number);
        if !self.are_several() {
            return preempts;
        }
        self.heed_slices(group);
        let preempts_group = self.top.wake(group);
        match self.top.current() {
            Some(runs) if runs == group => preempts,
            Some(_) => may_preempt && preempts_group,
            None => false,
        }
    }

    /// The task that runs sleeps.
    pub(crate) fn sleep(&mut self, task: usize) {
        let (group, number) = self.seats[task];
        self.groups[group].fair.sleep(number);
        if self.are_several() && self.groups[group].fair.runnable() == 0 {
            self.top.sleep(group);
        }
    }

    /// Takes a task out, whatever it does.
    pub(crate) fn take_out(&mut self, task: usize) {
        let (group, number) = self.seats[task];
        self.groups[group].fair.take_out(number);
        if self.are_several() && self.groups[group].fair.runnable() == 0 {
            self.top.take_out(group);
        }
    }

    /// The task that runs lets others of its group run.
    pub(crate) fn yield_core(&mut self, task: usize) {
        let (group, number) = self.seats[task];
        self.groups[group].fair.yield_core(number);
    }

    /// The task that runs has had so much time.
    pub(crate) fn charge(&mut self, task: usize, ns: u64) {
        self.groups[self.seats[task].0].fair.charge(ns);
        if self.are_several() {
            self.top.charge(ns);
        }
    }

    /// A tick while a task runs. Returns whether another one is to be chosen.
    pub(crate) fn tick(&mut self, task: usize) -> bool {
        let within = self.groups[self.seats[task].0].fair.tick();
        within | (self.are_several() && self.top.tick())
    }

    /// Chooses the next task, which then runs.
    pub(crate) fn pick(&mut self) -> Option<usize> {
        if !self.are_several() {
            let number = self.groups.first_mut()?.fair.pick()?;
            return self.task_of(0, number);
        }
        loop {
            let before = self.top.current();
            let group = self.top.pick()?;
            if let Some(before) = before.filter(|before| *before != group) {
                self.groups[before].fair.put();
            }
            match self.groups[group].fair.pick() {
                Some(number) => return self.task_of(group, number),
                None => self.top.take_out(group),
            }
        }
    }

    /// Sets a task's slice.
    pub(crate) fn set_slice(&mut self, task: usize, slice: u64) {
        let (group, number) = self.seats[task];
        self.groups[group].fair.set_slice(number, slice);
        self.heed_slices(group);
    }

    /// Sets a task's weight in its group.
    pub(crate) fn set_weight(&mut self, task: usize, weight: u64) {
        let (group, number) = self.seats[task];
        self.groups[group].fair.set_weight(number, weight);
    }

    /// A group's slice is the shortest of its tasks'.
    fn heed_slices(&mut self, group: usize) {
        if let Some(slice) = self.groups[group].fair.shortest_slice() {
            self.top.set_slice(group, slice);
        }
    }

    fn are_several(&self) -> bool {
        self.groups.len() > 1
    }

    fn task_of(&self, group: usize, number: usize) -> Option<usize> {
        self.seats.iter().position(|seat| *seat == (group, number))
    }
}
