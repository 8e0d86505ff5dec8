//! `headgate cluster apply`: one file for all nodes, by their store.

mod given;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use clap::ValueHint;
use headgate_cluster::forecast;
use headgate_cluster::{NodeAnswer, Proposal, PublishError, Publisher};
use headgate_config::model::Node;
use headgate_config::{self as config, Loaded};
use headgate_units::text::harmless;
use serde_json::{Value as Json, json};

use crate::error::{CommandError, Exit};
use crate::output::Output;
use crate::shipped::Shipped;
use crate::view;
use given::Given;

/// Longest wait until all nodes have looked at a file, and until all go by it. Our choice: nodes look five
/// times a period, and a change drains what it removes.
const CHECK_PATIENCE: Duration = Duration::from_secs(20);
const APPLY_PATIENCE: Duration = Duration::from_secs(60);
/// Time between two looks at the store.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Give all nodes another file, or none of them
///
/// Every node that lives looks first whether it can go by the file, as `headgate diff` does at one. If all
/// can, the file is put in force in the store that `[cluster]` names, and each node changes to its part
/// without losing a packet; a node that comes later goes by it, too. If one cannot, nothing is changed.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Configuration file, with all nodes
    #[arg(value_hint = ValueHint::FilePath)]
    file: PathBuf,
    /// Change nothing: print what would change at each node, and what starts, ends and is overloaded then
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    given: Given,
}

/// Runs it.
pub fn run(args: &Args, out: &Output) -> Result<Exit, CommandError> {
    let file = File::read(args, out)?;
    if args.dry_run { dry_run(&file, args, out) } else { apply(file, out) }
}

/// A file, and the part of each node.
struct File {
    name: String,
    parts: Vec<Loaded>,
}

impl File {
    fn read(args: &Args, out: &Output) -> Result<Self, CommandError> {
        let name = args.file.display().to_string();
        let parts = config::load_parts(&args.file, &Shipped::find()?.catalog)?;
        if parts.is_empty() {
            let message = format!("{name} is for one machine: `headgate apply {name}` applies it");
            return Err(CommandError::new(Exit::Configuration, message));
        }
        if let Some(part) = parts.first() {
            out.report(&part.warnings);
        }
        Ok(Self { name, parts })
    }

    fn nodes(&self) -> impl Iterator<Item = &Node> {
        self.parts.iter().filter_map(|part| part.config.node.as_ref())
    }

    fn publisher(&self) -> Option<Publisher> {
        self.nodes().find_map(|node| node.store.as_ref()).map(Publisher::of)
    }

    fn digest(&self) -> String {
        self.nodes().next().map_or_else(String::new, |node| node.digest.to_string())
    }

    fn text(&self) -> String {
        self.parts.first().map_or_else(String::new, |part| part.text.clone())
    }
}

fn apply(file: File, out: &Output) -> Result<Exit, CommandError> {
    let mut nodes = file.publisher().ok_or_else(|| {
        let name = &file.name;
        let message = format!(
            "{name} names no store, by which nodes could be given a file: add `[cluster]` with `store`, or use \
             `headgate apply {name} --node NAME` at each node"
        );
        CommandError::new(Exit::Configuration, message)
    })?;
    refuse_unknown(&file, &nodes.nodes().map_err(refused)?)?;
    if let Some(number) = nodes.in_force(&file.digest()).map_err(refused)? {
        out.document(&json!({ "file": number, "in_force": true, "nodes": [] }))?;
        out.text(format_args!("nothing to change: file {number}, which is in force, says the same\n"))?;
        return Ok(Exit::Ok);
    }
    let (proposal, checked) = check(&file, &mut nodes)?;
    let problems = problems(&checked, CHECK_PATIENCE);
    if !problems.is_empty() {
        nodes.withdraw(&proposal).map_err(refused)?;
        return Err(failed(format!("nothing was changed: {}", problems.join("\n"))));
    }
    nodes.put_in_force(&proposal).map_err(refused)?;
    let answers = wait(&mut nodes, &proposal, true, APPLY_PATIENCE)?;
    let told = told(&file, proposal.revision(), true, &answers);
    out.document(&told)?;
    out.text(view::applied(proposal.revision(), true, &of_file(&file, &answers), out.data_paint))?;
    let problems = self::problems(&answers, APPLY_PATIENCE);
    if problems.is_empty() {
        return Ok(Exit::Ok);
    }
    out.note(format_args!(
        "file {} is in force, but not everywhere: {}",
        proposal.revision(),
        problems.join("\n")
    ));
    Ok(Exit::Failed)
}

