//! Tables of configurations for several nodes: nodes, links between them, and groups of chains that nodes
//! keep for each other.

use crate::limits::CORE_MAX;
use crate::read::{EMPTY, Field, Keys, Many, Object, Read, key_of, tables};
use crate::report::{Report, Span};
use crate::tree::{Node, Value};
use crate::values::{
    Carrier, InterfaceAddress, InterfaceName, Name, Period, SteeringMode, StoreAddress, Text, Whole,
};
use serde_json::{Value as Json, json};

/// Processes of an NF at each of its nodes, or of how many nodes each has one.
#[derive(Debug)]
pub struct Instances(pub u64, pub Option<RangeTable>);

impl Read for Instances {
    fn read(node: &Node, report: &mut Report) -> Option<Self> {
        if !matches!(node.value, Value::Table(_)) {
            return Whole::<1, 64>::read(node, report).map(|count| Self(count.0, None));
        }
        RangeTable::read(node, report).map(|range| Self(1, Some(range)))
    }

    fn schema() -> Json {
        json!({ "anyOf": [Whole::<1, 64>::schema(), RangeTable::schema()] })
    }
}

/// A core of the machine.
type Core = Whole<0, CORE_MAX>;
/// Bits per second. Our choice: below, no frame arrives; above, no machine makes it.
pub type LabRate = Whole<1_000, 10_000_000_000>;
/// Up to 10 s. Our choice: no way of today takes as long.
pub type LabDelay = Period<0, 10_000_000_000>;
/// 1 ms to 10 s. Our choice: below, no scheduler of a machine that does anything else keeps the pace; above,
/// the kernel's own signs are sooner.
pub type BfdInterval = Period<1_000_000, 10_000_000_000>;
/// 10 us to 1 s. Our choice: below, a commit would carry a packet or none; above, no sender waits.
pub type CommitPeriod = Period<10_000, 1_000_000_000>;
/// 1 ms to 1 min. Our choice: below, the group would do nothing else; above, no log holds what comes.
pub type CheckpointPeriod = Period<1_000_000, 60_000_000_000>;
/// Packets in a log or a latch: several bursts to about what a region has buffers for.
pub type PacketsKept = Whole<256, 1_048_576>;

/// 100 ms to 1 min. Our choice: below, a period sees too few packets to price; above, a flow is over.
pub type SteeringPeriod = Period<100_000_000, 60_000_000_000>;
/// 10 ms to 10 s. Our choice: below, a busy machine misses three in a row; above, no flow waits.
pub type BeatPeriod = Period<10_000_000, 10_000_000_000>;

