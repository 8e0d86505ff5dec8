//! What the elected node says for all: how many may start, who begins, and who ends.

use std::collections::BTreeMap;

use headgate_api::status::ClusterStatus;
use headgate_config::Config;
use headgate_config::model::{NodeRange, StageAt};
use headgate_decide::elastic::Band;
use headgate_decide::elastic::orchestrate::{self, Order, Service, Stage};
use headgate_decide::routes::Network;
use headgate_decide::steer::NodeId;
use headgate_decide::units::{Instant, Span};

use crate::keys::{Allow, State, View};

/// Time after which a node that was named has claimed, or is passed over: it hangs, say. Our choice: many
/// looks of a node at the store.
const NAMED_MAX: Span = Span::from_secs(3);
/// Time for which it is passed over. Our choice: what a node that could not start one waits itself.
const PASSED_OVER: Span = Span::from_secs(30);

/// An NF whose instances are counted.
#[derive(Clone, Debug)]
struct Counted {
    nf: String,
    range: NodeRange,
    /// Places of its nodes, the nearest to where packets of its chains enter and leave first.
    nodes: Vec<u16>,
}

/// The part of an orchestrator that every node could have.
#[derive(Debug, Default)]
pub struct Orchestrator {
    decision: orchestrate::Orchestrator,
    names: Vec<String>,
    counted: Vec<Counted>,
    /// Since when a claim is known to serve.
    since: BTreeMap<(String, String), Instant>,
    /// Since when a node is named for an NF.
    named: BTreeMap<(String, String), Instant>,
    epoch: u64,
}

impl Orchestrator {
    /// Returns that of a configuration.
    pub fn of(config: &Config) -> Self {
        let Some(node) = &config.node else { return Self::default() };
        let ranges = ranges(config);
        let graph = Network { nodes: node.network.nodes.len() as u16, links: &node.network.links };
        let hops: Vec<Vec<u32>> = (0..graph.nodes).map(|goal| graph.hops_to(goal)).collect();
        let counted = |(nf, (range, nodes)): (String, (NodeRange, Vec<String>))| {
            let ends = ends_of(config, &nf);
            let place = |name: &String| node.network.place(name);
            let way = |at: u16| -> u64 {
                let to = |end: &String| {
                    place(end).map_or(0, |end| u64::from(hops[usize::from(end)][usize::from(at)]))
                };
                ends.iter().map(to).sum()
            };
            let mut nodes: Vec<u16> = nodes.iter().filter_map(place).collect();
            nodes.sort_by_key(|at| (way(*at), *at));
            Counted { nf, range, nodes }
        };
        let counted = ranges.into_iter().map(counted).collect();
        Self { names: node.network.nodes.clone(), counted, ..Self::default() }
    }

    /// Begins a term: of what was before nothing is known.
    pub fn begin(&mut self) {
        let (names, counted) = (std::mem::take(&mut self.names), std::mem::take(&mut self.counted));
        *self = Self { names, counted, ..Self::default() };
    }

    /// Looks at all claims in a term, and counts an epoch if one ends. Returns what is to be written for each
    /// NF, where it is another.
    pub fn on_look(
        &mut self,
        now: Instant,
        (term, is_epoch): (u64, bool),
        band: &Band,
        (view, status): (&View, &ClusterStatus),
    ) -> Vec<(String, Allow)> {
        self.epoch += u64::from(is_epoch);
        self.since
            .retain(|key, _| view.claims.get(key).is_some_and(|claim| claim.value.state == State::Serving));
        let may_be_named = |key: &(String, String), at: Instant| {
            !view.claims.contains_key(key) && now - at < NAMED_MAX + PASSED_OVER
        };
        self.named.retain(|key, at| may_be_named(key, *at));
        let services: Vec<Service> =
            self.counted.clone().iter().map(|one| self.service(now, one, view, status)).collect();
        let orders = self.decision.on_look(now, band, &services, is_epoch);
        for (one, order) in self.counted.iter().zip(&orders) {
            for node in order.named.iter().filter_map(|node| self.names.get(node.0 as usize)) {
                self.named.entry((one.nf.clone(), node.clone())).or_insert(now);
            }
        }
        let all = self.counted.iter().zip(orders);
        let written = all.filter_map(|(one, order)| {
            let allow = self.allow(term, order);
            let known = view.allows.get(&one.nf).map(|known| &known.value);
            let is_same = known.is_some_and(|known| {
                (known.term, known.new, &known.named, &known.end)
                    == (term, allow.new, &allow.named, &allow.end)
            });
            (!is_same).then(|| (one.nf.clone(), allow))
        });
        written.collect()
    }

