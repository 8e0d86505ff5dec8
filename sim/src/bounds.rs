//! Delay bounds: how many packets of a chain may be inside, as the packet path applies `decide::bound`
//! (`plane/path/src/bound.rs`), and flows that move away from instances which are too slow for a bound, as
//! the manager's control loop applies `decide::relief`.
//!
//! The first worker judges windows at each of its passes. A run that leaves shows its delay, where the path
//! asks one of its packets by chance.

use headgate_decide::bound::{BoundMarks, Limit};
use headgate_decide::delay::{Recent, quantile};
use headgate_decide::relief::Relief;
use headgate_decide::units::{Instant, Span, Ticks};

use crate::histogram::{BUCKETS, middle_of};
use crate::link::TICKS_PER_MICRO;
use crate::scene::{self, Scene};

/// A chain with a bound.
#[derive(Clone, Debug)]
pub(crate) struct Bounded {
    pub(crate) bound: Span,
    pub(crate) marks: BoundMarks,
    pub(crate) limit: Limit,
    /// The longest delay under this window.
    pub(crate) longest: Ticks,
}

/// How long packets lately waited for an instance, and the one that is watched: it is the last of so many
/// that the instance takes, ever, and came then.
#[derive(Clone, Debug, Default)]
pub(crate) struct Queueing {
    pub(crate) recent: Box<Recent<BUCKETS>>,
    pub(crate) watched: Option<(u64, Instant)>,
}

/// All bounds of a scene; nothing of one without.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bounds {
    pub(crate) chains: Vec<Option<Bounded>>,
    pub(crate) queueing: Vec<Queueing>,
    pub(crate) relief: Relief,
}

impl Bounds {
    pub(crate) fn new(scene: &Scene) -> Self {
        if scene.chains.iter().all(|chain| chain.bound.is_none()) {
            return Self::default();
        }
        let bounded = |chain: &scene::Chain| {
            let bound = chain.bound?;
            let marks = BoundMarks::new(bound, TICKS_PER_MICRO);
            Some(Bounded { bound, marks, limit: Limit::default(), longest: Ticks(0) })
        };
        let instances = scene.nfs.iter().flat_map(scene::Nf::places).count();
        Self {
            chains: scene.chains.iter().map(bounded).collect(),
            queueing: vec![Queueing::default(); instances],
            relief: Relief::default(),
        }
    }

    /// Packets of a chain left that had arrived then.
    pub(crate) fn on_left(&mut self, chain: usize, now: Instant, arrived: Instant) {
        let Some(Some(bounded)) = self.chains.get_mut(chain) else { return };
        let is_judged = bounded.limit.window().is_none() || arrived.0 >= bounded.limit.since().0;
        let delay = Ticks((now - arrived).0);
        if is_judged && delay > bounded.longest {
            bounded.longest = delay;
        }
    }

    /// Returns how many packets of a chain may be inside; `None`: any number.
    pub(crate) fn window(&self, chain: usize) -> Option<u32> {
        self.chains.get(chain)?.as_ref()?.limit.window()
    }

    /// Returns the time that half of the packets lately waited no longer for an instance.
    pub(crate) fn median(&self, instance: usize) -> Option<Span> {
        let recent = self.queueing.get(instance).map(|queueing| &*queueing.recent);
        quantile(recent.into_iter(), 500).map(|bucket| Span(middle_of(bucket)))
    }
}
