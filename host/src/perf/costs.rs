//! Costs of this machine's memory and kernel, measured once and kept.

use serde::{Deserialize, Serialize};

use super::kernel::{self, KernelCostError};
use super::machine::{Caches, Identity};
use super::memory::{Arena, LINE_BYTES, Order, PAGE_BYTES, Pages};
use crate::environment::Environment;
use crate::sched::Policy;

/// Strides of the curve, in bytes: a line, the frames of a small buffer, and a page.
pub const STRIDES: [usize; 4] = [64, 256, 1024, 4096];
/// The smallest working set: a page has room for a chain of pages too.
const BYTES_MIN: usize = PAGE_BYTES;
/// The largest working set, whatever the caches are: beyond, the walk takes longer than it is worth.
const BYTES_MAX: usize = 2 << 30;
/// Pages of a set whose translations the second TLB knows and the first does not: first ones have 32 to 96
/// entries, second ones 1024 to 3072 (Intel and AMD, 2015 to 2024).
const PAGES_L2: usize = 512;
/// Pages of a set whose translations no TLB knows.
const PAGES_BEYOND: usize = 16_384;

/// A row of the curve: nanoseconds of a dependent load.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Bytes walked over.
    pub bytes: u64,
    /// Time of a load in random order.
    pub random_ns: f64,
    /// Time of a load in steps of each of [`STRIDES`].
    pub stride_ns: [f64; STRIDES.len()],
}

/// Costs of the kernel under a policy; absent where it was not allowed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OfPolicy {
    /// A switch from one process to another, in nanoseconds.
    pub switch_ns: Option<f64>,
    /// A system call, in nanoseconds.
    pub call_ns: Option<f64>,
}

/// The kernel's costs by policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ByPolicy {
    /// `SCHED_OTHER`.
    pub normal: OfPolicy,
    /// `SCHED_BATCH`.
    pub batch: OfPolicy,
    /// `SCHED_RR`.
    pub rr: OfPolicy,
    /// `SCHED_FIFO`.
    pub fifo: OfPolicy,
}

impl ByPolicy {
    /// Returns the costs of a policy by its name in the configuration; of a normal task under any other name.
    #[must_use]
    pub fn of(&self, policy: &str) -> OfPolicy {
        match policy {
            "batch" => self.batch,
            "rr" => self.rr,
            "fifo" => self.fifo,
            _ => self.normal,
        }
    }
}

/// Everything that was measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MachineCosts {
    /// Time of the measurement, in seconds since 1970.
    pub measured_at: u64,
    /// The caches the curve was measured over.
    pub caches: Caches,
    /// The curve, in rising order of bytes.
    pub curve: Vec<Row>,
    /// Additional time of a load whose translation only the second TLB knows, in nanoseconds.
    pub translation_l2_ns: f64,
    /// Additional time of a load whose translation has to be walked for.
    pub walk_ns: f64,
    /// The kernel.
    pub kernel: ByPolicy,
    /// Costs that could not be measured, and the reasons, in sentences.
    #[serde(alias = "troubles")] // Its earlier name; kept files have it.
    pub limitations: Vec<String>,
}

/// Measures: some ten seconds on `core`, and up to 2 GiB of memory for a moment. `progress` hears what is
/// next.
///
/// # Errors
/// Fails if the kernel gives no memory.
pub fn measure(core: u32, progress: &mut dyn FnMut(&str)) -> std::io::Result<MachineCosts> {
    let caches = Identity::observe().caches;
    progress("context switches and system calls by policy");
    let (kernel, mut limitations) = by_policy(core);
    progress("loads from each level of memory");
    let largest = largest_bytes(&caches, Environment::observe().memory_available_bytes.unwrap_or(0));
    if (largest as u64) < 2 * last_bytes(&caches) {
        limitations.push(format!(
            "memory beyond the last cache was not walked over: it takes {} MiB, and {} MiB may be used here",
            (2 * last_bytes(&caches)) >> 20,
            largest >> 20
        ));
    }
    let measure = move || -> std::io::Result<(Vec<Row>, f64, f64)> {
        // Without the core of its choice the figures are those of whichever it was on.
        let _ = crate::cores::pin_current_thread(core);
        let curve = curve(largest)?;
        let (translation_l2_ns, walk_ns) = translations()?;
        Ok((curve, translation_l2_ns, walk_ns))
    };
    let (curve, translation_l2_ns, walk_ns) =
        std::thread::scope(|scope| scope.spawn(measure).join().expect("measuring does not panic"))?;
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let measured_at = since.map_or(0, |since| since.as_secs());
    Ok(MachineCosts { measured_at, caches, curve, translation_l2_ns, walk_ns, kernel, limitations })
}

