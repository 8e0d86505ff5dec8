//! What a service header costs: taken off, one NF, and put on again, beside the NF alone.
//!
//! `one` is that of [`crate::hop`]: a generator, `forward`, a null port. `replayed` has the same frames from
//! a capture in memory, and `nsh` the same behind a service header (RFC 8300, MD type 1), as a neighbour
//! sends them: the chain is the path that they name, and its next hop gets them with an index one lower.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use headgate_api::session::Launcher;
use headgate_host::cores::Placement;
use headgate_host::environment::Environment;
use headgate_nf::testing::pcap::Capture;
use headgate_wire::ethernet::HEADER_LENGTH;
use headgate_wire::nsh::{self, Base, ServicePath};
use serde_json::json;
use tempfile::TempDir;

use crate::hop::scenario::{Scenario, Shape, Work};
use crate::hop::{Pace, busy, each_round};
use crate::leave::Output;
use crate::report::{Ratio, Report, Row, Section, THROUGHPUT};
use crate::statistics::{Round, Rounds};

const FORWARD: &[Work] = &[Work::Forward];
/// Path of the chain, and the index with which its packets come.
const PATH: ServicePath = ServicePath { path: 7, index: 255 };
/// Addresses of both ports, and of the next hop.
const PORTS: [&str; 3] = ["02:00:00:00:00:0a", "02:00:00:00:00:0b", "02:00:00:00:00:0c"];
/// Ethernet header from the node before to the first of them.
const OUTER: [u8; HEADER_LENGTH] = [2, 0, 0, 0, 0, 10, 2, 0, 0, 0, 0, 9, 0x89, 0x4f];
/// The shortest frame, without its check sequence: UDP from 10.0.0.1 to 198.18.0.1, port 9, no checksum.
const FRAME: [u8; 42] = [
    2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0, // Ethernet
    0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17, 0xaa, 0xab, 10, 0, 0, 1, 198, 18, 0, 1, // IPv4
    4, 0, 0, 9, 0, 26, 0, 0, // UDP
];
const FRAME_BYTES: usize = 60;
/// Frames of a capture, which is replayed again and again. Our choice: as many as a worker takes at once.
const FRAMES: usize = 64;

/// Way of packets that is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Case {
    One,
    Replayed,
    Nsh,
}

const CASES: [(Case, &str, &str); 3] = [
    (Case::One, "one", "generator, one NF, null"),
    (Case::Replayed, "replayed", "the same frames from a capture in memory"),
    (Case::Nsh, "nsh", "the same behind a service header, which is taken off and put on"),
];

/// Captures of the frames, plain and behind service headers.
struct Captures {
    folder: TempDir,
}

impl Captures {
    fn make() -> anyhow::Result<Self> {
        let folder = tempfile::tempdir().context("no folder for the captures that are replayed")?;
        let captures = Self { folder };
        for (case, frame) in [(Case::Replayed, plain()), (Case::Nsh, encapsulated()?)] {
            Capture::of(&vec![frame; FRAMES]).write(&captures.path(case))?;
        }
        Ok(captures)
    }

    fn path(&self, case: Case) -> PathBuf {
        self.folder.path().join(if case == Case::Nsh { "nsh.pcap" } else { "plain.pcap" })
    }
}

fn plain() -> Vec<u8> {
    let mut frame = FRAME.to_vec();
    frame.resize(FRAME_BYTES, 0);
    frame
}

fn encapsulated() -> anyhow::Result<Vec<u8>> {
    let mut header = [0; nsh::LENGTH_OF_TYPE_1];
    nsh::write(Base::of_type_1(), PATH, &[0; nsh::CONTEXT_LENGTH], &mut header)?;
    Ok([&OUTER[..], &header, &plain()].concat())
}

/// Returns the configuration of a case.
fn to_toml(case: Case, capture: &Path, placement: Placement) -> String {
    if case == Case::One {
        return Scenario::plain(FORWARD, Shape::Isolated).to_toml(placement);
    }
    let mut text = format!("[manager]\nname = \"bench\"\ncores = [{}]\n", placement.manager);
    let [entry, exit, next] = PORTS;
    let nsh = |address: &str| match case {
        Case::Nsh => format!("nsh = \"{address}\"\n"),
        _ => String::new(),
    };
    let capture = capture.display();
    let _ = write!(
        text,
        "[[port]]\nname = \"source\"\nkind = \"pcap\"\nread = \"{capture}\"\nmode = \"loop\"\n{}\
         [[port]]\nname = \"sink\"\nkind = \"null\"\n{}\
         [[nf]]\nname = \"nf-0\"\nrun = \"forward\"\ncore = {}\n\
         [[chain]]\nname = \"chain-0\"\nstages = [\"nf-0\"]\nout = \"sink\"\n",
        nsh(entry),
        nsh(exit),
        placement.nfs
    );
    let ServicePath { path, index } = PATH;
    text += &match case {
        Case::Nsh => format!("nsh = {{ path = {path}, index = {index}, next = \"{next}\" }}\n"),
        _ => "[[rule]]\nin = \"source\"\nchain = \"chain-0\"\n".to_owned(),
    };
    text
}

