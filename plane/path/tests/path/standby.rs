//! A standby in the place of a process that died: it gives each packet that was not returned once, in order,
//! and the accounts hold.

mod lent;
mod seen;

use headgate_path::drop::DropReason;
use headgate_path::plan::Exit;
use headgate_path::worker::{Command, Event, Promotion};
use headgate_shm::{Descriptor, Offence};
use headgate_units::{InstanceId, PortId};
use proptest::prelude::*;

use crate::harness::World;
use crate::harness::frames::udp4;
use crate::harness::layout::{HERE, Layout};
use crate::hostile::liar::offset;

const RING: u32 = 64;
const NF: InstanceId = InstanceId(0);

fn one() -> Layout {
    Layout::plain()
        .protected()
        .ring(RING)
        .nf("a", &[HERE])
        .chain(&[0], Exit::Port(PortId(1)))
        .default_chain(1)
}

fn frames(sequences: std::ops::Range<u32>) -> Vec<Vec<u8>> {
    sequences.map(|sequence| udp4(1, sequence)).collect()
}

/// Returns a world in which the NF has these packets in its ring.
fn given(layout: Layout, sequences: std::ops::Range<u32>) -> World {
    let mut world = World::new(layout);
    world.offer(0, &frames(sequences));
    world.pass_of(0);
    world
}

#[track_caller]
fn promoted(world: &World) -> Promotion {
    match world.events()[..] {
        [Event::Promoted { number: NF, promotion }] => promotion,
        ref events => panic!("{events:?}"),
    }
}

/// Returns packets to the worker, unchanged.
fn give_back(world: &mut World, packets: &[Descriptor]) {
    let packets: Vec<_> = packets.iter().map(|packet| packet.with_tag(0)).collect();
    world.nf(0).give_back(&packets);
}

#[test]
fn what_was_not_returned_is_delivered_again_and_nothing_else() {
    let mut world = given(one(), 0..30);
    world.stand_by(0);
    let taken = world.nf(0).take(20);
    give_back(&mut world, &taken[..7]);
    world.pass_of(0);
    give_back(&mut world, &taken[7..12]);
    world.die(0);
    world.pass_of(0);
    let expected = Promotion { returned: 12, again: 18, is_alone: false, poisoned: false, took: None };
    assert_eq!(promoted(&world), expected);
    world.check();
    assert_eq!(world.promote(0), (12, 0));
    let again = world.nf(0).take(64);
    assert_eq!(again[..8], taken[12..], "as they were delivered at first");
    give_back(&mut world, &again);
    world.offer(0, &frames(30..40));
    world.settle();
    assert_eq!(world.sent(1), frames(0..40));
    assert_eq!(world.drops(1).len(), 0);
    world.finish();
}

/// An NF may return packets in any order, and keep one while others pass.
#[test]
fn a_packet_that_was_kept_for_long_is_given_again() {
    let mut world = given(one(), 0..4);
    world.stand_by(0);
    let kept = world.nf(0).take(4)[1];
    for round in 0..20 {
        world.offer(0, &frames(100 + round * 20..120 + round * 20));
        world.pass_of(0);
        let mut some = world.nf(0).take(20);
        some.reverse();
        give_back(&mut world, &some);
        world.pass_of(0);
        world.check();
    }
    let passed = world.sent(1).len();
    world.die(0);
    world.pass_of(0);
    assert_eq!(promoted(&world).again, 4);
    world.promote(0);
    let again = world.nf(0).take(64);
    assert_eq!((again.len(), again[1]), (4, kept));
    give_back(&mut world, &again);
    world.settle();
    assert_eq!((passed, world.sent(1)), (400, frames(0..4)));
    world.finish();
}

/// Two deaths in a row before a standby is there: packets wait, later ones behind them.
#[test]
fn packets_wait_for_a_standby_that_is_late() {
    let mut world = given(one(), 0..10);
    world.die(0);
    world.pass_of(0);
    world.offer(0, &frames(10..20));
    world.pass_of(0);
    world.pass_of(0);
    assert_eq!(world.events(), []);
    world.check();
    world.stand_by(0);
    world.pass_of(0);
    assert_eq!(promoted(&world).again, 20);
    world.promote(0);
    world.settle();
    assert_eq!(world.sent(1), frames(0..20));
    // It is protected as the first one was.
    world.stand_by(0);
    world.offer(0, &frames(20..25));
    world.pass_of(0);
    world.die(0);
    world.pass_of(0);
    let expected = Promotion { returned: 20, again: 5, is_alone: false, poisoned: false, took: None };
    assert_eq!(promoted(&world), expected);
    assert_eq!(world.promote(0).0, 20, "all that its two processes returned");
    world.settle();
    assert_eq!(world.sent(1), frames(20..25));
    world.finish();
}

