//! Layout of a world. Numbers are given in the order of the calls, chains from 1.

use std::sync::{Arc, Mutex};

use headgate_decide::pressure::QueueMarks;
use headgate_path::holders::{ExtrasWanted, Holders};
use headgate_path::link::Handling;
use headgate_path::plan::{
    Across, Chain, ChainPath, Exit, Inner, KnownFlows, NodeId, OnFailure, Senders, Server, Share, Stage,
    Tunnel, TunnelId,
};
use headgate_path::rules::Rule;
use headgate_port::Queue;
use headgate_shm::{Pages, Region, Times};
use headgate_units::{ChainId, InstanceId, NfId, PortId, Ticks};
use headgate_wire::MacAddress;
use headgate_wire::nsh::ServicePath;

use super::PASS_TICKS;
use super::port::{Cable, TestQueue};

/// Worker and region of a part.
#[derive(Clone, Copy, Debug)]
pub struct At {
    pub worker: u8,
    pub region: u8,
}

/// Worker 0, region 0.
pub const HERE: At = At { worker: 0, region: 0 };

/// Port: where it is, and whether it can only send from its own region.
#[derive(Clone, Copy, Debug)]
pub struct PortAt {
    pub at: At,
    pub bound: bool,
    /// Whether every worker is said to have a queue of it.
    pub everywhere: bool,
    /// The address to which it takes service headers.
    pub service_address: Option<[u8; 6]>,
    /// The senders of these.
    pub senders: Senders,
}

/// Maker of a port's queue: its number, its outside, the only region it can send from.
pub type MakeQueue = fn(usize, Arc<Mutex<Cable>>, Option<u8>) -> Box<dyn Queue>;

/// Layout of a world; see [`super::World::new`].
#[derive(Clone)]
pub struct Layout {
    pub workers: usize,
    pub regions: Vec<(u32, u32)>,
    /// Long buffers of each region.
    pub long: u32,
    /// Instances that take no long frames.
    pub refusing: Vec<u16>,
    pub ports: Vec<PortAt>,
    pub stages: Vec<Stage>,
    pub instances: Vec<At>,
    pub chains: Vec<Option<Chain>>,
    pub nodes: Vec<Option<TunnelId>>,
    pub tunnels: Vec<Tunnel>,
    pub shares: Vec<Share>,
    pub rules: Vec<Rule>,
    pub extras: ExtrasWanted,
    pub ring: u32,
    /// Empty buffers that every instance is lent.
    pub lend: u32,
    pub handling: Handling,
    /// Whether instances may have standbys.
    pub protected: bool,
    pub shed_by_flow: bool,
    pub flows: usize,
    pub idle_ticks: u32,
    pub instances_max: usize,
    pub chains_max: usize,
    pub make_queue: MakeQueue,
}

impl Layout {
    /// Makes the records of a region.
    pub fn records_of(&self, region: &Region) -> Holders {
        let mut holders = Holders::new(region.geometry(), self.extras, Pages::Huge);
        if self.extras.clock {
            holders.extras.times = Some(Times::create(region.geometry()).unwrap());
        }
        holders
    }

    /// Returns one worker, and nothing else.
    pub fn new() -> Self {
        Self {
            workers: 1,
            regions: Vec::new(),
            long: 0,
            refusing: Vec::new(),
            ports: Vec::new(),
            stages: Vec::new(),
            instances: Vec::new(),
            chains: vec![None],
            nodes: Vec::new(),
            tunnels: Vec::new(),
            shares: Vec::new(),
            rules: Vec::new(),
            extras: ExtrasWanted::default(),
            ring: 512,
            lend: 0,
            handling: Handling::default(),
            protected: false,
            shed_by_flow: true,
            flows: 128,
            idle_ticks: u32::MAX / 2,
            instances_max: 16,
            chains_max: 16,
            make_queue: |_, cable, region| Box::new(TestQueue::new(cable, region)),
        }
    }

    /// Returns one worker, one region, ports 0 and 1.
    pub fn plain() -> Self {
        Self::new().region(1024, 320).port(HERE).port(HERE)
    }

    pub fn workers(mut self, workers: usize) -> Self {
        self.workers = workers;
        self
    }

    pub fn region(mut self, buffers: u32, frame_bytes: u32) -> Self {
        self.regions.push((buffers, frame_bytes));
        self
    }

    /// Gives each region so many long buffers.
    pub fn long(mut self, buffers: u32) -> Self {
        self.long = buffers;
        self
    }

    /// Lets an instance take no long frames.
    pub fn refusing(mut self, instance: u16) -> Self {
        self.refusing.push(instance);
        self
    }

    /// Adds a port that sends from its own region only.
    pub fn port(mut self, at: At) -> Self {
        self.ports.push(PortAt {
            at,
            bound: true,
            everywhere: false,
            service_address: None,
            senders: Senders::Anybody,
        });
        self
    }

    /// Adds a port that sends from any region.
    pub fn free_port(mut self, at: At) -> Self {
        self.ports.push(PortAt {
            at,
            bound: false,
            everywhere: false,
            service_address: None,
            senders: Senders::Anybody,
        });
        self
    }

    /// Lets the port named last be one of which every worker has a queue: the others get nothing by theirs.
    pub fn everywhere(mut self) -> Self {
        self.ports.last_mut().unwrap().everywhere = true;
        self
    }

    /// Adds a tunnel: a header in front of frames that leave by a port.
    pub fn tunnel(mut self, port: u16, header: &[u8]) -> Self {
        self.tunnels.push(Tunnel { port: PortId(port), header: header.to_vec(), inner: Inner::Frame });
        self
    }

