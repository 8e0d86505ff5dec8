//! Conditionals on kinds outside their home: a variant of an enum of kinds is named only in the files that
//! its kinds live in; all others call a method that each kind answers.
//!
//! Also seen is a variant through another name of its enum (`use … Link as Configured`), in a macro, in a
//! `use`, and the methods that answer nothing but "which kind?". Not seen are `Self::`, and the names that a
//! `use` of variants brings in: the `use` counts once.

use std::collections::BTreeSet;

use syn::Item;

use crate::offence::Offence;
use crate::source::SourceFile;
use crate::tokens::{Token, follows_double_colon, is_double_colon};
use crate::workspace::Workspace;

/// An enum of kinds and where it may be taken apart.
pub struct Kind {
    /// Its name.
    pub name: &'static str,
    /// Methods that answer what kind it is.
    pub questions: &'static [&'static str],
    /// The folder in which this is held. Elsewhere the name may stand for something else.
    pub within: &'static str,
    /// Files, and folders ending in `/`, that may name its variants.
    pub home: &'static [&'static str],
}

/// Files that know how an instance is reached and where it comes from.
const INSTANCE_HOME: &[&str] = &[
    "manager/src/control/link.rs",
    "manager/src/control/link/",
    "manager/src/control/origin.rs",
    "manager/src/control/origin/",
    "manager/src/control/instances/carry_out.rs",
];

/// Every enum of kinds.
pub const KINDS: &[Kind] = &[
    Kind { name: "Link", questions: &["is_external"], within: "manager/src/", home: INSTANCE_HOME },
    Kind { name: "Origin", questions: &["attaches"], within: "manager/src/", home: INSTANCE_HOME },
];

/// Returns each mention of a variant outside the home of its enum.
pub fn asked_elsewhere(workspace: &Workspace, kinds: &[Kind]) -> Vec<Offence> {
    kinds.iter().flat_map(|kind| asked_of(workspace, kind)).collect()
}

fn asked_of(workspace: &Workspace, kind: &Kind) -> Vec<Offence> {
    let (home, others): (Vec<_>, Vec<_>) = workspace
        .code()
        .filter(|file| file.path.starts_with(kind.within))
        .partition(|file| kind.is_at_home(&file.path));
    let mut offences = kind.misplaced(&home);
    let variants = kind.variants(&home);
    for file in others {
        offences.extend(mentions(file, kind, &variants));
    }
    offences
}

impl Kind {
    fn is_at_home(&self, path: &str) -> bool {
        self.home.iter().any(|home| path.starts_with(home))
    }

    /// Returns the variants of the enum, as its home defines them.
    fn variants(&self, home: &[&SourceFile]) -> BTreeSet<String> {
        let enums = home.iter().flat_map(|file| &file.items).filter_map(|item| match item {
            Item::Enum(item) if item.ident == self.name => Some(item),
            _ => None,
        });
        enums.flat_map(|item| &item.variants).map(|variant| variant.ident.to_string()).collect()
    }

    /// Returns what of the table is no longer true, lest the rule find nothing for ever.
    fn misplaced(&self, home: &[&SourceFile]) -> Vec<Offence> {
        let is_empty = |place: &&&str| !home.iter().any(|file| file.path.starts_with(**place));
        let gone = self.home.iter().filter(is_empty).map(|place| (*place, "is gone".to_owned()));
        let undefined = self.variants(home).is_empty();
        let no_enum = undefined.then(|| (self.within, format!("has no `enum {}` in its home", self.name)));
        let mend = |what: String| format!("{what}: mend KINDS in tests/tidy/src/rules/kinds.rs");
        gone.chain(no_enum).map(|(place, what)| Offence::new(place, 1, 1, mend(what))).collect()
    }
}

