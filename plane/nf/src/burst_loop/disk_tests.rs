//! The loop against a disk that answers when the test lets it.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use headgate_session::message::{FromNf, Loop, Welcome};

use super::super::{BurstLoop, End, LoopError};
use crate::burst::Burst;
use crate::burst_loop::TERMINATED;
use crate::context::Context;
use crate::disk::engine::{Bell, Engine, Finished, Outcome, Request};
use crate::disk::requests::Requests;
use crate::disk::{Disk, Log, LogId, LogSettings, ReadDone, ReadFile, WriteDone};
use crate::fuse::Fused;
use crate::testing::Manager;
use crate::{Counter, NetworkFunction, NfError, Verdict, run};
use headgate_session::attach::Connection;

const PATIENCE: Duration = Duration::from_secs(20);

/// Requests wait here until the gate is open.
#[derive(Default)]
struct Gate {
    is_open: AtomicBool,
    waiting: Mutex<VecDeque<Request>>,
    bell: Mutex<Option<Bell>>,
}

impl Gate {
    fn open(&self) {
        self.is_open.store(true, Ordering::Release);
        self.bell.lock().unwrap().as_ref().expect("the NF has started")();
    }
}

struct Gated(Arc<Gate>);

impl Engine for Gated {
    fn name(&self) -> &'static str {
        "gated"
    }
    fn submit(&mut self, request: Request) {
        self.0.waiting.lock().unwrap().push_back(request);
    }
    fn start(&mut self) {}
    fn take_finished(&mut self) -> Option<Finished> {
        let is_open = self.0.is_open.load(Ordering::Acquire);
        let request = is_open.then(|| self.0.waiting.lock().unwrap().pop_front())??;
        let bytes = request.buffer.len();
        Some(Finished { request, result: Ok(Outcome::Bytes(bytes)) })
    }
    fn has_finished(&mut self) -> bool {
        self.0.is_open.load(Ordering::Acquire) && !self.0.waiting.lock().unwrap().is_empty()
    }
}

/// Logs each frame; those whose first byte is 1 also wait for a read.
struct Both {
    disk: Disk,
    log: Log,
    file: ReadFile,
    logged: Counter,
    lost: Counter,
    read: Counter,
}

impl Both {
    fn new(context: &mut Context) -> Result<Self, NfError> {
        let disk = context.disk()?;
        let settings =
            LogSettings { buffer_bytes: 64 * 60 * 2, burst_bytes: 64 * 60, ..LogSettings::default() };
        Ok(Self {
            log: disk.log("/dev/null".as_ref(), &[], settings)?,
            file: disk.open("/dev/null".as_ref())?,
            disk,
            logged: context.counter("logged")?,
            lost: context.counter("lost")?,
            read: context.counter("read")?,
        })
    }
}

impl NetworkFunction for Both {
    fn process(&mut self, burst: &mut Burst, _: &mut Context) {
        for mut packet in burst.packets() {
            if packet.data()[0] == 1 {
                if !self.disk.is_waiting(7) {
                    self.disk.read(&self.file, 0, 1, 7).unwrap();
                }
                assert!(self.disk.hold(&mut packet, 7));
            } else if self.log.append(packet.data()).is_err() {
                self.lost.add(1);
            }
        }
    }
    fn read(&mut self, _: &ReadDone<'_>, _: &mut Context) {
        self.read.add(1);
    }
    fn resume(&mut self, held: &mut Burst, done: &ReadDone<'_>, _: &mut Context) {
        let verdict = if done.result.is_ok() { Verdict::Port(3) } else { Verdict::Drop };
        held.packets().for_each(|mut packet| packet.set_verdict(verdict));
    }
    fn written(&mut self, _: LogId, done: &WriteDone, _: &mut Context) {
        self.logged.add(done.written);
        self.lost.add(done.lost);
    }
}

type Lived = JoinHandle<Result<End, LoopError>>;

