//! Random sequences of lies and honest work, thousands of them. Which offence must be named is worked
//! out beside the manager, from the liar's point of view, wherever that is possible.

use std::collections::HashSet;
use std::sync::Mutex;

use headgate_path::holders::Holder;
use headgate_path::worker::Event;
use headgate_shm::control::LENT_MAX;
use headgate_shm::{Descriptor, Offence};
use headgate_units::InstanceId;
use proptest::prelude::*;
use proptest::test_runner::{RngSeed, TestRunner};

use super::liar::offset;
use super::{LEND, LIAR, NEIGHBOUR, RING, Scene};

#[derive(Clone, Debug)]
enum Move {
    /// Honest: takes so many packets, returns so many with this verdict.
    Work {
        take: usize,
        give_back: usize,
        tag: u32,
    },
    /// Takes so many empty buffers, and returns so many with packets made in them.
    Make {
        borrow: usize,
        make: usize,
        tag: u32,
    },
    /// Returns a packet it holds with another extent.
    Resize {
        offset: u32,
        length: u32,
    },
    /// Returns again what it returned last.
    Repeat,
    /// Returns some buffer of its region, whoever holds it.
    Grab {
        index: u32,
    },
    /// Returns a random word.
    Forge(u64),
    /// Publishes an index this far from the true one.
    Produce(i32),
    Consume(i32),
    Borrow(i32),
    /// Writes a word anywhere in its control region.
    Scribble {
        place: u64,
        word: u32,
    },
    /// Claims to sleep, or something else.
    Doorbell(u32),
    /// Takes the pages of its control region away.
    Punch,
    /// Ends, wherever it is.
    Die,
}

fn any_move() -> impl Strategy<Value = Move> {
    let tag = || prop_oneof![4 => Just(0u32), 1 => 0u32..1 << 14, 1 => (2u32..4, 0u32..8).prop_map(|(k, a)| k << 12 | a)];
    let near = prop_oneof![-3i32..70, any::<i32>()];
    let word = prop_oneof![0u32..200, any::<u32>()];
    let bytes = offset::SLOTS + 8 * u64::from(2 * RING + LENT_MAX);
    let place = prop_oneof![(0u64..9).prop_map(|line| line * 128), (0..bytes / 4).prop_map(|word| word * 4)];
    prop_oneof![
        30 => (0usize..70, 0usize..70, tag()).prop_map(|(take, give_back, tag)| Move::Work { take, give_back, tag }),
        15 => (0usize..10, 0usize..10, tag()).prop_map(|(borrow, make, tag)| Move::Make { borrow, make, tag }),
        2 => (0u32..500, 0u32..500).prop_map(|(offset, length)| Move::Resize { offset, length }),
        1 => Just(Move::Repeat),
        2 => (0u32..200).prop_map(|index| Move::Grab { index }),
        1 => any::<u64>().prop_map(Move::Forge),
        1 => near.clone().prop_map(Move::Produce),
        1 => near.clone().prop_map(Move::Consume),
        1 => near.prop_map(Move::Borrow),
        1 => (place, word.clone()).prop_map(|(place, word)| Move::Scribble { place, word }),
        2 => word.prop_map(Move::Doorbell),
        1 => Just(Move::Punch),
        1 => Just(Move::Die),
    ]
}

/// Offence that the manager must find in this incarnation at its next pass.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Expected {
    Nothing,
    Exactly(Offence),
    /// It wrote where it should not: that may be found or not, now or later.
    Anything,
}

struct Storm {
    scene: Scene,
    expected: Expected,
    /// Returned since the manager's last pass.
    on_their_way: HashSet<u32>,
}

impl Storm {
    fn new() -> Self {
        Self { scene: Scene::lending(LEND), expected: Expected::Nothing, on_their_way: HashSet::new() }
    }

    /// Puts a descriptor into the ring, and works out what it will be taken for.
    fn put(&mut self, descriptor: Descriptor) {
        let truth = self.judge(descriptor);
        if !self.scene.liar.put(descriptor) {
            return;
        }
        if let Err(found) = truth {
            if self.expected == Expected::Nothing {
                self.expected = found;
            }
        } else {
            self.on_their_way.insert(descriptor.index());
            let others = |held: &Descriptor| held.index() != descriptor.index();
            self.scene.liar.taken.retain(others);
            self.scene.liar.empty.retain(others);
        }
    }

    fn judge(&self, descriptor: Descriptor) -> Result<(), Expected> {
        let (world, index) = (&self.scene.world, descriptor.index());
        world.regions[0].geometry().check(descriptor).map_err(Expected::Exactly)?;
        let mut its = self.scene.liar.taken.iter().chain(&self.scene.liar.empty);
        if its.any(|held| held.index() == index) {
            return Ok(());
        }
        let holder = world.holders[0].place(index).holder();
        if holder == Holder::instance(InstanceId(NEIGHBOUR)) || self.on_their_way.contains(&index) {
            return Err(Expected::Exactly(Offence::NotHeld));
        }
        // In its ring but not yet taken, or free: then a packet for the liar may lie there by the time
        // the manager reads it.
        Err(Expected::Anything)
    }

