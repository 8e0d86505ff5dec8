//! Agreement on a version of the interface: each side says from which to which it speaks, and the highest
//! that both know is spoken. So an NF need not be built again for every release of the manager, nor the
//! other way.

use headgate_shm::control::{ABI_VERSION, ABI_VERSION_MIN};
use serde::{Deserialize, Serialize};

/// Versions that a side speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Versions {
    /// The newest.
    #[serde(rename = "abi")]
    pub max: u32,
    /// The oldest. 0 from a library that says one version only, which is its newest then.
    #[serde(rename = "abi_min", default)]
    pub min: u32,
}

impl Versions {
    /// Versions that are spoken here.
    pub const OURS: Self = Self { min: ABI_VERSION_MIN, max: ABI_VERSION };

    /// Returns the oldest that it speaks.
    const fn oldest(self) -> u32 {
        if self.min == 0 { self.max } else { self.min }
    }

    /// Returns, for a manager of these versions, the one to speak with an NF of others: the highest that
    /// both know.
    ///
    /// # Errors
    /// A sentence for both operators: what the two speak, and which is to be replaced.
    pub fn agree(self, nf: Self) -> Result<u32, String> {
        let highest = self.max.min(nf.max);
        if highest >= self.oldest() && highest >= nf.oldest() {
            return Ok(highest);
        }
        let cure = if nf.max < self.oldest() {
            "the network function is the older of the two: build it again with the library of the manager's \
             release"
        } else {
            "the manager is the older of the two: update it, or build the network function with the library of \
             the manager's release"
        };
        Err(format!("the network function speaks {nf} of the interface and the manager {self}; {cure}"))
    }

    /// Checks the version that a manager chose.
    ///
    /// # Errors
    /// A sentence, when it is none of these.
    pub fn check(self, chosen: u32) -> Result<(), String> {
        // A manager that says nothing knows one version, and took in an NF that says it speaks that.
        if chosen == 0 || (self.oldest()..=self.max).contains(&chosen) {
            return Ok(());
        }
        Err(format!("the manager chose version {chosen} of the interface, and this library speaks {self}"))
    }
}

impl std::fmt::Display for Versions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.oldest() {
            oldest if oldest == self.max => write!(f, "version {oldest}"),
            oldest => write!(f, "versions {oldest} to {}", self.max),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn versions(min: u32, max: u32) -> Versions {
        Versions { min, max }
    }

    #[test]
    fn the_highest_that_both_know_is_spoken() {
        let manager = versions(4, 7);
        for (nf, agreed) in [
            (versions(4, 7), 7),
            (versions(6, 9), 7),
            (versions(1, 5), 5),
            (versions(7, 7), 7),
            (versions(0, 4), 4),
            (versions(1, 99), 7),
        ] {
            assert_eq!(manager.agree(nf), Ok(agreed), "{nf}");
            assert_eq!(nf.check(agreed), Ok(()), "{nf}");
        }
    }

    #[test]
    fn without_a_common_one_both_are_told_which_is_the_older() {
        let manager = versions(4, 7);
        assert_eq!(
            manager.agree(versions(2, 3)).unwrap_err(),
            "the network function speaks versions 2 to 3 of the interface and the manager versions 4 to 7; the \
             network function is the older of the two: build it again with the library of the manager's release"
        );
        let newer = manager.agree(versions(0, 8)).unwrap_err();
        assert!(
            newer.contains("speaks version 8 of") && newer.contains("the manager is the older"),
            "{newer}"
        );
        // One that contradicts itself is told the same, and nothing is chosen.
        assert!(manager.agree(versions(9, 5)).is_err());
        assert!(
            manager.agree(versions(u32::MAX, u32::MAX)).is_err() && manager.agree(versions(0, 0)).is_err()
        );
    }

    #[test]
    fn a_version_that_the_library_does_not_speak_is_not_believed() {
        assert!(versions(4, 7).check(8).unwrap_err().contains("chose version 8"));
        assert_eq!(versions(4, 7).check(0), Ok(()));
    }

    #[test]
    fn one_version_alone_is_what_older_libraries_say() {
        let old: Versions = serde_json::from_str(r#"{"abi":6}"#).unwrap();
        assert_eq!(old, versions(0, 6));
        assert_eq!(serde_json::to_string(&versions(4, 7)).unwrap(), r#"{"abi":7,"abi_min":4}"#);
        assert!(serde_json::from_str::<Versions>(r#"{"abi":-1}"#).is_err());
    }
}