fn mentions(file: &SourceFile, kind: &Kind, variants: &BTreeSet<String>) -> Vec<Offence> {
    let tokens = file.code();
    let names = names_of(kind.name, &tokens);
    let words = tokens.iter().enumerate().filter_map(|(at, token)| Some((at, token.word()?)));
    let found = words.filter_map(|(at, word)| {
        let is_member = at > 0 && tokens[at - 1].is('.') || follows_double_colon(&tokens, at);
        if kind.questions.contains(&word) && is_member {
            return Some((at, word.to_owned()));
        }
        let is_path = names.contains(word) && is_double_colon(&tokens, at + 1);
        let member = tokens.get(at + 3).filter(|_| is_path)?;
        is_variant(member, variants).then(|| (at, format!("{word}::{}", member.word().unwrap_or("…"))))
    });
    found.map(|(at, what)| Offence::new(&file.path, tokens[at].line(), 0, what)).collect()
}

/// Returns whether the token that follows an enum's `::` is a variant, or a group or glob of them, not a
/// function or constant.
fn is_variant(token: &Token, variants: &BTreeSet<String>) -> bool {
    token.word().map_or_else(|| token.is('{') || token.is('*'), |word| variants.contains(word))
}

/// Returns the enum's name and those it is given by `as`.
fn names_of<'t>(name: &'t str, tokens: &'t [Token]) -> BTreeSet<&'t str> {
    let renamed =
        tokens.windows(3).filter(|three| three[0].word() == Some(name) && three[1].word() == Some("as"));
    renamed.filter_map(|three| three[2].word()).chain([name]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::planted;

    const TEST_KINDS: &[Kind] =
        &[Kind { name: "Link", questions: &["is_ring"], within: "a/", home: &["a/src/link.rs"] }];
    const HOME: (&str, &str) = (
        "a/src/link.rs",
        "pub enum Link { Ring, Wire } impl Link { pub fn x(&self) { match self { Link::Ring => {} _ => {} } } }",
    );

    fn found(user: &str) -> Vec<(usize, String)> {
        let root = format!("mod link;\n{user}");
        let other = ("b/src/lib.rs", "enum Link { Ring } const A: Link = Link::Ring;");
        let manifests =
            [("a/Cargo.toml", "[package]\nname = 'a'"), ("b/Cargo.toml", "[package]\nname = 'b'")];
        let workspace = planted(&[manifests[0], manifests[1], HOME, ("a/src/lib.rs", &root), other]);
        asked_elsewhere(&workspace, TEST_KINDS).into_iter().map(|one| (one.line, one.what)).collect()
    }

    #[test]
    fn a_variant_outside_the_home_is_found() {
        let told = |line: usize, what: &str| (line, what.to_owned());
        assert_eq!(found("fn f(l: link::Link) { if let link::Link::Ring = l {} }"), [told(2, "Link::Ring")]);
        assert_eq!(found("fn f() {\nmatches!(l, Link::Wire) }"), [told(3, "Link::Wire")]);
        assert_eq!(found("use link::Link as L; fn f() { L::Ring }"), [told(2, "L::Ring")]);
        assert_eq!(found("use link::Link::{Ring, Wire};"), [told(2, "Link::…")]);
        assert_eq!(found("fn f() { l.is_ring() }"), [told(2, "is_ring")]);
        assert_eq!(found("fn f() { ls.all(link::Link::is_ring) }"), [told(2, "is_ring")]);
    }

    #[test]
    fn the_home_tests_and_functions_are_free() {
        let clean = "fn f() { link::Link::new(); l.x(); let is_ring = link::Link::MAX; A { a: is_ring } } // Link::Ring
            #[cfg(test)] mod tests { fn g() { super::link::Link::Ring; } }";
        assert_eq!(found(clean), []);
    }

    #[test]
    fn a_home_that_moved_away_is_found() {
        let manifest = ("a/Cargo.toml", "[package]\nname = 'a'");
        let moved = [manifest, ("a/src/lib.rs", "mod cable;"), ("a/src/cable.rs", HOME.1)];
        let renamed = [manifest, ("a/src/lib.rs", "mod link;"), ("a/src/link.rs", "enum Cable { Ring }")];
        let told = |texts: &[(&str, &str)]| asked_elsewhere(&planted(texts), TEST_KINDS)[0].to_string();
        assert!(told(&moved).starts_with("a/src/link.rs:1: is gone"));
        assert!(told(&renamed).starts_with("a/:1: has no `enum Link` in its home"));
    }
}
