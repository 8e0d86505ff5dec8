//! Flows that the table does not know: asks the rules, and has the table learn their answer.
//!
//! Fragments: only the first one has L4 ports. It is classified as its flow, and the decision is remembered
//! under (addresses, protocol, identification), where the later ones find it, so all parts go to the same
//! chain and instance. A later one that comes before the first is classified without ports.

use headgate_shm::{Descriptor, Region};
use headgate_units::{PortId, WorkerId};
use headgate_wire::flow_key::{self, FlowKey4, FlowKeyWide, Fragment, Parsed};

use super::{Register, spread_of};
use crate::board::Board;
use crate::burst::{Agreement, Burst};
use crate::drop::DropReason;
use crate::flows::{Entry, Flows, Key, Learnt, Seeds, Stamp};
use crate::holders::Place;
use crate::intake::Intake;
use crate::ledger::Ledger;
use crate::plan::Plan;
use crate::rules::Flow;
use crate::view::View;

/// Bytes copied for a header that does not fit the first line. Our choice: two VLAN tags, IPv6, the
/// longest chain of extension headers that is walked, and ports fit for all but absurd packets, which
/// are malformed to us.
const LONG_HEADER_BYTES: usize = 512;

const ETHERTYPE_IPV4: u16 = 0x0800;

/// Rules that are asked for flows, and all that remembering the answer needs.
struct Asked<'a> {
    plan: &'a Plan,
    board: &'a Board,
    seeds: &'a Seeds,
    now: Stamp,
    worker: WorkerId,
    port: PortId,
}

/// Key that rules can read.
pub(super) trait FlowKey: Copy {
    /// Form that the flow table keeps.
    type Stored: Key;
    /// Returns the key in the form that the flow table keeps.
    fn stored(self) -> Self::Stored;
    /// Returns the key by which the parts of one packet find each other.
    fn of_datagram(self, identification: u32) -> Self;
    /// Returns the flow as rules see it.
    fn flow(self) -> Flow;
}

impl FlowKey for FlowKey4 {
    type Stored = u128;

    fn stored(self) -> u128 {
        self.bits()
    }

    fn of_datagram(self, identification: u32) -> Self {
        self.of_datagram(identification)
    }

    fn flow(self) -> Flow {
        Flow {
            ingress: PortId(self.ingress().into()),
            vlan: self.vlan(),
            ethertype: ETHERTYPE_IPV4,
            protocol: self.protocol(),
            addresses: Some((self.source().into(), self.destination().into())),
            ports: self.ports(),
        }
    }
}

impl FlowKey for FlowKeyWide {
    type Stored = [u128; 3];

    fn stored(self) -> [u128; 3] {
        self.words()
    }

    fn of_datagram(self, identification: u32) -> Self {
        self.of_datagram(identification)
    }

    fn flow(self) -> Flow {
        Flow {
            ingress: PortId(self.ingress().into()),
            vlan: self.vlan(),
            ethertype: self.ethertype(),
            protocol: self.protocol(),
            addresses: self.source().zip(self.destination()),
            ports: self.ports(),
        }
    }
}

impl Intake {
    /// Asks the rules for each packet that has no place yet. Packets that enter somewhere stay, at the front,
    /// and the others have ended.
    #[cold]
    pub(super) fn learn_all(&mut self, view: &View, ledger: &mut Ledger, burst: &mut Burst) {
        let (mut onward, mut places) = (0, Agreement::default());
        for at in 0..burst.count {
            let packet = burst.packets[at];
            let found = match burst.places[at] {
                Place::FREE => self
                    .known_or_learnt_packet(view, ledger, burst, at)
                    .map(|entry| Register::new(view, ledger, burst).enter(packet, entry)),
                place => Ok(place),
            };
            match found {
                Ok(place) => {
                    (burst.packets[onward], burst.places[onward]) = (packet, place);
                    places.add(place.bits());
                    onward += 1;
                }
                Err(reason) => ledger.turn_away(burst.region, reason, packet),
            }
        }
        burst.count = onward;
        burst.is_one_way = places.is_one();
    }

    fn known_or_learnt_packet(
        &mut self,
        view: &View,
        ledger: &Ledger,
        burst: &Burst,
        at: usize,
    ) -> Result<Entry, DropReason> {
        let (key, port) = (burst.keys[at], burst.from.port().0 as u8);
        let asked = Asked {
            plan: view.plan,
            board: &ledger.board,
            seeds: &self.seeds,
            now: self.stamp(view.plan),
            worker: self.worker,
            port: burst.from.port(),
        };
        if key != 0 {
            // An earlier packet of the burst may have been the first of its flow.
            return asked.known_or_learnt(&mut self.flows, FlowKey4::from_bits(key));
        }
        match parse_long(ledger.store(burst.region).stack.region(), burst.packets[at]) {
            Parsed::Malformed(_) | Parsed::NeedMore { .. } => Err(DropReason::Malformed),
            Parsed::Ipv4 { key, place } => {
                asked.known_or_learnt_part(&mut self.flows, key.with_ingress(port), place.fragment)
            }
            Parsed::Wide { key, place } => {
                asked.known_or_learnt_part(&mut self.wide_flows, key.with_ingress(port), place.fragment)
            }
        }
    }
}

/// Finds the flow of a packet that is not plain, in a private copy of its header.
pub(crate) fn parse_long(headers: &Region, packet: Descriptor) -> Parsed {
    let mut header = [0; LONG_HEADER_BYTES];
    let copied = headers.read(packet, &mut header);
    flow_key::parse(&header[..copied], packet.length() as usize)
}

impl Asked<'_> {
    /// Returns the entry of a flow, or the rules' answer for it, which the table then knows.
    fn known_or_learnt<K: FlowKey>(&self, flows: &mut Flows<K::Stored>, key: K) -> Result<Entry, DropReason> {
        if let Some(entry) = self.find(flows, key) {
            return Ok(entry);
        }
        let entrance = self.plan.rules.claim(&key.flow()).ok_or(DropReason::NoRule)?;
        let hash = spread_of(key.stored().hash(self.seeds));
        let entry = Entry { entrance, spread: self.plan.spread_from(self.port, self.worker, hash) };
        self.remember(flows, key, entry);
        Ok(entry)
    }

    /// Returns the entry of a packet that may be a part of a larger one, in the same way.
    fn known_or_learnt_part<K: FlowKey>(
        &self,
        flows: &mut Flows<K::Stored>,
        key: K,
        fragment: Fragment,
    ) -> Result<Entry, DropReason> {
        match fragment {
            Fragment::None => self.known_or_learnt(flows, key),
            Fragment::First { identification } => {
                let entry = self.known_or_learnt(flows, key)?;
                self.remember(flows, key.of_datagram(identification), entry);
                Ok(entry)
            }
            Fragment::Later { identification } => match self.find(flows, key.of_datagram(identification)) {
                Some(entry) => Ok(entry),
                None => self.known_or_learnt(flows, key),
            },
        }
    }

    fn find<K: FlowKey>(&self, flows: &mut Flows<K::Stored>, key: K) -> Option<Entry> {
        let stored = key.stored();
        flows.find(stored, flows.home(stored.hash(self.seeds)), self.now)
    }

    fn remember<K: FlowKey>(&self, flows: &mut Flows<K::Stored>, key: K, entry: Entry) {
        let stored = key.stored();
        let home = flows.home(stored.hash(self.seeds));
        let learnt = flows.learn(stored, home, entry, self.now);
        self.board.flows_learnt.add(1);
        self.board.flows_evicted.add(u64::from(learnt == Learnt::Evicted));
    }
}
