//! Check of edits: a copy of the state, compared after each burst.
//!
//! State that changes without having been saved is not undone at a death. Rust's types do not let an author
//! do that; C, and `unsafe`, do. The copy costs the time of comparing all state after each burst, so it is
//! for tests.

use headgate_shm::state::StateRegion;

/// Environment variable with which edits are checked: each burst's changes against what was saved.
pub const CHECK_EDITS_VARIABLE: &str = "HEADGATE_CHECK_EDITS";

/// Copy of all pieces as the last burst left them.
pub struct Shadow {
    bytes: Vec<u8>,
}

impl Shadow {
    pub fn of(region: &StateRegion) -> Self {
        Self { bytes: region.copy() }
    }

    /// Aborts when bytes changed that were not saved in this burst.
    pub fn check(&mut self, region: &StateRegion, names: &[(u64, String)]) {
        let now = region.copy();
        for (offset, bytes) in region.saved() {
            let range = offset..(offset + bytes).min(now.len());
            if let (Some(old), Some(new)) = (self.bytes.get_mut(range.clone()), now.get(range)) {
                old.copy_from_slice(new);
            }
        }
        if let Some(at) = self.bytes.iter().zip(&now).position(|(old, new)| old != new) {
            let (number, offset) = region.piece_of(at).unwrap_or((0, at));
            let name = names.iter().find(|(known, _)| *known == number).map_or("?", |(_, name)| name);
            eprintln!(
                "{}: byte {offset} of `{name}` changed in this burst without an edit, so a death would not undo it; \
                 change it by what `edit`, `insert` or `remove` gives, and in the burst that asked for it",
                CHECK_EDITS_VARIABLE
            );
            std::process::abort();
        }
        self.bytes = now;
    }
}
