//! What `capture`, `trace` and `observe` share: a stream of a manager, a filter, an end.

use std::thread;
use std::time::Duration;

use headgate_api::client::{self, Watched};
use headgate_api::watch::{End, EndReason, Filter, NICE};
use headgate_api::{Exit, Request};
use headgate_host::filter::FilterError;
use headgate_host::signals;

use crate::error::CommandError;
use crate::output::Output;

/// Asks for a stream. The first Ctrl-C ends it in order, so that what was on its way comes; the second at
/// once.
pub fn begin(name: &str, request: &Request) -> Result<Watched, CommandError> {
    let wish = signals::catch()?;
    // What is watched is not to be slowed down by who writes it; where it is refused, it is as it was.
    let _ = rustix::process::setpriority_process(None, NICE);
    let watched = client::watch(name, request)?;
    let enough = watched.enough()?;
    let wait = move || {
        let more_than =
            |known| std::iter::repeat_with(|| wish.wait(known, None)).find(|count| *count > known);
        let asked = more_than(0).unwrap_or_default();
        enough.say();
        more_than(asked);
        signals::exit_at_once(Exit::Failed as i32);
    };
    let thread = thread::Builder::new().name("hg-enough".to_owned()).spawn(wait);
    thread.map_err(|error| CommandError::environment(format!("no thread could be started: {error}")))?;
    Ok(watched)
}

/// Compiles a filter, if there is one.
pub fn filter(words: &[String]) -> Result<Option<Filter>, CommandError> {
    let text = words.join(" ");
    if text.trim().is_empty() {
        return Ok(None);
    }
    match Filter::compile(&text) {
        Ok(filter) => Ok(Some(filter)),
        Err(error @ FilterError::NoLibrary) => Err(CommandError::environment(error)),
        Err(error) => Err(CommandError::usage(error.to_string())),
    }
}

/// Reads a number of seconds.
pub fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| format!("{text:?} is no number of seconds"))?;
    match Duration::try_from_secs_f64(seconds) {
        Ok(duration) if duration.as_millis() > 0 => Ok(duration),
        _ => Err(format!("{text} s: more than 0 is meant, and less than for ever")),
    }
}

/// Returns a time as a request has it.
pub fn milliseconds(duration: Option<Duration>) -> Option<u64> {
    duration.map(|duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
}

/// Says why a stream ended, where that is no news the user asked for, and what is not in it.
pub fn tell_end(end: &End, what: &str, out: &Output) {
    match end.reason {
        EndReason::Closed | EndReason::Count | EndReason::Time => {}
        EndReason::Removed => out.note("ended: the chain or its stage was removed"),
        EndReason::ManagerStops => out.note("ended: the manager stops"),
    }
    let missed = end.missed;
    out.note(format!("{} {what}", end.packets));
    if missed.unseen_packets > 0 {
        out.note(format!(
            "{} packets passed stations unseen: looking at packets may take only a small part of a worker's time, so \
             that the chain is not slowed down",
            missed.unseen_packets
        ));
    }
    if missed.lost_packets > 0 {
        out.note(format!(
            "{} copies found no room: they were written or read more slowly than they came",
            missed.lost_packets
        ));
    }
    if missed.lines > 0 {
        out.note(format!("{} lines were left out: more than are told in a second", missed.lines));
    }
}

/// The manager ended without a last line.
pub fn gone() -> CommandError {
    let why =
        "the manager ended this without its last line: it is gone, or this command took nothing for a minute";
    CommandError::new(Exit::Failed, format!("{why}; what came before is whole"))
}
