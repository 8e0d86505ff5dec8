//! One machine beside four nodes: the same file, and the same bytes of each flow.
//!
//! A generator at `a` makes the same packets each time. A firewall that `b` and `c` share, a monitor at `c`
//! and an NF at `d` that swaps addresses work on them, and they leave at `d` into a capture. Once
//! `headgate up FILE` runs all of it on this machine, once `headgate lab FILE` runs four nodes.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use headgate_host::cores::Placement;
use headgate_host::programs::Program;
use headgate_wire::pcap::Records;

use super::lab::Lab;
use crate::observe::end;
use crate::statistics::Round;

/// Packets of a run, of so many flows.
const PACKETS: u64 = 20_000;
const FLOWS: usize = 256;
/// Time until packets come: nodes have met by then.
const BEGIN_S: u64 = 4;
const RATE: u32 = 5000;
/// Longest wait for the end of the one machine, and for the last packet of the nodes.
const PATIENCE: Duration = Duration::from_secs(60);
/// Addresses and ports of a frame: behind Ethernet, in and behind IPv4.
const FLOW: std::ops::Range<usize> = 26..38;

pub(super) const VALUES: [(&str, &str, &str); 4] = [
    ("single.flows", "", "that left one machine"),
    ("single.packets", "packets", "that left one machine"),
    ("single.missing", "packets", "that left one machine and not four nodes; aim none"),
    ("single.flows_differing", "", "whose frames were not the same bytes in the same order; aim none"),
];

/// Frames that left, by flow, each in its order.
type Left = BTreeMap<Vec<u8>, Vec<Vec<u8>>>;

/// Runs both, and compares.
pub(super) fn run(placement: Placement, round: &mut Round) -> anyhow::Result<()> {
    let folder = tempfile::tempdir().context("no folder for the packets that leave")?;
    let [one, four] = ["one.pcapng", "four.pcapng"].map(|name| folder.path().join(name));
    alone(&text(placement, &one), folder.path())?;
    let nodes = Lab::of(&text(placement, &four))?;
    nodes.until_sent("d", "sink", PACKETS)?;
    drop(nodes);
    let (one, four) = (left(&one)?, left(&four)?);
    let count = |left: &Left| left.values().map(Vec::len).sum::<usize>();
    let differing = one.iter().filter(|(flow, frames)| four.get(*flow) != Some(*frames)).count();
    let foreign = four.keys().filter(|flow| !one.contains_key(*flow)).count();
    round.insert("single.flows", one.len() as f64);
    round.insert("single.packets", count(&one) as f64);
    round.insert("single.missing", count(&one).saturating_sub(count(&four)) as f64);
    round.insert("single.flows_differing", (differing + foreign) as f64);
    anyhow::ensure!(count(&one) as u64 == PACKETS, "of {PACKETS} packets {} left one machine", count(&one));
    Ok(())
}

/// Returns the file.
fn text(placement: Placement, capture: &Path) -> String {
    let Placement { manager, nfs, .. } = placement;
    let mut text = format!(
        "[manager]\nname = \"bench\"\ncores = [{manager}]\nidle = \"yield\"\n\
         [memory]\nbuffers = 8192\nhugepages = \"never\"\n\
         [steering]\nmode = \"ecmp\"\n"
    );
    text.extend(["a", "b", "c", "d"].map(|node| format!("[[node]]\nname = \"{node}\"\n")));
    for (number, [one, other]) in (0..).zip([["a", "b"], ["a", "c"], ["b", "c"], ["c", "d"]]) {
        text += &format!(
            "[[link]]\nnodes = [\"{one}\", \"{other}\"]\ninterfaces = [\"{one}{other}\", \"{other}{one}\"]\n\
             addresses = [\"10.9.{number}.1/30\", \"10.9.{number}.2/30\"]\nmtu = 1600\n\
             bfd = {{ interval = \"100ms\", multiplier = 5 }}\n"
        );
    }
    text += &format!(
        "[[port]]\nname = \"source\"\nnode = \"a\"\nkind = \"generator\"\nflows = {FLOWS}\nsizes = \"imix\"\n\
         count = {PACKETS}\ntimestamps = false\nrate = 0\nsteps = [{{ at = \"{BEGIN_S}s\", rate = {RATE} }}]\n\
         [[port]]\nname = \"sink\"\nnode = \"d\"\nkind = \"pcap\"\nwrite = {capture:?}\n"
    );
    let nfs = [
        ("fw", "nodes = [\"b\", \"c\"]", "firewall", "args = { rules = [], default = \"allow\" }\n"),
        ("mon", "node = \"c\"", "monitor", ""),
        ("swap", "node = \"d\"", "mac-swap", ""),
    ]
    .map(|(name, place, run, args)| {
        format!("[[nf]]\nname = \"{name}\"\n{place}\nrun = \"{run}\"\ncore = {nfs}\nring = 4096\n{args}")
    });
    text + &nfs.concat()
        + "[[chain]]\nname = \"out\"\nstages = [\"fw\", \"mon\", \"swap\"]\nout = \"sink\"\n\
           [[rule]]\nin = \"source\"\nchain = \"out\"\n"
}

/// Runs all of it on this machine, until the last packet has left.
fn alone(text: &str, folder: &Path) -> anyhow::Result<()> {
    let file = folder.join("single.toml");
    fs::write(&file, text)?;
    let mut process = Command::new(Program::Command.find()?)
        .args(["up", "--once"])
        .arg(&file)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .context("`headgate up` does not start")?;
    let began = Instant::now();
    while process.try_wait()?.is_none() {
        if began.elapsed() > PATIENCE {
            end(&mut process);
            anyhow::bail!("one machine did not end within {} s", PATIENCE.as_secs());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let status = process.wait()?;
    anyhow::ensure!(status.success(), "`headgate up` ended with {status}; run it on {}", file.display());
    Ok(())
}

/// Returns the frames of a capture.
fn left(file: &Path) -> anyhow::Result<Left> {
    let bytes = fs::read(file).context("the packets that left cannot be read")?;
    let mut left = Left::new();
    for record in Records::new(&bytes)? {
        let frame = &bytes[record?.bytes];
        let flow = frame.get(FLOW).context("a frame without addresses and ports has left")?;
        left.entry(flow.to_vec()).or_default().push(frame.to_vec());
    }
    Ok(left)
}

#[cfg(test)]
mod tests {
    use headgate_config::{Catalog, Machine, ShippedNf};

    use super::*;

    #[test]
    fn its_file_is_for_four_nodes_and_for_one_machine() {
        let nf = |name: &str| ShippedNf { name: name.to_owned(), ..ShippedNf::default() };
        let catalog = Catalog::new(vec![nf("firewall"), nf("monitor"), nf("mac-swap")]);
        let text = text(Placement { manager: 0, nfs: 1 }, Path::new("/tmp/left.pcapng"));
        let parts = headgate_config::parse_parts("single.toml", &text, &catalog);
        assert_eq!(parts.unwrap_or_else(|refused| panic!("{refused}\n{text}")).len(), 4);
        let whole = headgate_config::parse("single.toml", &text, &catalog, &Machine::observe());
        let whole = whole.unwrap_or_else(|refused| panic!("{refused}\n{text}"));
        assert_eq!(whole.config.nfs.len(), 3);
    }
}
