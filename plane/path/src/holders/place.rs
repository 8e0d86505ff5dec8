//! Word that holds where a packet is, and the part of it that holds where it entered.

use headgate_units::{ChainId, PortId};

use super::holder::Holder;

/// Place of a packet: holder, chain, position in the chain, and the port and queue it came by.
///
/// ```text
///  63      48 47      32 31    24 23    16 15     8 7      0
/// |  holder  |  chain   |position|  port  | queue  | jumps  |
/// ```
///
/// The top bit of the jumps says that the buffer was lent empty: an NF makes a packet in it, or has made one.
/// The bit below says that another node chose this one for the stage of the packet's position.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place(u64);

const HOLDER_SHIFT: u32 = 48;
const CHAIN_SHIFT: u32 = 32;
const POSITION_SHIFT: u32 = 24;
const PORT_SHIFT: u32 = 16;
const QUEUE_SHIFT: u32 = 8;
const HOLDER: u64 = 0xffff << HOLDER_SHIFT;
const POSITION: u64 = 0xff << POSITION_SHIFT;
const JUMPS: u64 = 0x3f;
const STEERED: u64 = 0x40;
const LENT: u64 = 0x80;

impl Place {
    /// Place of a free buffer.
    pub const FREE: Self = Self(0);

    /// Returns the place of a packet that came by this queue of this port and has no chain yet.
    #[inline(always)]
    #[must_use]
    pub const fn arrived(port: PortId, queue: u8) -> Self {
        let worker = (Holder::WORKER.0 as u64) << HOLDER_SHIFT;
        Self(worker | (port.0 as u64 & 0xff) << PORT_SHIFT | (queue as u64) << QUEUE_SHIFT)
    }

    /// Returns the place of an arrived packet that enters a chain.
    #[inline(always)]
    #[must_use]
    pub const fn entering(self, entrance: Entrance) -> Self {
        Self(self.0 | (entrance.0 as u64) << POSITION_SHIFT)
    }

    /// Returns where a packet is that has not been at a stage yet.
    #[inline(always)]
    #[must_use]
    pub const fn entrance(self) -> Entrance {
        Entrance((self.0 >> POSITION_SHIFT) as u32 & 0x00ff_ffff)
    }

    /// Returns the place of an empty buffer that is lent to an NF.
    #[must_use]
    pub const fn lent(holder: Holder) -> Self {
        Self(LENT).held_by(holder)
    }

    /// Returns whether the buffer was lent empty.
    #[inline(always)]
    #[must_use]
    pub const fn is_lent(self) -> bool {
        self.0 & LENT != 0
    }

    /// Returns the place of a made packet that goes the way of this one.
    #[must_use]
    pub const fn made(self) -> Self {
        Self(self.0 | LENT)
    }

    /// Returns the same place, of a packet like any other.
    #[inline(always)]
    #[must_use]
    pub(crate) const fn ordinary(self) -> Self {
        Self(self.0 & !LENT)
    }

    /// Returns the place of a packet whose stage is to be served at this node: another one chose it.
    #[inline]
    #[must_use]
    pub(crate) const fn steered(self) -> Self {
        Self(self.0 | STEERED)
    }

    /// Returns whether another node chose this one for the stage at the packet's position.
    #[inline(always)]
    #[must_use]
    pub(crate) const fn is_steered(self) -> bool {
        self.0 & STEERED != 0
    }

    /// Returns the holder.
    #[inline(always)]
    #[must_use]
    pub const fn holder(self) -> Holder {
        Holder((self.0 >> HOLDER_SHIFT) as u16)
    }

    /// Returns the chain.
    #[inline(always)]
    #[must_use]
    pub const fn chain(self) -> ChainId {
        ChainId((self.0 >> CHAIN_SHIFT) as u16)
    }

    /// Returns the position in the chain: the stage the packet is at, or goes to next.
    #[inline(always)]
    #[must_use]
    pub const fn position(self) -> u8 {
        (self.0 >> POSITION_SHIFT) as u8
    }

    /// Returns the port the packet came by.
    #[inline(always)]
    #[must_use]
    pub const fn port(self) -> PortId {
        PortId((self.0 >> PORT_SHIFT) as u8 as u16)
    }

    /// Returns how often an NF sent the packet to a named stage.
    #[inline(always)]
    #[must_use]
    pub const fn jumps(self) -> u8 {
        (self.0 & JUMPS) as u8
    }

    /// Returns the place of another packet, which enters here as if it had come by the same queue. It keeps
    /// the number of jumps, so that NFs which make packets of each other's end in time.
    #[must_use]
    pub const fn beside(self, entrance: Entrance) -> Self {
        let queue = self.0 & (0xff << PORT_SHIFT | 0xff << QUEUE_SHIFT | JUMPS);
        Self(queue).held_by(Holder::WORKER).entering(entrance)
    }

