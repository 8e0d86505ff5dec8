//! The library a network function is written against.
