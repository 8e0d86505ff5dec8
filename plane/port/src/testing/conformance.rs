//! Conformance suite of [`Queue`]: the same questions to each back end.
//!
//! A back end is described by a [`Backend`], which opens devices, and a [`Device`], which is one of them
//! together with what happens at its other end. [`run`] asks everything and panics with all that was found;
//! [`check`] returns it. Each answer that is wrong names the [`Behaviour`] that was missed.
//!
//! ```text
//! bed         one device with its stack: every call to the queue, and what must hold after each
//! ledger      what must have come, left and been counted
//! scenarios   what is asked, in the order of the list
//! ```
//!
//! The suite's clock moves only with its calls. A device that needs real time has [`Device::wait`].

mod bed;
mod ledger;
mod scenarios;
#[cfg(test)]
mod tests;

use std::fmt;

use headgate_shm::Stack;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::{Bell, Queue};
use bed::Bed;

/// The longest burst that is asked for: that of the packet path (`BURST` of the crate `path`).
pub const BURST_MAX: usize = 128;
/// The longest frame that buffers are to have room for, in bytes.
pub const FRAME_BYTES_MAX: u32 = 2048;
/// Bytes of a frame that no buffer has room for: their strides are rounded up by less than two lines.
pub const LONG_BYTES: usize = FRAME_BYTES_MAX as usize + 2 * headgate_shm::geometry::LINE_BYTES as usize;

/// A kind of port under test.
pub trait Backend {
    /// Returns its abilities.
    fn abilities(&self) -> Abilities;

    /// Frames that come where these are wanted: a back end that makes its own frames says which, as many.
    fn incoming(&mut self, wanted: &[Vec<u8>]) -> Vec<Vec<u8>> {
        wanted.to_vec()
    }

    /// Opens a device, which may take buffers of `stack`. `incoming` is what will come from outside: at once
    /// from one with a supply of its own, else when it is offered.
    fn open(&mut self, stack: &mut Stack, incoming: &[Vec<u8>]) -> Box<dyn Device>;
}

/// One open device, its queue, and what is at its other end.
pub trait Device {
    /// The queue under test.
    fn queue(&mut self) -> &mut dyn Queue;

    /// Has frames come from outside, in order; returns how many found room.
    fn offer(&mut self, _frames: &[Vec<u8>]) -> usize {
        0
    }

    /// Takes the frames that have left since the last call, in order.
    fn take_left(&mut self) -> Vec<Vec<u8>> {
        Vec::new()
    }

    /// Waits a little for what is on its way.
    fn wait(&mut self) {}

    /// Has the counters include what the device lost.
    fn count_losses(&mut self) {}

    /// Ends the device, which returns all buffers to the stack; gives what left and was not taken before.
    fn close(self: Box<Self>, _stack: &mut Stack) -> Vec<Vec<u8>> {
        Vec::new()
    }
}

/// Abilities of a back end, so that nothing else is asked of it.
#[derive(Clone, Copy, Debug)]
pub struct Abilities {
    /// Origin of its packets.
    pub gives: Gives,
    /// Whether [`Device::take_left`] and [`Device::close`] tell what left.
    pub shows_what_left: bool,
    /// Whether it takes no more packets at some point unless somebody takes what left.
    pub fills: bool,
    /// Whether frames can come that are longer than a buffer.
    pub brings_long_frames: bool,
    /// The longest frame it sends, in bytes; what is longer fails. `None`: any that fits a buffer.
    pub sent_bytes_max: Option<u32>,
    /// Buffers it needs to work.
    pub buffers: u32,
    /// Calls in a row without progress, and [`Device::wait`] after each, until what is waited for counts as
    /// lost.
    pub patience: usize,
}

/// Origin of a device's packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gives {
    /// From nowhere.
    Nothing,
    /// From outside, when they are offered.
    Offered,
    /// From a supply that is there when it is opened. One that ends makes the port finished.
    Supply {
        /// Whether nothing comes behind the frames of [`Backend::incoming`].
        ends: bool,
    },
    /// From itself: what is sent comes back.
    Itself,
}

impl Default for Abilities {
    fn default() -> Self {
        Self {
            gives: Gives::Nothing,
            shows_what_left: false,
            fills: false,
            brings_long_frames: false,
            sent_bytes_max: None,
            buffers: 512,
            patience: 20,
        }
    }
}

