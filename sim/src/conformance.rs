//! Conformance: scripts for parts that exist twice, on the machine and in the model. A script drives a part
//! by its trait and returns what was seen, in lines; the two of a kind must show the same.
//!
//! The real ones are those of `plane/shm` (ring, doorbell), `plane/nf` (the loop of an NF) and the kernel
//! (groups that share a core, the clock): `plane/nf/tests/conformance.rs` runs these scripts with them.
//! Nothing in a script asks how long something took, but for shares and the clock, which are compared
//! within a bound.

use core::fmt::Write as _;

use crate::nf::BURST;
use crate::scene::Waits;

mod models;

pub use models::{ModelClock, ModelNf, ModelRing, ModelShares};

/// A ring of a size: packets go in at one end and come out at the other.
pub trait RingPart {
    /// Puts packets in. Returns how many found room.
    fn push(&mut self, packets: u32) -> u32;
    /// Takes out so many at most. Returns how many there were.
    fn pop(&mut self, most: u32) -> u32;
    /// Number of packets in it.
    fn waiting(&mut self) -> u32;
}

/// A doorbell: how a sleeper and a caller find each other.
pub trait BellPart {
    /// The sleeper is about to sleep.
    fn announce(&mut self);
    /// The sleeper does not sleep after all, or no longer.
    fn withdraw(&mut self);
    /// Whether a caller sees a sleeper.
    fn is_sleeping(&mut self) -> bool;
    /// A caller calls. Returns whether somebody has to be woken for it.
    fn take(&mut self) -> bool;
}

/// Orders to an NF.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// It is blocked, or no longer.
    Blocked(bool),
    /// It must yield after a time slice of so many packets; 0: it need not.
    Yield(u32),
}

/// The loop of an NF that returns each packet as it came.
pub trait LoopPart {
    /// Puts packets into its ring, and calls it if it sleeps.
    fn deliver(&mut self, packets: u32);
    /// Calls it if it sleeps.
    fn call(&mut self);
    /// Gives it an order.
    fn order(&mut self, order: Order);
    /// Waits until it sleeps or, if it never does and is not blocked, has returned everything.
    fn settle(&mut self);
    /// Packets that it returned, ever.
    fn returned(&mut self) -> u64;
    /// Whether it sleeps.
    fn is_asleep(&mut self) -> bool;
}

/// A core that tasks share which never give it up, each in a group of its own.
pub trait SharesPart {
    /// Runs tasks of these weights for some time. Returns the part of the core that each had, in percent.
    fn parts(&mut self, weights: &[u32]) -> Vec<f64>;
}

/// A clock.
pub trait ClockPart {
    /// Returns what it shows, in nanoseconds.
    fn now_ns(&mut self) -> u64;
    /// Lets so many nanoseconds pass, or more.
    fn wait(&mut self, ns: u64);
}

/// Size of the ring that [`ring`] asks for.
pub const RING: u32 = 256;

/// Drives a ring of [`RING`] places. Returns what was seen.
pub fn ring(part: &mut dyn RingPart) -> String {
    let mut text = String::new();
    let steps: [(&str, u32); 12] = [
        ("pop", 1),
        ("push", 10),
        ("pop", 4),
        ("push", 300),
        ("push", 1),
        ("pop", 0),
        ("pop", 256),
        ("pop", 256),
        ("push", 256),
        ("pop", 255),
        ("push", 255),
        ("pop", 1_000),
    ];
    for (step, packets) in steps {
        let moved = if step == "push" { part.push(packets) } else { part.pop(packets) };
        let _ = writeln!(text, "{step} {packets}: {moved}, {} wait", part.waiting());
    }
    // Many times round, in amounts that divide nothing.
    let (mut put, mut taken) = (0u64, 0u64);
    for round in 0..5_000u32 {
        put += u64::from(part.push(1 + round * 7 % 97));
        taken += u64::from(part.pop(1 + round * 11 % 89));
    }
    let _ = writeln!(text, "round and round: {put} in, {taken} out, {} wait", part.waiting());
    text
}

