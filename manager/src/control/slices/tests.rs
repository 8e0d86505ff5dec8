//! Assignment of processes to schedulers, without one that runs them.

use headgate_decide::slice::Objective;
use headgate_host::clock::Clock;
use headgate_shm::{ControlLayout, ManagerSide};

use super::*;
use crate::config::{Catalog, Machine};

/// Returns a configuration of two chains over three NFs that poll, two of them on core 1.
fn config(scheduler: &str) -> Config {
    let nf = |name: &str, core: u32| {
        format!(
            "[[nf]]\nname = \"{name}\"\nexec = [\"/bin/true\"]\nloop = \"polling\"\nring = 64\ncore = {core}\n"
        )
    };
    let text = format!(
        "[manager]\ncores = [0]\n[memory]\nhugepages = \"never\"\nbuffers = 1024\n[scheduler]\nmode = \"unis\"\n{scheduler}\n\
         [[port]]\nname = \"in\"\nkind = \"generator\"\nrate = \"1K\"\n[[port]]\nname = \"out\"\nkind = \"null\"\n{}{}{}\
         [[chain]]\nname = \"long\"\nstages = [\"a\", \"b\", \"c\"]\nout = \"out\"\ndelay_bound_us = 900\n\
         [[chain]]\nname = \"short\"\nstages = [\"b\"]\nout = \"out\"\nrate_floor = 1000\n\
         [[rule]]\nin = \"in\"\nchain = \"long\"\n",
        nf("a", 1),
        nf("b", 1),
        nf("c", 2),
    );
    let machine = Machine { cores: vec![0, 1, 2, 3], memory_bytes: 1 << 34, ..Machine::default() };
    crate::config::parse("test.toml", &text, &Catalog::default(), &machine).unwrap().config
}

fn slices(config: &Config) -> TimeSlices {
    let clock = ManagerClock { clock: Clock::calibrate(), started_ns: 0 };
    TimeSlices::new(config, clock, &Recorder::default())
}

fn candidate(config: &Config, number: u16, nf: u16, core: u32) -> Candidate {
    let side = ManagerSide::create("nf", ControlLayout::new(64 << nf).unwrap()).unwrap();
    let pid = Pid::from_raw(1_000 + i32::from(number)).unwrap();
    Candidate {
        number: InstanceId(number),
        nf: Some(NfId(nf)),
        core,
        has_slices: config.nfs[usize::from(nf)].has_slices(Mode::Unis),
        starts_or_stops: false,
        pid,
        threads: vec![pid],
        own: Policy::Normal { nice: 0, slice_ns: None },
        queues: Queues::Shared(Arc::new(side)),
    }
}

#[test]
fn a_core_is_told_its_nfs_in_the_order_of_packets_with_those_that_come_next() {
    let config = config("");
    let mut slices = slices(&config);
    // The list is not in the order of packets; the third is on another core.
    let candidates =
        [(5, 1, 1), (6, 0, 1), (7, 2, 2)].map(|(number, nf, core)| candidate(&config, number, nf, core));
    slices.note_measured(InstanceId(6), Some(70.0));
    slices.begin(InstanceId(6));
    slices.begin(InstanceId(5));
    let instances = candidates.each_ref().map(|one| Runnable {
        nf: one.nf,
        core: CoreId(one.core as u16),
        has_slices: one.has_slices,
    });
    let plan = slice::plan(CoreId(1), &chains(&config.chains), &instances);
    let order = slices.order_of(1, plan, &candidates);
    let pids: Vec<i32> = order.runners.iter().map(|runner| runner.pid.as_raw_pid()).collect();
    assert_eq!(pids, [1_006, 1_005], "a before b");
    let next = |at: usize| order.runners[at].next.iter().map(Queues::capacity).collect::<Vec<_>>();
    assert_eq!((next(0), next(1)), (vec![128], vec![256]), "b behind a, c behind b");
    assert_eq!(order.runners.iter().map(|runner| runner.measured_ns).collect::<Vec<_>>(), [Some(70.0), None]);
    let Objective { bound, path } = &order.objectives[0];
    assert_eq!((bound, path.len()), (&Some(Span::from_micros(600)), 2), "two of three stages");
    assert_eq!(order.objectives[1].path[0].floor, Rate(1_000.0));
}