tables! {
    /// How flows are divided among nodes that share an NF (`nodes`).
    pub struct SteeringTable at "[steering]" {
        /// "drench" goes by prices of cores, which nodes tell each other; "nearest" takes the fewest hops;
        /// "ecmp" shares evenly among the nearest; "least-loaded" takes the lowest price, wherever it is;
        /// "random" takes any.
        defaulted mode: SteeringMode = "drench";
        /// Percentage of a core below which its instances are little used, 0 to 98.
        defaulted low: Whole<0, 98> = 30;
        /// Percentage of a core above which its instances are used too much, 1 to 99. Flows that may move
        /// leave a node whose price is above the others' by more than lies between `low` and `high`.
        defaulted high: Whole<1, 99> = 85;
        /// Price of a hop off the shortest way, in percent of the price of an idle core, 0 to 10000.
        defaulted off_path: Whole<0, 10_000> = 30;
        /// Time between two choices, 100 ms to 1 min.
        defaulted period: SteeringPeriod = "1s";
        /// Time between two messages of a node about what it has and its prices, 10 ms to 10 s. A node of
        /// which three are missing has no flows any more.
        defaulted beat: BeatPeriod = "100ms";
    }

    /// What nodes have in common outside the file.
    pub struct ClusterTable at "[cluster]" {
        /// Name of the cluster: its keys in the store begin with /headgate/NAME/. Default: `name` of
        /// [manager].
        optional name: Name;
        /// Servers of a store, etcd from 3.4 on, as `http://ADDRESS:PORT`. Nodes agree there on which of
        /// them serve an NF whose `instances` is a range; nothing else needs it.
        optional store: Many<StoreAddress>;
    }

    /// Fewest and most nodes that serve an NF.
    pub struct RangeTable at "instances" {
        /// As many serve it whatever its load, 1 to 64.
        defaulted min: Whole<1, 64> = 1;
        /// No more serve it, 1 to 64.
        required max: Whole<1, 64>;
    }

    /// A node: a machine, or a part of one, with a manager of its own. A file with nodes is the same on all
    /// of them, and `headgate up FILE --node NAME` runs the part of one.
    pub struct NodeTable at "[[node]]" {
        /// Name of the node, used by links, groups, ports and NFs.
        required name: Name;
        /// Cores of its workers, one polling thread each. Default: `cores` of [manager].
        optional cores: Many<Core>;
        /// Folder in which it keeps what has to survive a restart: the views of its groups. Nodes of groups
        /// need one, each its own.
        optional state: Text;
    }

    /// A link between two nodes: an interface of the kernel at each. There may be several between two nodes.
    pub struct LinkTable at "[[link]]" {
        /// The two nodes.
        required nodes: Many<Name>;
        /// The interface of each, in the same order.
        required interfaces: Many<InterfaceName>;
        /// The address of each interface, in the same order, with the length of its network; over Ethernet
        /// both are in one. The interfaces have them already.
        required addresses: Many<InterfaceAddress>;
        /// What carries packets: `"ethernet"`, on one wire, or `"vxlan-gpe"`, datagrams over a routed
        /// network, whose ways are the kernel's.
        defaulted carrier: Carrier = "ethernet";
        /// MTU of both interfaces, 1318 to 65535 bytes. Packets of chains over several nodes have 38 bytes of
        /// headers on links, 74 over VXLAN-GPE, 94 where that is on IPv6. Default: what the interfaces have;
        /// 1600 where `headgate lab` makes them.
        optional mtu: Whole<1318, 65_535>;
        /// How the two notice that the other, or the link, is gone (BFD, RFC 5880 and 5881; 5883 over
        /// VXLAN-GPE).
        defaulted bfd: BfdTable = EMPTY;
        /// What `headgate lab` has the link be like; a real one is as it is.
        defaulted lab: LabTable = EMPTY;
    }

    /// Quality of a link that `headgate lab` makes.
    pub struct LabTable at "lab" {
        /// Bits per second each way, 1000 to 10G. Frames wait for their turn, 50 ms at most, and more are
        /// lost. Default: what the machine carries.
        optional rate: LabRate;
        /// Time that a frame takes, up to 10 s. Default: none.
        optional delay: LabDelay;
    }

    /// Bidirectional Forwarding Detection on a link.
    pub struct BfdTable at "bfd" {
        /// Time between two packets, each way, 1 ms to 10 s. The slower of what the two ends ask for is used.
        defaulted interval: BfdInterval = "10ms";
        /// Number of packets in a row that may be missing before the neighbour is down, 1 to 255.
        defaulted multiplier: Whole<1, 255> = 3;
    }

    /// Chains that share NFs. Their packets are logged at one node, worked on at a second, and what it
    /// knows is kept by a third, which takes over when the second fails.
    pub struct GroupTable at "[[group]]" {
        /// Name of the group.
        required name: Name;
        /// Its chains: all that visit any of its NFs.
        required chains: Many<Name>;
        /// Node where packets enter and leave. It logs them, and says who is active.
        required gate: Name;
        /// Node that works on them at first.
        required active: Name;
        /// Node that takes over.
        required standby: Name;
        /// Packets that the gate keeps until the standby has what came of them, 256 to 1Mi; each takes one of
        /// its buffers. When it is full new packets are shed.
        defaulted log: PacketsKept = 16_384;
        /// Packets that wait at the active node until the standby knows of them, 256 to 1Mi.
        defaulted latch: PacketsKept = 8192;
        /// Commits under way at once, 1 to 64.
        defaulted window: Whole<1, 64> = 3;
        /// Longest time between two commits while there is something to commit, 10 us to 1 s.
        defaulted commit_every: CommitPeriod = "100us";
        /// Time between two copies of the NFs' state to the standby, 1 ms to 1 min; one more is made when the
        /// log is filled to 70 percent.
        defaulted checkpoint_every: CheckpointPeriod = "20ms";
    }
}
