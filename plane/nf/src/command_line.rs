//! The command line of an NF's program, the same in Rust and C: attach to a manager, or run over a capture.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use headgate_session::attach::Connection;

use crate::run::{RunError, heed_signals, serve};
use crate::{Context, NetworkFunction, NfError};

/// Exit code of a command line that makes no sense.
const USAGE: u8 = 2;

const HELP: &str = "\
A network function for Headgate.
without options: attaches as HEADGATE_FD, or HEADGATE_SOCKET and HEADGATE_NF, say
  --socket PATH --as NAME     attaches to the manager at PATH as its NF NAME
  --pcap IN OUT               runs over a capture, without root and without a manager; OUT named *.pcapng
                              has an interface for each way out
      --args JSON             its arguments, a JSON object [default: {}]
      --ports A,B             names of the ports; interface 0 of IN is the first [default: west,east]
  --help                      prints this
Exit codes: 0 stopped or done, 1 failed, 2 usage, 3 no manager, 4 arguments not accepted, or refused.";

/// Wish of a command line.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Wish {
    Attach,
    Connect { path: PathBuf, name: String },
    Capture(Offline),
    Help,
}

/// Run over a capture.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Offline {
    input: PathBuf,
    output: PathBuf,
    arguments: Option<String>,
    ports: Option<String>,
}

impl Wish {
    /// Reads the words behind the program's name.
    fn of(words: impl Iterator<Item = OsString>) -> Result<Self, String> {
        let mut words = words;
        let (mut path, mut name, mut captures) = (None, None, None);
        let mut offline = Offline::default();
        while let Some(word) = words.next() {
            let word = word.to_string_lossy().into_owned();
            let mut value = || words.next().ok_or_else(|| format!("{word} needs a value"));
            match word.as_str() {
                "--socket" => path = Some(PathBuf::from(value()?)),
                "--as" => name = Some(text(&value()?)),
                "--pcap" => captures = Some((value()?.into(), value()?.into())),
                "--args" => offline.arguments = Some(text(&value()?)),
                "--ports" => offline.ports = Some(text(&value()?)),
                "--help" | "-h" => return Ok(Self::Help),
                other => return Err(format!("there is no option `{other}`")),
            }
        }
        let is_offline = offline.arguments.is_some() || offline.ports.is_some();
        match (path, name, captures) {
            (None, None, Some((input, output))) => Ok(Self::Capture(Offline { input, output, ..offline })),
            _ if is_offline => Err("--args and --ports belong to --pcap".to_owned()),
            (None, None, None) => Ok(Self::Attach),
            (Some(path), Some(name), None) => Ok(Self::Connect { path, name }),
            (_, _, None) => Err("--socket and --as belong together".to_owned()),
            _ => Err("--pcap excludes --socket and --as".to_owned()),
        }
    }
}

fn text(word: &OsStr) -> String {
    word.to_string_lossy().into_owned()
}

/// The whole `main` of an NF: attaches as the command line or the environment says, makes the NF, and runs it
/// until it is stopped; with `--pcap IN OUT` it runs it over a capture.
///
/// Launched by a manager, everything is set. Started by hand, say `--socket PATH --as NAME`, or set
/// `HEADGATE_SOCKET` to the manager's socket and `HEADGATE_NF` to the NF's name in its configuration. Exit
/// codes: 0 stopped or done, 1 failed, 2 usage, 3 no manager, 4 the arguments are wrong or the manager
/// refused. A program with a command line of its own calls [`serve`].
pub fn run<N: NetworkFunction + 'static>(build: impl FnOnce(&mut Context) -> Result<N, NfError>) -> ExitCode {
    ExitCode::from(run_with(std::env::args_os().skip(1), build))
}