#[test]
fn a_core_that_cannot_be_scheduled_is_shared_by_the_kernel_and_people_are_told_once() {
    let config = config("");
    let mut slices = slices(&config);
    // There is no such core, so its scheduler cannot stand on it.
    let nowhere = 60_000;
    let candidates = [candidate(&config, 1, 0, nowhere)];
    assert!(slices.gives(&config.nfs[0], nowhere));
    let told = slices.seat(&candidates, &mut |_| Ok(()));
    assert_eq!(told.len(), 1);
    let (code, why) = &told[0];
    assert_eq!(*code, EventCode::SlicesNotGiven);
    assert!(why.starts_with("core 60000: UNiS scheduling is off, so the kernel shares"), "{why}");
    assert!(!slices.gives(&config.nfs[0], nowhere) && slices.gives(&config.nfs[0], 1));
    assert_eq!(slices.seat(&candidates, &mut |_| Ok(())), []);
    assert_eq!(slices.troubles().collect::<Vec<_>>(), [why]);
    assert_eq!(
        slices.take_unregistered(&candidates),
        Vec::<InstanceId>::new(),
        "nothing of it will be raised"
    );
    assert_eq!(slices.status()[0].scheduler_core, None);
}

#[test]
fn one_scheduler_on_a_core_beside_has_all_cores_and_registers_each_process_once() {
    let config = config("unis_core = 0");
    let mut slices = slices(&config);
    let candidates = [(1, 0, 1), (2, 2, 2)].map(|(number, nf, core)| candidate(&config, number, nf, core));
    let told = slices.seat(&candidates, &mut |_| Ok(()));
    // Whether a switch can be measured is the machine's to say: it is told once, and as long as it lasts.
    assert!(told.iter().all(|(code, _)| *code == EventCode::SwitchNotMeasured), "{told:?}");
    assert_eq!(
        slices.unmeasured().collect::<Vec<_>>(),
        told.iter().map(|(_, why)| why.clone()).collect::<Vec<_>>()
    );
    assert_eq!(slices.status()[0].switch_ns.is_some(), told.is_empty());
    assert_eq!((slices.seated.len(), &slices.seated[0].cores), (1, &vec![1, 2]));
    assert_eq!(slices.place_of(2), (0, Seat::OtherCore { shared: true }));
    assert_eq!(slices.status().iter().map(|core| core.scheduler_core).collect::<Vec<_>>(), [Some(0); 2]);
    assert_eq!(slices.take_unregistered(&candidates), [InstanceId(1), InstanceId(2)]);
    assert_eq!(slices.take_unregistered(&candidates), Vec::<InstanceId>::new());
    slices.begin(InstanceId(2));
    assert_eq!(slices.take_unregistered(&candidates), [InstanceId(2)], "its process is another one");
    assert_eq!(slices.tend(), Vec::<String>::new());
}

#[test]
fn only_nfs_that_poll_have_slices_and_an_account_is_that_of_one_process() {
    let config = config("");
    let mut slices = slices(&config);
    let notified = Nf { waits: headgate_session::message::Loop::Notified, ..config.nfs[0].clone() };
    assert!(slices.would_give(&config.nfs[0]) && !slices.would_give(&notified));
    slices.begin(InstanceId(3));
    slices.rouse(InstanceId(3));
    slices.rouse(InstanceId(99));
    let account = slices.kept(InstanceId(3)).account.clone();
    assert!(account.housekeeping.load(Ordering::Relaxed));
    account.slices.store(7, Ordering::Relaxed);
    account.cost_ps.store(1_500, Ordering::Relaxed);
    let told = slices.figures(InstanceId(3));
    assert_eq!((told.slices, told.cost_ns, told.is_measured), (7, Some(1.5), false));
    slices.begin(InstanceId(3));
    assert_eq!((slices.figures(InstanceId(3)).slices, slices.figures(InstanceId(3)).cost_ns), (0, None));
    assert!(slices.take_change() && !slices.take_change());
}

#[test]
fn an_nf_without_progress_is_told_of_once_each_time() {
    let config = config("");
    let mut slices = slices(&config);
    slices.begin(InstanceId(2));
    assert_eq!(slices.without_progress(), []);
    let account = slices.kept(InstanceId(2)).account.clone();
    account.ran_without_progress_ns.store(70, Ordering::Relaxed);
    account.without_progress.fetch_add(1, Ordering::Release);
    assert_eq!(slices.without_progress(), [(InstanceId(2), Span(70))]);
    assert_eq!(slices.without_progress(), []);
    account.without_progress.fetch_add(1, Ordering::Release);
    assert_eq!(slices.without_progress().len(), 1);
    slices.begin(InstanceId(2));
    assert_eq!(slices.without_progress(), [], "its process is another one");
}

#[test]
fn an_unknown_price_is_told_with_what_is_assumed_and_a_cure() {
    let why = unmeasured(3, "core 3 is busy with other programs");
    assert!(why.starts_with("core 3: what a switch between NFs costs could not be measured"), "{why}");
    assert!(why.contains("for one of 50 us") && why.contains("Restart the manager"), "{why}");
}
