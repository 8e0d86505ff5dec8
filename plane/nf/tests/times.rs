//! NFs whose packets have times of their own go by these, and by random numbers that are part of the state:
//! who works on the same packets again, at another time and elsewhere, comes to the same.

use std::os::fd::OwnedFd;
use std::thread::JoinHandle;
use std::time::Duration;

use headgate_nf::state::{Bound, Clock, Random, Table};
use headgate_nf::testing::{KeptState, Manager, OnChange, Part, Welcome};
use headgate_nf::{Burst, Connection, Context, End, NetworkFunction, NfError, RunError, serve};

const IDLE: Duration = Duration::from_secs(10);

/// Writes into each packet how many of its kind came since there was none for [`IDLE`], a random number, the
/// time, and how many packets were at hand.
struct Counting {
    kinds: Table<u8, u8>,
    clock: Clock,
    random: Random,
}

impl Counting {
    fn new(context: &mut Context) -> Result<Self, NfError> {
        let mut state = context.state()?;
        let kinds = state.table("kinds", Bound { entries: 4, idle: Some(IDLE) })?;
        Ok(Self { kinds, clock: state.clock(), random: state.random("dice")? })
    }
}

impl NetworkFunction for Counting {
    fn process(&mut self, burst: &mut Burst, _: &mut Context) {
        let at_hand = burst.len() as u8;
        for mut packet in burst.packets() {
            let kind = packet.data()[0];
            let count = self.kinds.get(&kind).map_or(1, |count| count.wrapping_add(1));
            let is_full = self.kinds.insert(kind, count).is_err();
            let words = [count, self.random.draw() as u8, u8::from(is_full), at_hand];
            packet.data_mut()[1..5].copy_from_slice(&words);
            packet.data_mut()[5..13].copy_from_slice(&(self.clock.now().as_micros() as u64).to_le_bytes());
        }
    }
}

fn start(socket: OwnedFd) -> JoinHandle<Result<End, RunError>> {
    std::thread::spawn(move || serve(Connection::from_socket(socket), Counting::new))
}

fn welcome() -> Welcome {
    let state = KeptState { bytes: 16 << 10, base: 0, on_change: OnChange::Refuse, part: Part::Active };
    let arguments = "{}".into();
    Welcome { name: "nf".into(), arguments, state: Some(state), has_times: true, ..Welcome::default() }
}

/// What the NF wrote into a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Wrote {
    count: u8,
    drawn: u8,
    is_full: bool,
    at_hand: u8,
    time_us: u64,
}

fn wrote(frame: &[u8]) -> Wrote {
    let time_us = u64::from_le_bytes(frame[5..13].try_into().unwrap());
    Wrote { count: frame[1], drawn: frame[2], is_full: frame[3] == 1, at_hand: frame[4], time_us }
}

/// Sends one packet of each kind, all of this time, and returns what came of them.
fn at(manager: &mut Manager, time: Duration, kinds: &[u8]) -> Vec<Wrote> {
    manager.set_time(time);
    let frames: Vec<_> = kinds.iter().map(|kind| [vec![*kind], vec![0; 59]].concat()).collect();
    manager.exchange(&frames).iter().map(|(_, frame)| wrote(frame)).collect()
}

fn counts(all: &[Wrote]) -> Vec<u8> {
    all.iter().map(|one| one.count).collect()
}

const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[test]
fn entries_get_idle_by_the_time_of_packets() {
    let (mut manager, socket) = Manager::new(welcome());
    let running = start(socket);
    manager.admit().unwrap();
    let began = seconds(1_700_000_000);
    assert_eq!(counts(&at(&mut manager, began, &[1, 1, 2])), [1, 2, 1]);
    assert_eq!(counts(&at(&mut manager, began + seconds(9), &[1])), [3]);
    // Two is idle, one is not.
    assert_eq!(counts(&at(&mut manager, began + seconds(18), &[1, 2])), [4, 1]);
    // A time that goes back by little, stands at the end of all time, or begins anew, is no harm.
    assert_eq!(counts(&at(&mut manager, began + seconds(9), &[1, 2])), [5, 2]);
    assert_eq!(counts(&at(&mut manager, Duration::from_micros(u64::MAX), &[1, 1])), [1, 2]);
    assert_eq!(counts(&at(&mut manager, Duration::ZERO, &[1, 2])), [1, 1]);
    // No kind is idle when it is full; then all are.
    assert!(at(&mut manager, seconds(5), &[3, 4, 5])[2].is_full);
    assert_eq!(counts(&at(&mut manager, seconds(100), &[5, 6, 7, 8])), [1; 4]);
    assert_eq!(manager.stop(), "");
    assert_eq!(running.join().unwrap().unwrap(), End::Stopped);
}

#[test]
fn packets_of_a_burst_have_one_time() {
    let (mut manager, socket) = Manager::new(welcome());
    // They wait in the ring before anybody works on them.
    let mut times = Vec::new();
    for packet in 0..60_u64 {
        let time = seconds(1 + packet / 7 * 3);
        manager.set_time(time);
        assert_eq!(manager.send(&[[vec![1], vec![0; 59]].concat()], 0), 1);
        times.push(time.as_micros() as u64);
    }
    let running = start(socket);
    manager.admit().unwrap();
    let mut came = Vec::new();
    while came.len() < times.len() {
        came.extend(manager.collect().iter().map(|(_, frame)| wrote(frame)));
        std::thread::yield_now();
    }
    assert_eq!(came.iter().map(|one| one.time_us).collect::<Vec<_>>(), times);
    assert!(came.iter().all(|one| one.at_hand <= 7), "{came:?}");
    assert!(came.iter().any(|one| one.at_hand > 1), "{came:?}");
    assert_eq!(manager.stop(), "");
    running.join().unwrap().unwrap();
}

#[test]
fn who_works_on_the_same_packets_again_comes_to_the_same() {
    let [(mut one, first), (mut other, second)] = [Manager::new(welcome()), Manager::new(welcome())];
    let running = [start(first), start(second)];
    one.admit().unwrap();
    other.admit().unwrap();
    // The other has seen something else, and drawn other numbers.
    at(&mut other, seconds(3), &[9, 9, 9]);
    let kinds: Vec<u8> = (0..50_u32).map(|at| (at * 7 % 6) as u8).collect();
    at(&mut one, seconds(1000), &kinds);
    other.give_state_of(&one);
    let drawn: Vec<[Vec<Wrote>; 2]> = (0..40)
        .map(|round| {
            let time = seconds(1000 + round * 3);
            let kinds = &kinds[round as usize % 7..][..1 + round as usize % 5];
            let here = at(&mut one, time, kinds);
            // Later, and one by one.
            std::thread::sleep(Duration::from_millis(1));
            let there = kinds.iter().flat_map(|kind| at(&mut other, time, &[*kind])).collect();
            [here, there].map(|all: Vec<Wrote>| all.iter().map(|one| Wrote { at_hand: 0, ..*one }).collect())
        })
        .collect();
    for [here, there] in &drawn {
        assert_eq!(here, there);
    }
    let numbers: std::collections::BTreeSet<u8> =
        drawn.iter().flatten().flatten().map(|one| one.drawn).collect();
    assert!(numbers.len() > 20, "{numbers:?}");
    assert_eq!((one.stop(), other.stop()), (String::new(), String::new()));
    running.into_iter().for_each(|running| assert_eq!(running.join().unwrap().unwrap(), End::Stopped));
}
