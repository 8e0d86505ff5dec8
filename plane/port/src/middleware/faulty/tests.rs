//! Faults of packets, by the other end's word and by the counters'.

use headgate_shm::{Descriptor, Stack};
use proptest::prelude::*;

use super::{FaultSpec, Faults, Faulty};
use crate::testing::conformance::run;
use crate::testing::link::{TestLink, TestLinkQueue, Wrapped};
use crate::testing::{HERTZ, numbered, packets, receive, stack};
use crate::{Queue, QueueCounters};

const MILLISECOND: u64 = HERTZ / 1_000;
const BUFFERS: u32 = 512;

const NONE: Faults =
    Faults { loss: 0.0, duplicate: 0.0, reorder: 0.0, corrupt: 0.0, delay_cycles: 0, jitter_cycles: 0 };

fn spec(seed: u64, receive: Faults, transmit: Faults) -> FaultSpec {
    FaultSpec { seed, link: 0, receive, transmit, reorder_cycles: MILLISECOND, room: 128, region: 0 }
}

/// Frames of 60 bytes, numbered.
fn frames(count: usize) -> Vec<Vec<u8>> {
    (0..count).map(|number| numbered(number, 60)).collect()
}

/// Returns what comes in of frames that are offered, in bursts of that length, an hour between two calls.
fn come_in(spec: &FaultSpec, frames: &[Vec<u8>], burst: usize) -> (Vec<Vec<u8>>, QueueCounters) {
    let link = TestLink::default();
    let (mut queue, mut stack) = (Faulty::new(link.queue(), spec), stack(BUFFERS));
    let (mut now, mut came) = (0, Vec::new());
    let mut offered = 0;
    while offered < frames.len() || queue.holds() > 0 {
        offered += link.offer(&frames[offered..(offered + burst).min(frames.len())]);
        now += 3_600 * HERTZ;
        came.extend(receive_holding(&mut queue, now, &mut stack, burst));
    }
    assert_eq!(stack.len(), BUFFERS as usize);
    (came, queue.counters())
}

/// One burst's frames from a queue that may hold some; their buffers are free again.
fn receive_holding(queue: &mut dyn Queue, now: u64, stack: &mut Stack, most: usize) -> Vec<Vec<u8>> {
    let mut burst = vec![Descriptor::default(); most];
    let count = queue.receive(now, stack, &mut burst);
    let frames = burst[..count].iter().map(|packet| crate::testing::frame(stack, *packet)).collect();
    stack.give_many(burst[..count].iter().map(|packet| packet.index()));
    frames
}

fn number_of(frame: &[u8]) -> usize {
    u32::from_be_bytes(frame[14..18].try_into().unwrap()) as usize
}

#[test]
fn without_faults_it_is_the_queue_inside() {
    for keeps in [false, true] {
        let wrap = |queue| Faulty::new(queue, &FaultSpec::default());
        run(&mut Wrapped { keeps, ends: false, wrap });
    }
}

/// A queue with a delay does what every queue does: it only takes longer.
#[test]
fn a_delay_of_what_comes_is_no_more_than_that() {
    let slow = Faults { delay_cycles: HERTZ / 200_000, jitter_cycles: HERTZ / 500_000, ..NONE };
    for (keeps, ends) in [(false, false), (true, false), (false, true)] {
        let wrap = |queue| Faulty::new(queue, &FaultSpec { region: 3, ..spec(1, slow, NONE) });
        run(&mut Wrapped { keeps, ends, wrap });
    }
}

/// A queue with faults both ways, and all that is known of it.
struct Bed {
    link: TestLink,
    queue: Faulty<TestLinkQueue>,
    stack: Stack,
    now: u64,
    offered: usize,
    came: u64,
    taken: u64,
}

impl Bed {
    fn audit(&self, hands: usize) {
        let counters = self.queue.counters();
        let inner = self.queue.inner().counters();
        assert_eq!(self.stack.len() + hands + self.queue.holds(), BUFFERS as usize, "buffers");
        assert_eq!(counters.received, self.came);
        assert_eq!(counters.sent, inner.sent);
        let (rx, tx) = (counters.received_faults, counters.sent_faults);
        let waiting = (self.queue.holds() - self.queue.inner().holds()) as u64;
        let in_line = inner.received + rx.duplicated - rx.lost - self.came;
        let out_line = self.taken + tx.duplicated - tx.lost - inner.sent;
        assert_eq!(in_line + out_line, waiting, "nothing is lost but what is counted");
    }
}

