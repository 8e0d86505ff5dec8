//! Instructions of a manager to a process that it launches, before that process becomes an NF.
//!
//! The manager starts `headgate-nfs launched NAME` with one end of a socket pair as standard input and
//! this, as JSON, in [`LAUNCH_VARIABLE`]. The process takes its place (core, user, ties to the manager's
//! life) and only then runs an NF, so the manager needs no code between fork and exec and `posix_spawn`
//! is enough. NAME is only there for people who read `ps`.
//!
//! A process can take its place long before it is needed ([`Launch::waits`]): in its control groups, without
//! rights, under its filters, it waits for a word and then becomes the NF, in a fraction of the time that a
//! start takes.
//!
//! Two facts of the kernel a manager must know: the death signal is tied to the *thread* that spawned, so
//! spawn from one that lives as long as the manager; and where the kernel has no Landlock, an NF may trace
//! its siblings of the same user, so give each trust domain a user of its own.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// The environment variable that carries a [`Launch`] as JSON.
pub const LAUNCH_VARIABLE: &str = "HEADGATE_LAUNCH";

/// Instructions for a launched process: confinement, and the program that it becomes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Launch {
    /// The instance's name, for error messages.
    pub name: String,
    /// Program to run.
    pub program: Program,
    /// The core to stay on; none leaves it to the kernel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub core: Option<usize>,
    /// User to become; none keeps the manager's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<User>,
    /// The network namespace to move into, as a file; none stays in the manager's. A process that moves keeps
    /// the rights to interfaces, routes and packet sockets: it has none but those of the namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Whether it keeps the rights to interfaces of the namespace that it is in already, where a container's
    /// runtime has put it into one of its own.
    #[serde(default, skip_serializing_if = "is_false")]
    pub network_rights: bool,
    /// The files by which it enters its control groups (`cgroup.procs`).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<PathBuf>,
    /// Whether a cpuset holds it on its core, so that it may set the affinity of its threads: it cannot leave
    /// anyway.
    #[serde(default, skip_serializing_if = "is_false")]
    pub cpuset: bool,
    /// Permissions that NFs do not have otherwise.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allow: Vec<Permission>,
    /// The files and folders that it may write, as far as its user may; they are there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub write: Vec<PathBuf>,
    /// Whether it waits in its place until it is told to go ([`crate::message::ToNf::Go`]).
    #[serde(default, skip_serializing_if = "is_false")]
    pub waits: bool,
    /// The manager's process id: a process that finds another parent ends at once. 0 in a container, whose
    /// first process has no parent that it sees.
    pub manager: u32,
}

impl Launch {
    /// Returns orders with which a process keeps its core and its user, may do nothing beyond what an NF may,
    /// and goes at once.
    #[must_use]
    pub const fn new(name: String, program: Program, manager: u32) -> Self {
        Self {
            name,
            program,
            core: None,
            user: None,
            namespace: None,
            network_rights: false,
            groups: Vec::new(),
            cpuset: false,
            allow: Vec::new(),
            write: Vec::new(),
            waits: false,
            manager,
        }
    }

    /// Returns whether its network is its own: a namespace with interfaces, and the rights to these.
    #[must_use]
    pub const fn has_own_network(&self) -> bool {
        self.namespace.is_some() || self.network_rights
    }

    /// Returns whether it may do something.
    #[must_use]
    pub fn allows(&self, permission: Permission) -> bool {
        self.allow.contains(&permission)
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
const fn is_false(flag: &bool) -> bool {
    !*flag
}

/// Something that an NF may not do unless it is allowed by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Permission {
    /// Making namespaces, users' among them, and entering others.
    Namespaces,
    /// Tracing other processes of its own, and reading their memory.
    Ptrace,
    /// Loading BPF programs.
    Bpf,
    /// Performance counters.
    Perf,
    /// The kernel's keyrings.
    Keys,
    /// Handling page faults in user space.
    Userfaultfd,
    /// Changing scheduling: policies, priorities, affinity.
    Scheduling,
    /// io_uring, which does many things without further system calls.
    IoUring,
    /// Mounting file systems. It takes rights that an NF only gets in a namespace of its own. The rules for
    /// files cannot be held beside it, so it gives them up.
    Mount,
    /// TCP: listening and connecting, in the manager's network namespace. In one of its own it needs no
    /// permission.
    Network,
    /// Connecting to abstract Unix sockets of others, such as a manager's memif sockets.
    AbstractSockets,
}

impl Permission {
    /// Every permission.
    pub const ALL: [Self; 11] = [
        Self::Namespaces,
        Self::Ptrace,
        Self::Bpf,
        Self::Perf,
        Self::Keys,
        Self::Userfaultfd,
        Self::Scheduling,
        Self::IoUring,
        Self::Mount,
        Self::Network,
        Self::AbstractSockets,
    ];
}

/// Program that a launched process becomes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Program {
    /// One shipped NF, by name. Its arguments come with the welcome: a JSON object.
    Run(String),
    /// Several shipped NFs in one process, in this order. The welcome's arguments are a JSON array with
    /// one object for each.
    Fuse(Vec<String>),
    /// A foreign program and its command-line arguments. It finds its socket as file descriptor 0, said
    /// in [`crate::message::SOCKET_VARIABLE`].
    Exec(Vec<String>),
}

/// A user and a group, by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct User {
    /// The user's number.
    pub uid: u32,
    /// The only group the process will be in.
    pub gid: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The text is an interface: an older `headgate-nfs` may read what a newer manager wrote.
    #[test]
    fn the_text_of_a_launch_is_stable() {
        let program = Program::Fuse(vec!["firewall".into(), "monitor".into()]);
        let user = Some(User { uid: 65534, gid: 65534 });
        let launch = Launch { core: Some(1), user, ..Launch::new("trio".into(), program, 42) };
        let text = r#"{"name":"trio","program":{"fuse":["firewall","monitor"]},"core":1,"user":{"uid":65534,"gid":65534},"manager":42}"#;
        assert_eq!(serde_json::to_string(&launch).unwrap(), text);
        assert_eq!(serde_json::from_str::<Launch>(text).unwrap(), launch);
        let bounded = Launch {
            groups: vec!["/sys/fs/cgroup/nf/cgroup.procs".into()],
            cpuset: true,
            allow: vec![Permission::IoUring, Permission::AbstractSockets],
            write: vec!["/var/log/nf".into()],
            waits: true,
            ..Launch::new("log".into(), Program::Run("packet-logger".into()), 42)
        };
        let text = r#"{"name":"log","program":{"run":"packet-logger"},"groups":["/sys/fs/cgroup/nf/cgroup.procs"],"cpuset":true,"allow":["io-uring","abstract-sockets"],"write":["/var/log/nf"],"waits":true,"manager":42}"#;
        assert_eq!(serde_json::to_string(&bounded).unwrap(), text);
        assert_eq!(serde_json::from_str::<Launch>(text).unwrap(), bounded);
        let short = r#"{"name":"fw","program":{"run":"firewall"},"manager":42}"#;
        assert_eq!(serde_json::from_str::<Launch>(short).unwrap().user, None);
        assert!(
            serde_json::from_str::<Launch>(r#"{"name":"x","program":{"run":"x"},"manager":1,"cor":1}"#)
                .is_err()
        );
    }
}
