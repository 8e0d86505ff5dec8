//! Divert: stages of its chain that a flow leaves out, because NFs answer with a stage or a port for its
//! packets.
//!
//! While an NF is throttled, flows that do not come to it need not be shed. The NFs' answers for a flow's
//! last packets are remembered: a bit for each position that was passed over. A flow that is not known goes
//! straight. Nothing is kept of those that do, and nothing is asked before an NF has sent a packet elsewhere.
//!
//! They are remembered in [`crate::signals::Diverts`].

use headgate_units::InstanceId;

use crate::holders::Place;
use crate::view::View;

/// Notes that an NF answered with a stage, or with a port before the end of its chain.
#[cold]
pub(crate) fn diverted(view: &View, by: InstanceId, place: Place, flow: u32, to: Option<u8>) {
    if view.signals.diverts.wanted {
        view.signals.diverts.on_divert(by, place, flow, to);
    }
}

/// Notes that a packet leaves by a port that an NF named. At the last stage that is no divert.
#[inline]
pub(crate) fn left_early(view: &View, by: InstanceId, place: Place, flow: u32) {
    if usize::from(place.position()) + 2 < view.plan.hops(place.chain()).len() {
        diverted(view, by, place, flow, None);
    }
}

/// Notes that an NF which sends some packets elsewhere sent this one on. Called only while it matters.
#[cold]
pub(crate) fn went_straight(view: &View, place: Place, flow: u32) {
    view.signals.diverts.on_straight(place, flow);
}
