//! Station 5, hop: out of an NF's transmit ring and on to where its verdict says.
//!
//! Here the manager reads what a stranger wrote. A descriptor is believed only after its index, extent
//! and holder were checked; the first lie condemns the NF.

use headgate_shm::{Descriptor, Offence, Verdict, cpu};

use crate::board::Station;
use crate::drop::Reason;
use crate::holders::{Place, WORKER};
use crate::worker::{Hands, Worker};

/// Times an NF may send one packet to a named stage before it is taken for a loop. Our choice: longer
/// than any chain of the papers (10 NFs), shorter than a core's patience.
pub const JUMPS_MAX: u8 = 16;

impl Worker {
    /// One burst from one of this worker's instances. Returns how many packets it had returned.
    pub(crate) fn hop(&mut self, now: u64, number: u16) -> usize {
        self.station = Station::Hop;
        self.with_hands(|worker, hands| worker.hop_burst(now, number, hands))
    }

    fn hop_burst(&mut self, now: u64, number: u16, hands: &mut Hands) -> usize {
        let Hands { packets, places, .. } = hands;
        let Some(instance) = self.instances[number as usize].as_deref_mut() else { return 0 };
        if instance.offence.is_some() {
            return 0;
        }
        let Ok(count) = instance.from_nf.pop(packets) else {
            self.condemn(number, Offence::TransmitIndex);
            return 0;
        };
        if count == 0 {
            return 0;
        }
        let region = instance.region;
        let (held, offence) = self.take_back(number, region, &packets[..count], &mut places[..count]);
        if let Some(offence) = offence {
            self.condemn(number, offence);
        }
        self.probe_returned(now, number);
        self.follow(now, number, region, &mut packets[..held], &mut places[..held]);
        self.passed(Station::Hop, held);
        held
    }

    /// Checks descriptors one by one and takes their buffers out of the NF's hands; stops at the first lie.
    #[inline]
    fn take_back(
        &mut self,
        number: u16,
        region: u8,
        packets: &[Descriptor],
        places: &mut [Place],
    ) -> (usize, Option<Offence>) {
        let Some(instance) = self.instances[number as usize].as_deref_mut() else { return (0, None) };
        let store = &self.stores[region as usize];
        let (geometry, holder) = (store.stack.region().geometry(), instance.holder());
        let (mut held, mut offence) = (0, None);
        for (packet, place) in packets.iter().zip(places.iter_mut()) {
            if let Err(lie) = geometry.check(*packet) {
                offence = Some(lie);
                break;
            }
            let now_at = store.holders.place(packet.index());
            if now_at.holder() != holder {
                offence = Some(Offence::NotHeld);
                break;
            }
            cpu::prefetch(&self.board.chains[now_at.chain() as usize]);
            self.plan.prefetch(now_at.chain());
            *place = now_at.held_by(WORKER);
            store.holders.set_place(packet.index(), *place);
            held += 1;
        }
        instance.held -= held as u32;
        let counts = &self.board.instances[number as usize];
        counts.returned.add(held as u64);
        counts.held.set(u64::from(instance.held));
        (held, offence)
    }

    /// Follows the verdicts. What goes on along its chain is gathered, and sent before anything that
    /// leaves by a named port, so that packets of one flow do not overtake each other.
    #[inline]
    fn follow(
        &mut self,
        now: u64,
        number: u16,
        region: u8,
        packets: &mut [Descriptor],
        places: &mut [Place],
    ) {
        let (mut at, mut onward) = (0, 0);
        let tells_ways = self.pressure.any() && self.diverts.is_by(number);
        while at < packets.len() {
            let (packet, place) = (packets[at], places[at]);
            at += 1;
            let next = match packet.verdict() {
                Verdict::Next => {
                    if tells_ways {
                        self.went_straight(region, packet, place);
                    }
                    Some(place.advanced())
                }
                Verdict::Drop => {
                    self.board.instances[number as usize].drops[Reason::NfVerdict as usize].add(1);
                    self.end(place.chain(), region, Reason::NfVerdict, &[packet]);
                    None
                }
                Verdict::Stage(stage) => self.jump(number, stage, region, packet, place),
                Verdict::Port(port) => {
                    self.steer(now, region, &mut packets[..onward], &mut places[..onward]);
                    onward = 0;
                    let start = at - 1;
                    at += packets[at..].iter().take_while(|other| other.tag() == packet.tag()).count();
                    self.left_early(number, region, &packets[start..at], &places[start..at]);
                    self.emit(now, port, region, &mut packets[start..at], &places[start..at]);
                    None
                }
            };
            if let Some(place) = next {
                places[onward] = place;
                packets[onward] = packet;
                onward += 1;
            }
        }
        self.steer(now, region, &mut packets[..onward], &mut places[..onward]);
    }

    /// To a named stage of the packet's chain. Returns its new place, or `None` when it ended.
    fn jump(&mut self, by: u16, stage: u16, region: u8, packet: Descriptor, place: Place) -> Option<Place> {
        let reason = match self.plan.position_of(place.chain(), stage) {
            None => Reason::NoSuchStage,
            Some(_) if place.jumps() >= JUMPS_MAX => Reason::Loop,
            Some(position) => {
                self.diverted(by, region, packet, place, Some(position));
                return Some(place.jumped_to(position));
            }
        };
        self.end(place.chain(), region, reason, &[packet]);
        None
    }
}