    /// Adds a tunnel with service headers behind a header.
    pub fn service_tunnel(mut self, port: u16, header: &[u8], path: u32, index: u8) -> Self {
        let inner = Inner::OnPath(ServicePath { path, index });
        self.tunnels.push(Tunnel { port: PortId(port), header: header.to_vec(), inner });
        self
    }

    /// Lets all ports take service headers that are addressed to them, and keeps them.
    pub fn service_headers(mut self, address: MacAddress) -> Self {
        self.ports.iter_mut().for_each(|port| port.service_address = Some(address.0));
        self.extras.service = true;
        self
    }

    /// Lets the stage named last run on a node that this tunnel leads to.
    pub fn elsewhere(mut self, tunnel: u16) -> Self {
        self.nodes.push(Some(TunnelId(tunnel)));
        self.stages.last_mut().unwrap().elsewhere = Some(NodeId(self.nodes.len() as u16 - 1));
        self
    }

    /// Lets a stage of the chain named last be one that nodes share: which of them has the slots, in turn,
    /// and for how many ticks a silent flow is known.
    pub fn shared(mut self, position: u8, servers: &[Server], idle_ticks: u32) -> Self {
        let chain = ChainId(self.chains.len() as u16 - 1);
        let stage = self.last_chain().stages[usize::from(position)];
        self.shares.push(Share {
            chain,
            position,
            stage,
            servers: std::array::from_fn(|slot| servers[slot % servers.len()]),
            alive: servers.to_vec(),
            known: Arc::new(KnownFlows::new(idle_ticks)),
        });
        self
    }

    /// Adds a stage with its instances.
    pub fn nf(mut self, name: &str, instances: &[At]) -> Self {
        let mut stage = Stage::new(name.to_owned(), OnFailure::Drop);
        let first = self.instances.len() as u16;
        let of_worker = |worker: usize| {
            let all = (first..).zip(instances).filter(move |(_, at)| usize::from(at.worker) == worker);
            all.map(|(number, _)| InstanceId(number)).collect()
        };
        stage.set_instances((0..self.workers).map(of_worker).collect());
        stage.set_running((first..first + instances.len() as u16).map(InstanceId).collect());
        self.stages.push(stage);
        self.instances.extend_from_slice(instances);
        self
    }

    /// Lets the stage named last be bypassed when it is down.
    pub fn bypassed(mut self) -> Self {
        self.stages.last_mut().unwrap().on_failure = OnFailure::Bypass;
        self
    }

    pub fn chain(mut self, stages: &[u16], exit: Exit) -> Self {
        let name = format!("chain {}", self.chains.len());
        let stages = stages.iter().copied().map(NfId).collect();
        self.chains.push(Some(Chain {
            name,
            stages,
            exit,
            delay_bound_us: None,
            committed: false,
            path: None,
            across: None,
        }));
        self
    }

    fn last_chain(&mut self) -> &mut Chain {
        self.chains.last_mut().unwrap().as_mut().unwrap()
    }

    /// Gives the chain named last a service path, and the service index of its first stage.
    pub fn on_path(mut self, path: u32, index: u8) -> Self {
        self.last_chain().path = Some(ChainPath { path, index });
        self
    }

    /// Makes a port the end of a link: its address, and the neighbour's.
    pub fn link(mut self, port: usize, own: MacAddress, neighbour: MacAddress) -> Self {
        let at = &mut self.ports[port];
        (at.service_address, at.senders) = (Some(own.0), Senders::Neighbour(neighbour.0));
        self.extras.service = true;
        self.tunnels.push(Tunnel::by_link(PortId(port as u16), own.0, neighbour.0));
        self
    }

    /// Leads the chain named last over several nodes, by a service path.
    pub fn across(mut self, path: u32) -> Self {
        let path = ChainPath { path, index: 255 };
        self.last_chain().across = Some(Across { path, enters: true, ingress: 1, egress: 3 });
        self
    }

    /// Gives the chain named last a delay bound.
    pub fn bounded(mut self, micros: u32) -> Self {
        self.last_chain().delay_bound_us = Some(micros);
        self
    }

    /// Lets the packets of the chain named last wait at the exit until they may leave.
    pub fn committed(mut self) -> Self {
        self.last_chain().committed = true;
        self
    }

    pub fn rule(mut self, rule: Rule) -> Self {
        self.rules.push(rule);
        self
    }

    /// Sends packets that no earlier rule claims to this chain.
    pub fn default_chain(self, chain: u16) -> Self {
        self.rule(to_chain(chain))
    }

    pub fn ring(mut self, descriptors: u32) -> Self {
        self.ring = descriptors;
        self
    }

    /// Lends every instance so many empty buffers.
    pub fn lend(mut self, buffers: u32) -> Self {
        self.lend = buffers;
        self
    }

    /// Lets instances have standbys.
    pub fn protected(mut self) -> Self {
        self.protected = true;
        self
    }

    /// Throttles instances that cannot keep up, and lets `pending_max` packets wait for each.
    pub fn pressure(mut self, pending_max: u32) -> Self {
        let marks = QueueMarks::new(self.ring, 80, 60, Ticks(2 * PASS_TICKS), Ticks(PASS_TICKS));
        self.handling = Handling { marks: Some(marks), pending_max, yields: true, mark_at: self.ring / 2 };
        self
    }

    pub fn idle_ticks(mut self, ticks: u32) -> Self {
        self.idle_ticks = ticks;
        self
    }
}

/// Returns a rule that sends everything to a chain.
pub fn to_chain(chain: u16) -> Rule {
    Rule { chain: ChainId(chain), ..Rule::default() }
}

/// Returns a rule that sends packets that come by a port to a chain.
pub fn from_port(port: u16, chain: u16) -> Rule {
    Rule { ingress: Some(PortId(port)), ..to_chain(chain) }
}
