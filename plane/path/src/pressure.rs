//! Pressure: throttled instances, packets shed for them, and blocked NFs. The rules are `decide::pressure`;
//! this gathers their input and applies their answers.

use headgate_decide::pressure::{
    Feeder, HopPressure, Shed, came_for, flow_is_shed, is_blocked, is_closed, shed, step,
};
use headgate_units::InstanceId;

use crate::board::Board;
use crate::drop::DropReason;
use crate::holders::Entrance;
use crate::instance::Instance;
use crate::plan::{Hop, Plan};
use crate::signals::Signals;
use crate::view::View;

/// Gathers the facts about a hop.
fn of_hop(plan: &Plan, signals: &Signals, hop: Hop) -> HopPressure {
    let is_throttled = |&number: &InstanceId| signals.pressure.is_throttled(number);
    let diverts = |&number: &InstanceId| signals.diverts.is_by(number);
    match hop {
        Hop::Instance { number, .. } => {
            HopPressure { throttled: is_throttled(&number), diverts: diverts(&number), spreads: false }
        }
        Hop::Spread { stage, .. } => HopPressure {
            throttled: plan.running(stage).iter().all(is_throttled),
            diverts: plan.running(stage).iter().any(diverts),
            spreads: true,
        },
        // Of its flows some are served here.
        Hop::Shared { share, .. } => HopPressure {
            throttled: false,
            diverts: plan.running_of(share).iter().any(diverts),
            spreads: !plan.running_of(share).is_empty(),
        },
        Hop::Port(_) | Hop::Node { .. } | Hop::Tunnel(_) | Hop::End(_) => HopPressure::default(),
    }
}

/// Returns the part of the packets entering here that is to be shed.
pub(crate) fn shed_at(view: &View, entrance: Entrance) -> Shed {
    let hops = view.plan.hops(entrance.chain()).skip(entrance.position().into());
    let hops = hops.map(|hop| of_hop(view.plan, view.signals, hop));
    shed(hops, view.signals.diverts.any())
}

/// Returns whether a flow that enters here comes to a throttled instance.
pub(crate) fn sheds_flow(view: &View, entrance: Entrance, flow: u32) -> bool {
    let View { plan, signals, .. } = view;
    let hops = plan.hops(entrance.chain()).skip(entrance.position().into()).filter_map(|hop| match hop {
        Hop::Instance { position, number } => Some((position, signals.pressure.is_throttled(number))),
        Hop::Spread { position, stage } => {
            Some((position, signals.pressure.is_throttled(plan.instance_of(stage, flow))))
        }
        Hop::Shared { position, share } => {
            let number = plan.instance_here(share, flow)?;
            Some((position, signals.pressure.is_throttled(number)))
        }
        Hop::Port(_) | Hop::Node { .. } | Hop::Tunnel(_) | Hop::End(_) => None,
    });
    flow_is_shed(hops, passed_over(view, entrance, flow))
}

/// Returns a bit for each position of its chain that a flow leaves out, because an NF led it past.
pub(crate) fn passed_over(view: &View, entrance: Entrance, flow: u32) -> u64 {
    let diverts = &view.signals.diverts;
    if diverts.any() { diverts.passed_over(entrance.chain(), flow) } else { 0 }
}

/// Counts packets that were shed for the NFs that could not keep up with them: as arrivals there, when shares
/// are decided.
pub(crate) fn count_for_throttled(view: &View, board: &Board, entrance: Entrance, shed: Shed, count: usize) {
    let hops = view.plan.hops(entrance.chain()).skip(entrance.position().into());
    for (at, hop) in hops.enumerate() {
        if let Hop::Instance { number, .. } = hop
            && came_for(shed, at, of_hop(view.plan, view.signals, hop))
        {
            board.instances[number.index()].drops[DropReason::Throttled as usize].add(count as u64);
        }
    }
}

/// Counts packets that were shed for the first NF they would have come to: as arrivals there, when its share
/// is decided.
pub(crate) fn count_for_first(
    view: &View,
    board: &Board,
    entrance: Entrance,
    reason: DropReason,
    count: usize,
) {
    let first = view.plan.hops(entrance.chain()).nth(entrance.position().into());
    if let Some(Hop::Instance { number, .. }) = first {
        board.instances[number.index()].drops[reason as usize].add(count as u64);
    }
}

impl Instance {
    /// Judges its queue. Instances that show none are never seen to be full.
    pub(crate) fn weigh(&mut self, view: &View, board: &Board) {
        let (Some(marks), Some(depth)) = (&self.queue_marks, self.link.depth()) else { return };
        let next = step(self.load, depth, view.now, marks);
        if next.is_throttled() != self.load.is_throttled() {
            view.signals.pressure.set(self.number, next.is_throttled());
            board.instances[self.number.index()].throttles.add(u64::from(next.is_throttled()));
        }
        self.load = next;
    }

    /// Returns whether it must not work because the NFs that it feeds cannot keep up.
    pub(crate) fn must_block(&mut self, view: &View) -> bool {
        let closed = |way: &Vec<Hop>| is_closed(way.iter().map(|&hop| of_hop(view.plan, view.signals, hop)));
        let feeder = Feeder {
            is_judged: self.queue_marks.is_some(),
            sleeps: self.link.can_sleep(),
            diverts: view.signals.diverts.is_by(self.number),
            is_on_its_way: self.link.is_on_its_way(),
        };
        is_blocked(feeder, view.plan.ways_on(self.number).iter().map(closed))
    }
}
