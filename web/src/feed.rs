//! Snapshots and events as they come, for all who watch: the manager is asked once a second for all of them,
//! and not at all while nobody watches.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use headgate_api::event::Event;
use headgate_api::progress::Events;
use tokio::sync::broadcast::{Receiver, Sender};
use tokio::time::sleep;

use crate::manager::{Fresh, Manager};
use crate::problem::Problem;

/// Time between two snapshots. Our choice: what a person follows.
const EVERY: Duration = Duration::from_secs(1);
/// Snapshots kept for a slow reader. Our choice: an old one is of no use.
const SNAPSHOTS_KEPT: usize = 2;
/// Events kept for a slow reader, and for one that comes later. Our choice: as many as the manager keeps.
const EVENTS_KEPT: usize = 256;

/// An event, with its number among those of this server.
pub type Numbered = (u64, Event);
/// Something to watch, or the reason why there is none now.
pub type News<T> = Result<T, Problem>;

/// What those who watch are sent.
#[derive(Debug)]
pub struct Feed {
    snapshots: Sender<News<Arc<Fresh>>>,
    events: Sender<News<Numbered>>,
    recent: Mutex<Recent>,
}

/// Events so far.
#[derive(Debug, Default)]
struct Recent {
    events: VecDeque<Numbered>,
    told: Events,
    /// Process of the manager that told them.
    pid: u32,
    next: u64,
    /// Whether it was said that the manager does not answer.
    is_silent: bool,
}

impl Default for Feed {
    fn default() -> Self {
        let recent = Mutex::default();
        Self { snapshots: Sender::new(SNAPSHOTS_KEPT), events: Sender::new(EVENTS_KEPT), recent }
    }
}

impl Feed {
    /// Returns where snapshots come.
    pub fn snapshots(&self) -> Receiver<News<Arc<Fresh>>> {
        self.snapshots.subscribe()
    }

    /// Returns the last events, and where more come.
    pub fn events(&self) -> (VecDeque<Numbered>, Receiver<News<Numbered>>) {
        let recent = self.recent();
        (recent.events.clone(), self.events.subscribe())
    }

    /// Asks the manager for those who watch, for ever.
    pub async fn run(&self, manager: &Manager) {
        loop {
            sleep(EVERY).await;
            if self.snapshots.receiver_count() + self.events.receiver_count() > 0 {
                self.pass_on(manager.snapshot().await);
            }
        }
    }

    /// Notes and passes on events of a snapshot that was had for another reason.
    pub fn note(&self, fresh: &Fresh) {
        self.tell(&mut self.recent(), fresh);
    }

    /// Passes on what the manager answered. Nobody may be there to receive it any more.
    pub fn pass_on(&self, outcome: News<Arc<Fresh>>) {
        let mut recent = self.recent();
        match &outcome {
            Ok(fresh) => {
                recent.is_silent = false;
                self.tell(&mut recent, fresh);
            }
            // Once, and not each second.
            Err(_) if recent.is_silent => return,
            Err(problem) => {
                recent.is_silent = true;
                let _ = self.events.send(Err(problem.clone()));
            }
        }
        let _ = self.snapshots.send(outcome);
    }

    fn tell(&self, recent: &mut Recent, fresh: &Fresh) {
        for event in recent.note(fresh) {
            let _ = self.events.send(Ok(event));
        }
    }

    fn recent(&self) -> MutexGuard<'_, Recent> {
        self.recent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Recent {
    /// Notes the events of a snapshot, and returns the new ones.
    fn note(&mut self, fresh: &Fresh) -> Vec<Numbered> {
        let pid = fresh.snapshot.manager.pid;
        if pid != self.pid {
            // Its clock began anew.
            (self.pid, self.told) = (pid, Events::default());
        }
        let mut new = Vec::new();
        for event in self.told.new_in(&fresh.snapshot) {
            new.push((self.next, event.clone()));
            self.next += 1;
        }
        self.events.extend(new.iter().cloned());
        let excess = self.events.len().saturating_sub(EVENTS_KEPT);
        self.events.drain(..excess);
        new
    }
}
