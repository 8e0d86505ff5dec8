//! The library a network function (NF) is written against.
//!
//! An NF is one function over a burst of packets, with a verdict for each:
//!
//! ```no_run
//! use headgate_nf::{Burst, Context, Counter, NfError, NetworkFunction};
//!
//! struct ShortOnly {
//!     refused: Counter,
//! }
//!
//! impl NetworkFunction for ShortOnly {
//!     fn process(&mut self, burst: &mut Burst, _: &mut Context) {
//!         for mut packet in burst.packets() {
//!             if packet.len() > 512 {
//!                 packet.discard();
//!                 self.refused.add(1);
//!             }
//!         }
//!     }
//! }
//!
//! fn main() -> std::process::ExitCode {
//!     headgate_nf::run(|context: &mut Context| -> Result<_, NfError> {
//!         Ok(ShortOnly { refused: context.counter("refused")? })
//!     })
//! }
//! ```
//!
//! The same value runs in a process of its own, fused with others in one process ([`run_fused`]), or over
//! a few packets in a unit test without root and without a manager ([`testing`]).
//!
//! A program that calls [`run`] has the command line of every NF: `--pcap IN OUT` runs it over a capture,
//! `--socket PATH --as NAME` attaches it to a manager, `--help` tells the rest.
//!
//! Features, all on by default: `disk` for files ([`disk`]), `kernel-io` for chains on interfaces of the
//! kernel, `pcap` for captures. An NF without them depends on less, and says what it then cannot do.
//!
//! From what an author sees to what runs it: [`Burst`] and [`Packet`]; [`Context`], [`Counter`], [`Timer`];
//! [`maker`] for packets of its own; [`mod@state`] for what is kept; [`disk`] for files; then attach (hello,
//! memory, ready), the burst loop over rings and the one over interfaces of the kernel, and
//! [`headgate_session::launch`] for processes that the manager starts. An NF never allocates or frees a
//! buffer: whatever its verdict, the packet goes back to the manager. Packets that it makes itself
//! ([`maker`]) lie in buffers it is lent.
#![cfg_attr(
    not(all(feature = "disk", feature = "kernel-io", feature = "pcap")),
    allow(dead_code, reason = "one feature's part of what all share")
)]

// Macros name this crate as those outside of it do.
extern crate self as headgate_nf;

mod arguments;
mod burst;
mod burst_loop;
mod clock;
mod command_line;
mod context;
mod counter;
pub mod disk;
mod fuse;
mod interrupted;
#[cfg(feature = "kernel-io")]
mod kernel_loop;
mod mail;
pub mod maker;
mod packet;
pub mod resident;
mod robust;
mod run;
mod saver;
mod standby;
pub mod state;
pub mod testing;
mod timer;

pub use arguments::{ArgumentErrors, UnknownNameError};
pub use burst::{BURST_MAX, Burst, Packets};
pub use burst_loop::{End, Visit};
pub use clock::cycles;
pub use command_line::{run, run_with};
pub use context::{Context, Port, Stage, TellError};
pub use counter::{Counter, NoCounterLeftError};
pub use disk::{Disk, Log, LogId, LogSettings, ReadDone, ReadFile, WriteDone};
pub use fuse::{Build, Member};
pub use headgate_session::arguments::{ArgumentError, ArgumentErrorKind, PathStep};
pub use headgate_session::attach::{AttachError, Connection, NAME_VARIABLE, PATH_VARIABLE};
pub use headgate_session::message::SOCKET_VARIABLE;
pub use headgate_shm::Verdict;
pub use headgate_shm::descriptor::LENGTH_MAX as FRAME_BYTES_MAX;
pub use headgate_wire as wire;
pub use maker::{Chain, MakeError, Maker, MakerError, Way};
pub use packet::{NoRoomError, Packet};
pub use run::{RunError, conclude, heed_signals, run_fused, serve, serve_fused};
pub use timer::Timer;
#[doc(hidden)]
pub use zerocopy;