/// The same packet first at three deaths in a row.
#[test]
fn poison_ends_and_its_neighbours_go_on() {
    let mut world = given(one(), 0..10);
    for death in 1..=3u32 {
        world.stand_by(0);
        world.die(0);
        world.pass_of(0);
        let promotion = promoted(&world);
        assert_eq!((promotion.is_alone, promotion.poisoned), (death > 1, death == 3), "death {death}");
        let alone = world.promote(0).1;
        assert_eq!(alone, [0, 10, 9][death as usize - 1]);
        world.check();
    }
    assert_eq!(world.dropped(1, DropReason::Poison), 1);
    // What the standby may still have to undo is nobody else's buffer.
    let poison = world.audit().regions[0];
    assert_eq!((poison.held, world.audit().chains.values().map(|chain| chain.in_nfs).sum::<u64>()), (10, 9));
    world.settle();
    assert_eq!(world.sent(1), frames(1..10));
    assert_eq!(world.drops(1).into_iter().collect::<Vec<_>>(), [("poison", 1)]);
    world.finish();
}

/// A buffer of poison is free again if the whole instance goes.
#[test]
fn an_instance_that_goes_leaves_no_buffer_behind() {
    let mut world = given(one(), 0..3);
    for _ in 0..3 {
        world.stand_by(0);
        world.die(0);
        world.pass_of(0);
        world.promote(0);
    }
    world.stand_by(0);
    world.kill(0);
    world.pass_of(0);
    world.standbys.clear();
    assert!(matches!(world.events()[..], [.., Event::Reclaimed { lost: 2, .. }]));
    world.finish();
}

/// What a process wrote before it died is believed no more than what it writes while it lives.
#[test]
fn a_process_that_died_over_nonsense_has_no_successor() {
    let nonsense: [fn(&mut World); 3] = [
        |world| world.nf(0).give_back(&[Descriptor::new(1 << 18, 128, 64, 0)]),
        |world| {
            let packet = world.nf(0).take(1)[0];
            world.nf(0).give_back(&[packet.with_tag(0), packet.with_tag(0)]);
        },
        |world| {
            let packet = world.nf(0).take(1)[0];
            world.nf(0).give_back(&[packet.with_extent(4000, 64).with_tag(0)]);
        },
    ];
    let offences = [Offence::NoSuchBuffer, Offence::NotHeld, Offence::BadLength];
    for (spoil, offence) in nonsense.into_iter().zip(offences) {
        let mut world = given(one(), 0..10);
        world.stand_by(0);
        let good = world.nf(0).take(3);
        give_back(&mut world, &good);
        spoil(&mut world);
        world.die(0);
        world.pass_of(0);
        let passed = 3 + u64::from(offence == Offence::NotHeld);
        assert_eq!(
            world.events(),
            [
                Event::Offence { number: NF, offence },
                Event::Reclaimed { number: NF, lost: 10 - passed as u32, returned: passed as u32 },
            ]
        );
        assert!(world.standbys[&0].side.orders().promoted().is_none(), "its state is worth nothing");
        assert_eq!(world.dropped(1, DropReason::NfDied), 10 - passed);
        world.standbys.clear();
        world.finish();
    }
}

/// A standby that says it took packets which it was not given is found out before it is given some.
#[test]
fn a_standby_that_spoilt_its_ring_does_not_take_over() {
    let mut world = given(one(), 0..10);
    world.stand_by(0);
    let control = &world.standbys[&0].control;
    rustix::io::pwrite(control, &5u32.to_ne_bytes(), offset::RECEIVE_CONSUMED).unwrap();
    world.die(0);
    world.pass_of(0);
    let offence = Offence::ReceiveIndex;
    assert_eq!(
        world.events(),
        [Event::Offence { number: NF, offence }, Event::Reclaimed { number: NF, lost: 10, returned: 0 }]
    );
    world.standbys.clear();
    world.finish();
}

#[test]
fn a_standby_that_was_dismissed_is_forgotten() {
    let mut world = given(one(), 0..10);
    world.stand_by(0);
    world.mailboxes[0].post(Command::Dismiss { number: NF });
    world.die(0);
    world.pass_of(0);
    assert_eq!(world.events(), [Event::Dismissed { number: NF }]);
    assert!(world.standbys[&0].side.orders().promoted().is_none());
    world.stand_by(0);
    world.pass_of(0);
    assert_eq!(promoted(&world).again, 10);
    world.promote(0);
    world.settle();
    assert_eq!(world.sent(1), frames(0..10));
    world.finish();
}

