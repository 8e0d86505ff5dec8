//! The C ABI of the network function library.
