//! Traces: records of followed packets, put together to the way of each.

use std::collections::HashMap;

use headgate_api::watch::{Missed, PacketTrace, Said, TraceRequest, TraceStep};
use headgate_path::board::Station;
use headgate_path::trace::Step;
use headgate_units::RegionId;
use headgate_wire::headers::Headers;

use super::capture::verdict_of;
use super::fields;
use super::stream::{Names, Session, Sink, Times, Told, say};

/// Time after which a packet is followed no longer, and told as far as it came. Our choice: twice as long as
/// an external program may keep one, and longer than any queue of an NF that works.
const PATIENCE_NS: u64 = 1_000_000_000;

type Key = (RegionId, u32);

/// Packet that is followed.
struct Way {
    trace: PacketTrace,
    fields: Vec<(&'static str, String)>,
    last_ns: u64,
}

/// Traces of one client.
pub struct Traces {
    wanted: u64,
    told: u64,
    ways: HashMap<Key, Way>,
    node: String,
}

impl Traces {
    /// Begins with none.
    pub fn new(wanted: &TraceRequest) -> Self {
        let node = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        Self { wanted: wanted.packets.into(), told: 0, ways: HashMap::new(), node: node.trim().to_owned() }
    }

    fn begin(&mut self, key: Key, told: &Told<'_>) {
        let (record, time) = (told.record, told.times.wall(told.record));
        let trace = PacketTrace {
            packet: Headers::read(told.frame).to_string(),
            bytes: record.packet.length(),
            node: self.node.clone(),
            port: told.names.port_of(record),
            arrived_ns: time,
            ..PacketTrace::default()
        };
        let fields = fields::of(told.frame, record.packet.length());
        let mut way = Way { trace, fields, last_ns: time };
        way.step(told);
        self.ways.insert(key, way);
    }

    fn end(&mut self, key: Key, end: &str, sentence: String, out: &mut Vec<u8>) {
        let Some(mut way) = self.ways.remove(&key) else { return };
        end.clone_into(&mut way.trace.end);
        way.trace.sentence = sentence;
        say(out, &Said::Trace(way.trace));
        self.told += 1;
    }

    /// Ends the trace of a packet that we know no more of.
    fn lose(&mut self, key: Key, out: &mut Vec<u8>) {
        let Some(way) = self.ways.get(&key) else { return };
        self.end(key, "out-of-sight", way.whereabouts(), out);
    }

    fn goes_on(&self) -> bool {
        self.told < self.wanted
    }
}

impl Way {
    /// Adds a step, and what was rewritten since the last one.
    fn step(&mut self, told: &Told<'_>) {
        let Told { record, frame, worker, times, names } = *told;
        let (station, has_frame) = match record.step {
            Step::Passed(station) => (station.name(), true),
            Step::Ended(_) => ("drop", true),
            _ => ("copy", false),
        };
        let changes = match has_frame && !frame.is_empty() {
            false => Vec::new(),
            true => {
                let before = std::mem::replace(&mut self.fields, fields::of(frame, record.packet.length()));
                fields::changes(&before, &self.fields)
            }
        };
        // Two workers' clocks are one, but what they wrote may be some cycles apart.
        let time = times.wall(record).max(self.last_ns);
        self.trace.steps.push(TraceStep {
            station: station.to_owned(),
            at: names.at(record.at),
            at_ns: time - self.trace.arrived_ns,
            took_ns: time - self.last_ns,
            worker,
            verdict: (record.step == Step::Passed(Station::Hop))
                .then(|| verdict_of(record, names).unwrap_or_else(|| "next".to_owned())),
            changes,
        });
        self.last_ns = time;
    }

    fn whereabouts(&self) -> String {
        let last = self.trace.steps.last();
        match last.map(|step| (step.station.as_str(), step.at.as_deref())) {
            Some(("deliver", Some(at))) => format!(
                "last seen on its way into {at}, which has not returned it: it is kept there, or {at} is an external \
                 program, which returns other packets"
            ),
            Some((station, _)) => format!("last seen at {station}; what became of it is not known"),
            None => "not seen".to_owned(),
        }
    }
}

impl Sink for Traces {
    fn take(&mut self, told: &Told<'_>, out: &mut Vec<u8>) -> bool {
        let Told { record, names, .. } = *told;
        let key = (record.region, record.packet.index());
        match record.step {
            Step::Passed(Station::Arrive) => self.begin(key, told),
            Step::Other => drop(self.ways.remove(&key)),
            Step::Gone => self.lose(key, out),
            Step::Copied => {
                if let Some(mut way) = record.origin(told.frame).and_then(|from| self.ways.remove(&from)) {
                    way.step(told);
                    self.ways.insert(key, way);
                }
            }
            Step::Passed(station) => {
                let Some(way) = self.ways.get_mut(&key) else { return true };
                way.step(told);
                way.trace.chain = Some(names.chain(record));
                if station == Station::Emit {
                    let port = names.at(record.at).unwrap_or_default();
                    self.end(key, "left", format!("left by port {port}"), out);
                }
            }
            Step::Ended(reason) => {
                let Some(way) = self.ways.get_mut(&key) else { return true };
                way.step(told);
                way.trace.chain.get_or_insert_with(|| names.chain(record));
                let at = names.at(record.at).map(|at| format!(" at {at}")).unwrap_or_default();
                let sentence = format!("dropped{at}: {}: {}", reason.name(), reason.sentence());
                self.end(key, "dropped", sentence, out);
            }
        }
        self.goes_on()
    }

