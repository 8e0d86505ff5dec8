//! Station 7, emit: out of a port.
//!
//! A packet's buffer is held until the port took it: from then on the port owns it, and gives it back to the
//! stack when it is sent.

use headgate_units::{ChainId, RegionId};

use crate::board::Station;
use crate::burst::Run;
use crate::delay::WholeDelay;
use crate::drop::DropReason;
use crate::holders::Place;
use crate::ledger::Ledger;
use crate::ports::Ports;
use crate::trace::At;
use crate::view::View;

/// Sends packets out of one of this worker's queues. Packets that the port does not take have ended.
#[inline]
pub(crate) fn emit(
    view: &View,
    ledger: &mut Ledger,
    ports: &mut Ports,
    whole: &mut WholeDelay,
    queue: usize,
    run: Run,
) {
    let queue = ports.queue(queue);
    let (port, device) = (queue.port, &mut queue.device);
    let run = if device.takes_long() { run } else { ledger.without_long(run) };
    let run = match device.region() {
        // The port can only send from its own region: each packet is copied once.
        Some(own) if own != run.region.0 => ledger.cross(run, RegionId(own)),
        _ => run,
    };
    let sent = device.transmit(view.now.0, &mut ledger.store_mut(run.region).stack, run.packets);
    let (sent, unsent) = run.split_at(sent);
    count_left(ledger, &sent);
    whole.on_leave(view, ledger, &sent);
    if !unsent.is_empty() {
        ledger.end_run(DropReason::PortFull, &unsent);
    }
    ledger.passed(Station::Emit, At::Port(port), sent.region, sent.packets, sent.places);
}

/// Counts packets that the port took: their buffers are nobody's, and they have left their chains.
#[inline(always)]
fn count_left(ledger: &Ledger, run: &Run) {
    let Some(first) = run.places.first() else { return };
    let records = ledger.store(run.region).holders.records();
    let left = |chain: ChainId, count: usize| ledger.board.chains[chain.index()].left.add(count as u64);
    run.packets.iter().for_each(|packet| records.set_place(packet.index(), Place::FREE));
    if run.is_one_way {
        left(first.chain(), run.len());
    } else {
        // One by one: to cut off those of each chain takes longer than to count them.
        run.places.iter().for_each(|place| left(place.chain(), 1));
    }
}
