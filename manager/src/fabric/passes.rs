//! The passes of a worker, and what it does between two of them.

use std::time::Duration;

use headgate_config::IdleWorker;
use headgate_config::model::Config;
use headgate_decide::units::Ticks;
use headgate_host::clock::now_cycles;
use headgate_path::resident::Residents;
use headgate_path::worker::{Pass, Worker};

/// Passes without work after which a worker that shares its core, or has no port, sleeps. Our choice: some
/// microseconds, so that a short gap in the traffic costs no sleep.
const IDLE_PASSES: u32 = 32;
/// Length of a sleep of a worker that shares its core. NFs of its core run meanwhile; well below the 4 ms
/// tick.
const IDLE_SLEEP: Duration = Duration::from_micros(50);
/// Length of a sleep of a worker in a manager without ports, which gets only commands. Our choice: 200 checks
/// a second cost nothing.
const NO_PORT_SLEEP: Duration = Duration::from_millis(5);

/// What a worker does between two passes, so that others of its core run.
#[derive(Clone, Copy)]
pub enum Idle {
    /// Nothing.
    Spin,
    /// It yields after a pass without packets. A core of three such workers answers within 30 us, where
    /// spinning ones take their 4 ms each.
    Yield,
    /// It yields after each pass, and after [`IDLE_PASSES`] without packets sleeps that long.
    Sleep(Duration),
}

impl Idle {
    /// Returns what a worker does that shares its core with NFs, or does not.
    pub fn of(config: &Config, shares_core: bool) -> Self {
        match config.manager.idle {
            _ if config.ports.is_empty() => Self::Sleep(NO_PORT_SLEEP),
            _ if shares_core => Self::Sleep(IDLE_SLEEP),
            IdleWorker::Yield => Self::Yield,
            IdleWorker::Spin => Self::Spin,
        }
    }
}

/// Makes passes until the worker is told to stop.
pub fn run(mut worker: Worker, when_idle: Idle) {
    let (mut idle, mut residents) = (0, Residents::default());
    loop {
        match worker.pass_with(Ticks(now_cycles()), &mut residents) {
            Pass::Stopped => return,
            Pass::Busy => idle = 0,
            Pass::Idle => idle += 1,
        }
        match when_idle {
            Idle::Sleep(rest) if idle > IDLE_PASSES => std::thread::sleep(rest),
            Idle::Sleep(_) => std::thread::yield_now(),
            Idle::Yield if idle > 0 => std::thread::yield_now(),
            Idle::Spin if idle > 0 => std::hint::spin_loop(),
            _ => {}
        }
    }
}
