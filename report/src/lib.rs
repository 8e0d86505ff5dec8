//! Reports of what was measured or simulated: values in, files out. Nothing here asks the machine.
//!
//! - [`plot`]: what can be drawn, as plain values;
//! - [`draw`]: the drawing, as SVG for light and dark screens;
//! - [`report`]: a report, its values round by round and where they were measured;
//! - [`place`]: the folder that a run leaves, and the files in it;
//! - [`compare`]: two reports, value by value.
#![forbid(unsafe_code)]

mod clock;
pub mod compare;
pub mod draw;
mod page;
pub mod place;
pub mod plot;
pub mod report;
