//! Route: finds where each packet of a burst goes next, by its place and the plan.

use headgate_decide::spread::slot;
use headgate_units::NfId;

use crate::BURST;
use crate::burst::{Agreement, Burst, Next};
use crate::ledger::Ledger;
use crate::plan::{Hop, PackedHop, Plan};

/// Asks the plan where the packets of a burst go next, once for those that go the same way.
#[inline]
pub(crate) fn route(plan: &Plan, ledger: &Ledger, burst: &mut Burst) {
    let Some(first) = burst.places[..burst.count].first() else { return };
    if burst.is_one_way {
        let hop = plan.hop(first.chain(), first.position());
        match hop.unpack() {
            Hop::Spread { position, stage } => route_spread(plan, ledger, burst, position, stage),
            _ => burst.next = Next::Same(hop),
        }
        return;
    }
    route_each(plan, ledger, burst);
}

/// Finds the instance of one stage for each packet.
fn route_spread(plan: &Plan, ledger: &Ledger, burst: &mut Burst, position: u8, stage: NfId) {
    let (table, records) = (plan.table(stage), ledger.store(burst.region).holders.records());
    let mut hops = Agreement::default();
    for at in 0..burst.count.min(BURST) {
        let number = table[slot(records.flow(burst.packets[at].index()))];
        let hop = PackedHop::from(Hop::Instance { position, number });
        burst.hops[at] = hop;
        hops.add(hop.bits());
    }
    burst.next = Next::agreed(&hops, burst.hops[0]);
}

/// Asks the plan packet by packet.
fn route_each(plan: &Plan, ledger: &Ledger, burst: &mut Burst) {
    let holders = &ledger.store(burst.region).holders;
    let mut hops = Agreement::default();
    for at in 0..burst.count.min(BURST) {
        let place = burst.places[at];
        let mut hop = plan.hop(place.chain(), place.position());
        if hop.is_spread() {
            hop = spread(plan, hop, holders.arrival(burst.packets[at].index()).flow);
        }
        burst.hops[at] = hop;
        hops.add(hop.bits());
    }
    burst.next = Next::agreed(&hops, burst.hops[0]);
}

/// Returns where a packet goes whose stage has several instances.
#[inline(always)]
pub(crate) fn spread(plan: &Plan, hop: PackedHop, flow: u32) -> PackedHop {
    match hop.unpack() {
        Hop::Spread { position, stage } => {
            PackedHop::from(Hop::Instance { position, number: plan.instance_of(stage, flow) })
        }
        _ => hop,
    }
}
