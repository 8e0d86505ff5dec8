//! Watchers of packets: a tap on each worker for every client that asked for a stream ([`crate::watch`]).

use std::collections::BTreeMap;
use std::sync::Arc;

use headgate_api::watch::{
    CaptureRequest, DecisionTaken, EndReason, Filter, ObserveRequest, TRACE_PACKETS_MAX, TraceRequest,
    Verdict,
};
use headgate_config::suggest;
use headgate_decide::units::{ChainId, NfId};
use headgate_path::board::Station;
use headgate_path::trace::bpf::{Filter as Program, Instruction};
use headgate_path::trace::{InstanceSet, KEPT_BYTES_MAX, Picks, RecordReader, Steps, Tap, Wanted, ring};
use headgate_path::worker::Command;
use serde_json::Value as Json;

use super::Control;
use crate::api::{Request, RequestError};
use crate::watch::{Heard, Names, Session, Shared, Teller, queue, station, trace_bytes};

/// Most watchers at the same time. Our choice: a few people and programs; each has [`RING_WORDS`] for each
/// worker.
const WATCHERS_MAX: usize = 8;
/// Words of a ring: 2 MiB. Our choice: what a worker copies within its budget in some 20 ms, twice as long as
/// a ring waits to be drained, and a dozen of the longest frames.
const RING_WORDS: usize = 1 << 18;
/// Bytes of a frame from which its flow is told.
const FLOW_BYTES: u32 = 128;
/// Decisions that may wait for a client's thread. Our choice: of each instance of a large machine, for some
/// passes.
const TAKEN_WAITING_MAX: usize = 1 << 10;

/// A watcher, as the control loop knows it.
struct Watcher {
    number: u32,
    chain: Option<(ChainId, String)>,
    stage: Option<(NfId, Arc<InstanceSet>)>,
    /// Where decisions go that are not recorded, if they are wanted.
    taken: Option<Teller<DecisionTaken>>,
    shared: Arc<Shared>,
}

/// All watchers.
#[derive(Default)]
pub struct Watchers {
    all: Vec<Watcher>,
    last: u32,
    /// The number of plans that were published when the watchers' names were made.
    named_at: u64,
    /// Instances that were throttled when they were last sampled, with how often they ever were.
    throttled: BTreeMap<u16, (bool, u64)>,
}

impl Watchers {
    /// Returns whether somebody wants to hear of decisions.
    pub(super) fn hear_decisions(&self) -> bool {
        self.all.iter().any(|watcher| watcher.taken.is_some())
    }
}

/// What a request wants of every worker.
struct Choice {
    steps: Steps,
    chain: Option<(ChainId, String)>,
    stage: Option<(NfId, Arc<InstanceSet>)>,
    filter: Option<Program<Box<[Instruction]>>>,
    bytes: u32,
    picks: Option<Arc<Picks>>,
    hears: bool,
}

impl Control {
    /// Begins a stream: taps the workers.
    pub(super) fn begin_watch(&mut self, request: &Request) -> Result<Session, RequestError> {
        if self.watchers.all.len() >= WATCHERS_MAX {
            return Err(RequestError::failed(format!(
                "{WATCHERS_MAX} captures, traces and logs run already, the most there can be; end one and ask again"
            )));
        }
        let choice = match request {
            Request::Capture(wanted) => self.choose_capture(wanted)?,
            Request::Trace(wanted) => self.choose_trace(wanted)?,
            Request::Observe(wanted) => self.choose_observe(wanted)?,
            _ => return Err(RequestError { code: 2, message: "this is no stream".to_owned() }),
        };
        self.watchers.last = self.watchers.last.wrapping_add(1);
        let number = self.watchers.last;
        let readers = (0..self.fabric.workers.len()).map(|worker| self.tap(worker, number, &choice));
        let readers: Vec<RecordReader> = readers.collect();
        let shared = Arc::new(Shared::default());
        shared.rename(Arc::new(self.watch_names()));
        let (taken, heard) = choice.hears.then(|| self.listen()).unzip();
        let stations = self.stations_of(&choice);
        let Choice { chain, stage, picks, .. } = choice;
        self.watchers.all.push(Watcher { number, chain, stage, taken, shared: shared.clone() });
        Ok(Session { readers, picks, heard, shared, clock: self.fabric.clock, stations })
    }

    /// Begins to tell events and decisions.
    fn listen(&mut self) -> (Teller<DecisionTaken>, Heard) {
        let (teller, taken) = queue(TAKEN_WAITING_MAX);
        let decisions = self.settings.recorder.observe();
        (teller, Heard { events: self.events.listen(), decisions, taken })
    }

    /// Taps a worker.
    fn tap(&self, worker: usize, number: u32, choice: &Choice) -> RecordReader {
        let (writer, reader) = ring(RING_WORDS);
        let wanted = Wanted {
            steps: choice.steps,
            chain: choice.chain.as_ref().map(|(chain, _)| *chain),
            instances: choice.stage.as_ref().map(|(_, set)| set.clone()),
            filter: choice.filter.clone(),
            bytes: choice.bytes,
            picks: choice.picks.clone(),
        };
        let tap = Box::new(Tap::new(wanted, writer));
        self.fabric.post(headgate_decide::units::WorkerId(worker as u8), Command::Tap { number, tap });
        reader
    }

