//! Stage that is an external program: two queues, and behind them a program that keeps packets, makes some,
//! and goes.

use std::sync::{Arc, Mutex};

use headgate_decide::outstanding::{SAMPLE_EVERY, SAMPLES};
use headgate_decide::pressure::QueueMarks;
use headgate_path::drop::DropReason;
use headgate_path::link::{LinkEnds, ProgramEnds};
use headgate_path::plan::Exit;
use headgate_path::rules::Rules;
use headgate_path::stages::InstanceEnds;
use headgate_port::Queue;
use headgate_units::{ChainId, InstanceId, NfId, PortId, RegionId, Ticks};

use crate::harness::frames::interleaved;
use crate::harness::layout::{HERE, Layout, to_chain};
use crate::harness::port::{Cable, TestQueue};
use crate::harness::{TICKS_PER_MICRO, World};

const FIRST: u16 = 0;
const PROGRAM: u16 = 1;
const CHAIN: u16 = 1;

/// The two interfaces, as the program has them.
struct Outside {
    into: Arc<Mutex<Cable>>,
    out: Arc<Mutex<Cable>>,
}

impl Outside {
    fn received(&self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.into.lock().unwrap().sent)
    }

    fn send(&self, frames: Vec<Vec<u8>>) {
        self.out.lock().unwrap().incoming.extend(frames);
    }
}

/// Returns an NF, an external program, another NF, and a port.
fn world() -> (World, Outside) {
    let layout = Layout::plain()
        .nf("first", &[HERE])
        .nf("program", &[HERE])
        .nf("last", &[HERE])
        .chain(&[0, 1, 2], Exit::Port(PortId(1)))
        .default_chain(CHAIN);
    let mut world = World::new(layout);
    world.kill(PROGRAM);
    world.settle();
    world.programs.push(PROGRAM);
    let outside = attach(&world, None);
    (world, outside)
}

fn attach(world: &World, marks: Option<QueueMarks>) -> Outside {
    let outside = Outside { into: Arc::default(), out: Arc::default() };
    let queue = |cable: &Arc<Mutex<Cable>>| Box::new(TestQueue::new(cable.clone(), None)) as Box<dyn Queue>;
    let (into, out) = (queue(&outside.into), queue(&outside.out));
    let link = LinkEnds::Program(Box::new(ProgramEnds { marks, into, out }));
    world.attach(0, InstanceEnds { number: InstanceId(PROGRAM), region: RegionId(0), link });
    outside
}

/// Lets enough time pass that outstanding packets are given up.
fn wait_for_overdue(world: &mut World) {
    for _ in 0..=SAMPLES + 1 {
        world.now += Ticks::from_span(SAMPLE_EVERY, TICKS_PER_MICRO).0;
        world.pass();
    }
    world.settle();
}

#[test]
fn what_a_program_gives_back_goes_on_behind_it() {
    let (mut world, outside) = world();
    let offered = interleaved(0..20, 0..5);
    world.offer(0, &offered);
    world.settle();
    let inside = outside.received();
    assert_eq!(inside.len(), offered.len());
    assert_eq!(world.boards[0].instances[PROGRAM as usize].held.get(), 100);
    assert_eq!(world.audit().chains[&ChainId(CHAIN)].in_nfs, 100);
    outside.send(inside);
    world.settle();
    assert_eq!(world.sent(1).len(), offered.len());
    assert_eq!((world.entered(CHAIN), world.left(CHAIN)), (100, 100));
    wait_for_overdue(&mut world);
    assert_eq!(world.drops(CHAIN), [].into());
    world.finish();
}

#[test]
fn what_a_program_keeps_ends_there_and_what_it_makes_enters_there() {
    let (mut world, outside) = world();
    world.offer(0, &interleaved(0..10, 0..10));
    world.settle();
    let mut inside = outside.received();
    inside.truncate(60);
    outside.send(inside.clone());
    world.settle();
    assert_eq!(world.dropped(CHAIN, DropReason::BoxKept), 0, "it may still come");
    wait_for_overdue(&mut world);
    assert_eq!((world.dropped(CHAIN, DropReason::BoxKept), world.left(CHAIN)), (40, 60));
    inside.truncate(7);
    outside.send(inside);
    world.settle();
    assert_eq!((world.entered(CHAIN), world.left(CHAIN)), (107, 67));
    world.finish();
}

#[test]
fn a_full_interface_takes_what_it_has_room_for() {
    let (mut world, outside) = world();
    outside.into.lock().unwrap().room = Some(3);
    world.offer(0, &interleaved(0..1, 0..50));
    world.settle();
    assert_eq!(outside.received().len(), 3);
    assert_eq!(world.dropped(CHAIN, DropReason::StageFull), 47);
    assert_eq!(world.boards[0].chains[CHAIN as usize].wasted.get(), 47);
    wait_for_overdue(&mut world);
    world.finish();
}

#[test]
fn what_was_in_a_program_dies_with_it_and_the_next_one_works() {
    let (mut world, outside) = world();
    world.offer(0, &interleaved(0..1, 0..50));
    world.settle();
    let mut inside = outside.received();
    inside.truncate(20);
    // It had sent these before it died.
    outside.send(inside);
    world.reclaim(PROGRAM);
    world.settle();
    assert_eq!((world.left(CHAIN), world.dropped(CHAIN, DropReason::NfDied)), (20, 30));
    world.offer(0, &interleaved(0..1, 0..5));
    world.settle();
    assert_eq!(world.dropped(CHAIN, DropReason::StageDown), 5);
    let next = attach(&world, None);
    world.offer(0, &interleaved(0..1, 0..5));
    world.settle();
    next.send(next.received());
    world.settle();
    assert_eq!(world.left(CHAIN), 25);
    world.finish();
}

#[test]
fn a_program_is_not_heard_before_its_chain_is_known() {
    let (mut world, outside) = world();
    outside.send(interleaved(0..1, 0..9));
    world.settle();
    assert_eq!(world.dropped(0, DropReason::Unasked), 9);
    assert_eq!(world.entered(CHAIN), 0);
    world.finish();
}

#[test]
fn a_program_whose_chain_is_replaced_goes_on_in_the_new_one() {
    let (mut world, outside) = world();
    world.offer(0, &interleaved(0..1, 0..10));
    world.settle();
    world.replan(|parts| {
        let mut chain = parts.chains[CHAIN as usize].clone();
        if let Some(chain) = &mut chain {
            chain.stages.retain(|&stage| stage != NfId(FIRST));
        }
        parts.chains.push(chain);
        parts.generation += 1;
        parts.rules = Rules::new(&[to_chain(CHAIN + 1)]);
    });
    world.offer(0, &interleaved(0..1, 0..10));
    world.settle();
    assert_eq!(world.dropped(CHAIN, DropReason::BoxKept), 10, "which chain they were of cannot be told");
    outside.send(outside.received());
    world.settle();
    // The program made ten of the twenty, as far as that chain knows.
    assert_eq!((world.entered(CHAIN + 1), world.left(CHAIN + 1)), (20, 20));
    world.finish();
}
