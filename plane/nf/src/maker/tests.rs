use std::time::Duration;

use super::*;
use crate::testing::{Arrival, Harness, MadeFrame, Setup};
use crate::{Build, Burst, Context, Member, NetworkFunction, NfError, Timer};

const LENGTH: usize = 60;

/// Verdicts of a [`Says`], by the frame's first byte.
const DROPS: u8 = 1;
const COPIES: u8 = 2;
const ANSWERS: u8 = 3;

/// Copies packets, answers them, or counts what it saw.
struct Says {
    maker: Option<Maker>,
    seen: crate::Counter,
    chain: Option<Chain>,
}

impl Says {
    fn maker(context: &mut Context) -> Result<Self, NfError> {
        context.every(Duration::from_millis(10));
        let maker = Some(context.maker(3)?);
        Ok(Self { maker, seen: context.counter("seen")?, chain: context.chain("other").ok() })
    }

    fn viewer(context: &mut Context) -> Result<Self, NfError> {
        Ok(Self { maker: None, seen: context.counter("seen")?, chain: None })
    }
}

impl NetworkFunction for Says {
    fn process(&mut self, burst: &mut Burst, _: &mut Context) {
        for mut packet in burst.packets() {
            self.seen.add(1);
            let first = packet.data()[0];
            if first & 0x80 != 0 && first & 0x7f == DROPS {
                packet.discard();
            }
            let Some(maker) = &self.maker else { continue };
            let way = match first {
                COPIES => Way::Next,
                ANSWERS => Way::Port(packet.ingress()),
                _ => continue,
            };
            // One that finds no buffer is left out.
            let _ = maker.after(&packet, way, LENGTH, |frame| {
                assert!(frame.iter().all(|byte| *byte == 0), "nothing of others is in it");
                frame.copy_from_slice(packet.data());
                frame[0] |= 0x80;
            });
            if first == ANSWERS {
                packet.discard();
            }
        }
    }

    fn timer(&mut self, _: Timer, _: &mut Context) {
        if let (Some(maker), Some(chain)) = (&self.maker, self.chain) {
            let _ = maker.alone(Way::Chain(chain), 14, |frame| frame[0] = 9);
        }
    }
}

fn frame(first: u8, number: u8) -> Vec<u8> {
    let mut frame = vec![number; LENGTH];
    frame[0] = first;
    frame
}

fn harness() -> Harness {
    Harness::new(Setup::default(), Says::maker).unwrap()
}

#[test]
fn copies_and_answers_follow_their_packets() {
    let mut harness = harness();
    let outcomes = harness.run(&[frame(0, 0), frame(COPIES, 1), frame(ANSWERS, 2), frame(0, 3)]);
    assert_eq!(
        outcomes.iter().map(|(verdict, _)| *verdict).collect::<Vec<_>>(),
        [Verdict::Next, Verdict::Next, Verdict::Drop, Verdict::Next]
    );
    let made = |at, follows, way, frame| MadeFrame { at, follows: Some(follows), way: Some(way), frame };
    assert_eq!(
        harness.made(),
        [
            made(Duration::ZERO, 1, Way::Next, frame(COPIES | 0x80, 1)),
            made(Duration::ZERO, 2, Way::Port(Port(0)), frame(ANSWERS | 0x80, 2)),
        ]
    );
    assert_eq!(harness.made(), []);
}

#[test]
fn no_more_than_what_is_lent_is_made_for_a_burst() {
    let mut harness = harness().with_bursts_of(8);
    harness.run(&vec![frame(COPIES, 1); 24]);
    assert_eq!(
        harness.made().iter().filter_map(|made| made.follows).collect::<Vec<_>>(),
        [0, 1, 2, 8, 9, 10, 16, 17, 18]
    );
}

#[test]
fn a_timer_makes_packets_for_a_chain() {
    let setup = Setup { chains: vec!["one".into(), "other".into()], ..Setup::default() };
    let mut harness = Harness::new(setup, Says::maker).unwrap().with_bursts_of(1);
    harness.wait(Duration::from_millis(25));
    let arrival = |at| Arrival { at: Duration::from_millis(at), ingress: 1, frame: frame(COPIES, 0) };
    harness.run_arrivals(&[arrival(26), arrival(45)]);
    let made = harness.made();
    let ways: Vec<_> = made.iter().map(|made| (made.at.as_millis(), made.way)).collect();
    let chain = Some(Way::Chain(Chain(2)));
    assert_eq!(
        ways,
        [(10, chain), (20, chain), (26, Some(Way::Next)), (30, chain), (40, chain), (45, Some(Way::Next))]
    );
}

fn member(label: &str, build: impl FnOnce(&mut Context) -> Result<Says, NfError> + 'static) -> Member {
    let build: Build = Box::new(|context| build(context).map(|nf| Box::new(nf) as Box<dyn NetworkFunction>));
    Member { label: label.to_owned(), build }
}

