//! Station 3, admit: a packet whose chain cannot serve it ends here, at the head, before any work is
//! spent on it.
//!
//! A chain is closed when one of its stages is down and must not be bypassed, or throttled
//! ([`crate::pressure`]); one with a delay bound lets in as many packets as it can serve in time
//! ([`crate::bound`]).

use headgate_decide::pressure::Shed;
use headgate_units::ChainId;

use crate::board::Station;
use crate::bound::{Room, has_short_queues, room};
use crate::burst::{Burst, Run};
use crate::drop::DropReason;
use crate::holders::Entrance;
use crate::ledger::Ledger;
use crate::pressure::{count_for_first, count_for_throttled, shed_at, sheds_flow};
use crate::trace::At;
use crate::view::View;

/// Counts each packet into its chain. Those that are admitted stay, at the front, and the others have ended.
#[inline]
pub(crate) fn admit(view: &View, ledger: &mut Ledger, burst: &mut Burst) {
    let admitted = if view.signals.pressure.any() { 0 } else { admit_open(view, ledger, burst) };
    if admitted < burst.count {
        admit_by_chain(view, ledger, burst, admitted);
    }
    ledger.passed(
        Station::Admit,
        At::Nowhere,
        burst.region,
        &burst.packets[..burst.count],
        &burst.places[..burst.count],
    );
}

/// Counts packets into their chains as long as those are open to all. Returns how many that were.
#[inline(always)]
fn admit_open(view: &View, ledger: &Ledger, burst: &Burst) -> usize {
    let places = &burst.places[..burst.count];
    let admit = |chain: ChainId, count: usize| {
        let is_open = view.plan.is_open(chain);
        if is_open {
            ledger.board.chains[chain.index()].entered.add(count as u64);
        }
        is_open
    };
    match places.first() {
        Some(first) if burst.is_one_way => {
            if admit(first.chain(), places.len()) {
                places.len()
            } else {
                0
            }
        }
        // One by one: to cut off those of each chain takes longer than to count them.
        _ => places.iter().take_while(|place| admit(place.chain(), 1)).count(),
    }
}

/// Admits the packets from `start` on, of which some may have to be turned away: those of one chain are
/// judged together.
#[cold]
fn admit_by_chain(view: &View, ledger: &mut Ledger, burst: &mut Burst, mut start: usize) {
    let mut kept = start;
    while start < burst.count {
        let entrance = burst.places[start].entrance();
        let same = burst.places[start..burst.count].iter().take_while(|place| place.entrance() == entrance);
        let end = start + same.count();
        let (packets, places) = (&mut burst.packets[start..end], &mut burst.places[start..end]);
        let stays = admit_run(
            view,
            ledger,
            entrance,
            Run { region: burst.region, is_one_way: true, packets, places },
        );
        burst.packets.copy_within(start..start + stays, kept);
        burst.places.copy_within(start..start + stays, kept);
        kept += stays;
        start = end;
    }
    burst.count = kept;
}

/// Counts packets with one entrance into their chain. Returns how many stay.
fn admit_run(view: &View, ledger: &mut Ledger, entrance: Entrance, run: Run) -> usize {
    let chain = entrance.chain();
    ledger.board.chains[chain.index()].entered.add(run.len() as u64);
    if let Some(reason) = view.plan.closed(chain) {
        ledger.end(chain, run.region, reason, run.packets);
        return 0;
    }
    let mut run = run;
    if view.signals.pressure.any() {
        let stay = shed(view, ledger, entrance, &mut run);
        run = run.split_at(stay).0;
    }
    if view.plan.is_bounded(chain) { limit(view, ledger, entrance, run) } else { run.len() }
}

/// Returns the reason why a packet of this flow would end here now, at the head. Delay bounds are left out:
/// they let in so many packets, and not these or those.
pub(crate) fn turned_away(view: &View, entrance: Entrance, flow: u32) -> Option<DropReason> {
    if let Some(reason) = view.plan.closed(entrance.chain()) {
        return Some(reason);
    }
    let is_shed = match shed_at(view, entrance) {
        Shed::Nothing => false,
        Shed::Flows => sheds_flow(view, entrance, flow),
        Shed::Chain(_) => true,
    };
    is_shed.then_some(DropReason::Throttled)
}

/// Ends what is shed for throttled instances. Returns how many packets stay, at the front.
fn shed(view: &View, ledger: &mut Ledger, entrance: Entrance, run: &mut Run) -> usize {
    let chain = entrance.chain();
    match shed_at(view, entrance) {
        Shed::Nothing => run.len(),
        Shed::Flows => {
            let is_shed = |flow| sheds_flow(view, entrance, flow);
            keep_flows(ledger, entrance, DropReason::Throttled, run, |flow| !is_shed(flow))
        }
        shed @ Shed::Chain(_) => {
            count_for_throttled(view, &ledger.board, entrance, shed, run.len());
            ledger.end(chain, run.region, DropReason::Throttled, run.packets);
            0
        }
    }
}

/// Ends what a window keeps out. Returns how many packets stay, at the front.
fn limit(view: &View, ledger: &mut Ledger, entrance: Entrance, mut run: Run) -> usize {
    let (chain, count) = (entrance.chain(), run.len());
    let stay = match room(view, chain, count) {
        Room::Packets(room) => {
            ledger.end(chain, run.region, DropReason::DelayBound, &run.packets[room..]);
            room
        }
        Room::Flows(window) => {
            let fits = |flow| has_short_queues(view, entrance, window, flow);
            keep_flows(ledger, entrance, DropReason::DelayBound, &mut run, fits)
        }
    };
    count_for_first(view, &ledger.board, entrance, DropReason::DelayBound, count - stay);
    stay
}

/// Ends the packets whose flows are not to stay. Returns how many stay, at the front.
fn keep_flows(
    ledger: &mut Ledger,
    entrance: Entrance,
    reason: DropReason,
    run: &mut Run,
    stays: impl Fn(u32) -> bool,
) -> usize {
    let mut kept = 0;
    for at in 0..run.len() {
        if stays(ledger.flow(run.region, run.packets[at])) {
            (run.packets[kept], run.places[kept]) = (run.packets[at], run.places[at]);
            kept += 1;
        } else {
            ledger.end(entrance.chain(), run.region, reason, &run.packets[at..=at]);
        }
    }
    kept
}
