//! Three nodes in one process, stepped by hand: a gate and two that work or stand by; with the links between
//! them, which may lose and double frames, and the control loops, which the test plays.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};

use headgate_decide::replicate::boundary::Setup as NodeSetup;
use headgate_decide::replicate::gate::Setup as GateSetup;
use headgate_decide::replicate::mutant::Mutation;
use headgate_decide::replicate::{Boot, Incarnation, NodeId, Peer};
use headgate_decide::units::Span;
use headgate_path::holders::ExtrasWanted;
use headgate_path::plan::Exit;
use headgate_path::replica::{Command as Order, Event, GroupBoard, LinkEnd, Role, Setup, States};
use headgate_path::worker::Command;
use headgate_units::{ChainId, InstanceId, PortId, RegionId};

use super::random::Random;
use super::witness::{Kept, Shared, difference, with, witness};
use crate::harness::World;
use crate::harness::layout::{HERE, Layout, from_port};
use crate::harness::port::{Cable, TestQueue};

pub const LEFT: usize = 0;
pub const RIGHT: usize = 1;
/// Packets of a lane that the gate keeps.
pub const LOG: u64 = 512;
/// Bytes that the state of an NF may have.
pub const STATE_BYTES: u32 = 1 << 16;
pub const GROUP: u16 = 3;
const CONFIGURATION: u64 = 0x5eed;
/// The gate's wall clock at its start.
pub const WALL_US: u64 = 5_000_000;
/// Its counter then, in microseconds: it takes part from its first pass on.
pub const BEGAN_US: u64 = 2;
/// What files of the nodes say, longer than a frame.
pub const SETTINGS: [u8; 4000] = [b'x'; 4000];

/// Outside of a link's end.
type End = Arc<Mutex<Cable>>;

/// One node: its path, its links, the state of its NFs.
pub struct Node {
    pub world: World,
    /// Ends of its links, by the node at the other end.
    ends: BTreeMap<Peer, End>,
    events: Receiver<Event>,
    pub board: Arc<GroupBoard>,
    pub states: Vec<Shared>,
    /// State of its NFs as it was copied last, and as it was stored for it.
    copied: States,
    stored: States,
    /// What it told the operator.
    pub reports: Vec<String>,
    /// What it was told of other files.
    pub settings: Vec<(Peer, Vec<u8>)>,
    /// Assignments that it wrote.
    pub written: Vec<headgate_decide::replicate::Assignment>,
}

impl Node {
    fn new(layout: Layout, peers: &[Peer], role: Role, lanes: u16) -> Self {
        let world = World::new(layout);
        let (sender, events) = channel();
        let board = Arc::new(GroupBoard::default());
        let ends: BTreeMap<Peer, End> = peers.iter().map(|peer| (*peer, End::default())).collect();
        let links = ends.iter().enumerate().map(|(number, (peer, cable))| LinkEnd {
            peer: *peer,
            address: [2, 0, 0, 0, 0, number as u8],
            region: RegionId(0),
            frame_bytes_max: FRAME_BYTES_MAX,
            device: Box::new(TestQueue::new(cable.clone(), Some(0))),
        });
        let setup = Setup {
            group: GROUP,
            configuration: CONFIGURATION,
            settings: SETTINGS.to_vec(),
            chains: (1..=lanes).map(ChainId).collect(),
            links: links.collect(),
            role,
            board: board.clone(),
            events: sender,
        };
        world.mailboxes[0].post(Command::Group(GROUP, Box::new(Order::Join(Box::new(setup)))));
        Self {
            world,
            ends,
            events,
            board,
            states: Vec::new(),
            copied: Vec::new(),
            stored: Vec::new(),
            reports: Vec::new(),
            settings: Vec::new(),
            written: Vec::new(),
        }
    }

    pub fn order(&self, order: Order) {
        self.world.mailboxes[0].post(Command::Group(GROUP, Box::new(order)));
    }

    /// Has a frame come by a link.
    pub fn inject(&self, from: Peer, frame: Vec<u8>) {
        self.ends[&from].lock().unwrap().incoming.push_back(frame);
    }