fn start(waits: Loop) -> (Manager, Arc<Gate>, Lived) {
    let (mut manager, socket) = Manager::new(Welcome { waits, ..Welcome::default() });
    let gate = Arc::new(Gate::default());
    let theirs = gate.clone();
    let nf = std::thread::spawn(move || {
        let attached = Rc::new(Connection::from_socket(socket).attach(&TERMINATED).unwrap());
        let environment = Rc::new(run::environment(&attached).unwrap());
        theirs.bell.lock().unwrap().clone_from(&environment.disk.bell);
        let requests = Requests::new(Some(Box::new(Gated(theirs))), environment.window);
        let requests = Rc::new(RefCell::new(requests));
        assert!(environment.disk.requests.set(requests).is_ok());
        let nfs = Fused::alone(&environment, "", Both::new).unwrap();
        attached.say(&FromNf::Ready { lend: 0, answers: false, state: None, takes_long: false }).unwrap();
        let lived = BurstLoop::new(&attached, &environment, nfs).run();
        attached.say_goodbye(String::new(), &[]);
        lived
    });
    manager.admit().unwrap();
    (manager, gate, nf)
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let started = Instant::now();
    while !is_so() {
        assert!(started.elapsed() < PATIENCE, "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

const LOOPS: [Loop; 3] = [Loop::Notified, Loop::Polling, Loop::Cooperative { yield_after: 2 }];

#[test]
fn an_nf_whose_disk_is_behind_sleeps_until_it_is_not() {
    for waits in LOOPS {
        let (mut manager, gate, nf) = start(waits);
        // Four bursts fill both buffers; the rest stays in the ring.
        let mut sent = 0;
        until("packets stay in the ring", || {
            sent += manager.send(&[[0u8; 60]; 64], 0);
            let _ = manager.collect();
            manager.lent() == 256
        });
        let before = manager.progress().disk_beats.load(Ordering::Relaxed);
        until("it says that it waits, again and again", || {
            let progress = manager.progress();
            progress.disk_waits.load(Ordering::Relaxed) == 1
                && progress.disk_beats.load(Ordering::Relaxed) > before + 3
        });
        // Not for packets: whoever searches for sleepers to wake does not see it.
        assert!(!manager.is_asleep());
        assert_eq!(manager.lent(), 256);
        gate.open();
        until("all packets are back", || {
            let _ = manager.collect();
            manager.lent() == 0
        });
        assert_eq!(manager.stop(), "");
        assert_eq!(nf.join().unwrap().unwrap(), End::Stopped);
        let counters = [manager.read_counter(0), manager.read_counter(1)];
        assert_eq!(counters, [sent as u64, 0]);
    }
}

#[test]
fn held_packets_come_back_in_order_and_others_pass_them() {
    for waits in LOOPS {
        let (mut manager, gate, nf) = start(waits);
        let frames: Vec<_> = (0..20u8).map(|number| [&[number % 2, number][..], &[0; 58]].concat()).collect();
        assert_eq!(manager.send(&frames, 0), 20);
        let mut back = Vec::new();
        until("the others are back", || {
            back.extend(manager.collect());
            back.len() == 10
        });
        assert!(back.iter().all(|(verdict, frame)| *verdict == Verdict::Next && frame[0] == 0));
        assert_eq!(manager.progress().disk_waits.load(Ordering::Relaxed), 1);
        gate.open();
        until("the held ones are back", || {
            back.extend(manager.collect());
            back.len() == 20
        });
        let held: Vec<_> = back[10..].iter().map(|(verdict, frame)| (*verdict, frame[1])).collect();
        assert_eq!(held, (0..10).map(|n| (Verdict::Port(3), 2 * n + 1)).collect::<Vec<_>>());
        until("it waits no more", || manager.progress().disk_waits.load(Ordering::Relaxed) == 0);
        assert_eq!(manager.stop(), "");
        nf.join().unwrap().unwrap();
    }
}

/// A disk that never answers: every packet comes back, what is lost is counted, and the NF ends.
#[test]
fn an_nf_ends_although_its_disk_does_not_answer() {
    let (mut manager, _gate, nf) = start(Loop::Notified);
    let frames: Vec<_> = (0..20u8).map(|number| vec![number % 2; 60]).collect();
    assert_eq!(manager.send(&frames, 0), 20);
    assert_eq!(manager.stop(), "");
    assert_eq!(nf.join().unwrap().unwrap(), End::Stopped);
    let back = manager.collect();
    let dropped = back.iter().filter(|(verdict, _)| *verdict == Verdict::Drop).count();
    assert_eq!((back.len(), dropped), (20, 10));
    let counters: Vec<_> = (0..3).map(|place| manager.read_counter(place)).collect();
    assert_eq!(counters, [0, 10, 1]);
}
