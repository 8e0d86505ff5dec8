//! The memory shared between the manager and the network functions.
