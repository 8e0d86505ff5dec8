//! Measured delays are the real ones.

use headgate_path::delay::{Delayed, Sample};
use headgate_path::holders::TICK_SHIFT;
use headgate_path::plan::Exit;
use headgate_units::{ChainId, InstanceId, PortId};

use crate::harness::frames::interleaved;
use crate::harness::layout::{HERE, Layout};
use crate::harness::{PASS_TICKS, World};

const NF: u16 = 0;
const INSTANCE: InstanceId = InstanceId(NF);
/// Passes after which an NF may be probed again, and a chain sampled.
const PAUSE: usize = 1000;

fn world() -> World {
    let layout = Layout::plain().nf("nf", &[HERE]);
    World::new(layout.chain(&[0], Exit::Port(PortId(1))).default_chain(1))
}

fn samples(world: &World, from: &mut u64) -> Vec<Sample> {
    let mut all = Vec::new();
    *from = world.boards[0].delays.read(*from, |sample| all.push(sample));
    all
}

/// Returns a delay in passes.
fn passes(sample: &Sample) -> u64 {
    ((u64::from(sample.ticks) << TICK_SHIFT) + PASS_TICKS / 2) / PASS_TICKS
}

/// Makes passes in which NFs do nothing.
fn pass(world: &mut World, passes: usize) {
    for _ in 0..passes {
        world.pass_of(0);
    }
}

/// Lets packets come, wait for the NF and be worked on; then a pause.
fn round(world: &mut World, waits: u64, works: u64) {
    world.offer(0, &interleaved(0..4, 0..5));
    world.pass_of(0);
    pass(world, waits as usize);
    let packets = world.nf(NF).take(32);
    assert_eq!(packets.len(), 20);
    pass(world, works as usize);
    world.nf(NF).give_back(&packets);
    pass(world, PAUSE);
}

#[test]
fn waiting_and_work_are_told_apart() {
    let mut world = world();
    let mut read = 0;
    for (waits, works) in [(1, 1), (40, 3), (5, 200), (400, 400)] {
        (0..10).for_each(|_| round(&mut world, waits, works));
        let seen = samples(&world, &mut read);
        // A sample may be a quarter of the wait late, and the middle is taken.
        let late = waits / 8 + 1;
        let mut watched = [0; 2];
        for sample in seen {
            match sample.of {
                Delayed::Queueing(INSTANCE) => {
                    assert!(passes(&sample).abs_diff(waits) <= late, "{waits} passes, {}", passes(&sample));
                    watched[0] += 1;
                }
                Delayed::Processing(INSTANCE) => {
                    assert!(
                        passes(&sample).abs_diff(works + 1) <= late,
                        "{works} passes, {}",
                        passes(&sample)
                    );
                    watched[1] += 1;
                }
                _ => {
                    let expected = Sample { of: Delayed::Whole(ChainId(1)), packets: 20, ..sample };
                    assert_eq!((sample, passes(&sample)), (expected, waits + works + 1));
                }
            }
        }
        assert!(watched[0] > 1 && watched[0] == watched[1], "{watched:?}");
    }
    world.finish();
}

#[test]
fn waiting_at_the_manager_is_waiting() {
    let mut layout = Layout::plain().ring(64).nf("fast", &[HERE]).nf("slow", &[HERE]);
    layout.handling.pending_max = 128;
    let mut world = World::new(layout.chain(&[0, 1], Exit::Port(PortId(1))).default_chain(1));
    let mut read = 0;
    let feed = |world: &mut World, frames: &[Vec<u8>]| {
        world.offer(0, frames);
        world.pass_of(0);
        world.nf(0).step();
        world.pass_of(0);
    };
    // The ring fills right after a packet was watched, with packets that are not.
    let mut watched = false;
    for _ in 0..10 {
        world.offer(0, &interleaved(0..4, 0..1));
        world.settle();
        watched =
            samples(&world, &mut read).iter().any(|sample| sample.of == Delayed::Queueing(InstanceId(1)));
        if watched {
            break;
        }
        pass(&mut world, PAUSE);
    }
    assert!(watched);
    feed(&mut world, &interleaved(0..4, 1..15));
    pass(&mut world, PAUSE);
    // At most as many are passed over as came since.
    feed(&mut world, &interleaved(0..4, 15..16));
    feed(&mut world, &interleaved(0..4, 16..32));
    let counts = &world.boards[0].instances[1];
    assert_eq!((counts.held.get(), counts.pending.get()), (64, 60));
    samples(&world, &mut read);
    let waited = |world: &World, read: &mut u64| {
        samples(world, read).iter().any(|sample| sample.of == Delayed::Queueing(InstanceId(1)))
    };
    world.nf(1).step();
    pass(&mut world, PAUSE);
    assert!(!waited(&world, &mut read), "the last of those at the manager is watched");
    world.nf(1).step();
    pass(&mut world, PAUSE);
    assert!(waited(&world, &mut read));
    world.finish();
}