fn faults() -> impl Strategy<Value = Faults> {
    let rate = || prop_oneof![Just(0.0), Just(1.0), 0.0..0.5f64];
    let cycles = || prop_oneof![Just(0), 0..5 * MILLISECOND];
    (rate(), rate(), rate(), rate(), cycles(), cycles()).prop_map(
        |(loss, duplicate, reorder, corrupt, delay_cycles, jitter_cycles)| Faults {
            loss,
            duplicate,
            reorder,
            corrupt,
            delay_cycles,
            jitter_cycles,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Whatever fails in whatever order: each buffer has one place, and each packet came, left, waits or was
    /// counted.
    #[test]
    fn packets_and_buffers_are_conserved(
        seed: u64, receive in faults(), transmit in faults(), keeps: bool,
        calls in prop::collection::vec((0u8..5, 0usize..100, 0..2 * MILLISECOND), 1..150),
    ) {
        let link = TestLink::default();
        let inner = if keeps { link.queue().keeping(0) } else { link.queue() };
        let queue = Faulty::new(inner, &spec(seed, receive, transmit));
        let mut bed = Bed { link, queue, stack: stack(BUFFERS), now: 0, offered: 0, came: 0, taken: 0 };
        let mut hands: Vec<Descriptor> = Vec::new();
        for (call, count, pause) in calls {
            bed.now += pause;
            match call {
                0 => {
                    let frames: Vec<_> = (0..count).map(|number| numbered(bed.offered + number, 60)).collect();
                    bed.offered += bed.link.offer(&frames);
                }
                1 => {
                    let mut burst = vec![Descriptor::default(); count];
                    let came = bed.queue.receive(bed.now, &mut bed.stack, &mut burst);
                    bed.came += came as u64;
                    hands.extend(&burst[..came]);
                }
                2 => {
                    let burst: Vec<_> = hands.drain(..count.min(hands.len())).collect();
                    let taken = bed.queue.transmit(bed.now, &mut bed.stack, &burst);
                    bed.taken += taken as u64;
                    hands.extend(&burst[taken..]);
                }
                3 => bed.queue.tend(bed.now, &mut bed.stack),
                _ => drop(bed.link.take_left()),
            }
            bed.audit(hands.len());
        }
        bed.queue.lose_all(&mut bed.stack);
        bed.audit(hands.len());
        prop_assert_eq!(bed.queue.holds(), bed.queue.inner().holds());
    }

    /// Bursts are how packets are grouped; they decide nothing.
    #[test]
    fn a_seed_decides_whatever_the_bursts(seed: u64, one in 1usize..64, other in 1usize..64) {
        let faults = Faults { loss: 0.2, duplicate: 0.2, corrupt: 0.2, jitter_cycles: MILLISECOND, ..NONE };
        let spec = spec(seed, faults, NONE);
        let frames = frames(300);
        prop_assert_eq!(come_in(&spec, &frames, one), come_in(&spec, &frames, other));
    }

    /// Another rate of one fault leaves the others with the packets they had.
    #[test]
    fn faults_do_not_depend_on_each_other(seed: u64, loss in 0.0..0.9f64) {
        let frames = frames(500);
        let spoilt = |faults: Faults| {
            let (came, _) = come_in(&spec(seed, faults, NONE), &frames, 32);
            let is_spoilt = |frame: &Vec<u8>| !frames.contains(frame);
            came.into_iter().filter(is_spoilt).collect::<Vec<_>>()
        };
        let alone = Faults { corrupt: 0.1, ..NONE };
        let all = spoilt(alone);
        let beside = spoilt(Faults { loss, duplicate: 0.3, ..alone });
        let mut once = beside.clone();
        once.dedup();
        prop_assert!(once.iter().all(|frame| all.contains(frame)));
    }

    #[test]
    fn a_delay_is_kept_and_jitter_overtakes_nobody(
        delay in 0..50 * MILLISECOND, jitter in 0..20 * MILLISECOND, out: bool,
        steps in prop::collection::vec(0..5 * MILLISECOND, 1..100),
    ) {
        let slow = Faults { delay_cycles: delay, jitter_cycles: jitter + 1, ..NONE };
        let spec = if out { spec(7, NONE, slow) } else { spec(7, slow, NONE) };
        let link = TestLink::default();
        let (mut queue, mut stack) = (Faulty::new(link.queue(), &spec), stack(BUFFERS));
        let (mut now, mut entered, mut left) = (0, Vec::new(), 0);
        for step in steps.iter().copied().chain([100 * MILLISECOND]) {
            now += step;
            let frame = numbered(entered.len(), 60);
            entered.push(now);
            let passed = if out {
                let sent = packets(&mut stack, &[frame]);
                let taken = queue.transmit(now, &mut stack, &sent);
                prop_assert_eq!(taken, 1);
                queue.tend(now, &mut stack);
                link.take_left()
            } else {
                link.offer(&[frame]);
                receive_holding(&mut queue, now, &mut stack, 128)
            };
            for frame in passed {
                prop_assert_eq!(number_of(&frame), left, "in order");
                prop_assert!(now >= entered[left] + delay, "not before its time");
                left += 1;
            }
            // Nobody waits longer than the slowest before it.
            let overdue = entered.iter().filter(|entered| **entered + delay + jitter < now).count();
            prop_assert!(left >= overdue, "{} of {} have passed", left, overdue);
        }
    }
}

/// Parts of 20,000 packets as asked for: within five deviations of a binomial distribution.
#[test]
fn faults_come_at_their_rates_both_ways() {
    const COUNT: usize = 20_000;
    let near = |count: u64, rate: f64| {
        let (wanted, deviation) = (COUNT as f64 * rate, (COUNT as f64 * rate * (1.0 - rate)).sqrt());
        assert!((count as f64 - wanted).abs() <= 5.0 * deviation, "{count} where {wanted} were asked for");
    };
    let one = Faults { loss: 0.3, duplicate: 0.01, corrupt: 0.1, reorder: 0.05, ..NONE };
    let other = Faults { loss: 0.001, duplicate: 0.2, corrupt: 0.5, reorder: 0.25, ..NONE };
    let link = TestLink::default();
    let (mut queue, mut stack) = (Faulty::new(link.queue(), &spec(11, one, other)), stack(BUFFERS));
    let mut now = 0;
    for burst in frames(COUNT).chunks(32) {
        now += 2 * MILLISECOND;
        assert_eq!(link.offer(burst), burst.len());
        receive_holding(&mut queue, now, &mut stack, 64);
        let sent = packets(&mut stack, burst);
        assert_eq!(queue.transmit(now, &mut stack, &sent), sent.len());
        link.take_left();
    }
    let counters = queue.counters();
    for (faults, counted) in [(one, counters.received_faults), (other, counters.sent_faults)] {
        near(counted.lost, faults.loss);
        near(counted.reordered, faults.reorder * (1.0 - faults.loss));
        near(counted.corrupted, faults.corrupt * (1.0 - faults.loss));
        near(counted.duplicated, faults.duplicate * (1.0 - faults.loss));
    }
}

#[test]
fn a_corrupted_frame_differs_by_one_bit() {
    let frames = frames(200);
    let (came, counters) = come_in(&spec(3, Faults { corrupt: 0.5, ..NONE }, NONE), &frames, 32);
    let turned: Vec<u32> = came
        .iter()
        .zip(&frames)
        .map(|(came, sent)| came.iter().zip(sent).map(|(a, b)| (a ^ b).count_ones()).sum())
        .collect();
    assert!(turned.iter().all(|&bits| bits <= 1));
    assert_eq!(turned.iter().filter(|&&bits| bits == 1).count() as u64, counters.received_faults.corrupted);
    assert_eq!(came.len(), frames.len());
}

#[test]
fn a_duplicate_follows_its_packet_and_is_the_same() {
    let frames = frames(10);
    let (came, counters) = come_in(&spec(3, Faults { duplicate: 1.0, ..NONE }, NONE), &frames, 32);
    assert_eq!(came, frames.iter().flat_map(|frame| [frame.clone(), frame.clone()]).collect::<Vec<_>>());
    assert_eq!((counters.received, counters.received_faults.duplicated), (20, 10));
}

#[test]
fn a_late_packet_is_overtaken_and_comes_after_a_millisecond() {
    let link = TestLink::default();
    let faults = Faults { reorder: 0.3, ..NONE };
    let (mut queue, mut stack) = (Faulty::new(link.queue(), &spec(5, faults, NONE)), stack(BUFFERS));
    link.offer(&frames(50));
    let first: Vec<_> = receive_holding(&mut queue, 0, &mut stack, 50).iter().map(|f| number_of(f)).collect();
    let late = queue.counters().received_faults.reordered as usize;
    assert!(first.is_sorted() && first.len() == 50 - late && late > 5, "{first:?}");
    assert_eq!(queue.holds(), late);
    link.offer(&[numbered(50, 60)]);
    let next: Vec<_> =
        receive_holding(&mut queue, MILLISECOND - 1, &mut stack, 50).iter().map(|f| number_of(f)).collect();
    assert!(next.iter().all(|&number| number == 50), "{next:?}");
    let rest: Vec<_> =
        receive_holding(&mut queue, MILLISECOND, &mut stack, 50).iter().map(|f| number_of(f)).collect();
    assert!(rest.is_sorted() && rest.len() == late, "{rest:?}");
}

#[test]
fn one_direction_leaves_the_other_alone() {
    let link = TestLink::default();
    let all = Faults { loss: 1.0, ..NONE };
    let (mut queue, mut stack) = (Faulty::new(link.queue(), &spec(5, all, NONE)), stack(BUFFERS));
    link.offer(&frames(20));
    assert!(receive(&mut queue, 0, &mut stack, 32).is_empty());
    let sent = packets(&mut stack, &frames(20));
    assert_eq!(queue.transmit(0, &mut stack, &sent), 20);
    assert_eq!(link.take_left(), frames(20));
    let counters = queue.counters();
    assert_eq!((counters.received, counters.received_faults.lost), (0, 20));
    assert_eq!((counters.sent, counters.sent_faults), (20, crate::FaultCounters::default()));
}

/// Packets without room wait where they come from; nothing ends here.
#[test]
fn a_full_line_takes_no_more() {
    let link = TestLink::default();
    let slow = Faults { delay_cycles: MILLISECOND, ..NONE };
    let mut queue = Faulty::new(link.queue(), &FaultSpec { room: 20, ..spec(5, slow, slow) });
    let mut stack = stack(BUFFERS);
    let sent = packets(&mut stack, &frames(30));
    // Room for a double of each is kept.
    assert_eq!(queue.transmit(0, &mut stack, &sent), 10);
    assert_eq!(queue.transmit(0, &mut stack, &sent[10..]), 5);
    assert!((0..20).all(|_| queue.transmit(0, &mut stack, &sent[25..26]) <= 1));
    let waiting = queue.waiting().unwrap();
    assert!((15..20).contains(&waiting), "{waiting}");
    assert_eq!(link.offer(&frames(30)), 30);
    for _ in 0..10 {
        receive_holding(&mut queue, 0, &mut stack, 32);
    }
    let inside = queue.inner().counters().received;
    assert!((15..20).contains(&inside), "{inside}");
    let came = receive_holding(&mut queue, MILLISECOND, &mut stack, 32);
    assert_eq!(came, frames(30)[..inside as usize]);
}

/// A device that is full makes packets wait in order, and none is lost.
#[test]
fn what_a_full_device_refuses_waits_in_the_line() {
    let link = TestLink::default();
    let slow = Faults { delay_cycles: 1, ..NONE };
    let (mut queue, mut stack) = (Faulty::new(link.queue(), &spec(5, NONE, slow)), stack(BUFFERS));
    let all = frames(TestLink::ROOM + 50);
    let (mut left, mut taken) = (Vec::new(), 0);
    for now in 0.. {
        let burst = &all[taken..(taken + 32).min(all.len())];
        let sent = packets(&mut stack, burst);
        let count = queue.transmit(now, &mut stack, &sent);
        stack.give_many(sent[count..].iter().map(|packet| packet.index()));
        taken += count;
        queue.tend(now, &mut stack);
        if now == 40 {
            assert_eq!(queue.waiting(), Some(all.len() as u32), "the device and the line are full");
        }
        if now > 40 {
            left.extend(link.take_left());
            if queue.waiting() == Some(0) {
                break;
            }
        }
    }
    assert_eq!(left, all);
    assert_eq!(queue.counters().sent_faults, crate::FaultCounters::default());
}
