//! Numbers of things, each with a type of its own so that none is taken for another.
//!
//! A configuration names things; the manager numbers them when they begin to exist, and the packet path knows
//! them by these numbers alone. A number is not given to another thing while a packet may still carry it.

/// Makes numbers of things that are types of their own. Where the caller's package has the feature `serde`,
/// they serialise as plain numbers.
#[macro_export]
macro_rules! number {
    ($($(#[doc = $doc:literal])+ $name:ident($inner:ty);)+) => {$(
        $(#[doc = $doc])+
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(transparent))]
        pub struct $name(pub $inner);

        impl $name {
            /// Returns it as an index.
            #[must_use]
            #[inline(always)]
            pub const fn index(self) -> usize {
                self.0 as usize
            }

            /// Returns the number that follows.
            #[must_use]
            pub const fn next(self) -> Self {
                Self(self.0 + 1)
            }
        }

        impl core::fmt::Display for $name {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                self.0.fmt(f)
            }
        }
    )+};
}

number! {
    /// A chain of the plan. Number 0 is that of packets no rule claims.
    ChainId(u16);
    /// An NF: a stage of chains, served by one instance or by several.
    NfId(u16);
    /// An instance of an NF.
    InstanceId(u16);
    /// A port, in the order of the configuration.
    PortId(u16);
    /// A packet region: that of the trust domain with the same place in the configuration.
    RegionId(u8);
    /// A core, as the kernel numbers them.
    CoreId(u16);
    /// A worker, in the order of the configured cores.
    WorkerId(u8);
}
