//! The thread that keeps a node in the store, and does what follows.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use headgate_api::request::Request;
use headgate_api::status::{ClusterStatus, EventCode, StoreStatus};
use headgate_config::Config;
use headgate_config::model::Node;
use headgate_decide::units::{Instant, Span};

use crate::follow::Follower;
use crate::keys::{Alive, Claim, Keys, Leader, State, View, written};
use crate::manager::Manager;
use crate::node::{Action, Claims, Rules};
use crate::orchestrator::Orchestrator;
use crate::status;
use crate::store::{If, Lease, Store, StoreError, Then};

/// Lease of a node, in seconds: its claims are those of nobody so long after it died.
const NODE_LEASE_S: u64 = 5;
/// Time after which it is renewed. Our choice: a fifth.
const NODE_RENEWAL: Span = Span::from_secs(NODE_LEASE_S / 5);
/// Lease of the orchestrator: so long after its death another is elected.
const LEADER_LEASE_S: u64 = 2;
/// Longest wait for an answer of the store. Our choice: three in a row fit into the orchestrator's lease.
const PATIENCE: Duration = Duration::from_millis(500);
/// Shortest and longest time between two looks at the store. Our choice: five in a period of prices, and
/// enough to renew the shortest lease in time.
const LOOK_MIN: Span = Span::from_millis(50);
const LOOK_MAX: Span = Span::from_millis(250);
/// Looks in a row without an answer after which the store is lost. Our choice: each asks another server.
const FAILURES: u32 = 3;
/// Time for which another process may have this node's name: the lease of an earlier one of its own.
const NAME_TAKEN_MAX: Span = Span::from_secs(NODE_LEASE_S + 3);

/// Reason why there is no agent.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// No thread could be started.
    #[error("no thread could be started for the store of the cluster: {0}")]
    Thread(#[from] std::io::Error),
}

/// Agent of a node, and its thread.
pub struct Agent {
    /// Its end is heard there.
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Agent {
    /// Starts that of a node whose configuration names a store; `None` where it names none.
    ///
    /// # Errors
    /// [`AgentError`].
    pub fn start(config: &Config, manager: Arc<dyn Manager>) -> Result<Option<Self>, AgentError> {
        let Some(runner) = Runner::of(config, manager) else { return Ok(None) };
        let (end, ended) = channel();
        let thread = std::thread::Builder::new().name("hg-agent".to_owned());
        let thread = thread.spawn(move || runner.run(&ended))?;
        Ok(Some(Self { end: Some(end), thread: Some(thread) }))
    }
}

impl Drop for Agent {
    /// Ends it: the node's keys are gone at once.
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            // A panic there was told already.
            let _ = thread.join();
        }
    }
}

/// A lease, and when it was renewed last.
#[derive(Clone, Copy, Debug)]
struct Held {
    lease: Lease,
    renewed: Instant,
}

struct Runner {
    manager: Arc<dyn Manager>,
    store: Store,
    keys: Keys,
    alive: Alive,
    node: String,
    rules: Rules,
    look_every: Span,
    began: std::time::Instant,
    lease: Option<Held>,
    /// The lease of the orchestrator, where this node is it.
    leads: Option<Lease>,
    claims: Claims,
    follower: Follower,
    orchestrator: Orchestrator,
    epoch_due: Instant,
    failures: u32,
    is_lost: bool,
    /// Since when another process has this node's name, and whether that was told.
    taken: Option<(Instant, bool)>,
    said: StoreStatus,
}

impl Runner {
    fn of(config: &Config, manager: Arc<dyn Manager>) -> Option<Self> {
        let node: &Node = config.node.as_ref()?;
        let store = node.store.clone()?;
        let rules = rules_of(node);
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Some(Self {
            manager,
            keys: Keys::of(&store.cluster),
            store: Store::new(store.servers, PATIENCE),
            alive: Alive { incarnation: since.as_nanos() as u64 },
            node: node.name.clone(),
            rules,
            look_every: Span((rules.period.0 / 5).clamp(LOOK_MIN.0, LOOK_MAX.0)),
            began: std::time::Instant::now(),
            lease: None,
            leads: None,
            claims: Claims::default(),
            follower: Follower::default(),
            orchestrator: Orchestrator::of(config),
            epoch_due: Instant::default(),
            failures: 0,
            is_lost: false,
            taken: None,
            said: StoreStatus::default(),
        })
    }

