//! The passes of a worker, and what it does between two of them.

use std::io;
use std::num::NonZeroU64;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use headgate_config::IdleWorker;
use headgate_config::model::Config;
use headgate_decide::rest::Rest;
use headgate_decide::units::{Span, Ticks};
use headgate_host::clock::now_cycles;
use headgate_path::resident::Residents;
use headgate_path::worker::{Mailbox, Pass, Worker};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::net::sockopt::socket_error;
use rustix::thread::set_current_timer_slack;

/// Length of a sleep of a worker that shares its core. NFs of its core run meanwhile; well below the 4 ms
/// tick.
const SHARED_REST: Span = Span::from_micros(50);

/// What a worker does between two passes, so that others of its core run.
#[derive(Clone, Copy)]
pub enum Idle {
    /// Nothing.
    Spin,
    /// It rests when it finds nothing to do.
    Rest(Rest),
    /// It yields after each pass, and rests when it finds nothing to do.
    Share(Rest),
}

impl Idle {
    /// Returns what a worker does that shares its core with NFs, or does not.
    pub fn of(config: &Config, shares_core: bool) -> Self {
        match config.manager.idle {
            _ if config.ports.is_empty() => Self::Rest(Rest::UntilCalled),
            IdleWorker::Sleep if shares_core => Self::Share(Rest::UntilCalled),
            IdleWorker::Sleep => Self::Rest(Rest::UntilCalled),
            _ if shares_core => Self::Share(Rest::Deaf(SHARED_REST)),
            IdleWorker::Yield => Self::Rest(Rest::Short),
            IdleWorker::Spin => Self::Spin,
        }
    }
}

/// Makes a mailbox with a bell, so that a worker that rests hears of commands.
pub fn mailbox() -> io::Result<Arc<Mailbox>> {
    Ok(Arc::new(Mailbox::with_bell(bell()?)))
}

fn bell() -> io::Result<OwnedFd> {
    Ok(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?)
}

/// Makes passes until the worker is told to stop.
pub fn run(mut worker: Worker, when_idle: Idle) {
    if let Idle::Rest(_) = when_idle {
        // The kernel wakes others up to 50 us late, to spare a wake-up; of one that may not be told it does.
        let _ = set_current_timer_slack(NonZeroU64::new(1));
    }
    let (mut idle, mut residents) = (0_u32, Residents::default());
    loop {
        match worker.pass_with(Ticks(now_cycles()), &mut residents) {
            Pass::Stopped => return,
            Pass::Busy => idle = 0,
            Pass::Idle => idle = idle.saturating_add(1),
        }
        match when_idle {
            Idle::Rest(rest) | Idle::Share(rest) if idle >= rest.looks() => take_rest(&worker, rest, idle),
            Idle::Share(_) => std::thread::yield_now(),
            Idle::Spin if idle > 0 => std::hint::spin_loop(),
            _ => {}
        }
    }
}

/// Sleeps until something rings, or it is time to look.
fn take_rest(worker: &Worker, rest: Rest, passes: u32) {
    let mut bells = Vec::new();
    let hear = |bell| bells.push(PollFd::from_borrowed_fd(bell, PollFlags::IN));
    let span = Duration::from_nanos(rest.length(passes, || worker.listen(hear)).0);
    if wait(&mut bells, span) == Rang::Nothing {
        std::thread::sleep(span);
    }
}

/// What a wait ended with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rang {
    /// A bell, or the time was over.
    Something,
    /// No bell is left that could ring.
    Nothing,
}

/// Waits for a bell. One with an error and nothing to tell, as of an interface that was switched off, would
/// ring without end: the error is taken from it, and this time it is left out.
fn wait(bells: &mut Vec<PollFd>, span: Duration) -> Rang {
    let Ok(most) = Timespec::try_from(span) else { return Rang::Nothing };
    while !bells.is_empty() {
        let Ok(_) = poll(bells, Some(&most)) else { return Rang::Nothing };
        let is_broken = |bell: &PollFd| {
            let told = bell.revents();
            !told.is_empty() && !told.contains(PollFlags::IN)
        };
        if !bells.iter().any(is_broken) {
            return Rang::Something;
        }
        let broken = bells.extract_if(.., |bell| is_broken(bell));
        // What is no socket keeps its error: it is left out every time.
        for bell in broken {
            let _ = socket_error(bell);
        }
    }
    Rang::Nothing
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd as _;
    use std::os::unix::net::UnixStream;

    use super::*;

    const BRIEFLY: Duration = Duration::from_millis(1);

    fn bells<const COUNT: usize>(files: [&OwnedFd; COUNT]) -> Vec<PollFd<'_>> {
        files.map(|file| PollFd::from_borrowed_fd(file.as_fd(), PollFlags::IN)).into()
    }

    #[test]
    fn a_bell_that_only_has_an_error_does_not_ring() {
        let [(gone, other), (silent, _open)] = [(); 2].map(|()| rustix::pipe::pipe().unwrap());
        // Where nobody can write any more, poll(2) says so for ever.
        drop(other);
        assert_eq!(wait(&mut bells([&gone]), BRIEFLY), Rang::Nothing);
        assert_eq!(wait(&mut bells([&gone, &silent]), BRIEFLY), Rang::Something);
    }

    #[test]
    fn a_command_is_heard() {
        let bell = bell().unwrap();
        rustix::io::write(&bell, &1_u64.to_ne_bytes()).unwrap();
        assert_eq!(wait(&mut bells([&bell]), Duration::from_secs(3600)), Rang::Something);
    }

    #[test]
    fn a_file_that_can_be_read_rings_although_its_other_end_is_closed() {
        let (here, there) = UnixStream::pair().unwrap();
        rustix::io::write(&there, b"x").unwrap();
        drop(there);
        let here = OwnedFd::from(here);
        assert_eq!(wait(&mut bells([&here]), Duration::from_secs(3600)), Rang::Something);
    }
}
