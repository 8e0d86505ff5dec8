//! Status of nodes that share NFs: who is alive, what cores cost, and how flows are divided.

use std::sync::Arc;

use headgate_decide::spread::SLOTS;
use headgate_path::plan::Share;

use super::Control;
use super::instance::Instance;
use super::steering::{Map, owner, server, stage_of};
use crate::beats::{Beats, Offered};
use crate::config::model::{Nf, NodeRange};
use crate::status::{ClusterStatus, NodeStatus, OfferStatus, RangeStatus, ServerStatus, SharedStageStatus};

impl Control {
    /// Returns nodes, prices, and how flows are divided; `None` where no NF is shared and there is no store.
    pub(super) fn cluster_status(&self) -> Option<ClusterStatus> {
        let node = self.config.node.as_ref()?;
        if node.steering.is_none() && node.store.is_none() {
            return None;
        }
        let settings = node.steering.unwrap_or_default();
        // Where no NF is shared, nobody else needs one.
        let map = self.steering.map.clone().unwrap_or_else(|| Arc::new(Map::of(node)));
        let map = &*map;
        let shares = self.fabric.parts.shares.iter();
        Some(ClusterStatus {
            node: map.name.clone(),
            digest: node.digest.to_string(),
            mode: settings.mode.word().to_owned(),
            period_ns: settings.period_ns,
            nodes: map.places().map(|place| self.node_status(map, place)).collect(),
            stages: shares.filter_map(|share| self.shared_status(map, share)).collect(),
            beats: self.beats.as_ref().map(Beats::status).unwrap_or_default(),
            ranges: self.config.nfs.iter().filter_map(|nf| self.range_status(nf)).collect(),
            store: node.store.as_ref().map(|_| self.steering.store.clone().unwrap_or_default()),
        })
    }

    /// Returns an NF that so many nodes serve as it is needed.
    fn range_status(&self, nf: &Nf) -> Option<RangeStatus> {
        let NodeRange { min, max } = nf.range?;
        let here = |one: &&Instance| one.seat.nf.name == nf.name && !one.is_gone();
        let state = match self.instances.iter().find(here) {
            None => "absent",
            Some(_) if self.steering.departures.contains_key(&nf.name) => "leaving",
            Some(one) if one.drained => "leaving",
            Some(one) if one.life.is_in_service() => "serving",
            Some(_) => "starting",
        };
        let core = *nf.cores.first()?;
        let price = self.steering.kappa(core);
        Some(RangeStatus { nf: nf.name.clone(), min, max, state: state.to_owned(), core, price })
    }

    fn node_status(&self, map: &Map, place: u16) -> NodeStatus {
        let heard = self.beats.as_ref().and_then(|beats| beats.heard(place.into()));
        let (at, offers) = match heard {
            _ if place == map.own => (None, self.own_offers(&map.name)),
            Some((at, offers)) => (Some(at), offers),
            None => (None, Vec::new()),
        };
        let tunnel = self.fabric.parts.nodes.get(usize::from(place)).copied().flatten();
        let end = tunnel.and_then(|tunnel| self.ways.ends.get(usize::from(tunnel.0)));
        let hops = map.hops(map.own, place);
        NodeStatus {
            name: map.network.nodes[usize::from(place)].clone(),
            alive: place == map.own || at.is_some(),
            hops: hops.is_finite().then_some(hops as u32),
            interface: end.map(|end| end.interface.clone()),
            heard_ns_ago: at.map(|at| (self.now() - at).0),
            nfs: offers.into_iter().map(offer_status).collect(),
        }
    }

    fn shared_status(&self, map: &Map, share: &Share) -> Option<SharedStageStatus> {
        let chain = self.fabric.parts.chains.get(share.chain.index())?.as_ref()?;
        let stage = stage_of(&self.config, &chain.name, share.position)?;
        let table = self.steering.tables.get(&(share.chain.0, share.position))?;
        let places: Vec<u16> = stage.nodes.iter().filter_map(|name| map.network.place(name)).collect();
        let servers: Vec<_> = places.iter().map(|place| server(*place, map.own)).collect();
        let kept = share.known.stay().then(|| share.known.kept_by(&servers));
        let server = |at: usize| {
            let known = table.servers.iter().find(|(one, _)| one.owner == owner(places[at]));
            ServerStatus {
                node: map.network.nodes[usize::from(places[at])].clone(),
                alive: known.is_some(),
                slots: share.servers.iter().filter(|one| **one == servers[at]).count() as u32,
                flows: kept.as_ref().map(|kept| kept[at] as u64),
                cost: known.map(|(_, cost)| *cost).filter(|cost| cost.is_finite()),
                rate: table.rate_of(owner(places[at])),
                leaving: known.is_some() && !table.sharing.open().contains(&owner(places[at])),
            }
        };
        Some(SharedStageStatus {
            chain: chain.name.clone(),
            position: share.position,
            nf: stage.nf.clone(),
            flows_stay: share.known.stay(),
            steered: (0..SLOTS).map(|slot| share.known.steered(slot)).sum(),
            steered_rate: table.rate(),
            moved: table.moved,
            servers: (0..places.len()).map(server).collect(),
        })
    }
}

fn offer_status(offer: Offered) -> OfferStatus {
    let Offered { nf, instances, kappa, service_ns, leaving } = offer;
    let service_time_ns = (service_ns > 0).then_some(u64::from(service_ns));
    OfferStatus { nf, instances, price: kappa, service_time_ns, leaving }
}
