//! NFs that leave this node while others serve them: they get no new flows, keep those that they have until
//! these are silent, and end then.

use std::collections::BTreeMap;
use std::sync::mpsc::{Sender, channel};

use headgate_api::request::Applied;
use headgate_decide::units::{InstanceId, Instant as Moment, Span};

use super::super::Control;
use super::super::steering::Departure;
use crate::api::{Answer, RequestError, answer};
use crate::config::Affinity;
use crate::config::model::Node;
use crate::status::EventCode;

/// Beats after which all nodes know that an NF leaves, and packets that were on their way have come. Our
/// choice: as many as a node may miss, and one.
const BEATS: u64 = 4;

impl Control {
    /// Begins to take an NF, or one of its instances, out of service: where other nodes serve it too, its new
    /// flows go there first.
    pub(in crate::control) fn begin_departure(
        &mut self,
        nf: &str,
        reply: Sender<Answer>,
    ) -> Result<(), RequestError> {
        let runs = self.instances.iter().any(|one| one.seat.nf.name == nf && one.life.is_in_service());
        if !runs || !self.is_served_elsewhere(nf) {
            return self.begin_drain(nf, reply);
        }
        let change = match self.steering.departures.contains_key(nf) {
            true => format!("nf {nf} leaves already"),
            false => format!("nf {nf} gets no new flows, and ends when those that it has are silent"),
        };
        if !self.steering.departures.contains_key(nf) {
            let departure = Departure { came: self.came_for(nf), silent_since: self.now() };
            self.steering.departures.insert(nf.to_owned(), departure);
            self.log(EventCode::NfLeaves, nf, "other nodes have its new flows from now on".to_owned());
        }
        let _ = reply.send(answer(&Applied { changes: vec![change] }));
        Ok(())
    }

    /// Lets an NF that leaves stay. Returns whether it was about to leave.
    pub(in crate::control) fn end_departure(&mut self, nf: &str, reply: &Sender<Answer>) -> bool {
        let was_leaving = self.steering.departures.remove(nf).is_some();
        if was_leaving {
            let _ = reply.send(answer(&Applied { changes: vec![format!("nf {nf} stays")] }));
        }
        was_leaving
    }

    /// Ends NFs whose flows are silent.
    pub(in crate::control) fn tend_departures(&mut self) {
        if self.steering.departures.is_empty() || self.change.is_some() {
            return;
        }
        let now = self.now();
        let departures: BTreeMap<String, Departure> = self.steering.departures.clone();
        for (nf, Departure { came, silent_since }) in departures {
            let came_now = self.came_for(&nf);
            if came_now != came {
                self.steering.departures.insert(nf, Departure { came: came_now, silent_since: now });
            } else if (now - silent_since) >= self.silence(&nf) {
                self.end_silent(now, &nf);
                return;
            }
        }
    }

    fn end_silent(&mut self, now: Moment, nf: &str) {
        // Nobody waits for the answer: the one who asked has his.
        let (reply, _) = channel();
        match self.begin_drain(nf, reply) {
            Ok(()) => drop(self.steering.departures.remove(nf)),
            // The others are gone meanwhile: it is needed here.
            Err(why) if !self.is_served_elsewhere(nf) => {
                self.steering.departures.remove(nf);
                self.log(EventCode::NfStays, nf, why.to_string());
            }
            // It is tried again when as much time has passed.
            Err(_) => {
                if let Some(departure) = self.steering.departures.get_mut(nf) {
                    departure.silent_since = now;
                }
            }
        }
    }

    /// Returns whether another node serves an NF and stays.
    pub(in crate::control) fn is_served_elsewhere(&self, nf: &str) -> bool {
        let (Some(beats), Some(Node { network, .. })) = (&self.beats, &self.config.node) else {
            return false;
        };
        (0..network.nodes.len()).filter_map(|node| beats.heard(node)).any(|(_, offers)| {
            offers.iter().any(|offer| offer.nf == nf && offer.instances > 0 && !offer.leaving)
        })
    }

    /// Returns the packets that have come for an instance.
    pub(in crate::control) fn came(&self, number: InstanceId) -> u64 {
        let of_worker = self.fabric.workers.iter().map(|worker| {
            let counts = &worker.board.instances[number.index()];
            counts.delivered.get() + counts.drops.iter().map(|count| count.get()).sum::<u64>()
        });
        of_worker.sum()
    }

    /// Returns the packets that have come for an NF here.
    fn came_for(&self, nf: &str) -> u64 {
        let numbers = self.instances.iter().filter(|one| one.seat.nf.name == nf && one.is_at_work());
        numbers.map(|one| self.came(one.seat.number)).sum()
    }

    /// Returns for how long nothing may come before nothing is taken to come any more.
    fn silence(&self, nf: &str) -> Span {
        let across = self.config.chains.iter().filter_map(|chain| chain.across.as_ref());
        let of_nf = across.flat_map(|across| &across.stages).filter(|stage| stage.nf == nf);
        let stay = of_nf.into_iter().any(|stage| stage.affinity != Affinity::None);
        let beat = self.config.node.as_ref().and_then(|node| node.steering).unwrap_or_default().beat_ns;
        let known = if stay { self.config.flows.idle_timeout_ns } else { 0 };
        Span(known.saturating_add(BEATS * beat))
    }
}
