//! Station 5, hop: sends packets that an instance returned on to where the verdicts say.
//!
//! For "next" that is the plan's hop behind the instance, asked once for packets that go the same way.
//! Packets keep their order, whatever their verdicts, so that those of one flow do not overtake each other.

use headgate_shm::{Descriptor, Verdict};
use headgate_units::{InstanceId, NfId, PortId, RegionId};

use crate::BURST;
use crate::board::Station;
use crate::burst::{Agreement, Burst, Next};
use crate::divert::{diverted, left_early, went_straight};
use crate::drop::DropReason;
use crate::holders::Place;
use crate::ledger::Ledger;
use crate::link::Taken;
use crate::plan::{Hop, PackedHop, Plan, Senders};
use crate::route::{route, spread};
use crate::stages::Stages;
use crate::trace::At;
use crate::view::View;

/// Most times that an NF may send one packet to a named stage before it is taken for a loop. Our choice:
/// longer than any chain of the papers (10 NFs), and few enough that a loop costs a core little.
pub const JUMPS_MAX: u8 = 16;

impl Stages {
    /// Takes a burst from one of the instances, and finds where each of its packets goes next; those that go
    /// straight into the ring of another instance are there already. Returns how many packets the instance
    /// had returned.
    #[inline]
    pub fn hop(&mut self, view: &View, ledger: &mut Ledger, at: usize, burst: &mut Burst) -> usize {
        let number = self.instance(at).number;
        burst.count = 0;
        // An NF that sends some packets elsewhere sent these on. Asked only while it matters.
        let tells = view.signals.pressure.any() && view.signals.diverts.is_by(number);
        let straight = if tells || self.in_group { 0 } else { self.hop_straight(view, ledger, at, burst) };
        // What the other instance has no room for waits here, and not in the ring of this one.
        if burst.count > 0 || straight == BURST || straight > 0 && self.instance(at).link.is_drained() {
            return straight;
        }
        let taken = self.instance(at).link.take(view, ledger, burst);
        let count = burst.count;
        match taken {
            Taken::Nothing => return straight,
            Taken::Onward if !tells => route(view.plan, ledger, burst),
            Taken::Made => follow_made(view, ledger, number, tells, burst),
            _ => follow::<false>(view, ledger, number, tells, burst),
        }
        ledger.passed(
            Station::Hop,
            At::Instance(number),
            burst.region,
            &burst.packets[..burst.count],
            &burst.places[..burst.count],
        );
        straight + count
    }

    /// Does the same where packets go one way, as long as they do.
    #[inline(always)]
    fn hop_straight(&mut self, view: &View, ledger: &mut Ledger, at: usize, burst: &mut Burst) -> usize {
        let Some(from) = self.instance(at).link.next_straight(ledger) else { return 0 };
        let next = from.advanced();
        let hop = view.plan.hop(next.chain(), next.position());
        let number = self.instance(at).number;
        if let Hop::Instance { position, number: other } = hop.unpack()
            && let Some(to) = self.find(other)
            && let Some([instance, to]) = self.pair(at, to)
            && !ledger.watch.looks()
        {
            let count = instance.link.hand_straight(&mut to.link, view, ledger, from, position);
            if count > 0 {
                let (from_at, to_at) = (At::Instance(number), At::Instance(other));
                ledger.watch.went_straight(&ledger.board, from_at, to_at, from, count);
                return count;
            }
        }
        let count = self.instance(at).link.take_straight(view, ledger, from, burst);
        route(view.plan, ledger, burst);
        ledger.passed(
            Station::Hop,
            At::Instance(number),
            burst.region,
            &burst.packets[..burst.count],
            &burst.places[..burst.count],
        );
        count
    }
}

