//! Instances of all services: where the first ones are, which start, which end.

use std::collections::BTreeMap;

use headgate_decide::elastic::counted;
use headgate_decide::elastic::end::{Ends, Serving};
use headgate_decide::elastic::place::{Place, Waiting, best};
use headgate_decide::elastic::start::{CoreLoad, Rival, Start, allowance, starts, wait};
use headgate_decide::steer::cost::Terrain;
use headgate_decide::steer::{NodeId, Owner};
use headgate_decide::units::{Instant, Span};

use super::ground::{Ground, Instance, Layout, TABLE_NODES};
use super::scene::{Mode, NetworkScene};

/// What an epoch showed of each instance and what flows pass.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// Part of each resource that was used.
    pub(crate) used: Vec<f64>,
    /// Flows by instance.
    pub(crate) flows: BTreeMap<Owner, u32>,
    /// Bits per second by the instance that they go to and the node that they pass on the way there.
    pub(crate) passing: BTreeMap<(Owner, NodeId), f64>,
    /// Bits per second by instance and the node before or after it.
    pub(crate) beside: BTreeMap<(Owner, NodeId), f64>,
}

impl Seen {
    /// Returns what counts of a core's instance against the band.
    fn counted(&self, ground: &Ground, core: u32) -> f64 {
        counted(ground.kappas[core as usize], self.used[core as usize])
    }
}

/// All instances.
#[derive(Debug, Default)]
pub(crate) struct Instances {
    pub(crate) all: BTreeMap<Owner, Instance>,
    /// Claimed, to serve from the next epoch on: a process needs half a second to start.
    starting: Vec<(Owner, Instance)>,
    ends: Ends,
    next: u32,
    pub(crate) started: u64,
    pub(crate) ended: u64,
    /// Most that started of a service in an epoch beyond what was allowed. 0, or something is wrong.
    pub(crate) beyond: u32,
}

/// Fewest instances of a service, and the most.
pub(crate) const LEAST: u32 = 1;
const MOST: u32 = 1 << 16;
/// Utilisation from which Slick and E2 take an instance for overloaded: the top of the dissertation's band.
const OVERLOADED: f64 = 0.85;

impl Instances {
    fn add(&mut self, node: NodeId, service: u32, core: u32, since: Instant) -> (Owner, Instance) {
        self.next += 1;
        let owner = Owner { node, instance: self.next };
        (owner, Instance { service, core, since, serves: true })
    }

    /// Places the first instances, for all modes alike: round by round one of each service that needs
    /// another, on the free core nearest to hosts and to the services next to it in chains; then pairs of
    /// them change places while that shortens ways (E2's is Kernighan and Lin's, of which this is a
    /// pass).
    pub(crate) fn place_first(&mut self, scene: &NetworkScene, layout: &Layout, ground: &Ground) {
        let needs = |demand: &f64| (demand / scene.core_rate / OVERLOADED).ceil().max(1.0) as u32;
        let mut wanted: Vec<u32> = scene.demand().iter().map(needs).collect();
        if let Some(count) = scene.instances {
            wanted.fill(count);
        }
        if scene.graph.nodes() > TABLE_NODES {
            return self.deal(layout, wanted);
        }
        let neighbours = neighbours(scene);
        let mut placed: Vec<(u32, NodeId, u32)> = Vec::new();
        while wanted.iter().any(|left| *left > 0) {
            for service in 0..wanted.len() as u32 {
                if wanted[service as usize] == 0 {
                    continue;
                }
                wanted[service as usize] -= 1;
                let spots = layout.nodes().flat_map(|node| layout.cores(node).map(move |core| (node, core)));
                let crowd = |core: u32| placed.iter().filter(|(.., of)| *of == core).count();
                let cost = |node: NodeId| distance(scene, ground, &neighbours, &placed, (service, node));
                let best =
                    spots.min_by(|a, b| crowd(a.1).cmp(&crowd(b.1)).then(cost(a.0).total_cmp(&cost(b.0))));
                placed.extend(best.map(|(node, core)| (service, node, core)));
            }
        }
        swap(scene, ground, &neighbours, &mut placed);
        for (service, node, core) in placed {
            let (owner, instance) = self.add(node, service, core, Instant(0));
            self.all.insert(owner, instance);
        }
    }

