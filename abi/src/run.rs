//! The rest of a C program's `main`, and its unit tests' way in.

use std::ffi::{OsString, c_char, c_int};
use std::os::unix::ffi::OsStringExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use headgate_nf::testing::pcap::{self, Tally};
use headgate_nf::testing::{Harness, Setup};
use headgate_nf::{Connection, RunError, heed_signals, serve};

use crate::foreign::{Foreign, check};
use crate::functions::from_c;
use crate::types::{HgNf, HgTally};

const FAILED: c_int = 1;
const USAGE: c_int = 2;
const CONFIGURATION: c_int = 4;

const HELP: &str = "\
without options: attaches as HEADGATE_FD, or HEADGATE_SOCKET and HEADGATE_NF, say
  --socket PATH --as NAME     attaches to the manager at PATH as its NF NAME
  --pcap IN OUT               runs over a capture, without root and without a manager
      --args JSON             its arguments
      --ports A,B             names of the ports; west,east without it";

#[unsafe(no_mangle)]
unsafe extern "C" fn hg_run(argc: c_int, argv: *mut *mut c_char, nf: *const HgNf) -> c_int {
    // SAFETY: the header's contract: `argv` has `argc` texts, `nf` is a filled struct or null.
    let (words, nf) = unsafe { (words(argc, argv), nf.as_ref()) };
    let Some(nf) = sound(nf) else { return USAGE };
    match Wish::of(&words) {
        Ok(Wish::Attach) => attach(nf, Connection::from_environment().map_err(RunError::from)),
        Ok(Wish::Connect { path, name }) => {
            attach(nf, Connection::connect(Path::new(&path), name).map_err(RunError::from))
        }
        Ok(Wish::Capture { setup, input, output }) => over_capture(nf, setup, &input, Some(&output)).1,
        Ok(Wish::Help) => {
            println!("{HELP}");
            0
        }
        Err(what) => {
            eprintln!("{what}\n{HELP}");
            USAGE
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn hg_test_pcap(
    nf: *const HgNf,
    arguments: *const c_char,
    ports: *const c_char,
    input: *const c_char,
    output: *const c_char,
    tally: *mut HgTally,
) -> c_int {
    // SAFETY: the header's contract.
    let nf = unsafe { nf.as_ref() };
    let Some(nf) = sound(nf) else { return USAGE };
    // SAFETY: the header's contract: texts, or null where it says so.
    let (arguments, ports, input, output) =
        unsafe { (from_c(arguments), from_c(ports), from_c(input), from_c(output)) };
    let output = Some(output.as_str()).filter(|output| !output.is_empty());
    let (counted, code) = over_capture(nf, setup(arguments, &ports), &input, output);
    // SAFETY: the header's contract: null or there to be written.
    if let Some(tally) = unsafe { tally.as_mut() } {
        *tally = counted;
    }
    code
}

fn sound(nf: Option<&HgNf>) -> Option<HgNf> {
    let checked = nf.map(check);
    match (nf, checked) {
        (Some(nf), Some(Ok(()))) => Some(*nf),
        (_, Some(Err(why))) => {
            eprintln!("{why}");
            None
        }
        _ => {
            eprintln!("the network function is NULL");
            None
        }
    }
}

/// The command line without the program's name.
///
/// # Safety
/// `argv` is null or has `argc` texts.
unsafe fn words(argc: c_int, argv: *mut *mut c_char) -> Vec<String> {
    let count = if argv.is_null() { 0 } else { usize::try_from(argc).unwrap_or(0) };
    // SAFETY: by the caller's promise.
    (1..count).map(|place| unsafe { from_c(*argv.add(place)) }).collect()
}

/// Wish of a command line.
enum Wish {
    Attach,
    Connect { path: OsString, name: String },
    Capture { setup: Setup, input: String, output: String },
    Help,
}

impl Wish {
    fn of(words: &[String]) -> Result<Self, String> {
        let mut words = words.iter().cloned();
        let (mut path, mut name, mut captures) = (None, None, None);
        let (mut arguments, mut ports) = (None, None);
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or_else(|| format!("{word} needs a value"));
            match word.as_str() {
                "--socket" => path = Some(value()?),
                "--as" => name = Some(value()?),
                "--pcap" => captures = Some((value()?, value()?)),
                "--args" => arguments = Some(value()?),
                "--ports" => ports = Some(value()?),
                "--help" | "-h" => return Ok(Self::Help),
                other => return Err(format!("there is no option `{other}`")),
            }
        }
        let offline = arguments.is_some() || ports.is_some();
        match (path, name, captures) {
            (None, None, Some((input, output))) => {
                let setup = setup(arguments.unwrap_or_default(), &ports.unwrap_or_default());
                Ok(Self::Capture { setup, input, output })
            }
            _ if offline => Err("--args and --ports belong to --pcap".to_owned()),
            (None, None, None) => Ok(Self::Attach),
            (Some(path), Some(name), None) => {
                Ok(Self::Connect { path: OsString::from_vec(path.into_bytes()), name })
            }
            (_, _, None) => Err("--socket and --as belong together".to_owned()),
            _ => Err("--pcap excludes --socket and --as".to_owned()),
        }
    }
}

fn setup(arguments: String, ports: &str) -> Setup {
    let setup = Setup::with(arguments);
    if ports.is_empty() {
        return setup;
    }
    Setup { ports: ports.split(',').map(str::to_owned).collect(), ..setup }
}

fn attach(nf: HgNf, link: Result<Connection, RunError>) -> c_int {
    heed_signals();
    match link.and_then(|connection| serve(connection, |context| Foreign::start(nf, context))) {
        Ok(_) => 0,
        Err(trouble) => {
            eprintln!("{trouble}");
            trouble.exit_code().into()
        }
    }
}

fn over_capture(nf: HgNf, setup: Setup, input: &str, output: Option<&str>) -> (HgTally, c_int) {
    let failed = |why: &dyn std::fmt::Display, code| {
        eprintln!("{why}");
        (HgTally::default(), code)
    };
    // A panic has said on standard error what it is about, and must not reach C.
    let counted = catch_unwind(AssertUnwindSafe(|| {
        let mut harness = Harness::new(setup, |context| Foreign::start(nf, context)).map_err(Ok)?;
        let counted = pcap::run(&mut harness, Path::new(input), output.map(Path::new)).map_err(Err);
        harness.stop();
        counted
    }));
    match counted {
        Ok(Ok(tally)) => (flat(&tally), 0),
        Ok(Err(Ok(start))) => failed(&start, CONFIGURATION),
        Ok(Err(Err(capture))) => failed(&capture, FAILED),
        Err(_) => (HgTally::default(), FAILED),
    }
}

fn flat(tally: &Tally) -> HgTally {
    HgTally {
        packets: tally.packets as u64,
        next: tally.next as u64,
        dropped: tally.dropped as u64,
        sent: tally.ports.values().sum::<usize>() as u64,
        diverted: tally.stages.values().sum::<usize>() as u64,
    }
}
