//! Station 2 for packets with a service header (RFC 8300): the service path -> chain, the service index ->
//! position.
//!
//! It stands beside `classify` and fills the same place. A frame is taken here if it came by a port that
//! takes service headers, is addressed to that port's own address, and has a service header right behind its
//! Ethernet header; all others are classified. Nothing of it is learnt, so no table fills up.
//!
//! Ports of links between nodes take nothing else, from their neighbour alone, and know the paths between
//! nodes. A packet that would go back by the link it came by ends: its sender had no other way either.
//!
//! From here on the packet is the frame inside. The header is kept beside the holder records, to leave with
//! the packet where its chain has a next hop: other bytes of it than TTL and service index are those that
//! came.

use headgate_shm::{Descriptor, Region};
use headgate_units::PortId;
use headgate_wire::ethernet::{self, ethertype};
use headgate_wire::flow_key::Parsed;
use headgate_wire::nsh::{self, Base, CONTEXT_LENGTH, Header, HeaderError, next_protocol};

use crate::board::Station;
use crate::burst::Burst;
use crate::classify::{parse_long, plain_key, spread_of};
use crate::drop::DropReason;
use crate::encap::aimed;
use crate::flows::{Key, Seeds};
use crate::holders::{Arrival, Entrance, Place, TICK_SHIFT};
use crate::intake::Intake;
use crate::ledger::Ledger;
use crate::plan::{Hop, NodeId, Senders};
use crate::trace::At;
use crate::view::View;

/// Bytes of a frame that are read at first: its Ethernet header and a service header of MD type 1.
const HEAD_BYTES: usize = ethernet::HEADER_LENGTH + nsh::LENGTH_OF_TYPE_1;
/// Bytes of a frame that are read where its service header is longer.
const LONG_HEAD_BYTES: usize = ethernet::HEADER_LENGTH + nsh::LENGTH_MAX;
/// Address and source of a frame: what stands in front of its EtherType.
const ADDRESSES: usize = ethernet::HEADER_LENGTH - 2;

/// A port that takes service headers: its address, and whose it takes.
#[derive(Clone, Copy)]
struct Own {
    address: [u8; 6],
    senders: Senders,
}

impl Own {
    fn is_link(self) -> bool {
        self.senders != Senders::Anybody
    }

    /// Returns whether a frame has a service header that is for us. On a link there is nothing else, and from
    /// the neighbour alone.
    #[inline]
    fn has(self, head: &[u8; HEAD_BYTES], copied: usize) -> Result<bool, DropReason> {
        let kind = &head[ADDRESSES..ethernet::HEADER_LENGTH];
        let is_whole = copied >= ethernet::HEADER_LENGTH;
        let is_ours = is_whole && head[..6] == self.address && kind == ethertype::NSH.to_be_bytes();
        match self.senders {
            Senders::Anybody => Ok(is_ours),
            Senders::Neighbour(peer) if is_ours && head[6..ADDRESSES] == peer => Ok(true),
            Senders::Neighbour(_) | Senders::UnknownNeighbour => Err(DropReason::NshUnknownPeer),
        }
    }
}

/// A frame with a service header that is for us, and its first bytes.
#[derive(Clone, Copy)]
struct Outer<'a> {
    own: Own,
    packet: Descriptor,
    head: &'a [u8; HEAD_BYTES],
}

/// Result of looking for a service header.
enum Found {
    /// There is none for us.
    Nothing,
    /// There was one; the frame inside, and its place.
    Inside(Descriptor, Place),
}

impl Intake {
    /// Finds where packets that came by a port which takes service headers enter. Those that have one follow
    /// behind the others, each in their order.
    #[inline(never)]
    pub(crate) fn decap(&mut self, view: &View, ledger: &mut Ledger, own: [u8; 6], burst: &mut Burst) {
        let (mut plain, mut count) = (0, 0);
        let all = burst.count;
        let own = Own { address: own, senders: view.plan.senders(burst.from.port()) };
        for at in 0..all {
            let packet = burst.packets[at];
            match self.open(view, ledger, own, burst, packet) {
                Ok(Found::Nothing) => {
                    burst.packets[plain] = packet;
                    plain += 1;
                }
                Ok(Found::Inside(inside, place)) => {
                    burst.put_aside(count, inside, place);
                    count += 1;
                }
                Err(reason) => ledger.turn_away(burst.region, reason, packet),
            }
        }
        burst.count = plain;
        if plain > 0 {
            self.classify_all(view, ledger, burst);
        }
        let classified = burst.count;
        burst.append(count);
        ledger.passed(
            Station::Classify,
            At::Nowhere,
            burst.region,
            &burst.packets[classified..burst.count],
            &burst.places[classified..burst.count],
        );
    }

