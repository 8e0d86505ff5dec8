//! Gathers what the kernel counts of our tasks on their cores, and puts what is decided into words, with the
//! names of those who are found there.

use std::collections::{BTreeMap, BTreeSet};

use headgate_api::place;
use headgate_decide::decision::Decision;
use headgate_decide::taken::{Action, CoreSample, Event, Sample, Taker, TaskTimes};
use headgate_decide::units::{CoreId, Span};
use headgate_host::cores::{self, CoreList, TaskOn};
use headgate_host::{Pid, accounting, process};

use crate::config::IdleWorker;
use crate::control::Control;
use crate::control::instance::Instance;
use crate::control::reserve::is_descendant;
use crate::fabric::WORKER_NAME;
use crate::status::EventCode;

/// Most programs that a message names. Our choice: one is enough to act on.
const NAMES_MAX: usize = 3;

impl Control {
    /// Reports workers of other managers on our cores. They may be told of before they are measured.
    pub(in crate::control) fn find_neighbours(&mut self) {
        let own = rustix::process::getpid();
        let others: Vec<TaskOn> =
            cores::threads_named(WORKER_NAME).into_iter().filter(|task| task.process != own).collect();
        for core in self.own_alone() {
            let here: Vec<&TaskOn> = others.iter().filter(|task| task.core == core).collect();
            if here.is_empty() {
                continue;
            }
            let what = format!(
                "core {core}: {} polls there too, so each has a part of it and packets wait: give one of the two \
                 another core (`cores` of [manager], `core` of an NF)",
                names(&here)
            );
            let (now, core) = (self.now(), CoreId(core as u16));
            self.taken.decided.on(now, Event::Polled { core }, &mut Vec::new());
            self.taken.said.insert((core, Taker::Programs), what.clone());
            self.log(EventCode::CoreTaken, "manager", what);
        }
    }

    /// Reports cores that others take, when it is time to look.
    pub(in crate::control) fn tend_taken(&mut self) {
        let now = self.now();
        if !self.taken.decided.is_due(now) {
            return;
        }
        let sample = self.core_times();
        let mut actions = Vec::new();
        self.taken.decided.poll(now, &sample, &mut actions);
        for action in actions {
            match action {
                Action::Taken { core, by, part } => {
                    let what = self.taken_sentence(core, by, part);
                    self.taken.said.insert((core, by), what.clone());
                    self.log(EventCode::CoreTaken, "manager", what);
                    if by == Taker::Programs {
                        self.grant_policies_on(core);
                    }
                }
                Action::Free { core, by } => {
                    self.taken.said.remove(&(core, by));
                    let what = format!("core {core}: {} no longer take it", whom(by));
                    self.log(EventCode::CoreFree, "manager", what);
                }
            }
        }
    }

    /// Returns the cores that are to be ours alone: those of NFs, and of workers unless they yield to others.
    fn own_alone(&self) -> BTreeSet<u32> {
        let spins = self.config.manager.idle == IdleWorker::Spin;
        let of_workers = self.fabric.workers.iter().filter(|_| spins).map(|worker| worker.core);
        self.config.cores_of_nfs().into_iter().chain(of_workers).collect()
    }

    /// Returns what the kernel counted of our tasks on our cores.
    fn core_times(&self) -> Sample {
        let mut tasks: BTreeMap<u32, Vec<TaskTimes>> =
            self.own_alone().into_iter().map(|core| (core, Vec::new())).collect();
        for worker in &self.fabric.workers {
            let Ok((ran, waited)) = process::times_ns(worker.task) else { continue };
            if let Some(tasks) = tasks.get_mut(&worker.core) {
                tasks.push(times(worker.task, ran, waited));
            }
        }
        for instance in self.instances.iter() {
            let Some(pid) = instance.pid() else { continue };
            let counted = process::cpu_time_ns(pid).and_then(|ran| Ok((ran, process::waiting_ns(pid)?)));
            // One that has just ended has no times.
            let Ok((ran, waited)) = counted else { continue };
            if let Some(tasks) = tasks.get_mut(&instance.seat.core) {
                tasks.push(times(pid, ran, waited));
            }
        }
        let stolen = accounting::stolen().unwrap_or_default();
        let beside =
            Beside::observe(&self.fabric.workers.iter().map(|worker| worker.task).collect::<Vec<_>>());
        let sample = |(core, tasks): (u32, Vec<TaskTimes>)| CoreSample {
            core: CoreId(core as u16),
            stolen: Span(stolen.get(&core).map_or(0, |time| time.as_nanos() as u64)),
            busy: Span(accounting::core(core).map_or(0, |time| time.busy.as_nanos() as u64)),
            beside: Span(beside.on_ns(core)),
            tasks,
        };
        Sample { cores: tasks.into_iter().map(sample).collect() }
    }

