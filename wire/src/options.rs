//! Options of IPv4 (RFC 791 §3.1) and TCP (RFC 9293 §3.1): both are kind, length, data.

use crate::MalformedError;

/// Ends the options; what follows is padding.
const END: u8 = 0;
/// Fills one byte.
const NO_OPERATION: u8 = 1;

/// One option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeaderOption<'a> {
    /// The kind octet; in IPv4 it includes the copied flag and the class.
    pub kind: u8,
    /// Bytes behind the kind and the length.
    pub data: &'a [u8],
}

/// The options of a header, without padding. Ends after the first malformed option.
#[derive(Clone, Debug)]
pub struct Options<'a> {
    rest: &'a [u8],
}

impl<'a> Options<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }
}

impl<'a> Iterator for Options<'a> {
    type Item = Result<HeaderOption<'a>, MalformedError>;

    fn next(&mut self) -> Option<Self::Item> {
        while let [NO_OPERATION, rest @ ..] = self.rest {
            self.rest = rest;
        }
        let (kind, behind_kind) = match self.rest {
            [] | [END, ..] => return None,
            [kind, rest @ ..] => (*kind, rest),
        };
        // The length counts kind and length themselves.
        let taken = behind_kind
            .split_first()
            .and_then(|(length, rest)| rest.split_at_checked(usize::from(*length).checked_sub(2)?));
        let Some((data, rest)) = taken else {
            self.rest = &[];
            return Some(Err(MalformedError::OptionLength));
        };
        self.rest = rest;
        Some(Ok(HeaderOption { kind, data }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    #[test]
    fn padding_is_skipped_and_end_ends() {
        // TCP: NOP, MSS 1460, NOP, window scale 7, end, rubbish.
        let bytes = [1, 2, 4, 0x05, 0xb4, 1, 3, 3, 7, 0, 99, 99];
        let options: Result<Vec<_>, _> = Options::new(&bytes).collect();
        assert_eq!(
            options.unwrap(),
            [HeaderOption { kind: 2, data: &[0x05, 0xb4] }, HeaderOption { kind: 3, data: &[7] }]
        );
    }

    #[test]
    fn bad_lengths_end_the_options() {
        for bytes in [&[2, 4, 5][..], &[2, 1, 0, 0], &[2, 0, 0, 0], &[2]] {
            let options: Vec<_> = Options::new(bytes).collect();
            assert_eq!(options, [Err(MalformedError::OptionLength)], "{bytes:?}");
        }
    }
}
