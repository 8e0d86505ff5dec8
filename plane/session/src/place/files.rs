//! Landlock rules: the files that an NF may write, and what else is denied to it.
//!
//! An NF reads what its user may read, as any program does, and writes nothing but what its orders name.
//! Landlock is best effort by design: each version of the kernel knows more, and what this one does not know
//! is told ([`Lack`]).

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, LandlockStatus, PathBeneath, PathFd, RestrictionStatus,
    Ruleset, RulesetAttr, RulesetCreated, RulesetCreatedAttr, RulesetError, Scope,
};
use rustix::fs::FileType;
use rustix::io::Errno;

use super::{Lack, LaunchError, Steps};
use crate::launch::{Launch, Permission};

/// The newest version of Landlock whose rules were tried here. A newer kernel knows more, which is not asked
/// for.
const KNOWN: ABI = ABI::V7;
/// Devices that change nothing when they are written.
const SINKS: [&str; 6] = ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"];

/// Settings of the network namespace of the process that opens them: a program that routes turns forwarding
/// on.
const NETWORK_SETTINGS: &str = "/proc/sys/net";

/// Restricts this process and what it becomes, and returns what this kernel could not hold.
pub(super) fn restrict(launch: &Launch) -> Result<Vec<Lack>, LaunchError> {
    let writable = writable(launch)?;
    let restricted = apply(launch, writable).map_err(|error| LaunchError::Filter {
        name: launch.name.clone(),
        step: "restrict the files it may write",
        cause: error.to_string(),
    })?;
    Ok(lacks(launch, restricted.landlock))
}

/// Opens what may be written, with what may be done there.
fn writable(launch: &Launch) -> Result<Vec<PathBeneath<PathFd>>, LaunchError> {
    let mut rules = Vec::new();
    for path in &launch.write {
        let step = || format!("let it write to {}", path.display());
        let opened =
            PathFd::new(path).map_err(|_| Steps { name: &launch.name }.refused(step())(Errno::NOENT))?;
        let is_folder = rustix::fs::fstat(&opened)
            .is_ok_and(|found| FileType::from_raw_mode(found.st_mode) == FileType::Directory);
        let rights = if is_folder { writing() } else { writing_one() };
        rules.push(PathBeneath::new(opened, rights));
    }
    if launch.has_own_network()
        && let Ok(settings) = PathFd::new(NETWORK_SETTINGS)
    {
        rules.push(PathBeneath::new(settings, writing()));
    }
    // A container's file system may lack some.
    let sinks = SINKS.iter().filter_map(|path| PathFd::new(path).ok());
    rules.extend(sinks.map(|sink| PathBeneath::new(sink, writing_one())));
    Ok(rules)
}

/// Everything that changes files.
fn writing() -> BitFlags<AccessFs> {
    AccessFs::from_write(KNOWN)
}

/// Everything that changes one file that is there.
fn writing_one() -> BitFlags<AccessFs> {
    writing() & AccessFs::from_file(KNOWN)
}

fn apply(launch: &Launch, writable: Vec<PathBeneath<PathFd>>) -> Result<RestrictionStatus, RulesetError> {
    let mut ruleset = Ruleset::default().scope(Scope::Signal)?;
    if holds_sockets(launch) {
        ruleset = ruleset.scope(Scope::AbstractUnixSocket)?;
    }
    if holds_network(launch) {
        ruleset = ruleset.handle_access(AccessNet::from_all(KNOWN))?;
    }
    let created = if holds_files(launch) {
        let files = ruleset.handle_access(writing())?.create()?;
        writable.into_iter().try_fold(files, RulesetCreated::add_rule)?
    } else {
        ruleset.create()?
    };
    created.restrict_self()
}

/// Landlock refuses every mount where it holds files.
fn holds_files(launch: &Launch) -> bool {
    !launch.allows(Permission::Mount)
}

fn holds_network(launch: &Launch) -> bool {
    !launch.has_own_network() && !launch.allows(Permission::Network)
}

fn holds_sockets(launch: &Launch) -> bool {
    !launch.allows(Permission::AbstractSockets)
}

fn lacks(launch: &Launch, kernel: LandlockStatus) -> Vec<Lack> {
    let LandlockStatus::Available { effective_abi, .. } = kernel else { return vec![Lack::Landlock] };
    let all = [
        (Lack::Truncation, ABI::V3, holds_files(launch)),
        (Lack::Network, ABI::V4, holds_network(launch)),
        (Lack::DeviceControl, ABI::V5, holds_files(launch)),
        (Lack::Signals, ABI::V6, true),
        (Lack::AbstractSockets, ABI::V6, holds_sockets(launch)),
    ];
    let missing = all.into_iter().filter(|(_, since, is_wanted)| *is_wanted && effective_abi < *since);
    missing.map(|(lack, ..)| lack).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::launch::Program;

    fn kernel(effective_abi: ABI) -> LandlockStatus {
        LandlockStatus::Available { effective_abi, kernel_abi: None }
    }

    #[test]
    fn what_an_old_kernel_cannot_hold_is_told() {
        let launch = Launch::new("nf".into(), Program::Run("forward".into()), 1);
        let lacks = |abi| lacks(&launch, kernel(abi));
        assert_eq!(super::lacks(&launch, LandlockStatus::NotEnabled), [Lack::Landlock]);
        // Debian 12 has Linux 6.1.
        let debian =
            [Lack::Truncation, Lack::Network, Lack::DeviceControl, Lack::Signals, Lack::AbstractSockets];
        assert_eq!(lacks(ABI::V2), debian);
        assert_eq!(lacks(ABI::V4), debian[2..]);
        assert_eq!(lacks(ABI::V6), []);
    }

    #[test]
    fn what_is_allowed_is_not_missed() {
        let allow = vec![Permission::Network, Permission::Mount, Permission::AbstractSockets];
        let launch = Launch { allow, ..Launch::new("nf".into(), Program::Run("forward".into()), 1) };
        assert_eq!(lacks(&launch, kernel(ABI::V1)), [Lack::Signals]);
        let namespace = Some("/proc/1/ns/net".to_owned());
        let own_network = Launch { namespace, ..Launch::new("nf".into(), Program::Run("forward".into()), 1) };
        assert!(!lacks(&own_network, kernel(ABI::V1)).contains(&Lack::Network));
    }
}
