//! What nodes without packets take from the core that their workers share, and how long a packet takes
//! through all of them.
//!
//! `headgate lab` runs six nodes in a row, an NF on the second and the fourth, with `idle = "yield"` and with
//! `"sleep"` in turn. All managers and what they started count, control loops and failure detection too.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use anyhow::Context as _;
use headgate_host::cores::Placement;
use headgate_host::environment::Environment;
use headgate_host::process::{cpu_time_ns, parent};
use headgate_host::programs::Program;
use rustix::process::Pid;
use serde_json::json;
use tempfile::TempDir;

use crate::hop::{Pace, busy, each_round};
use crate::leave::Output;
use crate::observe::end;
use crate::report::{Ratio, Report, Row, Section};
use crate::statistics::{Round, Rounds, Summary};

const NODES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];
/// What workers do when they are idle, as the configuration says it.
const KINDS: [&str; 2] = ["yield", "sleep"];
/// How long nothing comes, while CPU time is counted. Our choice: a thousand control periods.
const WINDOW: Duration = Duration::from_secs(10);
/// How long nodes have to find each other.
const PATIENCE: u32 = 30;
/// Packets that are sent through all nodes and answered, one each 20 ms.
const PINGS: u32 = 50;

/// Returns the configuration of the nodes.
fn to_toml(kind: &str, placement: Placement) -> String {
    let mut text = format!(
        "[manager]\nname = \"idle\"\ncores = [{}]\nidle = \"{kind}\"\n\n[memory]\nbuffers = 4096\nhugepages = \"never\"\n",
        placement.manager
    );
    text.extend(NODES.map(|node| format!("\n[[node]]\nname = \"{node}\"\n")));
    for (number, pair) in NODES.windows(2).enumerate() {
        let (one, other) = (pair[0], pair[1]);
        text += &format!(
            "\n[[link]]\nnodes = [\"{one}\", \"{other}\"]\ninterfaces = [\"{one}{other}\", \"{other}{one}\"]\n\
             addresses = [\"10.9.{number}.1/30\", \"10.9.{number}.2/30\"]\nmtu = 1600\n\
             bfd = {{ interval = \"100ms\", multiplier = 3 }}\n"
        );
    }
    for (name, node) in [("west", "a"), ("east", "f")] {
        text += &format!("\n[[port]]\nname = \"{name}\"\nnode = \"{node}\"\ninterface = \"{name}\"\n");
    }
    for (name, node) in [("one", "b"), ("two", "d")] {
        let core = placement.nfs;
        text +=
            &format!("\n[[nf]]\nname = \"{name}\"\nnode = \"{node}\"\nrun = \"monitor\"\ncore = {core}\n");
    }
    let chains = [("out", "\"one\", \"two\"", "west", "east"), ("back", "\"two\", \"one\"", "east", "west")];
    for (chain, stages, from, to) in chains {
        text += &format!(
            "\n[[chain]]\nname = \"{chain}\"\nstages = [{stages}]\nout = \"{to}\"\n\
             \n[[rule]]\nin = \"{from}\"\nchain = \"{chain}\"\n"
        );
    }
    text
}

/// All nodes, until dropped.
struct Lab {
    process: Child,
    /// How to send packets through all nodes: the command that the lab names.
    ping: Vec<String>,
    _folder: TempDir,
}

impl Lab {
    /// Starts the nodes, and waits until packets get through.
    fn start(text: &str) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir().context("no folder for the configuration")?;
        let file = folder.path().join("idle.toml");
        std::fs::write(&file, text)?;
        let mut process = Command::new(Program::Command.find()?)
            .arg("lab")
            .arg(&file)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .context("`headgate lab` does not start")?;
        let stdout = process.stdout.take().context("its output is ours")?;
        let mut lab = Self { process, ping: Vec::new(), _folder: folder };
        let told = BufReader::new(stdout).lines().map_while(Result::ok).find(|line| line.contains(" ping "));
        let told =
            told.context("`headgate lab` ended at its start: run it by hand, on a file of several nodes")?;
        lab.ping = told.split_whitespace().map(str::to_owned).collect();
        let gets_through = |_| {
            sleep(Duration::from_secs(1));
            lab.ping(1).is_ok()
        };
        anyhow::ensure!(
            (0..PATIENCE).any(gets_through),
            "no packet got through the nodes within {PATIENCE} s"
        );
        Ok(lab)
    }

    /// Returns the median way of packets there and back, in ms.
    fn ping(&self, count: u32) -> anyhow::Result<f64> {
        let count = count.to_string();
        let (program, arguments) = self.ping.split_first().context("the lab names a command")?;
        let output = Command::new(program)
            .args(arguments)
            .args(["-c", &count, "-i", "0.02", "-W", "1"])
            .output()
            .with_context(|| format!("`{program}` does not start"))?;
        let text = String::from_utf8_lossy(&output.stdout);
        let times = Summary::of(text.lines().filter_map(time_of)).filter(|_| output.status.success());
        Ok(times.with_context(|| format!("no packet came back:\n{text}"))?.median)
    }

    /// Returns the CPU time of all that the lab started, in ns.
    fn cpu_ns(&self) -> anyhow::Result<u64> {
        let lab = Pid::from_child(&self.process);
        let all =
            std::fs::read_dir("/proc")?.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
        let ours = all.filter_map(Pid::from_raw).filter(|pid| descends(*pid, lab));
        // One that ends meanwhile had next to nothing.
        Ok(ours.filter_map(|pid| cpu_time_ns(pid).ok()).sum())
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        // It gives everything back itself.
        end(&mut self.process);
    }
}

