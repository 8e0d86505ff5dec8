//! Measures what makes the workspace hard to read, and holds each number against a ratchet.
//!
//! A [rule](Rule) reads the parsed [`Workspace`] and returns its offences. Their number stands in
//! `ratchets.toml`; the test fails when the measured number is above the committed one, and also when it is
//! below, so that what was mended stays mended: the numbers only fall. A rule that the workspace keeps has
//! the ratchet 0.
//!
//! `cargo run -p headgate-tidy -- RULE…` prints the offences of rules without judging them.
//!
//! Rules read tokens and syntax, not types: each says what it cannot see. They are shared by all: bodies of
//! `macro_rules!` and arguments of macros are tokens to them, not functions or items.

#![forbid(unsafe_code)]

mod offence;
pub mod ratchet;
mod rules;
mod source;
mod tokens;
mod tree;
mod workspace;

pub use offence::{Measured, Rule};
pub use rules::RULES;
pub use workspace::Workspace;
