//! Samples of instances become events; decisions become words.

use headgate_decide::record::{Line, Step};
use headgate_decide::units::{NfId, WorkerId};

use super::*;
use crate::config::{Catalog, Config, Machine};
use crate::record::memory::Memory;
use crate::record::{BYTES_MAX, header};

fn config(scheduler: &str, nf: &str) -> Config {
    let text = format!(
        "[memory]\nhugepages = \"never\"\n[scheduler]\n{scheduler}\n[[port]]\nname = \"in\"\nkind = \"null\"\n\
         [[nf]]\nname = \"nf\"\nexec = [\"/bin/true\"]\nring = 64\ncore = 1\n{nf}\n"
    );
    let machine = Machine { cores: vec![0, 1], memory_bytes: 1 << 34, ..Machine::default() };
    crate::config::parse("test.toml", &text, &Catalog::default(), &machine).unwrap().config
}

fn seat(config: &Config) -> Seat {
    let nf = config.nfs[0].clone();
    Seat {
        number: InstanceId(4),
        stage: NfId(0),
        name: nf.name.clone(),
        core: nf.cores[0],
        worker: WorkerId(0),
        nf,
    }
}

/// Service times as an NF counts them.
struct Counts(Box<[AtomicU32; BUCKETS]>);

impl Counts {
    fn new() -> Self {
        Self(Box::new(std::array::from_fn(|_| AtomicU32::new(0))))
    }

    fn add(&self, cycles: u64, count: u32) {
        self.0[headgate_shm::histogram::bucket_of(cycles)].fetch_add(count, Ordering::Relaxed);
    }
}

fn started(scheduling: &mut Scheduling, seat: &Seat) -> Vec<Action> {
    let mut actions = Vec::new();
    scheduling.begin(Moment(0), seat, &mut actions);
    scheduling.on(Moment(0), Event::Ready(seat.number), &mut actions);
    actions
}

#[test]
fn an_nf_is_weighed_by_what_its_configuration_says() {
    let weighed = |scheduler, nf| {
        let config = config(scheduler, nf);
        let mut scheduling = Scheduling::new(&config.scheduler, &Recorder::default());
        started(&mut scheduling, &seat(&config)) == [Action::Enter(InstanceId(4))]
    };
    assert!(weighed("mode = \"nfvnice\"", ""));
    assert!(!weighed("mode = \"os\"", ""));
    assert!(
        !weighed("mode = \"nfvnice\"", "loop = \"polling\""),
        "what one that never sleeps needs is not known"
    );
    assert!(weighed("mode = \"os\"", "policy = \"fifo\""), "for its time, which its group may lack");
    let nf = traits(&seat(&config("", "priority = 7\nslice_us = 3000")));
    assert_eq!((nf.priority, nf.slice, nf.core), (7, Some(Span::from_millis(3)), CoreId(1)));
}

#[test]
fn samples_are_told_once_and_anew_for_each_process() {
    let config = config("mode = \"nfvnice\"", "");
    let mut scheduling = Scheduling::new(&config.scheduler, &Recorder::default());
    let seat = seat(&config);
    started(&mut scheduling, &seat);
    let counts = Counts::new();
    let sampled = |scheduling: &mut Scheduling, millis| {
        let now = Moment(0) + Span::from_millis(millis);
        let (number, actions) = (seat.number, &mut Vec::new());
        scheduling.on_service_times(now, number, &counts.0, |cycles| cycles * 10, actions);
        scheduling.on_costs(now, number, || None, actions);
        scheduling.figures(seat.number).claim.map(|claim| claim.median)
    };
    assert_eq!(sampled(&mut scheduling, 0), None);
    counts.add(4, 30);
    assert_eq!(sampled(&mut scheduling, 1), Some(Span(40)));
    counts.add(6, 20);
    assert_eq!(sampled(&mut scheduling, 2), Some(Span(40)), "30 of 50");
    counts.add(6, 20);
    assert_eq!(sampled(&mut scheduling, 3), Some(Span(60)), "40 of 70");
    scheduling.begin(Moment(1), &seat, &mut Vec::new());
    assert!(scheduling.figures(seat.number).claim.is_none());
    // Its memory is another one, whose counts begin at 0.
    counts.0.iter().for_each(|count| count.store(0, Ordering::Relaxed));
    counts.add(2, 5);
    assert_eq!(sampled(&mut scheduling, 200), Some(Span(20)));
}