    /// Places the first instances of a large network: one of each service after another, as far from each
    /// other as its cores are.
    fn deal(&mut self, layout: &Layout, mut wanted: Vec<u32>) {
        let spots: Vec<(NodeId, u32)> =
            layout.nodes().flat_map(|node| layout.cores(node).map(move |core| (node, core))).collect();
        let count = wanted.iter().sum::<u32>() as usize;
        let mut services = (0..wanted.len()).cycle();
        for place in 0..count {
            let Some(service) = services.find(|service| wanted[*service] > 0) else { return };
            wanted[service] -= 1;
            let Some((node, core)) = spots.get(place * spots.len() / count) else { return };
            let (owner, instance) = self.add(*node, service as u32, *core, Instant(0));
            self.all.insert(owner, instance);
        }
    }

    /// Number of instances in service.
    pub(crate) fn serving(&self) -> impl Iterator<Item = (&Owner, &Instance)> {
        self.all.iter().filter(|(_, instance)| instance.serves)
    }

    /// Those that were claimed in the last epoch serve.
    pub(crate) fn begin_to_serve(&mut self, now: Instant) {
        for (owner, instance) in std::mem::take(&mut self.starting) {
            self.all.insert(owner, Instance { since: now, ..instance });
            self.started += 1;
        }
    }

    /// Instances on a node that failed are gone.
    pub(crate) fn on_node_down(&mut self, node: NodeId) {
        self.all.retain(|owner, _| owner.node != node);
        self.starting.retain(|(owner, _)| owner.node != node);
    }

    /// Decides what starts and what ends after an epoch.
    pub(crate) fn on_epoch(
        &mut self,
        now: Instant,
        (scene, layout, ground): (&NetworkScene, &Layout, &Ground),
        seen: &Seen,
        is_up: &dyn Fn(NodeId) -> bool,
    ) {
        self.replace_missing(scene, layout, ground, is_up);
        match scene.mode {
            Mode::Slick | Mode::E2Simple => self.scale_out(scene, layout, ground, seen, is_up),
            _ => self.compete(scene, layout, ground, seen, is_up),
        }
        let utilisation = matches!(scene.mode, Mode::Slick | Mode::E2Simple);
        let kappa = |core: u32| match utilisation {
            true => headgate_decide::market::kappa_of(seen.used[core as usize]),
            false => seen.counted(ground, core),
        };
        let serving = |(owner, instance): (&Owner, &Instance)| Serving {
            owner: *owner,
            service: instance.service,
            kappa: kappa(instance.core),
            flows: seen.flows.get(owner).copied().unwrap_or(0),
            since: instance.since,
        };
        let all: Vec<Serving> = self.serving().map(serving).collect();
        for owner in self.ends.on_epoch(now, &scene.band, &all, |_| LEAST) {
            if let Some(instance) = self.all.get_mut(&owner) {
                instance.serves = false;
                self.ended += 1;
            }
        }
        // Drained: nothing of them is left.
        self.all.retain(|owner, instance| {
            instance.serves || seen.flows.get(owner).is_some_and(|flows| *flows > 0)
        });
    }

    fn of_service(&self, service: u32) -> u32 {
        self.serving().filter(|(_, instance)| instance.service == service).count() as u32
    }

    fn claimed(&self, service: u32) -> u32 {
        self.starting.iter().filter(|(_, instance)| instance.service == service).count() as u32
    }

    fn claim(&mut self, node: NodeId, service: u32, core: u32) {
        let new = self.add(node, service, core, Instant(0));
        self.starting.push(new);
    }

