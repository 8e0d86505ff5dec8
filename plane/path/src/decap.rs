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
use headgate_wire::nsh::{
    self, Base, Context, ContextWords, Header, HeaderError, ServicePath, next_protocol,
};

use crate::BURST;
use crate::board::Station;
use crate::burst::Burst;
use crate::classify::{parse_long, plain_key, spread_of};
use crate::drop::DropReason;
use crate::flows::{Key, Seeds};
use crate::holders::{Arrival, Entrance, Holders, Place, TICK_SHIFT};
use crate::intake::Intake;
use crate::ledger::Ledger;
use crate::plan::{Aim, Hop, NodeId, Outer, Own, Plan};
use crate::trace::At;
use crate::view::View;

/// Bytes of a frame that are read at first: its Ethernet header and a service header of MD type 1.
const HEAD_BYTES: usize = ethernet::HEADER_LENGTH + nsh::LENGTH_OF_TYPE_1;
/// Bytes of a frame that are read where its service header is longer.
const LONG_HEAD_BYTES: usize = ethernet::HEADER_LENGTH + nsh::LENGTH_MAX;
/// Address and source of a frame: what stands in front of its EtherType.
const ADDRESSES: usize = ethernet::HEADER_LENGTH - 2;
/// Offsets of the words of a plain service header: base and service path header, and the context.
const PLAIN_BASE: usize = ethernet::HEADER_LENGTH;
const PLAIN_CONTEXT: [usize; 2] = [PLAIN_BASE + 8, PLAIN_BASE + 16];

/// Facts that hold for all packets of a burst.
#[derive(Clone, Copy)]
struct Came<'a> {
    view: &'a View<'a>,
    region: &'a Region,
    holders: &'a Holders,
    own: Own,
    /// Place in common.
    from: Place,
    /// Time of arrival, as holder records have it.
    at: u32,
}

/// A service header as it came, but for its TTL, which is lower by one.
#[derive(Clone, Copy)]
struct Service<'m> {
    base: Base,
    path: ServicePath,
    metadata: Metadata<'m>,
}

/// What stands behind a service path header.
#[derive(Clone, Copy)]
enum Metadata<'m> {
    /// MD type 1.
    Context(ContextWords),
    /// MD type 2.
    Options(&'m [u8]),
}

/// Result of looking for a service header.
enum Found {
    /// There is none for us.
    Nothing,
    /// There was one; the frame inside, and its place.
    Inside(Descriptor, Place),
}

/// How far a burst is gone through. Those with a service header are put together at its front, and put aside
/// as soon as there are others.
#[derive(Default)]
struct Sorted {
    seen: usize,
    plain: usize,
    inside: usize,
}

impl Sorted {
    #[inline(always)]
    fn add(&mut self, burst: &mut Burst, packet: Descriptor, found: Found) {
        match found {
            Found::Inside(inside, place) if self.plain == 0 => {
                (burst.packets[self.inside], burst.places[self.inside]) = (inside, place);
                self.inside += 1;
            }
            Found::Inside(inside, place) => {
                burst.put_aside(self.inside, inside, place);
                self.inside += 1;
            }
            Found::Nothing => self.add_plain(burst, packet),
        }
    }

    #[inline(never)]
    fn add_plain(&mut self, burst: &mut Burst, packet: Descriptor) {
        for at in 0..if self.plain == 0 { self.inside } else { 0 } {
            burst.put_aside(at, burst.packets[at], burst.places[at]);
        }
        burst.packets[self.plain] = packet;
        self.plain += 1;
    }
}

