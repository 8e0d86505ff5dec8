//! Scenarios of the conformance suite.

use super::bed::{Bed, OWN};
use super::{
    Abilities, BURST_MAX, Behaviour, Checked, FRAME_BYTES_MAX, Gives, LONG_BYTES, Missed, hear, require,
};
use crate::random::Random;
use crate::testing::numbered;

/// Frames that a scenario wants to come in.
#[derive(Clone, Copy)]
pub(super) enum Need {
    /// So many, of mixed lengths.
    Frames(usize),
    /// Two, and between them one that does not fit a buffer.
    LongBetween,
}

/// The shortest frame without check sequence that every link carries (IEEE 802.3 §4.4.2), in bytes.
const SHORT_BYTES: usize = 60;
/// The longest frame of an ordinary link, in bytes.
const ORDINARY_BYTES: usize = 1514;
/// Calls after which a device that fills must have said that it is full.
const FILL_CALLS: usize = 4_096;

impl Need {
    pub(super) fn frames(self, abilities: &Abilities) -> Vec<Vec<u8>> {
        match self {
            Self::Frames(count) => (0..count).map(|number| numbered(number, length(number))).collect(),
            Self::LongBetween if abilities.brings_long_frames => {
                let lengths = [SHORT_BYTES, LONG_BYTES, SHORT_BYTES];
                lengths.into_iter().enumerate().map(|(number, length)| numbered(number, length)).collect()
            }
            Self::LongBetween => vec![numbered(0, SHORT_BYTES), numbered(1, SHORT_BYTES)],
        }
    }
}

/// Lengths over the whole range, in no order that a power of two would follow.
const fn length(number: usize) -> usize {
    SHORT_BYTES + number * 61 % (ORDINARY_BYTES - SHORT_BYTES + 1)
}