    /// Services with fewer than the least get one where it shortens the ways of all pairs of hosts most.
    fn replace_missing(
        &mut self,
        scene: &NetworkScene,
        layout: &Layout,
        ground: &Ground,
        is_up: &dyn Fn(NodeId) -> bool,
    ) {
        for service in 0..scene.services() {
            if self.of_service(service) + self.claimed(service) >= LEAST {
                continue;
            }
            let spot = |node: NodeId| layout.cores(node).map(move |core| (node, core));
            let place = |(node, core): (NodeId, u32)| Place {
                core: Owner { node, instance: core },
                price: ground.kappas[core as usize] + 1.0,
            };
            let places: Vec<Place> =
                layout.nodes().filter(|node| is_up(*node)).flat_map(spot).map(place).collect();
            let hosts: Vec<NodeId> = scene.hosts.iter().copied().filter(|host| is_up(*host)).collect();
            // Each host to the next: all of them, without a square of classes.
            let pairs = hosts.iter().zip(hosts.iter().cycle().skip(1));
            let waiting: Vec<Waiting> = pairs
                .filter(|(from, to)| from != to && ground.hops(**from, **to).is_finite())
                .map(|(&ingress, &egress)| Waiting { ingress, egress, stages: vec![service], weight: 1.0 })
                .collect();
            let known = |service: u32| ground.candidates[service as usize].clone();
            if let Some(place) = best(ground, service, &places, &waiting, known) {
                self.claim(place.core.node, service, place.core.instance);
            }
        }
    }

    /// Each node offers what it would earn; the best placed claim first.
    fn compete(
        &mut self,
        scene: &NetworkScene,
        layout: &Layout,
        ground: &Ground,
        seen: &Seen,
        is_up: &dyn Fn(NodeId) -> bool,
    ) {
        let kappa = |instance: &Instance| seen.counted(ground, instance.core);
        let allow = |service: u32| {
            let kappas = self.serving().filter(|(_, one)| one.service == service).map(|(_, one)| kappa(one));
            allowance(&scene.band, kappas, self.claimed(service), (self.of_service(service), MOST))
        };
        let allowed: Vec<u32> = (0..scene.services()).map(allow).collect();
        let over_used: Vec<(Owner, Instance)> = self
            .serving()
            .filter(|(_, one)| kappa(one) > scene.band.high)
            .map(|(owner, one)| (*owner, *one))
            .collect();
        let mut claims: Vec<(Span, NodeId, Start)> = Vec::new();
        for node in layout.nodes().filter(|node| is_up(*node)) {
            let (rivals, cores) = self.seen_from(node, (scene, layout, ground), seen, &over_used);
            let found =
                starts(&scene.band, scene.off_path, &rivals, &cores, |service| allowed[service as usize]);
            claims.extend(found.into_iter().map(|start| (wait(&start.expected, scene.period), node, start)));
        }
        self.grant(claims, allowed);
    }

    /// Over-used instances as a node sees them, and its free cores.
    fn seen_from(
        &self,
        node: NodeId,
        (scene, layout, ground): (&NetworkScene, &Layout, &Ground),
        seen: &Seen,
        over_used: &[(Owner, Instance)],
    ) -> (Vec<Rival>, Vec<CoreLoad>) {
        let kappa = |instance: &Instance| seen.counted(ground, instance.core);
        let rival = |(owner, one): &(Owner, Instance)| Rival {
            service: one.service,
            price: kappa(one) + 1.0,
            kappa: kappa(one),
            way: ground.price(node, owner.node),
            hops: ground.hops(node, owner.node),
            passing: seen.passing.get(&(*owner, node)).copied().unwrap_or(0.0) / scene.core_rate,
        };
        let rivals: Vec<Rival> = over_used.iter().map(rival).filter(|one| one.hops.is_finite()).collect();
        let load =
            |core: u32| CoreLoad { core, kappa: ground.kappas[core as usize], instances: self.on_core(core) };
        // As in the papers, an instance has a core for itself.
        let free = layout.cores(node).filter(|core| self.on_core(*core) == 0);
        let cores: Vec<CoreLoad> = free.map(load).collect();
        (rivals, cores)
    }

    /// Grants claims while there are any allowed, the one that waits shortest first.
    fn grant(&mut self, mut claims: Vec<(Span, NodeId, Start)>, mut allowed: Vec<u32>) {
        claims.sort_by_key(|claim| (claim.0.0, claim.1, claim.2.service));
        let granted = allowed.clone();
        let mut begun = vec![0; allowed.len()];
        for (_, node, start) in claims {
            let left = &mut allowed[start.service as usize];
            if *left > 0 {
                *left -= 1;
                begun[start.service as usize] += 1;
                self.claim(node, start.service, start.core);
            }
        }
        let beyond =
            begun.iter().zip(&granted).map(|(begun, granted): (&u32, _)| begun.saturating_sub(*granted));
        self.beyond = self.beyond.max(beyond.max().unwrap_or(0));
    }

