//! A standby goes where the process before it panicked, in the middle of a burst that had changed state and
//! packets: what comes out is as if nothing had happened.

use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::JoinHandle;

use headgate_nf::state::Value;
use headgate_nf::testing::{KeptState, Manager, OnChange, Part, Welcome};
use headgate_nf::{Burst, Connection, Context, End, NetworkFunction, NfError, RunError, Verdict, serve};

/// Frame that kills who works on it, as long as there are deaths left.
const DEADLY: u8 = 255;

/// Writes the number of packets so far into each, and adds it to what is there.
struct Numbering {
    count: Value<u64>,
    deaths_left: &'static AtomicU32,
}

impl NetworkFunction for Numbering {
    fn process(&mut self, burst: &mut Burst, _: &mut Context) {
        for mut packet in burst.packets() {
            let count = self.count.edit();
            *count += 1;
            let number = *count as u8;
            let bytes = packet.data_mut();
            bytes[1] = number;
            bytes[2] = bytes[2].wrapping_add(number);
            let kills = bytes[0] == DEADLY && self.deaths_left.load(Ordering::Relaxed) > 0;
            packet.prepend(4).expect("there is headroom").fill(number);
            if kills {
                self.deaths_left.fetch_sub(1, Ordering::Relaxed);
                panic!("a deadly packet");
            }
        }
    }
}

fn start(socket: std::os::fd::OwnedFd, deaths_left: &'static AtomicU32) -> JoinHandle<Result<End, RunError>> {
    std::thread::spawn(move || {
        serve(Connection::from_socket(socket), |context| {
            Ok::<_, NfError>(Numbering { count: context.state()?.value("count")?, deaths_left })
        })
    })
}

fn welcome() -> Welcome {
    let state = KeptState { bytes: 8 << 10, base: 0, on_change: OnChange::Refuse, part: Part::Active };
    Welcome { name: "nf".into(), arguments: "{}".into(), state: Some(state), ..Welcome::default() }
}

fn frame(number: u8) -> Vec<u8> {
    let mut frame = vec![7; 60];
    frame[0] = if number == 20 { DEADLY } else { number };
    frame
}

fn expected(number: u8) -> (Verdict, Vec<u8>) {
    let mut frame = frame(number);
    (frame[1], frame[2]) = (number + 1, 7 + number + 1);
    (Verdict::Next, [vec![number + 1; 4], frame].concat())
}

/// The packets, some of them in bursts of their own, after so many deaths in a row.
fn died(deaths: u32, alone: u32) {
    let deaths_left: &'static AtomicU32 = Box::leak(Box::new(AtomicU32::new(deaths)));
    let (mut manager, socket) = Manager::new(welcome());
    let mut active = start(socket, deaths_left);
    manager.admit().unwrap();
    let frames: Vec<_> = (0..40).map(frame).collect();
    let mut came = Vec::new();
    for _ in 0..deaths {
        let (mut standby, socket) = manager.stand_by();
        let next = start(socket, deaths_left);
        standby.admit().unwrap();
        if came.is_empty() && manager.lent() == 0 {
            manager.send(&frames, 0);
        }
        assert!(manager.wait_for_goodbye().contains("panicked"));
        assert!(matches!(active.join().unwrap(), Err(RunError::Panic { .. })));
        came.extend(manager.promote(&mut standby, alone));
        (manager, active) = (standby, next);
    }
    while came.len() < frames.len() {
        came.extend(manager.collect());
        std::thread::yield_now();
    }
    assert_eq!(came, (0..40).map(expected).collect::<Vec<_>>());
    assert_eq!(manager.stop(), "");
    assert!(matches!(active.join().unwrap(), Ok(End::Stopped)));
}

#[test]
fn a_burst_that_was_not_returned_is_worked_on_as_if_for_the_first_time() {
    died(1, 0);
    died(2, 0);
}

#[test]
fn packets_that_are_worked_on_alone_come_back_one_by_one() {
    died(2, 40);
    died(1, 5);
}

#[test]
fn a_standby_that_is_not_needed_ends_and_leaves_the_state_alone() {
    let none = Box::leak(Box::new(AtomicU32::new(0)));
    let (mut manager, socket) = Manager::new(welcome());
    let active = start(socket, none);
    manager.admit().unwrap();
    let (mut standby, socket) = manager.stand_by();
    let waits = start(socket, none);
    standby.admit().unwrap();
    assert_eq!(manager.exchange(&[frame(0)]), [expected(0)]);
    assert_eq!(standby.stop(), "");
    assert!(matches!(waits.join().unwrap(), Ok(End::Stopped)));
    assert_eq!(manager.exchange(&[frame(1)]), [expected(1)]);
    assert_eq!(manager.stop(), "");
    active.join().unwrap().unwrap();
}

static NONE: AtomicU32 = AtomicU32::new(0);

/// Its tables are not those of the process that works: it could not go on with them.
#[test]
fn a_standby_of_another_program_refuses() {
    let (mut manager, socket) = Manager::new(welcome());
    let active = start(socket, Box::leak(Box::new(AtomicU32::new(0))));
    manager.admit().unwrap();
    let (mut standby, socket) = manager.stand_by();
    let other = std::thread::spawn(move || {
        serve(Connection::from_socket(socket), |context| {
            let mut state = context.state()?;
            let _ = state.value::<[u64; 2]>("count")?;
            Ok::<_, NfError>(Numbering { count: state.value("other")?, deaths_left: &NONE })
        })
    });
    let said = standby.admit().unwrap_err();
    assert!(said.contains("`count`: the process that works has no such table or value"), "{said}");
    assert!(matches!(other.join().unwrap(), Err(RunError::Start { .. })));
    assert_eq!(manager.exchange(&[frame(0)]), [expected(0)]);
    manager.stop();
    active.join().unwrap().unwrap();
}
