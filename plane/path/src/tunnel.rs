//! Encapsulation: puts an outer header in front of packets that leave for another node, or by an exit that is
//! a tunnel, in the headroom of their buffers. Nothing is copied but the header.

use headgate_shm::geometry::FRAME_BYTES_MAX;
use headgate_units::PortId;

use crate::burst::Run;
use crate::drop::DropReason;
use crate::ledger::Ledger;
use crate::plan::Hop;
use crate::view::View;

/// Puts the header of the tunnel that a hop names in front of each packet. Returns those that had room for
/// it, and the port they leave by; the others have ended. `None` where the plan knows no such tunnel: all
/// have ended.
pub(crate) fn encapsulate<'a>(
    view: &View,
    ledger: &mut Ledger,
    hop: Hop,
    run: Run<'a>,
) -> Option<(PortId, Run<'a>)> {
    let Some(tunnel) = view.plan.tunnel(hop) else {
        ledger.end_run(DropReason::NoWay, &run);
        return None;
    };
    let run = ledger.without_long(run);
    let length = tunnel.header.len() as u32;
    let mut kept = 0;
    for at in 0..run.len() {
        let (packet, place) = (run.packets[at], run.places[at]);
        if packet.offset() < length || packet.length() + length > FRAME_BYTES_MAX {
            ledger.end(place.chain(), run.region, DropReason::NoHeadroom, &[packet]);
            continue;
        }
        let (offset, whole) = (packet.offset() - length, packet.length() + length);
        ledger.store(run.region).stack.region().write(packet.index(), offset, &tunnel.header);
        (run.packets[kept], run.places[kept]) = (packet.with_extent(offset, whole), place);
        kept += 1;
    }
    Some((tunnel.port, run.split_at(kept).0))
}