/// Follows the verdicts, packet by packet; made packets are like any others from here on. Those that end here
/// have ended; the others are at the front, in their order.
fn follow<const MADE: bool>(
    view: &View,
    ledger: &mut Ledger,
    number: InstanceId,
    tells: bool,
    burst: &mut Burst,
) {
    let (mut kept, mut hops, mut asked) = (0, Agreement::default(), Asked::default());
    for at in 0..burst.count.min(BURST) {
        let (packet, place) = (burst.packets[at], burst.places[at]);
        let followed = match packet.tag() {
            Verdict::NEXT if !tells => Ok(place),
            _ => Said::<MADE> { view, ledger, number, tells, region: burst.region, packet, place }.follow(),
        };
        let (place, hop) = match followed {
            Ok(place) => (place, asked.hop(view.plan, place)),
            Err(Other::Hop(hop)) => (place, hop),
            Err(Other::End(reason)) => {
                end(ledger, number, burst.region, reason, packet, place);
                continue;
            }
        };
        let hop = if hop.is_spread() {
            spread(view.plan, &ledger.store(burst.region).holders, packet, place, hop)
        } else {
            hop
        };
        (burst.packets[kept], burst.places[kept], burst.hops[kept]) =
            (packet, if MADE { place.ordinary() } else { place }, hop);
        hops.add(hop.bits());
        kept += 1;
    }
    burst.count = kept;
    burst.is_one_way = false;
    burst.next = Next::agreed(&hops, burst.hops[0]);
}

/// Follows the verdicts of a burst with packets that the instance made, which is rare.
#[cold]
fn follow_made(view: &View, ledger: &mut Ledger, number: InstanceId, tells: bool, burst: &mut Burst) {
    follow::<true>(view, ledger, number, tells, burst);
}

/// Last answer of the plan, kept so that it is asked once for packets that go the same way.
#[derive(Default)]
struct Asked {
    place: Option<Place>,
    hop: PackedHop,
}

impl Asked {
    #[inline(always)]
    fn hop(&mut self, plan: &Plan, place: Place) -> PackedHop {
        if self.place != Some(place) {
            *self = Self { place: Some(place), hop: plan.hop(place.chain(), place.position()) };
        }
        self.hop
    }
}

/// Ends a packet because of the NF's verdict.
#[cold]
fn end(
    ledger: &mut Ledger,
    number: InstanceId,
    region: RegionId,
    reason: DropReason,
    packet: Descriptor,
    place: Place,
) {
    if reason == DropReason::NfVerdict {
        ledger.board.instances[number.index()].drops[reason as usize].add(1);
    }
    ledger.end_at(At::Instance(number), place.chain(), region, reason, &[packet]);
}

/// Destination of a packet that does not go on along its chain.
enum Other {
    Hop(PackedHop),
    End(DropReason),
}

/// Packet that an instance returned, already one stage further in its chain.
struct Said<'a, const MADE: bool> {
    view: &'a View<'a>,
    ledger: &'a Ledger,
    number: InstanceId,
    /// Whether the NF's "next" is to be noted.
    tells: bool,
    region: RegionId,
    packet: Descriptor,
    place: Place,
}

impl<const MADE: bool> Said<'_, MADE> {
    /// Returns whether the instance made the packet: its verdict says nothing about others of its flow.
    const fn is_made(&self) -> bool {
        MADE && self.place.is_lent()
    }

    /// Returns the packet's place in its chain when it goes on along that, and else its destination.
    fn follow(&self) -> Result<Place, Other> {
        let verdict = self.packet.verdict();
        if verdict == Verdict::Drop {
            return Err(Other::End(DropReason::NfVerdict));
        }
        let (view, before, flow) = (self.view, self.place.back(), self.ledger.flow(self.region, self.packet));
        match verdict {
            // What an NF puts on a link would be believed by the neighbour.
            Verdict::Port(port) if view.plan.senders(PortId(port)) != Senders::Anybody => {
                Err(Other::End(DropReason::NoSuchPort))
            }
            Verdict::Port(port) => {
                if !self.is_made() {
                    left_early(view, self.number, before, flow);
                }
                Err(Other::Hop(PackedHop::from(Hop::Port(PortId(port)))))
            }
            Verdict::Stage(stage) => self.jump(NfId(stage), flow).map_err(Other::End),
            Verdict::Next | Verdict::Drop => {
                if self.tells && !self.is_made() {
                    went_straight(view, before, flow);
                }
                Ok(self.place)
            }
        }
    }

    /// Returns its place at a named stage of its chain.
    fn jump(&self, stage: NfId, flow: u32) -> Result<Place, DropReason> {
        let chain = self.place.chain();
        let position = self.view.plan.position_of(chain, stage).ok_or(DropReason::NoSuchStage)?;
        if self.place.jumps() >= JUMPS_MAX {
            return Err(DropReason::Loop);
        }
        if !self.is_made() {
            diverted(self.view, self.number, self.place.back(), flow, Some(position));
        }
        Ok(self.place.jumped_to(position))
    }
}
