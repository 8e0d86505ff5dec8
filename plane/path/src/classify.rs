//! Station 2, classify: headers -> flow -> chain.
//!
//! The flow table is asked first; the rules decide on flows that it does not know, and it learns their answer
//! (`classify/learn.rs`). A burst is gone through twice: the first time reads headers, hashes, and asks the
//! cache for the table's lines, the second finds the entries and notes what they say, so that the misses of a
//! burst overlap.
//!
//! Of each byte of a header one load is used, or it is read from a private copy: the region is shared with
//! NFs that may write to it meanwhile.
//!
//! `classify/look_up.rs` answers an operator who asks what would become of a packet, by the same parser,
//! table and rules.

mod learn;
mod look_up;

pub use look_up::LookedUp;

pub(crate) use learn::parse_long;

use headgate_shm::{Descriptor, Region};
use headgate_units::PortId;
use headgate_wire::flow_key;

use crate::BURST;
use crate::board::Station;
use crate::burst::{Agreement, Burst};
use crate::flows::{Entry, Flows, Key, Seeds, Stamp};
use crate::holders::{Arrival, Place, Records, TICK_SHIFT};
use crate::intake::Intake;
use crate::ledger::Ledger;
use crate::trace::At;
use crate::view::View;

impl Intake {
    /// Finds where each packet of a burst that arrived enters. Those that are malformed or that no rule
    /// claims have ended.
    #[inline]
    pub fn classify(&mut self, view: &View, ledger: &mut Ledger, burst: &mut Burst) {
        match view.plan.service_address(burst.from.port()) {
            None => self.classify_all(view, ledger, burst),
            Some(own) => self.decap(view, ledger, own, burst),
        }
    }

    /// Does it by their headers alone.
    #[inline(always)]
    pub(crate) fn classify_all(&mut self, view: &View, ledger: &mut Ledger, burst: &mut Burst) {
        let store = ledger.store(burst.region);
        read_keys(store.stack.region(), &self.seeds, &self.flows, burst);
        store.holders.extras.clear(&burst.packets[..burst.count]);
        let register = Register::new(view, ledger, burst);
        let now = self.stamp(view.plan);
        if find_entries(&mut self.flows, register, now, burst) {
            self.learn_all(view, ledger, burst);
        }
        ledger.passed(
            Station::Classify,
            At::Nowhere,
            burst.region,
            &burst.packets[..burst.count],
            &burst.places[..burst.count],
        );
    }
}

/// Notes for packets of one burst where they enter, when they arrived, and which flow they are of.
#[derive(Clone, Copy)]
struct Register<'a> {
    records: Records<'a>,
    from: Place,
    /// Time of their arrival, as the holder records have it.
    at: u32,
}

impl<'a> Register<'a> {
    fn new(view: &View, ledger: &'a Ledger, burst: &Burst) -> Self {
        Self {
            records: ledger.store(burst.region).holders.records(),
            from: burst.from,
            at: (view.now.0 >> TICK_SHIFT) as u32,
        }
    }

    /// Notes what its flow's entry says of a packet. Returns its place.
    #[inline(always)]
    fn enter(&self, packet: Descriptor, entry: Entry) -> Place {
        self.records.set_arrival(packet.index(), Arrival { flow: entry.spread, at: self.at });
        self.from.entering(entry.entrance)
    }
}

/// Reads the needed part of each header, hashes, and asks the cache for the table's lines. Not inlined, and
/// with the burst as its only array, so that the compiler has registers for the rest.
#[inline(never)]
fn read_keys(headers: &Region, seeds: &Seeds, flows: &Flows<u128>, burst: &mut Burst) {
    let (seeds, port) = (*seeds, burst.from.port());
    for at in 0..burst.count.min(BURST) {
        let key = plain_key(headers, burst.packets[at], port);
        let home = flows.home(key.hash(&seeds));
        flows.prefetch(home);
        (burst.keys[at], burst.homes[at]) = (key, home);
    }
}

/// Finds the entry of each flow, and enters its packets where it says; those of unknown flows stay at
/// [`Place::FREE`]. Returns whether there are any.
#[inline(never)]
fn find_entries(flows: &mut Flows<u128>, register: Register, now: Stamp, burst: &mut Burst) -> bool {
    let (mut some_unknown, mut places) = (false, Agreement::default());
    for at in 0..burst.count.min(BURST) {
        let place = match flows.find(burst.keys[at], burst.homes[at], now) {
            Some(entry) => register.enter(burst.packets[at], entry),
            None => {
                some_unknown = true;
                Place::FREE
            }
        };
        burst.places[at] = place;
        places.add(place.bits());
    }
    burst.is_one_way = places.is_one();
    some_unknown
}

/// Returns the key of a packet that is plain IPv4, and 0 for any other: that is no IPv4 flow, whose protocol
/// would be 0.
#[inline(always)]
pub(crate) fn plain_key(headers: &Region, packet: Descriptor, port: PortId) -> u128 {
    let head = headers.head(packet, flow_key::PLAIN_BYTES);
    let plain = flow_key::plain_ipv4(|at| head.word(at), packet.length() as usize);
    plain.map_or(0, |key| key.with_ingress(port.0 as u8).bits())
}

/// Returns the bits that choose an instance for a packet that came from an external program: as if it had
/// come by a port.
pub(crate) fn spread_at(headers: &Region, packet: Descriptor, port: PortId, seeds: &Seeds) -> u32 {
    spread_of(plain_key(headers, packet, port).hash(seeds))
}

/// Returns the bits of a hash that choose an instance: others than those that chose the line of the table.
pub(crate) const fn spread_of(hash: u64) -> u32 {
    (hash >> 32) as u32
}
