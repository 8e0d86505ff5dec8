//! NF instance: its seat among the others, its life, and the process it has now.

use std::os::fd::{AsFd, BorrowedFd};

use headgate_api::told::Outcome;
use headgate_decide::decision::Decision;
use headgate_decide::lifecycle::{Lifecycle, Rules, STOP_PATIENCE, Sample, State};
use headgate_decide::liveness::{Limits, Liveness};
use headgate_decide::record::Entry;
use headgate_decide::restart::Policy;
use headgate_decide::spare::{self, Spare};
use headgate_decide::units::{InstanceId, Instant as Moment, NfId, Span, WorkerId};
use headgate_host::Pid;
use headgate_host::cgroup::NfGroup;
use headgate_host::process;
use headgate_host::programs::ProgramVersion;
use headgate_path::worker::Promotion;
use headgate_session::inbox::{Inbox, Received};
use headgate_session::message::ToNf;
use headgate_session::version::Versions;

use super::link::{self, Link, LinkStatus};
use super::origin::{self, Origin};
use super::state::StateHome;
use crate::config::model::{Nf, Restart as Configured};
use crate::output::Tap;
use crate::record::{Recorded, Recorder};
use crate::status::{IoStatus, RefusedArgument};

/// Seat of an instance: facts that stay the same for as long as it exists.
pub struct Seat {
    /// Its number on the packet path.
    pub number: InstanceId,
    /// Its stage's number.
    pub stage: NfId,
    /// Its name: `fw`, or `fw.2`.
    pub name: String,
    /// Its core.
    pub core: u32,
    /// Its worker.
    pub worker: WorkerId,
    /// Its NF's part of the configuration.
    pub nf: Nf,
}

impl Seat {
    /// Returns the rules of its life.
    pub const fn rules(&self) -> Rules {
        Rules {
            attaches: self.nf.attaches(),
            greets: link::greets(&self.nf),
            stands_by: self.nf.has_standby(),
            start_patience: link::start_patience(&self.nf),
            stop_patience: STOP_PATIENCE,
            restart: self.restart(),
        }
    }

    /// Returns the rules of its spare.
    fn spare_rules(&self) -> spare::Rules {
        let keeps = origin::can_wait(&self.nf) && link::early_program(&self.nf).is_some();
        spare::Rules { keeps, stands_by: self.nf.has_standby(), restart: self.restart() }
    }

    const fn restart(&self) -> Policy {
        let Configured { first_ns, longest_ns } = self.nf.restart;
        // Twice the longest pause, so that a loop of failures cannot look settled.
        Policy { first: Span(first_ns), longest: Span(longest_ns), settled: Span(longest_ns * 2) }
    }
}

/// Process of an instance, and all that goes with it.
pub struct Process {
    /// Origin: launched, attached or in a container.
    pub origin: Origin,
    /// Link by which packets reach it.
    pub link: Link,
    /// The control group that holds it and whatever it starts.
    pub group: NfGroup,
    /// Our end of its socket.
    pub inbox: Inbox,
    /// Its output, if we started it; held until it is gone.
    pub _tap: Option<Tap>,
    /// CPU time it had used when it was sampled last, in nanoseconds.
    pub cpu_seen_ns: u64,
    /// Time that it had waited for a core when it became the process of its instance, in nanoseconds.
    pub waited_before_ns: u64,
    /// Threads it had when they were counted last.
    pub threads_seen: Vec<Pid>,
    /// Whether its library answers messages.
    pub answers: bool,
    /// Whether it goes on with another state's region when it is given one.
    pub replaces: bool,
    /// Its goodbye message; empty when there is none.
    pub goodbye: String,
    /// Arguments that it said to refuse.
    pub refused: Vec<RefusedArgument>,
    /// Time when its end was noticed.
    pub ended: Option<Moment>,
}

impl Process {
    /// Returns a process that has sent nothing yet.
    pub fn new(origin: Origin, link: Link, inbox: Inbox, group: NfGroup) -> Self {
        let waited = origin.pid().and_then(|pid| process::waiting_ns(pid).ok());
        Self {
            waited_before_ns: waited.unwrap_or(0),
            origin,
            link,
            group,
            inbox,
            _tap: None,
            cpu_seen_ns: 0,
            threads_seen: Vec::new(),
            answers: false,
            replaces: false,
            goodbye: String::new(),
            refused: Vec::new(),
            ended: None,
        }
    }

    /// Returns a process that we started, with its link.
    pub fn started(process: SpareProcess, link: Link) -> Self {
        let SpareProcess { origin, group, inbox, tap, .. } = process;
        Self { _tap: Some(tap), ..Self::new(origin, link, inbox, group) }
    }

