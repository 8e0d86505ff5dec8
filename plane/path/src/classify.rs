//! Station 2, classify: headers -> flow -> chain.
//!
//! The flow table is asked first; what it does not know the rules decide, and it learns. A burst is
//! looked through twice: the first pass reads headers, hashes, and asks the cache for the table's lines,
//! the second looks up, so that the misses of a burst overlap.
//!
//! Of a header each word is loaded once, or it is read from a private copy: the region is shared with NFs
//! that may write to it meanwhile.
//!
//! Fragments: only the first one has L4 ports. It is classified as its flow, and what was decided is
//! remembered under (addresses, protocol, identification), where the later ones find it, so all parts go
//! to the same chain and instance. A later one that comes before the first is classified without ports.

use headgate_shm::{Descriptor, Region, cpu};
use headgate_wire::flow_key::{self, FlowKey4, FlowKeyWide, Fragment, Parsed};

use crate::board::Station;
use crate::drop::Reason;
use crate::flows::{Entry, Flows, Key, Learnt, Seeds};
use crate::holders::{Origin, Place, TICK_SHIFT};
use crate::rules::Flow;
use crate::worker::{Hands, Worker};

/// Bytes copied for a header that does not fit the first line. Our choice: two VLAN tags, IPv6, the
/// longest chain of extension headers that is walked, and ports fit for all but absurd packets, which
/// are malformed to us.
const LONG_HEADER_BYTES: usize = 512;

const ETHERTYPE_IPV4: u16 = 0x0800;

impl Worker {
    /// Finds the chain of each packet of a burst, and sends each on its way.
    pub(crate) fn classify(
        &mut self,
        now: u64,
        port: u8,
        queue: u8,
        region: u8,
        count: usize,
        hands: &mut Hands,
    ) {
        let Hands { packets, places, keys, hashes, entries } = hands;
        let (packets, keys, hashes) = (&mut packets[..count], &mut keys[..count], &mut hashes[..count]);
        let (places, entries) = (&mut places[..count], &mut entries[..count]);
        let store = &self.stores[region as usize];
        read_keys(store.stack.region(), port, &self.seeds, &self.flows, packets, keys, hashes);
        let unknown = self.flows.find_all(keys, hashes, self.plan.generation, self.tick, entries);
        let onward = if unknown == 0 {
            count
        } else {
            self.ask_all(region, port, unknown, packets, keys, hashes, entries)
        };
        let arrived = (now >> TICK_SHIFT) as u32;
        let holders = &self.stores[region as usize].holders;
        for ((packet, entry), place) in packets[..onward].iter().zip(&entries[..onward]).zip(&mut *places) {
            holders.set_origin(packet.index(), Origin { flow: entry.spread, arrived });
            cpu::prefetch(&self.board.chains[entry.chain as usize]);
            *place = Place::arrived(entry.chain, port, queue);
        }
        self.passed(Station::Classify, count);
        self.station = Station::Deliver;
        self.enter_chains(now, region, &mut packets[..onward], &mut places[..onward]);
        self.passed(Station::Deliver, onward);
    }

    /// Counts each packet into its chain, and hands on those that are let in.
    fn enter_chains(&mut self, now: u64, region: u8, packets: &mut [Descriptor], places: &mut [Place]) {
        let (mut start, mut kept) = (0, 0);
        while start < packets.len() {
            let chain = places[start].chain();
            let run = places[start..].iter().take_while(|place| place.chain() == chain).count();
            let end = start + run;
            let count = self.admit(chain, region, &mut packets[start..end], &mut places[start..end]);
            if kept != start {
                packets.copy_within(start..start + count, kept);
                places.copy_within(start..start + count, kept);
            }
            kept += count;
            start = end;
        }
        self.steer(now, region, &mut packets[..kept], &mut places[..kept]);
    }

