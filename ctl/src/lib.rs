//! The headgate command.
