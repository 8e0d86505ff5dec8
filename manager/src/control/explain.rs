//! What would become of a packet that an operator describes (`headgate explain`).
//!
//! The configuration tells which rule by its place in the file; the workers tell what they would do, because
//! they have the flow table and the plan; the status tells in what state the NFs on its way are. Nothing is
//! sent.

use std::sync::mpsc::channel;
use std::time::Duration;

use headgate_api::explanation::{
    EndExplanation, Explanation, KnownFlow, NodeChange, NodeCost, RuleExplanation, StageExplanation,
    Treatment,
};
use headgate_decide::units::{ChainId, NfId, PortId};
use headgate_path::classify::LookedUp;
use headgate_path::drop::DropReason;
use headgate_path::plan::{Chain, Exit, NodeId, OnFailure, Server, Share, UNCLAIMED};
use headgate_path::worker::Command;

use super::Control;
use super::snapshot::runs;
use super::steering::owner_of;
use crate::api::RequestError;
use crate::config::{PacketDescription, plan};
use crate::status::{NfState, NfStatus};

/// Longest wait for the workers. Our choice: some thousand times what a pass takes on a busy core.
const PATIENCE: Duration = Duration::from_secs(2);

/// Most positions of a chain that can be left out: those that have a bit.
const POSITIONS: usize = u64::BITS as usize;

impl Control {
    /// Explains what would become of a packet now.
    pub(super) fn explain(&self, text: &str) -> Result<Explanation, RequestError> {
        let refuse = |message: String| RequestError::failed(message);
        let mut packet = PacketDescription::parse(text).map_err(|error| refuse(error.to_string()))?;
        let ingress = packet.ingress(&self.config).map_err(refuse)?;
        packet.port = Some(self.config.ports[usize::from(ingress.0)].name.clone());
        let found = self.look_up(PortId(ingress.0), &packet)?;
        let rule = packet.first_match(&self.config, ingress).map(|place| {
            let rule = &self.config.rules[place];
            RuleExplanation {
                place: place + 1,
                matches: plan::matches(&self.config, rule),
                chain: self.config.chains[rule.chain.index()].name.clone(),
            }
        });
        let mut explanation = Explanation {
            packet: packet.to_string(),
            rule,
            known: found.known.map(|(entry, ticks)| KnownFlow {
                chain: self.chain_name(entry.entrance.chain().index()),
                idle_ns: u64::from(ticks) * self.fabric.tick_ns(),
            }),
            ..Explanation::default()
        };
        match found.entrance().map(|entrance| entrance.chain()).filter(|chain| *chain != UNCLAIMED) {
            Some(chain) => self.explain_chain(chain, &found, &packet, &mut explanation),
            None => explanation.end = Some(end(DropReason::NoRule)),
        }
        self.note_change(&found, &mut explanation);
        Ok(explanation)
    }

    /// Asks all workers: the flow is in the table of the one whose queue it comes by.
    fn look_up(&self, port: PortId, packet: &PacketDescription) -> Result<LookedUp, RequestError> {
        let (reply, answers) = channel();
        let frame = packet.frame();
        self.fabric.post_all(|| Command::LookUp { port, frame: frame.clone(), reply: reply.clone() });
        let mut found: Option<LookedUp> = None;
        for _ in &self.fabric.workers {
            let answer = answers.recv_timeout(PATIENCE).map_err(|_| {
                let seconds = PATIENCE.as_secs();
                RequestError::failed(format!(
                    "a worker gave no answer within {seconds} s: its core is taken by other programs; `headgate doctor` \
                     and `headgate status` say more"
                ))
            })?;
            let answer = answer.map_err(|why| RequestError::failed(format!("no such packet: {why}")))?;
            if found.is_none_or(|found| found.known.is_none() && answer.known.is_some()) {
                found = Some(answer);
            }
        }
        found.ok_or_else(|| RequestError::failed("there is no worker".to_owned()))
    }

    fn explain_chain(
        &self,
        number: ChainId,
        found: &LookedUp,
        packet: &PacketDescription,
        explanation: &mut Explanation,
    ) {
        explanation.chain = Some(self.chain_name(number.index()));
        explanation.end = found.turned_away.map(end);
        let Some(Some(chain)) = self.fabric.parts.chains.get(number.index()) else {
            explanation.end = Some(end(DropReason::ChainRemoved));
            return;
        };
        let statuses = self.nfs_status();
        // Where the packet is: another node chooses for those that it sends on.
        let mut is_here = true;
        for (position, stage) in chain.stages.iter().enumerate() {
            let mut told = match self.share_of(number, position) {
                Some(share) => self.explain_shared(share, is_here, found, packet, &statuses),
                None => self.explain_stage(*stage, found, packet, &statuses),
            };
            is_here &= self.stays_here(&told);
            if position < POSITIONS && found.passed_over >> position & 1 == 1 {
                told.treatment = Treatment::LeftOut;
                told.notes.push("an NF before it led this flow past it".to_owned());
            }
            if explanation.end.is_some() {
                told.treatment = Treatment::NotReached;
            }
            explanation.stages.push(told);
        }
        explanation.out = Some(self.explain_exit(chain));
        if let Some(bound) = chain.delay_bound_us {
            explanation.notes.push(format!(
                "the chain has a delay bound of {bound} us: at its head packets end as delay-bound while those before \
                 them take longer"
            ));
        }
    }