    /// Asks the rules for each packet with its bit in `unknown`. Packets with an entry stay, at the front, and
    /// the others have ended; returns how many stay.
    #[cold]
    #[expect(clippy::too_many_arguments, reason = "the arrays of one burst, side by side")]
    fn ask_all(
        &mut self,
        region: u8,
        port: u8,
        unknown: u128,
        packets: &mut [Descriptor],
        keys: &[u128],
        hashes: &[u64],
        entries: &mut [Entry],
    ) -> usize {
        let mut onward = 0;
        for at in 0..packets.len() {
            let packet = packets[at];
            let found = match unknown >> at & 1 {
                0 => Ok(entries[at]),
                // An earlier packet of the burst may have been the first of its flow.
                _ => match self.flows.find(keys[at], hashes[at], self.plan.generation, self.tick) {
                    Some(entry) => Ok(entry),
                    None => self.ask(region, port, keys[at], hashes[at], packet),
                },
            };
            match found {
                Ok(entry) => {
                    (packets[onward], entries[onward]) = (packet, entry);
                    onward += 1;
                }
                Err(reason) => self.turn_away(region, reason, packet),
            }
        }
        onward
    }

    /// A flow that the table does not know, or a packet that is not plain IPv4.
    #[cold]
    fn ask(
        &mut self,
        region: u8,
        port: u8,
        key: u128,
        hash: u64,
        packet: Descriptor,
    ) -> Result<Entry, Reason> {
        if key != 0 {
            return self.learn4(FlowKey4::from_bits(key), hash);
        }
        let mut header = [0; LONG_HEADER_BYTES];
        let copied = self.stores[region as usize].stack.region().read(packet, &mut header);
        match flow_key::parse(&header[..copied], packet.length() as usize) {
            Parsed::Malformed(_) | Parsed::NeedMore { .. } => Err(Reason::Malformed),
            Parsed::Ipv4 { key, place } => self.known_or_learnt4(key.with_ingress(port), place.fragment),
            Parsed::Wide { key, place } => self.known_or_learnt_wide(key.with_ingress(port), place.fragment),
        }
    }

    fn known_or_learnt4(&mut self, key: FlowKey4, fragment: Fragment) -> Result<Entry, Reason> {
        let find = |worker: &mut Self, key: FlowKey4| {
            let hash = key.bits().hash(&worker.seeds);
            (hash, worker.flows.find(key.bits(), hash, worker.plan.generation, worker.tick))
        };
        let of_fragment = match fragment {
            Fragment::None => None,
            Fragment::First { identification } | Fragment::Later { identification } => {
                Some(key.of_datagram(identification))
            }
        };
        if let (Fragment::Later { .. }, Some(datagram)) = (fragment, of_fragment)
            && let (_, Some(entry)) = find(self, datagram)
        {
            return Ok(entry);
        }
        let entry = match find(self, key) {
            (_, Some(entry)) => entry,
            (hash, None) => self.learn4(key, hash)?,
        };
        if let (Fragment::First { .. }, Some(datagram)) = (fragment, of_fragment) {
            let hash = datagram.bits().hash(&self.seeds);
            self.remember4(datagram, hash, entry);
        }
        Ok(entry)
    }

    fn known_or_learnt_wide(&mut self, key: FlowKeyWide, fragment: Fragment) -> Result<Entry, Reason> {
        let find = |worker: &mut Self, key: FlowKeyWide| {
            let hash = key.words().hash(&worker.seeds);
            (hash, worker.wide_flows.find(key.words(), hash, worker.plan.generation, worker.tick))
        };
        let of_fragment = match fragment {
            Fragment::None => None,
            Fragment::First { identification } | Fragment::Later { identification } => {
                Some(key.of_datagram(identification))
            }
        };
        if let (Fragment::Later { .. }, Some(datagram)) = (fragment, of_fragment)
            && let (_, Some(entry)) = find(self, datagram)
        {
            return Ok(entry);
        }
        let entry = match find(self, key) {
            (_, Some(entry)) => entry,
            (hash, None) => {
                let chain = self.plan.rules.chain(&wide_flow(key)).ok_or(Reason::NoRule)?;
                let entry = Entry { chain, spread: spread_of(hash) };
                self.remember_wide(key, hash, entry);
                entry
            }
        };
        if let (Fragment::First { .. }, Some(datagram)) = (fragment, of_fragment) {
            let hash = datagram.words().hash(&self.seeds);
            self.remember_wide(datagram, hash, entry);
        }
        Ok(entry)
    }

