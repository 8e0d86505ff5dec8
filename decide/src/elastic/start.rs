//! What an instance would earn on a node, and which start there.

use alloc::vec::Vec;

use super::Band;
use crate::units::Span;

/// An over-used instance elsewhere, as a node sees it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rival {
    /// Its service.
    pub service: u32,
    /// Its price, P'.
    pub price: f64,
    /// Its price without a scale.
    pub kappa: f64,
    /// Sum of the prices of the links between.
    pub way: f64,
    /// Links between.
    pub hops: f64,
    /// Part of the instance's capacity that passes this node on the way to it.
    pub passing: f64,
}

/// A price that an instance could have here, and what it would be at best.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Expected {
    /// Expected, P~.
    pub price: f64,
    /// If all flows passed here.
    pub on_path: f64,
    /// The same as a price without a scale, in proportion to the rival's.
    pub kappa: f64,
}

/// Returns what flows would pay here that go to a rival now (9.2.5).
#[must_use]
pub fn expected(rival: &Rival, off_path: f64) -> Expected {
    let off = (rival.price - rival.way - off_path * rival.hops).max(0.0);
    let on_path = rival.price + rival.way;
    let part = rival.passing.clamp(0.0, 1.0);
    let price = part * on_path + (1.0 - part) * off;
    let kappa = if rival.price > 0.0 { rival.kappa * price / rival.price } else { 0.0 };
    Expected { price, on_path, kappa }
}

/// Returns how many instances of a service may start in this epoch: by the prices of its over-used ones,
/// less claims that do not serve yet, within the most there may be.
#[must_use]
pub fn allowance(
    band: &Band,
    kappas: impl IntoIterator<Item = f64>,
    claimed: u32,
    (serving, max): (u32, u32),
) -> u32 {
    let over_used = kappas.into_iter().filter(|&kappa| kappa > band.high);
    // A cast of a float saturates.
    let wanted: u32 = over_used.map(|kappa| (kappa / band.high) as u32).fold(0, u32::saturating_add);
    wanted.saturating_sub(claimed).min(max.saturating_sub(serving.saturating_add(claimed)))
}

/// Returns how long a node waits before it claims: the better placed, the shorter, and at most half a period.
#[must_use]
pub fn wait(expected: &Expected, period: Span) -> Span {
    let part =
        if expected.on_path > 0.0 { (1.0 - expected.price / expected.on_path).clamp(0.0, 1.0) } else { 1.0 };
    Span((part * period.0 as f64 / 2.0) as u64)
}

/// A core of a node.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CoreLoad {
    /// Its number.
    pub core: u32,
    /// Its price without a scale.
    pub kappa: f64,
    /// Instances on it.
    pub instances: u32,
}

/// An instance that should start.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Start {
    /// Its service.
    pub service: u32,
    /// The core that it is for.
    pub core: u32,
    /// Why: what it is expected to earn.
    pub expected: Expected,
}

/// Part of the band's end that a new instance is expected to take at most. Our choice: half of one that is
/// far above a low band is above it by itself, and with more an idle core would never help.
const TAKEN_MAX: f64 = 0.9;

/// Returns what a node starts, best first: each rival's service at most once, while it would not be
/// under-used and a core stays below the band's end with it. `allowed` is what the orchestrator leaves of
/// each service.
#[must_use]
pub fn starts(
    band: &Band,
    off_path: f64,
    rivals: &[Rival],
    cores: &[CoreLoad],
    allowed: impl Fn(u32) -> u32,
) -> Vec<Start> {
    let over_used = rivals.iter().filter(|rival| rival.kappa > band.high);
    let mut offers: Vec<(Expected, u32)> =
        over_used.map(|rival| (expected(rival, off_path), rival.service)).collect();
    offers.sort_by(|(one, a), (other, b)| other.price.total_cmp(&one.price).then(a.cmp(b)));
    let mut cores = cores.to_vec();
    let mut starts: Vec<Start> = Vec::new();
    for (expected, service) in offers {
        let is_wanted = expected.kappa > band.low && allowed(service) > 0;
        if !is_wanted || starts.iter().any(|start| start.service == service) {
            continue;
        }
        // A core shares what it has: its load and the new one's, in utilisations, so that it stays in the
        // band. The new one takes half of what the rival has, which is what two instances of one load
        // come to.
        let used = |kappa: f64| kappa / (1.0 + kappa);
        let limit = used(band.high);
        let taken = (used(expected.kappa) / 2.0).min(TAKEN_MAX * limit);
        let room = |core: &CoreLoad| limit - used(core.kappa) - taken;
        let best = |one: &&mut CoreLoad, other: &&mut CoreLoad| {
            room(one).total_cmp(&room(other)).then(other.core.cmp(&one.core))
        };
        let Some(core) = cores.iter_mut().max_by(best).filter(|core| room(core) > 0.0) else { continue };
        starts.push(Start { service, core: core.core, expected });
        let load = used(core.kappa) + taken;
        core.kappa = crate::market::kappa_of(load);
        core.instances += 1;
    }
    starts
}
