//! The stations a packet passes.
