//! Commands that need no manager: checking arguments, and running over a capture.

use std::path::Path;
use std::process::ExitCode;

use headgate_nf::NfError;
use headgate_nf::testing::pcap::{self, Tally};
use headgate_nf::testing::{self, Harness, Setup};
use headgate_nfs::catalog::Entry;
use serde_json::json;

use crate::words::{Usage, Words};
use crate::{members, named};

/// Exit code for arguments an NF does not take.
const CONFIGURATION: u8 = 4;

pub fn check(mut words: Words) -> Result<ExitCode, Usage> {
    let entries = named(&words.expect("NAME")?)?;
    let arguments = words.next_word().unwrap_or_default();
    words.end()?;
    let checked = match &entries[..] {
        [only] => testing::check(&arguments, |context| only.build(context)),
        several => testing::check_fused(&arguments, members(several)),
    };
    Ok(accepted(&entries, checked))
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
    let list = |text: String| text.split(',').map(str::to_owned).collect();
    let mut setup = Setup::with(words.option("--args")?.unwrap_or_default());
    setup.ports = words.option("--ports")?.map_or(setup.ports, list);
    setup.stages = words.option("--stages")?.map_or(setup.stages, list);
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
