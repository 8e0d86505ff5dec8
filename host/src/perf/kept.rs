//! Costs that were measured once and are kept: of the machine's events, and of NFs.
//!
//! They lie in the state folder ([`folder`]), each file with the identity of the machine it was measured on;
//! on another machine, or after a change of its kernel, they are refused and not used. `headgate profile`
//! writes them; [`of_nf`] is where time slices of polling NFs find the cost they begin with.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::perf::costs::MachineCosts;
use crate::perf::machine::Identity;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json};

/// The variable that names another state folder.
pub const VARIABLE: &str = "HEADGATE_STATE";
/// The file of the machine's costs.
const MACHINE: &str = "machine-costs.json";
/// The file of the costs of NFs.
const NFS: &str = "nf-costs.json";

/// The state folder: `$HEADGATE_STATE`, or `/var/lib/headgate` for root, or `headgate` in the user's
/// `$XDG_STATE_HOME` (`~/.local/state`).
#[must_use]
pub fn folder() -> PathBuf {
    if let Some(named) = std::env::var_os(VARIABLE).filter(|named| !named.is_empty()) {
        return PathBuf::from(named);
    }
    if rustix::process::geteuid().is_root() {
        return PathBuf::from("/var/lib/headgate");
    }
    let home =
        || PathBuf::from(std::env::var_os("HOME").unwrap_or_else(|| "/tmp".into())).join(".local/state");
    std::env::var_os("XDG_STATE_HOME").map_or_else(home, PathBuf::from).join("headgate")
}

/// Reason why kept costs cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CostsError {
    /// Nothing was measured yet.
    #[error("nothing was measured yet ({} is not there)", path.display())]
    None {
        /// The file.
        path: PathBuf,
    },
    /// The costs are those of another machine.
    #[error("{} is of another machine: {}; measure again", path.display(), differences.join(", "))]
    OtherMachine {
        /// The file.
        path: PathBuf,
        /// Differences between the machines.
        differences: Vec<String>,
    },
    /// The file cannot be read or written, or is not what it should be.
    #[error("cannot {step} {}: {why}", path.display())]
    File {
        /// Step that failed.
        step: &'static str,
        /// The file.
        path: PathBuf,
        /// Reason why not.
        why: String,
    },
}

/// Costs of one NF.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NfCost {
    /// Measured program: the name of a shipped NF, or the command of another.
    pub runs: String,
    /// Its arguments.
    pub args: Map<String, Json>,
    /// Nanoseconds that a packet takes: what a scheduler reckons with.
    pub cost_ns: f64,
    /// The same in cycles of the time stamp counter.
    pub cost_cycles: f64,
    /// Whether the cost follows the size of the packet; `cost_ns` is then the mean over all sizes.
    pub varies: bool,
    /// Costs by frame size.
    pub sizes: Vec<SizeCost>,
    /// Cycles of the time stamp counter in a second.
    pub cycles_per_second: u64,
    /// Time of the measurement, in seconds since 1970.
    pub measured_at: u64,
}

/// Costs of packets of one size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SizeCost {
    /// Bytes of the frame, check sequence included.
    pub frame_bytes: u32,
    /// Median over the windows, in nanoseconds for each packet.
    pub median_ns: f64,
    /// A quarter of the windows took less.
    pub p25_ns: f64,
    /// A quarter took more.
    pub p75_ns: f64,
    /// Windows.
    pub windows: usize,
    /// Whether the kernel's account of a saturated NF was used; else the NF's own samples.
    pub accounted: bool,
}

#[derive(Serialize, Deserialize)]
struct Kept<T> {
    machine: Identity,
    #[serde(flatten)]
    costs: T,
}

#[derive(Default, Serialize, Deserialize)]
struct Nfs {
    nfs: BTreeMap<String, NfCost>,
}

#[derive(Serialize, Deserialize)]
struct Machine {
    costs: MachineCosts,
}

/// The costs of this machine's events.
///
/// # Errors
/// [`CostsError`]: they were not measured, or elsewhere.
pub fn of_machine() -> Result<MachineCosts, CostsError> {
    Ok(load::<Machine>(&folder().join(MACHINE), &Identity::observe())?.costs)
}

/// Keeps them; the path of the file.
///
/// # Errors
/// [`CostsError::File`].
pub fn keep_machine(costs: MachineCosts) -> Result<PathBuf, CostsError> {
    let path = folder().join(MACHINE);
    save(&path, Kept { machine: Identity::observe(), costs: Machine { costs } })?;
    Ok(path)
}

/// Returns the costs of an NF with these arguments, by what is kept in a state folder.
///
/// `runs` is the name of a shipped NF, or the command of another, its words joined by spaces.
///
/// # Errors
/// [`CostsError`]; `Ok(None)` says that others were measured and this one was not.
pub fn of_nf(folder: &Path, runs: &str, args: &Map<String, Json>) -> Result<Option<NfCost>, CostsError> {
    let mut kept = load::<Nfs>(&folder.join(NFS), &Identity::observe())?;
    Ok(kept.nfs.remove(&key(runs, args)))
}