/// Drives a doorbell. Returns what was seen.
pub fn bell(part: &mut dyn BellPart) -> String {
    let mut text = String::new();
    let mut see = |what: &str, part: &mut dyn BellPart, takes: bool| {
        let (sleeping, woken) = (part.is_sleeping(), takes && part.take());
        let _ =
            writeln!(text, "{what}: sleeping {sleeping}, to be woken {woken}, then {}", part.is_sleeping());
    };
    part.withdraw();
    see("awake", part, true);
    part.announce();
    see("announced", part, false);
    see("called", part, true);
    see("called again", part, true);
    part.withdraw();
    see("woken", part, true);
    part.announce();
    part.withdraw();
    see("thought better of it", part, true);
    text
}

/// Drives the loop of an NF that waits in some way. Returns what was seen.
pub fn nf_loop(part: &mut dyn LoopPart, waits: Waits) -> String {
    let mut text = String::new();
    let mut see = |what: &str, part: &mut dyn LoopPart| {
        part.settle();
        let (returned, asleep) = (part.returned(), part.is_asleep());
        let _ = writeln!(text, "{what}: returned {returned}, asleep {asleep}");
    };
    see("started", part);
    part.deliver(10);
    see("10 came", part);
    part.order(Order::Blocked(true));
    see("blocked", part);
    part.deliver(20);
    see("20 came while it was blocked", part);
    part.order(Order::Blocked(false));
    part.call();
    see("blocked no longer", part);
    if waits == Waits::Notified {
        part.order(Order::Yield(BURST));
        part.deliver(200);
        see("200 came, and it must yield after a burst", part);
        part.call();
        see("called for the next", part);
        part.order(Order::Yield(BURST + 1));
        part.call();
        see("called for more than a burst", part);
        part.order(Order::Yield(0));
        part.deliver(50);
        see("it need not yield", part);
    }
    text
}

/// Weights that [`shares`] has tasks run with.
const WEIGHTS: [&[u32]; 4] = [&[100, 100], &[100, 300], &[100, 200, 400], &[1_000, 100]];

/// Has tasks share a core, by some sets of weights. Returns the part of each, in percent, set by set.
pub fn shares(part: &mut dyn SharesPart) -> Vec<Vec<f64>> {
    WEIGHTS.iter().map(|weights| part.parts(weights)).collect()
}

/// Reads a clock again and again. Returns what is wrong with it.
pub fn clock(part: &mut dyn ClockPart) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut last = part.now_ns();
    for ns in [0, 1, 1_000, 50_000, 1_000_000, 0, 10_000_000] {
        part.wait(ns);
        let now = part.now_ns();
        if now < last {
            wrong.push(format!("it went back from {last} to {now}"));
        }
        if now.saturating_sub(last) < ns {
            wrong.push(format!("{ns} ns passed, and it shows {}", now.saturating_sub(last)));
        }
        last = now;
    }
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_models_parts_do_what_a_pencil_says() {
        let ring = ring(&mut ModelRing::default());
        assert!(ring.contains("push 300: 250, 256 wait\npush 1: 0, 256 wait\n"), "{ring}");
        let bell = bell(&mut ModelNf::new(Waits::Notified));
        assert!(bell.contains("called: sleeping true, to be woken true, then false"), "{bell}");
        assert!(bell.contains("called again: sleeping false, to be woken false"), "{bell}");
        assert_eq!(clock(&mut ModelClock::default()), [] as [String; 0]);
        for (weights, parts) in WEIGHTS.iter().zip(shares(&mut ModelShares)) {
            let all: u32 = weights.iter().sum();
            for (weight, part) in weights.iter().zip(parts) {
                let due = 100.0 * f64::from(*weight) / f64::from(all);
                assert!((part - due).abs() < 2.0, "{weights:?}: {part} {due}");
            }
        }
    }

    #[test]
    fn the_models_loop_heeds_its_orders_in_every_way_of_waiting() {
        let of = |waits| nf_loop(&mut ModelNf::new(waits), waits);
        let notified = of(Waits::Notified);
        for wanted in [
            "20 came while it was blocked: returned 10, asleep true",
            "200 came, and it must yield after a burst: returned 94, asleep true",
            "called for more than a burst: returned 230, asleep true",
            "it need not yield: returned 280, asleep true",
        ] {
            assert!(notified.contains(wanted), "{notified}");
        }
        for waits in [Waits::Polling, Waits::Cooperative { yield_after: 2 }] {
            let seen = of(waits);
            assert!(seen.contains("20 came while it was blocked: returned 10, asleep true"), "{seen}");
            assert!(seen.contains("blocked no longer: returned 30, asleep false"), "{seen}");
        }
    }
}