    fn make(&mut self, step: &Move) {
        let liar = &mut self.scene.liar;
        match *step {
            Move::Work { take, give_back, tag } => {
                liar.take(take);
                for packet in liar.taken.iter().take(give_back).copied().collect::<Vec<_>>() {
                    self.put(packet.with_tag(tag));
                }
            }
            Move::Make { borrow, make, tag } => {
                liar.borrow(borrow);
                for empty in liar.empty.iter().take(make).copied().collect::<Vec<_>>() {
                    self.put(empty.with_extent(empty.offset(), 60).with_tag(tag));
                }
            }
            Move::Resize { offset, length } => {
                if let Some(packet) = liar.taken.last().copied() {
                    self.put(packet.with_extent(offset, length).with_tag(0));
                }
            }
            Move::Repeat => {
                if let Some(descriptor) = liar.returned {
                    self.put(descriptor);
                }
            }
            Move::Grab { index } => self.put(Descriptor::new(index, 128, 60, 0)),
            Move::Forge(word) => self.put(Descriptor(word)),
            Move::Produce(by) => {
                let index = liar.nf.transmit.produced().wrapping_add_signed(by);
                self.scribble(offset::TRANSMIT_PRODUCED, index);
            }
            Move::Consume(by) => {
                let index = liar.nf.receive.consumed().wrapping_add_signed(by);
                self.scribble(offset::RECEIVE_CONSUMED, index);
            }
            Move::Borrow(by) => {
                let index = liar.nf.lent.consumed().wrapping_add_signed(by);
                self.scribble(offset::LEND_CONSUMED, index);
            }
            Move::Scribble { place, word } => self.scribble(place, word),
            Move::Doorbell(word) => liar.scribble(offset::DOORBELL, word),
            Move::Punch => {
                liar.punch(offset::SLOTS + 8 * u64::from(2 * RING + LENT_MAX));
                self.expected = Expected::Anything;
            }
            Move::Die => self.replace(),
        }
    }

    fn scribble(&mut self, place: u64, word: u32) {
        self.scene.liar.scribble(place, word);
        self.expected = Expected::Anything;
    }

    fn replace(&mut self) {
        self.scene.replace_liar();
        self.on_their_way.clear();
        self.expected = Expected::Nothing;
    }

    /// Makes a pass of everyone; then the control loop replaces an offender. Returns what it was stopped for.
    fn pass(&mut self) -> Option<Offence> {
        self.scene.pass();
        self.on_their_way.clear();
        let mut named = None;
        for event in self.scene.world.events() {
            match event {
                Event::Offence { number, offence } => {
                    assert_eq!((number, named), (InstanceId(LIAR), None), "only the liar, and only once");
                    named = Some(offence);
                }
                // What was named so far was its predecessor's.
                Event::Reclaimed { number, .. } => {
                    assert_eq!(number, InstanceId(LIAR));
                    named = None;
                }
                Event::Promoted { .. } | Event::Dismissed { .. } => panic!("it has no standby: {event:?}"),
            }
        }
        match self.expected {
            Expected::Nothing => assert_eq!(named, None, "an honest NF is accused"),
            Expected::Exactly(offence) => assert_eq!(named, Some(offence)),
            Expected::Anything => {}
        }
        if named.is_some() {
            self.replace();
        }
        named
    }
}

/// Some 3 ms each in a debug build.
const CASES: u32 = 2_000;

#[test]
fn no_lie_harms_anyone_but_the_liar() {
    let pass = (0u32..70, 0u32..16, prop::collection::vec(any_move(), 0..5));
    let seen = Mutex::new(HashSet::new());
    let mut runner = TestRunner::new(ProptestConfig {
        cases: CASES,
        rng_seed: RngSeed::Fixed(1),
        failure_persistence: None,
        max_shrink_iters: 500,
        ..ProptestConfig::default()
    });
    let ran = runner.run(&prop::collection::vec(pass, 1..16), |passes| {
        let mut storm = Storm::new();
        for (to_liar, to_neighbours, moves) in &passes {
            storm.scene.offer(*to_liar, *to_neighbours);
            moves.iter().for_each(|step| storm.make(step));
            seen.lock().unwrap().extend(storm.pass());
        }
        storm.scene.finish();
        Ok(())
    });
    ran.unwrap_or_else(|failure| panic!("{failure}"));
    // Punched ordinary pages come back as zeroes, and are found out as indices; a socket is not in this game.
    let elsewhere = [Offence::PunchedMemory, Offence::SentFiles, Offence::ImpossibleCount];
    let possible: HashSet<_> =
        Offence::ALL.into_iter().filter(|offence| !elsewhere.contains(offence)).collect();
    assert_eq!(seen.into_inner().unwrap(), possible, "the storms have every offence in them");
}
