//! The daemon, attended until it ends. It tells by itself, on the standard error that it shares with us, what
//! was started and what happens.

use std::time::{Duration, Instant};

use headgate_api::daemon::{Daemon, Handle};
use headgate_api::progress;
use headgate_host::notify::Notifier;
use headgate_host::signals::{self, Hangups};

use super::Args;
use crate::error::{CommandError, Exit};
use crate::output::Output;
use crate::stop::Stop;
use crate::view;

/// Time between two checks whether the daemon has ended by itself.
const END_CHECK_EVERY: Duration = Duration::from_millis(50);
/// Time between two lines for the service manager.
const STATUS_EVERY: Duration = Duration::from_secs(1);

/// Runs it.
pub fn run(args: &Args, out: &Output) -> Result<Exit, CommandError> {
    let wish = signals::catch()?;
    let service = Service { notifier: Notifier::from_environment()?, status: String::new() };
    let mut hangups = Hangups::take_apart();
    let stop = Stop::watch(wish, *out)?;
    let mut daemon = Daemon::spawn(args.options()?)?;
    stop.attends(&daemon);
    let name = daemon.ready(|| stop.is_asked() || hangups.are_of_terminal())?.name;
    out.note(format!("`headgate status --name {name}` shows its state, Ctrl-C stops it"));
    service.attend(&daemon, &stop, &mut hangups)?;
    if stop.is_asked() {
        out.note("stopping; asked once more it ends at once");
    }
    let ended = daemon.stop()?;
    out.document(&ended.last)?;
    out.text(view::totals(&ended.last, out.data_paint))?;
    Ok(ended.exit)
}

/// The service manager that started us, if one did. The daemon is none of its own, so we tell it what it
/// wants to know.
struct Service {
    notifier: Notifier,
    status: String,
}

impl Service {
    /// Says that the daemon is ready and how it is, until it is time to stop.
    fn attend(mut self, daemon: &Daemon, stop: &Stop, hangups: &mut Hangups) -> Result<(), CommandError> {
        let handle = daemon.handle();
        self.tell_status(&handle)?;
        self.notifier.ready()?;
        let mut told = Instant::now();
        while !daemon.has_ended() && !stop.wait(END_CHECK_EVERY) && !hangups.are_of_terminal() {
            if hangups.take() {
                // One that ends just now reads nothing any more.
                let _ = daemon.reload();
            }
            if told.elapsed() >= STATUS_EVERY {
                told = Instant::now();
                self.tell_status(&handle)?;
            }
        }
        // The process that started us may be gone; the end goes on all the same.
        let _ = self.notifier.stopping();
        Ok(())
    }

    fn tell_status(&mut self, handle: &Handle) -> Result<(), CommandError> {
        if !self.notifier.is_listened_to() {
            return Ok(());
        }
        // A daemon that ends just now is seen to be at its end soon.
        let Ok(now) = handle.sample() else { return Ok(()) };
        let status = progress::readiness(&now);
        if status != self.status {
            self.notifier.status(&status)?;
            self.status = status;
        }
        Ok(())
    }
}