/// One that is not protected, and one that nobody knows, are reclaimed.
#[test]
fn who_has_no_use_for_a_standby_is_reclaimed() {
    let mut world = given(Layout { protected: false, ..one() }, 0..10);
    world.stand_by(0);
    world.die(0);
    world.pass_of(0);
    assert_eq!(world.events(), [Event::Reclaimed { number: NF, lost: 10, returned: 0 }]);
    world.stand_by(0);
    let dead = world.standbys[&0].manager.clone();
    world.mailboxes[0].post(Command::TakeOver { number: NF, dead });
    world.pass_of(0);
    assert_eq!(world.events(), [Event::Reclaimed { number: NF, lost: 0, returned: 0 }]);
    world.standbys.clear();
    world.finish();
}

/// One step of a history of two protected NFs behind each other.
#[derive(Clone, Copy, Debug)]
enum Step {
    Offer(u32),
    Pass,
    /// Takes so many, and returns so many of all that it has.
    Work(u16, usize, usize),
    Die(u16),
    /// Dies, and its worker sees it as soon as there is a standby.
    DieSeen(u16),
    StandBy(u16),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        (1u32..20).prop_map(Step::Offer),
        Just(Step::Pass),
        (0u16..2, 0usize..20, 0usize..20).prop_map(|(nf, take, back)| Step::Work(nf, take, back)),
        (0u16..2).prop_map(Step::Die),
        (0u16..2).prop_map(Step::DieSeen),
        (0u16..2).prop_map(Step::StandBy),
    ];
    prop::collection::vec(step, 1..120)
}

/// Takes in who was promoted; those have nothing in their hands.
fn heed(world: &mut World, hands: &mut [Vec<Descriptor>; 2]) -> u64 {
    let mut poisoned = 0;
    for event in world.events() {
        let Event::Promoted { number, promotion } = event else { panic!("{event:?}") };
        world.promote(number.0);
        hands[number.index()].clear();
        poisoned += u64::from(promotion.poisoned);
    }
    poisoned
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Whenever processes die, what leaves is what entered, once and in order, but for what was poison.
    #[test]
    fn nothing_is_lost_doubled_or_out_of_order(history in steps()) {
        let layout = Layout::plain().protected().ring(RING).nf("a", &[HERE]).nf("b", &[HERE]);
        let mut world = World::new(layout.chain(&[0, 1], Exit::Port(PortId(1))).default_chain(1));
        let (mut hands, mut offered, mut poisoned) = ([const { Vec::new() }; 2], 0, 0);
        for step in history {
            match step {
                Step::Offer(count) if world.entered(1) + 40 < world.left(1) + u64::from(RING) => {
                    world.offer(0, &frames(offered..offered + count));
                    offered += count;
                    world.pass_of(0);
                }
                Step::Offer(_) | Step::Pass => drop(world.pass_of(0)),
                Step::Work(number, take, back) => {
                    let Some(nf) = world.nfs.get_mut(&number) else { continue };
                    let hand = &mut hands[usize::from(number)];
                    hand.extend(nf.take(take));
                    let back: Vec<_> = hand.drain(..back.min(hand.len())).map(|one| one.with_tag(0)).collect();
                    nf.give_back(&back);
                }
                Step::Die(number) => {
                    if world.nfs.contains_key(&number) {
                        world.die(number);
                        world.pass_of(0);
                    }
                }
                Step::DieSeen(number) => {
                    if world.nfs.contains_key(&number) {
                        world.die_seen(number);
                        world.pass_of(0);
                    }
                }
                Step::StandBy(number) => {
                    if !world.standbys.contains_key(&number) {
                        world.stand_by(number);
                        world.pass_of(0);
                    }
                }
            }
            poisoned += heed(&mut world, &mut hands);
            world.check();
        }
        for number in 0..2 {
            if !world.nfs.contains_key(&number) {
                if !world.standbys.contains_key(&number) {
                    world.stand_by(number);
                }
                world.pass_of(0);
                poisoned += heed(&mut world, &mut hands);
            }
            let left: Vec<_> = hands[usize::from(number)].drain(..).map(|one| one.with_tag(0)).collect();
            world.nf(number).give_back(&left);
        }
        world.settle();
        // The buffer of poison is kept until its NF, which may still have to undo what was written there, has
        // returned something: here one more packet.
        world.offer(0, &frames(offered..offered + 1));
        offered += 1;
        world.settle();
        prop_assert_eq!(world.dropped(1, DropReason::Poison), poisoned);
        let (sent, all) = (world.sent(1), frames(0..offered));
        prop_assert_eq!(sent.len() as u64 + poisoned, u64::from(offered));
        let mut rest = all.iter();
        prop_assert!(sent.iter().all(|frame| rest.any(|one| one == frame)), "in order, each once");
        world.finish();
    }
}
