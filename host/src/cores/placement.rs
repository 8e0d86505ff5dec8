//! Default placement on cores: the manager has the first that we may use, NFs share the second.

use serde::Serialize;

use super::{CoresError, allowed};

/// Cores of a manager's one worker and of its NFs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Placement {
    /// Core of the manager's one worker.
    pub manager: u32,
    /// Core of all NFs.
    pub nfs: u32,
}

impl Placement {
    /// Returns the first two cores that this process may use.
    ///
    /// # Errors
    /// [`CoresError`] when the kernel does not say which, or there is none.
    pub fn choose() -> Result<Self, CoresError> {
        Self::among(allowed()?.as_slice()).ok_or(CoresError::NoCores)
    }

    fn among(allowed: &[u32]) -> Option<Self> {
        let manager = *allowed.first()?;
        Some(Self { manager, nfs: allowed.get(1).copied().unwrap_or(manager) })
    }

    /// Returns whether manager and NFs have one core between them, which makes every figure a different one.
    #[must_use]
    pub const fn is_shared(self) -> bool {
        self.manager == self.nfs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_two_cores_are_taken_or_the_only_one() {
        assert_eq!(Placement::among(&[2, 5, 7]), Some(Placement { manager: 2, nfs: 5 }));
        assert!(!Placement { manager: 2, nfs: 5 }.is_shared());
        assert!(Placement::among(&[3]).is_some_and(Placement::is_shared));
        assert_eq!(Placement::among(&[]), None);
    }
}