    fn choose_capture(&self, wanted: &CaptureRequest) -> Result<Choice, RequestError> {
        let chain = self.watched_chain(wanted.chain.as_deref())?;
        let stage = match (&chain, &wanted.stage) {
            (_, None) => None,
            (Some((number, name)), Some(nf)) => Some(self.watched_stage(*number, name, nf)?),
            (None, Some(_)) => {
                return Err(RequestError {
                    code: 2,
                    message: "a stage is one of a chain: name it too".to_owned(),
                });
            }
        };
        if wanted.snap_bytes == 0 || wanted.packets == Some(0) {
            let message =
                "a capture of no bytes or no packets has nothing in it; ask for 1 or more".to_owned();
            return Err(RequestError { code: 2, message });
        }
        Ok(Choice {
            steps: if chain.is_some() { Steps::OF_CHAIN } else { Steps::WHOLE },
            chain,
            stage,
            filter: program(wanted.filter.as_ref())?,
            bytes: wanted.snap_bytes.min(KEPT_BYTES_MAX as u32),
            picks: None,
            hears: false,
        })
    }

    fn choose_trace(&self, wanted: &TraceRequest) -> Result<Choice, RequestError> {
        if !(1..=TRACE_PACKETS_MAX).contains(&wanted.packets) {
            let message = format!("{} packets: a trace is of 1 to {TRACE_PACKETS_MAX}", wanted.packets);
            return Err(RequestError { code: 2, message });
        }
        let indices = self.fabric.regions.iter().map(|home| home.region.geometry().indices());
        Ok(Choice {
            steps: Steps::ALL,
            chain: self.watched_chain(wanted.chain.as_deref())?,
            stage: None,
            filter: program(wanted.filter.as_ref())?,
            bytes: trace_bytes(),
            picks: Some(Picks::new(indices, wanted.packets)),
            hears: false,
        })
    }

    fn choose_observe(&self, wanted: &ObserveRequest) -> Result<Choice, RequestError> {
        Ok(Choice {
            steps: if wanted.verdict == Some(Verdict::Drop) { Steps::DROPS } else { Steps::ENDS },
            chain: self.watched_chain(wanted.chain.as_deref())?,
            stage: None,
            filter: program(wanted.filter.as_ref())?,
            bytes: FLOW_BYTES,
            picks: None,
            hears: wanted.verdict.is_none(),
        })
    }

    fn watched_chain(&self, name: Option<&str>) -> Result<Option<(ChainId, String)>, RequestError> {
        let Some(name) = name else { return Ok(None) };
        if name == self.chain_name(0) {
            return Ok(Some((ChainId(0), name.to_owned())));
        }
        if let Some(number) = self.numbers.chains.get(name) {
            return Ok(Some((ChainId(*number), name.to_owned())));
        }
        let known = self.config.chains.iter().map(|chain| chain.name.as_str());
        let why = match self.config.chains.iter().any(|chain| chain.name == name) {
            true => {
                "its packets are on interfaces of the kernel and do not pass the manager: use tcpdump there"
                    .to_owned()
            }
            false => suggest::help("chains", name, known),
        };
        Err(RequestError::failed(format!("there is no chain {name:?} to watch; {why}")))
    }

    fn watched_stage(
        &self,
        chain: ChainId,
        chain_name: &str,
        nf: &str,
    ) -> Result<(NfId, Arc<InstanceSet>), RequestError> {
        let names = self.fabric.stage_names();
        let stages = self.fabric.parts.chains[chain.index()].as_ref().map_or(&[][..], |chain| &chain.stages);
        let name = |stage: &NfId| names[stage.index()].as_str();
        let Some(stage) = stages.iter().find(|stage| name(stage) == nf) else {
            let help = suggest::help("stages", nf, stages.iter().map(name));
            return Err(RequestError::failed(format!("chain {chain_name:?} has no stage {nf:?}; {help}")));
        };
        let set = Arc::new(InstanceSet::default());
        set.replace(self.instances_of(*stage));
        Ok((*stage, set))
    }

