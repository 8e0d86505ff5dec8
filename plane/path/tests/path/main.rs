//! The path as a whole: ports, workers and NFs in one process, most of them stepped by hand.

mod bounds;
mod delays;
mod domains;
mod harness;
mod hostile;
mod long;
mod made;
mod pressure;
mod replica;
mod residents;
mod seams;
mod service;
mod standby;
mod traces;
mod way;
mod workers;
