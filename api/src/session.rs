//! A daemon that is measured, from its configuration to its last audit.

use std::path::PathBuf;
use std::thread::sleep;
use std::time::{Duration, Instant};

use headgate_host::programs::{Program, ProgramError};

use crate::attendance::Text;
use crate::daemon::{Configuration, Daemon, DaemonError, Handle, Options};
use crate::exit::Exit;
use crate::request::{Request, RequestError};
use crate::status::{ChainStatus, NfState, NfStatus, Snapshot};

/// Longest time for NFs to become ready. Our choice: they take some milliseconds, and a machine so busy that
/// they take seconds measures nothing.
const START_PATIENCE: Duration = Duration::from_secs(10);
/// Longest time until every flow has been seen. Our choice: a million flows at 100,000 packets a second, a
/// hundredth of what is expected.
const LEARN_PATIENCE: Duration = Duration::from_secs(10);
/// Time between two samples while waiting.
const SAMPLE_EVERY: Duration = Duration::from_millis(2);

/// Reason why a daemon could not be measured.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// The daemon did not start, or did not end in order. A configuration that was made for an experiment is
    /// refused for too little memory, mostly.
    #[error(transparent)]
    Daemon(#[from] DaemonError),
    /// The daemon did not answer.
    #[error(transparent)]
    Asked(#[from] RequestError),
    /// An NF failed.
    #[error("NF {instance} failed: {why}")]
    Nf {
        /// The instance.
        instance: String,
        /// Reason.
        why: String,
    },
    /// Something took too long.
    #[error("{what} within {} s; is the machine busy with something else?", patience.as_secs())]
    Late {
        /// Condition that was not met.
        what: &'static str,
        /// Time for which it was awaited.
        patience: Duration,
    },
}

impl SessionError {
    /// Returns how a command ends that could not do without.
    #[must_use]
    pub fn exit(&self) -> Exit {
        match self {
            Self::Daemon(error) => error.exit(),
            Self::Asked(refusal) => Exit::from_code(refusal.code),
            Self::Nf { .. } | Self::Late { .. } => Exit::Failed,
        }
    }
}

/// Starts daemons that are measured.
#[derive(Clone, Debug)]
pub struct Launcher {
    program: PathBuf,
    listed: bool,
}

impl Launcher {
    /// Finds the daemon's program.
    ///
    /// # Errors
    /// [`ProgramError`].
    pub fn find() -> Result<Self, ProgramError> {
        Ok(Self { program: Program::Manager.find()?, listed: false })
    }

    /// Returns one whose daemons other commands find, by the name in their configuration.
    #[must_use]
    pub const fn listed(mut self) -> Self {
        self.listed = true;
        self
    }

    /// Starts a daemon and waits until its NFs are running. `name` is what messages call the text. It keeps
    /// quiet, nobody else finds it unless it is [listed](Self::listed), and it begins with no kept costs: an
    /// experiment shows what is found out by itself.
    ///
    /// # Errors
    /// [`SessionError`]; nothing is left behind then.
    pub fn start(&self, name: &str, text: &str) -> Result<Session, SessionError> {
        let session = self.launch(name, text)?;
        session.wait_for("the NFs were not ready", START_PATIENCE, |snapshot| {
            snapshot.nfs.iter().all(|nf| nf.state == NfState::Running)
        })?;
        Ok(session)
    }

    /// The same without a wait for its NFs, some of which may fail.
    ///
    /// # Errors
    /// [`SessionError`]; nothing is left behind then.
    pub fn launch(&self, name: &str, text: &str) -> Result<Session, SessionError> {
        let text = Text { name: name.to_owned(), text: text.to_owned() };
        let options = Options::new(self.program.clone(), Configuration::Text(text));
        let daemon = Daemon::start(Options { listed: self.listed, quiet: true, costs: false, ..options })?;
        Ok(Session { handle: daemon.handle(), daemon })
    }
}

/// A daemon that runs.
#[derive(Debug)]
pub struct Session {
    daemon: Daemon,
    handle: Handle,
}

impl Session {
    /// Waits until so many flows have been learnt.
    ///
    /// # Errors
    /// [`SessionError`].
    pub fn learn(&self, flows: u32) -> Result<(), SessionError> {
        self.wait_for("the flows were not all seen", LEARN_PATIENCE, |snapshot| {
            snapshot.workers.iter().map(|worker| worker.flows_learnt).sum::<u64>() >= u64::from(flows)
        })
    }

    /// Switches on measurement of the cost of each station from now on.
    ///
    /// # Errors
    /// [`SessionError`].
    pub fn measure_stations(&self) -> Result<(), SessionError> {
        self.handle.ask(&Request::Measure { on: true })?;
        Ok(())
    }

    /// Lets it run for that long, and returns its state at both ends.
    ///
    /// # Errors
    /// [`SessionError`]: it did not answer, or an NF failed in the meantime.
    pub fn interval(&self, window: Duration) -> Result<Interval, SessionError> {
        let before = self.snapshot()?;
        sleep(window);
        Ok(Interval { before, after: self.snapshot()? })
    }

    /// Returns a way to ask it.
    #[must_use]
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Returns the process id of the daemon.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.daemon.pid()
    }

    /// Ends it. Returns whether its last audit found everything accounted for; `None` when there was none.
    ///
    /// # Errors
    /// [`SessionError`].
    pub fn stop(self) -> Result<Option<bool>, SessionError> {
        Ok(self.daemon.stop()?.last.conserved)
    }

    /// Returns its state now.
    ///
    /// # Errors
    /// [`SessionError`]: it did not answer, or an NF has failed.
    pub fn snapshot(&self) -> Result<Snapshot, SessionError> {
        let snapshot = self.handle.sample()?;
        match snapshot.nfs.iter().find(|nf| nf.failures > 0) {
            Some(nf) => Err(failed(nf)),
            None => Ok(snapshot),
        }
    }

    fn wait_for(
        &self,
        what: &'static str,
        patience: Duration,
        is_so: impl Fn(&Snapshot) -> bool,
    ) -> Result<(), SessionError> {
        let started = Instant::now();
        while !is_so(&self.snapshot()?) {
            if started.elapsed() > patience {
                return Err(SessionError::Late { what, patience });
            }
            sleep(SAMPLE_EVERY);
        }
        Ok(())
    }
}

