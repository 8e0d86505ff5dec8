//! A stage that is a black box: two queues with a stranger between them, who keeps packets, makes some, and goes.

use std::sync::{Arc, Mutex};

use headgate_decide::outstanding::{SAMPLE_EVERY, SAMPLES};
use headgate_decide::pressure::QueueMarks;
use headgate_path::black_box::BoxEnds;
use headgate_path::drop::Reason;
use headgate_path::plan::Exit;
use headgate_path::worker::Command;
use headgate_port::Queue;
use headgate_units::Ticks;

use crate::harness::frames::interleaved;
use crate::harness::layout::{HERE, Layout};
use crate::harness::port::{Cable, TestQueue};
use crate::harness::{CYCLES_PER_MICRO, World};

const FIRST: u16 = 0;
const BOX: u16 = 1;
const CHAIN: u16 = 1;

/// The box's two interfaces, as its program has them.
struct Stranger {
    into: Arc<Mutex<Cable>>,
    out: Arc<Mutex<Cable>>,
}

impl Stranger {
    fn received(&self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.into.lock().unwrap().sent)
    }

    fn send(&self, frames: Vec<Vec<u8>>) {
        self.out.lock().unwrap().incoming.extend(frames);
    }
}

/// An NF, a black box, another NF, and a port.
fn world() -> (World, Stranger) {
    let layout = Layout::plain()
        .nf("first", &[HERE])
        .nf("box", &[HERE])
        .nf("last", &[HERE])
        .chain(&[0, 1, 2], Exit::Port(1))
        .default_chain(CHAIN);
    let mut world = World::new(layout);
    world.kill(BOX);
    world.settle();
    world.boxes.push(BOX);
    let stranger = attach(&world, None);
    (world, stranger)
}

fn attach(world: &World, marks: Option<QueueMarks>) -> Stranger {
    let stranger = Stranger { into: Arc::default(), out: Arc::default() };
    let queue = |cable: &Arc<Mutex<Cable>>| Box::new(TestQueue::new(cable.clone(), None)) as Box<dyn Queue>;
    let (into, out) = (queue(&stranger.into), queue(&stranger.out));
    let ends = BoxEnds { number: BOX, region: 0, marks, into, out };
    world.mailboxes[0].post(Command::AttachBox(Box::new(ends)));
    stranger
}

/// Lets so much time pass that what is outstanding is given up.
fn wait_for_overdue(world: &mut World) {
    for _ in 0..=SAMPLES + 1 {
        world.now += Ticks::from_span(SAMPLE_EVERY, CYCLES_PER_MICRO).0;
        world.turn();
    }
    world.settle();
}

#[test]
fn what_a_box_gives_back_goes_on_behind_it() {
    let (mut world, stranger) = world();
    let offered = interleaved(0..20, 0..5);
    world.offer(0, &offered);
    world.settle();
    let inside = stranger.received();
    assert_eq!(inside.len(), offered.len());
    assert_eq!(world.boards[0].instances[BOX as usize].held.get(), 100);
    assert_eq!(world.audit().chains[&CHAIN].in_nfs, 100);
    stranger.send(inside);
    world.settle();
    assert_eq!(world.sent(1).len(), offered.len());
    assert_eq!((world.entered(CHAIN), world.left(CHAIN)), (100, 100));
    wait_for_overdue(&mut world);
    assert_eq!(world.drops(CHAIN), [].into());
    world.finish();
}

#[test]
fn what_a_box_keeps_ends_there_and_what_it_makes_enters_there() {
    let (mut world, stranger) = world();
    world.offer(0, &interleaved(0..10, 0..10));
    world.settle();
    let mut inside = stranger.received();
    inside.truncate(60);
    stranger.send(inside.clone());
    world.settle();
    assert_eq!(world.dropped(CHAIN, Reason::BoxKept), 0, "it may still come");
    wait_for_overdue(&mut world);
    assert_eq!((world.dropped(CHAIN, Reason::BoxKept), world.left(CHAIN)), (40, 60));
    inside.truncate(7);
    stranger.send(inside);
    world.settle();
    assert_eq!((world.entered(CHAIN), world.left(CHAIN)), (107, 67));
    world.finish();
}

#[test]
fn a_full_interface_takes_what_it_has_room_for() {
    let (mut world, stranger) = world();
    stranger.into.lock().unwrap().room = Some(3);
    world.offer(0, &interleaved(0..1, 0..50));
    world.settle();
    assert_eq!(stranger.received().len(), 3);
    assert_eq!(world.dropped(CHAIN, Reason::StageFull), 47);
    assert_eq!(world.boards[0].chains[CHAIN as usize].wasted.get(), 47);
    wait_for_overdue(&mut world);
    world.finish();
}

#[test]
fn what_was_in_a_box_dies_with_it_and_the_next_one_works() {
    let (mut world, stranger) = world();
    world.offer(0, &interleaved(0..1, 0..50));
    world.settle();
    let mut inside = stranger.received();
    inside.truncate(20);
    // It had sent these before it died.
    stranger.send(inside);
    world.reclaim(BOX);
    world.settle();
    assert_eq!((world.left(CHAIN), world.dropped(CHAIN, Reason::NfDied)), (20, 30));
    world.offer(0, &interleaved(0..1, 0..5));
    world.settle();
    assert_eq!(world.dropped(CHAIN, Reason::StageDown), 5);
    let next = attach(&world, None);
    world.offer(0, &interleaved(0..1, 0..5));
    world.settle();
    next.send(next.received());
    world.settle();
    assert_eq!(world.left(CHAIN), 25);
    world.finish();
}

#[test]
fn a_box_is_not_heard_before_its_chain_is_known() {
    let (mut world, stranger) = world();
    stranger.send(interleaved(0..1, 0..9));
    world.settle();
    assert_eq!(world.dropped(0, Reason::Unasked), 9);
    assert_eq!(world.entered(CHAIN), 0);
    world.finish();
}

#[test]
fn a_box_whose_chain_is_replaced_goes_on_in_the_new_one() {
    let (mut world, stranger) = world();
    world.offer(0, &interleaved(0..1, 0..10));
    world.settle();
    world.replan(|parts| {
        let mut chain = parts.chains[CHAIN as usize].clone();
        if let Some(chain) = &mut chain {
            chain.stages.retain(|&stage| stage != FIRST);
        }
        parts.chains.push(chain);
        parts.generation += 1;
        parts.rules = headgate_path::rules::Rules::new(&[headgate_path::rules::Rule {
            chain: CHAIN + 1,
            ..headgate_path::rules::Rule::default()
        }]);
    });
    world.offer(0, &interleaved(0..1, 0..10));
    world.settle();
    assert_eq!(world.dropped(CHAIN, Reason::BoxKept), 10, "which chain they were of cannot be told");
    stranger.send(stranger.received());
    world.settle();
    // Ten of the twenty are strangers there.
    assert_eq!((world.entered(CHAIN + 1), world.left(CHAIN + 1)), (20, 20));
    world.finish();
}