/// Returns the time of an answer, in ms, from a line of ping(8).
fn time_of(line: &str) -> Option<f64> {
    line.split_once("time=")?.1.split_whitespace().next()?.parse().ok()
}

/// Returns whether a process was started by another one, or by what that started.
fn descends(pid: Pid, from: Pid) -> bool {
    std::iter::successors(parent(pid), |pid| parent(*pid)).any(|ancestor| ancestor == from)
}

/// Measures both in turn.
///
/// # Errors
/// Whatever kept it from measuring.
pub(super) fn measure(rounds: Option<u32>, out: &mut Output) -> anyhow::Result<Report> {
    let (placement, pace) = (Placement::choose()?, Pace::new(false, rounds));
    let environment = out.machine();
    let mut notes = busy(&environment);
    let mut rounds = Rounds::default();
    each_round(pace, &mut notes, |number| {
        let (mut round, mut kinds) = (Round::new(), KINDS);
        kinds.rotate_left(number as usize % KINDS.len());
        for kind in kinds {
            let lab = Lab::start(&to_toml(kind, placement))?;
            let before = lab.cpu_ns()?;
            sleep(WINDOW);
            let taken = lab.cpu_ns()?.saturating_sub(before);
            round.insert(format!("{kind}.core_percent"), 100.0 * taken as f64 / WINDOW.as_nanos() as f64);
            round.insert(format!("{kind}.ping_ms"), lab.ping(PINGS)?);
        }
        rounds.push(round);
        Ok(())
    })?;
    Ok(report(&rounds, environment, notes))
}

fn report(rounds: &Rounds, environment: Environment, notes: Vec<String>) -> Report {
    let row = |(kind, value, unit, note): (&str, &str, &'static str, &'static str)| {
        let name = format!("{kind}.{value}");
        Some(Row { summary: rounds.summary(&name)?, name: name.into(), unit, note })
    };
    let rows = KINDS.into_iter().flat_map(|kind| {
        let of_core = "of a core, all six nodes together, without packets: aim of `sleep` less than 10";
        [(kind, "core_percent", "%", of_core), (kind, "ping_ms", "ms", "through all nodes and back, median")]
    });
    let ratio = rounds.ratio("sleep.ping_ms", "yield.ping_ms").map(|summary| Ratio {
        name: "idle.ping_sleep_over_yield".into(),
        summary,
        aim: String::new(),
    });
    Report {
        bench: "neo-nsh idle".into(),
        heading: "six nodes in a row without packets, two NFs; all managers on one core".to_owned(),
        settings: json!({ "rounds": rounds.len(), "window_s": WINDOW.as_secs_f64(), "pings": PINGS }),
        environment,
        sections: vec![Section { title: "idle nodes", note: "", rows: rows.filter_map(row).collect() }],
        ratios: ratio.into_iter().collect(),
        conserved: true,
        notes,
        rounds: rounds.clone(),
    }
}

#[cfg(test)]
mod tests {
    use headgate_config::{Catalog, ShippedNf};

    use super::*;

    #[test]
    fn its_configurations_are_accepted() {
        let catalog = Catalog::new(vec![ShippedNf { name: "monitor".to_owned(), ..ShippedNf::default() }]);
        for kind in KINDS {
            let text = to_toml(kind, Placement { manager: 0, nfs: 1 });
            let parts = headgate_config::parse_parts("idle.toml", &text, &catalog);
            let parts = parts.unwrap_or_else(|refused| panic!("{refused}\n{text}"));
            assert_eq!(parts.len(), NODES.len());
        }
    }

    #[test]
    fn times_are_read() {
        let line = "64 bytes from 192.0.2.11: icmp_seq=1 ttl=64 time=0.61 ms";
        assert_eq!((time_of(line), time_of("5 packets transmitted")), (Some(0.61), None));
    }
}
