//! Control groups of NFs: one for each that is weighed, and one for all real-time NFs, which share its
//! budget.

use std::collections::BTreeMap;

use headgate_decide::units::InstanceId;
use headgate_host::Pid;
use headgate_host::cgroup::{self, CpuController, Group, GroupError, Groups};
use headgate_host::undo::Action;

use super::ledger::Ledger;

/// The group of all real-time NFs: weights mean nothing to them.
const REAL_TIME: &str = "real-time";

/// A process that is to be in a group.
pub struct Entering<'a> {
    /// The number of its instance: two instances of one name may live while one follows the other.
    pub number: InstanceId,
    /// The name of its instance.
    pub name: &'a str,
    /// The process.
    pub process: Pid,
    /// Whether it is a real-time task.
    pub is_real_time: bool,
    /// Whether processes that it leaves behind are ours to end.
    pub leaves_to_us: bool,
}

/// The groups that there are.
pub struct CpuGroups {
    manager: String,
    /// The group of all; found when it is first needed.
    all: Option<Groups>,
    /// By instance.
    entered: BTreeMap<InstanceId, Entered>,
}

struct Entered {
    group: Group,
    /// Whether no other instance is in it.
    is_alone: bool,
}

impl CpuGroups {
    /// Returns those of a manager of this name. Nothing is changed on the machine yet.
    pub fn new(manager: &str) -> Self {
        Self { manager: manager.to_owned(), all: None, entered: BTreeMap::new() }
    }

    /// Puts an instance's process into a group of its own, or into that of all real-time NFs.
    ///
    /// # Errors
    /// [`GroupError`].
    pub fn enter(&mut self, entering: &Entering<'_>, ledger: &mut Ledger) -> Result<(), GroupError> {
        let Entering { number, name, process, is_real_time, leaves_to_us } = *entering;
        let name = if is_real_time { REAL_TIME.to_owned() } else { format!("{number}.{name}") };
        let path = self.all(ledger)?.directory_of(&name);
        // What somebody else started is not ours to end, and the group of all real-time NFs may hold some.
        ledger.before_changing(match leaves_to_us && !is_real_time {
            true => Action::RemoveGroup { path },
            false => Action::RemoveDirectory { path },
        });
        let all = self.all(ledger)?;
        let group = if is_real_time { all.real_time_group(&name)? } else { all.group(&name)? };
        group.add(process)?;
        self.entered.insert(number, Entered { group, is_alone: !is_real_time });
        Ok(())
    }

    /// Lets a thread of ours be a real-time task: puts it into the group of all of them.
    ///
    /// # Errors
    /// [`GroupError`].
    pub fn admit(&mut self, thread: Pid, ledger: &mut Ledger) -> Result<(), GroupError> {
        let path = self.all(ledger)?.directory_of(REAL_TIME);
        ledger.before_changing(Action::RemoveDirectory { path });
        self.all(ledger)?.real_time_group(REAL_TIME)?.add_thread(thread)
    }

    /// Gives the group of all the weight of its members, so that they have as much as in no group.
    ///
    /// # Errors
    /// [`GroupError`].
    pub fn weigh_all(&self) -> Result<(), GroupError> {
        self.all.as_ref().map_or(Ok(()), |all| all.set_members(self.entered.len().max(1)))
    }

    /// Weighs an instance's group: a share in parts of 10,000. True without a group: there is nothing to
    /// weigh.
    ///
    /// # Errors
    /// [`GroupError`]: the group is gone, or not ours any more.
    pub fn weigh(&self, number: InstanceId, share: u32) -> Result<bool, GroupError> {
        let (Some(all), Some(entered)) = (&self.all, self.entered.get(&number)) else { return Ok(false) };
        all.weigh(&entered.group, share)?;
        Ok(true)
    }

    /// An instance is in no group any more: its process is another one, or its group is gone.
    pub fn forget(&mut self, number: InstanceId) {
        self.entered.remove(&number);
    }

