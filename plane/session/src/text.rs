//! Texts of untrusted processes that go on to people.

/// Characters of an NF's words that people are shown: a line or two.
pub(crate) const TEXT_CHARS_MAX: usize = 200;

/// Returns a text of at most [`TEXT_CHARS_MAX`] characters.
pub(crate) fn cut(text: &str) -> String {
    let mut ends = text.char_indices().map(|(at, _)| at).skip(TEXT_CHARS_MAX - 1);
    match (ends.next(), ends.next()) {
        (Some(end), Some(_)) => format!("{}…", &text[..end]),
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_texts_stay_as_they_are() {
        for length in [0, 1, TEXT_CHARS_MAX - 1, TEXT_CHARS_MAX] {
            assert_eq!(cut(&"z".repeat(length)), "z".repeat(length));
        }
        assert_eq!(cut(&"z".repeat(TEXT_CHARS_MAX + 1)).chars().count(), TEXT_CHARS_MAX);
    }
}
