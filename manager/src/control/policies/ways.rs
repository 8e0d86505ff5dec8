//! Leads packets by the links that are up.

use headgate_decide::routes::Network;
use headgate_decide::units::Instant as Moment;
use headgate_host::network::Links;
use headgate_path::plan::{Senders, Tunnel, TunnelId};

use super::super::Control;
use super::super::ways::{ASK_EVERY, ASKED_OFTEN, End};
use crate::bfd::Sessions;
use crate::config::model::{Across, NodeLink};
use crate::status::EventCode;

impl Control {
    /// Returns the port of another node where a chain leaves, with the node.
    pub(in crate::control) fn exit_elsewhere(&self, chain: &str) -> String {
        let across =
            self.config.chains.iter().find(|one| one.name == chain).and_then(|one| one.across.as_ref());
        across.map_or_else(String::new, Across::exit_name)
    }

    /// Reports links to other nodes that went down or came up, and leads packets by those that are up.
    pub(in crate::control) fn tend_links(&mut self) {
        let told = self.bfd.as_ref().map(Sessions::tend).unwrap_or_default();
        for event in told {
            if event.code == EventCode::NodeLost {
                self.note_lost(&event.who, Moment(event.at_ns));
            }
            self.events.add(event);
        }
        if !self.ways.ends.is_empty() {
            self.tend_ways();
        }
    }

    fn tend_ways(&mut self) {
        let Some(bfd) = &self.bfd else { return };
        let mut is_changed = false;
        for (end, is_up) in self.ways.ends.iter_mut().zip(bfd.are_up()) {
            if end.is_up != is_up {
                // Who is there now may be another.
                (end.is_up, end.neighbour, end.asked) = (is_up, end.known.filter(|_| is_up), 0);
                is_changed = true;
            }
        }
        let now = self.now();
        let is_unknown = |end: &End| end.is_up && end.neighbour.is_none();
        if self.ways.ends.iter().any(is_unknown) && (is_changed || self.ways.due.is_due(now)) {
            self.ways.due = now + ASK_EVERY;
            is_changed |= self.ask_for_neighbours();
        }
        if is_changed {
            self.lead_ways();
        }
    }

    /// Asks for the addresses that are not known. Returns whether there are new ones.
    fn ask_for_neighbours(&mut self) -> bool {
        let Some(node) = &self.config.node else { return false };
        // Who cannot ask now asks again.
        let Ok(mut links) = Links::here() else { return false };
        let (mut is_found, mut unanswered) = (false, Vec::new());
        for (end, link) in self.ways.ends.iter_mut().zip(&node.links) {
            if !end.is_up || end.neighbour.is_some() {
                continue;
            }
            end.neighbour = links.neighbour(&end.interface, link.peer_address).unwrap_or_default();
            is_found |= end.neighbour.is_some();
            end.asked += 1;
            if end.asked == ASKED_OFTEN {
                unanswered.push((link.peer.clone(), unanswered_by(link)));
            }
        }
        for (peer, what) in unanswered {
            self.log(EventCode::LinkDown, &peer, what);
        }
        is_found
    }

    /// Publishes a plan by which packets go by the links that can be used.
    fn lead_ways(&mut self) {
        let Some(node) = &self.config.node else { return };
        let parts = &mut self.fabric.parts;
        for (number, end) in self.ways.ends.iter().enumerate() {
            let place = &mut parts.ports[end.port.index()];
            let (own, neighbour) = (place.service_address, end.neighbour.map(|mac| mac.0));
            place.senders = neighbour.map_or(Senders::UnknownNeighbour, Senders::Neighbour);
            let ends = own.zip(neighbour);
            parts.tunnels[number] =
                ends.map_or_else(Tunnel::default, |(own, next)| Tunnel::by_link(end.port, own, next));
        }
        let network = Network { nodes: node.network.nodes.len() as u16, links: &node.network.links };
        let own = node.network.place(&node.name).unwrap_or_default();
        let place = |link: usize| node.links.iter().position(|one| usize::from(one.number) == link);
        let is_used = |link| place(link).is_some_and(|at| self.ways.ends[at].neighbour.is_some());
        let routes = network.routes(own, is_used);
        parts.nodes = routes.into_iter().map(|link| Some(TunnelId(place(link?)? as u16))).collect();
        self.fabric.publish();
    }
}

fn unanswered_by(link: &NodeLink) -> String {
    format!(
        "the link by {} is up, and nobody answers there to {}: no packets are led by it; give the interface of {} that \
         address, or look whether ARP and neighbour discovery pass",
        link.interface, link.peer_address, link.peer
    )
}