    /// Plays the control loop.
    fn control(&mut self, nfs: &Nfs) {
        for event in self.events.try_iter().collect::<Vec<_>>() {
            match event {
                Event::Write(assignment) => {
                    self.written.push(assignment);
                    self.order(Order::Written(assignment.view));
                }
                Event::Prepare => self.order(Order::Prepared),
                Event::Copy { epoch, base } => {
                    let states: States = self.states.iter().map(|one| one.lock().unwrap().bytes()).collect();
                    let copied = states.iter().enumerate().map(|(nf, state)| match base {
                        Some(_) => difference(state, &self.copied[nf]),
                        None => state.clone(),
                    });
                    self.order(Order::Flipped(epoch));
                    self.order(Order::Copied(epoch, copied.collect()));
                    self.copied = states;
                }
                Event::Stored { rests, states } => {
                    self.stored = if rests {
                        self.stored.iter().zip(&states).map(|(state, other)| with(state, other)).collect()
                    } else {
                        states
                    };
                    self.board.prepared.add(1);
                }
                Event::Hold => {
                    self.stored = std::mem::take(&mut self.copied);
                    self.board.prepared.add(1);
                }
                Event::Restore(has_state) => {
                    let states = std::mem::take(&mut self.stored);
                    self.restart(nfs, has_state.then_some(&states));
                    self.order(Order::Restored);
                }
                Event::Settings(peer, text) => self.settings.push((peer, text)),
                Event::Foreign(..) | Event::Resumed(_) => {}
                Event::Gate(report) => self.reports.push(format!("{report:?}")),
                Event::Node(report) => self.reports.push(format!("{report:?}")),
            }
        }
    }

    /// Kills the NFs, and starts others with this state or none.
    fn restart(&mut self, nfs: &Nfs, states: Option<&States>) {
        let nothing = vec![Vec::new(); nfs.count];
        let states = states.unwrap_or(&nothing);
        self.states = states.iter().map(|bytes| Arc::new(Mutex::new(Kept::of(bytes)))).collect();
        for number in 0..nfs.count {
            if self.world.nfs.contains_key(&(number as u16)) {
                self.world.kill(number as u16);
            }
            self.world.start(number as u16);
        }
        self.handle(nfs);
    }

    fn handle(&mut self, nfs: &Nfs) {
        for (number, state) in self.states.iter().enumerate() {
            let drops = nfs.drops.filter(|_| number == 0);
            let times = nfs.shows_time.then(|| self.world.holders[0].clone());
            self.world.on(number as u16, witness(state.clone(), drops, times));
        }
    }
}

/// The longest frame that links between nodes are said to carry.
pub const FRAME_BYTES_MAX: u32 = 250;

/// NFs of the group.
#[derive(Clone)]
pub struct Nfs {
    /// Number of them.
    pub count: usize,
    /// NFs that each chain visits, in its order.
    pub chains: Vec<Vec<u16>>,
    /// Sequence numbers that the first NF drops are multiples of this.
    pub drops: Option<u32>,
    /// Whether they show packets' times.
    pub shows_time: bool,
}

/// The three nodes.
pub struct Trio {
    pub gate: Node,
    pub nodes: [Option<Node>; 2],
    nfs: Nfs,
    boots: [u64; 2],
    pub random: Random,
    /// Chance in percent that a frame between nodes is lost, and that it comes twice.
    pub losses: u64,
    pub doubles: u64,
    /// Frames that nodes sent each other.
    pub frames: u64,
}

/// Span of so many passes.
const fn passes(count: u64) -> Span {
    Span(count * 1000)
}

impl Trio {
    pub fn new(nfs: Nfs, seed: u64) -> Self {
        let lanes = nfs.chains.len() as u8;
        let setup = GateSetup {
            boot: Boot(1),
            lanes,
            nodes: [NodeId(0), NodeId(1)],
            log: LOG,
            resend_after: passes(60),
            written: None,
            mutation: Mutation::default(),
        };
        let mut layout = Layout::new().region(4096, 1600).port(HERE).port(HERE);
        for lane in 0..u16::from(lanes) {
            let exit = Exit::Port(PortId(1 - lane % 2));
            layout = layout.chain(&[], exit).rule(from_port(lane, lane + 1));
        }
        let peers = [Peer::Node(NodeId(0)), Peer::Node(NodeId(1))];
        let role = Role::Gate { setup, wall_us: WALL_US };
        let gate = Node::new(layout, &peers, role, lanes.into());
        let random = Random(seed);
        let mut trio =
            Self { gate, nodes: [None, None], nfs, boots: [0, 0], random, losses: 0, doubles: 0, frames: 0 };
        trio.boot(LEFT);
        trio.boot(RIGHT);
        trio
    }

    /// Starts a node.
    pub fn boot(&mut self, at: usize) {
        self.boots[at] += 1;
        let nfs = self.nfs.clone();
        let setup = NodeSetup {
            me: Incarnation { node: NodeId(at as u8), boot: Boot(self.boots[at]) },
            lanes: nfs.chains.len() as u8,
            window: 3,
            commit_every: passes(4),
            checkpoint_every: Some(passes(150)),
            resend_after: passes(60),
            unanswered_after: passes(400),
            settle: Span::ZERO,
            report_every: passes(2),
            mutation: Mutation::default(),
        };
        let mut layout = Layout::new().region(4096, 1600).port(HERE).port(HERE).ring(256);
        layout.extras = ExtrasWanted { clock: true, service: false };
        for number in 0..nfs.count {
            layout = layout.nf(&format!("nf{number}"), &[HERE]);
        }
        for chain in &nfs.chains {
            layout = layout.chain(chain, Exit::Port(PortId(0)));
        }
        let role = Role::Member {
            setup,
            nfs: (0..nfs.count as u16).map(InstanceId).collect(),
            inside: 128,
            latch: 256,
            state_bytes: STATE_BYTES,
        };
        let peers = [Peer::Gate, Peer::Node(NodeId(1 - at as u8))];
        let mut node = Node::new(layout, &peers, role, nfs.chains.len() as u16);
        node.states = (0..nfs.count).map(|_| Shared::default()).collect();
        node.handle(&nfs);
        self.nodes[at] = Some(node);
    }

