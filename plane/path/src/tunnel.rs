//! Encapsulation: puts an outer header in front of packets that leave for another node, or by an exit that is
//! a tunnel, in the headroom of their buffers. Nothing is copied but the header.

use headgate_shm::geometry::FRAME_BYTES_MAX;
use headgate_units::PortId;
use headgate_wire::MacAddress;
use headgate_wire::ethernet::{self, ethertype};
use headgate_wire::nsh::{self, ServicePath};

use crate::burst::Run;
use crate::drop::DropReason;
use crate::encap::{Micros, write_header};
use crate::ledger::Ledger;
use crate::plan::{ChainPath, Hop, Tunnel};
use crate::view::View;

/// Puts the header of the tunnel that a hop names in front of each packet. Returns those that had room for
/// it, and the port they leave by; the others have ended. `None` where the plan knows no such tunnel: all
/// have ended.
pub(crate) fn encapsulate<'a>(
    view: &View,
    ledger: &mut Ledger,
    ticks_per_micro: u64,
    hop: Hop,
    run: Run<'a>,
) -> Option<(PortId, Run<'a>)> {
    let Some(tunnel) = view.plan.tunnel(hop) else {
        ledger.end_run(DropReason::NoWay, &run);
        return None;
    };
    let mut run = ledger.without_long(run);
    let clock = Micros { now: view.now, ticks_per_micro };
    let kept = put_in_front(ledger, tunnel, clock, &mut run);
    Some((tunnel.port, run.split_at(kept).0))
}

/// Puts the header of a tunnel in front of each packet. Returns how many had room for it; they are in front.
fn put_in_front(ledger: &mut Ledger, tunnel: &Tunnel, clock: Micros, run: &mut Run) -> usize {
    let (mut kept, mut service) = (0, [0; nsh::LENGTH_MAX]);
    for at in 0..run.len() {
        let (packet, place) = (run.packets[at], run.places[at]);
        let store = ledger.store(run.region);
        let (holders, region) = (&store.holders, store.stack.region());
        let inner =
            tunnel.service.map_or(0, |path| write_header(path, holders, region, packet, clock, &mut service));
        let length = (tunnel.header.len() + inner) as u32;
        if packet.offset() < length || packet.length() + length > FRAME_BYTES_MAX {
            ledger.end(place.chain(), run.region, DropReason::NoHeadroom, &[packet]);
            continue;
        }
        let (offset, whole) = (packet.offset() - length, packet.length() + length);
        region.write(packet.index(), offset, &tunnel.header);
        region.write(packet.index(), offset + tunnel.header.len() as u32, &service[..inner]);
        (run.packets[kept], run.places[kept]) = (packet.with_extent(offset, whole), place);
        kept += 1;
    }
    kept
}

impl Tunnel {
    /// Returns the way out of a port, with this address of its own, to the next hop of a chain of so many
    /// stages.
    #[must_use]
    pub fn on_path(port: PortId, own: [u8; 6], next: [u8; 6], path: ChainPath, stages: u8) -> Self {
        let mut header = vec![0; ethernet::HEADER_LENGTH];
        let (destination, source) = (MacAddress(next), MacAddress(own));
        let link = ethernet::Header { destination, source, ethertype: ethertype::NSH };
        link.write(&mut header).expect("it is that long");
        let service = ServicePath { path: path.path, index: path.index.saturating_sub(stages) };
        Self { port, header, service: Some(service) }
    }

    /// Returns the Ethernet address that its packets are sent to.
    #[must_use]
    pub fn next(&self) -> Option<[u8; 6]> {
        self.header.first_chunk().copied()
    }
}
