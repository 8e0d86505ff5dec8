//! Cores of NFs, kept free of other programs while the manager runs.
//!
//! A failure is reported once and stops nothing: it is tried again with the next check.

use headgate_decide::units::{Instant as Moment, Span};
use headgate_host::cgroup::reserve::{Cpusets, Reserve, ReserveError, Swept};
use headgate_host::cores::CoreList;
use headgate_host::{Pid, process};

use super::Control;
use crate::status::{EventCode, ReservedStatus};

/// Time between two checks for programs that were started since. Our choice: most are started by programs
/// without the cores and have none of them, so a check rarely finds one, and it reads no more than a list of
/// processes.
const CHECK_EVERY: Span = Span::from_secs(1);
/// Most parents that are read to find out whose descendant a process is. Our choice: more than anybody nests.
const ANCESTORS_MAX: usize = 64;

/// Cores that are kept free of other programs.
#[derive(Default)]
pub struct Reserved {
    reserve: Option<Reserve>,
    next_check: Moment,
    status: Option<ReservedStatus>,
    trouble: Option<String>,
}

impl Reserved {
    /// Returns its status; `None` when no core is kept free.
    pub fn status(&self) -> Option<ReservedStatus> {
        self.status.clone()
    }

    /// Returns the reason why none is.
    pub const fn trouble(&self) -> Option<&String> {
        self.trouble.as_ref()
    }
}

impl Control {
    /// Gives programs their cores back that a manager moved which was killed together with its janitor.
    pub(super) fn mend_reserved(&mut self) {
        // Without the right to it, they stay as they are; `headgate doctor` tells of them.
        let Ok(1..) = Cpusets::find().and_then(|cpusets| cpusets.dissolve_abandoned()) else { return };
        let what = "a manager that was killed had kept cores free: other programs have them again";
        self.log(EventCode::CoresReserved, "manager", what.to_owned());
    }

    /// Moves other programs off the NFs' cores.
    pub(super) fn tend_reserved(&mut self) {
        let now = self.now();
        if !self.config.scheduler.reserve_cores || now < self.reserved.next_check {
            return;
        }
        self.reserved.next_check = now + CHECK_EVERY;
        let cores: CoreList = self.config.cores_of_nfs().into_iter().collect();
        match self.sweep(&cores) {
            Ok(swept) => self.note_swept(&cores, &swept),
            Err(error) => {
                let why = format!("{} kept free of other programs: {error}", are_not(&cores));
                if self.reserved.trouble.as_ref() != Some(&why) {
                    self.log(EventCode::CoresNotReserved, "manager", why.clone());
                }
                self.reserved.trouble = Some(why);
            }
        }
    }

    fn sweep(&mut self, cores: &CoreList) -> Result<Swept, ReserveError> {
        let mut reserve = match self.reserved.reserve.take() {
            Some(reserve) => reserve,
            None => Reserve::new(Cpusets::find()?)?,
        };
        let attached: Vec<Pid> = self.instances.iter().filter_map(super::Instance::pid).collect();
        let is_ours = |process: Pid| attached.contains(&process) || is_descendant(process);
        let ledger = &mut self.ledger;
        let swept = reserve.sweep(cores, is_ours, &mut |action| ledger.before_changing(action));
        self.reserved.reserve = Some(reserve);
        swept
    }

    fn note_swept(&mut self, cores: &CoreList, swept: &Swept) {
        let first = self.reserved.status.is_none();
        let status = self.reserved.status.get_or_insert_default();
        status.cores = cores.as_slice().to_vec();
        status.moved += swept.moved as u64;
        status.stuck = swept.stuck as u64;
        let refused = swept.refused.first().map(|why| {
            let others = swept.refused.len() - 1;
            let more = if others > 0 { format!("; and {others} more") } else { String::new() };
            format!("{} kept free of all other programs: {why}{more}", are_not(cores))
        });
        if refused.is_some() && refused != self.reserved.trouble {
            self.log(EventCode::CoresNotReserved, "manager", refused.clone().unwrap_or_default());
        }
        self.reserved.trouble = refused;
        if first {
            let (moved, stuck) = (swept.moved, swept.stuck);
            let cores =
                if cores.len() == 1 { format!("core {cores} is") } else { format!("cores {cores} are") };
            self.log(
                EventCode::CoresReserved,
                "manager",
                format!("{cores} kept free of other programs: {moved} processes moved, {stuck} of the kernel's stay"),
            );
        }
    }

    /// Gives a process of ours that was started elsewhere the right to the cores.
    pub(super) fn admit(&self, process: Pid) -> Result<(), ReserveError> {
        self.reserved.reserve.as_ref().map_or(Ok(()), |reserve| reserve.admit(process))
    }
}

fn are_not(cores: &CoreList) -> String {
    if cores.len() == 1 { format!("core {cores} is not") } else { format!("cores {cores} are not") }
}

/// Returns whether a process is the manager, or was started by it or by one that was.
pub(super) fn is_descendant(process: Pid) -> bool {
    let own = rustix::process::getpid();
    let mut line = std::iter::successors(Some(process), |process| process::parent(*process));
    line.by_ref().take(ANCESTORS_MAX).any(|process| process == own)
}
