//! Messages of operators on their way to the NFs of a process, and the answers.

use headgate_session::message::{self, FromNf, MESSAGE_BYTES_MAX, MessageError};

use crate::context::{Environment, Outbox};
use crate::fuse::Fused;

/// Gives the NFs a message. One with a number is answered: with what the NF told while it handled it, or with
/// why it refused. A manager from before there were answers gives no number.
pub(crate) fn deliver(nfs: &mut Fused, environment: &Environment, number: Option<u64>, body: &str) {
    let Some(number) = number else {
        if let Err(error) = nfs.message(body) {
            let answer = serde_json::json!({ "error": error.to_string() });
            // A manager that does not read its mail misses this one too.
            let _ = environment.tell(answer.to_string());
        }
        return;
    };
    environment.begin_answer();
    let handled = nfs.message(body);
    let told = environment.end_answer();
    let (body, refused) = handled.map_or_else(|error| (error.to_string(), true), |()| (told, false));
    answer(environment, number, body, refused);
}

fn answer(environment: &Environment, number: u64, body: String, refused: bool) {
    let Outbox::Manager(socket) = &environment.outbox else { return };
    let bytes = body.len();
    if let Err(MessageError::Garbled(_)) =
        message::send(socket, &FromNf::Answer { number, body, refused }, &[])
    {
        let why = format!(
            "its answer of {bytes} bytes is longer than the {MESSAGE_BYTES_MAX} that a message may have with \
             its wrapping"
        );
        // As above: what a manager does not read, it misses.
        let _ = message::send(socket, &FromNf::Answer { number, body: why, refused: true }, &[]);
    }
}
