//! Chains of NFs that swap addresses and count packets, with standbys or without; how they are killed, and
//! what is found out of them afterwards.

use std::fmt::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use headgate_api::Request;
use headgate_api::daemon::Handle;
use headgate_api::session::Session;
use headgate_api::status::{ChainStatus, NfState, NfStatus, Snapshot, UNCLAIMED};
use headgate_host::cores::Placement;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value as Json;

use super::captured::not_recorded;

/// The only rule: without it no packet enters.
const RULE: &str = "\n[[rule]]\nin = \"source\"\nchain = \"chain\"\n";
/// Time between two samples of the manager's state, which take it a tenth of a millisecond.
const SAMPLE_EVERY: Duration = Duration::from_millis(2);
/// Longest wait for anything. Our choice: a hundred times the longest, a hang that has to be noticed.
const PATIENCE: Duration = Duration::from_secs(30);
/// Time after which a signal is sent once more that the standard library's handler has taken: it waits for an
/// access of its own.
const AGAIN_AFTER: Duration = Duration::from_millis(5);

/// Reasons of packets that are shed for overload: no loss of a death.
const SHED: [&str; 2] = ["throttled", "stage-full"];

/// How packets ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ends {
    /// Packets that nobody knows of, or that ended for another reason than those below.
    pub lost: u64,
    /// Packets that were shed for overload.
    pub shed: u64,
    /// Packets that passed all NFs and did not come into the capture ([`super::captured::not_recorded`]).
    pub not_recorded: u64,
}

/// End of a chain.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Sink<'a> {
    /// Packets are thrown away.
    Null,
    /// Packets are written to a file.
    Capture(&'a Path),
}

/// A chain.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bed<'a> {
    /// Cores.
    pub placement: Placement,
    /// Number of NFs.
    pub nfs: usize,
    /// Packets per second that are offered; `None`: as many as are taken.
    pub rate: Option<u32>,
    /// Whether NFs keep their state and have standbys.
    pub is_protected: bool,
    /// Its end.
    pub sink: Sink<'a>,
}

impl Bed<'_> {
    /// Returns the configuration. One that has run for 2 ms is settled, so that every death counts as a first
    /// one. A ring has places for the packets of some milliseconds.
    pub fn to_toml(self) -> String {
        let Self { placement, nfs, rate, is_protected, sink } = self;
        let rate = rate.map_or("\"max\"".to_owned(), |rate| rate.to_string());
        let sink = match sink {
            Sink::Null => "kind = \"null\"".to_owned(),
            Sink::Capture(file) => format!("kind = \"pcap\"\nwrite = {file:?}"),
        };
        let mut text = format!(
            "[manager]\nname = \"bench\"\ncores = [{}]\n\n[memory]\nbuffers = 65536\n\n[[port]]\nname = \"source\"\n\
             kind = \"generator\"\nsize = 64\nflows = 32\nrate = {rate}\n\n[[port]]\nname = \"sink\"\n{sink}\n{RULE}",
            placement.manager
        );
        let kept = if is_protected { "state = { keep = true }\nstandby = \"local\"\n" } else { "" };
        for number in 0..nfs {
            let _ = write!(
                text,
                "\n[[nf]]\nname = \"nf-{number}\"\ncore = {}\nring = 8192\n\
                 fuse = [{{ run = \"mac-swap\" }}, {{ run = \"monitor\", args = {{ idle_timeout = \"1h\" }} }}]\n\
                 restart = {{ first = \"1ms\", longest = \"1ms\" }}\n{kept}",
                placement.nfs
            );
        }
        let stages: Vec<String> = (0..nfs).map(|number| format!("\"nf-{number}\"")).collect();
        let _ =
            write!(text, "\n[[chain]]\nname = \"chain\"\nstages = [{}]\nout = \"sink\"\n", stages.join(", "));
        text
    }
}

/// Cause of a death.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Death {
    /// A signal that ends the process.
    By(Signal),
    /// A hang: it stops, and is killed when that is noticed.
    Hang,
}

/// Kills a process of an NF.
///
/// # Errors
/// It has none, or the kernel refuses.
pub(crate) fn kill(nf: &NfStatus, death: Death) -> anyhow::Result<()> {
    let pid = nf.pid.and_then(|pid| Pid::from_raw(pid as i32));
    let pid = pid.with_context(|| format!("NF {} has no process", nf.instance))?;
    let signal = match death {
        Death::By(signal) => signal,
        Death::Hang => Signal::STOP,
    };
    kill_process(pid, signal).with_context(|| format!("NF {} cannot be killed", nf.instance))?;
    if [Signal::SEGV, Signal::BUS].contains(&signal) {
        std::thread::sleep(AGAIN_AFTER);
        // The first one may have ended it, and it was reaped.
        let _ = kill_process(pid, signal);
    }
    Ok(())
}

/// Returns whether each NF works and has a standby that is ready.
pub(crate) fn are_ready(now: &Snapshot) -> bool {
    now.nfs.iter().all(|nf| nf.state == NfState::Running && nf.spare == "ready")
}

/// Returns how many standbys took over so far.
pub(crate) fn takeovers(now: &Snapshot) -> u64 {
    now.nfs.iter().map(|nf| nf.takeovers).sum()
}

