//! One core whose NFs get turns: what their rings show, and who of them may run.
//!
//! All of them are `SCHED_FIFO`: one at [`RUNNING`], the others at [`WAITING`], so the core is the first one's
//! until the two priorities change. A fair NF would have its part of the core whatever is decided here: the
//! kernel keeps a twentieth of it for fair tasks that wait.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use headgate_decide::turn::objective::Objective;
use headgate_decide::turn::{Action, Core, Estimate, Member, Origin, Rules, Seen};
use headgate_decide::units::Instant as Moment;
use headgate_host::Pid;
use headgate_host::sched::{self, Policy, SchedError};
use headgate_memif::Watch;
use headgate_path::board::Board;
use headgate_shm::ManagerSide;

/// Priorities among real-time tasks (1 to 99). Our choice: the lowest, since whatever an operator made
/// real-time has a reason to go before.
const WAITING: u8 = 1;
const RUNNING: u8 = 2;
/// That of the scheduler of a core, which must take the core from whoever runs.
pub const SCHEDULER: u8 = 3;

/// What one incarnation of an NF has had, written by the scheduler.
#[derive(Debug, Default)]
pub struct TurnAccount {
    /// Turns.
    pub turns: AtomicU64,
    /// What a packet is thought to cost, in picoseconds; 0 before that is known.
    pub cost_ps: AtomicU64,
    /// Whether that is from its turns, and not from an earlier measurement.
    pub learnt: AtomicBool,
    /// It has something to do besides packets. Set by the control loop, which also takes it back when that is to
    /// last; else the turn does.
    pub errand: AtomicBool,
    /// It starts or stops: it has an errand until it is done.
    pub lasting: AtomicBool,
}

/// An NF of a core.
#[derive(Clone)]
pub struct Runner {
    /// Its process.
    pub pid: Pid,
    /// The threads that have turns. An NF of our library has one, its process's first; what a black box starts
    /// is part of it.
    pub threads: Vec<Pid>,
    /// The policy it has while it is given no turns.
    pub own: Policy,
    /// Its queues.
    pub queues: Queues,
    /// Those of who comes next in its chains.
    pub next: Vec<Queues>,
    /// What it has had.
    pub account: Arc<TurnAccount>,
    /// What a packet costs it by an earlier measurement, in nanoseconds.
    pub measured_ns: Option<f64>,
}

/// Where the queues of an NF can be seen.
#[derive(Clone)]
pub enum Queues {
    /// The rings that it shares with us.
    Shared(Arc<ManagerSide>),
    /// A black box's.
    Box {
        /// Its number.
        number: u16,
        /// What its worker has counted.
        board: Arc<Board>,
        /// Its connections, if they show their rings: that which it gets packets by, and the other.
        memif: Option<[Watch; 2]>,
        /// Places of a ring of interfaces that show none.
        ring: u32,
    },
}

impl Queues {
    /// Packets that may wait for it.
    fn ring(&self) -> u32 {
        match self {
            Self::Shared(side) => side.layout().ring(),
            Self::Box { memif: Some([into, _]), .. } => into.ring(),
            Self::Box { ring, .. } => *ring,
        }
    }

    /// Packets that wait for it. Of interfaces that show nothing: all that are outstanding, also those that it
    /// has dropped lately.
    fn waiting(&self) -> u32 {
        match self {
            Self::Shared(side) => side.backlog(),
            Self::Box { memif: Some([into, _]), .. } => into.waiting(),
            Self::Box { number, board, .. } => {
                board.instances[*number as usize].held.get().min(u64::from(u32::MAX)) as u32
            }
        }
    }

    /// Packets that it has worked on and its worker has not moved yet.
    fn returning(&self) -> u32 {
        match self {
            Self::Shared(side) => side.returning(),
            Self::Box { memif: Some([_, out]), .. } => out.returning(),
            Self::Box { .. } => 0,
        }
    }

