//! What a manager tells the process it launches, before that process becomes an NF.
//!
//! The manager starts `headgate-nfs launched NAME` with one end of a socket pair as standard input and
//! this, as JSON, in [`LAUNCH_VARIABLE`]. The process takes its place (core, user, ties to the manager's
//! life) and only then runs an NF, so the manager needs no code between fork and exec and `posix_spawn`
//! is enough. NAME is only there for people who read `ps`.
//!
//! Two facts of the kernel a manager must know: the death signal is tied to the *thread* that spawned,
//! so spawn from one that lives as long as the manager; and an NF launched as the manager's own user may
//! trace its siblings, so give each trust domain a user of its own.

use serde::{Deserialize, Serialize};

/// The environment variable that carries a [`Launch`] as JSON.
pub const LAUNCH_VARIABLE: &str = "HEADGATE_LAUNCH";

/// How a launched process takes its place, and what it becomes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Launch {
    /// The instance's name, for error messages.
    pub name: String,
    /// What to run.
    pub program: Program,
    /// The core to stay on; none leaves it to the kernel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub core: Option<usize>,
    /// Whom to become; none stays who the manager is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<User>,
    /// The network namespace to move into, as a file; none stays in the manager's. A process that moves keeps
    /// the rights to interfaces, routes and packet sockets: it has none but those of the namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// The manager's process id: a process that finds another parent ends at once. 0 in a container, whose
    /// first process has no parent that it sees.
    pub manager: u32,
}

/// What a launched process becomes.
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
        let launch = Launch {
            name: "trio".into(),
            program: Program::Fuse(vec!["firewall".into(), "monitor".into()]),
            core: Some(1),
            user: Some(User { uid: 65534, gid: 65534 }),
            namespace: None,
            manager: 42,
        };
        let text = r#"{"name":"trio","program":{"fuse":["firewall","monitor"]},"core":1,"user":{"uid":65534,"gid":65534},"manager":42}"#;
        assert_eq!(serde_json::to_string(&launch).unwrap(), text);
        assert_eq!(serde_json::from_str::<Launch>(text).unwrap(), launch);
        let short = r#"{"name":"fw","program":{"run":"firewall"},"manager":42}"#;
        assert_eq!(serde_json::from_str::<Launch>(short).unwrap().user, None);
        assert!(
            serde_json::from_str::<Launch>(r#"{"name":"x","program":{"run":"x"},"manager":1,"cor":1}"#)
                .is_err()
        );
    }
}
