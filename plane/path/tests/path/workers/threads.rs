//! Workers and NFs on threads of their own, as they really run: no step is the same twice, and the
//! accounts must agree whenever everything stands still.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Scope, ScopedJoinHandle, yield_now};
use std::time::{Duration, Instant};

use headgate_path::audit::{Audit, Pause};
use headgate_path::plan::Exit;
use headgate_path::worker::{Command, Event, Mailbox, Pass, Worker};
use headgate_shm::cpu::cycles;
use headgate_shm::doorbell;
use headgate_units::{InstanceId, PortId, Ticks};

use crate::harness::World;
use crate::harness::frames::{assert_same_flows, by_flow, interleaved, label};
use crate::harness::layout::{At, Layout};
use crate::harness::nf::Nf;

/// Far beyond what a busy machine needs; only a hang takes that long.
const PATIENCE: Duration = Duration::from_secs(60);

/// Returns three workers, two domains; every hop of the chain changes worker, domain or both.
fn world() -> World {
    let at = |worker, region| At { worker, region };
    let layout = Layout::new().workers(3).region(4096, 320).region(2048, 320).port(at(0, 0)).port(at(2, 1));
    let layout = layout.nf("a", &[at(1, 0), at(2, 0)]).nf("b", &[at(0, 1)]).nf("c", &[at(1, 1)]);
    World::new(layout.chain(&[0, 1, 2], Exit::Port(PortId(1))).default_chain(1))
}

/// Threads that end with this value, also when the test fails.
struct Running<'scope> {
    mailboxes: Vec<Arc<Mailbox>>,
    workers: Vec<ScopedJoinHandle<'scope, Worker>>,
    nfs: Vec<(u16, Arc<AtomicBool>, ScopedJoinHandle<'scope, Nf>)>,
}

fn run_worker(mut worker: Worker) -> Worker {
    loop {
        match worker.pass(Ticks(cycles())) {
            Pass::Busy => {}
            Pass::Idle => yield_now(),
            Pass::Stopped => return worker,
        }
    }
}

fn run_nf(mut nf: Nf, stop: &AtomicBool) -> Nf {
    nf.naps = true;
    while !stop.load(Ordering::Acquire) {
        if nf.step() == 0 {
            doorbell::sleep(nf.side.doorbell(), Duration::from_millis(1));
        }
    }
    nf
}

fn spawn_nf<'scope>(scope: &'scope Scope<'scope, '_>, running: &mut Running<'scope>, number: u16, nf: Nf) {
    let stop = Arc::new(AtomicBool::new(false));
    let theirs = stop.clone();
    running.nfs.push((number, stop, scope.spawn(move || run_nf(nf, &theirs))));
}

impl<'scope> Running<'scope> {
    fn start(scope: &'scope Scope<'scope, '_>, world: &mut World) -> Self {
        let workers = std::mem::take(&mut world.workers);
        let workers = workers.into_iter().map(|worker| scope.spawn(|| run_worker(worker))).collect();
        let mut running = Self { mailboxes: world.mailboxes.clone(), workers, nfs: Vec::new() };
        for (number, nf) in std::mem::take(&mut world.nfs) {
            spawn_nf(scope, &mut running, number, nf);
        }
        running
    }

    /// Ends the thread of an NF between two of its bursts, whatever waits for it.
    fn kill(&mut self, world: &World, number: u16) -> Event {
        let at = self.nfs.iter().position(|(there, ..)| *there == number).unwrap();
        let (_, stop, thread) = self.nfs.swap_remove(at);
        stop.store(true, Ordering::Release);
        drop(thread.join().unwrap());
        world.reclaim(number);
        world.next_event(PATIENCE)
    }

    fn tell_all_to_stop(&self) {
        for mailbox in &self.mailboxes {
            mailbox.post(Command::Stop);
        }
        for (_, stop, _) in &self.nfs {
            stop.store(true, Ordering::Release);
        }
    }

    /// Puts everything back in place, to be stepped by hand again.
    fn stop(mut self, world: &mut World) {
        self.tell_all_to_stop();
        world.workers = self.workers.drain(..).map(|thread| thread.join().unwrap()).collect();
        for (number, _, thread) in self.nfs.drain(..) {
            let mut nf = thread.join().unwrap();
            nf.naps = false;
            world.nfs.insert(number, nf);
        }
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.tell_all_to_stop();
    }
}

/// Stops all workers between two passes and compares the accounts.
#[track_caller]
fn audit_in_flight(world: &World) -> Audit {
    let pause = Arc::new(Pause::new(world.mailboxes.len()));
    for mailbox in &world.mailboxes {
        mailbox.post(Command::Pause(pause.clone()));
    }
    let reports = pause.gather(PATIENCE).expect("every worker comes to the pause");
    let audit = world.audit_of(&reports);
    pause.release();
    assert!(audit.holds(), "{audit:#?}");
    audit
}

#[test]
fn nothing_is_lost_or_overtaken_between_threads() {
    const AT_ONCE: usize = 128;
    let mut world = world();
    let offered = interleaved(0..32, 0..600);
    let mut sent = Vec::new();
    std::thread::scope(|scope| {
        let running = Running::start(scope, &mut world);
        for (number, frames) in offered.chunks(AT_ONCE).enumerate() {
            world.offer(0, frames);
            if number % 16 == 0 {
                audit_in_flight(&world);
            }
            let since = Instant::now();
            while sent.len() < number * AT_ONCE + frames.len() {
                sent.extend(world.sent(1));
                assert!(since.elapsed() < PATIENCE, "{:?} {:#?}", world.drops(1), audit_in_flight(&world));
                yield_now();
            }
        }
        running.stop(&mut world);
    });
    assert_same_flows(&offered, &sent);
    assert_eq!((world.left(1), world.drops(1)), (offered.len() as u64, [].into()));
    world.finish();
}

/// More than the NFs can take, while they die and come back.
#[test]
fn a_flood_and_deaths_leave_the_accounts_in_order() {
    let mut world = world();
    let offered = interleaved(0..64, 0..1_000);
    let mut in_flight = 0;
    std::thread::scope(|scope| {
        let mut running = Running::start(scope, &mut world);
        for (round, frames) in offered.chunks(offered.len() / 40).enumerate() {
            world.offer(0, frames);
            in_flight += audit_in_flight(&world).regions.iter().map(|region| region.held).sum::<u64>();
            let number = round as u16 % 4;
            let event = running.kill(&world, number);
            assert!(
                matches!(event, Event::Reclaimed { number: dead, .. } if dead == InstanceId(number)),
                "{event:?}"
            );
            audit_in_flight(&world);
            world.start(number);
            let nf = world.nfs.remove(&number).unwrap();
            spawn_nf(scope, &mut running, number, nf);
        }
        running.stop(&mut world);
    });
    assert!(in_flight > 0, "every audit found the path empty");
    world.settle();
    let sent = world.sent(1);
    for (flow, frames) in by_flow(&sent) {
        let sequences: Vec<u32> = frames.iter().map(|frame| label(frame).sequence).collect();
        assert!(sequences.is_sorted_by(|a, b| a < b), "flow {flow} is out of order: {sequences:?}");
    }
    assert_eq!(sent.len() as u64 + world.drops(1).values().sum::<u64>(), offered.len() as u64);
    world.finish();
}
