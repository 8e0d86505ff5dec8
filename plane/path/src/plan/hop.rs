//! Hop: one step of a chain, worked out in advance, and the word it is packed in.

use headgate_units::{InstanceId, NfId, PortId};

use crate::drop::DropReason;

/// Another node, in the order of [`Parts::nodes`](super::Parts::nodes).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u16);

impl NodeId {
    /// Returns its number in service headers, where 0 is none.
    #[must_use]
    pub(crate) const fn number(self) -> u16 {
        self.0.wrapping_add(1)
    }

    /// Returns the node of a number in service headers.
    #[must_use]
    pub(crate) const fn of_number(number: u16) -> Option<Self> {
        match number.checked_sub(1) {
            Some(place) => Some(Self(place)),
            None => None,
        }
    }
}

/// A tunnel, in the order of [`Parts::tunnels`](super::Parts::tunnels).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TunnelId(pub u16);

/// A stage of a chain that several nodes serve, in the order of [`Parts::shares`](super::Parts::shares).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ShareId(pub u16);

/// Next step of packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Hop {
    /// To this instance, at this position of the chain.
    Instance {
        /// Position of the stage, after bypassed ones.
        position: u8,
        /// The instance.
        number: InstanceId,
    },
    /// To the instance that the flow's slot names.
    Spread {
        /// Position of the stage, after bypassed ones.
        position: u8,
        /// The stage whose table says which.
        stage: NfId,
    },
    /// To an instance here, or to the node that the flow's slot names.
    Shared {
        /// Position of the stage.
        position: u8,
        /// The table that says which.
        share: ShareId,
    },
    /// To another node, which serves the stage at this position.
    Node {
        /// Position of the stage, after bypassed ones.
        position: u8,
        /// The node.
        node: NodeId,
    },
    /// Out of this port.
    Port(PortId),
    /// Out of a port, behind the header of this tunnel.
    Tunnel(TunnelId),
    /// Nowhere.
    End(DropReason),
}

/// A [`Hop`] in one word, so that the hops of a burst are compared like numbers.
///
/// ```text
///  31    24 23              16 15        0
/// |  kind  | position, reason |  number   |
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PackedHop(u32);

const KIND_SHIFT: u32 = 24;
const MIDDLE_SHIFT: u32 = 16;
const INSTANCE: u32 = 0;
const SPREAD: u32 = 1;
const SHARED: u32 = 2;
const NODE: u32 = 3;
const PORT: u32 = 4;
const TUNNEL: u32 = 5;
const END: u32 = 6;

impl PackedHop {
    #[inline(always)]
    const fn new(kind: u32, middle: u8, number: u16) -> Self {
        Self(kind << KIND_SHIFT | (middle as u32) << MIDDLE_SHIFT | number as u32)
    }

    /// Returns whether the plan alone does not say which instance, or which node.
    #[inline(always)]
    pub const fn is_spread(self) -> bool {
        (self.0 >> KIND_SHIFT).wrapping_sub(SPREAD) <= SHARED - SPREAD
    }

    /// Returns the word: equal for equal hops.
    #[inline(always)]
    pub const fn bits(self) -> u64 {
        self.0 as u64
    }

    /// Returns the hop.
    #[inline(always)]
    pub const fn unpack(self) -> Hop {
        let (position, number) = ((self.0 >> MIDDLE_SHIFT) as u8, self.0 as u16);
        match self.0 >> KIND_SHIFT {
            INSTANCE => Hop::Instance { position, number: InstanceId(number) },
            SPREAD => Hop::Spread { position, stage: NfId(number) },
            SHARED => Hop::Shared { position, share: ShareId(number) },
            NODE => Hop::Node { position, node: NodeId(number) },
            PORT => Hop::Port(PortId(number)),
            TUNNEL => Hop::Tunnel(TunnelId(number)),
            _ => Hop::End(DropReason::ALL[position as usize]),
        }
    }
}

impl From<Hop> for PackedHop {
    #[inline(always)]
    fn from(hop: Hop) -> Self {
        match hop {
            Hop::Instance { position, number } => Self::new(INSTANCE, position, number.0),
            Hop::Spread { position, stage } => Self::new(SPREAD, position, stage.0),
            Hop::Shared { position, share } => Self::new(SHARED, position, share.0),
            Hop::Node { position, node } => Self::new(NODE, position, node.0),
            Hop::Port(port) => Self::new(PORT, 0, port.0),
            Hop::Tunnel(tunnel) => Self::new(TUNNEL, 0, tunnel.0),
            Hop::End(reason) => Self::new(END, reason as u8, 0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_hop_comes_out_as_it_went_in(kind in 0..7, position: u8, number: u16) {
            let hop = match kind {
                0 => Hop::Instance { position, number: InstanceId(number) },
                1 => Hop::Spread { position, stage: NfId(number) },
                2 => Hop::Shared { position, share: ShareId(number) },
                3 => Hop::Node { position, node: NodeId(number) },
                4 => Hop::Port(PortId(number)),
                5 => Hop::Tunnel(TunnelId(number)),
                _ => Hop::End(DropReason::ALL[usize::from(position) % DropReason::ALL.len()]),
            };
            let packed = PackedHop::from(hop);
            prop_assert_eq!(packed.unpack(), hop);
            prop_assert_eq!(packed.is_spread(), kind == 1 || kind == 2);
        }
    }
}