/// Says what would change, and what nodes would do then.
fn dry_run(file: &File, args: &Args, out: &Output) -> Result<Exit, CommandError> {
    let configs: Vec<_> = file.parts.iter().map(|part| part.config.clone()).collect();
    let given = args.given.read(&configs, out)?;
    let (revision, answers) = match asked(file) {
        Ok((revision, answers)) => (Some(revision), answers),
        Err(why) => {
            out.note(format_args!("no node was asked what would change there: {why}"));
            (None, BTreeMap::new())
        }
    };
    let forecast = forecast::forecast(&configs, &given);
    let mut document = told(file, revision.unwrap_or(0), false, &answers);
    document["forecast"] = serde_json::to_value(&forecast).unwrap_or_default();
    out.document(&document)?;
    if revision.is_some() {
        out.text(view::applied(0, false, &of_file(file, &answers), out.data_paint))?;
    }
    out.text(view::forecast(&forecast, out.data_paint))?;
    let is_refused = answers.values().any(|answer| answer.as_ref().is_none_or(|one| one.problem.is_some()));
    let is_over = forecast.cores.iter().any(|core| core.asked > 1.0)
        || forecast.chains.iter().any(|chain| chain.lost > chain.entered * 1e-3);
    Ok(if is_refused || is_over { Exit::CheckNotMet } else { Exit::Ok })
}

/// Asks nodes what would change, and takes the question back.
fn asked(file: &File) -> Result<(u64, BTreeMap<String, Option<NodeAnswer>>), CommandError> {
    let mut nodes = file.publisher().ok_or_else(|| failed(format!("{} names no store", file.name)))?;
    let living = nodes.nodes().map_err(refused)?;
    if living.is_empty() {
        return Err(failed("no node lives in the store".to_owned()));
    }
    refuse_unknown(file, &living)?;
    let (proposal, answers) = check(file, &mut nodes)?;
    nodes.withdraw(&proposal).map_err(refused)?;
    Ok((proposal.revision(), answers))
}

/// Has all living nodes look at a file.
fn check(
    file: &File,
    nodes: &mut Publisher,
) -> Result<(Proposal, BTreeMap<String, Option<NodeAnswer>>), CommandError> {
    let proposal = nodes.propose(file.text(), file.digest()).map_err(refused)?;
    let answers = wait(nodes, &proposal, false, CHECK_PATIENCE)?;
    Ok((proposal, answers))
}

/// Waits until all living nodes have answered, or for so long.
fn wait(
    nodes: &mut Publisher,
    proposal: &Proposal,
    is_in_force: bool,
    patience: Duration,
) -> Result<BTreeMap<String, Option<NodeAnswer>>, CommandError> {
    let began = Instant::now();
    loop {
        let answers = nodes.answers(proposal, is_in_force).map_err(refused)?;
        if answers.values().all(Option::is_some) || began.elapsed() >= patience {
            return Ok(answers);
        }
        thread::sleep(LOOK_EVERY);
    }
}

/// Refuses a file that has not all nodes which live.
fn refuse_unknown(file: &File, living: &[String]) -> Result<(), CommandError> {
    let is_known = |name: &&String| file.nodes().any(|node| node.name == **name);
    let unknown: Vec<String> =
        living.iter().filter(|name| !is_known(name)).map(|name| harmless(name)).collect();
    if unknown.is_empty() {
        return Ok(());
    }
    Err(failed(format!(
        "nothing was changed: {} is no node of {}, and lives in its store: stop it first, with `headgate down` there",
        unknown.join(", "),
        file.name
    )))
}

fn problems(answers: &BTreeMap<String, Option<NodeAnswer>>, patience: Duration) -> Vec<String> {
    let problem = |(node, answer): (&String, &Option<NodeAnswer>)| {
        let why = match answer {
            None => Some(format!("it has not answered within {} s", patience.as_secs())),
            Some(answer) => answer.problem.clone(),
        };
        // A refused file is told in several lines.
        let lines = |why: String| why.lines().map(harmless).collect::<Vec<_>>().join("\n");
        why.map(|why| format!("node {}: {}", harmless(node), lines(why)))
    };
    answers.iter().filter_map(problem).collect()
}

/// Returns what each node of a file answered, in the order of the file; `None`: it does not live.
fn of_file<'f>(
    file: &'f File,
    answers: &BTreeMap<String, Option<NodeAnswer>>,
) -> Vec<(&'f str, Option<Option<NodeAnswer>>)> {
    file.nodes().map(|node| (node.name.as_str(), answers.get(&node.name).cloned())).collect()
}

fn told(
    file: &File,
    revision: u64,
    is_in_force: bool,
    answers: &BTreeMap<String, Option<NodeAnswer>>,
) -> Json {
    let node = |(name, answer): (&str, Option<Option<NodeAnswer>>)| {
        let state = view::answer_state(is_in_force, answer.as_ref());
        let answer = answer.flatten();
        let changes = answer.as_ref().map(|answer| answer.changes.clone()).unwrap_or_default();
        json!({ "node": name, "state": state, "changes": changes, "problem": answer.and_then(|one| one.problem) })
    };
    let nodes: Vec<Json> = of_file(file, answers).into_iter().map(node).collect();
    json!({ "file": revision, "in_force": is_in_force, "nodes": nodes })
}

fn refused(error: PublishError) -> CommandError {
    match error {
        PublishError::Store(_) => CommandError::environment(error),
        other => failed(other.to_string()),
    }
}

fn failed(message: String) -> CommandError {
    CommandError::new(Exit::Failed, message)
}
