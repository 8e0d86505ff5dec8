//! From a curve of access times to what each level of memory costs.
//!
//! A walk along a random chain of pointers takes, at each step, what the level takes in which the chain fits.
//! Of the points that lie well inside a level the fastest counts: whatever else happens on a machine, it
//! makes a load slower and never faster.

/// One measurement: a dependent load in a working set of so many bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Bytes walked over.
    pub bytes: u64,
    /// Time of one load, in nanoseconds.
    pub ns: f64,
}

/// Sizes at which the levels end, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Curve {
    /// Size of the first data cache.
    pub l1_bytes: u64,
    /// Size of the second cache; 0 where there is none.
    pub l2_bytes: u64,
    /// Size of the third cache; 0 where there is none.
    pub l3_bytes: u64,
}

/// A dependent load from each level, in nanoseconds; absent where no measurement lies in the level.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Levels {
    /// The first cache.
    pub l1_ns: Option<f64>,
    /// The second.
    pub l2_ns: Option<f64>,
    /// The third.
    pub l3_ns: Option<f64>,
    /// Memory.
    pub dram_ns: Option<f64>,
}

/// The part of a cache within which a working set certainly fits, as a divisor. Our choice: half is left to
/// page tables, the stack and other programs.
const INSIDE: u64 = 2;
/// By how much a working set must exceed a cache to be outside. Our choice: at twice its size at most half of
/// all loads still hit it; points in between belong to nobody.
const OUTSIDE: u64 = 2;

/// Returns the latency of each level.
#[must_use]
pub fn levels(points: &[Point], curve: &Curve) -> Levels {
    let within = |beyond: u64, inside: u64| {
        let here = points.iter().filter(|p| p.bytes >= beyond * OUTSIDE && p.bytes <= inside / INSIDE);
        here.map(|point| point.ns).reduce(f64::min)
    };
    let last = curve.l1_bytes.max(curve.l2_bytes).max(curve.l3_bytes);
    Levels {
        l1_ns: within(0, curve.l1_bytes),
        l2_ns: within(curve.l1_bytes, curve.l2_bytes),
        l3_ns: within(curve.l2_bytes.max(curve.l1_bytes), curve.l3_bytes),
        dram_ns: within(last, u64::MAX),
    }
}
