//! The burst loop against a manager played by the test, in every way of waiting.

use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Duration;

use headgate_nf::testing::Manager;
use headgate_nf::{
    Burst, Connection, Context, Counter, End, MakeError, Maker, NetworkFunction, NfError, RunError, Timer,
    Verdict, Way, serve,
};
use headgate_session::message::{Loop, Welcome};

/// Sends frames whose first byte is even out of `east`, drops the others. Panics on 255.
struct Sorter {
    east: headgate_nf::Port,
    odd: Counter,
}

impl NetworkFunction for Sorter {
    fn process(&mut self, burst: &mut Burst, _: &mut Context) {
        for mut packet in burst.packets() {
            match packet.data()[0] {
                255 => panic!("255 is too much"),
                byte if byte % 2 == 0 => packet.send_to(self.east),
                _ => {
                    packet.discard();
                    self.odd.add(1);
                }
            }
        }
    }

    fn message(&mut self, body: &str, context: &mut Context) -> Result<(), NfError> {
        match body {
            "odd" => Ok(context.tell(self.odd.get().to_string())?),
            "odd and even" => {
                context.tell("odd")?;
                Ok(context.tell("even")?)
            }
            "long" => {
                context.tell("\"".repeat(40_000))?;
                Err(context
                    .tell("x".repeat(40_000))
                    .unwrap_err()
                    .to_string()
                    .replace("80001", "too many")
                    .into())
            }
            "longer" => Ok(context.tell("\"".repeat(40_000))?),
            "count" => {
                context.counter("late")?.add(5);
                Ok(())
            }
            "soon" => {
                context.after(Duration::from_micros(100));
                Ok(())
            }
            _ => Err("what?".into()),
        }
    }

    fn timer(&mut self, _: Timer, context: &mut Context) {
        context.tell("came due").unwrap();
    }

    fn stop(&mut self, context: &mut Context) {
        context.tell("last word").unwrap();
    }
}

fn start(waits: Loop) -> (Manager, JoinHandle<Result<End, RunError>>) {
    let ports = vec!["west".to_owned(), "east".to_owned()];
    let (mut manager, socket) =
        Manager::new(Welcome { name: "sorter".into(), waits, ports, ..Welcome::default() });
    let nf = std::thread::spawn(move || {
        serve(Connection::from_socket(socket), |context| {
            Ok(Sorter { east: context.port("east")?, odd: context.counter("odd")? })
        })
    });
    manager.admit().unwrap();
    (manager, nf)
}

const LOOPS: [Loop; 3] = [Loop::Notified, Loop::Polling, Loop::Cooperative { yield_after: 2 }];

#[test]
fn packets_come_back_in_order_with_their_verdicts() {
    for waits in LOOPS {
        let (mut manager, nf) = start(waits);
        let frames: Vec<_> = (0..10_000u32).map(|number| vec![number as u8 & 127; 60]).collect();
        let outcomes = manager.exchange(&frames);
        for ((verdict, frame), sent) in outcomes.iter().zip(&frames) {
            assert_eq!(frame, sent);
            assert_eq!(*verdict, if sent[0] % 2 == 0 { Verdict::Port(1) } else { Verdict::Drop });
        }
        assert_eq!(manager.counter("odd"), Some(5_000));
        assert_eq!(manager.progress().packets.load(Ordering::Relaxed), 10_000);
        assert!(manager.progress().bursts.load(Ordering::Relaxed) >= 10_000 / 64);
        assert!(manager.progress().handler_packets.load(Ordering::Relaxed) <= 10_000);
        assert_eq!(manager.stop(), "");
        assert_eq!(manager.lent(), 0);
        assert_eq!(nf.join().unwrap().unwrap(), End::Stopped);
    }
}

#[test]
fn an_order_to_stop_works_off_what_was_delivered() {
    for waits in LOOPS {
        let (mut manager, nf) = start(waits);
        manager.orders().blocked.store(1, Ordering::Relaxed);
        wait_until(|| manager.is_asleep());
        assert_eq!(manager.send(&vec![vec![4u8; 60]; 200], 0), 200);
        assert_eq!(manager.stop(), "");
        assert_eq!(manager.collect().len(), 200);
        assert_eq!(manager.listen(), "last word");
        nf.join().unwrap().unwrap();
    }
}

#[test]
fn a_resting_nf_leaves_its_packets_and_works_again_when_called() {
    for waits in LOOPS {
        let (mut manager, nf) = start(waits);
        manager.orders().blocked.store(1, Ordering::Relaxed);
        manager.ring_bell();
        wait_until(|| manager.is_asleep());
        manager.send(&[[2u8; 60]], 0);
        wait_until(|| manager.is_asleep());
        assert!(manager.collect().is_empty());
        manager.tell("odd");
        assert_eq!(manager.listen(), "0", "mail is read while at rest");
        manager.orders().blocked.store(0, Ordering::Relaxed);
        manager.ring_bell();
        let mut back = Vec::new();
        wait_until(|| {
            back.extend(manager.collect());
            back.len() == 1
        });
        manager.stop();
        nf.join().unwrap().unwrap();
    }
}

