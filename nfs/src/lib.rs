//! The network functions Headgate ships, and the process that hosts them.
