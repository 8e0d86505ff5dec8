//! Measurement of the price of a switch, with two threads in place of NFs.
//!
//! It is taken with what switches NFs later: the scheduler's thread sleeps on its timer (from another core it
//! polls the clock), lowers the priority of one that spins and raises that of another. The price is the time
//! from the moment at which it is to wake until the other one runs. [`headgate_decide::slice::price`] decides
//! what to make of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use headgate_decide::slice::pace::Seat;
use headgate_decide::slice::price::{Pricing, ROUND, ROUNDS};
use headgate_decide::units::Span;
use headgate_host::clock::Clock;
use headgate_host::{Pid, cores, sched};

use super::core::{RUNNING, WAITING};

/// Maximum time until a thread runs for the first time. Our choice: some slices of the kernel's, on a core on
/// which NFs start.
const PATIENCE: Duration = Duration::from_millis(30);

/// State that the measuring thread shares with both stand-ins.
#[derive(Default)]
struct Shared {
    /// Number of the round; the stand-in that is to run in it is this modulo two.
    round: AtomicU64,
    /// Round that was seen last by the one that was to run in it, and the clock when it saw it.
    seen: AtomicU64,
    seen_ns: AtomicU64,
    is_over: AtomicBool,
}

/// Thread in place of an NF.
struct StandIn {
    task: Pid,
    begin: SyncSender<()>,
    thread: JoinHandle<()>,
}

impl StandIn {
    fn start(shared: &Arc<Shared>, clock: Clock, core: u32, number: u64) -> Result<Self, String> {
        let (tell, told) = sync_channel(1);
        let (begin, begins) = sync_channel(1);
        let theirs = shared.clone();
        let thread = std::thread::Builder::new().name(format!("hg-switch-{core}"));
        let thread = thread.spawn(move || {
            // First the priority: on a core full of NFs a thread without one waits for its turn.
            let ready = sched::raise(None, WAITING).map_err(|error| error.to_string());
            let ready =
                ready.and_then(|()| cores::pin_current_thread(core).map_err(|error| error.to_string()));
            let is_ready = ready.is_ok();
            let _ = tell.send(ready.map(|()| rustix::thread::gettid()));
            if is_ready {
                spin(&theirs, clock, number, &begins);
            }
        });
        let thread = thread.map_err(|error| format!("no thread to switch to: {error}"))?;
        match told.recv_timeout(PATIENCE) {
            Ok(task) => Ok(Self { task: task?, begin, thread }),
            // It ends by itself when it comes to run.
            Err(_) => Err(format!("core {core} is busy with other programs")),
        }
    }
}

/// Runs in the rounds of this number, until the end.
fn spin(shared: &Shared, clock: Clock, number: u64, begins: &Receiver<()>) {
    if begins.recv().is_err() {
        return;
    }
    let mut last = 0;
    while !shared.is_over.load(Ordering::Relaxed) {
        let round = shared.round.load(Ordering::Relaxed);
        if round != last && round % 2 == number {
            last = round;
            shared.seen_ns.store(clock.now_ns(), Ordering::Relaxed);
            shared.seen.store(round, Ordering::Release); // S-release, with S-acquire
        }
        std::hint::spin_loop();
    }
}

/// Measures what a switch of the NFs of `core` costs a scheduler that sits there, which is to call it.
///
/// # Errors
/// The reason why it cannot be measured, in a sentence.
pub fn measure(clock: Clock, seat: Seat, core: u32) -> Result<Span, String> {
    let shared = Arc::new(Shared::default());
    // The first one's channel is dropped, and it ends, when the second cannot be had.
    let both = [StandIn::start(&shared, clock, core, 0)?, StandIn::start(&shared, clock, core, 1)?];
    for one in &both {
        let _ = one.begin.send(());
    }
    let measured = measure_with(&shared, clock, seat, &both);
    shared.is_over.store(true, Ordering::Relaxed);
    for StandIn { thread, .. } in both {
        let _ = thread.join();
    }
    measured
}

fn measure_with(shared: &Shared, clock: Clock, seat: Seat, both: &[StandIn; 2]) -> Result<Span, String> {
    let (mut pricing, mut round) = (Pricing::default(), 0);
    loop {
        let mut batch = Vec::with_capacity(ROUNDS);
        for _ in 0..ROUNDS {
            round += 1;
            batch.push(one_round(shared, clock, seat, both, round)?);
        }
        if !pricing.needs_more(&mut batch) {
            return pricing.price().ok_or_else(|| "no switch was seen".to_owned());
        }
    }
}

/// Lets one run for a round, switches to the other, and returns how long that took.
fn one_round(
    shared: &Shared,
    clock: Clock,
    seat: Seat,
    both: &[StandIn; 2],
    round: u64,
) -> Result<Span, String> {
    let due = clock.now_ns() + ROUND.0;
    wait(clock, seat, due);
    let (from, to) = (&both[((round + 1) % 2) as usize], &both[(round % 2) as usize]);
    shared.round.store(round, Ordering::Relaxed);
    for (task, priority) in [(from.task, WAITING), (to.task, RUNNING)] {
        sched::raise(Some(task), priority).map_err(|error| error.to_string())?;
    }
    wait(clock, seat, clock.now_ns() + ROUND.0);
    let ran = shared.seen.load(Ordering::Acquire) == round; // S-acquire, with S-release
    let took = shared.seen_ns.load(Ordering::Relaxed).saturating_sub(due);
    Ok(if ran { Span(took) } else { ROUND })
}

fn wait(clock: Clock, seat: Seat, until: u64) {
    match seat {
        Seat::OwnCore => clock.sleep_until(until),
        Seat::OtherCore { .. } => {
            while clock.now_ns() < until {
                std::hint::spin_loop();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_core_that_is_not_there_is_said_and_nothing_waits() {
        let why = measure(Clock::calibrate(), Seat::OwnCore, 60_000).unwrap_err();
        assert!(why.contains("there is no core 60000"), "{why}");
    }

    #[test]
    fn a_switch_of_this_machine_has_a_price_where_it_may_be_measured() {
        let core = cores::allowed().unwrap().as_slice()[0];
        let measured = std::thread::spawn(move || {
            cores::pin_current_thread(core).unwrap();
            sched::raise(None, super::super::core::SCHEDULER).map_err(|error| error.to_string())?;
            measure(Clock::calibrate(), Seat::OwnCore, core)
        });
        match measured.join().unwrap() {
            Ok(price) => assert!(price > Span::ZERO && price <= ROUND, "{price:?}"),
            Err(why) => assert!(!why.is_empty()),
        }
    }
}