/// Waits until something is so.
///
/// # Errors
/// It takes too long, or the manager does not answer.
pub(crate) fn wait_for(
    session: &Session,
    what: &str,
    is_so: impl Fn(&Snapshot) -> bool,
) -> anyhow::Result<Snapshot> {
    let (handle, started) = (session.handle(), Instant::now());
    loop {
        let now = handle.sample()?;
        if is_so(&now) {
            return Ok(now);
        }
        if started.elapsed() > PATIENCE {
            let events =
                now.events.iter().rev().take(5).map(|event| format!("\n  {}: {}", event.who, event.what));
            bail!(
                "waited {} s in vain until {what}; is the machine busy with something else? Last events:{}",
                PATIENCE.as_secs(),
                events.collect::<String>()
            );
        }
        std::thread::sleep(SAMPLE_EVERY);
    }
}

/// Lets no packet in any more and waits until all are through. Returns the state then.
///
/// # Errors
/// As [`wait_for`]; or the configuration is refused.
pub(crate) fn run_dry(session: &Session, bed: &Bed<'_>) -> anyhow::Result<Snapshot> {
    let text = bed.to_toml().replace(RULE, "");
    session.handle().ask(&Request::Apply { name: "dry (made by headgate bench)".to_owned(), text })?;
    wait_for(session, "the chain runs dry", |now| now.nfs.iter().all(|nf| nf.held == 0 && nf.pending == 0))?;
    // With the workers standing still: what NFs have returned has left then, and is counted so.
    Ok(session.handle().get(&Request::Snapshot { audit: true })?)
}

/// Returns the chain that is judged.
///
/// # Errors
/// There is none.
pub(crate) fn judged(now: &Snapshot) -> anyhow::Result<&ChainStatus> {
    now.chains.iter().find(|chain| chain.name != UNCLAIMED).context("there is a chain")
}

/// Returns how packets ended, for a chain that has run dry.
pub(crate) fn ends(now: &Snapshot) -> Ends {
    let count = |is_so: fn(&str) -> bool| {
        let of_kind = now.drops.iter().filter(|drop| drop.chain != UNCLAIMED && is_so(&drop.reason));
        of_kind.map(|drop| drop.count).sum::<u64>()
    };
    let shed = count(|reason| SHED.contains(&reason));
    let not_recorded = not_recorded(now);
    let ended = count(|_| true) - shed - not_recorded;
    let of_ours = now.chains.iter().filter(|chain| chain.name != UNCLAIMED);
    let (entered, left) =
        of_ours.fold((0, 0), |(entered, left), one| (entered + one.entered, left + one.left));
    let unknown = u64::saturating_sub(entered, left + shed + ended + not_recorded);
    Ends { lost: ended + unknown, shed, not_recorded }
}

/// Returns the number of packets that an NF has counted in its state.
///
/// # Errors
/// It does not answer, or says something else.
pub(crate) fn counted(manager: &Handle, nf: &str, message: &str) -> anyhow::Result<u64> {
    let told = manager.ask(&Request::Tell { nf: nf.to_owned(), body: message.to_owned() })?;
    let answer = told["answers"][0]["answered"].as_str().with_context(|| format!("{nf} answers {told}"))?;
    let report: Json = serde_json::from_str(answer.trim_start_matches(|c| c != '{'))?;
    report["packets"].as_u64().with_context(|| format!("{nf} reports {report}"))
}

#[cfg(test)]
mod tests {
    use headgate_api::status::DropStatus;

    use super::*;

    #[test]
    fn what_was_not_shed_and_did_not_leave_is_lost() {
        let drop =
            |reason: &str, count| DropStatus { reason: reason.to_owned(), count, ..DropStatus::default() };
        let chain = |name: &str, entered, left| ChainStatus {
            name: name.to_owned(),
            entered,
            left,
            ..ChainStatus::default()
        };
        let chains = vec![chain(UNCLAIMED, 1000, 0), chain("chain", 100, 70)];
        let mut drops =
            vec![drop("stage-full", 8), drop("throttled", 2), drop("nf-died", 15), drop("poison", 1)];
        // Its packets go on: one came between two samples.
        let outside = DropStatus { chain: UNCLAIMED.to_owned(), ..drop("no-rule", 999) };
        drops.extend([outside, drop("port-full", 3)]);
        let now = Snapshot { chains, drops, ..Snapshot::default() };
        assert_eq!(judged(&now).unwrap().left, 70);
        assert_eq!(ends(&now), Ends { lost: 16 + 1, shed: 10, not_recorded: 3 });
    }

    #[test]
    fn its_configurations_are_accepted() {
        let machine = headgate_config::Machine {
            cores: vec![0, 1],
            memory_bytes: 1 << 34,
            ..headgate_config::Machine::default()
        };
        let shipped = |name: &str| headgate_config::ShippedNf {
            name: name.to_owned(),
            keeps: name == "monitor",
            ..headgate_config::ShippedNf::default()
        };
        let catalog = headgate_config::Catalog::new(vec![shipped("mac-swap"), shipped("monitor")]);
        let placement = Placement { manager: 0, nfs: 1 };
        let file = Path::new("/tmp/out.pcapng");
        for (nfs, rate, sink) in [(1, None, Sink::Null), (5, Some(14_880_000), Sink::Capture(file))] {
            let bed = Bed { placement, nfs, rate, is_protected: nfs > 1, sink };
            for text in [bed.to_toml(), bed.to_toml().replace(RULE, "")] {
                let loaded = headgate_config::parse("resilience", &text, &catalog, &machine);
                let config = loaded.unwrap_or_else(|mistakes| panic!("{mistakes}")).config;
                assert!(config.nfs.iter().all(|nf| nf.has_standby() == bed.is_protected));
            }
        }
    }
}
