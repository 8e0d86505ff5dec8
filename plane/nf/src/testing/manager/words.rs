//! What an NF says to the manager that a test plays.

use headgate_session::message::{self, FromNf, MessageError};

use super::{Manager, wait_readable};

impl Manager {
    /// The next word from the NF; `None` when it closed the connection.
    pub(super) fn hear_one(&self) -> Option<FromNf> {
        wait_readable(&self.socket);
        match message::receive::<FromNf>(&self.socket) {
            Ok(received) => received.map(|(word, _)| word),
            Err(MessageError::Closed) => None,
            Err(error) => panic!("from the NF: {error}"),
        }
    }

    pub(super) fn note(&mut self, word: FromNf) {
        match word {
            FromNf::Message { body } => self.heard.push_back(body),
            FromNf::Answer { number, body, refused } => {
                self.answers.push_back((number, if refused { Err(body) } else { Ok(body) }));
            }
            FromNf::Counters { names } => self.counters = names,
            FromNf::Goodbye { reason, refused } => (self.goodbye, self.refused) = (Some(reason), refused),
            FromNf::Seated { .. } | FromNf::Hello { .. } | FromNf::Ready { .. } => {
                panic!("{word:?} where it is not expected")
            }
        }
    }
}