    /// Observes what keeps it from being ready.
    pub fn lateness(&self) -> Sample {
        Sample { lacks: self.link.lacks(), ..lateness_of(&self.origin, self.waited_before_ns) }
    }

    /// Returns whether its messages are read.
    pub const fn is_heard(&self) -> bool {
        !self.inbox.is_closed() && self.origin.is_heard()
    }

    /// Agrees with it on a version of the interface, or tells it why there is none.
    ///
    /// # Errors
    /// The same sentence.
    pub fn agree(&mut self, theirs: Versions) -> Result<(), String> {
        self.inbox.agree(theirs).inspect_err(|reason| {
            self.inbox.send(&ToNf::Refused { reason: reason.clone() }, &[]).unwrap_or_default();
        })
    }

    /// Notes what it says of itself when it is ready.
    pub fn note_ready(&mut self, lend: u32, takes_long: bool, answers: bool) {
        self.link.lend(lend);
        self.link.note_long(takes_long);
        self.answers = answers;
    }

    /// Sends it a message. A process that does not read its socket misses it; its end is noticed elsewhere.
    pub fn say(&self, message: &ToNf) -> bool {
        self.inbox.send(message, &[]).is_ok()
    }

    /// Returns its next message, if there is one and it is within its message budget.
    pub fn hear(&mut self, now: Moment) -> Option<Received> {
        if self.is_heard() { self.inbox.receive(now) } else { None }
    }
}

/// Process that waits in its place to become an instance's next one, or that is no longer needed.
pub struct SpareProcess {
    /// Origin: always one that we started.
    pub origin: Origin,
    /// The control group that it waits in.
    pub group: NfGroup,
    /// Our end of its socket.
    pub inbox: Inbox,
    /// Its output.
    pub tap: Tap,
    /// The reason that it gave for its end; empty when none.
    pub goodbye: String,
}

/// Process that becomes the standby of an instance, or is it.
pub struct StandbyProcess {
    /// The process.
    pub spare: SpareProcess,
    /// Its own link, by which packets will reach it.
    pub link: Link,
    /// Names of its counters.
    pub counters: Vec<String>,
    /// Whether its library answers messages.
    pub answers: bool,
    /// Whether it goes on with another state's region when it is given one.
    pub replaces: bool,
    /// Whether its worker was told of it.
    pub posted: bool,
    /// Whether it has ended, and its worker was told to forget it.
    pub dismissed: bool,
}

impl StandbyProcess {
    /// Returns a process that was told to go.
    pub const fn new(spare: SpareProcess, link: Link) -> Self {
        Self {
            spare,
            link,
            counters: Vec::new(),
            answers: false,
            replaces: false,
            posted: false,
            dismissed: false,
        }
    }
}

/// Totals of an instance's earlier processes, which the next one does not know.
#[derive(Default)]
pub struct Before {
    /// CPU time, in nanoseconds.
    pub cpu_ns: u64,
    /// Counters of interfaces of the kernel.
    pub io: IoStatus,
}

/// One NF instance.
pub struct Instance {
    /// Its place.
    pub seat: Seat,
    /// Whether an operator had it finish its packets and stop; its place stays, for a restart.
    pub drained: bool,
    /// State, and what happens next.
    pub life: Recorded<Lifecycle>,
    /// Judgement whether it still works.
    pub liveness: Recorded<Liveness>,
    /// Its process, from its start until all buffers that it held are back.
    pub process: Option<Process>,
    /// Decision about its spare.
    pub spare: Recorded<Spare>,
    /// Its spare: never counted as a process of it.
    pub spare_process: Option<SpareProcess>,
    /// Its standby: that process once it is more than a spare.
    pub standby: Option<StandbyProcess>,
    /// Takeover of its standby that its worker has told of, until the end of the process before is noticed.
    pub promotion: Option<Promotion>,
    /// Number of times that a standby took over.
    pub takeovers: u64,
    /// Time that the last takeover took, from the moment at which a worker saw the death, in nanoseconds.
    pub takeover_ns: Option<u64>,
    /// Totals of earlier processes.
    pub before: Before,
    /// State that it keeps over its processes, if it does.
    pub state: Option<StateHome>,
    /// Reason of its last failure.
    pub last_failure: Option<String>,
    /// Arguments that its last process refused.
    pub refused: Vec<RefusedArgument>,
    /// File of its program, as it was before its last process was started.
    pub program: Option<ProgramVersion>,
    /// Names of its counters.
    pub counters: Vec<String>,
    /// Last message it sent.
    pub message: Option<String>,
}

/// Observes what a process waited for, of which it had waited so long for its core before.
fn lateness_of(origin: &Origin, waited_before_ns: u64) -> Sample {
    let Some(seen) = origin.pid().and_then(|pid| process::observe(pid).ok()) else {
        return Sample::default();
    };
    let waited = Span(seen.waiting_ns.saturating_sub(waited_before_ns));
    Sample { waited, in_kernel: seen.state == 'D', ..Sample::default() }
}

