//! A capture in memory, given again.

use std::path::PathBuf;
use std::sync::Arc;

use headgate_shm::geometry::HEADROOM_BYTES;
use headgate_shm::{Descriptor, Region, Stack};
use headgate_wire::flow_key::{self, Parsed};

use super::load::{self, Frame, Summary};
use headgate_port::pace::Pace;
use headgate_port::{QueueCounters, Setting};

use crate::{PcapError, ReplayError};

/// Bytes of a capture that are kept in memory unless told otherwise: 1 GiB; our choice, so that a
/// wrong file name does not take the machine's memory.
pub const MEMORY_BYTES_MAX: u64 = 1 << 30;

/// Specification of a replay.
#[derive(Clone, Debug, PartialEq)]
pub struct ReplaySpec {
    /// A pcap or pcapng file of Ethernet frames.
    pub path: PathBuf,
    /// Number of replays.
    pub mode: Mode,
    /// Timing of packets.
    pub timing: Timing,
    /// The largest file that is read, in bytes.
    pub memory_bytes_max: u64,
}

impl ReplaySpec {
    /// The whole file once, as fast as possible, if it has at most [`MEMORY_BYTES_MAX`].
    #[must_use]
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), mode: Mode::Once, timing: Timing::Fast, memory_bytes_max: MEMORY_BYTES_MAX }
    }
}

/// Number of times that a capture is replayed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Once; then the port is finished.
    #[default]
    Once,
    /// Again and again.
    Loop,
}

/// Timing of a replay. A replay loses nothing: what is late is given late.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Timing {
    /// As fast as packets are asked for.
    #[default]
    Fast,
    /// In its own rhythm. Repetitions follow each other by the capture's mean gap between packets.
    Original,
    /// At this many packets per second.
    Rate(f64),
}

/// One queue of a replay.
pub(super) struct Replay {
    capture: Arc<Vec<u8>>,
    frames: Vec<Frame>,
    next: usize,
    mode: Mode,
    clock: Clock,
}

/// Clock of the next frame.
enum Clock {
    Fast,
    Rate { pace: Option<Pace>, packets_per_second: f64, cycles_per_second: u64 },
    Original { started: Option<u64>, ns_per_cycle: f64, elapsed_ns: u64, lap_ns: u64, lap_starts_ns: u64 },
}

impl Clock {
    fn advance(&mut self, now: u64) {
        match self {
            Self::Fast => {}
            Self::Rate { pace, packets_per_second, cycles_per_second } => {
                // What does not fit the backlog stays in the capture: nothing is lost.
                pace.get_or_insert_with(|| Pace::new(*packets_per_second, *cycles_per_second, now))
                    .advance(now);
            }
            Self::Original { started, ns_per_cycle, elapsed_ns, .. } => {
                let started = *started.get_or_insert(now);
                *elapsed_ns = (now.saturating_sub(started) as f64 * *ns_per_cycle) as u64;
            }
        }
    }

    fn is_due(&self, frame: &Frame) -> bool {
        match self {
            Self::Fast => true,
            Self::Rate { pace, .. } => pace.as_ref().is_some_and(|pace| pace.due() > 0),
            Self::Original { elapsed_ns, lap_starts_ns, .. } => lap_starts_ns + frame.time_ns <= *elapsed_ns,
        }
    }

    fn given(&mut self) {
        if let Self::Rate { pace: Some(pace), .. } = self {
            pace.spend(1);
        }
    }

    fn next_lap(&mut self) {
        if let Self::Original { lap_ns, lap_starts_ns, .. } = self {
            *lap_starts_ns += *lap_ns;
        }
    }
}

impl Replay {
    /// Gives frames that are due, as long as there are buffers.
    pub(super) fn receive(
        &mut self,
        now: u64,
        stack: &mut Stack,
        into: &mut [Descriptor],
        counters: &mut QueueCounters,
    ) -> usize {
        self.clock.advance(now);
        let mut given = 0;
        while given < into.len() {
            if self.next == self.frames.len() && self.mode == Mode::Loop && self.next > 0 {
                self.next = 0;
                self.clock.next_lap();
            }
            let Some(frame) = self.frames.get(self.next).filter(|frame| self.clock.is_due(frame)) else {
                break;
            };
            let Some(index) = stack.take() else { break };
            into[given] = self.write(frame, stack.region(), index);
            counters.received_bytes += u64::from(frame.length);
            self.clock.given();
            self.next += 1;
            given += 1;
        }
        counters.received += given as u64;
        given
    }

