//! `--tune`: from a profile to changes of the configuration, tried one after another under the traffic there
//! is.

use std::path::Path;
use std::time::{Duration, Instant};

use headgate_api::status::{ChainStatus, Snapshot};
use headgate_api::{self as api, Request};
use headgate_config::{self as config, Config, Machine};
use headgate_decide::profile::{
    CoreLoad, Effect, Kept, PAIRS, Proposal, Ratio, Stage, Window, is_better, propose,
};
use headgate_decide::statistics::Summary;
use headgate_host::signals::{self, Wish};
use headgate_units::text as units;
use serde::Serialize;
use serde_json::Value as Json;
use toml::Table;

use super::edit::Change;
use super::observe::snapshot;
use super::report::{reason, time};
use crate::error::{CommandError, Exit};
use crate::output::{Ink, Output, Paint};
use crate::shipped::Shipped;

/// Time that a changed configuration runs before it is measured. Our choice: weights follow demand within a
/// tenth of a second, and queues fill and drain in milliseconds.
const SETTLES: Duration = Duration::from_millis(500);
/// Time between two samples at the queues.
const SAMPLE_EVERY: Duration = Duration::from_millis(10);

/// The file of a running manager.
pub struct ConfigFile {
    name: String,
    text: String,
    table: Table,
    /// Parsed configuration.
    pub config: Config,
}

impl ConfigFile {
    /// Reads it; refused when the running manager works by another.
    pub fn load(path: &Path, now: &Snapshot) -> Result<Self, CommandError> {
        let shipped = Shipped::find()?;
        let mut machine = Machine::observe();
        // The memory is reserved already, by the manager that is running.
        (machine.memory_bytes, machine.hugepages_free) = (u64::MAX, u64::MAX);
        let config = config::load(path, &shipped.catalog, &machine, None)?.config;
        let refuse = |why: String| {
            let message =
                format!("{}: {why}; name the manager's file, or `headgate apply` it first", path.display());
            CommandError::new(Exit::Configuration, message)
        };
        let text = std::fs::read_to_string(path).map_err(|error| refuse(error.to_string()))?;
        let table = text.parse::<Table>().map_err(|error| refuse(error.to_string()))?;
        if config.manager.name != now.manager.name {
            let (one, two) = (&config.manager.name, &now.manager.name);
            return Err(refuse(format!("it is of manager {one:?}, and {two:?} was asked")));
        }
        for chain in &config.chains {
            let stages: Vec<&String> = chain.stages.iter().map(|nf| &config.nfs[nf.index()].name).collect();
            let there = now.chains.iter().find(|there| there.name == chain.name);
            if there.is_none_or(|there| there.stages.iter().collect::<Vec<_>>() != stages) {
                return Err(refuse(format!(
                    "its chain {:?} is not the one that the manager runs",
                    chain.name
                )));
            }
        }
        let name = std::path::absolute(path).unwrap_or_else(|_| path.to_owned()).display().to_string();
        Ok(Self { name, text, table, config })
    }
}

/// State of a tuning run.
pub struct Tuner<'a> {
    /// Output of the command.
    pub out: &'a Output,
    /// The manager's name.
    pub manager: &'a str,
    /// The chain.
    pub chain: &'a ChainStatus,
    /// The manager's file.
    pub file: &'a ConfigFile,
}

/// Results of all proposals.
#[derive(Debug, Serialize)]
pub struct Tuned {
    /// The chain.
    pub chain: String,
    /// The proposals, the most promising first.
    pub proposals: Vec<Tried>,
    /// Whether they were tried.
    pub applied: bool,
}

/// A proposal.
#[derive(Debug, Serialize)]
pub struct Tried {
    /// Reason.
    pub reason: String,
    /// Largest gain that is expected, in nanoseconds for each packet.
    pub gain_ns: f64,
    /// The lines of the configuration.
    pub lines: String,
    /// Result; absent when it was not tried.
    pub verdict: Option<Verdict>,
}

/// Result of a proposal.
#[derive(Debug, Serialize)]
pub struct Verdict {
    /// Whether the manager works by it now.
    pub kept: bool,
    /// Description in words.
    pub words: String,
    /// Without it.
    pub before: Option<Figures>,
    /// Figures with the proposal.
    pub after: Option<Figures>,
    /// Figures with it over those without it.
    pub effect: Option<EffectReport>,
}

/// Measured figures: medians of windows.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Figures {
    /// Packets that left, a second.
    pub packets_per_second: f64,
    /// CPU time of the chain's NFs for each packet, in nanoseconds.
    pub cpu_ns: f64,
    /// Time of a packet at the chain's NFs, in nanoseconds.
    pub stay_ns: Option<f64>,
}