    /// Looks for a service header, and enters the frame behind it.
    #[inline]
    fn open(
        &self,
        view: &View,
        ledger: &Ledger,
        own: Own,
        burst: &Burst,
        packet: Descriptor,
    ) -> Result<Found, DropReason> {
        let store = ledger.store(burst.region);
        let region = store.stack.region();
        let mut head = [0; HEAD_BYTES];
        let copied = region.read(packet, &mut head);
        if !own.has(&head, copied)? {
            return Ok(Found::Nothing);
        }
        if region.geometry().is_long(packet.index()) {
            // What is left to do on it counts from where it lies.
            return Err(DropReason::LongFrame);
        }
        let outer = Outer { own, packet, head: &head };
        match Header::new(&head[ethernet::HEADER_LENGTH..copied]) {
            Err(HeaderError::Truncated) if packet.length() as usize > copied => {
                self.enter_long(view, ledger, burst, outer)
            }
            header => self.enter(view, ledger, burst, outer, header),
        }
    }

    /// Enters the frame behind a service header that is longer than those of MD type 1.
    #[cold]
    fn enter_long(
        &self,
        view: &View,
        ledger: &Ledger,
        burst: &Burst,
        outer: Outer<'_>,
    ) -> Result<Found, DropReason> {
        let mut long = [0; LONG_HEAD_BYTES];
        let copied = ledger.store(burst.region).stack.region().read(outer.packet, &mut long);
        let header = Header::new(&long[ethernet::HEADER_LENGTH..copied]);
        self.enter(view, ledger, burst, outer, header)
    }

    /// Enters the frame behind a service header.
    #[inline(always)]
    fn enter(
        &self,
        view: &View,
        ledger: &Ledger,
        burst: &Burst,
        outer: Outer<'_>,
        header: Result<Header<&[u8]>, HeaderError>,
    ) -> Result<Found, DropReason> {
        let Outer { own, packet, head } = outer;
        let store = ledger.store(burst.region);
        let region = store.stack.region();
        let header = header.map_err(|error| match error {
            HeaderError::Version(_) => DropReason::NshVersion,
            _ => DropReason::NshMalformed,
        })?;
        // RFC 8300 §2.2: "Each SFF involved in forwarding an NSH packet MUST decrement the TTL value by 1
        // prior to NSH forwarding lookup."
        let base = header.base().forwarded().ok_or(DropReason::NshTtl)?;
        let entrance = view.plan.entrance_by(header.service_path(), own.is_link())?;
        let aim = aim_of(view, own, entrance, &header);
        if own.is_link() && goes_back(view, entrance, aim, burst.from.port()) {
            return Err(DropReason::NoWay);
        }
        let inside = strip(region, packet, base, head)?;
        let of_frame = spread_inside(region, inside, &self.seeds, burst.from.port())?;
        let said = header.context().map(|context| context.flow_hash).filter(|hash| *hash != 0);
        let (flow, at) = (said.unwrap_or(of_frame), (view.now.0 >> TICK_SHIFT) as u32);
        store.holders.set_arrival(packet.index(), Arrival { flow, at });
        let mut context = [0; CONTEXT_LENGTH];
        let metadata = aim.kept(header.metadata(), &mut context);
        store.holders.extras.clock.set(packet.index(), 0);
        store.holders.extras.service.set(packet.index(), base, metadata);
        Ok(Found::Inside(inside, aim.place(burst.from.entering(entrance))))
    }
}

/// The node that is to serve the stage of a packet which several serve.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Aim {
    /// The header says none, or one node alone has the stage.
    Nobody,
    /// This one.
    Here,
    /// Another, which the packet is passed on to.
    Node(NodeId),
}

impl Aim {
    /// Returns the place of a packet that enters.
    #[inline]
    fn place(self, place: Place) -> Place {
        if self == Self::Here { place.steered() } else { place }
    }