    fn on_core(&self, core: u32) -> u32 {
        let all = self.serving().map(|(_, one)| one).chain(self.starting.iter().map(|(_, one)| one));
        all.filter(|one| one.core == core).count() as u32
    }

    /// Slick and E2: one more for each overloaded one, on the free core that is nearest to it (E2), or to
    /// where its traffic comes from and goes to (Slick).
    fn scale_out(
        &mut self,
        scene: &NetworkScene,
        layout: &Layout,
        ground: &Ground,
        seen: &Seen,
        is_up: &dyn Fn(NodeId) -> bool,
    ) {
        let overloaded: Vec<(Owner, u32)> = self
            .serving()
            .filter(|(_, one)| seen.used[one.core as usize] > OVERLOADED)
            .map(|(owner, one)| (*owner, one.service))
            .collect();
        for (owner, service) in overloaded {
            let spots = layout.nodes().filter(|node| is_up(*node));
            let free = spots.flat_map(|node| layout.cores(node).map(move |core| (node, core)));
            let free = free.filter(|(_, core)| self.on_core(*core) == 0);
            let near = |node: NodeId| match scene.mode {
                Mode::E2Simple => ground.hops(owner.node, node),
                _ => {
                    let beside = seen.beside.range((owner, NodeId(0))..=(owner, NodeId(u32::MAX)));
                    beside.map(|((_, other), rate)| rate * ground.hops(*other, node)).sum()
                }
            };
            let best = free.min_by(|a, b| near(a.0).total_cmp(&near(b.0)).then(a.1.cmp(&b.1)));
            if let Some((node, core)) = best {
                self.claim(node, service, core);
            }
        }
    }
}

/// Services next to each other in chains.
fn neighbours(scene: &NetworkScene) -> Vec<Vec<u32>> {
    let mut neighbours = vec![Vec::new(); scene.services() as usize];
    for (stages, _) in &scene.chains {
        for pair in stages.windows(2) {
            neighbours[pair[0] as usize].push(pair[1]);
            neighbours[pair[1] as usize].push(pair[0]);
        }
    }
    neighbours
}

/// Mean distance of an instance from hosts, and from those of the services beside it in chains.
fn distance(
    scene: &NetworkScene,
    ground: &Ground,
    neighbours: &[Vec<u32>],
    placed: &[(u32, NodeId, u32)],
    (service, node): (u32, NodeId),
) -> f64 {
    let to = |other: NodeId| ground.hops(node, other);
    let hosts: f64 = scene.hosts.iter().map(|host| to(*host)).sum();
    let beside = placed.iter().filter(|(of, ..)| neighbours[service as usize].contains(of));
    let (sum, count) = beside.fold((0.0, 0.0), |(sum, count), (_, other, _)| (sum + to(*other), count + 1.0));
    hosts / scene.hosts.len() as f64 + if count > 0.0 { sum / count } else { 0.0 }
}

/// Exchanges the places of pairs while that shortens their distances, once over all pairs.
fn swap(scene: &NetworkScene, ground: &Ground, neighbours: &[Vec<u32>], placed: &mut [(u32, NodeId, u32)]) {
    for one in 0..placed.len() {
        for other in one + 1..placed.len() {
            if placed[one].0 == placed[other].0 {
                continue;
            }
            let cost = |placed: &[(u32, NodeId, u32)]| -> f64 {
                [one, other]
                    .map(|at| distance(scene, ground, neighbours, placed, (placed[at].0, placed[at].1)))
                    .iter()
                    .sum()
            };
            let before = cost(placed);
            let services = (placed[one].0, placed[other].0);
            (placed[one].0, placed[other].0) = (services.1, services.0);
            if cost(placed) >= before {
                (placed[one].0, placed[other].0) = services;
            }
        }
    }
}