#[test]
fn mail_timers_and_late_counters() {
    for waits in LOOPS {
        let (mut manager, nf) = start(waits);
        manager.tell("odd");
        assert_eq!(manager.listen(), "0");
        manager.tell("nonsense");
        assert_eq!(manager.listen(), r#"{"error":"what?"}"#);
        manager.tell("soon");
        assert_eq!(manager.listen(), "came due");
        assert_eq!(manager.ask("odd and even"), Ok("odd\neven".to_owned()));
        assert_eq!(manager.ask("nonsense"), Err("what?".to_owned()));
        assert_eq!(manager.ask("count"), Ok(String::new()));
        // What is too long for a message is refused: where it is told, or with its wrapping.
        assert!(manager.ask("long").unwrap_err().contains("a message of too many bytes is longer"));
        assert!(manager.ask("longer").unwrap_err().contains("its answer of 40000 bytes is longer"));
        manager.tell("count");
        manager.tell("odd");
        assert_eq!(manager.listen(), "0");
        assert_eq!(manager.stop(), "");
        assert_eq!(manager.counter("late"), Some(10));
        nf.join().unwrap().unwrap();
    }
}

#[test]
fn an_nf_without_work_sleeps_only_when_it_may() {
    let (mut manager, nf) = start(Loop::Notified);
    wait_until(|| manager.is_asleep());
    assert!(manager.progress().sleeps.load(Ordering::Relaxed) > 0);
    manager.stop();
    nf.join().unwrap().unwrap();
    for waits in [Loop::Polling, Loop::Cooperative { yield_after: 1 }] {
        let (mut manager, nf) = start(waits);
        manager.exchange(&[[2u8; 60]]);
        manager.stop();
        assert_eq!(manager.progress().sleeps.load(Ordering::Relaxed), 0);
        nf.join().unwrap().unwrap();
    }
}

#[test]
fn a_panic_ends_the_nf_with_a_reason() {
    let (mut manager, nf) = start(Loop::Notified);
    manager.send(&[[255u8; 60]], 0);
    let reason = manager.wait_for_goodbye();
    assert!(reason.starts_with("sorter panicked: 255 is too much at "), "{reason}");
    assert_eq!(manager.lent(), 1, "the burst at hand stays with the manager's books");
    assert!(matches!(nf.join().unwrap(), Err(RunError::Panic { .. })));
}

#[test]
fn an_nf_outlives_no_manager() {
    for waits in LOOPS {
        let (manager, nf) = start(waits);
        manager.die();
        let trouble = nf.join().unwrap().unwrap_err();
        assert_eq!(trouble.to_string(), "sorter ends: the manager is gone");
        assert_eq!(trouble.exit_code(), 1);
    }
}

#[test]
fn an_nf_that_cannot_start_says_why() {
    let (mut manager, socket) = Manager::new(Welcome { name: "sorter".into(), ..Welcome::default() });
    let nf = std::thread::spawn(move || {
        serve(Connection::from_socket(socket), |context| {
            Ok(Sorter { east: context.port("east")?, odd: context.counter("odd")? })
        })
    });
    let reason = manager.admit().unwrap_err();
    assert_eq!(reason, "sorter cannot start: there is no port `east`; there are none");
    // A name comes from arguments, as far as anybody can tell.
    assert_eq!(manager.refused().len(), 1);
    assert_eq!(nf.join().unwrap().unwrap_err().exit_code(), 4);
}

/// Answers each packet by the port it came by, and makes one by itself when it is told to.
struct Answerer {
    maker: Maker,
    missed: Counter,
}

impl NetworkFunction for Answerer {
    fn process(&mut self, burst: &mut Burst, _: &mut Context) {
        for mut packet in burst.packets() {
            let answer = self.maker.after(&packet, Way::Port(packet.ingress()), packet.len(), |frame| {
                frame.copy_from_slice(packet.data());
                frame[0] = 200;
            });
            self.missed.add(u64::from(answer == Err(MakeError::NoneLent)));
            packet.discard();
        }
    }

    fn message(&mut self, _: &str, context: &mut Context) -> Result<(), NfError> {
        let chain = context.chain("blue")?;
        Ok(self.maker.alone(Way::Chain(chain), 60, |frame| frame[0] = 201)?)
    }
}

#[test]
fn made_packets_come_right_behind_those_they_follow() {
    for waits in LOOPS {
        let chains = vec![(3, "blue".to_owned())];
        let (mut manager, socket) = Manager::new(Welcome { waits, chains, ..Welcome::default() });
        let nf = std::thread::spawn(move || {
            serve(Connection::from_socket(socket), |context| {
                Ok(Answerer { maker: context.maker(64)?, missed: context.counter("missed")? })
            })
        });
        manager.admit().unwrap();
        let (mut sent, mut back) = (0u32, Vec::new());
        while sent < 2_000 {
            let frames: Vec<_> = (sent..sent + 5).map(|number| vec![number as u8 & 127; 60]).collect();
            sent += manager.send(&frames, 1) as u32;
            back.extend(manager.collect());
        }
        wait_until(|| {
            back.extend(manager.collect());
            manager.lent() == 0
        });
        manager.tell("make one");
        wait_until(|| {
            back.extend(manager.collect());
            back.iter().any(|(_, frame)| frame[0] == 201)
        });
        let missed = manager.counter("missed").unwrap() as usize;
        assert_eq!(back.len() + missed, 2 * sent as usize + 1);
        for pair in back.windows(2).filter(|pair| pair[1].1[0] == 200) {
            assert_eq!((pair[0].0, pair[1].0), (Verdict::Drop, Verdict::Port(1)));
            assert_eq!(pair[0].1[1..], pair[1].1[1..], "right behind its question");
        }
        assert_eq!(manager.stop(), "");
        nf.join().unwrap().unwrap();
    }
}

fn wait_until(mut condition: impl FnMut() -> bool) {
    let started = std::time::Instant::now();
    while !condition() {
        assert!(started.elapsed() < Duration::from_secs(20), "waited in vain");
        std::thread::yield_now();
    }
}
