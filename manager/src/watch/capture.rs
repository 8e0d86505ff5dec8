//! Capture: records as blocks of a pcapng file, an interface for each station.

use std::collections::HashMap;

use headgate_api::watch::{CaptureRequest, Missed, Said};
use headgate_path::board::Station;
use headgate_path::trace::{At, Record, Step};
use headgate_shm::Verdict;
use headgate_wire::pcapng::{self, Packet, Statistics};

use super::stream::{Names, Session, Sink, Times, Told, say};

/// Interface whose statistics tell what is not in the file.
const MISSED: &str = "not captured";

/// Place of a record, by numbers: its station, whom it is at, and its chain or, before there is one, its
/// port. A packet that ends has no station.
type Way = (Option<Station>, At, usize);

/// Capture that is being written.
pub struct Capture {
    snap_bytes: u32,
    left: u64,
    packets: u64,
    /// Interface by its name, with the number of its packets.
    interfaces: HashMap<String, usize>,
    /// Interfaces of the records of one drain, during which no name changes: most records need no name.
    known: HashMap<Way, usize>,
    counts: Vec<u64>,
    blocks: Vec<u8>,
}

impl Capture {
    /// Begins a file. Known stations have the first interfaces, whether packets pass them or not.
    pub fn new(wanted: &CaptureRequest, stations: &[String]) -> Self {
        let mut capture = Self {
            snap_bytes: wanted.snap_bytes,
            left: wanted.packets.unwrap_or(u64::MAX),
            packets: 0,
            interfaces: HashMap::new(),
            known: HashMap::new(),
            counts: Vec::new(),
            blocks: Vec::new(),
        };
        let application = concat!("headgate ", env!("CARGO_PKG_VERSION"));
        pcapng::section(capture.block(pcapng::section_bytes(application)), application);
        for station in stations {
            capture.interface(station.clone());
        }
        capture
    }

    /// Returns room for a block.
    fn block(&mut self, bytes: usize) -> &mut [u8] {
        let start = self.blocks.len();
        self.blocks.resize(start + bytes, 0);
        &mut self.blocks[start..]
    }

    /// Returns the number of an interface, which is described where it is the first time.
    fn interface(&mut self, name: String) -> usize {
        if let Some(number) = self.interfaces.get(&name) {
            return *number;
        }
        let snap_bytes = self.snap_bytes;
        pcapng::interface(self.block(pcapng::interface_bytes(&name)), &name, snap_bytes);
        self.counts.push(0);
        self.interfaces.insert(name, self.counts.len() - 1);
        self.counts.len() - 1
    }

    fn interface_of(&mut self, record: &Record, names: &Names) -> usize {
        let way = way_of(record);
        if let Some(number) = self.known.get(&way) {
            return *number;
        }
        let number = self.interface(name_of(record, names));
        self.known.insert(way, number);
        number
    }

    fn packet(&mut self, about: Packet, comment: Option<&str>, frame: &[u8]) {
        let fill = |bytes: &mut [u8]| bytes.copy_from_slice(frame);
        match comment {
            Some(comment) => {
                let bytes = pcapng::commented_packet_bytes(frame.len(), comment);
                pcapng::commented_packet(self.block(bytes), about, comment, fill);
            }
            None => pcapng::packet(self.block(pcapng::packet_bytes(frame.len())), about, fill),
        }
    }

    /// Hands over whole blocks.
    fn hand_over(&mut self, out: &mut Vec<u8>) {
        if !self.blocks.is_empty() {
            say(out, &Said::Bytes { count: self.blocks.len() });
            out.append(&mut self.blocks);
        }
    }
}

/// Returns the name of a station of a chain: `web/fw/deliver`.
pub fn station(chain: &str, at: Option<&str>, station: &str) -> String {
    match at {
        Some(at) => format!("{chain}/{at}/{station}"),
        None => format!("{chain}/{station}"),
    }
}

fn way_of(record: &Record) -> Way {
    match record.step {
        Step::Passed(Station::Arrive) => (Some(Station::Arrive), At::Nowhere, record.place.port().index()),
        Step::Passed(passed) => (Some(passed), record.at, record.place.chain().index()),
        _ => (None, At::Nowhere, record.place.chain().index()),
    }
}

/// Returns the name of the interface of a record.
fn name_of(record: &Record, names: &Names) -> String {
    let at = names.at(record.at);
    match record.step {
        // Its chain is not known yet.
        Step::Passed(Station::Arrive) => station(&names.port_of(record), None, Station::Arrive.name()),
        Step::Passed(passed) => station(&names.chain(record), at.as_deref(), passed.name()),
        _ => station(&names.chain(record), None, "drop"),
    }
}

/// Returns what is to be said of a packet: why it ended, or a verdict other than "next".
fn comment_of(record: &Record, names: &Names) -> Option<String> {
    match record.step {
        Step::Ended(reason) => {
            let at = names.at(record.at).map(|at| format!(" at {at}")).unwrap_or_default();
            Some(format!("dropped{at}: {}: {}", reason.name(), reason.sentence()))
        }
        Step::Passed(Station::Hop) => verdict_of(record, names).map(|verdict| format!("verdict: {verdict}")),
        _ => None,
    }
}

