//! Route: finds where each packet of a burst goes next, by its place and the plan.

use headgate_decide::spread::slot;
use headgate_shm::Descriptor;
use headgate_units::NfId;

use crate::BURST;
use crate::burst::{Agreement, Burst, Next};
use crate::drop::DropReason;
use crate::holders::{Holders, Place};
use crate::ledger::Ledger;
use crate::plan::{Hop, NodeId, PackedHop, Plan, Server, ShareId};

/// Asks the plan where the packets of a burst go next, once for those that go the same way.
#[inline]
pub(crate) fn route(plan: &Plan, ledger: &Ledger, burst: &mut Burst) {
    let Some(first) = burst.places[..burst.count].first() else { return };
    if burst.is_one_way {
        let hop = plan.hop(first.chain(), first.position());
        match hop.unpack() {
            Hop::Spread { position, stage } => return route_spread(plan, ledger, burst, position, stage),
            Hop::Shared { .. } => {}
            _ => {
                burst.next = Next::Same(hop);
                return;
            }
        }
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
            hop = spread(plan, holders, burst.packets[at], place, hop);
        }
        burst.hops[at] = hop;
        hops.add(hop.bits());
    }
    burst.next = Next::agreed(&hops, burst.hops[0]);
}

/// Returns where a packet goes whose stage has several instances, here or at several nodes.
#[inline(always)]
pub(crate) fn spread(
    plan: &Plan,
    holders: &Holders,
    packet: Descriptor,
    place: Place,
    hop: PackedHop,
) -> PackedHop {
    let flow = || holders.arrival(packet.index()).flow;
    match hop.unpack() {
        Hop::Spread { position, stage } => {
            PackedHop::from(Hop::Instance { position, number: plan.instance_of(stage, flow()) })
        }
        Hop::Shared { position, share } => {
            let chosen =
                Chosen { is_here: place.is_steered(), target: holders.extras.service.target(packet.index()) };
            PackedHop::from(shared(plan, chosen, position, share, flow()))
        }
        _ => hop,
    }
}

/// Word of another node on who serves the stage of a packet.
#[derive(Clone, Copy)]
struct Chosen {
    /// This one.
    is_here: bool,
    /// The node of this number, if not 0.
    target: u16,
}

/// Returns where a packet goes whose stage several nodes serve: where another node sent it, or else where the
/// table of this one says.
#[inline(never)]
fn shared(plan: &Plan, chosen: Chosen, position: u8, share: ShareId, flow: u32) -> Hop {
    let Some(share) = plan.shares.get(usize::from(share.0)) else {
        return Hop::End(DropReason::ChainRemoved);
    };
    let server = match chosen {
        Chosen { is_here: true, .. } => Server::Here,
        Chosen { target: 0, .. } => share.server(flow),
        Chosen { target, .. } => Server::Node(NodeId(target - 1)),
    };
    match (server, plan.running(share.stage)) {
        (Server::Node(node), _) => Hop::Node { position, node },
        (Server::Here, []) => Hop::End(DropReason::StageDown),
        (Server::Here, _) => Hop::Instance { position, number: plan.instance_of(share.stage, flow) },
    }
}