/// Error of an NF that could not start, or could not do what a message asked: a sentence for the operator.
/// `?` makes one of any error, and of a string.
pub type NfError = Box<dyn std::error::Error>;

/// A network function.
pub trait NetworkFunction {
    /// Works on a burst. Every packet that is not given another verdict goes on to the next stage.
    ///
    /// Called in one thread. Must not block: the packets of a whole ring would wait.
    fn process(&mut self, burst: &mut Burst, context: &mut Context);

    /// Takes a message from an operator, between two bursts. What it tells meanwhile ([`Context::tell`]) is
    /// its answer.
    ///
    /// # Errors
    /// A sentence: the reason why it refuses, which is the answer then.
    fn message(&mut self, body: &str, context: &mut Context) -> Result<(), NfError> {
        let _ = (body, context);
        Err("this network function takes no messages".into())
    }

    /// A timer of [`Context::every`] or [`Context::after`] has come due. Called between two bursts, never
    /// early, and as late as the burst before it takes; not while the manager lets the NF rest.
    fn timer(&mut self, timer: Timer, context: &mut Context) {
        let _ = (timer, context);
    }

    /// A read begun with [`Disk::read`] is complete, or has failed. Called between two bursts, before the
    /// packets that waited for it come back.
    fn read(&mut self, done: &ReadDone<'_>, context: &mut Context) {
        let _ = (done, context);
    }

    /// Packets held under the word of a read come back in their order, once for each burst of them; every
    /// one that is not given another verdict goes on to the next stage. They may be held again.
    fn resume(&mut self, held: &mut Burst, done: &ReadDone<'_>, context: &mut Context) {
        let _ = (held, done, context);
    }

    /// Records of a log are in their file, or are not and never will be. Called between two bursts, and
    /// after [`stop`](Self::stop) for the last ones.
    fn written(&mut self, log: LogId, done: &WriteDone, context: &mut Context) {
        let _ = (log, done, context);
    }

    /// The last call, after the last burst: time for a last message, and for the last records of a log.
    fn stop(&mut self, context: &mut Context) {
        let _ = context;
    }

    /// Whether [`process`](Self::process) reads packets. When no NF of a process does, their first
    /// lines are not fetched into the cache. Asked once, at start.
    fn touches_packets(&self) -> bool {
        true
    }

    /// Whether it takes frames that are not cut yet, of up to 64 KiB, and whose TCP or UDP checksum is only
    /// begun ([`Packet::long_frame`]): Linux has such frames between interfaces of one machine, and where all
    /// NFs of a chain take them they pass it whole. An NF that only looks at headers, or rewrites addresses
    /// and ports with [`Packet::update_checksum`], can say so; one that reads payload, puts an outer header
    /// in front or makes another frame of a packet must not. Asked once, at start.
    fn takes_long_frames(&self) -> bool {
        false
    }
}

impl<N: NetworkFunction + ?Sized> NetworkFunction for Box<N> {
    fn process(&mut self, burst: &mut Burst, context: &mut Context) {
        (**self).process(burst, context);
    }
    fn message(&mut self, body: &str, context: &mut Context) -> Result<(), NfError> {
        (**self).message(body, context)
    }
    fn timer(&mut self, timer: Timer, context: &mut Context) {
        (**self).timer(timer, context);
    }
    fn read(&mut self, done: &ReadDone<'_>, context: &mut Context) {
        (**self).read(done, context);
    }
    fn resume(&mut self, held: &mut Burst, done: &ReadDone<'_>, context: &mut Context) {
        (**self).resume(held, done, context);
    }
    fn written(&mut self, log: LogId, done: &WriteDone, context: &mut Context) {
        (**self).written(log, done, context);
    }
    fn stop(&mut self, context: &mut Context) {
        (**self).stop(context);
    }
    fn touches_packets(&self) -> bool {
        (**self).touches_packets()
    }
    fn takes_long_frames(&self) -> bool {
        (**self).takes_long_frames()
    }
}
