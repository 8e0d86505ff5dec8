//! A core on a model of the kernel.

use super::*;
use crate::record::memory::Memory;
use crate::record::{BYTES_MAX, header};
use headgate_shm::{ControlLayout, ManagerSide};
use std::sync::Mutex;

const RULES: Rules = Rules { gamma_percent: 75, occupancy: true, switch: Span::from_micros(10) };
const FAIR: Policy = Policy::Normal { nice: 0, slice_ns: None };

/// Model of a kernel that writes its calls down, and knows no task of some numbers.
#[derive(Clone, Default)]
struct Model {
    told: Arc<Mutex<Vec<(i32, Priority)>>>,
    unknown: Vec<i32>,
}

impl Kernel for Model {
    fn set(&mut self, thread: Pid, priority: Priority, _: Policy) -> Result<(), SchedError> {
        if self.unknown.contains(&thread.as_raw_pid()) {
            return Err(SchedError::NoSuchTask { task: thread });
        }
        self.told.lock().unwrap().push((thread.as_raw_pid(), priority));
        Ok(())
    }
}

impl Model {
    fn told(&self) -> Vec<(i32, Priority)> {
        std::mem::take(&mut self.told.lock().unwrap())
    }
}

fn runner(pid: i32, threads: &[i32]) -> Runner {
    let side = ManagerSide::create("nf", ControlLayout::new(64).unwrap()).unwrap();
    let pid_of = |number: i32| Pid::from_raw(number).unwrap();
    Runner {
        pid: pid_of(pid),
        threads: threads.iter().copied().map(pid_of).collect(),
        own: FAIR,
        queues: Queues::Shared(Arc::new(side)),
        clock: None,
        next: Vec::new(),
        account: Arc::default(),
        measured_ns: Some(120.0),
    }
}

fn core(kernel: &Model, runners: Vec<Runner>, before: Option<SlicedCore<Model>>) -> SlicedCore<Model> {
    let order = CoreOrder { core: CoreId(1), runners, objectives: Vec::new(), tally: Arc::default() };
    SlicedCore::new(kernel.clone(), Moment(0), RULES, order, &Recorder::default(), before)
}

#[test]
fn an_idle_core_polls_with_its_first_nf_and_is_given_back() {
    use Priority::{Own, Running, Waiting};
    let kernel = Model::default();
    let mut core = core(&kernel, vec![runner(11, &[11]), runner(12, &[12, 13])], None);
    assert_eq!(core.sample(Moment(0)), Some(Moment(20_000)));
    assert_eq!(kernel.told(), [(12, Waiting), (13, Waiting), (11, Running)]);
    core.sample(Moment(25_000_000));
    assert_eq!(kernel.told(), [(11, Own), (12, Own), (13, Own)]);
    let tally = core.tally.load();
    assert_eq!((tally.samples, tally.switches, tally.demotions), (2, 1, 1));
}

#[test]
fn housekeeping_is_a_slice_which_takes_the_wish_back() {
    let kernel = Model::default();
    let runners = vec![runner(11, &[11]), runner(12, &[12])];
    let account = runners[1].account.clone();
    let mut core = core(&kernel, runners, None);
    assert_eq!(account.cost_ps.load(Ordering::Relaxed), 120_000, "as it was measured");
    account.housekeeping.store(true, Ordering::Relaxed);
    core.sample(Moment(0));
    assert_eq!(kernel.told(), [(11, Priority::Waiting), (12, Priority::Running)]);
    assert_eq!(account.slices.load(Ordering::Relaxed), 1);
    assert!(!account.housekeeping.load(Ordering::Relaxed));
}

#[test]
fn one_with_packets_that_makes_no_progress_is_counted() {
    let kernel = Model::default();
    let stuck = runner(11, &[11]);
    let account = stuck.account.clone();
    let Queues::Shared(side) = &stuck.queues else { unreachable!() };
    let mut core = core(&kernel, vec![stuck.clone()], None);
    core.sample(Moment(0));
    assert_eq!(side.receive_producer().push(&[headgate_shm::Descriptor::default()]), Ok(1));
    for ms in (1..250).step_by(5) {
        core.sample(Moment(ms * 1_000_000));
    }
    assert_eq!(account.without_progress.load(Ordering::Acquire), 1, "once until it moves");
}

#[test]
fn a_process_that_is_gone_is_touched_no_more_but_a_thread_may_end() {
    let kernel = Model { unknown: vec![12, 99], ..Model::default() };
    let mut core = core(&kernel, vec![runner(11, &[11, 99]), runner(12, &[12])], None);
    core.sample(Moment(0));
    assert_eq!((core.dispatcher.priority(0), core.dispatcher.priority(1)), (Some(Priority::Running), None));
    assert!(core.refused().is_none());
    drop(core);
    assert_eq!(kernel.told(), [(11, Priority::Running), (11, Priority::Own)]);
}

#[test]
fn a_successor_changes_only_what_differs_after_the_rest_was_given_back() {
    use Priority::{Own, Running};
    let kernel = Model::default();
    let first = vec![runner(11, &[11]), runner(12, &[12]), runner(13, &[13])];
    let stays = first[0].clone();
    let mut before = core(&kernel, first, None);
    before.sample(Moment(0));
    kernel.told();
    let more = Runner { threads: vec![stays.pid, Pid::from_raw(21).unwrap()], ..stays };
    let next = core(&kernel, vec![more, runner(14, &[14])], Some(before));
    assert_eq!(kernel.told(), [(12, Own), (13, Own), (11, Running), (21, Running)]);
    drop(next);
    assert_eq!(kernel.told(), [(11, Own), (21, Own)]);
}

#[test]
fn a_core_that_is_made_anew_is_recorded_one_after_the_other() {
    let (kernel, file) = (Model::default(), Memory::default());
    let recording = file.record(&header(&()), BYTES_MAX);
    let recorder = recording.recorder();
    let made = |runners: &[Runner], before| {
        let (runners, objectives) = (runners.to_vec(), Vec::new());
        let order = CoreOrder { core: CoreId(1), runners, objectives, tally: Arc::default() };
        SlicedCore::new(kernel.clone(), Moment(0), RULES, order, &recorder, before)
    };
    let runners = [runner(11, &[11]), runner(12, &[12])];
    let mut first = made(&runners, None);
    first.sample(Moment(0));
    let mut second = made(&runners[1..], Some(first));
    second.sample(Moment(1_000));
    drop(second);
    drop(recording);
    let steps: Vec<String> = file.replayed().iter().map(|line| format!("{:?}", line.entry)).collect();
    let begins = |step: &&String| step.contains("Begins");
    assert_eq!(steps.iter().filter(begins).count(), 2);
    assert!(steps.last().unwrap().contains("SetPriority { nf: 0, priority: Own }"), "{steps:#?}");
}
