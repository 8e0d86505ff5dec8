//! Latch of a node, before `emit`: outputs wait, lane by lane and in order, until what they rest on is known
//! to the standby, and are kept until the gate has them. They are held by [`Holder::LATCH`].

use headgate_decide::replicate::outbox::{Gone, Outbox, Taken};
use headgate_decide::replicate::{Clock as LaneClock, Lane, Peer, View};
use headgate_decide::units::Span;
use headgate_units::ChainId;
use headgate_wire::replica::{Header, Kind};

use crate::drop::DropReason;
use crate::holders::{Holder, Place};
use crate::ledger::Ledger;
use crate::{BURST, DRAIN_BURSTS};

use super::common::{Clock, Kept};
use super::link::Links;

/// Latch of a node.
pub(crate) struct Latch {
    chains: Vec<ChainId>,
    outbox: Outbox<Kept>,
    /// View in which the gate is heard, or is to be.
    view: View,
}

impl Latch {
    /// Returns a latch of at most so many outputs of each chain, sent again after so long.
    pub fn new(chains: &[ChainId], outputs: u32, resend_after: Span) -> Self {
        let outbox = Outbox::new(chains.len(), outputs as usize, resend_after);
        Self { chains: chains.to_vec(), outbox, view: View(0) }
    }

    /// Begins anew, empty: outputs up to a clock may leave at once.
    pub fn begin(&mut self, lane: usize, allowed: u64) {
        self.outbox.begin(Lane(lane as u8), LaneClock(allowed));
    }

    pub fn len(&self, lane: usize) -> usize {
        self.outbox.len(Lane(lane as u8))
    }

    pub fn allowed(&self, lane: usize) -> u64 {
        self.outbox.allowed(Lane(lane as u8)).0
    }

    /// Lets outputs up to a clock leave. What was allowed stays so.
    pub fn allow(&mut self, lane: usize, clock: u64) {
        self.outbox.allow(Lane(lane as u8), LaneClock(clock));
    }

    /// Returns the clock up to which the gate has every output, of a lane that is finished up to a clock.
    pub fn taken(&self, lane: usize, finished: u64) -> u64 {
        self.outbox.taken(Lane(lane as u8), LaneClock(finished)).0
    }

    /// Takes an output.
    pub fn push(&mut self, ledger: &mut Ledger, lane: usize, (kept, place): (Kept, Place), clock: u64) {
        let holders = &ledger.store(kept.region).holders;
        holders.set_place(kept.packet.index(), place.held_by(Holder::LATCH));
        if let Err(kept) = self.outbox.push(Lane(lane as u8), LaneClock(clock), kept) {
            // The node before has sent it.
            leave(ledger, self.chains[lane], kept);
        }
    }

    /// Takes in what the gate has, as it says in a view.
    pub fn on_taken(&mut self, clock: Clock, ledger: &mut Ledger, view: View, taken: &Taken) {
        self.go_to(view);
        let chains = &self.chains;
        self.outbox.on_taken(clock.instant(), taken, |lane, kept, gone| {
            let chain = chains[usize::from(lane.0)];
            match gone {
                Gone::Taken => leave(ledger, chain, kept),
                Gone::InDoubt => ledger.end(chain, kept.region, DropReason::InDoubt, &[kept.packet]),
            }
        });
    }

    /// Sends outputs that may leave to the gate.
    pub fn let_out(&mut self, clock: Clock, ledger: &mut Ledger, links: &mut Links, view: View) {
        self.go_to(view);
        self.outbox.poll(clock.instant());
        for lane in 0..self.chains.len() as u8 {
            for _ in 0..BURST * DRAIN_BURSTS {
                let Some((after, place, kept)) = self.outbox.next(Lane(lane)) else { break };
                let header = Header {
                    lane: lane.into(),
                    clock: place.clock.0,
                    seq: place.number,
                    ..links.header(Kind::Out, view.0)
                };
                let header = header.behind((after.clock.0, after.number));
                // A copy: the gate may want it again, and a port owns what it sends.
                if !links.send_copy(clock.ticks, ledger, Peer::Gate, header, *kept) {
                    break;
                }
                self.outbox.sent(clock.instant(), Lane(lane));
            }
        }
    }

    fn go_to(&mut self, view: View) {
        if self.view != view {
            self.view = view;
            self.outbox.begin_view();
        }
    }

    /// Ends the outputs of a lane: another node is active now.
    pub fn discard(&mut self, ledger: &mut Ledger, lane: usize) {
        for kept in self.outbox.drain(Lane(lane as u8)) {
            ledger.end(self.chains[lane], kept.region, DropReason::Fenced, &[kept.packet]);
        }
        self.begin(lane, 0);
    }
}

/// Counts an output that the gate has, and frees its buffer.
fn leave(ledger: &mut Ledger, chain: ChainId, kept: Kept) {
    ledger.release(kept.region, kept.packet);
    ledger.board.chains[chain.index()].left.add(1);
}
