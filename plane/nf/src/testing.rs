//! Runs an NF without root and without a manager: over packets in a unit test, over a capture, or as a
//! process against a manager's part played by the test.
//!
//! ```
//! use headgate_nf::testing::{self, Setup};
//! use headgate_nf::{Burst, Context, NfError, NetworkFunction, Verdict};
//!
//! struct OutOfEast;
//! impl NetworkFunction for OutOfEast {
//!     fn process(&mut self, burst: &mut Burst, context: &mut Context) {
//!         let east = context.port("east").expect("the test has such a port");
//!         burst.packets().for_each(|mut packet| packet.send_to(east));
//!     }
//! }
//!
//! let setup = Setup { ports: vec!["west".into(), "east".into()], ..Setup::default() };
//! let mut harness = testing::Harness::new(setup, |_| Ok(OutOfEast))?;
//! let sent = harness.run(&[vec![0; 60]]);
//! assert_eq!(sent[0].0, Verdict::Port(1));
//! # Ok::<(), NfError>(())
//! ```

use std::cell::{Cell, OnceCell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use headgate_shm::descriptor::Descriptor;
use headgate_shm::geometry::{FRAME_BYTES_MAX, FRAME_BYTES_MIN, HEADROOM_BYTES};
use headgate_shm::{Geometry, PagesWanted, Region, Verdict};

use crate::burst::BURST_MAX;
use crate::clock::Clock;
use crate::context::{Context, Environment, Names, Outbox};
use crate::counter::Board;
use crate::disk::requests::DiskAccess;
use crate::fuse::{Fused, Member};
use crate::maker::{Lent, Made, Way};
use crate::state::StateAccess;
use crate::{NetworkFunction, NfError};

mod bench;
mod manager;
#[cfg(feature = "pcap")]
pub mod pcap;

pub use crate::disk::engine::EngineChoice;
use bench::{Bench, WINDOW};
pub use headgate_session::message::{KeptState, Loop, OnChange, Part, StateSaid, Welcome};
pub use manager::Manager;

/// Surroundings that the NF finds when it is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setup {
    /// Its arguments, a JSON object.
    pub arguments: String,
    /// The names of the ports; a port's number is its place.
    pub ports: Vec<String>,
    /// The names of the stages.
    pub stages: Vec<String>,
    /// The names of the chains that visit it; a chain's number is one more than its place.
    pub chains: Vec<String>,
    /// Engine that reads and writes for it, if it asks.
    pub disk: EngineChoice,
}

impl Default for Setup {
    /// No arguments, ports `west` and `east`, no stages.
    fn default() -> Self {
        Self {
            arguments: "{}".into(),
            ports: vec!["west".into(), "east".into()],
            stages: Vec::new(),
            chains: Vec::new(),
            disk: EngineChoice::Best,
        }
    }
}

impl Setup {
    /// The default ports with these arguments.
    #[must_use]
    pub fn with(arguments: impl Into<String>) -> Self {
        Self { arguments: arguments.into(), ..Self::default() }
    }
}

/// A packet on its way into the NF.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Time of its arrival, since the start.
    pub at: Duration,
    /// The number of the port it comes by.
    pub ingress: u16,
    /// The frame: 14 to 16383 bytes.
    pub frame: Vec<u8>,
}

/// An NF on the bench: its memory is ordinary, its time stands still until a packet or [`Harness::wait`]
/// moves it, its messages are kept.
pub struct Harness {
    environment: Rc<Environment>,
    nfs: Fused,
    burst_max: usize,
    order: Vec<usize>,
    made: Vec<MadeFrame>,
}

/// A packet that the NF made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MadeFrame {
    /// Time at which it was made, since the start.
    pub at: Duration,
    /// The frame that it followed, by its place in the run; none for one made by itself.
    pub follows: Option<usize>,
    /// Its destination; none for one that a later NF of the process dropped.
    pub way: Option<Way>,
    /// The frame.
    pub frame: Vec<u8>,
}

