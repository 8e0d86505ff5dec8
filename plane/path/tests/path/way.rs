//! A packet's way: in by a port, through a chain, out by a port, or to another end that is counted.

mod chains;
mod classify;
mod fragments;
mod instances;
mod look_up;
mod plans;
mod program;
mod straight;
mod verdicts;
