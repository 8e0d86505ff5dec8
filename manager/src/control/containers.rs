//! NFs in containers: made by an OCI runtime, and from then on dealt with as if they had been launched.
//!
//! The runtime takes some 50 ms and the control loop does not wait for it: an NF whose container is being
//! made is one that starts. Its first words wait in its socket until it is known which process it is.

use std::os::fd::OwnedFd;
use std::path::PathBuf;

use headgate_host::container::{Making, Plan};
use headgate_host::process::{self, Output};
use headgate_host::undo::Action;
use headgate_host::{cgroup, cores, credentials};
use headgate_session::launch::{LAUNCH_VARIABLE, Launch as Orders};
use headgate_session::message::SOCKET_VARIABLE;

use super::Control;
use super::instance::Body;
use super::launch::launched_program;
use crate::config::model::{Nf, Program};
use crate::scratch::Scratch;
use crate::users;

/// Where a container sees the program that hosts NFs.
const NF_PROGRAM: &str = "/run/headgate-nfs";

/// What a container has on this machine, for as long as it is there.
pub struct Home {
    folder: Scratch,
    groups: String,
    /// Its process, for the janitor.
    process: Option<Action>,
}

impl Control {
    /// Has a container made for an instance.
    pub(super) fn make_container(&mut self, at: usize, socket: OwnedFd) -> Result<(Body, Home), String> {
        if !credentials::is_root() {
            return Err(
                "a container takes root: run the manager as root, or leave `environment` out".to_owned()
            );
        }
        let folder = Scratch::make(self.settings.janitor.as_ref())?;
        let number = folder.path().file_name().unwrap_or_default().to_string_lossy();
        let groups = format!("headgate-{number}");
        let plan = self.container_plan(at, &groups)?;
        self.schedule.before_changing(Action::RemoveGroups { name: groups.clone() });
        let home = Home { folder, groups, process: None };
        let stderr = if self.settings.nf_output { Output::Inherit } else { Output::Null };
        match Making::start(&plan, home.folder.path(), socket, stderr) {
            Ok(making) => Ok((Body::Making(making), home)),
            Err(error) => {
                self.leave(home);
                Err(error.to_string())
            }
        }
    }

    fn container_plan(&self, at: usize, name: &str) -> Result<Plan, String> {
        let instance = &self.instances[at];
        let nf = &instance.nf;
        // Only root's containers are made, and root's NFs have a user.
        let user = users::of(nf, &self.config, true)?.map_or((0, 0), |user| (user.uid, user.gid));
        let orders = Orders {
            name: instance.name.clone(),
            program: launched_program(&nf.program)?,
            core: None,
            user: None,
            namespace: None,
            manager: 0,
        };
        let orders = serde_json::to_string(&orders).map_err(|error| error.to_string())?;
        let rootfs = nf.container.as_ref().and_then(|container| container.rootfs.clone());
        let mut files = vec![(self.settings.nf_program.clone(), PathBuf::from(NF_PROGRAM))];
        files.extend(
            hidden_program(nf).filter(|_| rootfs.is_none()).map(|program| (program.clone(), program)),
        );
        Ok(Plan {
            name: name.to_owned(),
            command: vec![NF_PROGRAM.to_owned(), "launched".to_owned(), instance.name.clone()],
            environment: vec![
                (LAUNCH_VARIABLE.to_owned(), orders),
                (SOCKET_VARIABLE.to_owned(), "0".to_owned()),
            ],
            user,
            rootfs,
            files,
        })
    }

    /// Takes over the process of a container that was made, or tells why there is none.
    pub(super) fn look_for_container(&mut self, at: usize) {
        let instance = &mut self.instances[at];
        let Some(process) = &mut instance.process else { return };
        let Body::Making(making) = &mut process.body else { return };
        if making.process().is_alive().unwrap_or(false) {
            return;
        }
        let container = match making.finish() {
            Ok(container) => container,
            Err(error) => {
                // The end of the runtime is the end of its NF.
                instance.reason.get_or_insert(error.to_string());
                return;
            }
        };
        let (pid, core) = (container.pid(), instance.core);
        process.body = Body::Contained(container);
        if let (Some(home), Some(started)) = (&mut process.home, process::started_ticks(pid)) {
            let end = Action::EndProcess { pid: pid.as_raw_pid(), started };
            home.process = Some(end.clone());
            self.schedule.before_changing(end);
        }
        let pinned =
            cores::pin_process(pid, &[core].into_iter().collect()).err().map(|error| error.to_string());
        let placed = cgroup::bring_home(pid).err().map(|error| error.to_string());
        let name = self.instances[at].name.clone();
        for why in pinned.into_iter().chain(placed) {
            self.log(&name, format!("its container is not where it should be: {why}"));
        }
    }

    /// Removes what a container has left.
    pub(super) fn leave(&mut self, home: Home) {
        let Home { folder, groups, process } = home;
        drop(folder);
        // A group may be busy for a moment; then the next one that ends takes it along, or the manager's end does.
        let alive: Vec<&String> = self
            .instances
            .iter()
            .filter_map(|instance| Some(&instance.process.as_ref()?.home.as_ref()?.groups))
            .filter(|name| **name != groups)
            .collect();
        self.schedule.take_back(|action| match action {
            Action::RemoveGroups { name } => !alive.contains(&name),
            ended => Some(ended) == process.as_ref(),
        });
    }
}

/// A program of somebody's own that lies where a container has folders in memory.
fn hidden_program(nf: &Nf) -> impl Iterator<Item = PathBuf> {
    let own = match &nf.program {
        Program::Exec { command, .. } => command.first().and_then(|path| std::path::absolute(path).ok()),
        _ => None,
    };
    own.into_iter().filter(|path| path.starts_with("/tmp") || path.starts_with("/run"))
}
