//! Answers to requests.

use std::sync::mpsc::Sender;

use headgate_api::logs::Logs;
use headgate_path::worker::Command;

use super::watchers::needs_a_stream;
use super::{Control, Source, origin};
use crate::api::{Answer, Asked, Request, RequestError, answer};
use crate::config::suggest;
use crate::status::EventCode;

impl Control {
    /// Reads requests, and answers those that can be answered at once.
    pub(super) fn read_requests(&mut self) {
        let mut pokes = [0; 64];
        while matches!(std::io::Read::read(&mut &self.inbox.poked, &mut pokes), Ok(count) if count > 0) {}
        while let Ok(asked) = self.inbox.asked.try_recv() {
            match asked {
                Asked::Request { request, reply } => {
                    if let Some(answer) = self.answer(request, &reply) {
                        // The client may have closed its connection.
                        let _ = reply.send(answer);
                    }
                }
                Asked::Watch { request, reply } => {
                    let _ = reply.send(self.begin_watch(&request));
                }
                Asked::Event { code, who, what } => self.log(code, &who, what),
                Asked::Alone => self.set_up_machine(),
                Asked::Group(group, news) => self.on_group_news(group, *news),
                Asked::Store(store) => self.steering.store = Some(*store),
            }
        }
    }

    /// Answers at once, or keeps `reply` for later.
    fn answer(&mut self, request: Request, reply: &Sender<Answer>) -> Option<Answer> {
        match request {
            Request::Snapshot { audit } => Some(answer(&self.snapshot(audit))),
            Request::Cluster => Some(answer(&self.cluster_status())),
            Request::Flows { most } => Some(answer(&self.flows(most))),
            Request::Explain { packet } => Some(self.explain(&packet).and_then(|told| answer(&told))),
            Request::Logs { nf, .. } => Some(self.no_output_of(&nf)),
            Request::Tell { nf, body } => self.pass_on(&nf, &body, reply).err().map(Err),
            Request::Measure { on } => {
                self.measured |= on;
                self.fabric.post_all(|| Command::Measure(on));
                Some(answer(&()))
            }
            Request::Upgrade { .. } => Some(self.may_hand_over()),
            Request::NotFollowed { why } => {
                let what = format!("the manager that was to follow does not: {why}");
                self.log(EventCode::HandOverFailed, "manager", what);
                Some(answer(&()))
            }
            Request::HandOver { socket, version } => Some(self.begin_hand_over(&socket, version)),
            Request::Apply { name, text } => {
                self.begin_change(Source { name, text, edited: false }, reply.clone()).err().map(Err)
            }
            Request::Diff { name, text } => Some(self.diff(&name, &text).and_then(|told| answer(&told))),
            Request::Configuration => Some(self.running_configuration().and_then(|told| answer(&told))),
            Request::Rules => Some(answer(&self.rules_status())),
            Request::AddRule { rule, place } => self.add_rule(&rule, place, reply.clone()).err().map(Err),
            Request::DeleteRule { place } => self.delete_rule(place, reply.clone()).err().map(Err),
            Request::Restart { nf } => self.begin_restart(&nf, reply.clone()).err().map(Err),
            Request::Drain { nf } => self.begin_departure(&nf, reply.clone()).err().map(Err),
            Request::FailOver { group } => self.hand_group_over(&group, None, reply),
            Request::Migrate { group, to } => self.hand_group_over(&group, Some(&to), reply),
            Request::Warn { within_ms } => Some(self.warn_node(within_ms)),
            Request::Capture(_) | Request::Trace(_) | Request::Observe(_) => Some(Err(needs_a_stream())),
            Request::Stop => self.stop_for(reply),
        }
    }

    /// Begins to stop. The end is the answer.
    fn stop_for(&mut self, reply: &Sender<Answer>) -> Option<Answer> {
        self.stoppers.push(reply.clone());
        self.begin_stop();
        None
    }

    /// Makes the settings of the machine that wait until the manager before has undone its own.
    fn set_up_machine(&mut self) {
        for why in self.ledger.set_up(&self.config.scheduler) {
            self.log(EventCode::SchedulingLimited, "manager", why.clone());
            self.refused.push(why);
        }
    }

    /// Passes a message of an operator on to all instances of an NF. Their answers are the answer.
    fn pass_on(&mut self, nf: &str, body: &str, reply: &Sender<Answer>) -> Result<(), RequestError> {
        let number = self.questions.next_number();
        let asked = self.with_instances(|instances, _, effects| instances.pass_on(nf, body, number, effects));
        let asked = asked.ok_or_else(|| self.no_such_nf(nf))?;
        self.questions.ask(self.now(), asked, reply.clone());
        Ok(())
    }

    /// Answers about the output of an NF of which no process was started here.
    fn no_output_of(&self, name: &str) -> Answer {
        let mut here = self.instances.iter().filter(|one| one.seat.nf.name == name || one.seat.name == name);
        match here.next() {
            Some(one) if !origin::writes_to_us(&one.seat.nf) => Err(RequestError::failed(format!(
                "nf {name:?} attaches: it writes where the process that started it said; look there"
            ))),
            Some(_) => answer(&Logs::default()),
            None => Err(self.no_such_nf(name)),
        }
    }

    pub(super) fn no_such_nf(&self, name: &str) -> RequestError {
        let names = self.config.nfs.iter().map(|nf| nf.name.as_str());
        let help = suggest::help("NFs", name, names);
        RequestError::failed(format!("there is no NF named {name:?}; {help}"))
    }
}
