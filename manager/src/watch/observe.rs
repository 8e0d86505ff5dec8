//! Log of flows, events and decisions, as lines.
//!
//! Packets of one flow that ended alike become one line, a few times a second, so that a flood is as long a
//! log as a trickle. Lines have a rate for each kind, so that flows leave room for events; those beyond are
//! counted.

use std::collections::HashMap;

use headgate_api::watch::{DecisionTaken, FlowEnds, Missed, ObserveRequest, Said, Verdict};
use headgate_decide::record::Entry;
use headgate_path::board::Station;
use headgate_path::trace::Step;
use headgate_units::{Instant, TokenBucket};
use headgate_wire::headers::Headers;

use super::stream::{Heard, Names, Session, Sink, Times, Told, say};

/// Lines of one kind in a second, on average, and at once. Our choice: more than scrolls past unread, and a
/// file of a gigabyte a day at most.
const LINES_PER_SECOND: u64 = 200;
const LINES_AT_ONCE: u64 = 400;
/// Time between two lines of a flow that goes on.
const FLOW_EVERY_NS: u64 = 500_000_000;
/// Flows that wait to be told at most; those beyond are counted as lines that are missing.
const FLOWS_MAX: usize = 1 << 16;

#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Key {
    chain: String,
    verdict: Verdict,
    reason: Option<&'static str>,
    at: Option<String>,
    flow: String,
}

#[derive(Default)]
struct Counted {
    time_ns: u64,
    packets: u64,
    bytes: u64,
}

/// Log of one client.
pub struct Log {
    verdict: Option<Verdict>,
    flows: HashMap<Key, Counted>,
    next_ns: u64,
    budgets: [TokenBucket; 4],
    told: u64,
    missed: Missed,
    /// What was said of what is missing.
    said: Missed,
}

impl Log {
    /// Begins with nothing.
    pub fn new(wanted: &ObserveRequest) -> Self {
        Self {
            verdict: wanted.verdict,
            flows: HashMap::new(),
            next_ns: 0,
            budgets: std::array::from_fn(|_| TokenBucket::new(LINES_AT_ONCE, LINES_PER_SECOND)),
            told: 0,
            missed: Missed::default(),
            said: Missed::default(),
        }
    }

    fn line(&mut self, kind: usize, now_ns: u64, said: &Said, out: &mut Vec<u8>) {
        if self.budgets[kind].take(Instant(now_ns), 1) {
            self.told += 1;
            say(out, said);
        } else {
            self.missed.lines += 1;
        }
    }

    fn tell_flows(&mut self, now_ns: u64, out: &mut Vec<u8>) {
        let mut flows: Vec<(Key, Counted)> = self.flows.drain().collect();
        flows.sort_by(|one, other| one.1.time_ns.cmp(&other.1.time_ns).then_with(|| one.0.cmp(&other.0)));
        for (key, Counted { time_ns, packets, bytes }) in flows {
            let Key { chain, verdict, reason, at, flow } = key;
            let reason = reason.map(str::to_owned);
            let said = FlowEnds { time_ns, chain, verdict, reason, at, flow, packets, bytes };
            self.line(0, now_ns, &Said::Flow(said), out);
        }
    }

    fn tell_heard(&mut self, now_ns: u64, heard: &Heard, out: &mut Vec<u8>) {
        while let Some(event) = heard.events.take() {
            self.line(1, now_ns, &Said::Event(event), out);
        }
        while let Some(line) = heard.decisions.take() {
            let Ok(serde_json::Value::Object(entry)) = serde_json::to_value(&line.entry) else { continue };
            let step = entry.into_iter().next().map(|(_, step)| step).unwrap_or_default();
            let step = step.get("step").unwrap_or(&step);
            let action = step.get("did").unwrap_or(step).clone();
            let decision = DecisionTaken { at_ns: line.at.0, by: line.entry.to_string(), action };
            // Thousands in a second: they leave room for others.
            let kind = if matches!(line.entry, Entry::Slices { .. }) { 3 } else { 2 };
            self.line(kind, now_ns, &Said::Decision(decision), out);
        }
        while let Some(decision) = heard.taken.take() {
            self.line(2, now_ns, &Said::Decision(decision), out);
        }
    }

    /// Says what is missing since the last time.
    fn tell_missed(&mut self, out: &mut Vec<u8>) {
        let (now, said) = (self.missed, self.said);
        if now != said {
            let since = Missed {
                unseen_packets: now.unseen_packets.saturating_sub(said.unseen_packets),
                lost_packets: now.lost_packets.saturating_sub(said.lost_packets),
                lines: now.lines.saturating_sub(said.lines),
            };
            say(out, &Said::Missed(since));
            self.said = now;
        }
    }
}

