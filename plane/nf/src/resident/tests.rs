//! Residents in the thread of a test, with the manager's part played by another.

use std::time::{Duration, Instant};

use headgate_session::message::Welcome;

use super::*;
use crate::testing::Manager;
use crate::{Burst, Context, Counter, NetworkFunction, NfError, Timer, Verdict};

const PATIENCE: Duration = Duration::from_secs(20);
const FRAME: [u8; 60] = [0; 60];

/// Counts packets and firings of its timer; drops short frames, and panics at one whose first byte is 13.
struct Odd {
    seen: Counter,
    fired: Counter,
}

impl Odd {
    fn boxed(context: &mut Context) -> Result<Box<dyn NetworkFunction>, NfError> {
        context.every(Duration::from_millis(1));
        Ok(Box::new(Self { seen: context.counter("seen")?, fired: context.counter("fired")? }))
    }
}

impl NetworkFunction for Odd {
    fn process(&mut self, burst: &mut Burst, _: &mut Context) {
        for mut packet in burst.packets() {
            self.seen.add(1);
            assert_ne!(packet.data()[0], 13, "an unlucky packet");
            if packet.len() < 60 {
                packet.discard();
            }
        }
    }
    fn message(&mut self, body: &str, context: &mut Context) -> Result<(), NfError> {
        Ok(context.tell(format!("heard {body}"))?)
    }
    fn timer(&mut self, _: Timer, _: &mut Context) {
        self.fired.add(1);
    }
}

/// Returns a manager, and what its NF's build has made of it.
fn enter(build: Build) -> (Manager, Result<Resident, RunError>, Result<String, String>) {
    let (mut manager, socket) = Manager::new(Welcome::default());
    let entrance = Entrance::open(socket).unwrap();
    std::thread::scope(|scope| {
        let admitted = scope.spawn(move || {
            let admitted = manager.admit();
            (manager, admitted)
        });
        let entered = entrance.enter(build);
        let (manager, admitted) = admitted.join().unwrap();
        (manager, entered, admitted)
    })
}

/// Visits until something is so.
fn visit_until(resident: &mut Resident, what: &str, mut is_so: impl FnMut(Visit) -> bool) {
    let started = Instant::now();
    while !is_so(resident.visit()) {
        assert!(started.elapsed() < PATIENCE, "{what}");
    }
}

#[test]
fn it_works_answers_and_fires_between_visits_and_ends_when_told() {
    let (mut manager, resident, admitted) = enter(Box::new(Odd::boxed));
    admitted.unwrap();
    let mut resident = resident.unwrap();
    assert_eq!(resident.visit(), Visit::Idle);
    assert_eq!(manager.send(&vec![&FRAME[..]; 150], 0), 150);
    assert_eq!(
        [(); 4].map(|()| resident.visit()),
        [Visit::Worked, Visit::Worked, Visit::Worked, Visit::Idle]
    );
    manager.send(&[&FRAME[..20]], 0);
    assert_eq!(resident.visit(), Visit::Worked);
    let outcomes = manager.collect();
    assert_eq!(outcomes.len(), 151);
    assert_eq!(outcomes.iter().filter(|(verdict, _)| *verdict == Verdict::Drop).count(), 1);

    manager.tell("hello");
    visit_until(&mut resident, "the message is read", |visit| {
        assert_ne!(visit, Visit::Ended);
        true
    });
    assert_eq!(manager.listen(), "heard hello");
    visit_until(&mut resident, "the timer fires", |_| manager.read_counter(1) > 0);

    // Packets that wait when it is told to end are worked off.
    manager.send(&[&FRAME[..]; 5], 0);
    manager.orders().stop.store(1, std::sync::atomic::Ordering::Release);
    assert_eq!([resident.visit(), resident.visit()], [Visit::Ended; 2]);
    assert_eq!(manager.collect().len(), 5);
    assert_eq!(manager.wait_for_goodbye(), "");
}

#[test]
fn one_that_is_blocked_takes_nothing_and_its_timers_go_on() {
    let (mut manager, resident, _) = enter(Box::new(Odd::boxed));
    let mut resident = resident.unwrap();
    manager.orders().blocked.store(1, std::sync::atomic::Ordering::Relaxed);
    manager.send(&[&FRAME[..]; 5], 0);
    visit_until(&mut resident, "the timer fires", |visit| {
        assert_eq!(visit, Visit::Idle);
        manager.read_counter(1) > 0
    });
    assert!(manager.collect().is_empty());
    manager.orders().blocked.store(0, std::sync::atomic::Ordering::Relaxed);
    assert_eq!(resident.visit(), Visit::Worked);
    assert_eq!(manager.collect().len(), 5);
}

/// The thread goes on, the manager is told why, and what was in its hands stays there for the manager.
#[test]
fn a_panic_ends_it_and_nothing_else() {
    let (mut manager, resident, _) = enter(Box::new(Odd::boxed));
    let mut resident = resident.unwrap();
    let unlucky = [13; 60];
    manager.send(&[&FRAME[..], &unlucky[..], &FRAME[..]], 0);
    assert_eq!([resident.visit(), resident.visit()], [Visit::Ended; 2]);
    assert!(manager.wait_for_goodbye().contains("an unlucky packet"), "it says why");
    assert!(manager.collect().is_empty());
    assert_eq!(manager.lent(), 3);
}

#[test]
fn one_that_panics_or_fails_at_its_start_does_not_begin() {
    let (_, resident, admitted) = enter(Box::new(|_| panic!("not today")));
    assert!(resident.is_err());
    assert!(admitted.unwrap_err().contains("not today"));
    let (_, resident, admitted) = enter(Box::new(|_| Err("no such thing".into())));
    assert!(resident.is_err());
    assert!(admitted.unwrap_err().contains("no such thing"));
}

#[cfg(feature = "disk")]
#[test]
fn it_has_no_files() {
    let (_, resident, admitted) = enter(Box::new(|context| {
        context.disk()?;
        Odd::boxed(context)
    }));
    assert!(resident.is_err());
    assert!(admitted.unwrap_err().contains("cannot read or write files"));
}
