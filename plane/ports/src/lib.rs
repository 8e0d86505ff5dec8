//! One trait, many ports.
