//! The daemon: configuration, workers, control loop, API.
