//! Station 2, classify: headers -> flow -> chain.
//!
//! The flow table is asked first; the rules decide on flows that it does not know, and it learns their answer
//! (`classify/learn.rs`). A burst is gone through twice: the first time reads headers, hashes, and asks the
//! cache for the table's lines, the second finds the entries, so that the misses of a burst overlap.
//!
//! Each word of a header is loaded once, or it is read from a private copy: the region is shared with NFs
//! that may write to it meanwhile.

mod learn;

use headgate_shm::{Descriptor, Region, cpu};
use headgate_units::PortId;
use headgate_wire::flow_key;

use crate::BURST;
use crate::board::Station;
use crate::burst::Burst;
use crate::flows::{Flows, Key, Seeds};
use crate::holders::{Arrival, TICK_SHIFT};
use crate::intake::Intake;
use crate::ledger::Ledger;
use crate::view::View;

impl Intake {
    /// Finds where each packet of a burst that arrived enters. Those that are malformed or that no rule
    /// claims have ended.
    #[inline]
    pub fn classify(&mut self, view: &View, ledger: &mut Ledger, burst: &mut Burst) {
        read_keys(ledger.store(burst.region).stack.region(), &self.seeds, &self.flows, burst);
        let unknown = find_entries(&mut self.flows, view.plan.generation, self.clock.now(), burst);
        if unknown != 0 {
            self.learn_all(view, ledger, burst, unknown);
        }
        enter(view, ledger, burst);
        ledger.passed(Station::Classify, &burst.packets[..burst.count], &burst.places[..burst.count]);
    }
}

/// Notes for each packet where it enters, when it arrived, and which flow it is of.
#[inline(always)]
fn enter(view: &View, ledger: &Ledger, burst: &mut Burst) {
    let from = burst.from;
    let at = (view.now.0 >> TICK_SHIFT) as u32;
    let holders = &ledger.store(burst.region).holders;
    for number in 0..burst.count.min(BURST) {
        let (packet, entry) = (burst.packets[number], burst.entries[number]);
        holders.set_arrival(packet.index(), Arrival { flow: entry.spread, at });
        cpu::prefetch(&ledger.board.chains[entry.entrance.chain().index()]);
        burst.places[number] = from.entering(entry.entrance);
    }
    holders.extras.clear(&burst.packets[..burst.count]);
}

/// Reads the needed part of each header, hashes, and asks the cache for the table's lines. Not inlined, and
/// with the burst as its only array, so that the compiler has registers for the rest.
#[inline(never)]
fn read_keys(headers: &Region, seeds: &Seeds, flows: &Flows<u128>, burst: &mut Burst) {
    let (seeds, port) = (*seeds, burst.from.port());
    for at in 0..burst.count.min(BURST) {
        let key = plain_key(headers, burst.packets[at], port);
        let hash = key.hash(&seeds);
        flows.prefetch(hash);
        (burst.keys[at], burst.hashes[at]) = (key, hash);
    }
}

/// Finds the entry of each flow. Returns a bit for each packet whose flow is not known.
#[inline(never)]
fn find_entries(flows: &mut Flows<u128>, generation: u32, tick: u32, burst: &mut Burst) -> u128 {
    let mut unknown = 0;
    for at in 0..burst.count.min(BURST) {
        match flows.find(burst.keys[at], burst.hashes[at], generation, tick) {
            Some(entry) => burst.entries[at] = entry,
            None => unknown |= 1 << at,
        }
    }
    unknown
}

/// Returns the key of a packet that is plain IPv4, and 0 for any other: that is no IPv4 flow, whose protocol
/// would be 0.
#[inline(always)]
fn plain_key(headers: &Region, packet: Descriptor, port: PortId) -> u128 {
    let words = headers.words(packet, flow_key::PLAIN_WORDS_AT);
    let plain = flow_key::plain_ipv4(words, packet.length() as usize);
    plain.map_or(0, |key| key.with_ingress(port.0 as u8).bits())
}

/// Returns the bits that choose an instance for a packet that came from an external program: as if it had
/// come by a port.
pub(crate) fn spread_at(headers: &Region, packet: Descriptor, port: PortId, seeds: &Seeds) -> u32 {
    spread_of(plain_key(headers, packet, port).hash(seeds))
}

/// Returns the bits of a hash that choose an instance: others than those that chose the bucket.
const fn spread_of(hash: u64) -> u32 {
    hash as u32
}
