//! What this node does with the file that the store holds for all: it looks at what is proposed, and goes by
//! what is in force.
//!
//! The manager is asked in a thread of its own: it may take long, and leases have to be renewed meanwhile.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError, channel};

use headgate_api::configuration::RunningConfiguration;
use headgate_api::request::{Applied as Changes, Request, RequestError};
use headgate_config::Config;
use headgate_decide::units::{Instant, Span};

use crate::keys::{Applied, Keys, Spec, Step, View};
use crate::manager::Manager;
use crate::store::{Store, StoreError};
use crate::text;

/// Times that a manager is asked to go by a file which it does not refuse for what the file says. Our choice:
/// another change may be under way.
const TRIES: u32 = 3;
/// Time between two of them.
const AGAIN_AFTER: Span = Span::from_secs(2);
/// Exit code of a request whose configuration is refused: it is refused the next time, too.
const REFUSED: u8 = 4;

/// Problem of a node that has another file than all.
const ALONE: &str =
    "the node was given another file alone; `headgate cluster apply` gives all of them the same again";

/// A question to the manager that is under way.
struct Asked {
    spec: Spec,
    step: Step,
    text: String,
    answer: Receiver<Result<Changes, RequestError>>,
}

/// A node's memory of what it was told to go by.
#[derive(Default)]
pub struct Follower {
    asked: Option<Asked>,
    /// Highest revision that was looked at, and that it goes by or said why not.
    checked: u64,
    applied: u64,
    tries: u32,
    due: Instant,
    /// What it says, to be in the store as long as the node is.
    said: Option<Applied>,
}

/// What follows from a look at the store.
#[derive(Debug, Default)]
pub struct Followed {
    /// What the store is to have from this node.
    pub say: Option<Applied>,
    /// The configuration that the manager goes by from now on.
    pub config: Option<Box<Config>>,
}

impl Follower {
    /// Looks at what is proposed and in force; `digest` is that of the file that the manager goes by.
    pub fn poll(
        &mut self,
        now: Instant,
        (node, digest): (&str, &str),
        view: &View,
        (store, keys): (&mut Store, &Keys),
        manager: &Arc<dyn Manager>,
    ) -> Result<Followed, StoreError> {
        let mut followed = Followed::default();
        match self.asked.take().map(|asked| (asked.answer.try_recv(), asked)) {
            None => self.judge(digest, view),
            Some((Err(TryRecvError::Empty), asked)) => self.asked = Some(asked),
            Some((answer, asked)) => {
                let broken = |_| RequestError {
                    code: 1,
                    message: "the thread that asked the manager has ended".to_owned(),
                };
                let answer = answer.map_err(broken).flatten();
                followed.config = self.on_answer(now, asked, answer, manager);
            }
        }
        if self.asked.is_none()
            && self.due.is_due(now)
            && let Some((spec, step)) = self.next(view)
        {
            self.begin(spec, step, digest, (store, keys), manager)?;
        }
        followed.say =
            self.said.clone().filter(|said| view.applied.get(node).is_none_or(|known| known.value != *said));
        Ok(followed)
    }

    /// Notes whether the manager still goes by the file in force: it may be given another one alone.
    fn judge(&mut self, digest: &str, view: &View) {
        let Some(spec) = view.spec.as_ref().map(|known| &known.value) else { return };
        let said = self.said.as_mut().filter(|said| said.step == Step::Applied);
        let Some(said) = said.filter(|said| said.revision == spec.revision) else { return };
        match &said.problem {
            None if spec.digest != digest => said.problem = Some(ALONE.to_owned()),
            Some(problem) if problem == ALONE && spec.digest == digest => said.problem = None,
            _ => {}
        }
    }

    /// Returns what is to be done next: what is in force comes before what is only proposed.
    fn next(&self, view: &View) -> Option<(Spec, Step)> {
        let spec = view.spec.as_ref().filter(|known| known.value.revision > self.applied);
        let proposal = view.proposal.as_ref().filter(|known| known.value.revision > self.checked);
        let apply = spec.map(|known| (known.value.clone(), Step::Applied));
        apply.or_else(|| proposal.map(|known| (known.value.clone(), Step::Checked)))
    }

    fn begin(
        &mut self,
        spec: Spec,
        step: Step,
        digest: &str,
        (store, keys): (&mut Store, &Keys),
        manager: &Arc<dyn Manager>,
    ) -> Result<(), StoreError> {
        if step == Step::Applied && spec.digest == digest {
            self.say(&spec, step, Vec::new(), None);
            return Ok(());
        }
        let text = match text::read(store, keys, &spec)? {
            Ok(text) => text,
            Err(why) => {
                self.say(&spec, step, Vec::new(), Some(why));
                return Ok(());
            }
        };
        let (tell, answer) = channel();
        let (asks, of_file) = (manager.clone(), text.clone());
        let ask = move || {
            // Nobody hears it where the agent has ended.
            let _ = tell.send(ask(&*asks, step, of_file));
        };
        match std::thread::Builder::new().name("hg-agent-ask".to_owned()).spawn(ask) {
            Ok(_) => self.asked = Some(Asked { spec, step, text, answer }),
            Err(error) => {
                self.say(&spec, step, Vec::new(), Some(format!("no thread could be started: {error}")));
            }
        }
        Ok(())
    }

    fn on_answer(
        &mut self,
        now: Instant,
        Asked { spec, step, text, .. }: Asked,
        answer: Result<Changes, RequestError>,
        manager: &Arc<dyn Manager>,
    ) -> Option<Box<Config>> {
        match answer {
            Ok(changes) => {
                self.say(&spec, step, changes.changes, None);
                (step == Step::Applied).then(|| manager.read(&text)).flatten().map(Box::new)
            }
            Err(error) if error.code != REFUSED && step == Step::Applied && self.tries + 1 < TRIES => {
                self.tries += 1;
                self.due = now + AGAIN_AFTER;
                None
            }
            Err(error) => {
                self.say(&spec, step, Vec::new(), Some(error.message));
                None
            }
        }
    }

    /// Has it said of a file how far this node is with it.
    fn say(&mut self, spec: &Spec, step: Step, changes: Vec<String>, problem: Option<String>) {
        let revision = spec.revision;
        match step {
            Step::Checked => self.checked = revision,
            Step::Applied => (self.applied, self.tries) = (revision, 0),
        }
        self.said = Some(Applied { revision, step, changes, problem });
    }
}

/// Asks a manager what would change by a text, or to go by it.
fn ask(manager: &dyn Manager, step: Step, text: String) -> Result<Changes, RequestError> {
    let running = manager.ask(Request::Configuration)?;
    let broken = |error: serde_json::Error| RequestError { code: 1, message: error.to_string() };
    // Relative paths lead from where this node has its own file.
    let RunningConfiguration { name, .. } = serde_json::from_str(running.get()).map_err(broken)?;
    let request = match step {
        Step::Checked => Request::Diff { name, text },
        Step::Applied => Request::Apply { name, text },
    };
    serde_json::from_str(manager.ask(request)?.get()).map_err(broken)
}
