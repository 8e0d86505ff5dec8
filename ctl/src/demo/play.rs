//! Schedule of the demo.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use headgate_api::attendance::Text;
use headgate_api::daemon::{Configuration, Daemon, Handle, Options};
use headgate_api::progress;
use headgate_api::status::{NfState, NfStatus, Snapshot};
use headgate_host::{Pid, Signal};
use headgate_units::text as units;

use super::intro::{Intro, Pen};
use super::panel::Panel;
use super::scene::{Scene, VICTIM};
use super::summary::{Killed, Second, Summary, Watched};
use super::traffic;
use crate::error::CommandError;
use crate::output::Output;
use crate::stop::Stop;
use crate::view::Interval;

/// The part of the time after which an NF is killed. Our choice: iperf3 is in full swing then.
const KILL_AT: f64 = 0.35;
/// Time the manager gets at the end, of the hosts' traffic.
const TAIL: Duration = Duration::from_secs(2);
const SECOND: Duration = Duration::from_secs(1);
/// Time between two checks whether the killed NF is back.
const BACK_POLL: Duration = Duration::from_micros(200);
/// Longest time for a killed NF to be back. Our choice: a hundred times what it takes.
const BACK_PATIENCE: Duration = Duration::from_secs(1);

/// A performance.
pub struct Play<'a> {
    /// The streams.
    pub out: &'a Output,
    /// Whether to stop early.
    pub stop: &'a Stop,
    /// The daemon's.
    pub program: &'a Path,
    /// Length in seconds.
    pub seconds: u64,
}

impl Play<'_> {
    /// Starts a daemon, lets the scene play, stops it, and sums up.
    pub fn perform(&self, scene: &Scene) -> Result<Summary, CommandError> {
        let name = format!("demo-{}", std::process::id());
        let daemon = self.start(scene.configuration(&name))?;
        if self.stop.is_asked() {
            let last = daemon.stop()?.last;
            return Ok(Summary::new(scene.has_hosts(), Vec::new(), Watched::default(), true, last));
        }
        let handle = daemon.handle();
        let ready = handle.sample()?;
        self.introduce(scene, &ready, &name);
        let transfers = Mutex::new(Vec::new());
        let doing =
            if scene.has_hosts() { "generated packets only" } else { "capture and generated packets" };
        let doing = Mutex::new(doing.to_owned());
        let enough = AtomicBool::new(false);
        let watched = thread::scope(|scope| {
            if let Scene::Hosts(hosts) = scene {
                let stage = traffic::Stage { hosts, enough: &enough, doing: &doing, done: &transfers };
                let budget = Duration::from_secs(self.seconds).saturating_sub(TAIL);
                scope.spawn(move || traffic::run(&stage, budget));
            }
            let watched = self.watch(&handle, &ready, &doing);
            enough.store(true, Ordering::Relaxed);
            watched
        })?;
        let last = daemon.stop()?.last;
        let transfers = transfers.into_inner().unwrap_or_else(PoisonError::into_inner);
        Ok(Summary::new(scene.has_hosts(), transfers, watched, self.stop.is_asked(), last))
    }

    /// Draws what is there, and says what this machine does not give it.
    fn introduce(&self, scene: &Scene, ready: &Snapshot, name: &str) {
        let intro = Intro { ready, hosts: scene.has_hosts(), seconds: self.seconds, kill_at: self.kill_at() };
        self.out.narrate(intro.render(Pen::of_locale(), self.out.note_paint));
        let limitations = &ready.scheduler.limitations;
        for why in limitations.iter().filter(|why| !is_told_again(why, limitations)) {
            self.out.note(format!("scheduler {}: {why}", ready.scheduler.mode));
        }
        let ready = progress::readiness(ready);
        self.out.note(format!("{ready}; in another terminal: headgate status --name {name}"));
        self.out.narrate("\n");
    }

    fn kill_at(&self) -> u64 {
        (self.seconds as f64 * KILL_AT).round() as u64
    }

    fn start(&self, text: String) -> Result<Daemon, CommandError> {
        let configuration = Configuration::Text(Text { name: "demo".to_owned(), text });
        let options = Options::new(self.program.to_owned(), configuration);
        // What happens is told beside the panel.
        let mut daemon = Daemon::spawn(Options { quiet: true, costs: false, ..options })?;
        self.stop.attends(&daemon);
        daemon.ready(|| self.stop.is_asked())?;
        Ok(daemon)
    }

    /// Shows every second, and kills an NF in one of them.
    fn watch(
        &self,
        handle: &Handle,
        ready: &Snapshot,
        doing: &Mutex<String>,
    ) -> Result<Watched, CommandError> {
        let mut panel = Panel::new(self.out);
        let mut events = progress::Events::default();
        events.seen(ready);
        let (mut before, mut seen) = (ready.clone(), Watched::default());
        let began = Instant::now();
        let kill_at = self.kill_at();
        for second in 1..=self.seconds {
            if self.stop.wait((SECOND * second as u32).saturating_sub(began.elapsed())) {
                break;
            }
            let now = handle.sample()?;
            let doing = doing.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let title = format!("{second} s of {}: {doing}", self.seconds);
            let interval = Interval::between(&before, &now);
            panel.show(&title, interval);
            seen.held_by_others =
                now.nfs.iter().map(|nf| interval.held_by_others(nf.core)).fold(seen.held_by_others, f64::max);
            seen.seconds.push(second_of(interval));
            for line in events.unseen(&now) {
                panel.say(&line);
            }
            if second == kill_at {
                seen.killed = self.kill(handle, &mut panel)?;
            }
            before = now;
        }
        Ok(seen)
    }

    /// Kills the monitor, and waits until it is back.
    fn kill(&self, handle: &Handle, panel: &mut Panel<'_>) -> Result<Option<Killed>, CommandError> {
        let before = handle.sample()?;
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
            let now = handle.sample()?;
            if victim(&now).is_some_and(is_back) {
                let killed = Killed::back(&before, &now, began.elapsed());
                panel.say(&format!(
                    "{VICTIM} is back after {}; {} packets got through meanwhile",
                    units::time(killed.back_after_ns.unwrap_or(0)),
                    units::whole(killed.passed_meanwhile)
                ));
                return Ok(Some(killed));
            }
            thread::sleep(BACK_POLL);
        }
        panel.say(&format!("{VICTIM} is not back"));
        Ok(Some(Killed::not_back()))
    }
}

/// Returns whether another limitation says what this one says before its reason.
fn is_told_again(why: &str, all: &[String]) -> bool {
    let what = why.split(": ").next().unwrap_or(why);
    all.iter().any(|other| other != why && other.contains(what))
}

/// Returns what the report has of a second.
fn second_of(interval: Interval<'_>) -> Second {
    let after = interval.after;
    let chains = after.chains.iter().filter(|chain| !chain.stages.is_empty());
    Second {
        at: after.at_ns as f64 / 1e9,
        chains: chains.map(|chain| (chain.name.clone(), interval.chain(chain).left)).collect(),
        nfs: after.nfs.iter().map(|nf| (nf.instance.clone(), 100.0 * interval.nf(nf).cpu)).collect(),
    }
}

fn victim(now: &Snapshot) -> Option<&NfStatus> {
    now.nfs.iter().find(|nf| nf.nf == VICTIM)
}
