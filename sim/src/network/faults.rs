//! What happens when nodes and cables fail and come back.

use std::rc::Rc;

use headgate_decide::steer::cost::Terrain;
use headgate_decide::units::Instant;

use super::graph::Routes;
use super::scene::{Failing, Fault};
use super::world::{PathKey, World};

impl World<'_> {
    pub(super) fn on_fault(&mut self, now: Instant, fault: Fault) {
        match (fault.what, fault.fails) {
            (Failing::Node(node), true) => {
                self.down.insert(node);
                self.instances.on_node_down(node);
            }
            (Failing::Node(node), false) => {
                self.down.remove(&node);
            }
            (Failing::Cable(link), true) => {
                self.cut.insert(link & !1);
            }
            (Failing::Cable(link), false) => {
                self.cut.remove(&(link & !1));
            }
        }
        self.route_anew();
        self.steer_anew(now);
    }

    /// Routes over what is up.
    fn route_anew(&mut self) {
        let links = self.scene.graph.links();
        let is_up = |link: usize| {
            let ends = [links[link].from, links[link].to];
            !self.cut.contains(&(link as u32 & !1)) && !ends.iter().any(|end| self.down.contains(end))
        };
        self.routes = Rc::new(Routes::new(&self.scene.graph, is_up));
        self.ground_anew();
    }

    /// Known paths may lead over what is down: all flows are steered over what is left.
    fn steer_anew(&mut self, now: Instant) {
        self.paths.clear();
        for flow in self.flows.in_order() {
            let of = self.flows.of(flow);
            let (trip, place) = (of.trip, of.place());
            let key = place.map(|(path, _)| self.keys[path as usize].clone());
            self.take(now, flow);
            if self.down.contains(&trip.ingress) || self.down.contains(&trip.egress) {
                self.abort(flow);
                continue;
            }
            // A flow stays with its instances while they live and are in reach.
            let stays = key.filter(|key| self.is_whole(key));
            match stays {
                Some(key) => self.put(now, flow, key),
                None => self.enter(now, flow),
            }
        }
    }

    fn is_whole(&self, (trip, owners): &PathKey) -> bool {
        let mut from = trip.ingress;
        let mut nodes = owners.iter().map(|owner| owner.node).chain([trip.egress]);
        owners.iter().all(|owner| self.instances.all.contains_key(owner))
            && nodes.all(|node| self.ground.hops(std::mem::replace(&mut from, node), node).is_finite())
    }
}
