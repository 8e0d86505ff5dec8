//! Conformance, end-to-end and differential tests.