/// Keeps the cost of an NF in a state folder, beside those of others of this machine; the path of the file.
///
/// # Errors
/// [`CostsError::File`].
pub fn keep_nf(folder: &Path, cost: NfCost) -> Result<PathBuf, CostsError> {
    let (path, machine) = (folder.join(NFS), Identity::observe());
    // Those of another machine are of no use to anybody.
    let mut costs = load::<Nfs>(&path, &machine).unwrap_or_default();
    costs.nfs.insert(key(&cost.runs, &cost.args), cost);
    save(&path, Kept { machine, costs })?;
    Ok(path)
}

/// Arguments that are the same in another order are the same: the map is in order. So are two ways to one
/// program.
fn key(runs: &str, args: &Map<String, Json>) -> String {
    let (program, rest) = runs.split_once(' ').map_or((runs, ""), |(program, rest)| (program, rest));
    let path = program.contains('/').then(|| std::fs::canonicalize(program).ok()).flatten();
    let program = path.map_or_else(|| program.to_owned(), |path| path.display().to_string());
    format!("{} {}", [&*program, rest].join(" ").trim_end(), Json::Object(args.clone()))
}

fn load<T: DeserializeOwned>(path: &Path, machine: &Identity) -> Result<T, CostsError> {
    let file = |why: String| CostsError::File { step: "read", path: path.to_owned(), why };
    let text = std::fs::read_to_string(path).map_err(|error| match error.kind() {
        ErrorKind::NotFound => CostsError::None { path: path.to_owned() },
        _ => file(error.to_string()),
    })?;
    let kept: Kept<T> =
        serde_json::from_str(&text).map_err(|error| file(format!("{error}; measure again")))?;
    match kept.machine.differences(machine) {
        differences if differences.is_empty() => Ok(kept.costs),
        differences => Err(CostsError::OtherMachine { path: path.to_owned(), differences }),
    }
}

/// Written beside and renamed: a reader sees the old file or the new one.
fn save<T: Serialize>(path: &Path, kept: Kept<T>) -> Result<(), CostsError> {
    let file = |why: String| CostsError::File { step: "write", path: path.to_owned(), why };
    let folder = path.parent().unwrap_or(Path::new("."));
    let text = serde_json::to_string_pretty(&kept).map_err(|error| file(error.to_string()))?;
    let beside = path.with_extension(format!("{}.new", std::process::id()));
    std::fs::create_dir_all(folder)
        .and_then(|()| std::fs::write(&beside, text + "\n"))
        .and_then(|()| std::fs::rename(&beside, path))
        .map_err(|error| file(format!("{error}; set {VARIABLE} to a folder that may be written")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cost(ns: f64) -> Nfs {
        let nf = NfCost { runs: "forward".to_owned(), cost_ns: ns, ..NfCost::default() };
        Nfs { nfs: BTreeMap::from([(key(&nf.runs, &nf.args), nf)]) }
    }

    #[test]
    fn what_was_kept_is_found_and_on_another_machine_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deep").join(NFS);
        let here = Identity::observe();
        assert!(matches!(load::<Nfs>(&path, &here), Err(CostsError::None { .. })));
        save(&path, Kept { machine: here.clone(), costs: cost(7.0) }).unwrap();
        let found = load::<Nfs>(&path, &here).unwrap();
        assert_eq!(found.nfs["forward {}"].cost_ns, 7.0);
        let other = Identity { cpu_model: "Z80".to_owned(), ..here };
        let refused = load::<Nfs>(&path, &other).err().unwrap().to_string();
        assert!(refused.contains("Z80") && refused.contains("measure again"), "{refused}");
        std::fs::write(&path, "{}").unwrap();
        assert!(matches!(load::<Nfs>(&path, &other), Err(CostsError::File { .. })));
        assert_eq!(std::fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
    }

    #[test]
    fn the_order_of_arguments_does_not_matter() {
        let of = |text: &str| key("router", serde_json::from_str::<Json>(text).unwrap().as_object().unwrap());
        assert_eq!(of(r#"{"a": 1, "b": [2]}"#), of(r#"{"b": [2], "a": 1}"#));
        assert_ne!(of(r#"{"a": 1}"#), of(r#"{"a": 2}"#));
    }

    #[test]
    fn a_program_is_the_same_by_any_way_to_it() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("nf");
        std::fs::write(&program, "").unwrap();
        let round = folder.path().join(".").join("nf");
        let of = |path: &Path, rest: &str| key(&format!("{}{rest}", path.display()), &Map::new());
        assert_eq!(of(&program, " --fast"), of(&round, " --fast"));
        assert_ne!(of(&program, " --fast"), of(&program, ""));
        assert_eq!(of(Path::new("/is/not/there"), ""), "/is/not/there {}");
    }
}
