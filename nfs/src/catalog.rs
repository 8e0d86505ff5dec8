//! The list of shipped NFs: names, what they do, their arguments, and how each is made.

use headgate_nf::{Build, Context, Member, NetworkFunction, NfError};
use serde::Serialize;

/// A shipped NF.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Entry {
    /// Its name in `run = "…"`.
    pub name: &'static str,
    /// Summary of its work, in one line.
    pub summary: &'static str,
    /// Its arguments.
    pub arguments: &'static [Argument],
    /// Name of the argument with the path of files that it writes, if it writes any.
    pub writes: Option<&'static str>,
    /// Whether it has state that can be kept.
    pub keeps: bool,
    /// Whether it can read or write files, which takes a process of its own.
    pub uses_files: bool,
    /// Whether it takes frames that are not cut yet.
    pub takes_long_frames: bool,
    /// The messages it takes.
    pub messages: &'static [Message],
    /// The counters it publishes.
    pub counters: &'static [Count],
    #[serde(skip)]
    pub(crate) build: fn(&mut Context) -> Result<Box<dyn NetworkFunction>, NfError>,
}

/// One argument of an NF.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Argument {
    /// Its key in `args`.
    pub name: &'static str,
    /// Kind of its value, in words.
    pub kind: &'static str,
    /// Whether it must be there.
    pub required: bool,
    /// Its meaning, and the default.
    pub text: &'static str,
}

/// A message an NF takes.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Message {
    /// Its body, or its shape.
    pub body: &'static str,
    /// Its effect.
    pub text: &'static str,
}

/// A counter of an NF.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Count {
    /// Its name.
    pub name: &'static str,
    /// Things that it counts.
    pub text: &'static str,
}

/// Makes the description of an NF; each NF's file has one.
pub(crate) const fn entry(
    name: &'static str,
    summary: &'static str,
    build: fn(&mut Context) -> Result<Box<dyn NetworkFunction>, NfError>,
) -> Entry {
    Entry {
        name,
        summary,
        arguments: &[],
        writes: None,
        keeps: false,
        uses_files: false,
        takes_long_frames: false,
        messages: &[],
        counters: &[],
        build,
    }
}

impl Entry {
    /// Makes the NF.
    ///
    /// # Errors
    /// Errors in its arguments.
    pub fn build(&self, context: &mut Context) -> Result<Box<dyn NetworkFunction>, NfError> {
        (self.build)(context)
    }

    /// The NF as one of several in a process.
    #[must_use]
    pub fn member(&self) -> Member {
        Member { label: self.name.to_owned(), build: self.builder() }
    }

    /// Returns what makes the NF.
    #[must_use]
    pub fn builder(&self) -> Build {
        Box::new(self.build)
    }
}

/// Every shipped NF, by name.
pub const CATALOG: &[Entry] = &[
    crate::cache::ENTRY,
    crate::firewall::ENTRY,
    crate::forward::ENTRY,
    HELLO,
    crate::mac_swap::ENTRY,
    crate::monitor::ENTRY,
    crate::packet_logger::ENTRY,
    crate::router::ENTRY,
    crate::synthetic::ENTRY,
];

/// The template's entry stands here and not in its file: the file is a program that anyone may copy.
const HELLO: Entry = Entry {
    arguments: &[Argument {
        name: "shortest",
        kind: "a whole number",
        required: false,
        text: "frames shorter than this are dropped, in bytes; 0 without it",
    }],
    messages: &[Message { body: "NAME", text: "says hello to NAME" }],
    counters: &[
        Count { name: "ip", text: "frames of IPv4 and IPv6 without VLAN tags" },
        Count { name: "other", text: "other frames" },
    ],
    ..entry("hello", "the template: counts frames by kind and says hello", |context| {
        Ok(Box::new(crate::hello::Hello::new(context)?))
    })
};

/// No shipped NF has this name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownNfError(pub String);

impl std::fmt::Display for UnknownNfError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<_> = CATALOG.iter().map(|entry| entry.name).collect();
        write!(f, "there is no network function `{}`; there are {}", self.0, names.join(", "))
    }
}

impl std::error::Error for UnknownNfError {}

/// The NF of this name.
///
/// # Errors
/// [`UnknownNfError`], which lists those that are.
pub fn find(name: &str) -> Result<&'static Entry, UnknownNfError> {
    CATALOG.iter().find(|entry| entry.name == name).ok_or_else(|| UnknownNfError(name.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use headgate_nf::testing;
    use std::collections::BTreeSet;

    #[test]
    fn the_list_is_in_order_and_names_are_unique() {
        assert!(CATALOG.is_sorted_by(|one, next| one.name < next.name));
        assert!(find("farward").unwrap_err().to_string().contains("forward"));
    }

    /// The keys an NF takes are those its entry documents: serde lists them when it refuses another.
    #[test]
    fn documented_arguments_are_the_ones_taken() {
        for entry in CATALOG {
            let refused = testing::check(r#"{"no such":1}"#, |context| entry.build(context)).unwrap_err();
            let refused = refused.to_string();
            let listed = refused.split_once("expected").map_or("", |(_, listed)| listed);
            let taken: BTreeSet<_> = listed.split('`').skip(1).step_by(2).collect();
            let documented: BTreeSet<_> = entry.arguments.iter().map(|argument| argument.name).collect();
            assert_eq!(taken, documented, "{}: {refused}", entry.name);
        }
    }

    /// What a plan says of long frames is what the NF says when it is ready.
    #[test]
    fn an_nf_takes_long_frames_where_its_entry_says_so() {
        for entry in CATALOG {
            let arguments = if entry.name == "firewall" { r#"{"rules": []}"# } else { "{}" };
            let mut takes = None;
            let _ = testing::check(arguments, |context| {
                let nf = entry.build(context)?;
                takes = Some(nf.takes_long_frames());
                Ok(nf)
            });
            assert_eq!(takes.unwrap_or(false), entry.takes_long_frames, "{}", entry.name);
        }
    }

    #[test]
    fn an_nf_without_required_arguments_starts_without_any() {
        for entry in CATALOG {
            let required = entry.arguments.iter().any(|argument| argument.required);
            let started = testing::check("{}", |context| entry.build(context));
            assert_eq!(started.is_err(), required, "{}", entry.name);
        }
    }
}