type Scenario = (&'static str, Need, fn(&mut Bed) -> Checked);

/// All scenarios.
pub(super) const ALL: &[Scenario] = &[
    ("empty bursts", Need::Frames(20), empty_bursts),
    ("bursts of every length in", Need::Frames(BURST_MAX * (BURST_MAX + 1) / 2), bursts_in),
    ("bursts of every length out", Need::Frames(0), bursts_out),
    ("no free buffer", Need::Frames(200), no_free_buffer),
    ("a full device", Need::Frames(0), full_device),
    ("long frames in", Need::LongBetween, long_frames_in),
    ("long frames out", Need::Frames(0), long_frames_out),
    ("tending alone", Need::Frames(50), tending_alone),
    ("after a rest", Need::Frames(50), after_a_rest),
    ("after the end", Need::Frames(50), after_the_end),
    ("two regions", Need::Frames(200), two_regions),
    ("in, out and through, at random", Need::Frames(2_000), at_random),
];

fn empty_bursts(bed: &mut Bed) -> Checked {
    for _ in 0..3 {
        bed.offer()?;
        let moved = |missed: Missed| Missed(Behaviour::EmptyBurst, missed.1);
        bed.receive(OWN, 0).map_err(moved)?;
        bed.send(OWN, Vec::new()).map_err(moved)?;
        bed.receive(OWN, 4)?;
        bed.give_all(OWN);
    }
    Ok(())
}

fn bursts_in(bed: &mut Bed) -> Checked {
    if bed.abilities.gives == Gives::Nothing {
        for most in 1..=BURST_MAX {
            bed.receive(OWN, most)?;
        }
        return Ok(());
    }
    for most in 1..=BURST_MAX {
        if bed.coming() == 0 {
            break;
        }
        bed.receive_some(OWN, most)?;
        bed.give_all(OWN);
        bed.take_left();
    }
    Ok(())
}

fn bursts_out(bed: &mut Bed) -> Checked {
    for count in 1..=BURST_MAX {
        let frames = bed.make((0..count).map(|number| length(number * 7 + count)));
        bed.send_all(OWN, frames)?;
        bed.make_room(OWN)?;
    }
    bed.finish()?;
    let waiting = bed.waiting();
    let told = || format!("{waiting:?} packets wait after all were taken");
    let seen = bed.abilities.shows_what_left;
    require(!seen || waiting.is_none_or(|waiting| waiting == 0), Behaviour::WaitingTrue, told)
}

fn no_free_buffer(bed: &mut Bed) -> Checked {
    bed.offer()?;
    for free in [0, 1, 2, 0, 5, 0] {
        bed.starve(OWN, free);
        bed.receive(OWN, BURST_MAX)?;
        bed.tend()?;
    }
    bed.give_all(OWN);
    Ok(())
}

fn full_device(bed: &mut Bed) -> Checked {
    if !bed.abilities.fills {
        return Ok(());
    }
    let mut is_full = false;
    for _ in 0..FILL_CALLS {
        let frames = bed.make([SHORT_BYTES; 32]);
        if !bed.send(OWN, frames)?.is_empty() {
            is_full = true;
            break;
        }
    }
    require(is_full, Behaviour::FullDevice, || "it took all and nobody took what left".to_owned())?;
    let waiting = bed.waiting();
    let told = || "it is full and says that nothing waits".to_owned();
    require(waiting.is_none_or(|waiting| waiting > 0), Behaviour::WaitingTrue, told)?;
    for _ in 0..20 {
        let frames = bed.make([SHORT_BYTES; 5]);
        bed.send(OWN, frames)?;
        bed.tend()?;
    }
    // Goes on as soon as somebody takes what left.
    bed.make_room(OWN)?;
    let frames = bed.make([SHORT_BYTES; BURST_MAX]);
    bed.send_all(OWN, frames)
}

fn long_frames_in(bed: &mut Bed) -> Checked {
    if !bed.abilities.brings_long_frames {
        return Ok(());
    }
    let want = bed.coming() - 1;
    let mut came = 0;
    while came < want {
        came += bed.receive_some(OWN, BURST_MAX).map_err(about_long_frames)?;
    }
    let counted = bed.counters().too_long;
    require(counted == 1, Behaviour::LongFrames, || format!("one frame was too long, {counted} are counted"))
}

fn long_frames_out(bed: &mut Bed) -> Checked {
    let Some(most) = bed.abilities.sent_bytes_max else { return Ok(()) };
    let long = (most as usize + 1).min(FRAME_BYTES_MAX as usize);
    let frames = bed.make([SHORT_BYTES, long, SHORT_BYTES, long]);
    bed.send_all(OWN, frames).map_err(about_long_frames)
}

/// Blames long frames for what a queue misses at the first frame that does not fit.
fn about_long_frames(missed: Missed) -> Missed {
    let Missed(behaviour, why) = missed;
    match behaviour {
        Behaviour::AnyBurst | Behaviour::FullDevice | Behaviour::CountersTrue | Behaviour::NothingLost => {
            Missed(Behaviour::LongFrames, format!("beside a frame that does not fit: {why}"))
        }
        _ => Missed(behaviour, why),
    }
}

fn tending_alone(bed: &mut Bed) -> Checked {
    for _ in 0..50 {
        bed.tend()?;
    }
    bed.offer()?;
    for _ in 0..50 {
        bed.tend()?;
    }
    let frames = bed.make([SHORT_BYTES; 7]);
    bed.send(OWN, frames)?;
    for _ in 0..50 {
        bed.tend()?;
    }
    Ok(())
}

/// A worker finds nothing, rests, and looks when the bell has rung.
fn after_a_rest(bed: &mut Bed) -> Checked {
    for _ in 0..bed.abilities.patience {
        if bed.receive(OWN, BURST_MAX)? == 0 {
            break;
        }
        bed.give_all(OWN);
    }
    bed.offer()?;
    let has_rung = hear(bed);
    let count = bed.receive(OWN, BURST_MAX)?;
    bed.give_all(OWN);
    let unheard = || format!("{count} packets came, and its bell had not rung");
    require(count == 0 || has_rung, Behaviour::BellRings, unheard)
}

fn after_the_end(bed: &mut Bed) -> Checked {
    bed.finish()?;
    let ends = matches!(bed.abilities.gives, Gives::Nothing | Gives::Supply { ends: true });
    let goes_on = || "it gives nothing any more and does not say so".to_owned();
    require(!ends || bed.is_finished(), Behaviour::FinishedForGood, goes_on)?;
    for _ in 0..20 {
        bed.receive(OWN, BURST_MAX)?;
        bed.tend()?;
    }
    // It still sends.
    let frames = bed.make([SHORT_BYTES; 3]);
    bed.send_all(OWN, frames)
}

fn two_regions(bed: &mut Bed) -> Checked {
    bed.require_own_region()?;
    if !bed.is_anywhere() {
        return Ok(());
    }
    for round in 0..40 {
        let on = round % 2;
        bed.offer()?;
        bed.receive(on, 1 + round % 5)?;
        bed.give_all(on);
        let frames = bed.make([SHORT_BYTES; 3]);
        bed.send(on, frames)?;
        bed.tend()?;
        bed.take_left();
    }
    Ok(())
}

/// Whatever comes in what order: all that must hold is asked after each call.
fn at_random(bed: &mut Bed) -> Checked {
    // Our choice: any seed will do, as long as it is always the same.
    let mut random = Random::new(42, 0);
    for _ in 0..1_500 {
        let count = random.below(BURST_MAX as u32 + 1) as usize;
        match random.below(8) {
            0 | 1 => {
                bed.offer()?;
                bed.receive(OWN, count)?;
            }
            2 | 3 => {
                bed.forward(OWN, count)?;
            }
            4 => {
                let frames = bed.make((0..count).map(length));
                bed.send(OWN, frames)?;
            }
            5 => bed.give_all(OWN),
            6 => bed.take_left(),
            _ => bed.tend()?,
        }
        // The queue may hold buffers for as long as it likes, so some are left to it.
        if bed.free() < BURST_MAX {
            bed.give_all(OWN);
            bed.make_room(OWN)?;
        }
    }
    Ok(())
}