    /// Packets that it has taken and not returned. What a box has in its hands is not seen.
    fn in_hand(&self) -> u32 {
        match self {
            Self::Shared(side) => side.in_hand(),
            Self::Box { .. } => 0,
        }
    }

    /// Packets that it has taken, ever; wraps.
    fn taken(&self) -> u32 {
        match self {
            Self::Shared(side) => side.taken(),
            // What was given before the box has offered its first buffer is none.
            Self::Box { number, board, .. } => {
                (board.instances[*number as usize].delivered.get() as u32).wrapping_sub(self.waiting())
            }
        }
    }
}

impl Runner {
    /// Packets that the ring behind it holds: the largest, as one open way is enough.
    fn capacity(&self) -> u32 {
        self.next.iter().map(Queues::ring).max().unwrap_or_else(|| self.queues.ring())
    }

    fn first_estimate(&self) -> Estimate {
        self.measured_ns.map_or_else(Estimate::default, Estimate::measured)
    }

    /// What its rings show. What the worker has not moved yet lies behind it too, and what the next NF has
    /// returned counts against the packets that one may hold.
    fn seen(&self) -> Seen {
        let emptiest = self.next.iter().map(|next| next.waiting() + next.returning()).min().unwrap_or(0);
        let account = &self.account;
        Seen {
            waiting: self.queues.waiting(),
            behind: self.queues.returning() + emptiest,
            taken: self.queues.taken(),
            in_hand: self.queues.in_hand(),
            errand: account.errand.load(Ordering::Relaxed) || account.lasting.load(Ordering::Relaxed),
        }
    }
}

/// What a core has done, written by its scheduler.
#[derive(Debug, Default)]
pub struct Tally {
    /// Looks at the rings.
    pub looks: AtomicU64,
    /// Times another NF was given the core.
    pub switches: AtomicU64,
    /// Times nobody went before the rest of the machine any more.
    pub rests: AtomicU64,
    /// Time in which some NF went before the rest of the machine, in nanoseconds.
    pub raised_ns: AtomicU64,
}

/// How an NF stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    Own,
    Waits,
    Runs,
    /// Its process is gone, or not ours to schedule.
    Gone,
}

/// A core. Dropping it gives its NFs their own policies back.
pub struct Floor {
    runners: Vec<Runner>,
    standing: Vec<Standing>,
    decide: Core,
    seen: Vec<Seen>,
    tally: Arc<Tally>,
    /// When it was looked at last, if some NF went before the rest of the machine from then on.
    raised: Option<Moment>,
    /// Why an NF could not be raised.
    refused: Option<SchedError>,
}

impl Floor {
    /// A core with these NFs, in their order, and what is asked of their chains. What `before` knew of the same NFs is kept.
    pub fn new(
        rules: Rules,
        runners: Vec<Runner>,
        objectives: Vec<Objective>,
        tally: Arc<Tally>,
        before: Option<&Self>,
    ) -> Self {
        let estimate = |runner: &Runner| before.and_then(|before| before.estimate(runner.pid));
        let member = |runner: &Runner| Member {
            ring: runner.queues.ring(),
            capacity: runner.capacity(),
            estimate: estimate(runner).unwrap_or_else(|| runner.first_estimate()),
        };
        let new = Self {
            decide: Core::new(rules, runners.iter().map(member), objectives),
            standing: vec![Standing::Own; runners.len()],
            seen: vec![Seen::default(); runners.len()],
            runners,
            tally,
            raised: None,
            refused: None,
        };
        (0..new.runners.len()).for_each(|nf| new.tell_cost(nf));
        new
    }

    fn tell_cost(&self, nf: usize) {
        let Some(known) = self.decide.estimate(nf).filter(Estimate::is_known) else { return };
        let account = &self.runners[nf].account;
        account.learnt.store(known.origin() == Origin::Learnt, Ordering::Relaxed);
        account.cost_ps.store((known.ns() * 1000.0) as u64, Ordering::Relaxed);
    }