impl Intake {
    /// Finds where packets that came by a port which takes service headers enter. Those that have one follow
    /// behind the others, each in their order.
    #[inline(never)]
    pub(crate) fn decap(&mut self, view: &View, ledger: &mut Ledger, own: [u8; 6], burst: &mut Burst) {
        let own = Own::new(own, view.plan.senders(burst.from.port()));
        let mut sorted = Sorted::default();
        loop {
            let store = ledger.store(burst.region);
            let (region, holders) = (store.stack.region(), &store.holders);
            let (from, at) = (burst.from, (view.now.0 >> TICK_SHIFT) as u32);
            let came = Came { view, region, holders, own, from, at };
            let Err((reason, packet)) = self.sort(came, burst, &mut sorted) else { break };
            ledger.turn_away(burst.region, reason, packet);
        }
        let Sorted { plain, inside, .. } = sorted;
        if plain > 0 {
            burst.count = plain;
            self.classify_all(view, ledger, burst);
            let classified = burst.count;
            burst.append(inside);
            return note(ledger, burst, classified);
        }
        burst.count = inside;
        burst.see_places();
        note(ledger, burst, 0);
    }

    /// Goes on through a burst. Returns at a packet that is to be turned away, with the reason.
    #[inline(always)]
    fn sort(
        &self,
        came: Came<'_>,
        burst: &mut Burst,
        sorted: &mut Sorted,
    ) -> Result<(), (DropReason, Descriptor)> {
        let mut memo = Memo::default();
        for at in sorted.seen..burst.count.min(BURST) {
            let packet = burst.packets[at];
            sorted.seen = at + 1;
            let found = self.open(&came, &mut memo, packet).map_err(|reason| (reason, packet))?;
            sorted.add(burst, packet, found);
        }
        Ok(())
    }

    /// Looks for a service header, and enters the frame behind it. Nearly all headers are plain: they are
    /// read where they lie, each byte of them with one load.
    #[inline(always)]
    fn open(&self, came: &Came<'_>, memo: &mut Memo, packet: Descriptor) -> Result<Found, DropReason> {
        let head = came.region.head(packet, HEAD_BYTES);
        let is_whole = packet.length() as usize >= HEAD_BYTES + ethernet::HEADER_LENGTH;
        if !is_whole || came.region.geometry().is_long(packet.index()) {
            return self.open_any(came, memo, packet);
        }
        let Some((base, path)) = nsh::plain(head.word(PLAIN_BASE)) else {
            return self.open_any(came, memo, packet);
        };
        if !came.own.has(Outer::read(|at| head.word(at)))? {
            return Ok(Found::Nothing);
        }
        let base = base.forwarded().ok_or(DropReason::NshTtl)?;
        let metadata = Metadata::Context(PLAIN_CONTEXT.map(|at| head.word(at)));
        let inside =
            packet.with_extent(packet.offset() + HEAD_BYTES as u32, packet.length() - HEAD_BYTES as u32);
        self.enter(came, memo, Service { base, path, metadata }, |_| Ok(inside))
    }

    /// Does the same for a frame that may be anything, from a copy of its first bytes.
    #[cold]
    fn open_any(&self, came: &Came<'_>, memo: &mut Memo, packet: Descriptor) -> Result<Found, DropReason> {
        let mut head = [0; LONG_HEAD_BYTES];
        let copied = came.region.read(packet, &mut head);
        // What is no part of the frame is 0, and no such EtherType ends in that.
        let outer = Outer::read(|at| head[at..].first_chunk().map_or(0, |word| u64::from_be_bytes(*word)));
        if !came.own.has(outer)? {
            return Ok(Found::Nothing);
        }
        if came.region.geometry().is_long(packet.index()) {
            // What is left to do on it counts from where it lies.
            return Err(DropReason::LongFrame);
        }
        let header = Header::new(&head[PLAIN_BASE..copied]).map_err(|error| match error {
            HeaderError::Version(_) => DropReason::NshVersion,
            _ => DropReason::NshMalformed,
        })?;
        // RFC 8300 §2.2: "Each SFF involved in forwarding an NSH packet MUST decrement the TTL value by 1
        // prior to NSH forwarding lookup."
        let base = header.base().forwarded().ok_or(DropReason::NshTtl)?;
        let metadata = match header.context() {
            Some(context) => Metadata::Context(context.to_words()),
            None => Metadata::Options(header.metadata()),
        };
        let service = Service { base, path: header.service_path(), metadata };
        self.enter(came, memo, service, |base| strip(came.region, packet, base, &head))
    }

