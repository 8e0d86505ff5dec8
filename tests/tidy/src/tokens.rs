//! Tokens of a file as a flat list: what rules search that must also see into macros.

use proc_macro2::{Delimiter, Span, TokenStream, TokenTree};

/// A token, as far as rules care.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    /// An identifier or keyword.
    Word(String),
    /// A punctuation mark, or a bracket.
    Mark(char),
    /// A string, a number, the text of a doc comment.
    Literal,
}

/// A token and its place.
#[derive(Debug, Clone)]
pub struct Token {
    /// Content of the token.
    pub piece: Piece,
    span: Span,
}

impl Token {
    /// Returns the identifier it is, if it is one.
    pub fn word(&self) -> Option<&str> {
        match &self.piece {
            Piece::Word(word) => Some(word),
            Piece::Mark(_) | Piece::Literal => None,
        }
    }

    /// Returns its line, from 1.
    pub fn line(&self) -> usize {
        self.span.start().line
    }

    /// Returns whether it is that mark.
    pub fn is(&self, mark: char) -> bool {
        self.piece == Piece::Mark(mark)
    }
}

/// Returns all tokens, groups included.
pub fn flat(stream: TokenStream) -> Vec<Token> {
    let mut found = Vec::new();
    collect(stream, &mut found);
    found
}

fn collect(stream: TokenStream, found: &mut Vec<Token>) {
    for tree in stream {
        let span = tree.span();
        let piece = match tree {
            TokenTree::Group(group) => {
                let (open, close) = brackets(group.delimiter());
                found.extend(open.map(|mark| Token { piece: Piece::Mark(mark), span: group.span_open() }));
                collect(group.stream(), found);
                found.extend(close.map(|mark| Token { piece: Piece::Mark(mark), span: group.span_close() }));
                continue;
            }
            TokenTree::Ident(word) => Piece::Word(word.to_string()),
            TokenTree::Punct(mark) => Piece::Mark(mark.as_char()),
            TokenTree::Literal(_) => Piece::Literal,
        };
        found.push(Token { piece, span });
    }
}

const fn brackets(delimiter: Delimiter) -> (Option<char>, Option<char>) {
    match delimiter {
        Delimiter::Parenthesis => (Some('('), Some(')')),
        Delimiter::Brace => (Some('{'), Some('}')),
        Delimiter::Bracket => (Some('['), Some(']')),
        Delimiter::None => (None, None),
    }
}

/// Returns whether `::` begins at a token.
pub fn is_double_colon(tokens: &[Token], at: usize) -> bool {
    let is_colon = |at: usize| tokens.get(at).is_some_and(|token| token.is(':'));
    is_colon(at) && is_colon(at + 1)
}

/// Returns whether `::` ends before a token.
pub fn follows_double_colon(tokens: &[Token], at: usize) -> bool {
    at >= 2 && is_double_colon(tokens, at - 2)
}

/// Returns where the group ends whose opening bracket stands at `open`: the place of its closing one.
pub fn group_end(tokens: &[Token], open: usize) -> usize {
    let mut depth = 0_usize;
    for (at, token) in tokens.iter().enumerate().skip(open) {
        match token.piece {
            Piece::Mark('(' | '[' | '{') => depth += 1,
            Piece::Mark(')' | ']' | '}') => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return at;
        }
    }
    tokens.len()
}

/// A path of two words or more, such as `crate::link::Link`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Path {
    /// Its words, up to the first generic argument.
    pub words: Vec<String>,
    /// Line, from 1.
    pub line: usize,
    /// Whether it stands for all names in it (`crate::link::*`).
    pub is_glob: bool,
}

/// Returns every path among tokens. A group (`a::{b, c::d}`) is a path for each of its ends.
pub fn paths(tokens: &[Token]) -> Vec<Path> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        let is_member = at > 0 && tokens[at - 1].is('.');
        if tokens[at].word().is_some() && !is_member && !follows_double_colon(tokens, at) {
            at = path(tokens, at, &[], &mut found);
        } else {
            at += 1;
        }
    }
    found
}

/// Reads the path that begins at a word; returns where reading goes on.
fn path(tokens: &[Token], mut at: usize, before: &[String], found: &mut Vec<Path>) -> usize {
    let first = &tokens[at];
    let mut words = before.to_vec();
    words.extend(tokens[at].word().map(str::to_owned));
    at += 1;
    while is_double_colon(tokens, at) {
        match tokens.get(at + 2) {
            Some(token) if token.is('{') => return ends(tokens, at + 2, &words, found),
            Some(Token { piece: Piece::Word(word), .. }) => words.push(word.clone()),
            _ => break,
        }
        at += 3;
    }
    let is_glob = is_double_colon(tokens, at) && tokens.get(at + 2).is_some_and(|token| token.is('*'));
    if words.len() > 1 || is_glob {
        found.push(Path { words, line: first.line(), is_glob });
    }
    at
}

/// Reads the ends of a group; returns where reading goes on.
fn ends(tokens: &[Token], open: usize, before: &[String], found: &mut Vec<Path>) -> usize {
    let close = group_end(tokens, open);
    let mut at = open + 1;
    while at < close {
        let begins = tokens[at - 1].is('{') || tokens[at - 1].is(',');
        at = if begins && tokens[at].word().is_some() { path(tokens, at, before, found) } else { at + 1 };
    }
    close + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Vec<String> {
        let tokens = flat(text.parse().expect("tokens"));
        paths(&tokens).into_iter().map(|path| path.words.join("::")).collect()
    }

    #[test]
    fn paths_are_found_in_code_macros_and_groups() {
        assert_eq!(of("let x = a::b::c(1);"), ["a::b::c"]);
        assert_eq!(of("matches!(x, Link::Rings | Link::External(_))"), ["Link::Rings", "Link::External"]);
        assert_eq!(of("use a::{b, c::{D, self}};"), ["a::b", "a::c::D", "a::c::self"]);
        assert_eq!(of("Vec::<a::B>::new()"), ["a::B"]);
        assert_eq!(of("one.two(three) + <A as B>::C::d"), Vec::<String>::new());
    }

    #[test]
    fn a_group_ends_at_its_own_bracket() {
        let tokens = flat("f(a, [b], (c)) d".parse().expect("tokens"));
        assert_eq!(tokens[group_end(&tokens, 1) + 1].word(), Some("d"));
    }
}