    /// Ends what an instance's process has left in its group.
    pub fn end_members(&self, number: InstanceId) {
        if let Some(entered) = self.entered.get(&number).filter(|entered| entered.is_alone) {
            // A group that is not there any more has nobody in it.
            let _ = cgroup::end_members(entered.group.directory());
        }
    }

    /// Removes the groups of instances that are gone.
    pub fn sweep(&mut self, is_gone: impl Fn(InstanceId) -> bool, ledger: &mut Ledger) {
        let swept = self.entered.extract_if(.., |number, entered| entered.is_alone && is_gone(*number));
        for (_, entered) in swept {
            ledger.take_back(|action| match action {
                Action::RemoveDirectory { path } | Action::RemoveGroup { path } => {
                    path == entered.group.directory()
                }
                _ => false,
            });
        }
    }

    /// The group of all, made when it is first needed.
    fn all(&mut self, ledger: &mut Ledger) -> Result<&Groups, GroupError> {
        if self.all.is_none() {
            let name = format!("headgate-{}-{}", self.manager, std::process::id());
            self.all = Some(Groups::find(&CpuController::find(), &name)?);
        }
        let Some(all) = &self.all else { return Err(GroupError::NoController) };
        ledger.before_changing(Action::RemoveDirectory { path: all.directory().to_owned() });
        all.make()?;
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use headgate_host::cgroup::Version;
    use std::fs;
    use std::path::Path;

    const NF: InstanceId = InstanceId(3);

    /// Groups in a folder, whose files are those of version 1.
    fn groups(home: &Path) -> CpuGroups {
        let all = Groups::below(Version::V1, home, "all");
        CpuGroups { all: Some(all), ..CpuGroups::new("tests") }
    }

    fn entering(number: InstanceId, leaves_to_us: bool) -> Entering<'static> {
        let process = rustix::process::getpid();
        Entering { number, name: "fw", process, is_real_time: false, leaves_to_us }
    }

    /// What the kernel would have in a group.
    fn make(home: &Path, group: &str) -> std::path::PathBuf {
        let folder = home.join("all").join(group);
        fs::create_dir_all(&folder).unwrap();
        for file in ["cpu.shares", "cgroup.procs"] {
            fs::write(folder.join(file), "").unwrap();
        }
        folder
    }

    #[test]
    fn an_instance_enters_is_weighed_and_goes() {
        let home = tempfile::tempdir().unwrap();
        let (mut groups, mut ledger) = (groups(home.path()), Ledger::new(None));
        let folder = make(home.path(), "3.fw");
        assert!(!groups.weigh(NF, 5_000).unwrap(), "it is in no group yet");
        groups.enter(&entering(NF, false), &mut ledger).unwrap();
        assert_eq!(fs::read_to_string(folder.join("cgroup.procs")).unwrap(), std::process::id().to_string());
        assert!(groups.weigh(NF, 5_000).unwrap());
        assert_eq!(fs::read_to_string(folder.join("cpu.shares")).unwrap(), "5000\n");
        // A directory of the kernel's goes with its files; these are ordinary ones.
        fs::remove_dir_all(&folder).unwrap();
        fs::create_dir(&folder).unwrap();
        groups.sweep(|_| false, &mut ledger);
        assert!(folder.exists());
        groups.sweep(|number| number == NF, &mut ledger);
        assert!(!folder.exists());
        assert!(!groups.weigh(NF, 5_000).unwrap());
    }

    #[test]
    fn a_fresh_process_is_in_no_group() {
        let home = tempfile::tempdir().unwrap();
        let (mut groups, mut ledger) = (groups(home.path()), Ledger::new(None));
        make(home.path(), "3.fw");
        groups.enter(&entering(NF, false), &mut ledger).unwrap();
        groups.forget(NF);
        assert!(!groups.weigh(NF, 5_000).unwrap());
    }

    #[test]
    fn what_is_refused_says_which_group() {
        let home = tempfile::tempdir().unwrap();
        let (mut groups, mut ledger) = (groups(&home.path().join("is-not-there")), Ledger::new(None));
        let why = groups.enter(&entering(NF, true), &mut ledger).unwrap_err().to_string();
        assert!(why.contains("is-not-there/all"), "{why}");
    }
}
