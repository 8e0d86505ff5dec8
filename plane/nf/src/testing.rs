//! Runs an NF without root and without a manager: over packets in a unit test, over a capture, or as a
//! process against a manager's part played by the test.
//!
//! ```
//! use headgate_nf::testing::{self, Setup};
//! use headgate_nf::{Burst, Context, Failure, NetworkFunction, Verdict};
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
//! # Ok::<(), Failure>(())
//! ```

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use headgate_shm::descriptor::{Descriptor, LENGTH_MAX};
use headgate_shm::region::{FRAME_BYTES_MIN, HEADROOM_BYTES};
use headgate_shm::{Geometry, PagesWanted, Region, Verdict};

use crate::burst::{BURST_MAX, Burst};
use crate::clock::Clock;
use crate::context::{Context, Environment, Names, Outbox};
use crate::counter::Board;
use crate::fuse::{Fused, Member};
use crate::{Failure, NetworkFunction};

mod manager;
#[cfg(feature = "pcap")]
pub mod pcap;

pub use headgate_shm::attach::{Loop, Welcome};
pub use manager::Manager;

/// What the NF finds when it is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setup {
    /// Its arguments, a JSON object.
    pub arguments: String,
    /// The names of the ports; a port's number is its place.
    pub ports: Vec<String>,
    /// The names of the stages.
    pub stages: Vec<String>,
}

impl Default for Setup {
    /// No arguments, ports `west` and `east`, no stages.
    fn default() -> Self {
        Self { arguments: "{}".into(), ports: vec!["west".into(), "east".into()], stages: Vec::new() }
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
    /// When it comes, since the start.
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
}

impl Harness {
    /// Makes the NF.
    ///
    /// # Errors
    /// What the NF said.
    pub fn new<N: NetworkFunction + 'static>(
        setup: Setup,
        build: impl FnOnce(&mut Context) -> Result<N, Failure>,
    ) -> Result<Self, Failure> {
        let arguments = setup.arguments.clone();
        let environment = offline(Names::known("port", setup.ports), Names::known("stage", setup.stages));
        let nfs = Fused::alone(&environment, &arguments, build)?;
        Ok(Self { environment, nfs, burst_max: BURST_MAX })
    }

    /// Makes several NFs that share a process; the arguments are a JSON array with one object for each.
    ///
    /// # Errors
    /// What one of them said.
    pub fn fused(setup: Setup, members: Vec<Member>) -> Result<Self, Failure> {
        let environment = offline(Names::known("port", setup.ports), Names::known("stage", setup.stages));
        let nfs = Fused::together(&environment, &setup.arguments, members)?;
        Ok(Self { environment, nfs, burst_max: BURST_MAX })
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
        let region = region_for(longest);
        let mut burst = Burst::new(region.clone());
        let mut outcomes = Vec::with_capacity(arrivals.len());
        for together in arrivals.chunks(self.burst_max) {
            self.move_to(together[0].at);
            let descriptors: Vec<_> =
                together.iter().zip(0..).map(|(arrival, index)| put(&region, index, arrival)).collect();
            burst.load(&descriptors);
            self.nfs.process(&mut burst);
            outcomes.extend(burst.decided().iter().map(|packet| (packet.verdict(), get(&region, *packet))));
        }
        outcomes
    }

    /// Lets time pass; timers fire at their time.
    pub fn wait(&mut self, time: Duration) {
        self.move_to(self.environment.clock.now() + time);
    }

    fn move_to(&mut self, time: Duration) {
        let Clock::Manual(now) = &self.environment.clock else { return };
        while let Some(due) = self.nfs.next_due().filter(|due| *due <= time) {
            now.set(now.get().max(due));
            self.nfs.timers(now.get());
        }
        now.set(now.get().max(time));
    }

    /// Gives the NF a message.
    ///
    /// # Errors
    /// What the NF answered.
    pub fn message(&mut self, body: &str) -> Result<(), Failure> {
        self.nfs.message(body)
    }

    /// Tells the NF that it ends.
    pub fn stop(&mut self) {
        self.nfs.stop();
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
/// What the NF said.
pub fn check<N: NetworkFunction + 'static>(
    arguments: &str,
    build: impl FnOnce(&mut Context) -> Result<N, Failure>,
) -> Result<(), Failure> {
    let environment = offline(Names::open("port"), Names::open("stage"));
    Fused::alone(&environment, arguments, build).map(|_| ())
}

/// As [`check`], for several NFs and a JSON array of their arguments.
///
/// # Errors
/// What one of them said.
pub fn check_fused(arguments: &str, members: Vec<Member>) -> Result<(), Failure> {
    let environment = offline(Names::open("port"), Names::open("stage"));
    Fused::together(&environment, arguments, members).map(|_| ())
}

fn offline(ports: Names, stages: Names) -> Rc<Environment> {
    Rc::new(Environment {
        name: "test".to_owned(),
        ports,
        stages,
        clock: Clock::manual(),
        board: Rc::new(Board::private()),
        outbox: Outbox::Kept(RefCell::new(Vec::new())),
        counters_told: Cell::new(0),
    })
}

/// Tailroom behind the longest frame, in bytes: our choice, as much as the usual headroom.
const TAILROOM_BYTES: u32 = 128;

fn region_for(longest: usize) -> Region {
    assert!(longest <= LENGTH_MAX as usize, "a frame of {longest} bytes is longer than {LENGTH_MAX}");
    let frame_bytes = (longest as u32 + TAILROOM_BYTES).clamp(2048, LENGTH_MAX);
    let geometry = Geometry::new(BURST_MAX as u32, frame_bytes).expect("the numbers are in range");
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
