//! NFs in the thread of their worker: called in each pass, and taken back like a process when they end.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use headgate_path::drop::DropReason;
use headgate_path::plan::Exit;
use headgate_path::resident::{Resident, Residents, Visit};
use headgate_path::worker::{Command, Event};
use headgate_units::{InstanceId, PortId, Ticks};

use crate::harness::World;
use crate::harness::frames::{assert_same_flows, interleaved};
use crate::harness::layout::{HERE, Layout};
use crate::harness::nf::Nf;

/// Calls an NF of the harness, until it is to end with packets in its hands.
struct Called {
    nf: Nf,
    ends: Arc<AtomicBool>,
    dropped: Arc<AtomicBool>,
}

impl Resident for Called {
    fn visit(&mut self) -> Visit {
        if self.ends.load(Ordering::Relaxed) {
            self.nf.take(3);
            return Visit::Ended;
        }
        if self.nf.step() > 0 { Visit::Worked } else { Visit::Idle }
    }
}

impl Drop for Called {
    fn drop(&mut self) {
        self.dropped.store(true, Ordering::Relaxed);
    }
}

/// Returns a chain through two NFs, the first of which lives in the worker, and what ends it and says that it
/// is gone.
fn world() -> (World, Residents, Arc<AtomicBool>, Arc<AtomicBool>) {
    let layout = Layout::plain().nf("here", &[HERE]).nf("process", &[HERE]);
    let mut world = World::new(layout.chain(&[0, 1], Exit::Port(PortId(1))).default_chain(1));
    let (ends, dropped) = (Arc::<AtomicBool>::default(), Arc::<AtomicBool>::default());
    // The harness no longer steps it.
    let nf = world.nfs.remove(&0).unwrap();
    let made = std::sync::Mutex::new(Some(nf));
    let (its_ends, its_dropped) = (ends.clone(), dropped.clone());
    let settle = Box::new(move || {
        let nf = made.into_inner().unwrap()?;
        Some(Box::new(Called { nf, ends: its_ends, dropped: its_dropped }) as Box<dyn Resident>)
    });
    world.mailboxes[0].post(Command::Settle { number: InstanceId(0), settle });
    (world, Residents::default(), ends, dropped)
}

/// Makes passes of the worker with its residents, and lets the processes work between them.
fn settle(world: &mut World, residents: &mut Residents) {
    for _ in 0..200 {
        world.now += crate::harness::PASS_TICKS;
        let now = Ticks(world.now);
        world.workers[0].pass_with(now, residents);
        for nf in world.nfs.values_mut() {
            nf.step();
        }
    }
}

#[test]
fn packets_pass_a_resident_and_a_process_in_order() {
    let (mut world, mut residents, ..) = world();
    let offered = interleaved(0..20, 0..30);
    world.offer(0, &offered);
    settle(&mut world, &mut residents);
    assert_same_flows(&offered, &world.sent(1));
    assert!(world.audit().holds(), "{:?}", world.audit());
}

/// One that ends with packets in its hands is dropped at once, and its packets are counted when it is taken
/// back: nothing waits for it, and nothing is lost.
#[test]
fn what_a_resident_held_when_it_ended_is_taken_back() {
    let (mut world, mut residents, ends, dropped) = world();
    settle(&mut world, &mut residents);
    ends.store(true, Ordering::Relaxed);
    world.offer(0, &interleaved(0..10, 0..1));
    settle(&mut world, &mut residents);
    assert!(dropped.load(Ordering::Relaxed), "it was dropped by its worker");
    world.reclaim(0);
    settle(&mut world, &mut residents);
    assert!(world.events().iter().any(|event| matches!(event, Event::Reclaimed { lost: 10, .. })));
    assert_eq!(world.dropped(1, DropReason::NfDied), 10);
    assert!(world.audit().holds(), "{:?}", world.audit());
}

/// One that was made and is told to end before it is in service is visited all the same.
#[test]
fn a_resident_that_is_not_in_service_can_end() {
    let (mut world, mut residents, ends, dropped) = world();
    world.mailboxes[0].post(Command::Reclaim { number: InstanceId(0), dead: None });
    settle(&mut world, &mut residents);
    assert!(!dropped.load(Ordering::Relaxed));
    ends.store(true, Ordering::Relaxed);
    settle(&mut world, &mut residents);
    assert!(dropped.load(Ordering::Relaxed));
}