impl Harness {
    /// Makes the NF.
    ///
    /// # Errors
    /// The NF's error.
    pub fn new<N: NetworkFunction + 'static>(
        setup: Setup,
        build: impl FnOnce(&mut Context) -> Result<N, NfError>,
    ) -> Result<Self, NfError> {
        let arguments = setup.arguments.clone();
        let environment = on_the_bench(setup);
        let nfs = Fused::alone(&environment, &arguments, build)?;
        Ok(Self { environment, nfs, burst_max: BURST_MAX, order: Vec::new(), made: Vec::new() })
    }

    /// Makes several NFs that share a process; the arguments are a JSON array with one object for each.
    ///
    /// # Errors
    /// The error of one of them.
    pub fn fused(setup: Setup, members: Vec<Member>) -> Result<Self, NfError> {
        let arguments = setup.arguments.clone();
        let environment = on_the_bench(setup);
        let nfs = Fused::together(&environment, &arguments, members)?;
        Ok(Self { environment, nfs, burst_max: BURST_MAX, order: Vec::new(), made: Vec::new() })
    }

    /// Hands packets over in bursts of at most `most`, 1 to [`BURST_MAX`].
    #[must_use]
    pub fn with_bursts_of(mut self, most: usize) -> Self {
        self.burst_max = most.clamp(1, BURST_MAX);
        self
    }

    /// Gives the NF these frames, all by the first port and now; returns each with its verdict.
    ///
    /// # Panics
    /// When a frame is shorter than 14 or longer than 16383 bytes.
    pub fn run(&mut self, frames: &[impl AsRef<[u8]>]) -> Vec<(Verdict, Vec<u8>)> {
        let at = self.environment.clock.now();
        let arrival = |frame: &[u8]| Arrival { at, ingress: 0, frame: frame.to_vec() };
        self.run_arrivals(&frames.iter().map(|frame| arrival(frame.as_ref())).collect::<Vec<_>>())
    }

    /// Gives the NF these packets, with the time standing at each burst's first packet; returns each with
    /// its verdict, in the order given. Timers due before a burst fire before it.
    ///
    /// # Panics
    /// As [`Harness::run`].
    pub fn run_arrivals(&mut self, arrivals: &[Arrival]) -> Vec<(Verdict, Vec<u8>)> {
        let longest = arrivals.iter().map(|arrival| arrival.frame.len()).max().unwrap_or(0);
        let mut bench = self.bench(longest, self.buffers());
        bench.books.outcomes.resize(arrivals.len(), None);
        for (together, number) in arrivals.chunks(self.burst_max).zip(0..) {
            self.move_to(together[0].at, &mut bench);
            self.wait_for_disk(&mut bench, |requests| requests.has_room());
            bench.load(together, number * self.burst_max);
            bench.lend(&self.environment);
            self.nfs.process(&mut bench.burst);
            if let Some(requests) = self.environment.disk.requests.get() {
                requests.borrow_mut().absorb(&mut bench.burst);
            }
            bench.books.take_back(&bench.burst);
            self.take_made(&mut bench);
        }
        self.wait_for_disk(&mut bench, |requests| requests.held() == 0);
        self.order = bench.books.order;
        let outcomes = bench.books.outcomes.into_iter();
        outcomes.map(|outcome| outcome.expect("every packet came back")).collect()
    }

    /// The frames in the order in which the NF let go of them, of the last run; differs from the order in
    /// which they came only where packets were held.
    #[must_use]
    pub fn order(&self) -> &[usize] {
        &self.order
    }

    /// Lets time pass; timers fire at their time, and what is to be written by then is written.
    ///
    /// # Panics
    /// When the disk does not answer.
    pub fn wait(&mut self, time: Duration) {
        let time = self.environment.clock.now() + time;
        let mut bench = self.bench(0, 1);
        self.move_to(time, &mut bench);
    }

    /// The disk of a bench takes no time: whatever is under way is done before time moves on.
    fn move_to(&mut self, time: Duration, bench: &mut Bench) {
        loop {
            let due = self.nfs.next_due().into_iter().chain(self.next_disk_due()).min();
            let now = due.filter(|due| *due <= time).unwrap_or(time);
            if let Clock::Manual(clock) = &self.environment.clock {
                clock.set(clock.get().max(now));
            }
            bench.lend(&self.environment);
            self.nfs.timers(now);
            self.take_made(bench);
            self.wait_for_disk(bench, |requests| !requests.is_under_way());
            if due.is_none_or(|due| due > time) {
                return;
            }
        }
    }

    /// Gives the NF a message.
    ///
    /// # Errors
    /// The NF's error.
    pub fn message(&mut self, body: &str) -> Result<(), NfError> {
        let mut bench = self.bench(0, 1);
        bench.lend(&self.environment);
        let answer = self.nfs.message(body);
        self.take_made(&mut bench);
        answer
    }

    /// The packets that the NF made since the last call, in the order in which they left.
    pub fn made(&mut self) -> Vec<MadeFrame> {
        std::mem::take(&mut self.made)
    }

    /// Tells the NF that it ends; what it wrote is in its files then.
    ///
    /// # Panics
    /// When the disk does not answer.
    pub fn stop(&mut self) {
        let mut bench = self.bench(0, 1);
        bench.lend(&self.environment);
        self.nfs.stop();
        self.take_made(&mut bench);
        if let Some(requests) = self.environment.disk.requests.get().cloned() {
            self.wait_for_disk(&mut bench, |requests| {
                requests.flush_all();
                !requests.is_writing()
            });
            requests.borrow_mut().close();
        }
    }

    /// The messages the NF sent since the last call.
    pub fn told(&mut self) -> Vec<String> {
        match &self.environment.outbox {
            Outbox::Kept(kept) => kept.take(),
            Outbox::Manager(_) => Vec::new(),
        }
    }

    /// The NF's counters, by name.
    #[must_use]
    pub fn counters(&self) -> Vec<(String, u64)> {
        self.environment.board.readings()
    }

    /// One counter.
    ///
    /// # Panics
    /// When the NF has none of this name.
    #[must_use]
    pub fn counter(&self, name: &str) -> u64 {
        let counters = self.counters();
        let found = counters.iter().find(|(known, _)| known == name);
        found.unwrap_or_else(|| panic!("no counter `{name}` in {counters:?}")).1
    }
}

