//! A node's part in a group of chains that nodes keep for each other (decisions 33, 75, 90, 111).
//!
//! The worker has the packets and the machine that decides; what may block is done here:
//!
//! - [`keeper`]: a thread that writes views to disk and copies the state of NFs, both of which the group
//!   waits for; [`copies`]: what it has copied; [`standby`]: state that it has ready while others work;
//!   [`news`]: what it has to say to the control loop;
//! - [`record`]: the files that outlive the manager: who is active, and the number of the node's life;
//! - [`wiring`]: the ends of links, on interfaces of the kernel;
//! - [`told`]: sentences; [`status`]: what is shown, and whether an operator's wish can be.
//!
//! What the control loop does with it is in `control/replicate.rs`.

mod copies;
mod keeper;
pub mod news;
mod record;
mod standby;
mod status;
pub mod told;
mod wiring;

use std::sync::Arc;
use std::sync::mpsc::channel;

use headgate_decide::replicate::{Assignment, Boot, Incarnation, NodeId, Peer, boundary, gate};
use headgate_decide::units::{ChainId, InstanceId, Instant as Moment, Span, WorkerId};
use headgate_host::clock::{self, Clock};
use headgate_kernel::interface::{State, Watch};
use headgate_path::replica::{Command as Order, GroupBoard, LinkEnd, Role, Setup};
use headgate_path::worker::{Command, Mailbox};
use headgate_shm::state::image_bytes_max;

use crate::api::Handle;
use crate::bfd::Reach;
use crate::config::model::{Group, Role as Part};
use crate::config::{Config, Digest};

use keeper::Keeper;
use record::Records;
pub use standby::OfNf;
use told::{Failover, Wish};
use wiring::number_of;

/// Time after which what was not answered is sent again. Our choice: above the round trip between two
/// machines whose workers wait for their cores, and below what senders notice.
const RESEND_AFTER: Span = Span::from_millis(20);
/// Time without a standby's answer after which the gate is told, and lets the active node go on alone. Our
/// choice: above what a manager waits for its core on a busy machine. A standby that is gone is noticed by
/// BFD long before.
const UNANSWERED_AFTER: Span = Span::from_secs(1);
/// Time that a node which takes over has for packets that waited, before it copies all state for its standby.
/// Our choice: that in which it asks for what was lost once; until then a second failure would cost state.
const SETTLE: Span = RESEND_AFTER;
/// Time between two reports of the active node, which say how much room it has. Our choice: a part of what
/// takes a ring of 512 packets to fill at 1 Mpps.
const REPORT_EVERY: Span = Span::from_micros(100);
/// Worker of a group. `check` refuses a node with groups that has several.
pub const WORKER: WorkerId = WorkerId(0);

/// What a group has of its manager.
pub struct Base {
    /// Chains of the group as the packet path numbers them, in its order.
    pub lanes: Vec<ChainId>,
    /// Mailbox of its worker.
    pub mailbox: Arc<Mailbox>,
    /// Way to the control loop.
    pub handle: Handle,
    /// The longest frame of each domain.
    pub frame_bytes: Vec<u32>,
    /// Clock of all times, and when the manager's time begins.
    pub clock: Clock,
    /// See there.
    pub started_ns: u64,
}

/// Instance of an NF of a group.
pub struct OfGroup {
    /// Its index.
    pub at: usize,
    /// Its state, where it keeps some.
    pub state: Option<OfNf>,
}

/// A node's part in its group.
pub struct Replication {
    pub(super) group: Group,
    pub(super) digest: Digest,
    me: Incarnation,
    board: Arc<GroupBoard>,
    records: Option<Records>,
    written: Option<Assignment>,
    /// Ends of links, until the worker has them.
    ends: Vec<LinkEnd>,
    watches: Vec<Watch>,
    base: Base,
    /// Instances of its NFs, in the group's order.
    pub(super) instances: Vec<usize>,
    /// Whether NFs begin anew with another node's state.
    pub(super) restores: bool,
    /// The assignment in force, at the gate.
    pub(super) told: Option<Assignment>,
    /// When the active node was last seen to be out of reach.
    pub(super) lost_at: Option<Moment>,
    pub(super) failover: Option<Failover>,
    pub(super) wish: Option<Wish>,
}

impl Replication {
    /// Opens the links of this node to others of its group, and reads what it wrote in earlier lives.
    ///
    /// # Errors
    /// A sentence with the cure.
    pub fn open(config: &Config, group: &Group, base: Base) -> Result<Self, String> {
        let node = config.node.as_ref().ok_or("the configuration is for one machine")?;
        let folder = node.state.as_deref().ok_or("the node has no `state` folder")?;
        let records = Records::open(folder, group, base.lanes.len())?;
        let boot = Boot(records.begin_life()?);
        let written = if group.role == Part::Gate { records.read()? } else { None };
        let node_id = match number_of(group, &node.name) {
            Some(Peer::Node(node)) => node,
            _ => NodeId(u8::MAX),
        };
        let (ends, watches) = wiring::open(config, group, &base.frame_bytes)?;
        Ok(Self {
            group: group.clone(),
            digest: node.digest.clone(),
            me: Incarnation { node: node_id, boot },
            board: Arc::default(),
            records: Some(records),
            written,
            ends,
            watches,
            instances: Vec::new(),
            restores: false,
            told: None,
            lost_at: None,
            failover: None,
            wish: None,
            base,
        })
    }

