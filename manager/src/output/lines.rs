//! From the bytes of an untrusted process to lines for people.

use headgate_units::text::harmless;

/// Bytes of a line that are shown; the rest of it is left out. Our choice: ten times a long line of a log.
pub const LINE_BYTES_MAX: usize = 1024;
/// Sign of a line that was cut.
const CUT: char = '…';

/// Cuts a stream of bytes into lines. Holds one unfinished line at most.
#[derive(Debug, Default)]
pub struct Lines {
    unfinished: Vec<u8>,
    is_cut: bool,
}

impl Lines {
    /// Takes bytes, and calls `each` for each line that is complete now.
    pub fn push(&mut self, bytes: &[u8], mut each: impl FnMut(String)) {
        let mut parts = bytes.split(|byte| *byte == b'\n');
        // What is behind the last line break is unfinished.
        let last = parts.next_back().unwrap_or_default();
        for part in parts {
            self.add(part);
            each(self.take());
        }
        self.add(last);
    }

    /// Returns the unfinished line, if there is one.
    pub fn end(&mut self) -> Option<String> {
        (!self.unfinished.is_empty()).then(|| self.take())
    }

    fn add(&mut self, part: &[u8]) {
        let room = LINE_BYTES_MAX - self.unfinished.len();
        self.is_cut |= part.len() > room;
        self.unfinished.extend(&part[..part.len().min(room)]);
    }

    fn take(&mut self) -> String {
        let bytes = std::mem::take(&mut self.unfinished);
        let text = String::from_utf8_lossy(&bytes);
        // As a terminal would: what a program on a terminal ends its lines with is no part of them.
        let mut line = harmless(&text.trim_end_matches('\r').replace('\t', "    "));
        if std::mem::take(&mut self.is_cut) {
            line.push(CUT);
        }
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::iter::repeat_n;

    fn lines_of(parts: &[&[u8]]) -> Vec<String> {
        let (mut lines, mut found) = (Lines::default(), Vec::new());
        for part in parts {
            lines.push(part, |line| found.push(line));
        }
        found.extend(lines.end());
        found
    }

    #[test]
    fn lines_are_the_same_however_the_bytes_come() {
        let text = b"first\r\n\nthi\xc3\xa9rd\tx\nlast";
        let whole = lines_of(&[text]);
        assert_eq!(whole, ["first", "", "thiérd    x", "last"]);
        let bytes: Vec<&[u8]> = text.chunks(1).collect();
        assert_eq!(lines_of(&bytes), whole);
        assert_eq!(lines_of(&[b""]), [""; 0]);
    }

    #[test]
    fn what_commands_a_terminal_is_replaced() {
        let line = lines_of(&[b"a\x1b[2J\x07\0\xff\xc2\x9b\r5\xe2\x80\xaeb\n"]).remove(0);
        assert_eq!(line, "a\u{fffd}[2J\u{fffd}\u{fffd}\u{fffd}\u{fffd}\u{fffd}5\u{fffd}b");
        let bytes: Vec<u8> = (0..=255).filter(|byte| *byte != b'\n').collect();
        assert!(!lines_of(&[&bytes]).concat().chars().any(char::is_control));
    }

    #[test]
    fn a_line_without_end_is_cut_and_costs_no_more_memory() {
        let mut lines = Lines::default();
        for _ in 0..10_000 {
            lines.push(&[b'x'; 1000], |line| panic!("{line}"));
        }
        assert!(lines.unfinished.capacity() <= 2 * LINE_BYTES_MAX);
        let mut found = Vec::new();
        lines.push(b"y\nshort\n", |line| found.push(line));
        let cut: String = repeat_n('x', LINE_BYTES_MAX).chain([CUT]).collect();
        assert_eq!(found, [&*cut, "short"]);
    }
}
