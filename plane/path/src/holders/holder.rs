//! Holder of a buffer.

use headgate_units::InstanceId;

/// Holder of a buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Holder(pub(super) u16);

impl Holder {
    /// Nobody: the buffer is free, or a device has it.
    pub const FREE: Self = Self(0);
    /// A worker: between stations, on its way to another worker, or waiting for room in a ring.
    pub const WORKER: Self = Self(1);
    /// The station `commit`: the packet waits until its output may be seen.
    pub const COMMIT: Self = Self(2);
    /// The log of a group at its gate: the packet may have to be sent again.
    pub const LOG: Self = Self(3);
    /// The latch of a group: the output waits until the standby knows what it rests on.
    pub const LATCH: Self = Self(4);
    /// Holders below this are none of the instances.
    const FIRST_INSTANCE: u16 = 16;

    /// Returns an NF instance as a holder.
    #[inline(always)]
    #[must_use]
    pub const fn instance(instance: InstanceId) -> Self {
        Self(Self::FIRST_INSTANCE + instance.0)
    }

    /// Returns whether it is an NF instance.
    #[inline(always)]
    #[must_use]
    pub const fn is_instance(self) -> bool {
        self.0 >= Self::FIRST_INSTANCE
    }
}