    /// Enters the frame behind a service header; `strip` takes off what is in front of it.
    #[inline(always)]
    fn enter(
        &self,
        came: &Came<'_>,
        memo: &mut Memo,
        service: Service<'_>,
        strip: impl FnOnce(Base) -> Result<Descriptor, DropReason>,
    ) -> Result<Found, DropReason> {
        let Came { view, own, from, .. } = *came;
        let entrance = memo.entrance(view, own, service.path)?;
        let context = match service.metadata {
            Metadata::Context(words) => Some(Context::from_words(words)),
            Metadata::Options(_) => None,
        };
        let aim = if own.is_link { aim_of(view.plan, entrance, context) } else { Aim::Nobody };
        if own.is_link && goes_back(view.plan, entrance, aim, from.port()) {
            return Err(DropReason::NoWay);
        }
        let inside = strip(service.base)?;
        let of_frame = spread_inside(came.region, inside, &self.seeds, from.port())?;
        let said = context.map(|context| context.flow_hash).filter(|hash| *hash != 0);
        let (flow, index) = (said.unwrap_or(of_frame), inside.index());
        came.holders.set_arrival(index, Arrival { flow, at: came.at });
        let extras = &came.holders.extras;
        extras.clock.set(index, 0);
        match service.metadata {
            Metadata::Context(words) => extras.service.set_plain(index, service.base, aim.kept(words)),
            Metadata::Options(options) => extras.service.set(index, service.base, options),
        }
        let place = from.entering(entrance);
        Ok(Found::Inside(inside, if aim == Aim::Here { place.steered() } else { place }))
    }
}

/// Tells the station's observers of the packets from one on.
fn note(ledger: &mut Ledger, burst: &Burst, from: usize) {
    let (packets, places) = (&burst.packets[from..burst.count], &burst.places[from..burst.count]);
    ledger.passed(Station::Classify, At::Nowhere, burst.region, packets, places);
}

/// Where the last service path led: packets of one path come behind each other.
#[derive(Default)]
struct Memo {
    known: Option<(ServicePath, Entrance)>,
}

impl Memo {
    /// Returns where packets of a path enter.
    #[inline(always)]
    fn entrance(&mut self, view: &View, own: Own, path: ServicePath) -> Result<Entrance, DropReason> {
        if let Some((known, entrance)) = self.known
            && known == path
        {
            return Ok(entrance);
        }
        let entrance = view.plan.entrance_by(path, own.is_link)?;
        self.known = Some((path, entrance));
        Ok(entrance)
    }
}

/// Returns whom a header that came by a link names for a stage that several nodes serve.
#[inline]
fn aim_of(plan: &Plan, entrance: Entrance, context: Option<Context>) -> Aim {
    let Some(target) = context.and_then(|context| NodeId::of_number(context.target)) else {
        return Aim::Nobody;
    };
    let own = plan.chains[entrance.chain().index()].as_ref().and_then(|chain| chain.across);
    let is_own = own.is_some_and(|across| across.ingress == target.number());
    match plan.hop(entrance.chain(), entrance.position()).unpack() {
        Hop::Shared { .. } if !is_own => Aim::Node(target),
        // Whatever it says of a stage of one node is not for the next one.
        _ => Aim::Here,
    }
}

/// Returns whether a packet would leave by the port that it came by, with nothing done to it here.
#[inline]
fn goes_back(plan: &Plan, entrance: Entrance, aim: Aim, port: PortId) -> bool {
    let hop = match aim {
        Aim::Node(node) => Hop::Node { position: entrance.position(), node },
        _ => plan.hop(entrance.chain(), entrance.position()).unpack(),
    };
    matches!(hop, Hop::Node { .. }) && plan.tunnel(hop).is_some_and(|tunnel| tunnel.port == port)
}

/// Returns the frame behind a service header. One that is no frame but an IP packet gets an Ethernet header,
/// with the addresses of the frame around it.
fn strip(
    region: &Region,
    packet: Descriptor,
    base: Base,
    head: &[u8; LONG_HEAD_BYTES],
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
#[inline(always)]
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
