//! The papers' experiments, each one command.
