//! Flags of the instances that are throttled.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use headgate_units::InstanceId;

/// Throttled instances, as all workers see them: one flag for each, written by the worker that owns it.
pub struct Pressure {
    throttled: Box<[AtomicBool]>,
    count: AtomicU32,
}

impl Pressure {
    /// Returns flags of `instances`, none of them throttled.
    #[must_use]
    pub fn new(instances: usize) -> Self {
        let throttled = (0..instances).map(|_| AtomicBool::new(false)).collect();
        Self { throttled, count: AtomicU32::new(0) }
    }

    /// Returns whether any instance is throttled.
    #[inline(always)]
    #[must_use]
    pub fn any(&self) -> bool {
        self.count.load(Ordering::Relaxed) > 0
    }

    /// Returns whether this instance is throttled.
    #[inline(always)]
    #[must_use]
    pub fn is_throttled(&self, instance: InstanceId) -> bool {
        self.throttled[instance.index()].load(Ordering::Relaxed)
    }

    /// Sets the flag. Only the worker that owns the instance may call this.
    pub(crate) fn set(&self, instance: InstanceId, throttled: bool) {
        if self.throttled[instance.index()].swap(throttled, Ordering::Relaxed) != throttled {
            if throttled {
                self.count.fetch_add(1, Ordering::Relaxed);
            } else {
                self.count.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }
}