macro_rules! behaviours {
    ($($(#[doc = $about:literal])+ $behaviour:ident,)+) => {
        /// Behaviour that every queue must have, whatever is behind it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Behaviour { $($(#[doc = $about])+ $behaviour,)+ }

        impl Behaviour {
            /// All behaviours.
            pub const ALL: &[Self] = &[$(Self::$behaviour,)+];

            /// Returns the behaviour as a sentence.
            #[must_use]
            pub const fn sentence(self) -> &'static str {
                match self { $(Self::$behaviour => concat!($($about),+),)+ }
            }
        }
    };
}

behaviours! {
    /// Every buffer is on the stack, in the caller's hands, or counted by `holds`.
    BuffersConserved,
    /// No call does more than it was asked for.
    NoMoreThanAsked,
    /// What is handed over lies in buffers taken from the stack, each once.
    PacketsSound,
    /// Frames pass byte by byte.
    BytesKept,
    /// Frames pass in order, and none twice.
    OrderKept,
    /// Nothing is lost but what is counted.
    NothingLost,
    /// Counters say what moved, in packets and bytes.
    CountersTrue,
    /// Counters never fall.
    CountersMonotone,
    /// What transmit took is the queue's, what it did not take is the caller's.
    TakenIsOwned,
    /// A buffer comes back once.
    GivenBackOnce,
    /// An empty burst does nothing.
    EmptyBurst,
    /// Packets come into a burst of any length.
    AnyBurst,
    /// Without free buffers nothing comes, and later the rest.
    EmptyStack,
    /// A full device takes no more and, when it has room, goes on.
    FullDevice,
    /// A frame that does not fit is lost and counted, and those behind it pass.
    LongFrames,
    /// A region is kept to: that of the stack it was opened with, or whichever comes.
    RegionHonoured,
    /// A port that has finished gives nothing any more and stays so.
    FinishedForGood,
    /// Tending moves no packet and takes no buffer.
    TendHarmless,
    /// Packets wait for the other end, and none once they were taken.
    WaitingTrue,
    /// What comes after nothing came rings first, where there is a bell.
    BellRings,
}

/// A behaviour that was missed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Which.
    pub behaviour: Behaviour,
    /// In which scenario.
    pub scenario: &'static str,
    /// Observation that showed it.
    pub why: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { behaviour, scenario, why } = self;
        write!(f, "{scenario}: {why} ({behaviour:?}: {})", behaviour.sentence().trim())
    }
}

/// Result of a step of a scenario.
type Checked<T = ()> = Result<T, Missed>;

/// A behaviour that was missed, before it is known in which scenario.
struct Missed(Behaviour, String);

/// Fails with a behaviour unless a condition holds.
fn require(condition: bool, behaviour: Behaviour, why: impl FnOnce() -> String) -> Checked {
    if condition { Ok(()) } else { Err(Missed(behaviour, why())) }
}

/// Waits until a worker that rests would look. Returns whether it would.
fn hear(bed: &mut Bed) -> bool {
    (0..bed.abilities.patience).any(|_| {
        let has_rung = has_rung(bed.device.queue().bell());
        if !has_rung {
            bed.device.wait();
        }
        has_rung
    })
}

/// Whether a worker that rests would have looked by now.
fn has_rung(bell: Bell<'_>) -> bool {
    let file = match bell {
        Bell::Missing => return true,
        Bell::NotNeeded => return false,
        Bell::File(file) => file,
    };
    let mut asked = [PollFd::from_borrowed_fd(file, PollFlags::IN)];
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut asked, Some(&at_once)).is_ok_and(|ready| ready > 0)
}

/// Asks everything of a back end; returns what was missed, at most once in each scenario.
pub fn check(backend: &mut dyn Backend) -> Vec<Violation> {
    let mut found = Vec::new();
    for (scenario, frames, ask) in scenarios::ALL {
        let mut bed = Bed::open(backend, *frames);
        let asked = ask(&mut bed).and_then(|()| bed.finish());
        // Ended in any case, so that the next one can be opened.
        let ended = bed.close();
        if let Err(Missed(behaviour, why)) = asked.and(ended) {
            found.push(Violation { behaviour, scenario, why });
        }
    }
    found
}

/// Asks everything of a back end.
///
/// # Panics
/// When a behaviour was missed, with all that were.
pub fn run(backend: &mut dyn Backend) {
    let found = check(backend);
    let told: Vec<String> = found.iter().map(Violation::to_string).collect();
    assert!(found.is_empty(), "a queue does not do what every queue must:\n{}", told.join("\n"));
}