    fn write(&self, frame: &Frame, region: &Region, index: u32) -> Descriptor {
        region.write(index, HEADROOM_BYTES, &self.capture[frame.at..frame.at + frame.length as usize]);
        Descriptor::new(index, HEADROOM_BYTES, frame.length, 0)
    }

    pub(super) fn is_finished(&self) -> bool {
        self.next == self.frames.len() && (self.mode == Mode::Once || self.frames.is_empty())
    }
}

/// Reads a capture and deals its frames to queues. Frames between the same two hosts go to the same
/// queue, so that flows, in both directions and with their fragments, keep their order.
pub(super) fn open(spec: &ReplaySpec, setting: &Setting<'_>) -> Result<(Vec<Replay>, Summary), PcapError> {
    let refuse = |error| PcapError::Capture { port: setting.name.to_owned(), path: spec.path.clone(), error };
    let bytes = load::read(setting.name, &spec.path, spec.memory_bytes_max)?;
    let (frames, summary) = load::frames(&bytes, setting.frame_bytes_max).map_err(refuse)?;
    let lap_ns = lap_ns(&frames);
    if spec.timing == Timing::Original && spec.mode == Mode::Loop && lap_ns == 0 {
        return Err(refuse(ReplayError::NoTimes));
    }
    let queues = usize::from(setting.queues);
    let mut dealt: Vec<Vec<Frame>> = vec![Vec::new(); queues];
    for frame in &frames {
        dealt[queue_of(&bytes[frame.at..frame.at + frame.length as usize], queues)].push(*frame);
    }
    let capture = Arc::new(bytes);
    let replays = dealt.into_iter().map(|dealt| {
        let part = dealt.len() as f64 / frames.len() as f64;
        let clock = clock(spec.timing, part, lap_ns, setting);
        Replay { capture: Arc::clone(&capture), frames: dealt, next: 0, mode: spec.mode, clock }
    });
    Ok((replays.collect(), summary))
}

fn clock(timing: Timing, part: f64, lap_ns: u64, setting: &Setting<'_>) -> Clock {
    let cycles_per_second = setting.timebase.cycles_per_second;
    match timing {
        Timing::Fast => Clock::Fast,
        Timing::Rate(rate) => Clock::Rate { pace: None, packets_per_second: rate * part, cycles_per_second },
        Timing::Original => Clock::Original {
            started: None,
            ns_per_cycle: 1e9 / cycles_per_second as f64,
            elapsed_ns: 0,
            lap_ns,
            lap_starts_ns: 0,
        },
    }
}

/// From the first frame of a repetition to the first of the next.
fn lap_ns(frames: &[Frame]) -> u64 {
    let span = frames.last().map_or(0, |last| last.time_ns);
    let gaps = frames.len().saturating_sub(1) as u64;
    span + span.checked_div(gaps).unwrap_or(0)
}

fn queue_of(frame: &[u8], queues: usize) -> usize {
    if queues == 1 {
        return 0;
    }
    // The exclusive or of both ends is the same in both directions.
    let ends = match flow_key::parse(frame, frame.len()) {
        Parsed::Ipv4 { key, .. } => u128::from(key.source().to_bits() ^ key.destination().to_bits()),
        Parsed::Wide { key, .. } => {
            let [source, destination, _] = key.words();
            source ^ destination
        }
        Parsed::NeedMore { .. } | Parsed::Malformed(_) => 0,
    };
    // Multiplied by the golden ratio (Knuth, The Art of Computer Programming 3, 6.4), so that
    // neighbouring addresses spread.
    let mixed = (ends as u64 ^ (ends >> 64) as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    (mixed as usize * queues) >> 32
}