#[test]
fn nfs_behind_the_maker_see_its_packets_and_may_end_them() {
    let members = vec![member("a", Says::viewer), member("b", Says::maker), member("c", Says::viewer)];
    let mut harness = Harness::fused(Setup::with("[{}, {}, {}]"), members).unwrap();
    harness.run(&[frame(COPIES, 1), frame(DROPS, 0), frame(ANSWERS, 2)]);
    let made = harness.made();
    assert_eq!(
        made.iter().map(|made| made.way).collect::<Vec<_>>(),
        [Some(Way::Next), Some(Way::Port(Port(0)))]
    );
    // The answer was given a port: like any packet that was, it is not shown.
    assert_eq!(["a.seen", "b.seen", "c.seen"].map(|name| harness.counter(name)), [3, 3, 3]);

    let maker = |context: &mut Context| Ok(Says { maker: Some(context.maker(3)?), ..Says::viewer(context)? });
    let twice = vec![member("b", maker), member("c", maker)];
    let mut harness = Harness::fused(Setup::with("[{}, {}]"), twice).unwrap();
    harness.run(&[frame(COPIES, 1)]);
    assert_eq!(harness.made().len(), 2, "each makes one of the first, and the copy is no packet to copy");
    assert_eq!(harness.counter("c.seen"), 2);
}

/// The copies of `COPIES` begin with a byte that a later NF drops when it is `DROPS`.
#[test]
fn a_made_packet_that_a_later_nf_drops_goes_nowhere() {
    struct Copier(Maker);
    impl NetworkFunction for Copier {
        fn process(&mut self, burst: &mut Burst, _: &mut Context) {
            for packet in burst.packets() {
                let made = self.0.after(&packet, Way::Next, LENGTH, |frame| frame[0] = DROPS | 0x80);
                assert_eq!(made, Ok(()));
            }
        }
    }
    let copier: Build = Box::new(|context| Ok(Box::new(Copier(context.maker(64)?))));
    let members = vec![Member { label: "copier".into(), build: copier }, member("viewer", Says::viewer)];
    let mut harness = Harness::fused(Setup::with("[{}, {}]"), members).unwrap();
    harness.run(&vec![frame(0, 1); 100]);
    let made = harness.made();
    assert_eq!((made.len(), made.iter().filter(|made| made.way.is_none()).count()), (100, 100));
    assert_eq!(harness.counter("viewer.seen"), 200);
}

#[test]
fn what_cannot_be_made_is_an_error_with_its_reason() {
    struct Asks(Maker);
    impl NetworkFunction for Asks {
        fn process(&mut self, burst: &mut Burst, _: &mut Context) {
            for packet in burst.packets() {
                for length in [0, 13, 1 << 14, usize::MAX] {
                    let error =
                        self.0.after(&packet, Way::Next, length, |_| panic!("nothing is made")).unwrap_err();
                    assert!(matches!(error, MakeError::Length { asked, .. } if asked == length), "{error}");
                }
                let inside = packet.data().as_ptr();
                for wrong in [inside, std::ptr::null(), std::ptr::without_provenance(usize::MAX)] {
                    let asked = self.0.make_at(Some((wrong, 0)), 0, 60);
                    assert_eq!(asked, Err(MakeError::NotHere));
                }
                let drop = Verdict::Drop.encode() as u16;
                assert_eq!(self.0.make_at(None, drop, 60), Err(MakeError::Nowhere));
                assert_eq!(self.0.after(&packet, Way::Next, 14, |frame| assert_eq!(frame.len(), 14)), Ok(()));
                assert_eq!(self.0.alone(Way::Next, 14, |_| ()), Err(MakeError::NoneLent));
            }
        }
    }
    let mut harness = Harness::new(Setup::default(), |context| Ok(Asks(context.maker(1)?))).unwrap();
    harness.run(&[frame(0, 0)]);
    for most in [0, 65, u32::MAX] {
        let failed = Harness::new(Setup::default(), |context| Ok(Asks(context.maker(most)?)));
        let error = failed.err().unwrap().to_string();
        assert!(error.starts_with(&format!("an NF can be lent 1 to 64 buffers, not {most};")), "{error}");
    }
}

#[test]
fn an_unknown_chain_is_named_with_those_there_are() {
    let setup = Setup { chains: vec!["one".into()], ..Setup::default() };
    let build = |context: &mut Context| -> Result<Says, NfError> {
        context.chain("two")?;
        Says::viewer(context)
    };
    let error = Harness::new(setup, build).err().unwrap().to_string();
    assert_eq!(error, "there is no chain through this NF `two`; there are one");
}

proptest::proptest! {
    /// Merged, packets keep their order, each made one is right behind what it follows, and one whose packet
    /// is not there waits.
    #[test]
    fn merging_keeps_the_order(follows in proptest::collection::vec(proptest::option::of(0u32..12), 0..40)) {
        let mut made = Made::new(None, Lent::Own(Vec::new()));
        for (follows, index) in follows.iter().zip(100..) {
            let packet = Descriptor::new(index, 128, 60, 0);
            made.packets.push_back(MadePacket { packet, follows: *follows, ingress: Port(0), unseen_from: None });
        }
        let burst: Vec<_> = (0..8).map(|index| Descriptor::new(index, 128, 60, 0)).collect();
        let merged = made.merged(&burst);
        let mut expected: Vec<u32> = Vec::new();
        let of = |wanted: Option<u32>| follows.iter().zip(100..).filter(move |(one, _)| **one == wanted);
        expected.extend(of(None).map(|(_, index)| index));
        for index in 0..8 {
            expected.push(index);
            expected.extend(of(Some(index)).map(|(_, index)| index));
        }
        proptest::prop_assert_eq!(merged.iter().map(|packet| packet.index()).collect::<Vec<_>>(), expected);
        proptest::prop_assert_eq!(made.packets.len(), follows.iter().flatten().filter(|index| **index >= 8).count());
    }
}
