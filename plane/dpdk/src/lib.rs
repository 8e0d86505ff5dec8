//! The only place that knows DPDK.
