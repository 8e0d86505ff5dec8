//! Texts of files in the store, in parts: a store takes requests of 1.5 MiB, and a file may be longer.

use crate::keys::{Keys, Spec};
use crate::store::{Lease, Store, StoreError, Then};

/// Longest part, in bytes. Our choice: with its base64 a fourth of what etcd takes.
const PART_BYTES: usize = 256 << 10;
/// Longest text, in bytes: that of a request to a manager.
pub const TEXT_BYTES_MAX: usize = 16 << 20;

/// Writes the text of a revision, to stay or under a lease. Returns the number of its parts.
pub fn write(
    store: &mut Store,
    keys: &Keys,
    (revision, text): (u64, &str),
    lease: Option<Lease>,
) -> Result<u32, StoreError> {
    let parts = parts(text);
    for (number, part) in parts.iter().enumerate() {
        let key = keys.text(revision, number as u32);
        let put = match lease {
            Some(lease) => Then::Put(&key, (*part).to_owned(), lease),
            None => Then::Keep(&key, (*part).to_owned()),
        };
        store.transact(&[], &[put])?;
    }
    Ok(parts.len() as u32)
}

/// Reads the text of a spec, or says why there is none: the store may hold anything.
pub fn read(store: &mut Store, keys: &Keys, spec: &Spec) -> Result<Result<String, String>, StoreError> {
    let wrong = |why: &str| format!("the text of file {} is not whole in the store: {why}", spec.revision);
    if spec.bytes > TEXT_BYTES_MAX as u64 || spec.parts as usize > TEXT_BYTES_MAX / PART_BYTES + 1 {
        return Ok(Err(wrong("it is too long")));
    }
    let mut text = String::new();
    for number in 0..spec.parts {
        let Some(entry) = store.get(&keys.text(spec.revision, number))? else {
            return Ok(Err(wrong(&format!("part {number} is not there"))));
        };
        match std::str::from_utf8(&entry.value) {
            Ok(part) if text.len() + part.len() <= TEXT_BYTES_MAX => text.push_str(part),
            Ok(_) => return Ok(Err(wrong("it is too long"))),
            Err(error) => return Ok(Err(wrong(&format!("part {number}: {error}")))),
        }
    }
    let is_whole = text.len() as u64 == spec.bytes;
    Ok(if is_whole { Ok(text) } else { Err(wrong("its length is not that of the file")) })
}

/// Returns a text in parts that are none too long.
fn parts(text: &str) -> Vec<&str> {
    let (mut parts, mut rest) = (Vec::new(), text);
    while !rest.is_empty() {
        let end = rest.floor_char_boundary(PART_BYTES);
        parts.push(&rest[..end]);
        rest = &rest[end..];
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_the_text_and_none_is_too_long() {
        for text in ["", "a", &"\u{20ac}".repeat(200_000)] {
            let parts = parts(text);
            assert_eq!(parts.concat(), text);
            assert!(parts.iter().all(|part| !part.is_empty() && part.len() <= PART_BYTES));
        }
    }
}