impl Sink for Log {
    fn take(&mut self, told: &Told<'_>, _: &mut Vec<u8>) -> bool {
        let Told { record, frame, times, names, .. } = *told;
        let (verdict, reason) = match record.step {
            Step::Passed(Station::Emit) => (Verdict::Forward, None),
            Step::Ended(reason) => (Verdict::Drop, Some(reason.name())),
            _ => return true,
        };
        if self.verdict.is_some_and(|wanted| wanted != verdict) {
            return true;
        }
        let (chain, at) = (names.chain(record), names.at(record.at));
        let key = Key { chain, verdict, reason, at, flow: Headers::read(frame).to_string() };
        if self.flows.len() >= FLOWS_MAX && !self.flows.contains_key(&key) {
            self.missed.lines += 1;
            return true;
        }
        let counted = self.flows.entry(key).or_default();
        counted.time_ns = times.wall(record);
        counted.packets += 1;
        counted.bytes += u64::from(record.packet.length());
        true
    }

    fn tend(&mut self, times: &Times, _: &Names, session: &Session, out: &mut Vec<u8>) -> bool {
        let now_ns = times.now();
        if let Some(heard) = session.heard.as_ref().filter(|_| self.verdict.is_none()) {
            self.tell_heard(now_ns, heard, out);
        }
        if now_ns >= self.next_ns {
            self.next_ns = now_ns + FLOW_EVERY_NS;
            self.tell_flows(now_ns, out);
            let lines = self.missed.lines + session.heard.as_ref().map_or(0, Heard::take_lost);
            self.missed = Missed { lines, ..session.missed() };
            self.tell_missed(out);
        }
        true
    }

    fn finish(&mut self, times: &Times, _: &Names, missed: Missed, out: &mut Vec<u8>) -> u64 {
        self.tell_flows(times.now(), out);
        self.missed = Missed { lines: self.missed.lines, ..missed };
        self.tell_missed(out);
        self.told
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use headgate_host::clock::Clock;
    use headgate_path::drop::DropReason;
    use headgate_path::holders::{Entrance, Place};
    use headgate_path::trace::{At, Record};
    use headgate_shm::Descriptor;
    use headgate_units::{ChainId, RegionId, Ticks};

    fn ended(step: Step) -> Record {
        let place = Place::FREE.entering(Entrance::head(ChainId(1)));
        let (at, region, packet) = (At::Nowhere, RegionId(0), Descriptor::new(0, 128, 60, 0));
        Record { step, at, region, packet, place, time: Ticks(7), kept: 0 }
    }

    fn lines(out: &[u8]) -> Vec<Said> {
        let lines = out.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        lines.map(|line| serde_json::from_slice(line).unwrap()).collect()
    }

    #[test]
    fn packets_that_ended_alike_are_one_line_and_a_flood_of_flows_is_cut() {
        let (times, names) = (Times::new(Clock::calibrate()), Names::default());
        let mut log = Log::new(&ObserveRequest { verdict: Some(Verdict::Drop), ..ObserveRequest::default() });
        let mut out = Vec::new();
        let take = |log: &mut Log, step: Step, frame: &[u8]| {
            let record = ended(step);
            let told = Told { record: &record, frame, worker: 0, times: &times, names: &names };
            assert!(log.take(&told, &mut Vec::new()));
        };
        (0..5).for_each(|_| take(&mut log, Step::Ended(DropReason::Throttled), &[0; 60]));
        take(&mut log, Step::Passed(Station::Emit), &[0; 60]);
        log.tell_flows(0, &mut out);
        let [Said::Flow(flow)] = &lines(&out)[..] else { panic!("{:?}", lines(&out)) };
        assert_eq!((flow.packets, flow.bytes, flow.reason.as_deref()), (5, 300, Some("throttled")));
        for number in 0..1000u16 {
            let mut frame = [0; 60];
            frame[..2].copy_from_slice(&number.to_be_bytes());
            take(&mut log, Step::Ended(DropReason::NoRule), &frame);
        }
        out.clear();
        let missed = Missed { unseen_packets: 3, lost_packets: 1, lines: 0 };
        // The line before counts, too.
        assert_eq!(log.finish(&times, &names, missed, &mut out), LINES_AT_ONCE + 1);
        let told = lines(&out);
        let expected = Missed { lines: 1000 - LINES_AT_ONCE, ..missed };
        assert_eq!(told.last(), Some(&Said::Missed(expected)));
    }
}
