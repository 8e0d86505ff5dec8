//! The parts of the machine that the simulator models, against the same scripts as their models
//! (`headgate_sim::conformance`): ring, doorbell, the loop of an NF, groups that share a core, the clock.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use headgate_host::Pid;
use headgate_host::cgroup::CpuController;
use headgate_host::process::cpu_time_ns;
use headgate_nf::testing::Manager;
use headgate_nf::{Burst, Connection, Context, End, NetworkFunction, RunError, serve};
use headgate_session::message::{Loop, Welcome};
use headgate_shm::ring::{Consumer, Producer, private};
use headgate_shm::{Descriptor, doorbell};
use headgate_sim::Waits;
use headgate_sim::conformance::{
    self, BellPart, ClockPart, LoopPart, ModelClock, ModelNf, ModelRing, ModelShares, Order, RING, RingPart,
    SharesPart,
};

struct RealRing(Producer, Consumer);

impl RingPart for RealRing {
    fn push(&mut self, packets: u32) -> u32 {
        let packets: Vec<_> = (0..packets).map(|number| Descriptor(number.into())).collect();
        self.0.push(&packets).expect("nobody forges the other side") as u32
    }

    fn pop(&mut self, most: u32) -> u32 {
        let mut into = vec![Descriptor::default(); most as usize];
        self.1.pop(&mut into).expect("nobody forges the other side") as u32
    }

    fn waiting(&mut self) -> u32 {
        self.1.refresh().expect("nobody forges the other side")
    }
}

#[test]
fn rings() {
    let (producer, consumer) = private(RING);
    let real = conformance::ring(&mut RealRing(producer, consumer));
    assert_eq!(real, conformance::ring(&mut ModelRing::default()));
}

#[derive(Default)]
struct RealBell(AtomicU32);

impl BellPart for RealBell {
    fn announce(&mut self) {
        doorbell::announce(&self.0);
    }

    fn withdraw(&mut self) {
        doorbell::withdraw(&self.0);
    }

    fn is_sleeping(&mut self) -> bool {
        doorbell::published();
        doorbell::is_sleeping(&self.0)
    }

    fn take(&mut self) -> bool {
        doorbell::take(&self.0)
    }
}

#[test]
fn doorbells() {
    let real = conformance::bell(&mut RealBell::default());
    assert_eq!(real, conformance::bell(&mut ModelNf::new(Waits::Notified)));
}

/// Returns each packet as it came.
struct Returns;

impl NetworkFunction for Returns {
    fn process(&mut self, _: &mut Burst, _: &mut Context) {}
}

/// A loop of the library, in a thread, and the test as its manager.
struct RealLoop {
    manager: Manager,
    nf: Option<JoinHandle<Result<End, RunError>>>,
    sleeps: bool,
    blocked: bool,
    delivered: u64,
    returned: u64,
}

/// Longest time for which a loop is waited for.
const PATIENCE: Duration = Duration::from_secs(20);

impl RealLoop {
    fn start(waits: Loop) -> Self {
        let ports = vec!["west".to_owned(), "east".to_owned()];
        let name = "returns".to_owned();
        let (mut manager, socket) = Manager::new(Welcome { name, waits, ports, ..Welcome::default() });
        let nf = std::thread::spawn(move || serve(Connection::from_socket(socket), |_| Ok(Returns)));
        manager.admit().expect("it starts");
        // Slices end by their packets and not by time, which no script asks for.
        manager.orders().slice_micros.store(60_000_000, Ordering::Relaxed);
        let sleeps = waits == Loop::Notified;
        Self { manager, nf: Some(nf), sleeps, blocked: false, delivered: 0, returned: 0 }
    }
}

impl LoopPart for RealLoop {
    fn deliver(&mut self, packets: u32) {
        let sent = self.manager.send(&vec![[0u8; 60]; packets as usize], 0);
        assert_eq!(sent, packets as usize, "its ring has room");
        self.delivered += u64::from(packets);
    }

    fn call(&mut self) {
        self.manager.ring_bell();
    }

    fn order(&mut self, order: Order) {
        let orders = self.manager.orders();
        match order {
            Order::Blocked(blocked) => {
                self.blocked = blocked;
                orders.blocked.store(blocked.into(), Ordering::Relaxed);
            }
            Order::Yield(batch) => {
                orders.batch.store(batch, Ordering::Relaxed);
                orders.must_yield.store((batch > 0).into(), Ordering::Relaxed);
            }
        }
    }

    fn settle(&mut self) {
        let began = Instant::now();
        loop {
            let is_done = match self.sleeps || self.blocked {
                true => self.manager.is_asleep(),
                false => self.returned() == self.delivered,
            };
            if is_done {
                return;
            }
            assert!(began.elapsed() < PATIENCE, "it neither sleeps nor works");
            std::thread::yield_now();
        }
    }

