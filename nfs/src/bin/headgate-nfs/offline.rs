//! Commands that need no manager: checking arguments, and running over a capture.

use std::path::Path;
use std::process::ExitCode;

use headgate_nf::testing::pcap::{self, Tally};
use headgate_nf::testing::{self, Harness, Known, Setup};
use headgate_nf::{ArgumentErrors, NfError};
use headgate_nfs::catalog::Entry;
use serde_json::json;

use crate::words::{Usage, Words};
use crate::{members, named};

/// Exit code for arguments an NF does not take.
const CONFIGURATION: u8 = 4;

pub fn check(mut words: Words) -> Result<ExitCode, Usage> {
    let json = words.flag("--json");
    let known = Known { ports: list(&mut words, "--ports")?, stages: list(&mut words, "--stages")? };
    let entries = named(&words.expect("NAME")?)?;
    let arguments = words.next_word().unwrap_or_default();
    words.end()?;
    let checked = match &entries[..] {
        [only] => testing::check_among(known, &arguments, |context| only.build(context)),
        several => testing::check_fused(&arguments, members(several)),
    };
    if json {
        println!("{}", json!({ "mistakes": mistakes(&checked).list() }));
    }
    Ok(accepted(&entries, checked))
}

/// The mistakes in arguments; an error that an NF gave no place is one about all of them.
fn mistakes(checked: &Result<(), NfError>) -> ArgumentErrors {
    let Err(error) = checked else { return ArgumentErrors::default() };
    error.downcast_ref::<ArgumentErrors>().cloned().unwrap_or_else(|| {
        let mut mistakes = ArgumentErrors::default();
        mistakes.add([], error);
        mistakes
    })
}

/// The names that an option lists, if it is given.
fn list(words: &mut Words, option: &str) -> Result<Option<Vec<String>>, Usage> {
    let names = |text: String| text.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect();
    Ok(words.option(option)?.map(names))
}

fn accepted(entries: &[&Entry], checked: Result<(), NfError>) -> ExitCode {
    match (entries, checked) {
        (_, Ok(())) => ExitCode::SUCCESS,
        ([only], Err(error)) => {
            eprintln!("{}: {error}", only.name);
            ExitCode::from(CONFIGURATION)
        }
        (_, Err(error)) => {
            eprintln!("{error}");
            ExitCode::from(CONFIGURATION)
        }
    }
}

pub fn pcap(mut words: Words) -> Result<ExitCode, Usage> {
    let json = words.flag("--json");
    let setup = setup(&mut words)?;
    let tell = words.options("--tell")?;
    let entries = named(&words.expect("NAME")?)?;
    let (input, output) = (words.expect("IN")?, words.expect("OUT")?);
    words.end()?;
    let made = match &entries[..] {
        [only] => Harness::new(setup, |context| only.build(context)),
        several => Harness::fused(setup, members(several)),
    };
    let mut harness = match made {
        Ok(harness) => harness,
        Err(error) => return Ok(accepted(&entries, Err(error))),
    };
    let tally = match pcap::run(&mut harness, Path::new(&input), Some(Path::new(&output))) {
        Ok(tally) => tally,
        Err(error) => {
            eprintln!("headgate-nfs: {error}");
            return Ok(ExitCode::FAILURE);
        }
    };
    let mut failed = false;
    for body in tell {
        if let Err(error) = harness.message(&body) {
            eprintln!("message `{body}`: {error}");
            failed = true;
        }
    }
    harness.stop();
    report(&mut harness, &tally, json);
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn setup(words: &mut Words) -> Result<Setup, Usage> {
    let mut setup = Setup::with(words.option("--args")?.unwrap_or_default());
    setup.ports = list(words, "--ports")?.unwrap_or(setup.ports);
    setup.stages = list(words, "--stages")?.unwrap_or(setup.stages);
    Ok(setup)
}

fn report(harness: &mut Harness, tally: &Tally, json: bool) {
    let messages = harness.told();
    if json {
        let counters: serde_json::Map<_, _> =
            harness.counters().into_iter().map(|(name, value)| (name, value.into())).collect();
        let Tally { packets, next, dropped, ports, stages, made, unfit } = tally;
        let packets = json!({ "in": packets, "next": next, "dropped": dropped, "ports": ports, "stages": stages,
            "made": made, "unfit": unfit });
        println!("{}", json!({ "packets": packets, "counters": counters, "messages": messages }));
        return;
    }
    println!("{} packets: {} to the next stage, {} dropped", tally.packets, tally.next, tally.dropped);
    for (port, count) in &tally.ports {
        println!("{count} out of {port}");
    }
    for (stage, count) in &tally.stages {
        println!("{count} to stage {stage}");
    }
    if tally.made > 0 {
        println!("{} made by it", tally.made);
    }
    if tally.unfit > 0 {
        println!("{} left out: shorter than 14 or longer than 16383 bytes", tally.unfit);
    }
    for (name, value) in harness.counters() {
        println!("{name} = {value}");
    }
    for message in messages {
        println!("{message}");
    }
}
