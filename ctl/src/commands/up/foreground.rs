//! The manager in this process.

use std::sync::Arc;
use std::time::{Duration, Instant};

use headgate_host::notify::Notifier;
use headgate_host::signals;
use headgate_host::undo::{Action, Janitor};
use headgate_manager::api::Handle;
use headgate_manager::status::Snapshot;
use headgate_manager::{Manager, Options, config, device_folder, machine, place};

use super::Args;
use super::detach;
use crate::failure::{Exit, Failure};
use crate::output::{Output, harmless};
use crate::progress::{self, Events};
use crate::shipped::Shipped;
use crate::stop::Stop;
use crate::units;
use crate::view;

/// Time between two looks at whether the manager has ended by itself.
const END_LOOK: Duration = Duration::from_millis(50);
/// Time between two reports of events.
const EVENTS_EVERY: Duration = Duration::from_secs(1);

/// Runs it.
pub fn run(args: &Args, out: &Output) -> Result<Exit, Failure> {
    let began = Instant::now();
    let wish = signals::catch()?;
    // Before anything that has threads.
    let janitor = Arc::new(Janitor::start()?);
    if args.detached {
        detach::leave_session();
    }
    let notifier = Notifier::from_environment()?;
    let shipped = Shipped::find()?;
    let loaded = config::load(&args.file, &shipped.catalog, &machine())?;
    out.narrate(&loaded.warnings);
    let name = loaded.config.manager.name.clone();
    let stop = Stop::watch(wish, *out)?;
    let options = Options {
        nf_program: shipped.program,
        catalog: shipped.catalog,
        listen: true,
        nf_output: !args.detached || detach::has_log(),
        once: args.once,
        costs: Some(headgate_manager::costs::folder()),
        janitor: Some(janitor.clone()),
    };
    janitor.register(Action::RemoveDirectory { path: device_folder() })?;
    let manager = Manager::start(loaded.config, options)?;
    // Only now are they ours and not those of a manager that was there before.
    let files = vec![place::api_socket(&name), place::nf_socket(&name)];
    let files = janitor.register(Action::RemoveUnlocked { lock: place::lock_file(&name), files })?;
    let mut run =
        Run { out, detached: args.detached, notifier, events: Events::default(), handle: manager.handle() };
    run.tell_of_start(&name, &stop, began)?;
    if args.detached {
        detach::say_ready(&name);
    }
    run.serve(&manager, &stop)?;
    // The manager removes them in order; afterwards they may be those of the next manager. Asked once more
    // meanwhile, we do.
    stop.owns(place::files(&name));
    janitor.withdraw(files)?;
    let last = run.end(manager, &stop)?;
    stop.owns(Vec::new());
    // The manager has ended and let go of it.
    Arc::into_inner(janitor).map_or(Ok(()), Janitor::finish)?;
    if !args.detached {
        out.document(&last)?;
        out.text(view::totals(&last, out.data_paint))?;
    }
    Ok(verdict(&last, out))
}

/// A capture that could not be written is a failure although every packet is accounted for.
fn verdict(last: &Snapshot, out: &Output) -> Exit {
    let mut verdict = view::verdict(last);
    for port in last.ports.iter().filter(|port| port.kind == "pcap" && port.failed > 0) {
        out.note(format!(
            "port {}: {} packets could not be written: {}; make room and run again",
            port.name,
            units::whole(port.failed),
            harmless(&port.detail)
        ));
        if verdict == Exit::Ok {
            verdict = Exit::Failed;
        }
    }
    verdict
}

/// A manager at work, as the person at the terminal sees it.
struct Run<'a> {
    out: &'a Output,
    detached: bool,
    notifier: Notifier,
    events: Events,
    handle: Handle,
}

impl Run<'_> {
    /// Says what was started, and that it is ready.
    fn tell_of_start(&mut self, name: &str, stop: &Stop, began: Instant) -> Result<(), Failure> {
        let now = progress::settled(&self.handle, stop)?;
        for line in progress::started(&now) {
            self.out.note(line);
        }
        self.events.seen(&now);
        let status = progress::readiness(&now);
        let took = units::time(began.elapsed().as_nanos() as u64);
        self.out.note(format!("manager {name}: {status} after {took}"));
        if !self.detached {
            self.out.note(format!("`headgate status --name {name}` looks at it, Ctrl-C stops it"));
        }
        self.notifier.status(&status)?;
        self.notifier.ready()?;
        Ok(())
    }

    /// Says what happens until it is time to stop.
    fn serve(&mut self, manager: &Manager, stop: &Stop) -> Result<(), Failure> {
        let mut told = Instant::now();
        while !manager.has_ended() && !stop.wait(END_LOOK) {
            if told.elapsed() < EVENTS_EVERY {
                continue;
            }
            told = Instant::now();
            // A manager that ends just now says so in the next round.
            let Ok(now) = progress::look(&self.handle) else { continue };
            if self.tell_events(&now) {
                self.notifier.status(&progress::readiness(&now))?;
            }
        }
        Ok(())
    }

    fn end(&mut self, manager: Manager, stop: &Stop) -> Result<Snapshot, Failure> {
        // Whoever started us may be gone; the end goes on all the same.
        let _ = self.notifier.stopping();
        if stop.is_asked() {
            self.out.note("stopping; asked once more it ends at once");
        }
        let last = manager.stop()?;
        self.tell_events(&last);
        Ok(last)
    }

    /// True if there were any.
    fn tell_events(&mut self, now: &Snapshot) -> bool {
        let lines = self.events.unseen(now);
        for line in &lines {
            self.out.note(line);
        }
        !lines.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use headgate_manager::status::PortStatus;

    #[test]
    fn a_capture_that_could_not_be_written_is_a_failure() {
        let out = Output::of_process(true);
        let port = |kind: &str, failed| PortStatus { kind: kind.into(), failed, ..PortStatus::default() };
        let of = |port| {
            verdict(&Snapshot { ports: vec![port], conserved: Some(true), ..Snapshot::default() }, &out)
        };
        assert_eq!(of(port("pcap", 0)), Exit::Ok);
        assert_eq!(of(port("pcap", 3)), Exit::Failed);
        assert_eq!(of(port("dpdk", 3)), Exit::Ok);
    }
}