    /// Returns everything but the holder: equal for two packets that go the same way.
    #[inline(always)]
    #[must_use]
    pub const fn way(self) -> u64 {
        self.0 << 16
    }

    /// Returns the same packet sent to another position by an NF.
    #[inline(always)]
    #[must_use]
    pub const fn jumped_to(self, position: u8) -> Self {
        let jumps = self.jumps() as u64 + 1;
        Self(self.at(position).0 & !(JUMPS | STEERED) | if jumps > JUMPS { JUMPS } else { jumps })
    }

    /// Returns the same packet in other hands.
    #[inline(always)]
    #[must_use]
    pub const fn held_by(self, holder: Holder) -> Self {
        Self(self.0 & !HOLDER | (holder.0 as u64) << HOLDER_SHIFT)
    }

    /// Returns the same packet at another position.
    #[inline(always)]
    #[must_use]
    pub const fn at(self, position: u8) -> Self {
        Self(self.0 & !POSITION | (position as u64) << POSITION_SHIFT)
    }

    /// Returns the same packet one stage further, in a worker's hands.
    #[inline(always)]
    #[must_use]
    pub const fn advanced(self) -> Self {
        let position = self.0.wrapping_add(1 << POSITION_SHIFT) & POSITION;
        let worker = (Holder::WORKER.0 as u64) << HOLDER_SHIFT;
        Self(self.0 & !(HOLDER | POSITION | STEERED) | position | worker)
    }

    /// Returns the same packet one stage back: the place before [`Place::advanced`], but for the holder.
    #[must_use]
    pub const fn back(self) -> Self {
        self.at(self.position().wrapping_sub(1))
    }

    /// Returns the whole word, as [`Place::from_bits`] takes it.
    #[inline(always)]
    #[must_use]
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// Returns the place of a word from [`Place::bits`].
    #[inline(always)]
    #[must_use]
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }
}

/// Entrance of a flow: a chain, and the position of the stage in it that its packets come to first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Entrance(u32);

impl Entrance {
    /// Returns the head of a chain.
    #[must_use]
    pub const fn head(chain: ChainId) -> Self {
        Self::new(chain, 0)
    }

    /// Returns an entrance in the middle of a chain.
    #[must_use]
    pub const fn new(chain: ChainId, position: u8) -> Self {
        Self((chain.0 as u32) << 8 | position as u32)
    }

    /// Returns the chain.
    #[inline(always)]
    #[must_use]
    pub const fn chain(self) -> ChainId {
        ChainId((self.0 >> 8) as u16)
    }

    /// Returns the position.
    #[inline(always)]
    #[must_use]
    pub const fn position(self) -> u8 {
        self.0 as u8
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use headgate_units::InstanceId;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_place_keeps_its_parts(chain: u16, position: u8, port: u8, queue: u8, instance in 0u16..60_000) {
            let (chain, port) = (ChainId(chain), PortId(port.into()));
            let holder = Holder::instance(InstanceId(instance));
            let place = Place::arrived(port, queue).entering(Entrance::new(chain, position)).held_by(holder);
            prop_assert_eq!(
                (place.holder(), place.chain(), place.position(), place.port()),
                (holder, chain, position, port)
            );
            let next = place.advanced();
            let further = position.wrapping_add(1);
            prop_assert_eq!((next.holder(), next.chain(), next.position()), (Holder::WORKER, chain, further));
            prop_assert_eq!(next.back().held_by(holder), place);
            prop_assert_eq!(place.way(), place.held_by(Holder::COMMIT).way());
            prop_assert_ne!(place.way(), next.way());
            prop_assert_eq!(Place::from_bits(place.bits()), place);
            let made = place.made();
            prop_assert!(made.is_lent() && !place.is_lent() && Place::lent(holder).is_lent());
            prop_assert_eq!((made.ordinary(), made.jumps(), made.advanced().is_lent()), (place, 0, true));
            prop_assert_ne!(made.way(), place.way());
            prop_assert_eq!(Place::lent(holder).holder(), holder);
            let often = (0..200).fold(made, |place, _| place.jumped_to(position));
            prop_assert_eq!((often.jumps(), often.is_lent()), (63, true));
            let steered = made.steered();
            prop_assert!(steered.is_steered() && !made.is_steered() && steered.held_by(holder).is_steered());
            prop_assert!(!steered.advanced().is_steered() && !steered.jumped_to(position).is_steered());
            prop_assert_eq!((steered.jumps(), steered.advanced()), (0, made.advanced()));
            let entrance = Entrance::new(ChainId(7), 2);
            prop_assert_eq!(place.made().beside(entrance), Place::arrived(port, queue).entering(entrance));
        }
    }
}
