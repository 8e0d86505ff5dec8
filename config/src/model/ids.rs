//! Numbers of things by their place in a configuration.

use serde::Serialize;

macro_rules! index {
    ($($(#[doc = $doc:literal])+ $name:ident;)+) => {$(
        $(#[doc = $doc])+
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
        #[serde(transparent)]
        pub struct $name(pub u16);

        impl $name {
            /// Returns the number as the index of a slice.
            pub const fn index(self) -> usize {
                self.0 as usize
            }
        }
    )+};
}

index! {
    /// A place in [`super::Config::domains`].
    DomainId;
    /// A place in [`super::Config::ports`].
    PortId;
    /// A place in [`super::Config::nfs`].
    NfId;
    /// A place in [`super::Config::chains`].
    ChainId;
}