    /// Returns the table of a stage that several nodes serve.
    fn share_of(&self, chain: ChainId, position: usize) -> Option<&Share> {
        let is_it = |one: &&Share| (one.chain, usize::from(one.position)) == (chain, position);
        self.fabric.parts.shares.iter().find(is_it)
    }

    /// Returns whether a stage leaves a packet at this node, as far as it is known here.
    fn stays_here(&self, told: &StageExplanation) -> bool {
        let own = self.config.node.as_ref().map(|node| &node.name);
        told.node.is_none() || told.node.as_ref() == own
    }

    fn explain_exit(&self, chain: &Chain) -> String {
        match chain.exit {
            Exit::Port(port) => self.config.ports[port.index()].name.clone(),
            Exit::Tunnel(tunnel) => format!("tunnel {}", tunnel.0),
            Exit::Node(_) => self.exit_elsewhere(&chain.name),
            Exit::Nf => "nf".to_owned(),
        }
    }

    /// Explains a stage that several nodes serve.
    fn explain_shared(
        &self,
        share: &Share,
        is_here: bool,
        found: &LookedUp,
        packet: &PacketDescription,
        statuses: &[NfStatus],
    ) -> StageExplanation {
        let own = self.config.node.as_ref();
        let of_other = |node: Option<String>, note: String| {
            let there = self.fabric.parts.stages.get(share.stage.index()).and_then(Option::as_ref);
            let nf = there.map_or_else(String::new, |stage| stage.name.clone());
            StageExplanation { nf, node, notes: vec![note], ..StageExplanation::default() }
        };
        if !is_here {
            return of_other(None, "several nodes serve it, and the one before it chooses".to_owned());
        }
        let mut told = match share.server_of(found.spread) {
            Server::Here => {
                let node = own.map(|node| node.name.clone());
                StageExplanation { node, ..self.explain_stage(share.stage, found, packet, statuses) }
            }
            Server::Node(node) => {
                let name = own.and_then(|own| own.network.nodes.get(usize::from(node.0)).cloned());
                let note = format!("node {} serves this flow", name.as_deref().unwrap_or("?"));
                let mut told = of_other(name, note);
                told.notes.extend(self.notes_of_elsewhere(node).into_iter().skip(1));
                told
            }
        };
        told.changed = self.change_of(share, found);
        told.notes.extend(self.note_of_costs(share));
        told
    }

    /// Returns how the flow came to the node that serves it, as far as its slot tells.
    fn change_of(&self, share: &Share, found: &LookedUp) -> Option<NodeChange> {
        let table = self.steering.tables.get(&(share.chain.0, share.position))?;
        let map = self.steering.map.as_deref()?;
        let serves = owner_of(share.server_of(found.spread), map.own);
        let change = table.change_to(share.slot_of(found.spread), serves)?;
        let from = map.network.nodes.get(change.from.node.0 as usize)?;
        let cost =
            |(server, cost): &(_, f64)| Some(NodeCost { node: map.name_of(server)?.to_owned(), cost: *cost });
        let costs = change.servers.iter().filter_map(cost).collect();
        Some(NodeChange { from: from.clone(), ago_ns: (self.now() - change.at).0, costs })
    }

    /// Returns what a packet costs at each node that serves a stage: what new flows are divided by.
    fn note_of_costs(&self, share: &Share) -> Option<String> {
        let table = self.steering.tables.get(&(share.chain.0, share.position))?;
        let map = self.steering.map.as_deref()?;
        let of = |(server, cost): &(_, f64)| format!("{cost:.2} at {}", map.name_of(server).unwrap_or("?"));
        let costs: Vec<String> = table.servers.iter().map(of).collect();
        let stay = if share.known.stay() { "; a known flow stays at its node" } else { "" };
        (!costs.is_empty())
            .then(|| format!("a packet costs {}, an idle core on the way being 1{stay}", costs.join(", ")))
    }