/// Makes an NF only to see whether it takes its arguments. Any port and any stage it names exists.
///
/// # Errors
/// The NF's error.
pub fn check<N: NetworkFunction + 'static>(
    arguments: &str,
    build: impl FnOnce(&mut Context) -> Result<N, NfError>,
) -> Result<(), NfError> {
    check_among(Known::default(), arguments, build)
}

/// Names that arguments may use; `None`: any.
#[derive(Clone, Debug, Default)]
pub struct Known {
    /// Ports.
    pub ports: Option<Vec<String>>,
    /// Stages.
    pub stages: Option<Vec<String>>,
}

/// As [`check`], where these names are known.
///
/// # Errors
/// The NF's error.
pub fn check_among<N: NetworkFunction + 'static>(
    known: Known,
    arguments: &str,
    build: impl FnOnce(&mut Context) -> Result<N, NfError>,
) -> Result<(), NfError> {
    let names = |what, known: Option<Vec<String>>| match known {
        Some(known) => Names::known(what, known),
        None => Names::open(what),
    };
    let (ports, stages) = (names("port", known.ports), names("stage", known.stages));
    Fused::alone(&offline(ports, stages, None, rehearsal()), arguments, build).map(|_| ())
}

/// As [`check`], for several NFs and a JSON array of their arguments.
///
/// # Errors
/// The error of one of them.
pub fn check_fused(arguments: &str, members: Vec<Member>) -> Result<(), NfError> {
    let environment = offline(Names::open("port"), Names::open("stage"), None, rehearsal());
    Fused::together(&environment, arguments, members).map(|_| ())
}

/// No request is ever made.
const fn rehearsal() -> DiskAccess {
    DiskAccess::new(None, EngineChoice::Best)
}

fn on_the_bench(setup: Setup) -> Rc<Environment> {
    let harness = std::thread::current();
    let disk = DiskAccess::new(Some(Arc::new(move || harness.unpark())), setup.disk);
    let chains = setup.chains.into_iter().zip(1..).map(|(name, number)| (number, name)).collect();
    offline(Names::known("port", setup.ports), Names::known("stage", setup.stages), Some(chains), disk)
}

fn offline(
    ports: Names,
    stages: Names,
    chains: Option<Vec<(u16, String)>>,
    disk: DiskAccess,
) -> Rc<Environment> {
    Rc::new(Environment {
        name: "test".to_owned(),
        ports,
        stages,
        clock: Clock::manual(),
        board: Rc::new(Board::private()),
        outbox: Outbox::Kept(RefCell::new(Vec::new())),
        counters_told: Cell::new(0),
        answer: RefCell::new(None),
        disk,
        state: StateAccess::default(),
        chains,
        made: OnceCell::new(),
        making: RefCell::new(Some(Made::new(None, Lent::Own(Vec::new())))),
        window: WINDOW,
        frame_bytes_max: FRAME_BYTES_MAX as usize,
    })
}

/// Tailroom behind the longest frame, in bytes: our choice, as much as the usual headroom.
const TAILROOM_BYTES: u32 = 128;

fn region_for(longest: usize, buffers: usize) -> Region {
    assert!(longest <= FRAME_BYTES_MAX as usize, "a frame of {longest} bytes, longer than {FRAME_BYTES_MAX}");
    let frame_bytes = (longest as u32 + TAILROOM_BYTES).clamp(2048, FRAME_BYTES_MAX);
    let geometry = Geometry::new(buffers as u32, frame_bytes).expect("the numbers are in range");
    Region::create("test packets", geometry, PagesWanted::Ordinary)
        .unwrap_or_else(|error| panic!("memory for a test's packets: {error}"))
}

fn put(region: &Region, index: u32, arrival: &Arrival) -> Descriptor {
    let length = arrival.frame.len() as u32;
    assert!(length >= FRAME_BYTES_MIN, "a frame of {length} bytes has no Ethernet header");
    region.write(index, HEADROOM_BYTES, &arrival.frame);
    Descriptor::new(index, HEADROOM_BYTES, length, u32::from(arrival.ingress))
}

fn get(region: &Region, packet: Descriptor) -> Vec<u8> {
    region
        .geometry()
        .check(packet)
        .unwrap_or_else(|offence| panic!("the packet came back spoilt: {offence}"));
    let mut frame = vec![0; packet.length() as usize];
    region.read(packet, &mut frame);
    frame
}

#[cfg(test)]
mod tests;