/// Each figure with a change over the same without it just before and after: median, least, most.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct EffectReport {
    /// Packets that left.
    pub packets: [f64; 3],
    /// CPU time for each.
    pub cpu: [f64; 3],
    /// Time at the NFs.
    pub stay: Option<[f64; 3]>,
}

impl EffectReport {
    fn of(effect: &Effect) -> Self {
        let of = |ratio: &Ratio| [ratio.median, ratio.least, ratio.most];
        Self { packets: of(&effect.rate), cpu: of(&effect.cpu), stay: effect.latency.as_ref().map(of) }
    }

    fn words(&self) -> String {
        let of = |what: &str, [median, least, most]: [f64; 3]| {
            format!("{what} {median:.2} times ({least:.2} to {most:.2})")
        };
        let stay = self.stay.map_or(String::new(), |stay| format!(", {}", of("time at its NFs", stay)));
        format!("{}, {}{stay}", of("packets", self.packets), of("CPU", self.cpu))
    }
}

impl Figures {
    fn of(windows: &[Window]) -> Option<Self> {
        let median = |figure: fn(&Window) -> Option<f64>| Summary::of(windows.iter().filter_map(figure));
        Some(Self {
            packets_per_second: median(|window| Some(window.rate))?.median,
            cpu_ns: median(|window| Some(window.cpu_ns))?.median,
            stay_ns: median(|window| window.latency_ns.filter(|ns| *ns > 0.0)).map(|summary| summary.median),
        })
    }

    fn words(&self) -> String {
        let stay = self.stay_ns.map_or(String::new(), |ns| format!(", {} at its NFs", time(ns)));
        format!("{}, {} CPU{stay}", units::packet_rate(self.packets_per_second), time(self.cpu_ns))
    }
}

/// A configuration as it is written.
#[derive(Clone)]
struct Written {
    table: Table,
    text: String,
}

impl Tuner<'_> {
    /// Proposes, and with a time to measure for tries.
    pub fn run(
        &self,
        stages: &[Stage],
        cores: &[CoreLoad],
        try_for: Option<Duration>,
    ) -> Result<Tuned, CommandError> {
        let names = &self.chain.stages;
        let proposals: Vec<Proposal> = if stages.is_empty() {
            Vec::new()
        } else {
            propose(stages, cores).into_iter().flatten().collect()
        };
        let mut tried: Vec<Tried> = proposals
            .iter()
            .map(|proposal| Tried {
                reason: reason(proposal, names),
                gain_ns: proposal.gain_ns,
                lines: Change::of(proposal, self.chain).lines(&self.file.table),
                verdict: None,
            })
            .collect();
        if let Some(time) = try_for.filter(|_| !proposals.is_empty()) {
            let changes = proposals.iter().map(|proposal| Change::of(proposal, self.chain)).collect();
            self.try_all(changes, &mut tried, time)?;
        }
        Ok(Tuned { chain: self.chain.name.clone(), proposals: tried, applied: try_for.is_some() })
    }

    fn try_all(&self, changes: Vec<Change>, tried: &mut [Tried], time: Duration) -> Result<(), CommandError> {
        let wish = signals::catch()?;
        let mut kept = Written { table: self.file.table.clone(), text: self.file.text.clone() };
        for (change, tried) in changes.into_iter().zip(tried) {
            if wish.count() > 0 {
                return Err(CommandError::new(
                    Exit::Failed,
                    "stopped; the manager works by what was kept until then",
                ));
            }
            let mut table = kept.table.clone();
            if !change.make(&mut table) {
                tried.verdict = Some(Verdict::without("what was kept before leaves nothing of it"));
                continue;
            }
            let text = toml::to_string(&table).map_err(|error| {
                CommandError::new(Exit::Failed, format!("the change cannot be written: {error}"))
            })?;
            let next = Written { table, text };
            self.out.note(format!("trying: {}", tried.reason));
            if let Err(why) = self.apply(&next.text) {
                tried.verdict = Some(Verdict::without(&format!("refused: {why}")));
                continue;
            }
            // Whatever happens from here on, the manager goes back to what it had unless this is better.
            let verdict = self.in_turn(&kept.text, &next.text, time, wish);
            let better = verdict.as_ref().is_ok_and(|verdict| verdict.kept);
            self.apply(if better { &next.text } else { &kept.text })?;
            tried.verdict = Some(verdict?);
            if better {
                kept = next;
            }
        }
        Ok(())
    }

    /// Puts a change off and on in turn, and measures each time.
    fn in_turn(&self, off: &str, on: &str, time: Duration, wish: &Wish) -> Result<Verdict, CommandError> {
        let window = |text: &str| {
            self.apply(text)?;
            sleep(SETTLES, wish)?;
            self.window(time / PAIRS as u32, wish)
        };
        let (mut without, mut with) = ([window(off)?; PAIRS + 1], [Window::default(); PAIRS]);
        for pair in 0..PAIRS {
            with[pair] = window(on)?;
            without[pair + 1] = window(off)?;
        }
        let Some(effect) = Effect::of(&without, &with) else {
            return Err(CommandError::new(
                Exit::Failed,
                format!("no packet left chain {} while it was measured; tune under traffic", self.chain.name),
            ));
        };
        let kept = is_better(&effect);
        let words = match kept {
            Kept::MorePackets => "kept: more packets get through",
            Kept::Sooner => "kept: as many packets get through, sooner",
            Kept::Cheaper => "kept: as many packets get through, for less CPU time",
            Kept::No => "put back: it is not better each time",
        };
        Ok(Verdict {
            kept: kept != Kept::No,
            words: words.to_owned(),
            before: Figures::of(&without),
            after: Figures::of(&with),
            effect: Some(EffectReport::of(&effect)),
        })
    }

    fn apply(&self, text: &str) -> Result<(), CommandError> {
        let request = Request::Apply { name: self.file.name.clone(), text: text.to_owned() };
        api::call::<Json>(self.manager, &request)?;
        Ok(())
    }

    /// Measures the chain for so long.
    fn window(&self, time: Duration, wish: &Wish) -> Result<Window, CommandError> {
        let before = snapshot(self.manager)?;
        let began = Instant::now();
        let (mut held, mut samples) = (0, 0u32);
        while began.elapsed() < time {
            sleep(SAMPLE_EVERY, wish)?;
            held += self.totals(&snapshot(self.manager)?).2;
            samples += 1;
        }
        let after = snapshot(self.manager)?;
        let (then, now) = (self.totals(&before), self.totals(&after));
        let seconds = after.at_ns.saturating_sub(before.at_ns) as f64 / 1e9;
        let left = now.0.saturating_sub(then.0);
        let (rate, held) = (left as f64 / seconds, held as f64 / f64::from(samples.max(1)));
        Ok(Window {
            rate,
            cpu_ns: now.1.saturating_sub(then.1) as f64 / left.max(1) as f64,
            // Little's law.
            latency_ns: (rate > 0.0).then(|| held / rate * 1e9),
        })
    }

    /// Packets that left the chain, CPU time of its NFs, packets at them.
    fn totals(&self, now: &Snapshot) -> (u64, u64, u64) {
        let Some(chain) = now.chains.iter().find(|chain| chain.name == self.chain.name) else {
            return (0, 0, 0);
        };
        let nfs = now.nfs.iter().filter(|nf| chain.stages.contains(&nf.nf));
        nfs.fold((chain.left, 0, 0), |(left, cpu, held), nf| {
            (left, cpu + nf.cpu_ns, held + nf.held + nf.pending)
        })
    }
}

