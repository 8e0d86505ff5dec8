//! Answers to requests.

use std::sync::mpsc::Sender;

use headgate_api::logs::Logs;
use headgate_path::worker::Command;

use super::{Control, origin};
use crate::api::{Answer, Asked, Request, RequestError};

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
                Asked::Event { code, what } => self.log(code, "manager", what),
            }
        }
    }

    /// Answers at once, or keeps `reply` for later.
    fn answer(&mut self, request: Request, reply: &Sender<Answer>) -> Option<Answer> {
        match request {
            Request::Snapshot { audit } => Some(value(self.snapshot(audit))),
            Request::Flows { most } => Some(value(self.flows(most))),
            Request::Explain { packet } => Some(self.explain(&packet).and_then(value)),
            Request::Logs { nf, .. } => Some(self.no_output_of(&nf)),
            Request::Tell { nf, body } => self.pass_on(&nf, &body, reply).err().map(Err),
            Request::Measure { on } => {
                self.measured |= on;
                self.fabric.post_all(|| Command::Measure(on));
                Some(value(()))
            }
            Request::Apply { name, text } => self.begin_change(&name, &text, reply.clone()).err().map(Err),
            Request::Stop => {
                self.stoppers.push(reply.clone());
                self.begin_stop();
                None
            }
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
            Some(_) => value(Logs::default()),
            None => Err(self.no_such_nf(name)),
        }
    }

    fn no_such_nf(&self, name: &str) -> RequestError {
        let names: Vec<&str> = self.config.nfs.iter().map(|nf| nf.name.as_str()).collect();
        RequestError::failed(format!("there is no NF named {name:?}; there are: {}", names.join(", ")))
    }
}

fn value<T: serde::Serialize>(value: T) -> Answer {
    serde_json::to_value(value).map_err(|error| RequestError::failed(error.to_string()))
}
