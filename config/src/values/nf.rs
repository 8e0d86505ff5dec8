//! Values for NFs: the user they run as, the kernel's scheduling, the handling of failures.

use headgate_session::launch::Permission;
use headgate_session::message;
use serde::Serialize;
use serde_json::{Value as Json, json};

use super::{ValueError, Word, choice, quoted};

choice! {
    /// Handling of an NF's packets while none of its instances runs.
    pub enum OnFailure, "a choice on failure" {
        /// Packets are dropped at the head of their chain.
        Drop "drop",
        /// Packets pass on to the next stage.
        Bypass "bypass",
    }
}

choice! {
    /// Treatment of kept state whose schema is not the program's.
    pub enum OnChange, "a choice on change" {
        /// It begins anew, with an event.
        Discard "discard",
        /// The NF does not start.
        Refuse "refuse",
    }
}

choice! {
    /// What of a flow has to stay at one of the nodes that share an NF.
    pub enum Affinity, "an affinity" {
        /// Nothing: its packets may go to another node at any time.
        None "none",
        /// Its packets of one direction.
        Flow "flow",
        /// Its packets of both directions, at one instance.
        Session "session",
    }
}

choice! {
    /// Way of choosing among nodes that share an NF.
    pub enum SteeringMode, "a way to choose nodes" {
        /// By prices.
        Drench "drench",
        /// The fewest hops.
        Nearest "nearest",
        /// Evenly among those of the fewest hops.
        Ecmp "ecmp",
        /// The lowest price of a core.
        LeastLoaded "least-loaded",
        /// Any.
        Random "random",
    }
}

choice! {
    /// Place of the process that stands by an NF.
    pub enum Standby, "a kind of standby" {
        /// This manager.
        Local "local",
    }
}

impl OnChange {
    /// Returns the choice in the messages to an NF.
    pub const fn told(self) -> message::OnChange {
        match self {
            Self::Discard => message::OnChange::Discard,
            Self::Refuse => message::OnChange::Refuse,
        }
    }
}

choice! {
    /// Place of an NF's process.
    pub enum Environment, "an environment" {
        /// A process of the manager's.
        Process "process",
        /// The first process of a container.
        Container "container",
    }
}

choice! {
    /// Place in which an NF's functions are called.
    pub enum FusedInto, "a place for an NF" {
        /// A process of its own.
        Process "process",
        /// The thread of its worker.
        Worker "worker",
    }
}

choice! {
    /// The kind of the two interfaces of an external program.
    pub enum BoxPorts, "a kind of interface" {
        /// Memory that it shares with its worker, by the memif protocol: for programs that poll.
        Memif "memif",
        /// Interfaces of the kernel, in a network namespace of its own.
        Veth "veth",
    }
}

choice! {
    /// Something that an NF may not do unless its file says so.
    pub enum Allowed, "a permission" {
        /// Making namespaces and entering others.
        Namespaces "namespaces",
        /// Tracing other processes of its own.
        Ptrace "ptrace",
        /// Loading BPF programs.
        Bpf "bpf",
        /// Performance counters.
        Perf "perf",
        /// The kernel's keyrings.
        Keys "keys",
        /// Handling page faults in user space.
        Userfaultfd "userfaultfd",
        /// Changing scheduling: policies, priorities, affinity.
        Scheduling "scheduling",
        /// Mounting file systems.
        Mount "mount",
        /// TCP in the manager's network.
        Network "network",
        /// Connecting to abstract Unix sockets of others.
        AbstractSockets "abstract-sockets",
    }
}

impl Allowed {
    /// Returns the permission in the messages to a launched process.
    pub const fn permission(self) -> Permission {
        match self {
            Self::Namespaces => Permission::Namespaces,
            Self::Ptrace => Permission::Ptrace,
            Self::Bpf => Permission::Bpf,
            Self::Perf => Permission::Perf,
            Self::Keys => Permission::Keys,
            Self::Userfaultfd => Permission::Userfaultfd,
            Self::Scheduling => Permission::Scheduling,
            Self::Mount => Permission::Mount,
            Self::Network => Permission::Network,
            Self::AbstractSockets => Permission::AbstractSockets,
        }
    }
}

choice! {
    /// The kernel's policy for an NF, sched(7).
    pub enum PolicyKind, "a scheduling policy" {
        /// A fair share, and a waking NF may pre-empt.
        Normal "normal",
        /// A fair share, and a waking NF does not pre-empt.
        Batch "batch",
        /// Real time, round-robin with others of its priority.
        RoundRobin "rr",
        /// Real time, until it sleeps.
        Fifo "fifo",
    }
}

/// A nice value, -20 (most) to 19 (least).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Nice(pub i8);

/// The kernel's range, sched(7).
const NICE: std::ops::RangeInclusive<i128> = -20..=19;

impl Word for Nice {
    const WHAT: &'static str = "an integer";

    fn from_text(text: &str) -> Result<Self, ValueError> {
        Err(ValueError::bad(
            format!("{} is not a nice value", quoted(text)),
            "write a whole number, -20 to 19",
        ))
    }

    fn from_integer(number: i128) -> Option<Result<Self, ValueError>> {
        Some(match NICE.contains(&number) {
            true => Ok(Self(number as i8)),
            false => {
                Err(ValueError::out_of_range(format!("{number} is out of range"), "possible: -20 to 19"))
            }
        })
    }

    fn shape() -> Json {
        json!({ "type": "integer", "minimum": -20, "maximum": 19 })
    }
}

/// The operating system's user of an NF.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum User {
    /// A user of the trust domain's own, which the manager chooses.
    OfDomain,
    /// A user id.
    Id(u32),
    /// A user of this machine, looked up when the NF starts.
    Name(String),
}

/// `(uid_t) -1` means "unchanged" to `setresuid(2)`.
const UID_MAX: u32 = u32::MAX - 1;

impl Word for User {
    const WHAT: &'static str = "a user's name or id";

    fn from_text(text: &str) -> Result<Self, ValueError> {
        let good = |c: char| c.is_ascii_graphic() && c != ':' && c != '/';
        if text.is_empty() || !text.chars().all(good) {
            let help = "write a name of /etc/passwd or a user id";
            return Err(ValueError::bad(format!("{} is not a user", quoted(text)), help));
        }
        Ok(Self::Name(text.to_owned()))
    }

    fn from_integer(number: i128) -> Option<Result<Self, ValueError>> {
        Some(match u32::try_from(number) {
            Ok(id) if id <= UID_MAX => Ok(Self::Id(id)),
            _ => Err(ValueError::out_of_range(
                format!("{number} is not a user id"),
                format!("possible: 0 to {UID_MAX}"),
            )),
        })
    }

    fn shape() -> Json {
        json!({ "anyOf": [
            { "type": "string", "minLength": 1 },
            { "type": "integer", "minimum": 0, "maximum": UID_MAX },
        ]})
    }
}