/// Sleeps, unless a stop is requested.
fn sleep(time: Duration, wish: &Wish) -> Result<(), CommandError> {
    match wish.wait(0, Some(time)) {
        0 => Ok(()),
        _ => Err(CommandError::new(Exit::Failed, "stopped; what was being tried is put back")),
    }
}

impl Verdict {
    fn without(words: &str) -> Self {
        Self { kept: false, words: words.to_owned(), before: None, after: None, effect: None }
    }
}

impl Tuned {
    /// Returns the report as text.
    pub fn text(&self, paint: Paint) -> String {
        if self.proposals.is_empty() {
            return format!("tuning of chain {}: nothing promises to make it better\n", self.chain);
        }
        let mut text = format!("{}\n", paint.ink(Ink::Bold, &format!("tuning of chain {}", self.chain)));
        for (number, tried) in self.proposals.iter().enumerate() {
            text += &format!("{}. {}\n", number + 1, tried.reason);
            for line in tried.lines.lines() {
                text += &format!("     {line}\n");
            }
            let Some(verdict) = &tried.verdict else { continue };
            let ink = if verdict.kept { Ink::Green } else { Ink::Dim };
            text += &format!("   {}\n", paint.ink(ink, &verdict.words));
            for (when, figures) in [("without", verdict.before), ("with", verdict.after)] {
                text += &figures.map_or(String::new(), |figures| format!("   {when}: {}\n", figures.words()));
            }
            text += &verdict.effect.map_or(String::new(), |effect| format!("   {}\n", effect.words()));
        }
        let kept =
            self.proposals.iter().any(|tried| tried.verdict.as_ref().is_some_and(|verdict| verdict.kept));
        text + match (self.applied, kept) {
            (false, _) => "--apply tries them on the running manager, and keeps what is better\n",
            (true, true) => {
                "the manager works by what was kept; write these lines into its file to keep them\n"
            }
            (true, false) => "the manager works by its file, as before\n",
        }
    }
}
