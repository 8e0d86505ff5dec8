//! Managers of a lab's nodes.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use headgate_api::daemon::{Configuration, Daemon, DaemonError, Options};

use super::bed::{Bed, NodePlace};
use crate::error::{CommandError, Exit};
use crate::output::Output;
use crate::view;

/// Time from the end of a manager to its next start. Our choice: long enough for a person to see that it
/// ended.
const RESTART_AFTER: Duration = Duration::from_secs(1);

/// One manager.
struct NodeManager {
    place: NodePlace,
    daemon: Option<Daemon>,
    /// When it is started again.
    due: Option<Instant>,
}

/// All managers.
pub struct Nodes {
    program: PathBuf,
    file: PathBuf,
    all: Vec<NodeManager>,
}

impl Nodes {
    /// Starts all of them at once, and waits until they are ready.
    pub fn start(
        bed: &Bed,
        program: &Path,
        file: &Path,
        is_asked: impl Fn() -> bool,
    ) -> Result<Self, CommandError> {
        let mut nodes = Self { program: program.to_owned(), file: file.to_owned(), all: Vec::new() };
        for place in bed.nodes() {
            let daemon = Some(nodes.spawn(bed, place)?);
            nodes.all.push(NodeManager { place: place.clone(), daemon, due: None });
        }
        for node in &mut nodes.all {
            let Some(daemon) = &mut node.daemon else { continue };
            daemon.ready(&is_asked).map_err(|error| of_node(&node.place, error))?;
        }
        Ok(nodes)
    }

    /// Starts a manager in its node's namespace, whose thread need not outlive the start.
    fn spawn(&self, bed: &Bed, place: &NodePlace) -> Result<Daemon, CommandError> {
        let options = Options::new(self.program.clone(), Configuration::File(self.file.clone()));
        let options = Options { node: Some(place.node.clone()), ..options };
        let found = bed.places().find(|(one, _)| one.node == place.node);
        let Some((_, namespace)) = found else { return Err(CommandError::new(Exit::Failed, "no such node")) };
        namespace.run(|| Daemon::spawn(options))?.map_err(|error| of_node(place, error))
    }

    /// Notices managers that ended by themselves, and starts them again when it is time.
    pub fn tend(&mut self, bed: &Bed, out: &Output) -> Result<(), CommandError> {
        let now = Instant::now();
        for at in 0..self.all.len() {
            let node = &mut self.all[at];
            if node.daemon.as_ref().is_some_and(Daemon::has_ended) {
                let why = match node.daemon.take().map(Daemon::stop) {
                    Some(Err(error)) => error.to_string(),
                    _ => "it was told to stop".to_owned(),
                };
                node.due = Some(now + RESTART_AFTER);
                out.note(format!("node {}: {why}; it is started again", node.place.node));
            }
            if node.due.is_some_and(|due| due <= now) {
                let place = node.place.clone();
                let daemon = self.spawn(bed, &place)?;
                let node = &mut self.all[at];
                (node.daemon, node.due) = (Some(daemon), None);
                out.note(format!("node {} starts", place.node));
            }
        }
        Ok(())
    }

    /// Stops all of them in order, and tells what passed each. Returns the gravest exit.
    pub fn stop(self, out: &Output) -> Result<Exit, CommandError> {
        let mut gravest = Exit::Ok;
        for NodeManager { place, daemon, .. } in self.all {
            let Some(daemon) = daemon else { continue };
            match daemon.stop() {
                Ok(ended) => {
                    out.document_line(&ended.last)?;
                    if !out.json {
                        out.text(format!(
                            "\nNode {}\n{}",
                            place.node,
                            view::totals(&ended.last, out.data_paint)
                        ))?;
                    }
                    if ended.exit != Exit::Ok {
                        gravest = ended.exit;
                    }
                }
                Err(error) => {
                    out.note(format!("node {}: {error}", place.node));
                    gravest = error.exit();
                }
            }
        }
        Ok(gravest)
    }
}

fn of_node(place: &NodePlace, error: DaemonError) -> CommandError {
    let exit = error.exit();
    CommandError::new(exit, format!("node {}: {error}", place.node))
}