    fn returned(&mut self) -> u64 {
        self.returned += self.manager.collect().len() as u64;
        self.returned
    }

    fn is_asleep(&mut self) -> bool {
        self.manager.is_asleep()
    }
}

impl Drop for RealLoop {
    fn drop(&mut self) {
        self.manager.stop();
        let _ = self.nf.take().map(JoinHandle::join);
    }
}

#[test]
fn loops() {
    for (real, model) in [
        (Loop::Notified, Waits::Notified),
        (Loop::Polling, Waits::Polling),
        (Loop::Cooperative { yield_after: 2 }, Waits::Cooperative { yield_after: 2 }),
    ] {
        let wanted = conformance::nf_loop(&mut ModelNf::new(model), model);
        // A loop that sleeps looks by itself ten times a second: on a machine that is very busy that may be
        // between two steps.
        let mut seen = (0..3).map(|_| conformance::nf_loop(&mut RealLoop::start(real), model));
        let same = seen.any(|seen| {
            if seen != wanted {
                eprintln!("{real:?}:\n{seen}\nthe model:\n{wanted}");
            }
            seen == wanted
        });
        assert!(same, "{real:?}");
    }
}

/// A group of the kernel with one process that never sleeps. Dropping it ends the one and removes the other.
struct Spinner {
    group: PathBuf,
    process: Child,
}

impl Spinner {
    /// # Errors
    /// Groups cannot be made here.
    fn start(controller: &CpuController, number: usize, weight: u32) -> std::io::Result<Self> {
        let (mount, file, value) = match controller {
            CpuController::V1(mount) => (mount, "cpu.shares", weight * 1024 / 100),
            CpuController::V2(mount) => (mount, "cpu.weight", weight),
            CpuController::None => return Err(std::io::ErrorKind::Unsupported.into()),
        };
        let group = mount.join(format!("headgate-conformance-{}-{number}", std::process::id()));
        fs::create_dir(&group)?;
        let mut command = Command::new("taskset");
        command.args(["-c", "0", "sh", "-c", "while :; do :; done"]);
        let process = command.stdin(Stdio::null()).spawn();
        let process = process.inspect_err(|_| drop(fs::remove_dir(&group)))?;
        let spinner = Self { group, process };
        fs::write(spinner.group.join(file), value.to_string())?;
        fs::write(spinner.group.join("cgroup.procs"), spinner.process.id().to_string())?;
        Ok(spinner)
    }

    fn cpu_ns(&self) -> u64 {
        let pid = Pid::from_raw(self.process.id() as i32).expect("a process has a number");
        cpu_time_ns(pid).expect("it runs")
    }
}

impl Drop for Spinner {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        // The kernel takes a moment to empty it.
        for _ in 0..100 {
            if fs::remove_dir(&self.group).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

struct RealShares(CpuController);

impl SharesPart for RealShares {
    fn parts(&mut self, weights: &[u32]) -> Vec<f64> {
        let start = |(number, weight): (usize, &u32)| Spinner::start(&self.0, number, *weight);
        let all: Vec<Spinner> =
            weights.iter().enumerate().map(start).collect::<Result<_, _>>().expect("groups can be made");
        std::thread::sleep(Duration::from_millis(100));
        let before: Vec<u64> = all.iter().map(Spinner::cpu_ns).collect();
        std::thread::sleep(Duration::from_millis(600));
        let had = all.iter().zip(before).map(|(spinner, before)| spinner.cpu_ns() - before);
        let had: Vec<f64> = had.map(|ns| ns as f64).collect();
        let sum: f64 = had.iter().sum();
        had.into_iter().map(|had| 100.0 * had / sum).collect()
    }
}

#[test]
fn shares_of_a_core() {
    let controller = CpuController::find();
    if let Err(error) = Spinner::start(&controller, 99, 100) {
        return eprintln!("shares_of_a_core: skipped: no groups of {controller:?}: {error}");
    }
    let (real, model) =
        (conformance::shares(&mut RealShares(controller)), conformance::shares(&mut ModelShares));
    for (real, model) in real.iter().zip(&model) {
        let near = real.iter().zip(model).all(|(real, model)| (real - model).abs() < 6.0);
        assert!(near, "{real:?} {model:?}");
    }
}

struct RealClock(Instant);

impl ClockPart for RealClock {
    fn now_ns(&mut self) -> u64 {
        self.0.elapsed().as_nanos() as u64
    }

    fn wait(&mut self, ns: u64) {
        std::thread::sleep(Duration::from_nanos(ns));
    }
}

#[test]
fn clocks() {
    let none: [String; 0] = [];
    assert_eq!(conformance::clock(&mut RealClock(Instant::now())), none);
    assert_eq!(conformance::clock(&mut ModelClock::default()), none);
}