/// As [`run`], for a command line that is given, the program's name left out. Returns the exit code.
pub fn run_with<N: NetworkFunction + 'static>(
    words: impl IntoIterator<Item = OsString>,
    build: impl FnOnce(&mut Context) -> Result<N, NfError>,
) -> u8 {
    match Wish::of(words.into_iter()) {
        Ok(Wish::Attach) => attach(Connection::from_environment().map_err(RunError::from), build),
        Ok(Wish::Connect { path, name }) => {
            attach(Connection::connect(&path, name).map_err(RunError::from), build)
        }
        Ok(Wish::Capture(offline)) => over_capture(offline, build),
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

fn attach<N: NetworkFunction + 'static>(
    connection: Result<Connection, RunError>,
    build: impl FnOnce(&mut Context) -> Result<N, NfError>,
) -> u8 {
    heed_signals();
    match connection.and_then(|connection| serve(connection, build)) {
        Ok(_) => 0,
        Err(error) => {
            eprintln!("{error}");
            error.exit_code()
        }
    }
}

#[cfg(feature = "pcap")]
fn over_capture<N: NetworkFunction + 'static>(
    offline: Offline,
    build: impl FnOnce(&mut Context) -> Result<N, NfError>,
) -> u8 {
    let output: &Path = &offline.output;
    let setup = crate::testing::Setup::of_words(offline.arguments, offline.ports.as_deref());
    match crate::testing::pcap::run_once(setup, &offline.input, Some(output), build) {
        Ok(_) => 0,
        Err(error) => {
            eprintln!("{error}");
            error.exit_code()
        }
    }
}

#[cfg(not(feature = "pcap"))]
fn over_capture<N: NetworkFunction + 'static>(
    offline: Offline,
    _: impl FnOnce(&mut Context) -> Result<N, NfError>,
) -> u8 {
    eprintln!(
        "--pcap {} cannot be had: this program was built without the feature `pcap` of headgate-nf; build it with",
        Path::new(&offline.input).display()
    );
    USAGE
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wish(words: &[&str]) -> Result<Wish, String> {
        Wish::of(words.iter().map(OsString::from))
    }

    #[test]
    fn words_are_understood() {
        assert_eq!(wish(&[]), Ok(Wish::Attach));
        let connect = Wish::Connect { path: "/run/x".into(), name: "fw".to_owned() };
        assert_eq!(wish(&["--as", "fw", "--socket", "/run/x"]), Ok(connect));
        let offline = Offline {
            input: "a".into(),
            output: "b".into(),
            arguments: Some("{}".to_owned()),
            ports: Some("x,y".to_owned()),
        };
        assert_eq!(wish(&["--args", "{}", "--pcap", "a", "b", "--ports", "x,y"]), Ok(Wish::Capture(offline)));
        assert_eq!(wish(&["--pcap", "--help", "b"]).map(|wish| wish != Wish::Help), Ok(true));
        assert_eq!(wish(&["-h"]), Ok(Wish::Help));
    }

    #[test]
    fn what_makes_no_sense_is_said() {
        for (words, why) in [
            (&["--pcap", "a"][..], "--pcap needs a value"),
            (&["--socket", "a"], "belong together"),
            (&["--as", "a"], "belong together"),
            (&["--args", "{}"], "belong to --pcap"),
            (&["--socket", "a", "--as", "b", "--pcap", "c", "d"], "excludes"),
            (&["fast"], "there is no option `fast`"),
        ] {
            let said = wish(words).unwrap_err();
            assert!(said.contains(why), "{words:?}: {said}");
        }
    }

    #[cfg(feature = "pcap")]
    #[test]
    fn a_capture_is_run_over_and_each_end_has_its_code() {
        use crate::{Burst, testing::pcap::Capture};

        struct Third;
        impl NetworkFunction for Third {
            fn process(&mut self, burst: &mut Burst, _: &mut Context) {
                burst
                    .packets()
                    .filter(|packet| packet.data()[0] != 3)
                    .for_each(|mut packet| packet.discard());
            }
        }
        let build = |context: &mut Context| -> Result<Third, NfError> {
            let limit: serde_json::Value = context.arguments()?;
            if limit.get("refuse").is_some() { Err("told to refuse".into()) } else { Ok(Third) }
        };
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).into_os_string();
        let frames = [1u8, 2, 3, 3].map(|first| vec![first; 60]);
        Capture::of(&frames).write(Path::new(&path("in.pcap"))).unwrap();
        let run = |words: &[OsString]| run_with(words.to_vec(), build);
        let pcap = ["--pcap".into(), path("in.pcap"), path("out.pcap")];
        assert_eq!(run(&pcap), 0);
        let written = Capture::read(Path::new(&path("out.pcap"))).unwrap();
        assert_eq!(written.arrivals.len(), 2);
        let refused = [&["--args".into(), r#"{"refuse":1}"#.into()][..], &pcap].concat();
        assert_eq!(run(&refused), 4);
        assert_eq!(run(&["--pcap".into(), path("none"), path("out.pcap")]), 1);
        assert_eq!(run(&["--fast".into()]), USAGE);
        assert_eq!(run(&["--help".into()]), 0);
        assert_eq!(run(&["--socket".into(), path("nowhere"), "--as".into(), "x".into()]), 3);
    }
}