    fn allow(&self, term: u64, order: Order) -> Allow {
        let Order { new, named, end } = order;
        let name = |nodes: Vec<NodeId>| {
            nodes.into_iter().filter_map(|node| self.names.get(node.0 as usize).cloned()).collect()
        };
        Allow { term, epoch: self.epoch, new, named: name(named), end: name(end) }
    }

    fn service(&mut self, now: Instant, one: &Counted, view: &View, status: &ClusterStatus) -> Service {
        let mut claims = Vec::new();
        for (node, claim) in view.claims_of(&one.nf) {
            let Some(place) = self.names.iter().position(|name| name == node) else { continue };
            let stage = match claim.value.state {
                State::Claimed => Stage::Claimed,
                State::Serving => Stage::Serving,
                State::Leaving => Stage::Leaving,
            };
            let since = match stage {
                Stage::Serving => *self.since.entry((one.nf.clone(), node.to_owned())).or_insert(now),
                _ => now,
            };
            let kappa = price_of(&one.nf, node, status);
            claims.push(orchestrate::Claim { node: NodeId(place as u32), stage, kappa, since });
        }
        let is_free = |at: &&u16| {
            let name = &self.names[usize::from(**at)];
            view.nodes.contains_key(name) && view.claim(&one.nf, name).is_none()
        };
        let is_passed_over = |at: &&u16| {
            let key = (one.nf.clone(), self.names[usize::from(**at)].clone());
            self.named.get(&key).is_some_and(|since| now - *since >= NAMED_MAX)
        };
        let (late, mut free): (Vec<&u16>, Vec<&u16>) =
            one.nodes.iter().filter(is_free).partition(is_passed_over);
        free.extend(late);
        let candidates = free.into_iter().map(|at| NodeId(u32::from(*at))).collect();
        Service { min: one.range.min, max: one.range.max, claims, candidates }
    }
}

/// Returns NFs with a range, and their nodes: those of chains, which all nodes know, and those that are here.
fn ranges(config: &Config) -> BTreeMap<String, (NodeRange, Vec<String>)> {
    let stages =
        config.chains.iter().filter_map(|chain| chain.across.as_ref()).flat_map(|across| &across.stages);
    let range = |stage: &StageAt| Some((stage.nf.clone(), (stage.range?, stage.nodes.clone())));
    stages.filter_map(range).collect()
}

/// Returns the nodes where packets of an NF's chains enter and leave.
fn ends_of(config: &Config, nf: &str) -> Vec<String> {
    let across = config.chains.iter().filter_map(|chain| chain.across.as_ref());
    let of_nf = across.filter(|across| across.stages.iter().any(|stage| stage.nf == nf));
    of_nf.flat_map(|across| across.entries.iter().chain([&across.exit]).cloned()).collect()
}

/// Returns the price of a node's core for an NF; `None` where it is not heard.
fn price_of(nf: &str, node: &str, status: &ClusterStatus) -> Option<f64> {
    let node = status.nodes.iter().find(|one| one.name == node && one.alive)?;
    node.nfs.iter().find(|offer| offer.nf == nf && offer.instances > 0).map(|offer| offer.price)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::{Alive, Known};

    fn nobody(nodes: &[&str]) -> View {
        let mut view = View::default();
        for node in nodes {
            let value = Alive { incarnation: 1 };
            view.nodes.insert((*node).to_owned(), Known { value, created: 1, written: 1 });
        }
        view
    }

    #[test]
    fn a_node_that_was_named_and_does_not_claim_is_passed_over() {
        let mut orchestrator = Orchestrator {
            names: ["a", "b"].map(str::to_owned).into(),
            counted: vec![Counted {
                nf: "fw".to_owned(),
                range: NodeRange { min: 1, max: 2 },
                nodes: vec![0, 1],
            }],
            ..Orchestrator::default()
        };
        let mut view = nobody(&["a", "b"]);
        let mut named = Vec::new();
        for second in 0..40 {
            let now = Instant(0) + Span::from_secs(second);
            let told =
                orchestrator.on_look(now, (7, true), &Band::default(), (&view, &ClusterStatus::default()));
            for (nf, value) in told {
                named.push((second, value.named[0].clone()));
                view.allows.insert(nf, Known { value, created: 1, written: second });
            }
        }
        // Each has its time, and after a while another chance.
        let expected = [(0, "a"), (3, "b"), (6, "a"), (33, "b")];
        let got: Vec<(u64, &str)> = named.iter().map(|(second, node)| (*second, node.as_str())).collect();
        assert_eq!(got[..3], expected[..3], "{got:?}");
        assert!(got.len() <= 6, "{got:?}");
    }
}
