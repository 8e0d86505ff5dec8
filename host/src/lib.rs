//! Hands on the operating system.
