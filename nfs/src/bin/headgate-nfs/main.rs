//! The process that hosts the shipped network functions, and their authors' workbench.
//!
//! The manager starts it for every NF; its start is part of an NF's start, so it does nothing before it
//! knows what it is for.

mod launched;
mod offline;
mod words;

use std::path::PathBuf;
use std::process::ExitCode;

use headgate_nf::{Connection, Member, RunError, conclude, heed_signals, serve, serve_fused};
use headgate_nfs::catalog::{self, CATALOG, Entry};

use words::{Usage, Words};

const HELP: &str = "\
headgate-nfs: the network functions Headgate ships

  headgate-nfs list [--json]              list NFs, their arguments, messages and counters
  headgate-nfs check NAME [ARGS]          tell everything that is wrong with ARGS, a JSON object
      --ports A,B     names that ARGS may use for ports [default: any]
      --stages A,B    names that ARGS may use for stages [default: any]
      --json          print the mistakes as JSON, each with its path
  headgate-nfs pcap NAME IN OUT           run NAME over a capture, without root and without a manager
      --args ARGS     arguments of the NF, a JSON object [default: {}]
      --ports A,B     names of the ports; interface 0 of IN is the first [default: west,east]
      --stages A,B    names of the stages
      --tell BODY     send a message after the last packet; may be repeated
      --json          print the outcome of the packets as JSON
  headgate-nfs run NAME --socket PATH --as NF
                                          attach to a running manager as NF of its configuration
                                          [default: HEADGATE_SOCKET and HEADGATE_NF]
  headgate-nfs launched                   serve a manager that started this process; see
                                          headgate_session::launch

NAME may be several names, joined by commas: these NFs run fused, in this order, and ARGS is a JSON array
with one object for each. OUT named *.pcapng has an interface for each way a packet left.

Exit codes: 0 done, 1 failed, 2 usage, 3 environment, 4 arguments not accepted.
";

fn main() -> ExitCode {
    let mut words = Words::of_process();
    match words.next_word().as_deref() {
        Some("launched") => launched::main(),
        Some("run") => usage_or(run(words)),
        Some("list") => usage_or(list(words)),
        Some("check") => usage_or(offline::check(words)),
        Some("pcap") => usage_or(offline::pcap(words)),
        Some("help" | "--help" | "-h") => {
            print!("{HELP}");
            ExitCode::SUCCESS
        }
        Some("--version" | "-V") => {
            println!("headgate-nfs {}", env!("CARGO_PKG_VERSION"));
            ExitCode::SUCCESS
        }
        Some(other) => usage_or(Err(Usage(format!("there is no command `{other}`")))),
        None => usage_or(Err(Usage("a command is missing".to_owned()))),
    }
}

fn usage_or(done: Result<ExitCode, Usage>) -> ExitCode {
    done.unwrap_or_else(|Usage(what)| {
        eprintln!("headgate-nfs: {what}; see `headgate-nfs help`");
        ExitCode::from(2)
    })
}

/// The NFs named in one word, joined by commas.
fn named(names: &str) -> Result<Vec<&'static Entry>, Usage> {
    let found: Result<_, _> = names.split(',').map(catalog::find).collect();
    found.map_err(|unknown: catalog::UnknownNfError| Usage(unknown.to_string()))
}

fn run(mut words: Words) -> Result<ExitCode, Usage> {
    let path = words.option("--socket")?.map(PathBuf::from);
    let name = words.option("--as")?;
    let entries = named(&words.expect("NAME")?)?;
    words.end()?;
    heed_signals();
    let connection = match (path, name) {
        (Some(path), Some(name)) => Connection::connect(&path, name),
        (None, None) => Connection::from_environment(),
        _ => return Err(Usage("--socket and --as belong together".to_owned())),
    };
    Ok(conclude(connection.map_err(RunError::from).and_then(|connection| serve_all(connection, &entries))))
}

/// Serves one NF, or several fused.
fn serve_all(connection: Connection, entries: &[&'static Entry]) -> Result<headgate_nf::End, RunError> {
    match entries {
        [only] => serve(connection, |context| only.build(context)),
        several => serve_fused(connection, members(several)),
    }
}

fn members(entries: &[&Entry]) -> Vec<Member> {
    entries.iter().map(|entry| entry.member()).collect()
}

fn list(mut words: Words) -> Result<ExitCode, Usage> {
    let json = words.flag("--json");
    words.end()?;
    if json {
        println!("{}", serde_json::json!({ "nfs": CATALOG }));
        return Ok(ExitCode::SUCCESS);
    }
    for entry in CATALOG {
        println!("{}\n    {}", entry.name, entry.summary);
        for argument in entry.arguments {
            let needed = if argument.required { " (required)" } else { "" };
            println!("    {}{needed}: {}\n        {}", argument.name, argument.kind, argument.text);
        }
        for message in entry.messages {
            println!("    message {}\n        {}", message.body, message.text);
        }
        for counter in entry.counters {
            println!("    counter {}: {}", counter.name, counter.text);
        }
    }
    Ok(ExitCode::SUCCESS)
}