    fn estimate(&self, pid: Pid) -> Option<Estimate> {
        let at = self.runners.iter().position(|runner| runner.pid == pid)?;
        self.decide.estimate(at)
    }

    /// Looks at the rings, decides, and does what was decided. When to look again.
    pub fn look(&mut self, now: Moment) -> Moment {
        for (seen, (runner, standing)) in self.seen.iter_mut().zip(self.runners.iter().zip(&self.standing)) {
            // Who is gone has nothing to do, and its rings say nothing.
            *seen = if *standing == Standing::Gone { Seen::default() } else { runner.seen() };
        }
        let action = self.decide.poll(now, &self.seen);
        add(&self.tally.looks);
        if let Some(since) = self.raised.take() {
            let raised = &self.tally.raised_ns;
            raised.store(raised.load(Ordering::Relaxed) + (now - since).0, Ordering::Relaxed);
        }
        self.raised = (!matches!(action, Action::Rest { .. })).then_some(now);
        match action {
            Action::Run { nf, .. } => self.run(nf, true),
            Action::Idle { nf, .. } => self.run(nf, false),
            Action::Rest { .. } => self.rest(),
        }
        self.decide.poll_at()
    }

    /// Gives the core to one NF.
    fn run(&mut self, nf: usize, works: bool) {
        if matches!(self.standing[nf], Standing::Runs | Standing::Gone) {
            return;
        }
        for at in 0..self.runners.len() {
            if at != nf && matches!(self.standing[at], Standing::Own | Standing::Runs) {
                self.set(at, Standing::Waits);
            }
        }
        self.set(nf, Standing::Runs);
        add(&self.tally.switches);
        if works {
            let account = &self.runners[nf].account;
            add(&account.turns);
            account.errand.store(false, Ordering::Relaxed);
            self.tell_cost(nf);
        }
    }

    /// Nobody goes before anybody.
    fn rest(&mut self) {
        let raised: Vec<usize> = (0..self.runners.len())
            .filter(|&at| matches!(self.standing[at], Standing::Waits | Standing::Runs))
            .collect();
        if !raised.is_empty() {
            add(&self.tally.rests);
        }
        for at in raised {
            self.set(at, Standing::Own);
        }
    }

    fn set(&mut self, at: usize, standing: Standing) {
        self.standing[at] = standing;
        for thread in 0..self.runners[at].threads.len() {
            let runner = &self.runners[at];
            let thread = runner.threads[thread];
            let result = match standing {
                Standing::Own => sched::set(Some(thread), runner.own),
                Standing::Waits => sched::raise(Some(thread), WAITING),
                Standing::Runs => sched::raise(Some(thread), RUNNING),
                Standing::Gone => Ok(()),
            };
            match result {
                Ok(()) => {}
                // A thread of a box may end and the box go on.
                Err(SchedError::NoSuchTask { .. }) if thread != runner.pid => {}
                Err(SchedError::NoSuchTask { .. }) => self.standing[at] = Standing::Gone,
                Err(error) => {
                    self.refused.get_or_insert(error);
                    self.standing[at] = Standing::Gone;
                }
            }
        }
    }

    /// Why an NF could not be raised, once.
    pub fn refused(&mut self) -> Option<SchedError> {
        self.refused.take()
    }

    /// Takes over from `before`: who stays keeps its standing, who does not gets its own policy back.
    pub fn follow(&mut self, mut before: Self) {
        for (at, runner) in before.runners.iter().enumerate() {
            if let Some(mine) = self.runners.iter().position(|other| other.pid == runner.pid) {
                let standing = std::mem::replace(&mut before.standing[at], Standing::Gone);
                self.standing[mine] = standing;
                // A box that starts waits for the threads it makes.
                if standing != Standing::Own && runner.threads != self.runners[mine].threads {
                    self.set(mine, standing);
                }
            }
        }
    }
}

impl Drop for Floor {
    fn drop(&mut self) {
        self.rest();
    }
}

/// Adds one to a value that only this thread writes.
fn add(value: &AtomicU64) {
    value.store(value.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
}
