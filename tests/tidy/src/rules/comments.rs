//! Comments and doc comments that are wider than a line may be. Code is rustfmt's business, and so is a
//! string that it cannot break. A row of a table and a word that fits on no line, such as an address, may be
//! wider. C has no formatter here, so all of its lines count.

use std::collections::BTreeMap;

use proc_macro2::{LineColumn, TokenStream, TokenTree};

use crate::offence::Offence;
use crate::source::SourceFile;
use crate::workspace::Workspace;

/// Widest line, as `max_width` in rustfmt.toml.
const COLUMNS_MAX: usize = 110;

/// The column in which code ends, by the lines that are wide.
type CodeEnds = BTreeMap<usize, usize>;

/// Returns each line that a comment makes too wide.
pub fn wider_than_allowed(workspace: &Workspace) -> Vec<Offence> {
    let rust = workspace.files.values().flat_map(offences);
    rust.chain(workspace.c_files.iter().flat_map(|(path, text)| wide_lines(path, text))).collect()
}

/// Returns each line of a C file that is too wide.
fn wide_lines<'a>(path: &'a str, text: &'a str) -> impl Iterator<Item = Offence> + 'a {
    let widths = text.lines().zip(1..).map(|(line, number)| (number, line, line.trim_end().chars().count()));
    let wide = widths.filter(|(_, line, width)| *width > COLUMNS_MAX && !has_a_word_as_long(line));
    wide.map(move |(number, _, width)| Offence::new(path, number, width, format!("{width} columns")))
}

fn offences(file: &SourceFile) -> Vec<Offence> {
    let lines: Vec<&str> = file.text.lines().collect();
    let width = |line: usize| lines[line - 1].trim_end().chars().count();
    let is_wide = |line: &usize| width(*line) > COLUMNS_MAX && !may_be_wide(lines[line - 1]);
    let mut code_ends: CodeEnds = (1..=lines.len()).filter(is_wide).map(|line| (line, 0)).collect();
    note_code(file.stream.clone(), &lines, &mut code_ends);
    let comments = code_ends.into_iter().filter(|(line, code_end)| *code_end < width(*line));
    let offence =
        |line| Offence::new(&file.path, line, width(line), format!("a comment of {} columns", width(line)));
    comments.map(|(line, _)| offence(line)).collect()
}

/// Returns whether no break could help a line: a table's row, or a word as long as a line.
fn may_be_wide(line: &str) -> bool {
    let text = line.trim_start().trim_start_matches(['/', '!', '*']).trim_start();
    text.starts_with('|') || has_a_word_as_long(line)
}

fn has_a_word_as_long(line: &str) -> bool {
    let indent = line.len() - line.trim_start().len();
    let longest = line.split_whitespace().map(|word| word.chars().count()).max().unwrap_or_default();
    indent + "/// ".len() + longest > COLUMNS_MAX
}

/// Notes in which column the code of each wide line ends. Doc comments are tokens, too, but no code.
fn note_code(stream: TokenStream, lines: &[&str], ends: &mut CodeEnds) {
    for tree in stream {
        let (start, end) = (tree.span().start(), tree.span().end());
        if ends.range(start.line..=end.line).next().is_none() || is_comment(start, lines) {
            continue;
        }
        match tree {
            TokenTree::Group(group) => {
                note_code(group.stream(), lines, ends);
                note_end(group.span_open().end(), ends);
            }
            // A string of several lines: all of each but the last.
            _ => ends.range_mut(start.line..end.line).for_each(|(_, column)| *column = usize::MAX),
        }
        note_end(end, ends);
    }
}

fn note_end(end: LineColumn, ends: &mut CodeEnds) {
    if let Some(column) = ends.get_mut(&end.line) {
        *column = end.column.max(*column);
    }
}

fn is_comment(start: LineColumn, lines: &[&str]) -> bool {
    let mut rest = lines[start.line - 1].chars().skip(start.column);
    rest.next() == Some('/') && matches!(rest.next(), Some('/' | '*'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::{planted, planted_file};

    fn lines(text: &str) -> Vec<usize> {
        wider_than_allowed(&planted_file(text)).iter().map(|offence| offence.line).collect()
    }

    #[test]
    fn every_kind_of_comment_is_measured_in_characters() {
        let words = "wörd ".repeat(21);
        let fits = format!("//! {words}1\n//! {words}\n// {words}\nfn f() {{}}\n");
        assert_eq!(fits.lines().next().map(|line| line.chars().count()), Some(COLUMNS_MAX));
        assert_eq!(lines(&fits), [0; 0]);
        let wide = format!(
            "//! {words}12\n// {words}123\n/// {words}12\nfn f() {{ // {words}\n/* {words}\n {words}123456\n*/\n}}\n"
        );
        assert_eq!(lines(&wide), [1, 2, 3, 4, 6]);
    }

    #[test]
    fn of_c_every_line_counts_but_one_of_a_long_word() {
        let words = "word ".repeat(22);
        let address = "x".repeat(108);
        let text =
            format!("/* {words}*/\nint a = 1;{words}\n | {words}\n/* <{address}> */\n{}\n", &words[..109]);
        let workspace = planted(&[("a/Cargo.toml", "[package]\nname = 'a'"), ("a/b.h", &text)]);
        let found: Vec<usize> = wider_than_allowed(&workspace).iter().map(|offence| offence.line).collect();
        assert_eq!(found, [1, 2, 3]);
    }

    #[test]
    fn code_strings_tables_and_addresses_may_be_wide() {
        let words = "word ".repeat(23);
        let address = "x".repeat(108);
        let text = format!(
            "//! | {words} |\n//! <{address}>\nconst A: &str = \"// {words}\";\nconst B: &str = \"\n// {words}\n\";\n"
        );
        assert_eq!(lines(&text), [0; 0]);
    }
}