    fn explain_stage(
        &self,
        stage: NfId,
        found: &LookedUp,
        packet: &PacketDescription,
        statuses: &[NfStatus],
    ) -> StageExplanation {
        let Some(Some(there)) = self.fabric.parts.stages.get(stage.index()) else {
            return StageExplanation::default();
        };
        let configured = self.config.nfs.iter().find(|nf| nf.name == there.name);
        let mut told = StageExplanation {
            nf: there.name.clone(),
            runs: configured.map(runs).unwrap_or_default(),
            instances: configured.map_or(0, |nf| nf.cores.len()),
            ..StageExplanation::default()
        };
        if let Some(node) = there.elsewhere {
            let nodes = self.config.node.as_ref().map(|own| &own.network.nodes);
            told.node = nodes.and_then(|nodes| nodes.get(usize::from(node.0)).cloned());
            told.notes = self.notes_of_elsewhere(node);
            return told;
        }
        if there.running.is_empty() {
            note_down(&mut told, there.on_failure, statuses);
            return told;
        }
        if let Some(who) = other_chooser(found, packet).filter(|_| there.running.len() > 1) {
            told.notes.push(format!("{who} among the instances"));
            return told;
        }
        let owner = there.table[headgate_decide::spread::slot(found.spread)];
        let name = &self.instances[owner.index()].seat.name;
        told.instance = Some(name.clone());
        if let Some(status) = statuses.iter().find(|status| status.instance == *name) {
            told.state = Some(word(status).to_owned());
            told.notes.extend(queue_note(status));
        }
        told
    }

    /// What is known here of a stage that another node runs.
    fn notes_of_elsewhere(&self, node: NodeId) -> Vec<String> {
        let leads = self.fabric.parts.nodes.get(usize::from(node.0)).is_some_and(Option::is_some);
        let no_way = (!leads).then(|| "no link that is up leads there: packets end as no-way".to_owned());
        ["another node runs it, which knows its state".to_owned()].into_iter().chain(no_way).collect()
    }

    /// Notes where rules, table and file do not say the same: for a moment after a change.
    fn note_change(&self, found: &LookedUp, explanation: &mut Explanation) {
        let by_rules = found.by_rules.map(|entrance| self.chain_name(entrance.chain().index()));
        if by_rules != explanation.rule.as_ref().map(|rule| rule.chain.clone()) {
            explanation.notes.push(
                "a configuration is being applied: the workers have other rules than the file now".to_owned(),
            );
        }
    }
}

/// Returns what chooses among instances and is not known of the packet.
fn other_chooser(found: &LookedUp, packet: &PacketDescription) -> Option<&'static str> {
    let by_queue = found.by_queue.then_some("the queue by which its first packet comes chooses");
    if packet.is_spread_by_mac() { Some("its MAC addresses choose") } else { by_queue }
}

/// Notes that no instance of a stage is running, and what becomes of packets.
fn note_down(told: &mut StageExplanation, on_failure: OnFailure, statuses: &[NfStatus]) {
    let down = statuses.iter().find(|status| status.nf == told.nf);
    told.state = down.map(|status| word(status).to_owned());
    told.notes.extend(down.and_then(|status| status.last_failure.clone()));
    if on_failure == OnFailure::Bypass {
        told.treatment = Treatment::LeftOut;
        told.notes.push("it is down, and on_failure is bypass".to_owned());
    }
}

fn end(reason: DropReason) -> EndExplanation {
    EndExplanation { reason: reason.name().to_owned(), sentence: reason.sentence().to_owned() }
}

/// The state of an instance in a word.
const fn word(status: &NfStatus) -> &'static str {
    match status.state {
        NfState::Running if status.throttled => "throttled",
        NfState::Running if status.blocked => "blocked",
        NfState::Running if status.asleep => "asleep",
        NfState::Running => "running",
        NfState::Starting => "starting",
        NfState::Stopping => "stopping",
        NfState::TakingOver => "taking over",
        NfState::Reclaiming => "reclaiming",
        NfState::Waiting => "waiting for its restart",
        NfState::Awaited => "not attached",
        NfState::Failed => "failed",
        NfState::Gone => "gone",
    }
}

/// What stands in front of the packet there.
fn queue_note(status: &NfStatus) -> Option<String> {
    let (held, ring, pending) = (status.held, status.ring, status.pending);
    match (status.throttled, status.blocked) {
        (true, _) => Some(format!(
            "overloaded: {held} packets are in its rings of {ring}, {pending} wait before them; its chains are shed at \
             their head"
        )),
        (false, true) => Some("it rests until an overloaded NF behind it has caught up".to_owned()),
        (false, false) => (held > 0).then(|| format!("{held} packets are in its rings of {ring} and hands")),
    }
}
