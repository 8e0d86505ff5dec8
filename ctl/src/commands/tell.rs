//! `headgate tell`: a message to an NF, and its answer.

use clap_complete::engine::ArgValueCandidates;
use headgate_api::told::{NfAnswer, Outcome, Told};
use headgate_api::{self as api, Request};
use headgate_units::text::harmless;

use super::Name;
use crate::error::{CommandError, Exit};
use crate::names;
use crate::output::Output;

/// Send a message to all instances of an NF and print their answers
///
/// Messages are defined by each NF; `headgate-nfs list` shows those of the shipped NFs.
/// Exits with code 1 when an instance refuses or gives no answer within 5 s.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Name of the NF in the configuration
    #[arg(add = ArgValueCandidates::new(names::nfs))]
    nf: String,
    /// Message, by convention JSON
    body: String,
    #[command(flatten)]
    name: Name,
}

/// Runs it.
pub fn run(args: &Args, out: &Output) -> Result<Exit, CommandError> {
    let request = Request::Tell { nf: args.nf.clone(), body: args.body.clone() };
    let told: Told = api::call(&args.name.name, &request)?;
    if told.told == 0 {
        let message = format!("no instance of {} is running; see `headgate show nfs`", args.nf);
        return Err(CommandError::new(Exit::Failed, message));
    }
    out.document(&told)?;
    let is_alone = told.answers.len() == 1;
    let mut exit = Exit::Ok;
    for answer in &told.answers {
        if !show(answer, is_alone, out)? {
            exit = Exit::Failed;
        }
    }
    Ok(exit)
}

/// Shows an answer. Returns false for one that is none, or a refusal.
fn show(answer: &NfAnswer, is_alone: bool, out: &Output) -> std::io::Result<bool> {
    let instance = &answer.instance;
    match &answer.outcome {
        Outcome::Answered(said) if said.is_empty() => out.note(format!("{instance} did it")),
        Outcome::Answered(said) => {
            let from = if is_alone { String::new() } else { format!("{instance}: ") };
            out.text(said.lines().map(|line| format!("{from}{}\n", harmless(line))).collect::<String>())?;
        }
        Outcome::Unknown => out.note(format!(
            "{instance} was told; its library is of an earlier version, which does not answer: `headgate show nfs` \
             has the last message that it sent"
        )),
        Outcome::Refused(why) => {
            out.note(format!("{instance} refused: {}", harmless(why)));
            return Ok(false);
        }
        Outcome::Silent(why) => {
            out.note(format!("{instance} {}", harmless(why)));
            return Ok(false);
        }
    }
    Ok(true)
}
