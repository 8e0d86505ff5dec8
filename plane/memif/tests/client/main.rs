//! A client of the protocol as DPDK's is, one that lies in every field it can, and one for the suite of all
//! queues.

mod conformance;
mod hostile;
mod peer;
