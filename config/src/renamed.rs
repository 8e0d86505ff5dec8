//! Keys that were renamed; an error about an old name tells the new one.

/// A key that has another name now.
struct RenamedKey {
    /// The table it belongs to, as messages name it.
    place: &'static str,
    /// The name that is an error now.
    old: &'static str,
    /// The name to write.
    new: &'static str,
}

/// Every renamed key. A line stays here for good: files live longer than versions.
const RENAMED: &[RenamedKey] = &[RenamedKey { place: "[scheduler]", old: "hold", new: "pending" }];

/// Returns the new name of `key` in the table that messages call `place`, if it was renamed.
pub fn new_name(place: &str, key: &str) -> Option<&'static str> {
    RENAMED.iter().find(|key_of| key_of.place == place && key_of.old == key).map(|key_of| key_of.new)
}

#[cfg(test)]
mod tests {
    use super::super::document::Document;
    use super::super::read::Read;
    use super::*;

    #[test]
    fn new_names_are_keys_and_old_ones_are_not() {
        let schema = Document::schema().to_string();
        for key in RENAMED {
            assert!(schema.contains(&format!("\"{}\":", key.new)), "{}", key.new);
            assert!(!schema.contains(&format!("\"{}\":", key.old)), "{}", key.old);
            assert_eq!(new_name(key.place, key.old), Some(key.new));
            assert_eq!(new_name("[flows]", key.old), None);
        }
    }
}