    /// Returns what stands behind a service path header, as it is kept: what it says of this stage is nothing
    /// for the next ones.
    #[inline]
    fn kept<'m>(self, metadata: &'m [u8], context: &'m mut [u8; CONTEXT_LENGTH]) -> &'m [u8] {
        match aimed(metadata, 0).filter(|_| self == Self::Here) {
            Some(unaimed) => {
                *context = unaimed;
                context
            }
            None => metadata,
        }
    }
}

/// Returns whom a header names for a stage that several nodes serve.
#[inline]
fn aim_of(view: &View, from: Own, entrance: Entrance, header: &Header<&[u8]>) -> Aim {
    let context = header.context().filter(|_| from.is_link());
    let Some(target) = context.and_then(|context| NodeId::of_number(context.target)) else {
        return Aim::Nobody;
    };
    let own = view.plan.chains[entrance.chain().index()].as_ref().and_then(|chain| chain.across);
    let is_own = own.is_some_and(|across| across.ingress == target.number());
    match view.plan.hop(entrance.chain(), entrance.position()).unpack() {
        Hop::Shared { .. } if !is_own => Aim::Node(target),
        // Whatever it says of a stage of one node is not for the next one.
        _ => Aim::Here,
    }
}

/// Returns whether a packet would leave by the port that it came by, with nothing done to it here.
#[inline]
fn goes_back(view: &View, entrance: Entrance, aim: Aim, port: PortId) -> bool {
    let hop = match aim {
        Aim::Node(node) => Hop::Node { position: entrance.position(), node },
        _ => view.plan.hop(entrance.chain(), entrance.position()).unpack(),
    };
    matches!(hop, Hop::Node { .. }) && view.plan.tunnel(hop).is_some_and(|tunnel| tunnel.port == port)
}

/// Returns the frame behind a service header. One that is no frame but an IP packet gets an Ethernet header,
/// with the addresses of the frame around it.
fn strip(
    region: &Region,
    packet: Descriptor,
    base: Base,
    head: &[u8; HEAD_BYTES],
) -> Result<Descriptor, DropReason> {
    // RFC 8300 §2.2: who knows no maintenance "SHOULD discard packets with O bit set".
    let protocol = if base.is_oam() { None } else { Some(base.next_protocol()) };
    let kind = match protocol {
        Some(next_protocol::ETHERNET) => None,
        Some(next_protocol::IPV4) => Some(ethertype::IPV4),
        Some(next_protocol::IPV6) => Some(ethertype::IPV6),
        _ => return Err(DropReason::NshProtocol),
    };
    let start = (ethernet::HEADER_LENGTH + base.length()) as u32;
    let front = if kind.is_some() { ethernet::HEADER_LENGTH as u32 } else { 0 };
    // The service header is there as a whole, so what is left is not less than nothing.
    let length = packet.length() - start + front;
    if (length as usize) < ethernet::HEADER_LENGTH {
        return Err(DropReason::NshMalformed);
    }
    let offset = packet.offset() + start - front;
    if let Some(kind) = kind {
        let mut link = [0; ethernet::HEADER_LENGTH];
        link[..ADDRESSES].copy_from_slice(&head[..ADDRESSES]);
        link[ADDRESSES..].copy_from_slice(&kind.to_be_bytes());
        region.write(packet.index(), offset, &link);
    }
    Ok(packet.with_extent(offset, length))
}

/// Returns the bits that choose an instance for a frame that had a service header: as if it had come by the
/// port without one.
#[inline]
fn spread_inside(
    region: &Region,
    inside: Descriptor,
    seeds: &Seeds,
    port: PortId,
) -> Result<u32, DropReason> {
    match plain_key(region, inside, port) {
        0 => spread_long(region, inside, seeds, port),
        key => Ok(spread_of(key.hash(seeds))),
    }
}

#[cold]
fn spread_long(region: &Region, inside: Descriptor, seeds: &Seeds, port: PortId) -> Result<u32, DropReason> {
    let port = port.0 as u8;
    let hash = match parse_long(region, inside) {
        Parsed::Malformed(_) | Parsed::NeedMore { .. } => return Err(DropReason::Malformed),
        Parsed::Ipv4 { key, .. } => key.with_ingress(port).bits().hash(seeds),
        Parsed::Wide { key, .. } => key.with_ingress(port).words().hash(seeds),
    };
    Ok(spread_of(hash))
}
