//! What happens when.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use headgate_host::undo::{Action, Janitor};
use headgate_host::{Pid, Signal};
use headgate_manager::api::Handle;
use headgate_manager::config;
use headgate_manager::status::{NfState, NfStatus, Snapshot};
use headgate_manager::{Manager, Options, device_folder, machine, place};

use super::panel::Panel;
use super::scene::{Scene, VICTIM};
use super::summary::{Killed, Summary};
use super::traffic;
use crate::failure::Failure;
use crate::output::Output;
use crate::progress;
use crate::shipped::Shipped;
use crate::stop::Stop;
use crate::units;
use crate::view::Interval;

/// The part of the time after which an NF is killed. Our choice: iperf3 is in full swing then.
const KILL_AT: f64 = 0.35;
/// Time the manager gets at the end, of the hosts' traffic.
const TAIL: Duration = Duration::from_secs(2);
const SECOND: Duration = Duration::from_secs(1);
/// Time between two looks at whether the killed NF is back.
const BACK_LOOK: Duration = Duration::from_micros(200);
/// How long it may take. Our choice: a hundred times what it takes.
const BACK_PATIENCE: Duration = Duration::from_secs(1);

/// A performance.
pub struct Play<'a> {
    /// The streams.
    pub out: &'a Output,
    /// Whether to stop early.
    pub stop: &'a Stop,
    /// Who removes the manager's socket.
    pub janitor: &'a Arc<Janitor>,
    /// The NFs.
    pub shipped: &'a Shipped,
    /// How long.
    pub seconds: u64,
}

impl Play<'_> {
    /// Starts a manager, lets the scene play, stops it, and sums up.
    pub fn perform(&self, scene: &Scene) -> Result<Summary, Failure> {
        let name = format!("demo-{}", std::process::id());
        let manager = self.start(&name, &scene.configuration(&name))?;
        let handle = manager.handle();
        let ready = progress::settled(&handle, self.stop)?;
        for line in progress::started(&ready) {
            self.out.note(line);
        }
        self.out.note(format!("look at it from another terminal with `headgate status --name {name}`"));
        let transfers = Mutex::new(Vec::new());
        let doing = Mutex::new("generated packets only".to_owned());
        let enough = AtomicBool::new(false);
        let killed = thread::scope(|scope| {
            if let Scene::Hosts(hosts) = scene {
                let stage = traffic::Stage { hosts, enough: &enough, doing: &doing, done: &transfers };
                let budget = Duration::from_secs(self.seconds).saturating_sub(TAIL);
                scope.spawn(move || traffic::run(&stage, budget));
            }
            let watched = self.watch(&handle, &ready, &doing);
            enough.store(true, Ordering::Relaxed);
            watched
        })?;
        let last = manager.stop()?;
        let transfers = transfers.into_inner().unwrap_or_else(PoisonError::into_inner);
        Ok(Summary::new(scene.has_hosts(), transfers, killed, self.stop.is_asked(), last))
    }

    fn start(&self, name: &str, text: &str) -> Result<Manager, Failure> {
        let config = config::parse("demo", text, &self.shipped.catalog, &machine())?.config;
        self.leave_no_trace(name)?;
        let options = Options {
            nf_program: self.shipped.program.clone(),
            catalog: self.shipped.catalog.clone(),
            listen: true,
            nf_output: false,
            once: false,
            costs: None,
            janitor: Some(self.janitor.clone()),
        };
        Ok(Manager::start(config, options)?)
    }

    /// Has removed what a crash would leave. All of it carries this process's number, so it is nobody
    /// else's; folders that others use too are not empty and stay.
    fn leave_no_trace(&self, name: &str) -> Result<(), Failure> {
        let (socket, devices) = (place::api_socket(name), device_folder());
        let folders = [socket.parent(), devices.parent(), Some(&devices)].into_iter().flatten();
        let files = [place::lock_file(name), socket.clone()];
        let folders = folders.map(|path| Action::RemoveDirectory { path: path.into() });
        let files = files.map(|path| Action::RemoveFile { path });
        for action in folders.chain(files) {
            self.janitor.register(action)?;
        }
        Ok(())
    }

    /// Shows every second, and kills an NF in one of them.
    fn watch(
        &self,
        handle: &Handle,
        ready: &Snapshot,
        doing: &Mutex<String>,
    ) -> Result<Option<Killed>, Failure> {
        let mut panel = Panel::new(self.out);
        let mut events = progress::Events::default();
        events.seen(ready);
        let (mut before, mut killed) = (ready.clone(), None);
        let began = Instant::now();
        let kill_at = (self.seconds as f64 * KILL_AT).round() as u64;
        for second in 1..=self.seconds {
            if self.stop.wait((SECOND * second as u32).saturating_sub(began.elapsed())) {
                break;
            }
            let now = progress::look(handle)?;
            let doing = doing.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let title = format!("{second} s of {}: {doing}", self.seconds);
            panel.show(&title, Interval::between(&before, &now));
            for line in events.unseen(&now) {
                panel.say(&line);
            }
            if second == kill_at {
                killed = self.kill(handle, &mut panel)?;
            }
            before = now;
        }
        Ok(killed)
    }

    /// Kills the monitor, and waits until it is back.
    fn kill(&self, handle: &Handle, panel: &mut Panel<'_>) -> Result<Option<Killed>, Failure> {
        let before = progress::look(handle)?;
        let Some(pid) = victim(&before).and_then(|nf| nf.pid) else { return Ok(None) };
        let Some(process) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return Ok(None) };
        panel.say(&format!("kill -9 {pid}: {VICTIM} dies; its packets pass it by until it is back"));
        if let Err(error) = rustix::process::kill_process(process, Signal::KILL) {
            panel.say(&format!("{VICTIM} cannot be killed: {error}"));
            return Ok(None);
        }
        let began = Instant::now();
        let is_back = |nf: &NfStatus| nf.state == NfState::Running && nf.pid.is_some_and(|new| new != pid);
        while began.elapsed() < BACK_PATIENCE {
            let now = progress::look(handle)?;
            if victim(&now).is_some_and(is_back) {
                let killed = Killed::back(&before, &now, began.elapsed());
                panel.say(&format!(
                    "{VICTIM} is back after {}; {} packets got through meanwhile",
                    units::time(killed.back_after_ns.unwrap_or(0)),
                    units::whole(killed.passed_meanwhile)
                ));
                return Ok(Some(killed));
            }
            thread::sleep(BACK_LOOK);
        }
        panel.say(&format!("{VICTIM} is not back"));
        Ok(Some(Killed::not_back()))
    }
}

fn victim(now: &Snapshot) -> Option<&NfStatus> {
    now.nfs.iter().find(|nf| nf.nf == VICTIM)
}