    fn tend(&mut self, times: &Times, _: &Names, session: &Session, out: &mut Vec<u8>) -> bool {
        let now = times.now();
        let is_late = |way: &Way| now.saturating_sub(way.last_ns) > PATIENCE_NS;
        let late: Vec<Key> = self.ways.iter().filter(|(_, way)| is_late(way)).map(|(key, _)| *key).collect();
        for key in late {
            if let Some(picks) = &session.picks {
                picks.forget(key.0, key.1);
            }
            self.lose(key, out);
        }
        self.goes_on()
    }

    fn finish(&mut self, _: &Times, _: &Names, _: Missed, out: &mut Vec<u8>) -> u64 {
        // Those that are on their way when it ends are told as far as they came.
        let left: Vec<Key> = self.ways.keys().copied().collect();
        left.into_iter().for_each(|key| self.lose(key, out));
        self.told
    }
}

/// Returns the bytes of each frame that a trace compares.
pub const fn bytes() -> u32 {
    256
}

#[cfg(test)]
mod tests {
    use super::*;
    use headgate_host::clock::Clock;
    use headgate_path::drop::DropReason;
    use headgate_path::holders::{Entrance, Place};
    use headgate_path::trace::{At, Record};
    use headgate_shm::Descriptor;
    use headgate_units::{ChainId, InstanceId, PortId, Ticks};

    fn names() -> Names {
        let all = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        Names {
            chains: all(&["-", "web"]),
            instances: all(&["fw"]),
            stages: all(&["fw"]),
            ports: all(&["west", "east"]),
        }
    }

    fn record(step: Step, at: At, time: u64) -> Record {
        Record {
            step,
            at,
            region: RegionId(0),
            packet: Descriptor::new(5, 128, 60, 0),
            place: Place::arrived(PortId(0), 0).entering(Entrance::head(ChainId(1))),
            time: Ticks(time),
            kept: 0,
        }
    }

    fn traces(records: &[(Record, Vec<u8>)], packets: u32) -> Vec<PacketTrace> {
        let (times, names) = (Times::new(Clock::calibrate()), names());
        let mut sink = Traces::new(&TraceRequest { packets, ..TraceRequest::default() });
        let mut out = Vec::new();
        for (record, frame) in records {
            let told = Told { record, frame, worker: 3, times: &times, names: &names };
            sink.take(&told, &mut out);
        }
        sink.finish(&times, &names, Missed::default(), &mut out);
        let lines = out.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        let said = lines.map(|line| match serde_json::from_slice(line).unwrap() {
            Said::Trace(trace) => trace,
            other => panic!("{other:?}"),
        });
        said.collect()
    }

    #[test]
    fn a_packet_is_told_with_its_rewrites_and_its_end() {
        use Station::{Arrive, Deliver, Emit, Hop};
        let (first, mut second) = (vec![0; 60], vec![0; 60]);
        second[0] = 2;
        let fw = At::Instance(InstanceId(0));
        let told = traces(
            &[
                (record(Step::Passed(Arrive), At::Nowhere, 1 << 30), first.clone()),
                (record(Step::Passed(Deliver), fw, 2 << 30), first),
                (record(Step::Passed(Hop), fw, 3 << 30), second.clone()),
                (record(Step::Passed(Emit), At::Port(PortId(1)), 4 << 30), second),
            ],
            1,
        );
        let [trace] = &told[..] else { panic!("{told:?}") };
        assert_eq!((trace.chain.as_deref(), trace.end.as_str()), (Some("web"), "left"));
        assert_eq!(trace.sentence, "left by port east");
        let hop = &trace.steps[2];
        assert_eq!((hop.at.as_deref(), hop.verdict.as_deref(), hop.worker), (Some("fw"), Some("next"), 3));
        assert_eq!((hop.changes.len(), hop.changes[0].field.as_str()), (1, "eth.dst"));
        assert!(hop.took_ns > 0 && hop.at_ns > hop.took_ns);
        assert!(trace.steps[3].changes.is_empty());
    }

    #[test]
    fn one_that_ends_and_one_that_vanishes_say_so() {
        let (fw, frame) = (At::Instance(InstanceId(0)), vec![0; 60]);
        let arrival = (record(Step::Passed(Station::Arrive), At::Nowhere, 1), frame.clone());
        let told =
            traces(&[arrival.clone(), (record(Step::Ended(DropReason::NfVerdict), fw, 2), frame.clone())], 1);
        assert_eq!(told[0].sentence, "dropped at fw: nf-verdict: an NF decided to drop it");
        let told = traces(&[arrival.clone(), (record(Step::Passed(Station::Deliver), fw, 2), frame)], 1);
        assert_eq!(told[0].end, "out-of-sight");
        assert!(told[0].sentence.contains("external program"), "{}", told[0].sentence);
        let other = (record(Step::Other, At::Nowhere, 2), Vec::new());
        assert_eq!(traces(&[arrival, other], 1), []);
    }
}
