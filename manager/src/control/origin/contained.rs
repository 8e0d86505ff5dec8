//! Process in a container: made by an OCI runtime, and from then on treated as if it had been launched.
//!
//! The runtime takes some 50 ms and the control loop does not wait for it: an NF whose container is being
//! made counts as starting. Its first messages wait in its socket until its process is known.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use headgate_host::cgroup::NfGroup;
use headgate_host::container::{Container, Making, Plan};
use headgate_host::process::{self, ProcessError};
use headgate_host::undo::Action;
use headgate_host::{Pid, Signal};
use headgate_host::{cores, credentials};
use headgate_session::launch::{LAUNCH_VARIABLE, Launch as Orders, Program};
use headgate_session::message::SOCKET_VARIABLE;

use super::Birth;
use crate::control::Settings;
use crate::control::ledger::Ledger;
use crate::scratch::Scratch;

/// Path of the program that hosts NFs inside a container.
const NF_PROGRAM: &str = "/run/headgate-nfs";

/// Container, its resources on this machine, and its process.
pub struct Contained {
    stage: Stage,
    folder: Scratch,
    groups: String,
    /// Its process, for the janitor.
    process: Option<Action>,
}

enum Stage {
    /// A runtime is making it.
    Making(Making),
    /// It runs.
    Made(Container),
}

fn plan(
    nf_program: &Path,
    rootfs: Option<PathBuf>,
    birth: Birth<'_>,
    name: &str,
) -> Result<(Plan, OwnedFd, OwnedFd), String> {
    let Birth { orders, user, network, socket, output, .. } = birth;
    let orders = Orders { network_rights: network.is_some(), ..orders };
    let text = serde_json::to_string(&orders).map_err(|error| error.to_string())?;
    let mut files = vec![(nf_program.to_owned(), PathBuf::from(NF_PROGRAM))];
    let hidden = hidden_program(&orders.program).filter(|_| rootfs.is_none());
    files.extend(hidden.map(|program| (program.clone(), program)));
    let plan = Plan {
        name: name.to_owned(),
        command: vec![NF_PROGRAM.to_owned(), "launched".to_owned(), orders.name.clone()],
        environment: vec![(LAUNCH_VARIABLE.to_owned(), text), (SOCKET_VARIABLE.to_owned(), "0".to_owned())],
        // Only root's containers are made, and root's NFs have a user.
        user: user.map_or((0, 0), |user| (user.uid, user.gid)),
        rootfs,
        files,
        network: network.map(PathBuf::from),
    };
    Ok((plan, socket, output))
}

/// Returns a user's own program that lies where a container has folders in memory.
fn hidden_program(program: &Program) -> Option<PathBuf> {
    let Program::Exec(command) = program else { return None };
    let path = command.first().and_then(|path| std::path::absolute(path).ok())?;
    (path.starts_with("/tmp") || path.starts_with("/run")).then_some(path)
}

impl Contained {
    /// Has a container made for a process, with this file system; `None`: the machine's.
    ///
    /// # Errors
    /// A sentence; nothing is left behind then.
    pub(super) fn spawn(
        rootfs: Option<PathBuf>,
        birth: Birth<'_>,
        settings: &Settings,
        ledger: &mut Ledger,
    ) -> Result<Self, String> {
        if !credentials::is_root() {
            let why = "a container takes root: run the manager as root, or leave `environment` out";
            return Err(why.to_owned());
        }
        let folder = Scratch::make(ledger.janitor())?;
        let number = folder.path().file_name().unwrap_or_default().to_string_lossy();
        let groups = format!("headgate-{number}");
        let (plan, socket, output) = plan(&settings.nf_program, rootfs, birth, &groups)?;
        ledger.before_changing(Action::RemoveGroups { name: groups.clone() });
        match Making::start(&plan, folder.path(), socket, output) {
            Ok(making) => Ok(Self { stage: Stage::Making(making), folder, groups, process: None }),
            Err(error) => {
                drop(folder);
                ledger.take_back_groups(&groups);
                Err(error.to_string())
            }
        }
    }

    /// Returns whether its process is known.
    pub const fn is_made(&self) -> bool {
        matches!(self.stage, Stage::Made(_))
    }

    pub(super) fn pid(&self) -> Pid {
        match &self.stage {
            Stage::Making(making) => making.process().pid(),
            Stage::Made(container) => container.pid(),
        }
    }

    /// Returns whether it lives. A runtime that has ended well is no end of its container:
    /// [`Contained::poll`] handles it first.
    pub(super) fn is_alive(&self) -> Result<bool, ProcessError> {
        match &self.stage {
            Stage::Making(making) => making.process().is_alive(),
            Stage::Made(container) => container.is_alive(),
        }
    }

    pub(super) fn signal(&self, signal: Signal) -> Result<(), ProcessError> {
        match &self.stage {
            Stage::Making(making) => making.process().signal(signal),
            Stage::Made(container) => container.signal(signal),
        }
    }

    pub(super) fn reap(&self) -> String {
        match &self.stage {
            Stage::Making(_) => "it has no container".to_owned(),
            // Its parent is the runtime's concern.
            Stage::Made(_) => "its container ended".to_owned(),
        }
    }

    pub(super) fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.stage {
            Stage::Making(making) => making.process().as_fd(),
            Stage::Made(container) => container.as_fd(),
        }
    }

    /// Takes over the process of a container that was made.
    pub(super) fn poll(
        &mut self,
        core: u32,
        group: &NfGroup,
        ledger: &mut Ledger,
    ) -> Result<Vec<String>, String> {
        let Stage::Making(making) = &mut self.stage else { return Ok(Vec::new()) };
        if making.process().is_alive().unwrap_or(false) {
            return Ok(Vec::new());
        }
        let container = making.finish().map_err(|error| error.to_string())?;
        let pid = container.pid();
        self.stage = Stage::Made(container);
        if let Some(started) = process::started_ticks(pid) {
            let end = Action::EndProcess { pid: pid.as_raw_pid(), started };
            self.process = Some(end.clone());
            ledger.before_changing(end);
        }
        let pinned =
            cores::pin_process(pid, &[core].into_iter().collect()).err().map(|error| error.to_string());
        // A runtime's own groups are beside ours, and confine it to no core.
        let placed = group.enter(pid).err().map(|error| error.to_string());
        let told = |why: String| format!("its container is not where it should be: {why}");
        Ok(pinned.into_iter().chain(placed).map(told).collect())
    }

    pub(super) fn release(self, ledger: &mut Ledger) {
        let Self { stage, folder, groups, process } = self;
        drop((stage, folder));
        ledger.take_back_groups(&groups);
        ledger.take_back(|action| Some(action) == process.as_ref());
    }
}