    /// Returns the counters of the group.
    pub(super) fn board(&self) -> &GroupBoard {
        &self.board
    }

    /// Returns what tells the group's worker at once which links and nodes are within reach.
    pub fn reach(&self, config: &Config) -> impl FnMut(Reach<'_>) + Send + use<> {
        let (group, mailbox) = (self.group.clone(), self.base.mailbox.clone());
        let links = config.node.as_ref().map_or(&[][..], |node| &node.links);
        let of_group = links.iter().filter(|link| number_of(&group, &link.peer).is_some());
        let places: Vec<u16> = of_group.map(|link| link.number).collect();
        move |reach| {
            let order = match reach {
                Reach::Link(number, up) => {
                    let place = places.iter().position(|one| *one == number);
                    place.map(|place| Order::Link(place, up))
                }
                Reach::Node(node, up) => match number_of(&group, node) {
                    Some(Peer::Node(node)) => Some(Order::Reachable(node, up)),
                    _ => None,
                },
            };
            if let Some(order) = order {
                mailbox.post(Command::Group(group.number, Box::new(order)));
            }
        }
    }

    /// Gives the worker its part, and starts the thread that keeps what the group waits for.
    ///
    /// # Errors
    /// A sentence.
    pub fn join(&mut self, config: &Config, nfs: Vec<OfGroup>) -> Result<(), String> {
        self.instances = nfs.iter().map(|nf| nf.at).collect();
        let states: Vec<_> = nfs.into_iter().map(|nf| nf.state).collect();
        let bytes = states.iter().flatten().map(|of| image_bytes_max(of.shape.bytes)).max().unwrap_or(0);
        let (events, from_worker) = channel();
        let keeper = Keeper {
            group: self.group.name.clone(),
            number: self.group.number,
            records: self.records.take(),
            states,
            board: self.board.clone(),
            mailbox: self.base.mailbox.clone(),
            handle: self.base.handle.clone(),
            started_ns: self.base.started_ns,
            clock: self.base.clock,
        };
        keeper.start(from_worker).map_err(|error| format!("no thread could be started: {error}"))?;
        let setup = Setup {
            group: self.group.number,
            configuration: self.digest.whole(),
            settings: self.digest.text().into_bytes(),
            chains: self.base.lanes.clone(),
            links: std::mem::take(&mut self.ends),
            role: self.role(config, u32::try_from(bytes).unwrap_or(u32::MAX)),
            board: self.board.clone(),
            events,
        };
        self.order(Order::Join(Box::new(setup)));
        Ok(())
    }

    fn role(&self, config: &Config, state_bytes: u32) -> Role {
        let (group, lanes) = (&self.group, self.base.lanes.len() as u8);
        if group.role == Part::Gate {
            let setup = gate::Setup {
                boot: self.me.boot,
                lanes,
                nodes: [NodeId(0), NodeId(1)],
                log: (u64::from(group.log) / u64::from(lanes.max(1))).max(1),
                resend_after: RESEND_AFTER,
                written: self.written,
                mutation: Default::default(),
            };
            let wall = clock::wall();
            return Role::Gate { setup, wall_us: wall.as_micros() as u64 };
        }
        let rings = group.nfs.iter().map(|nf| config.nfs[nf.index()].ring);
        Role::Member {
            setup: boundary::Setup {
                me: self.me,
                lanes,
                window: group.window.min(boundary::WINDOW_MAX.into()) as u8,
                commit_every: Span(group.commit_every_ns),
                checkpoint_every: Some(Span(group.checkpoint_every_ns)),
                resend_after: RESEND_AFTER,
                unanswered_after: UNANSWERED_AFTER,
                settle: SETTLE,
                report_every: REPORT_EVERY,
                mutation: Default::default(),
            },
            nfs: self.instances.iter().map(|at| InstanceId(*at as u16)).collect(),
            inside: rings.min().unwrap_or(1),
            latch: group.latch,
            state_bytes,
        }
    }

    /// Orders the worker to do something for the group.
    pub fn order(&self, order: Order) {
        self.base.mailbox.post(Command::Group(self.group.number, Box::new(order)));
    }

    /// Returns the name of a node.
    pub fn name_of(&self, peer: Peer) -> &str {
        match peer {
            Peer::Gate => &self.group.gate,
            Peer::Node(NodeId(0)) => &self.group.active,
            Peer::Node(_) => &self.group.standby,
        }
    }

    /// Returns whether something is under way that packets wait for.
    pub const fn is_hurried(&self) -> bool {
        self.restores
    }

    /// Polls the interfaces of links. Returns those that changed.
    pub fn poll_links(&mut self) -> Vec<(String, State)> {
        let poll = |watch: &mut Watch| Some((watch.name().to_owned(), watch.poll()?));
        self.watches.iter_mut().filter_map(poll).collect()
    }

    /// Takes no part any more: the manager ends.
    pub fn leave(&self) {
        self.order(Order::Leave);
    }
}