    /// Describes who takes a core, and what to do.
    fn taken_sentence(&self, core: CoreId, by: Taker, part: f64) -> String {
        let percent = part * 100.0;
        if by == Taker::Hypervisor {
            return format!(
                "core {core}: the hypervisor gave {percent:.0} % of it to others, and packets wait meanwhile: let it \
                 have a core of the host of its own (CPU pinning), or ask the operator of the host"
            );
        }
        let number = u32::from(core.0);
        let of_nfs: Vec<Pid> = self.instances.iter().filter_map(Instance::pid).collect();
        let is_other = |task: &&TaskOn| !of_nfs.contains(&task.process) && !is_descendant(task.process);
        let users = cores::users_of(number);
        let others: Vec<&TaskOn> = users.iter().filter(is_other).collect();
        let is_worker = self.fabric.workers.iter().any(|worker| worker.core == number);
        let cure = match is_worker {
            true => {
                "keep them off it (`taskset`, AllowedCPUs= of their units), or give the worker another core"
            }
            false => "keep them off it (`reserve_cores = true` in [scheduler], `taskset`)",
        };
        let who = if others.is_empty() { String::new() } else { format!(" ({})", names(&others)) };
        format!(
            "core {core}: other programs{who} had {percent:.0} % of it while {} waited for it, and packets wait \
             meanwhile: {cure}",
            if is_worker { "the worker" } else { "NFs" }
        )
    }
}

/// Time that threads of this process have run that are no workers.
struct Beside {
    /// All of it, in nanoseconds, with that of threads that have ended.
    all_ns: u64,
    /// That of each thread that is kept off some cores, and where it may run.
    kept: Vec<(u64, CoreList)>,
}

impl Beside {
    fn observe(workers: &[Pid]) -> Self {
        let own = rustix::process::getpid();
        let ran = |thread: Pid| process::times_ns(thread).map_or(0, |(ran, _)| ran);
        let of_workers: u64 = workers.iter().map(|worker| ran(*worker)).sum();
        let all_ns = process::cpu_time_ns(own).unwrap_or(of_workers).saturating_sub(of_workers);
        let others = process::threads(own).into_iter().filter(|thread| !workers.contains(thread));
        // One that has just ended may have run anywhere.
        let kept = others.filter_map(|thread| Some((ran(thread), cores::affinity(Some(thread)).ok()?)));
        Self { all_ns, kept: kept.collect() }
    }

    /// Returns the time of those that may have run on a core, in nanoseconds.
    fn on_ns(&self, core: u32) -> u64 {
        let elsewhere = self.kept.iter().filter(|(_, cores)| !cores.contains(core)).map(|(ran, _)| ran);
        self.all_ns.saturating_sub(elsewhere.sum())
    }
}

fn times(task: Pid, ran: u64, waited: u64) -> TaskTimes {
    TaskTimes { task: task.as_raw_pid() as u32, ran: Span(ran), waited: Span(waited) }
}

const fn whom(by: Taker) -> &'static str {
    match by {
        Taker::Programs => "other programs",
        Taker::Hypervisor => "other machines of the hypervisor",
    }
}

/// Names the programs of tasks, each once: managers by their names.
fn names(tasks: &[&TaskOn]) -> String {
    let mut named: Vec<(bool, String)> = tasks
        .iter()
        // Whoever polls there by design comes first.
        .map(|task| (!task.name.starts_with(WORKER_NAME), name(task, place::manager_of)))
        .collect();
    named.sort();
    named.dedup();
    let mut named: Vec<String> = named.into_iter().map(|(_, name)| name).collect();
    let more = named.len().saturating_sub(NAMES_MAX);
    named.truncate(NAMES_MAX);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{more}", named.join(", "))
}

fn name(task: &TaskOn, manager_of: impl Fn(u32) -> Option<String>) -> String {
    let pid = task.process.as_raw_pid();
    if !task.name.starts_with(WORKER_NAME) {
        return format!("{}, process {pid}", headgate_units::text::harmless(&task.program));
    }
    match manager_of(pid as u32) {
        Some(name) => format!("the worker of the manager {name:?}, process {pid}"),
        None => format!("the worker of another manager, process {pid}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_is_kept_elsewhere_explains_no_waiting_of_a_core() {
        let beside = Beside {
            all_ns: 100,
            kept: vec![(30, [0].into_iter().collect()), (50, [0, 1].into_iter().collect())],
        };
        assert_eq!([0, 1, 2].map(|core| beside.on_ns(core)), [100, 70, 20]);
        let observed = Beside::observe(&[]);
        assert!(observed.kept.iter().any(|(ran, _)| *ran > 0) && observed.all_ns > 0);
    }

    #[test]
    fn programs_are_named_and_managers_by_their_names() {
        let task = |name: &str| TaskOn {
            process: Pid::from_raw(7).unwrap(),
            program: name.to_owned(),
            name: name.to_owned(),
            core: 1,
        };
        let none = |_| None;
        assert_eq!(name(&task("ffmpeg"), none), "ffmpeg, process 7");
        assert!(!name(&task("a\u{1b}[2J"), none).contains('\u{1b}'));
        let known = |pid| (pid == 7).then(|| "edge".to_owned());
        assert_eq!(name(&task("hg-worker-1"), known), "the worker of the manager \"edge\", process 7");
        assert_eq!(name(&task("hg-worker-1"), none), "the worker of another manager, process 7");
        let many: Vec<TaskOn> = ["a", "b", "c", "d", "d"].map(task).into();
        assert!(names(&many.iter().collect::<Vec<_>>()).ends_with("and 1 more"));
    }
}
