//! Service headers (RFC 8300) of packets that leave by a chain with a next hop: a part of the way into a
//! tunnel ([`crate::tunnel`]).
//!
//! A packet that came with a header leaves with it: what other classifiers wrote there is theirs. Any other
//! gets one of MD type 1. In both the service index is that behind the chain's last stage.

use headgate_shm::{Descriptor, Region};
use headgate_units::Ticks;
use headgate_wire::flow_key;
use headgate_wire::nsh::{self, Base, Context, ServicePath};

use crate::holders::{Holders, TICK_SHIFT, UNKNOWN_ARRIVAL};

/// Clock of the times that packets carry.
#[derive(Clone, Copy)]
pub(crate) struct Micros {
    pub now: Ticks,
    pub ticks_per_micro: u64,
}

impl Micros {
    /// Returns the microseconds at an arrival, which is not long ago.
    fn at_arrival(self, at: u32) -> u32 {
        let now = self.now.0 >> TICK_SHIFT;
        let age = if at == UNKNOWN_ARRIVAL { 0 } else { (now as u32).wrapping_sub(at) };
        ((now.saturating_sub(age.into()) << TICK_SHIFT) / self.ticks_per_micro.max(1)) as u32
    }
}

/// Service path with which a packet leaves, and the numbers of nodes for a header that is new.
#[derive(Clone, Copy)]
pub(crate) struct Service {
    pub path: ServicePath,
    /// Node that it came in by; 0: not known.
    pub ingress: u16,
    /// Node that it is to leave by; 0: not known.
    pub egress: u16,
    /// Node that is to serve its stage; 0: what its header says stays.
    pub target: u16,
}

/// Writes the service header of a packet that leaves with this path and index. Returns its length.
#[inline]
pub(crate) fn write_header(
    Service { path, ingress, egress, target }: Service,
    holders: &Holders,
    region: &Region,
    packet: Descriptor,
    clock: Micros,
    bytes: &mut [u8; nsh::LENGTH_MAX],
) -> usize {
    if let Some(length) = holders.extras.service.write(packet.index(), path, target, bytes) {
        return length;
    }
    let mut head = [0; flow_key::HEADER_BYTES];
    let copied = region.read(packet, &mut head);
    let context = Context {
        flow_hash: nsh::flow_hash(&head[..copied], packet.length() as usize),
        ingress,
        egress,
        time_us: clock.at_arrival(holders.arrival(packet.index()).at),
        target,
        digest: 0,
    };
    let rest = nsh::write(Base::of_type_1(), path, &context.to_bytes(), bytes).map_or(0, |rest| rest.len());
    nsh::LENGTH_MAX - rest
}

/// Returns a context with another target; `None` where it is none.
#[inline]
pub(crate) fn aimed(metadata: &[u8], target: u16) -> Option<[u8; nsh::CONTEXT_LENGTH]> {
    let mut context: [u8; nsh::CONTEXT_LENGTH] = metadata.try_into().ok()?;
    context[nsh::TARGET_AT..nsh::TARGET_AT + 2].copy_from_slice(&target.to_be_bytes());
    Some(context)
}
