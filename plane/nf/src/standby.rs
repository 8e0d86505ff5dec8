//! Standby: a process that is ready, and asleep, beside the one that works for its instance.
//!
//! It has rings of its own and the same state region, to which it writes nothing. When the other has died,
//! the worker gives it the packets that did not come back, and orders it to go: it undoes what was done for
//! them, and works.

use std::rc::Rc;

use headgate_session::attach::Attached;
use headgate_session::message::{MessageError, ToNf};
use headgate_shm::doorbell;

use crate::burst_loop::{End, LoopError, PATIENCE, ended, replace_state};
use crate::state::core::Core;

/// End of a standby's wait.
pub(crate) enum Waited {
    /// It is the instance's process from now on.
    Goes {
        /// Number of packets that it works on one by one.
        alone: u32,
        /// Messages that came before it began, with their numbers.
        messages: Vec<(Option<u64>, String)>,
    },
    /// It is not needed any more.
    Ended(End),
}

/// Goes on with other state, if some came; keeps the messages that came meanwhile.
fn heed_mail(
    attached: &Attached,
    state: &Rc<Core>,
    messages: &mut Vec<(Option<u64>, String)>,
) -> Result<(), LoopError> {
    loop {
        match attached.hear_with_files() {
            Ok(Some((ToNf::State, files))) => replace_state(attached, Some(state), files)?,
            Ok(Some((ToNf::Message { body, number }, _))) => messages.push((number, body)),
            Ok(Some(_)) | Err(MessageError::Garbled(_)) => {} // Not for a standby.
            Ok(None) | Err(MessageError::Closed) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
    }
}

/// Waits until the process is to go, and takes the state over.
pub(crate) fn wait(attached: &Attached, state: &Rc<Core>) -> Result<Waited, LoopError> {
    let (orders, word) = (attached.side.orders(), attached.side.doorbell());
    let mut messages = Vec::new();
    loop {
        let goes = orders.promoted();
        // Other state was given before the order to go was, if it is that which it goes on with.
        heed_mail(attached, state, &mut messages)?;
        if let Some((base, alone)) = goes {
            state.take_over(base, &attached.region)?;
            return Ok(Waited::Goes { alone, messages });
        }
        if let Some(end) = ended(attached) {
            return Ok(Waited::Ended(end));
        }
        if attached.is_closed() {
            return Err(LoopError::ManagerGone);
        }
        doorbell::announce(word);
        if orders.promoted().is_none() && ended(attached).is_none() {
            doorbell::sleep(word, PATIENCE);
        }
        doorbell::withdraw(word);
    }
}
