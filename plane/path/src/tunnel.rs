//! Encapsulation: puts an outer header in front of packets that leave for another node, or by an exit that is
//! a tunnel, in the headroom of their buffers. Nothing is copied but the header.

use headgate_shm::Region;
use headgate_shm::geometry::FRAME_BYTES_MAX;
use headgate_units::PortId;
use headgate_wire::MacAddress;
use headgate_wire::ethernet::{self, ethertype};
use headgate_wire::nsh;

use crate::burst::Run;
use crate::drop::DropReason;
use crate::encap::{Micros, Outgoing, Service};
use crate::holders::{Holders, Place};
use crate::ledger::Ledger;
use crate::plan::{Across, ChainPath, Hop, Inner, Plan, Tunnel};
use crate::view::View;

/// Puts the header of the tunnel that a hop names in front of each packet. Returns those that had room for
/// it, and the port they leave by; the others have ended. `None` where the plan knows no such tunnel: all
/// have ended.
pub(crate) fn encapsulate<'a>(
    view: &View,
    ledger: &mut Ledger,
    ticks_per_micro: u64,
    hop: Hop,
    run: Run<'a>,
) -> Option<(PortId, Run<'a>)> {
    let Some(tunnel) = view.plan.tunnel(hop) else {
        ledger.end_run(DropReason::NoWay, &run);
        return None;
    };
    let mut run = ledger.without_long(run);
    let clock = Micros { now: view.now, ticks_per_micro };
    let service = |place| service_of(view.plan, tunnel, hop, place);
    let kept = put_in_front(ledger, tunnel, clock, &mut run, service);
    Some((tunnel.port, run.split_at(kept).0))
}

/// Returns the service path with which a packet leaves by a tunnel; `None` where it has none.
#[inline]
fn service_of(plan: &Plan, tunnel: &Tunnel, hop: Hop, place: Place) -> Option<Service> {
    match (tunnel.inner, hop) {
        (Inner::Frame, _) => None,
        (Inner::OnPath(path), _) => Some(Service { path, ingress: 0, egress: 0, target: 0 }),
        (Inner::OfChain, Hop::Node { position, node }) => {
            let across = plan.chains[place.chain().index()].as_ref()?.across?;
            let path = across.path.at(position);
            let Across { ingress, egress, .. } = across;
            Some(Service { path, ingress, egress, target: node.number() })
        }
        (Inner::OfChain, _) => None,
    }
}

/// Puts the header of a tunnel in front of each packet. Returns how many had room for it; they are in front.
fn put_in_front(
    ledger: &mut Ledger,
    tunnel: &Tunnel,
    clock: Micros,
    run: &mut Run,
    service_of: impl Fn(Place) -> Option<Service>,
) -> usize {
    let (mut kept, outer) = (0, tunnel.header.as_slice());
    for at in 0..run.len() {
        let (packet, place) = (run.packets[at], run.places[at]);
        let path = service_of(place);
        if path.is_none() && tunnel.inner == Inner::OfChain {
            // A chain that was removed while the packet was on its way has no path any more.
            ledger.end(place.chain(), run.region, DropReason::ChainRemoved, &[packet]);
            continue;
        }
        let store = ledger.store(run.region);
        let (holders, region) = (&store.holders, store.stack.region());
        let service = path.map(|path| Outgoing::of(path, holders, region, packet, clock));
        let length = (outer.len() + service.as_ref().map_or(0, Outgoing::length)) as u32;
        if packet.offset() < length || packet.length() + length > FRAME_BYTES_MAX {
            ledger.end(place.chain(), run.region, DropReason::NoHeadroom, &[packet]);
            continue;
        }
        let (offset, whole) = (packet.offset() - length, packet.length() + length);
        write_front((region, holders), packet.index(), offset, outer, service);
        (run.packets[kept], run.places[kept]) = (packet.with_extent(offset, whole), place);
        kept += 1;
    }
    kept
}

/// Writes the outer headers of a tunnel and a service header where a packet begins. Most are Ethernet's and
/// one of MD type 1, made of words.
#[inline(always)]
fn write_front(
    (region, holders): (&Region, &Holders),
    index: u32,
    offset: u32,
    outer: &[u8],
    service: Option<Outgoing>,
) {
    const LINK: usize = ethernet::HEADER_LENGTH;
    if let (Some(Outgoing::Plain { fixed, context }), Ok(link)) = (service, outer.try_into()) {
        let link: &[u8; LINK] = link;
        let mut front = region.front(index, offset, LINK + nsh::LENGTH_OF_TYPE_1);
        let [first, second] = context;
        let link = [link.first_chunk(), link.last_chunk()]
            .map(|word| word.map_or(0, |word| u64::from_be_bytes(*word)));
        let words =
            [(0, link[0]), (LINK - 8, link[1]), (LINK, fixed), (LINK + 8, first), (LINK + 16, second)];
        return words.into_iter().for_each(|(at, word)| front.set(at, word));
    }
    region.write(index, offset, outer);
    if let Some(service) = service {
        service.write(holders, region, index, offset + outer.len() as u32);
    }
}

impl Tunnel {
    /// Returns the way out of a port, with this address of its own, to the next hop of a chain of so many
    /// stages.
    #[must_use]
    pub fn on_path(port: PortId, own: [u8; 6], next: [u8; 6], path: ChainPath, stages: u8) -> Self {
        let inner = Inner::OnPath(path.at(stages));
        Self { port, header: header_to(own, next), inner }
    }

    /// Returns the way out of the port of a link, with this address of its own, to the neighbour there.
    #[must_use]
    pub fn by_link(port: PortId, own: [u8; 6], next: [u8; 6]) -> Self {
        Self { port, header: header_to(own, next), inner: Inner::OfChain }
    }

    /// Returns the Ethernet address that its packets are sent to.
    #[must_use]
    pub fn next(&self) -> Option<[u8; 6]> {
        self.header.first_chunk().copied()
    }
}

/// Returns an Ethernet header in front of a service header.
fn header_to(own: [u8; 6], next: [u8; 6]) -> Vec<u8> {
    let mut header = vec![0; ethernet::HEADER_LENGTH];
    let (destination, source) = (MacAddress(next), MacAddress(own));
    let link = ethernet::Header { destination, source, ethertype: ethertype::NSH };
    link.write(&mut header).expect("it is that long");
    header
}