#[test]
fn the_kernel_is_asked_once_a_window() {
    let config = config("mode = \"nfvnice\"", "");
    let mut scheduling = Scheduling::new(&config.scheduler, &Recorder::default());
    let seat = seat(&config);
    started(&mut scheduling, &seat);
    let mut asked = 0;
    for millis in 0..=500 {
        let account = || {
            asked += 1;
            Some(Account {
                cpu: Span::from_millis(millis),
                returned: millis * 100,
                sleeps: 0,
                empty_polls: 0,
            })
        };
        let now = Moment(0) + Span::from_millis(millis);
        scheduling.on_costs(now, seat.number, account, &mut Vec::new());
    }
    assert_eq!(asked, 6);
    assert_eq!(scheduling.figures(seat.number).accounted, Some(Span(10_000)));
}

#[test]
fn the_loop_is_woken_only_where_weights_are_decided() {
    let poll_at = |mode| Scheduling::new(&config(mode, "").scheduler, &Recorder::default()).poll_at();
    assert_eq!(poll_at("mode = \"backpressure\""), None);
    assert_eq!(poll_at("mode = \"weights\""), Some(Moment(0)));
}

#[test]
fn people_are_told_in_sentences() {
    let why = "no such file".to_owned();
    let (code, who, what) = sentence(&Report::Refused { why });
    assert_eq!(code, EventCode::WeightsNotSet);
    assert_eq!(who, None);
    assert_eq!(what, "weights cannot be set, so the kernel shares cores evenly meanwhile: no such file");
    let (claimed, accounted) = (Span(40_000), Span(10_000));
    let (code, who, what) = sentence(&Report::Overridden { instance: InstanceId(3), claimed, accounted });
    assert_eq!((code, who), (EventCode::ServiceTimeOverridden, Some(InstanceId(3))));
    assert!(what.contains("overridden by CPU accounting") && what.contains("40000 ns"), "{what}");
}

#[test]
fn a_slice_is_set_where_a_policy_has_one() {
    let slice = Span::from_millis(2);
    let normal = with_slice(sched::Policy::Normal { nice: 3, slice_ns: None }, slice);
    assert_eq!(normal, sched::Policy::Normal { nice: 3, slice_ns: Some(2_000_000) });
    let fifo = sched::Policy::Fifo { priority: 5 };
    assert_eq!(with_slice(fifo, slice), fifo);
}

#[test]
fn what_weights_saw_and_did_is_recorded_and_replays() {
    let file = Memory::default();
    let config = config("mode = \"nfvnice\"", "");
    let recording = file.record(&header(&config), BYTES_MAX);
    let mut scheduling = Scheduling::new(&config.scheduler, &recording.recorder());
    let seat = seat(&config);
    started(&mut scheduling, &seat);
    scheduling.on(Moment(0), Event::Entered(InstanceId(4)), &mut Vec::new());
    let (mut delivered, mut written) = (0, 0);
    for millis in 0..300 {
        let now = Moment(0) + Span::from_millis(millis);
        delivered += 1_000;
        while scheduling.is_due(now) {
            let actions = scheduling.poll(now);
            if actions.contains(&Action::SampleLoads) {
                let load = Load { delivered, backlog: 17, ..Load::default() };
                scheduling.on_load(now, InstanceId(4), load, &mut Vec::new());
            }
            written += actions.iter().filter(|action| matches!(action, Action::Write { .. })).count();
            scheduling.done(actions);
        }
    }
    drop(recording);
    let lines = file.replayed();
    let did = |line: &&Line| matches!(line.entry, Entry::Weights(Step::Did(Action::Write { .. })));
    assert!(written > 0 && lines.iter().filter(did).count() == written);
}