fn failed(nf: &NfStatus) -> SessionError {
    let why = nf.last_failure.clone().unwrap_or_else(|| "it did not say why".to_owned());
    SessionError::Nf { instance: nf.instance.clone(), why }
}

/// A daemon's state at two moments.
#[derive(Clone, Debug)]
pub struct Interval {
    /// Snapshot at the beginning.
    pub before: Snapshot,
    /// Snapshot at the end.
    pub after: Snapshot,
}

impl Interval {
    /// Returns packets that left all chains, per second.
    #[must_use]
    pub fn rate(&self) -> f64 {
        let ns = self.after.at_ns.saturating_sub(self.before.at_ns).max(1);
        self.left() as f64 * 1e9 / ns as f64
    }

    /// Returns packets that left all chains.
    #[must_use]
    pub fn left(&self) -> u64 {
        let left = |snapshot: &Snapshot| -> u64 {
            snapshot.chains.iter().map(|chain: &ChainStatus| chain.left).sum()
        };
        left(&self.after).saturating_sub(left(&self.before))
    }

    /// Returns nanoseconds and packets of a station.
    #[must_use]
    pub fn station(&self, name: &str) -> (u64, u64) {
        let of = |snapshot: &Snapshot| {
            let all = snapshot.workers.iter().flat_map(|worker| &worker.stations);
            all.filter(|station| station.station == name)
                .fold((0, 0), |(ns, packets), station| (ns + station.time_ns, packets + station.packets))
        };
        let (before, after) = (of(&self.before), of(&self.after));
        (after.0.saturating_sub(before.0), after.1.saturating_sub(before.1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::{StationStatus, WorkerStatus};

    fn at(at_ns: u64, left: [u64; 2], hop: (u64, u64)) -> Snapshot {
        let station = StationStatus { station: "hop".to_owned(), time_ns: hop.0, packets: hop.1 };
        Snapshot {
            at_ns,
            chains: left.map(|left| ChainStatus { left, ..ChainStatus::default() }).to_vec(),
            workers: vec![WorkerStatus { stations: vec![station], ..WorkerStatus::default() }],
            ..Snapshot::default()
        }
    }

    #[test]
    fn an_interval_counts_what_all_chains_did_in_it() {
        let before = at(1_000_000_000, [100, 10], (50, 5));
        let after = at(1_500_000_000, [1_100, 510], (350, 35));
        let interval = Interval { before, after };
        assert_eq!(interval.left(), 1_500);
        assert!((interval.rate() - 3_000.0).abs() < 1e-9);
        assert_eq!(interval.station("hop"), (300, 30));
        assert_eq!(interval.station("emit"), (0, 0));
    }
}