    fn run(mut self, ended: &Receiver<()>) {
        loop {
            let now = self.now();
            let looked = self.look(now);
            self.judge(looked);
            self.manager.tell_store(self.said.clone());
            match ended.recv_timeout(self.look_every.into()) {
                Err(RecvTimeoutError::Timeout) => {}
                Ok(()) | Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        for lease in [self.leads, self.lease.map(|held| held.lease)].into_iter().flatten() {
            // A store that is lost forgets the keys by itself.
            let _ = self.store.revoke(lease);
        }
    }

    fn now(&self) -> Instant {
        Instant(u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    /// Tells when the store is lost, and when it is back.
    fn judge(&mut self, looked: Result<(), StoreError>) {
        self.said.server = self.store.server();
        match looked {
            Ok(()) => {
                self.failures = 0;
                self.said.reachable = true;
                if std::mem::take(&mut self.is_lost) {
                    self.manager.tell(EventCode::StoreBack, "store", "it answers again".to_owned());
                }
            }
            Err(error) => {
                self.failures += 1;
                self.said.reachable = false;
                self.said.problem = Some(error.to_string());
                if self.failures >= FAILURES && !std::mem::replace(&mut self.is_lost, true) {
                    let what = format!("{error}; what runs goes on, and nothing starts or ends by need");
                    self.manager.tell(EventCode::StoreLost, "store", what);
                }
            }
        }
    }

    /// Looks at the store once, and does what follows.
    fn look(&mut self, now: Instant) -> Result<(), StoreError> {
        self.keep_leases(now)?;
        let Some(held) = self.lease else { return Ok(()) };
        let entries = self.store.range(self.keys.prefix())?;
        let view = self.keys.view(entries);
        status::take(&mut self.said, &view);
        if !self.is_own_name(now, &view, held.lease)? {
            return Ok(());
        }
        let Some(status) = self.ask_status() else { return Ok(()) };
        self.follow(now, (&view, &status), held.lease)?;
        let term = self.lead(&view)?;
        if let Some(term) = term {
            let is_epoch = self.epoch_due.is_due(now);
            if is_epoch {
                self.epoch_due = now + self.rules.period;
            }
            self.orchestrate(now, (term, is_epoch), &view, &status)?;
        }
        for action in self.claims.poll(now, self.rules, &view, &status) {
            self.carry_out(held.lease, &view, action)?;
        }
        Ok(())
    }

    /// Goes by the file that the store holds for all.
    fn follow(
        &mut self,
        now: Instant,
        (view, status): (&View, &ClusterStatus),
        lease: Lease,
    ) -> Result<(), StoreError> {
        let own = (self.node.as_str(), status.digest.as_str());
        let ways = (&mut self.store, &self.keys);
        let followed = self.follower.poll(now, own, view, ways, &self.manager)?;
        if let Some(config) = followed.config {
            self.orchestrator = Orchestrator::of(&config);
            self.rules = config.node.as_ref().map_or(self.rules, rules_of);
        }
        if let Some(applied) = followed.say {
            let key = self.keys.applied(&self.node);
            self.store.transact(&[], &[Then::Put(&key, written(&applied), lease)])?;
            if let Some(problem) = applied.problem {
                let first = problem.lines().next().unwrap_or_default();
                let what = format!("file {} of the store: {first}", applied.revision);
                self.manager.tell(EventCode::StoreProblem, "store", what);
            }
        }
        Ok(())
    }

    /// Renews the node's lease in time, or takes one.
    fn keep_leases(&mut self, now: Instant) -> Result<(), StoreError> {
        match self.lease {
            Some(held) if now - held.renewed < NODE_RENEWAL => {}
            Some(held) if self.store.renew(held.lease)? => self.lease = Some(Held { renewed: now, ..held }),
            _ => {
                // Who had one and lost it leads no more either.
                self.leads = None;
                self.lease = None;
                let lease = self.store.grant(NODE_LEASE_S)?;
                self.lease = Some(Held { lease, renewed: now });
            }
        }
        Ok(())
    }

    /// Returns whether this node has its name in the store.
    fn is_own_name(&mut self, now: Instant, view: &View, lease: Lease) -> Result<bool, StoreError> {
        let key = self.keys.node(&self.node);
        match view.nodes.get(&self.node) {
            Some(known) if known.value.incarnation == self.alive.incarnation => {
                self.taken = None;
                return Ok(true);
            }
            None => {
                self.taken = None;
                let put = Then::Put(&key, written(&self.alive), lease);
                return self.store.transact(&[If::Created(&key, 0)], &[put]);
            }
            Some(_) => {}
        }
        let (since, is_told) = self.taken.get_or_insert((now, false));
        if now - *since >= NAME_TAKEN_MAX {
            let problem = format!("another process is node `{}`: this one claims nothing", self.node);
            if !std::mem::replace(is_told, true) {
                self.manager.tell(EventCode::StoreProblem, "store", problem.clone());
            }
            self.said.problem = Some(problem);
        }
        Ok(false)
    }

    fn ask_status(&self) -> Option<ClusterStatus> {
        let answer = self.manager.ask(Request::Cluster).ok()?;
        serde_json::from_str(answer.get()).ok()
    }

    /// Keeps or seeks the place of the orchestrator. Returns its term where this node has it.
    fn lead(&mut self, view: &View) -> Result<Option<u64>, StoreError> {
        let key = self.keys.orchestrator();
        match (&view.leader, self.leads) {
            (Some(leader), Some(lease)) if leader.value.node == self.node => {
                if self.store.renew(lease)? {
                    return Ok(Some(leader.created));
                }
                self.leads = None;
            }
            (Some(_), _) => self.leads = None,
            (None, _) => {
                let lease = self.store.grant(LEADER_LEASE_S)?;
                let put = Then::Put(&key, written(&Leader { node: self.node.clone() }), lease);
                if self.store.transact(&[If::Created(&key, 0)], &[put])? {
                    self.leads = Some(lease);
                    self.orchestrator.begin();
                    let what = "this node says how many instances may start, and which end".to_owned();
                    self.manager.tell(EventCode::Orchestrates, "store", what);
                } else {
                    self.store.revoke(lease)?;
                }
            }
        }
        Ok(None)
    }

    /// Says for all what may start and what ends. What was claimed meanwhile makes it void: it is said anew
    /// at the next look.
    fn orchestrate(
        &mut self,
        now: Instant,
        (term, is_epoch): (u64, bool),
        view: &View,
        status: &ClusterStatus,
    ) -> Result<(), StoreError> {
        let Some(lease) = self.leads else { return Ok(()) };
        let leader = self.keys.orchestrator();
        for (nf, allow) in self.orchestrator.on_look(now, (term, is_epoch), &self.rules.band, (view, status))
        {
            let key = self.keys.allow(&nf);
            let seen = view.allows.get(&nf).map_or(0, |known| known.written);
            let conditions = [If::Created(&leader, term), If::Written(&key, seen)];
            self.store.transact(&conditions, &[Then::Put(&key, written(&allow), lease)])?;
        }
        Ok(())
    }

    fn carry_out(&mut self, lease: Lease, view: &View, action: Action) -> Result<(), StoreError> {
        match action {
            Action::Claim { nf, allow, written: seen, why } => {
                let (own, key) = (self.keys.claim(&nf, &self.node), self.keys.allow(&nf));
                let claim = self.claim_of(State::Claimed, &why);
                // The rest of what is allowed ends with us then; the orchestrator says it anew.
                let changes = [Then::Put(&own, claim, lease), Then::Put(&key, written(&allow), lease)];
                let leader = self.keys.orchestrator();
                let conditions =
                    [If::Created(&own, 0), If::Written(&key, seen), If::Created(&leader, allow.term)];
                if self.store.transact(&conditions, &changes)? {
                    self.manager.tell(EventCode::NfClaimed, &nf, why);
                    self.have(Request::Restart { nf: nf.clone() }, nf);
                }
            }
            Action::Tell { nf, state } => {
                let own = self.keys.claim(&nf, &self.node);
                let claim = self.claim_of(state, "it ran here before the store knew");
                self.store.transact(&[If::Created(&own, 0)], &[Then::Put(&own, claim, lease)])?;
            }
            Action::Mark { nf, state, written: seen } => {
                let own = self.keys.claim(&nf, &self.node);
                let why = view.claim(&nf, &self.node).map_or("", |known| known.value.why.as_str());
                let claim = self.claim_of(state, why);
                self.store.transact(&[If::Written(&own, seen)], &[Then::Put(&own, claim, lease)])?;
            }
            Action::Release { nf, why } => {
                let own = self.keys.claim(&nf, &self.node);
                self.store.transact(&[], &[Then::Delete(&own)])?;
                self.manager.tell(EventCode::NfReleased, &nf, why);
                self.have(Request::Drain { nf: nf.clone() }, nf);
            }
            Action::Start { nf } => self.have(Request::Restart { nf: nf.clone() }, nf),
            Action::Drain { nf } => self.have(Request::Drain { nf: nf.clone() }, nf),
        }
        Ok(())
    }

    fn claim_of(&self, state: State, why: &str) -> String {
        written(&Claim { incarnation: self.alive.incarnation, state, why: why.to_owned() })
    }

    /// Asks the manager for something that takes its time, while leases are renewed. What it refuses is asked
    /// for again, as long as there is reason to.
    fn have(&self, request: Request, nf: String) {
        let manager = self.manager.clone();
        let ask = move || {
            if let Err(error) = manager.ask(request) {
                manager.tell(EventCode::StoreProblem, &nf, format!("the manager refuses: {error}"));
            }
        };
        if let Err(error) = std::thread::Builder::new().name("hg-agent-ask".to_owned()).spawn(ask) {
            self.manager.tell(
                EventCode::StoreProblem,
                "store",
                format!("no thread could be started: {error}"),
            );
        }
    }
}

/// Returns what a node's claims go by.
fn rules_of(node: &Node) -> Rules {
    let steering = node.steering.unwrap_or_default();
    let (band, off_path) = (steering.band(), steering.price_of_hop());
    Rules { band, off_path, period: Span(steering.period_ns) }
}
