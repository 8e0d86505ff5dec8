//! The rules, in the order of `ratchets.toml`.

mod circles;
mod comments;
mod dead_pub;
mod files;
mod functions;
mod kinds;
mod names;

use crate::offence::Rule;

/// Every rule there is.
pub const RULES: &[Rule] = &[
    Rule {
        name: "functions_over_40_lines",
        asks: "functions are mostly of 40 lines or fewer",
        find: |workspace| functions::longer_than(workspace, 40),
    },
    Rule {
        name: "functions_over_70_lines",
        asks: "functions are rarely of more than 70 lines",
        find: |workspace| functions::longer_than(workspace, 70),
    },
    Rule {
        name: "functions_over_6_parameters",
        asks: "functions have 6 parameters or fewer, the receiver among them",
        find: functions::with_many_parameters,
    },
    Rule {
        name: "too_many_arguments_excused",
        asks: "no function is excused from clippy::too_many_arguments",
        find: functions::excused_from_few_arguments,
    },
    Rule {
        name: "files_over_400_lines",
        asks: "files are mostly of 400 lines or fewer",
        find: |workspace| files::longer_than(workspace, 400),
    },
    Rule {
        name: "files_over_800_lines",
        asks: "files are of 800 lines or fewer",
        find: |workspace| files::longer_than(workspace, 800),
    },
    Rule {
        name: "comments_over_110_columns",
        asks: "comments and doc comments are wrapped at 110 columns, and C altogether",
        find: comments::wider_than_allowed,
    },
    Rule {
        name: "dead_pub",
        asks: "nothing is public that no other crate names",
        find: dead_pub::unnamed_elsewhere,
    },
    Rule {
        name: "kinds_outside_their_home",
        asks: "nobody asks what kind a thing is, but the files of its kinds",
        find: |workspace| kinds::asked_elsewhere(workspace, kinds::KINDS),
    },
    Rule {
        name: "files_in_circles",
        asks: "files of a crate do not depend on each other in a circle",
        find: circles::circles,
    },
];

/// A workspace of planted sources, for the tests of rules.
#[cfg(test)]
pub fn planted(texts: &[(&str, &str)]) -> crate::workspace::Workspace {
    let texts = texts.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned()));
    crate::workspace::Workspace::of(texts.collect()).unwrap_or_else(|error| panic!("{error}"))
}

/// A workspace of one library with one file, for the tests of rules.
#[cfg(test)]
pub fn planted_file(text: &str) -> crate::workspace::Workspace {
    planted(&[("a/Cargo.toml", "[package]\nname = 'a'"), ("a/src/lib.rs", text)])
}
