//! Differences between the two versions of control groups: names of files, and the values written to them.

use std::path::Path;

use crate::files::{self, FileError};

/// Least real-time budget worth having, in microseconds of a second. Our choice: a hundredth.
const REAL_TIME_US_MIN: u64 = 10_000;

/// The version of a hierarchy of control groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// One hierarchy for each controller, or for several (cgroups(7), "Cgroups version 1").
    V1,
    /// One hierarchy for all of them (cgroup-v2.rst).
    V2,
}

impl Version {
    /// Returns the file of a group's weight.
    pub const fn weight_file(self) -> &'static str {
        match self {
            Version::V1 => "cpu.shares",
            Version::V2 => "cpu.weight",
        }
    }

    /// Returns what is written for a share, in parts of 10,000: weights are relative, so a share is taken as
    /// it is.
    pub fn weight(self, share: u32) -> u64 {
        match self {
            Version::V1 => u64::from(share).clamp(2, 262_144),
            Version::V2 => u64::from(share).clamp(1, 10_000),
        }
    }

    /// Returns what so many processes have together of which each weighs as much as so many in no group.
    pub fn weight_of_members(self, members: usize, each: u32) -> u64 {
        let all = members as u64 * u64::from(each);
        match self {
            Version::V1 => (1024 * all).clamp(2, 262_144),
            Version::V2 => (100 * all).clamp(1, 10_000),
        }
    }

    /// Lets real-time tasks of the last of these groups, each of which is in the one before and the first in
    /// `home`, have as much time as the kernel grants.
    pub(super) fn grant_real_time(self, home: &Path, groups: &[&Path]) -> Result<(), FileError> {
        const FILE: &str = "cpu.rt_runtime_us";
        if self == Version::V2 || !home.join(FILE).exists() {
            // Version 2 and many kernels have no budget of real time for groups (cgroup-v2.rst, "CPU").
            return Ok(());
        }
        // A group may have no more than the one above has to give.
        let mut us = files::read_number(home.join(FILE))?;
        loop {
            let grant = |group: &&Path| files::write(group.join(FILE), &us.to_string());
            match groups.iter().try_for_each(grant) {
                // Others beside us have a part of it.
                Err(_) if us / 2 >= REAL_TIME_US_MIN => us /= 2,
                granted => return granted,
            }
        }
    }
}
