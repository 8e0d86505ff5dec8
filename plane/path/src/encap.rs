//! Service headers (RFC 8300) of packets that leave by a chain with a next hop: a part of the way into a
//! tunnel ([`crate::tunnel`]).
//!
//! A packet that came with a header leaves with it: what other classifiers wrote there is theirs. Any other
//! gets one of MD type 1. In both the service index is that behind the chain's last stage.

use headgate_shm::{Descriptor, Region};
use headgate_units::Ticks;
use headgate_wire::flow_key;
use headgate_wire::nsh::{self, Base, Context, ContextWords, LENGTH_MAX, ServicePath, next_protocol};

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

/// Service header of a packet that leaves.
#[derive(Clone, Copy)]
pub(crate) enum Outgoing {
    /// One of MD type 1, as nearly all are: made of values, to be stored where it belongs.
    Plain { fixed: u64, context: ContextWords },
    /// One of MD type 2, with the base header that it came with.
    Long { base: Base, path: ServicePath },
}

impl Outgoing {
    /// Returns the header of a packet that leaves with this path and index.
    #[inline(always)]
    pub fn of(
        service: Service,
        holders: &Holders,
        region: &Region,
        packet: Descriptor,
        clock: Micros,
    ) -> Self {
        let Service { path, ingress, egress, target } = service;
        match holders.extras.service.plain(packet.index()) {
            Some((base, context)) if target == 0 => Self::plain(base, path, context),
            Some((base, context)) => Self::plain(base, path, nsh::with_target(context, target)),
            None => match holders.extras.service.get(packet.index()) {
                Some(header) => Self::Long { base: header.base, path },
                None => {
                    let flow_hash = hash_of(region, packet);
                    let time_us = clock.at_arrival(holders.arrival(packet.index()).at);
                    let context = Context { flow_hash, ingress, egress, time_us, target, digest: 0 };
                    Self::plain(Base::of_type_1(), path, context.to_words())
                }
            },
        }
    }

    #[inline(always)]
    fn plain(base: Base, path: ServicePath, context: ContextWords) -> Self {
        let base = base.with_next_protocol(next_protocol::ETHERNET);
        Self::Plain { fixed: u64::from(base.bits()) << 32 | u64::from(path.bits()), context }
    }

    /// Returns its bytes.
    #[inline(always)]
    pub const fn length(&self) -> usize {
        match self {
            Self::Plain { .. } => nsh::LENGTH_OF_TYPE_1,
            Self::Long { base, .. } => base.length(),
        }
    }

    /// Writes it into a packet's buffer.
    #[inline(always)]
    pub fn write(self, holders: &Holders, region: &Region, index: u32, offset: u32) {
        match self {
            Self::Plain { fixed, context: [first, second] } => {
                for (place, word) in [fixed, first, second].into_iter().enumerate() {
                    region.write(index, offset + (place * size_of::<u64>()) as u32, &word.to_be_bytes());
                }
            }
            Self::Long { path, .. } => write_long(path, holders, region, index, offset),
        }
    }
}

#[cold]
fn write_long(path: ServicePath, holders: &Holders, region: &Region, index: u32, offset: u32) {
    let Some(header) = holders.extras.service.get(index) else { return };
    let mut bytes = [0; LENGTH_MAX];
    let base = header.base.with_next_protocol(next_protocol::ETHERNET);
    let rest = nsh::write(base, path, header.metadata(), &mut bytes).map_or(0, |rest| rest.len());
    region.write(index, offset, &bytes[..LENGTH_MAX - rest]);
}

/// Returns the hash of a packet's flow that both directions share.
#[inline(always)]
fn hash_of(region: &Region, packet: Descriptor) -> u32 {
    let head = region.head(packet, flow_key::PLAIN_BYTES);
    let plain = nsh::plain_flow_hash(|at| head.word(at), packet.length() as usize);
    plain.unwrap_or_else(|| hash_of_any(region, packet))
}

#[cold]
fn hash_of_any(region: &Region, packet: Descriptor) -> u32 {
    let mut head = [0; flow_key::HEADER_BYTES];
    let copied = region.read(packet, &mut head);
    nsh::flow_hash(&head[..copied], packet.length() as usize)
}