/// Measures the cases in turn.
///
/// # Errors
/// Whatever kept it from measuring.
pub(super) fn measure(rounds: Option<u32>, out: &mut Output) -> anyhow::Result<Report> {
    let (launcher, placement) = (Launcher::find()?, Placement::choose()?);
    let (captures, pace) = (Captures::make()?, Pace::new(false, rounds));
    let environment = out.machine();
    let mut notes = busy(&environment);
    let (mut rounds, mut conserved) = (Rounds::default(), true);
    each_round(pace, &mut notes, |number| {
        let (mut round, mut cases) = (Round::new(), CASES);
        // Each is the first in some round.
        cases.rotate_left(number as usize % CASES.len());
        for (case, name, _) in cases {
            let text = to_toml(case, &captures.path(case), placement);
            let session = launcher.start(&format!("{name} (made by headgate bench)"), &text)?;
            std::thread::sleep(pace.warm_up);
            let interval = session.interval(pace.window)?;
            conserved &= session.stop()? != Some(false);
            anyhow::ensure!(interval.rate() > 0.0, "no packet has left in case `{name}`");
            round.insert(name, interval.rate());
        }
        rounds.push(round);
        Ok(())
    })?;
    Ok(report(&rounds, pace.window, environment, (conserved, notes)))
}

fn report(
    rounds: &Rounds,
    window: Duration,
    environment: Environment,
    (conserved, notes): (bool, Vec<String>),
) -> Report {
    let row = |(_, name, note): (Case, &'static str, &'static str)| {
        Some(Row { name: name.into(), unit: "Mpps", note, summary: rounds.summary(name)? })
    };
    let ratio = |name: &'static str, under, aim: &str| {
        Some(Ratio { name: name.into(), summary: rounds.ratio("nsh", under)?, aim: aim.to_owned() })
    };
    let ratios =
        [ratio("hop.nsh_over_one", "one", "at least 0.8"), ratio("hop.nsh_over_replayed", "replayed", "")];
    Report {
        bench: "neo-nsh hop".into(),
        heading: "one NF behind and in front of a service header, 64-byte frames inside".to_owned(),
        settings: json!({ "rounds": rounds.len(), "window_s": window.as_secs_f64() }),
        environment,
        sections: vec![Section {
            title: THROUGHPUT,
            note: "",
            rows: CASES.into_iter().filter_map(row).collect(),
        }],
        ratios: ratios.into_iter().flatten().collect(),
        conserved,
        notes,
        rounds: rounds.clone(),
    }
}

#[cfg(test)]
mod tests {
    use headgate_config::{Catalog, Machine, ShippedNf, parse};
    use headgate_wire::ipv4::Packet;
    use headgate_wire::nsh::Header;

    use super::*;

    #[test]
    fn frames_are_sound_and_their_header_names_the_chain() {
        let frame = plain();
        assert!(Packet::new(&frame[HEADER_LENGTH..]).unwrap().verify_checksum());
        let outer = encapsulated().unwrap();
        let header = Header::new(&outer[HEADER_LENGTH..]).unwrap();
        assert_eq!((header.service_path(), header.payload()), (PATH, &frame[..]));
    }

    #[test]
    fn its_configurations_are_accepted() {
        let machine = Machine { cores: vec![0, 1], memory_bytes: 16 << 30, ..Machine::default() };
        let catalog = Catalog::new(vec![ShippedNf { name: "forward".to_owned(), ..ShippedNf::default() }]);
        let placement = Placement { manager: 0, nfs: 1 };
        let captures = Captures::make().unwrap();
        for (case, ..) in CASES {
            let text = to_toml(case, &captures.path(case), placement);
            let loaded = parse("bench.toml", &text, &catalog, &machine);
            let config = loaded.unwrap_or_else(|refused| panic!("{refused}\n{text}")).config;
            assert_eq!(config.rules.is_empty(), case == Case::Nsh);
            assert_eq!(config.chains[0].service.is_some(), case == Case::Nsh);
        }
    }
}
