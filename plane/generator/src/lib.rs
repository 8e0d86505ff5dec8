//! Synthetic traffic.
//!
//! - `spec`: what can be asked for;
//! - `check`: what cannot, and why;
//! - `schedule`: how many packets are due;
//! - `flows`: which flow is next;
//! - `sizes`: how long its packet is;
//! - `template`: the packet, and `line`: the packet where it has to be made fast;
//! - [`stamp`]: what tells it apart;
//! - `queue`: all of it, in turn.
//!
//! The generator behaves like a network card whose sender does not care for the receiver: packets are
//! due at their rate whether asked for or not, a backlog as long as a card's ring waits for a late
//! worker or for free buffers, and what goes beyond it is lost and counted as `missed`. So offered
//! traffic is `received + missed`. Without a rate, whatever is asked for is given.
//!
//! The flows of a generator with several queues are dealt to them in turn (flow `n` to queue
//! `n mod queues`), rates and counts with them.
//!
//! All checksums are right.
//!
//! [`null`] is the other end: a port that takes everything and measures what it takes by the stamps.

mod check;
mod flows;
mod line;
pub mod null;
mod queue;
mod schedule;
mod sizes;
mod spec;
pub mod stamp;
mod template;

pub use spec::{
    CHECK_SEQUENCE_BYTES, Class, FLOWS_MAX, FRAME_BYTES_MIN, GeneratorSpec, Load, RATE_MAX, Rate, RateStep,
    Selection, Sizes, Transport,
};

use headgate_port::{Queue, Setting, SpecErrors};

/// Makes the queues of a generator.
///
/// # Errors
/// [`SpecErrors`] with everything that is wrong with `spec`.
pub fn open(spec: &GeneratorSpec, setting: &Setting<'_>) -> Result<Vec<Box<dyn Queue>>, SpecErrors> {
    let errors = spec.errors(setting.frame_bytes_max);
    if !errors.is_empty() {
        return Err(SpecErrors { port: setting.name.to_owned(), errors });
    }
    let queue = |number| Box::new(queue::GeneratorQueue::new(spec, setting, number)) as Box<dyn Queue>;
    Ok((0..u32::from(setting.queues)).map(queue).collect())
}

#[cfg(test)]
mod tests;
