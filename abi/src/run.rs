//! The rest of a C program's `main`, and its unit tests' way in.

use std::ffi::{CStr, OsStr, OsString, c_char, c_int};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use headgate_nf::run_with;
use headgate_nf::testing::Setup;
use headgate_nf::testing::pcap::{self, Tally};

use crate::foreign::{Foreign, check};
use crate::functions::from_c;
use crate::types::{HgNf, HgTally};

const USAGE: c_int = 2;

#[unsafe(no_mangle)]
unsafe extern "C" fn hg_run(argc: c_int, argv: *mut *mut c_char, nf: *const HgNf) -> c_int {
    // SAFETY: the header's contract: `argv` has `argc` texts, `nf` is a filled struct or null.
    let (words, nf) = unsafe { (words(argc, argv), nf.as_ref()) };
    let Some(nf) = sound(nf) else { return USAGE };
    c_int::from(run_with(words, |context| Foreign::start(nf, context)))
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
    let [arguments, ports, output] =
        [arguments, ports, output].map(|text| Some(text).filter(|text| !text.is_empty()));
    let setup = Setup::of_words(arguments, ports.as_deref());
    let output = output.as_deref().map(Path::new);
    let counted = pcap::run_once(setup, Path::new(&input), output, |context| Foreign::start(nf, context));
    // SAFETY: the header's contract: null or there to be written.
    if let Some(tally) = unsafe { tally.as_mut() } {
        *tally = counted.as_ref().map(flat).unwrap_or_default();
    }
    counted.map_or_else(
        |error| {
            eprintln!("{error}");
            error.exit_code().into()
        },
        |_| 0,
    )
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
unsafe fn words(argc: c_int, argv: *mut *mut c_char) -> Vec<OsString> {
    let count = if argv.is_null() { 0 } else { usize::try_from(argc).unwrap_or(0) };
    // SAFETY: by the caller's promise.
    let words = (1..count).map(|place| unsafe { CStr::from_ptr(*argv.add(place)) });
    words.map(|word| OsStr::from_bytes(word.to_bytes()).to_owned()).collect()
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