    fn learn4(&mut self, key: FlowKey4, hash: u64) -> Result<Entry, Reason> {
        let chain = self.plan.rules.chain(&flow4(key)).ok_or(Reason::NoRule)?;
        let entry = Entry { chain, spread: spread_of(hash) };
        self.remember4(key, hash, entry);
        Ok(entry)
    }

    fn remember4(&mut self, key: FlowKey4, hash: u64, entry: Entry) {
        remember(&mut self.flows, key.bits(), hash, entry, self.plan.generation, self.tick, &self.board);
    }

    fn remember_wide(&mut self, key: FlowKeyWide, hash: u64, entry: Entry) {
        remember(
            &mut self.wide_flows,
            key.words(),
            hash,
            entry,
            self.plan.generation,
            self.tick,
            &self.board,
        );
    }
}

/// Reads what is needed of each header, hashes, and asks the cache for the table's lines. Not inlined, and all
/// it reads an argument by itself, so that the compiler may keep it in registers while arrays are written.
#[inline(never)]
fn read_keys(
    headers: &Region,
    port: u8,
    seeds: &Seeds,
    flows: &Flows<u128>,
    packets: &[Descriptor],
    keys: &mut [u128],
    hashes: &mut [u64],
) {
    for ((packet, key), hash) in packets.iter().zip(keys).zip(hashes) {
        let words = headers.words(*packet, flow_key::PLAIN_WORDS_AT);
        let plain = flow_key::plain_ipv4(words, packet.length() as usize);
        // Key 0 is no IPv4 flow: its protocol would be 0.
        *key = plain.map_or(0, |key| key.with_ingress(port).bits());
        *hash = key.hash(seeds);
        flows.prefetch(*hash);
    }
}

fn remember<K: Key>(
    flows: &mut Flows<K>,
    key: K,
    hash: u64,
    entry: Entry,
    generation: u32,
    tick: u32,
    board: &crate::board::Board,
) {
    let learnt = flows.learn(key, hash, entry, generation, tick);
    board.flows_learnt.add(1);
    board.flows_evicted.add(u64::from(learnt == Learnt::Evicted));
}

/// What chooses an instance for a packet that came to us by a black box: as if it had come by a port.
pub(crate) fn spread_at(headers: &Region, packet: Descriptor, port: u8, seeds: &Seeds) -> u32 {
    let words = headers.words(packet, flow_key::PLAIN_WORDS_AT);
    let plain = flow_key::plain_ipv4(words, packet.length() as usize);
    spread_of(plain.map_or(0, |key| key.with_ingress(port).bits()).hash(seeds))
}

/// The bits of a hash that choose an instance: others than those that chose the bucket.
const fn spread_of(hash: u64) -> u32 {
    hash as u32
}

/// Whether L4 ports are there to see.
const fn has_ports(protocol: u8, later_fragment: bool) -> bool {
    const WITH_PORTS: [u8; 5] = [6, 17, 33, 132, 136];
    let mut at = 0;
    while at < WITH_PORTS.len() {
        if WITH_PORTS[at] == protocol {
            return !later_fragment;
        }
        at += 1;
    }
    false
}

fn flow4(key: FlowKey4) -> Flow {
    Flow {
        ingress: key.ingress(),
        vlan: key.vlan(),
        ethertype: ETHERTYPE_IPV4,
        protocol: key.protocol(),
        addresses: Some((key.source().into(), key.destination().into())),
        ports: has_ports(key.protocol(), key.is_later_fragment())
            .then_some((key.source_port(), key.destination_port())),
    }
}

fn wide_flow(key: FlowKeyWide) -> Flow {
    Flow {
        ingress: key.ingress(),
        vlan: key.vlan(),
        ethertype: key.ethertype(),
        protocol: key.protocol(),
        addresses: key.source().zip(key.destination()),
        ports: has_ports(key.protocol(), key.is_later_fragment())
            .then_some((key.source_port(), key.destination_port())),
    }
}