/// Returns the verdict of a packet that an NF returned, unless it is "next".
pub fn verdict_of(record: &Record, names: &Names) -> Option<String> {
    match record.packet.verdict() {
        Verdict::Next => None,
        Verdict::Drop => Some("drop".to_owned()),
        Verdict::Port(number) => Some(format!("port {}", Names::of(&names.ports, number.into()))),
        Verdict::Stage(number) => Some(format!("stage {}", Names::of(&names.stages, number.into()))),
    }
}

impl Sink for Capture {
    fn take(&mut self, told: &Told<'_>, _: &mut Vec<u8>) -> bool {
        let Told { record, frame, times, names, .. } = *told;
        let interface = self.interface_of(record, names);
        self.counts[interface] += 1;
        let about = Packet {
            interface: interface as u32,
            time_ns: times.wall(record),
            length: (record.packet.length() as usize).max(frame.len()),
            kept: frame.len(),
        };
        self.packet(about, comment_of(record, names).as_deref(), frame);
        self.packets += 1;
        self.left -= 1;
        self.left > 0
    }

    fn tend(&mut self, _: &Times, _: &Names, _: &Session, out: &mut Vec<u8>) -> bool {
        self.hand_over(out);
        self.known.clear();
        self.left > 0
    }

    fn finish(&mut self, times: &Times, _: &Names, missed: Missed, out: &mut Vec<u8>) -> u64 {
        let dropped = missed.unseen_packets + missed.lost_packets;
        if dropped > 0 {
            self.interface(MISSED.to_owned());
        }
        let time_ns = times.now();
        for number in 0..self.counts.len() {
            let is_missed = dropped > 0 && number + 1 == self.counts.len();
            let counts = Statistics {
                interface: number as u32,
                time_ns,
                received: if is_missed { dropped } else { self.counts[number] },
                dropped: if is_missed { dropped } else { 0 },
            };
            pcapng::statistics(self.block(pcapng::STATISTICS_BYTES), counts);
        }
        self.hand_over(out);
        self.packets
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::watch::Shared;
    use headgate_host::clock::Clock;
    use headgate_path::drop::DropReason;
    use headgate_path::holders::{Entrance, Place};
    use headgate_shm::Descriptor;
    use headgate_units::{ChainId, InstanceId, PortId, RegionId, Ticks};

    fn record(step: Step, at: At) -> Record {
        let place = Place::arrived(PortId(0), 0).entering(Entrance::head(ChainId(1)));
        let packet = Descriptor::new(0, 128, 60, 0);
        Record { step, at, region: RegionId(0), packet, place, time: Ticks(7), kept: 0 }
    }

    /// Interfaces by number are remembered for one drain only: the number of a chain that went is another's.
    #[test]
    fn a_chain_that_takes_the_number_of_another_has_its_own_interfaces() {
        let clock = Clock::calibrate();
        let times = Times::new(clock);
        let names = |chain: &str| Names {
            chains: vec!["-".to_owned(), chain.to_owned()],
            instances: vec!["fw".to_owned()],
            stages: Vec::new(),
            ports: vec!["west".to_owned()],
        };
        let (readers, stations, shared) = (Vec::new(), Vec::new(), Arc::<Shared>::default());
        let session = Session { readers, picks: None, heard: None, shared, clock, stations };
        let mut capture = Capture::new(&CaptureRequest { snap_bytes: 60, ..CaptureRequest::default() }, &[]);
        let steps = [
            (Step::Passed(Station::Arrive), At::Nowhere),
            (Step::Passed(Station::Deliver), At::Instance(InstanceId(0))),
            (Step::Passed(Station::Hop), At::Instance(InstanceId(0))),
            (Step::Ended(DropReason::Throttled), At::Instance(InstanceId(0))),
            (Step::Ended(DropReason::NoRule), At::Nowhere),
        ];
        for chain in ["web", "shop"] {
            let names = names(chain);
            for (step, at) in steps.iter().chain(&steps) {
                let record = record(*step, *at);
                let told = Told { record: &record, frame: &[], worker: 0, times: &times, names: &names };
                assert!(capture.take(&told, &mut Vec::new()));
            }
            assert!(capture.tend(&times, &names, &session, &mut Vec::new()));
        }
        let mut packets: Vec<_> = capture
            .interfaces
            .iter()
            .map(|(name, number)| (name.as_str(), capture.counts[*number]))
            .collect();
        packets.sort_unstable();
        let wanted = [
            ("shop/drop", 4),
            ("shop/fw/deliver", 2),
            ("shop/fw/hop", 2),
            ("web/drop", 4),
            ("web/fw/deliver", 2),
            ("web/fw/hop", 2),
            ("west/arrive", 4),
        ];
        assert_eq!(packets, wanted);
    }
}