    /// Ends a node at once; the gate is told as by BFD.
    pub fn kill(&mut self, at: usize) {
        self.nodes[at] = None;
        self.gate.order(Order::Reachable(NodeId(at as u8), false));
    }

    /// Starts a node that was killed; the gate is told.
    pub fn revive(&mut self, at: usize) {
        self.boot(at);
        self.gate.order(Order::Reachable(NodeId(at as u8), true));
    }

    pub fn node(&self, at: usize) -> &Node {
        self.nodes[at].as_ref().expect("the node runs")
    }

    /// Every node makes a pass, NFs work as chance has it, and frames go over the links.
    pub fn pass(&mut self) {
        self.gate.world.pass_of(0);
        self.gate.control(&self.nfs);
        for node in self.nodes.iter_mut().flatten() {
            node.world.pass_of(0);
            for number in 0..self.nfs.count as u16 {
                if self.random.percent(60) && node.world.nfs.contains_key(&number) {
                    node.world.nf(number).step();
                }
            }
            node.control(&self.nfs);
        }
        self.carry();
    }

    /// Moves frames from one end of each link to the other.
    fn carry(&mut self) {
        for at in [LEFT, RIGHT] {
            let me = Peer::Node(NodeId(at as u8));
            let gate = self.gate.ends[&me].clone();
            let other = self.nodes[1 - at].as_ref().map(|node| node.ends[&me].clone());
            let Some(node) = &self.nodes[at] else {
                gate.lock().unwrap().sent.clear();
                other.inspect(|other| other.lock().unwrap().sent.clear());
                continue;
            };
            let ends = [Peer::Gate, Peer::Node(NodeId(1 - at as u8))].map(|peer| node.ends[&peer].clone());
            self.move_frames(&gate, &ends[0]);
            self.move_frames(&ends[0], &gate);
            if let Some(other) = other {
                self.move_frames(&other, &ends[1]);
            }
        }
    }

    fn move_frames(&mut self, from: &End, to: &End) {
        for frame in std::mem::take(&mut from.lock().unwrap().sent) {
            self.frames += 1;
            if self.random.percent(self.losses) {
                continue;
            }
            if self.random.percent(self.doubles) {
                to.lock().unwrap().incoming.push_back(frame.clone());
            }
            to.lock().unwrap().incoming.push_back(frame);
        }
    }

    /// Makes passes until a condition holds.
    #[track_caller]
    pub fn until(&mut self, what: &str, mut holds: impl FnMut(&mut Self) -> bool) {
        for _ in 0..20_000 {
            if holds(self) {
                return;
            }
            self.pass();
        }
        panic!("never: {what}\n{}", self.describe());
    }

    pub fn describe(&self) -> String {
        let mut all = format!("gate: {:?}\n{}", self.gate.reports, describe(&self.gate));
        for node in self.nodes.iter().flatten() {
            all += &format!("node: {:?}\n{}", node.reports, describe(node));
        }
        all
    }

    /// Asserts that no node has lost a packet or a buffer.
    #[track_caller]
    pub fn check(&self) {
        self.gate.world.check();
        self.nodes.iter().flatten().for_each(|node| node.world.check());
    }

    /// Waits until the gate could promote the standby.
    #[track_caller]
    pub fn protected(&mut self) {
        let before = self.gate.reports.len();
        self.until("protected", |trio| {
            trio.gate.reports[before..].iter().any(|report| report.contains("Protected"))
        });
    }
}

fn describe(node: &Node) -> String {
    let board = &node.board;
    let lanes: Vec<_> = board.lanes[..2]
        .iter()
        .map(|lane| [&lane.arrived, &lane.finished, &lane.released, &lane.trimmed].map(|count| count.get()))
        .collect();
    let refused: Vec<u64> = board.refused.iter().map(|count| count.get()).collect();
    let drops: Vec<_> = (0..3).map(|chain| node.world.drops(chain)).collect();
    format!(
        "  role {} view {} epoch {} log {} latch {} doubled {} lanes {lanes:?} refused {refused:?} drops {drops:?}\n",
        board.role.get(),
        board.view.get(),
        board.epoch.get(),
        board.in_log.get(),
        board.in_latch.get(),
        board.doubled.get(),
    )
}
