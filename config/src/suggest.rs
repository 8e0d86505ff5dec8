//! "Did you mean": the known word nearest to a misspelt one.

/// Longest word compared, in characters. Our choice: twice the longest key; the comparison is
/// quadratic and the words are the file's.
const WORD_CHARS_MAX: usize = 64;

/// The word among `known` that needs the fewest changes to become `word`, if a third of its
/// letters suffices.
pub fn nearest<'k>(word: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    if word.chars().count() > WORD_CHARS_MAX {
        return None;
    }
    let allowed = (word.chars().count() / 3).max(1);
    let rated = known.into_iter().map(|candidate| (distance(word, candidate), candidate));
    rated.filter(|(changes, _)| *changes <= allowed).min().map(|(_, candidate)| candidate)
}

/// Help of the form "did you mean `x`?", else the list of what there is.
pub fn help<'k>(what: &str, word: &str, known: impl IntoIterator<Item = &'k str>) -> String {
    let known: Vec<&str> = known.into_iter().collect();
    match nearest(word, known.iter().copied()) {
        Some(candidate) => format!("did you mean `{candidate}`?"),
        None if known.is_empty() => format!("there are no {what}"),
        None => format!("{what}: {}", list(&known)),
    }
}

/// Returns at most 20 words (our choice: two lines of a terminal), then how many more.
fn list(known: &[&str]) -> String {
    let shown = known.len().min(20);
    let mut text = known[..shown].join(", ");
    if shown < known.len() {
        text.push_str(&format!(" and {} more", known.len() - shown));
    }
    text
}

/// Insertions, deletions, replacements and swaps of neighbours (optimal string alignment) between
/// two words, ignoring case.
fn distance(left: &str, right: &str) -> usize {
    let left: Vec<char> = left.chars().flat_map(char::to_lowercase).collect();
    let right: Vec<char> = right.chars().flat_map(char::to_lowercase).collect();
    let mut rows = vec![(0..=right.len()).collect::<Vec<usize>>()];
    for (i, from) in left.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, to) in right.iter().enumerate() {
            let replaced = rows[i][j] + usize::from(from != to);
            let mut best = replaced.min(rows[i][j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && left[i - 1] == *to && *from == right[j - 1] {
                best = best.min(rows[i - 1][j - 1] + 1);
            }
            row.push(best);
        }
        rows.push(row);
    }
    rows[left.len()][right.len()]
}