impl Instance {
    /// Observes what keeps its standby from taking over.
    pub fn lateness_of_standby(&self) -> Sample {
        let standby = self.standby.as_ref().map(|standby| &standby.spare);
        let process = standby.or(self.spare_process.as_ref());
        process.map_or_else(Sample::default, |process| lateness_of(&process.origin, 0))
    }

    /// Returns whether a process of it can wait in its place before it is needed.
    pub fn may_have_spare(&self) -> bool {
        self.seat.spare_rules().keeps
    }

    /// Returns an instance to which nothing has happened.
    pub fn new(seat: Seat, recorder: &Recorder) -> Self {
        let instance = seat.number;
        let (now, rules, limits) = (Moment::default(), seat.rules(), Limits::default());
        let life = move |step| Entry::Lifecycle { instance, step };
        let liveness = move |step| Entry::Liveness { instance, step };
        let spare = move |step| Entry::Spare { instance, step };
        Self {
            life: Recorded::new(recorder, now, rules, life),
            spare: Recorded::new(recorder, now, seat.spare_rules(), spare),
            spare_process: None,
            standby: None,
            promotion: None,
            takeovers: 0,
            takeover_ns: None,
            state: seat.nf.state.map(StateHome::new),
            seat,
            drained: false,
            liveness: Recorded::new(recorder, now, limits, liveness),
            process: None,
            before: Before::default(),
            last_failure: None,
            refused: Vec::new(),
            program: None,
            counters: Vec::new(),
            message: None,
        }
    }

    /// Makes what it answered its last message.
    pub fn note_answer(&mut self, outcome: &Outcome) {
        if let Outcome::Answered(said) = outcome
            && !said.is_empty()
        {
            self.message = Some(said.clone());
        }
    }

    /// Returns its state.
    pub fn state(&self) -> State {
        self.life.state()
    }

    /// Returns whether it will never run again.
    pub fn is_gone(&self) -> bool {
        self.life.is_gone()
    }

    /// Returns whether it has a process that works.
    pub fn is_at_work(&self) -> bool {
        matches!(self.life.state(), State::Running | State::Stopping) && self.process.is_some()
    }

    /// Returns its process id, if it has a process.
    pub fn pid(&self) -> Option<Pid> {
        self.process.as_ref().and_then(|process| process.origin.pid())
    }

    /// Returns the process id of its spare or standby, if it has one.
    pub fn spare_pid(&self) -> Option<Pid> {
        let standby = self.standby.as_ref().map(|standby| &standby.spare);
        self.spare_process.as_ref().or(standby).and_then(|spare| spare.origin.pid())
    }

    /// Returns the descriptors to wait for: its socket and its end, and those of its spare.
    pub fn ears(&self, now: Moment) -> impl Iterator<Item = BorrowedFd<'_>> {
        let process = self.process.as_ref();
        let heard = process.filter(|process| process.origin.is_heard());
        let socket = heard.and_then(|process| process.inbox.ears(now));
        let lives = self.life.has_process();
        let end = process.filter(|one| lives && one.ended.is_none()).map(|process| process.origin.as_fd());
        let standby = self.standby.as_ref().filter(|standby| !standby.dismissed);
        let spare = self.spare_process.as_ref().or_else(|| standby.map(|standby| &standby.spare));
        let spare_socket = spare.and_then(|spare| spare.inbox.ears(now));
        socket.into_iter().chain(end).chain(spare_socket).chain(spare.map(|spare| spare.origin.as_fd()))
    }

    /// Returns the time that its process waited for its core, in nanoseconds.
    pub fn core_wait_ns(&self) -> Option<u64> {
        process::waiting_ns(self.pid()?).ok()
    }

    /// Returns CPU time over all its processes, in nanoseconds.
    pub fn cpu_ns(&self) -> u64 {
        let now = self.pid().and_then(|pid| process::cpu_time_ns(pid).ok());
        self.before.cpu_ns + now.unwrap_or(0)
    }

    /// Returns when its life or its spare is due, or when its messages may be read again.
    pub fn poll_at(&self) -> Option<Moment> {
        let inbox = self.process.as_ref().and_then(|process| process.inbox.poll_at());
        let standby = self.standby.as_ref().and_then(|standby| standby.spare.inbox.poll_at());
        let inbox = inbox.into_iter().chain(standby);
        self.life.poll_at().into_iter().chain(inbox).chain(self.spare.poll_at()).min()
    }

    /// Returns the status of its link.
    pub fn link_status(&self) -> LinkStatus {
        let link = self.process.as_ref().map(|process| &process.link);
        link::status(&self.seat.nf, &self.before.io, link)
    }
}