    fn instances_of(&self, stage: NfId) -> impl Iterator<Item = headgate_decide::units::InstanceId> + '_ {
        self.instances.iter().filter(move |one| one.seat.stage == stage).map(|one| one.seat.number)
    }

    /// Returns the stations of a named chain, in their order.
    fn stations_of(&self, choice: &Choice) -> Vec<String> {
        let Some((number, name)) = &choice.chain else { return Vec::new() };
        let Some(Some(chain)) = self.fabric.parts.chains.get(number.index()) else { return Vec::new() };
        let mut stations = Vec::new();
        if choice.stage.is_none() {
            stations.push(station(name, None, Station::Admit.name()));
        }
        for stage in &chain.stages {
            if choice.stage.as_ref().is_some_and(|(only, _)| only != stage) {
                continue;
            }
            for one in self.instances.iter().filter(|one| one.seat.stage == *stage) {
                for passed in [Station::Deliver, Station::Hop] {
                    stations.push(station(name, Some(&one.seat.name), passed.name()));
                }
            }
        }
        stations
    }

    fn watch_names(&self) -> Names {
        let mut instances: Vec<String> = Vec::new();
        for one in self.instances.iter() {
            let at = one.seat.number.index();
            instances.resize(instances.len().max(at + 1), String::new());
            instances[at].clone_from(&one.seat.name);
        }
        Names {
            chains: (0..self.fabric.parts.chains.len()).map(|chain| self.chain_name(chain)).collect(),
            instances,
            stages: self.fabric.stage_names(),
            ports: self.config.ports.iter().map(|port| port.name.clone()).collect(),
        }
    }

    /// Takes away the taps of those that watch no more, tells the others of a change, and ends those whose
    /// chain or stage is gone.
    pub(super) fn tend_watchers(&mut self) {
        let fabric = &self.fabric;
        self.watchers.all.retain(|watcher| {
            let is_open = !watcher.shared.is_closed();
            if !is_open {
                fabric.post_all(|| Command::Untap { number: watcher.number });
            }
            is_open
        });
        self.tell_pressure();
        let published = self.fabric.published;
        if self.watchers.all.is_empty() || self.watchers.named_at == published {
            return;
        }
        self.watchers.named_at = published;
        let names = Arc::new(self.watch_names());
        for watcher in &self.watchers.all {
            watcher.shared.rename(names.clone());
            if !self.is_there(watcher) {
                watcher.shared.end(EndReason::Removed);
            }
            if let Some((stage, set)) = &watcher.stage {
                set.replace(self.instances_of(*stage));
            }
        }
    }

    /// Tells who is throttled, and who no longer is. Sampled: one that was for less than a pass shows by its
    /// count.
    fn tell_pressure(&mut self) {
        if !self.watchers.hear_decisions() {
            return self.watchers.throttled.clear();
        }
        let mut told = Vec::new();
        for one in self.instances.iter().filter(|one| !one.is_gone()) {
            let number = one.seat.number;
            let counts = &self.fabric.workers[one.seat.worker.index()].board.instances[number.index()];
            let now = (self.fabric.signals.pressure.is_throttled(number), counts.throttles.get());
            let before = self.watchers.throttled.insert(number.0, now).unwrap_or((false, now.1));
            if now != before {
                let action = serde_json::json!({
                    "instance": one.seat.name,
                    "throttled": now.0,
                    "throttles": now.1,
                    "held": counts.held.get(),
                    "pending": counts.pending.get(),
                    "ring": one.seat.nf.ring,
                });
                told.push(action);
            }
        }
        told.into_iter().for_each(|action| self.tell_decision("backpressure", action));
    }

    /// Tells who listens of a decision that is not recorded ([`crate::record`]): it is taken by a worker, or
    /// with more than its record would hold.
    pub(super) fn tell_decision(&self, by: &str, action: Json) {
        let decision = DecisionTaken { at_ns: self.now().0, by: by.to_owned(), action };
        for taken in self.watchers.all.iter().filter_map(|watcher| watcher.taken.as_ref()) {
            taken.tell(decision.clone());
        }
    }

    /// Returns whether what is watched is in force.
    fn is_there(&self, watcher: &Watcher) -> bool {
        let Some((number, name)) = &watcher.chain else { return true };
        let chain = self.fabric.parts.chains.get(number.index()).and_then(Option::as_ref);
        number.index() == 0
            || chain.is_some_and(|chain| {
                let has_stage = watcher.stage.as_ref().is_none_or(|(stage, _)| chain.stages.contains(stage));
                chain.name == *name && has_stage
            })
    }

    /// Ends all streams, because the manager ends.
    pub(super) fn end_watchers(&self) {
        self.watchers.all.iter().for_each(|watcher| watcher.shared.end(EndReason::ManagerStops));
    }
}

/// A stream was asked for where answers are of one line.
pub fn needs_a_stream() -> RequestError {
    RequestError { code: 2, message: "this is a stream: ask by the manager's socket".to_owned() }
}

/// Checks a filter that a client sent.
fn program(filter: Option<&Filter>) -> Result<Option<Program<Box<[Instruction]>>>, RequestError> {
    let Some(filter) = filter else { return Ok(None) };
    let one = |&(code, if_true, if_false, operand): &(u16, u8, u8, u32)| Instruction {
        code,
        if_true,
        if_false,
        operand,
    };
    let checked = Program::new(filter.program.iter().map(one).collect());
    let refused = |error| RequestError {
        code: 2,
        message: format!("the program of filter {:?} is refused: {error}", filter.text),
    };
    checked.map(Some).map_err(refused)
}