const fn last_bytes(caches: &Caches) -> u64 {
    let upper = if caches.l1_bytes > caches.l2_bytes { caches.l1_bytes } else { caches.l2_bytes };
    if caches.l3_bytes > upper { caches.l3_bytes } else { upper }
}

/// Twice the last cache and up to the next power of two, but at most a quarter of what is free.
fn largest_bytes(caches: &Caches, available: u64) -> usize {
    let wanted = (2 * last_bytes(caches)).max(16 << 20).next_power_of_two() as usize;
    let mut bytes = wanted.min(BYTES_MAX);
    while bytes as u64 > available / 4 && bytes > BYTES_MIN {
        bytes /= 2;
    }
    bytes
}

fn curve(largest: usize) -> std::io::Result<Vec<Row>> {
    let mut arena = Arena::new(largest, Pages::Large)?;
    let mut rows = Vec::new();
    let mut bytes = BYTES_MIN;
    while bytes <= largest {
        rows.push(Row {
            bytes: bytes as u64,
            random_ns: arena.walk_ns(bytes, Order::Random),
            stride_ns: STRIDES.map(|stride| arena.walk_ns(bytes, Order::Stride(stride))),
        });
        bytes *= 2;
    }
    Ok(rows)
}

/// Returns the costs of translation: as many lines in as many pages, less the same lines side by side: what
/// is left is translation.
fn translations() -> std::io::Result<(f64, f64)> {
    let mut sparse = Arena::new(PAGES_BEYOND * PAGE_BYTES, Pages::Small)?;
    let mut dense = Arena::new(PAGES_BEYOND * LINE_BYTES, Pages::Large)?;
    let mut beyond = |pages: usize| {
        let apart = sparse.walk_ns(pages * PAGE_BYTES, Order::Pages);
        (apart - dense.walk_ns(pages * LINE_BYTES, Order::Random)).max(0.0)
    };
    Ok((beyond(PAGES_L2), beyond(PAGES_BEYOND)))
}

fn by_policy(core: u32) -> (ByPolicy, Vec<String>) {
    let mut limitations = Vec::new();
    let mut of = |name: &str, policy: Policy| match kernel::measure(core, policy) {
        Ok(costs) => OfPolicy { switch_ns: Some(costs.switch_ns), call_ns: Some(costs.call_ns) },
        Err(error) => {
            limitations.push(limitation(name, &error));
            OfPolicy::default()
        }
    };
    // Low among real-time tasks: tasks that are there for a purpose run first.
    let priority = 1;
    let costs = ByPolicy {
        normal: of("normal", Policy::Normal { nice: 0, slice_ns: None }),
        batch: of("batch", Policy::Batch { nice: 0, slice_ns: None }),
        rr: of("rr", Policy::RoundRobin { priority }),
        fifo: of("fifo", Policy::Fifo { priority }),
    };
    (costs, limitations)
}

fn limitation(policy: &str, error: &KernelCostError) -> String {
    format!("policy {policy} was not measured: {error}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_walked_over_exceeds_the_caches_and_leaves_memory_to_others() {
        let of = |l3: u64, available: u64| {
            let caches = Caches { l1_bytes: 48 << 10, l2_bytes: 2 << 20, l3_bytes: l3, l2_ways: 16 };
            largest_bytes(&caches, available) >> 20
        };
        assert_eq!(of(32 << 20, 16 << 30), 64);
        assert_eq!(of(300 << 20, 24 << 30), 1024);
        assert_eq!(of(300 << 20, 1 << 30), 256);
        assert_eq!(of(4 << 30, 1 << 40), 2048);
        assert_eq!(of(0, 24 << 30), 16);
    }

    #[test]
    fn policies_are_found_by_their_names() {
        let some = |ns| OfPolicy { switch_ns: Some(ns), call_ns: None };
        let costs = ByPolicy { normal: some(1.0), batch: some(2.0), rr: some(3.0), fifo: some(4.0) };
        let found = ["normal", "batch", "rr", "fifo", "idle"].map(|name| costs.of(name).switch_ns.unwrap());
        assert_eq!(found, [1.0, 2.0, 3.0, 4.0, 1.0]);
    }
}
