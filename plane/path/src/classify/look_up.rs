//! Look-ups: what would become of a packet that an operator describes, if it came now.
//!
//! The worker answers, because it alone has the flow table and knows which plan it works by. Nothing is
//! learnt or used by the question.

use headgate_units::PortId;
use headgate_wire::MalformedError;
use headgate_wire::flow_key::{self, Parsed};

use super::learn::FlowKey;
use super::spread_of;
use crate::admit::turned_away;
use crate::drop::DropReason;
use crate::flows::{Entry, Flows, Key};
use crate::holders::Entrance;
use crate::intake::Intake;
use crate::plan::PortPlace;
use crate::pressure::passed_over;
use crate::view::View;

/// What would become of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LookedUp {
    /// What the flow table says of its flow, and the ticks of the table's clock since it was last used. It
    /// is obeyed before the rules.
    pub known: Option<(Entry, u32)>,
    /// What the rules say.
    pub by_rules: Option<Entrance>,
    /// Hash that chooses its instances.
    pub spread: u32,
    /// Whether the queue by which its first packet comes chooses among instances, too.
    pub by_queue: bool,
    /// Why it would end at the head of its chain, as far as that does not hang on how many others come.
    pub turned_away: Option<DropReason>,
    /// A bit for each position of its chain that it leaves out, because an NF led its flow past.
    pub passed_over: u64,
}

impl LookedUp {
    /// Returns where it enters.
    #[must_use]
    pub fn entrance(&self) -> Option<Entrance> {
        self.known.map(|(entry, _)| entry.entrance).or(self.by_rules)
    }
}

impl Intake {
    /// Returns what would become of a whole frame that comes by a port now.
    pub fn look_up(&self, view: &View, port: PortId, frame: &[u8]) -> Result<LookedUp, MalformedError> {
        let ingress = port.0 as u8;
        match flow_key::parse(frame, frame.len()) {
            Parsed::Ipv4 { key, .. } => {
                Ok(self.looked_up(&self.flows, view, port, key.with_ingress(ingress)))
            }
            Parsed::Wide { key, .. } => {
                Ok(self.looked_up(&self.wide_flows, view, port, key.with_ingress(ingress)))
            }
            Parsed::Malformed(why) => Err(why),
            Parsed::NeedMore { .. } => unreachable!("the frame is there whole"),
        }
    }

    fn looked_up<K: FlowKey>(&self, flows: &Flows<K::Stored>, view: &View, port: PortId, key: K) -> LookedUp {
        let stored = key.stored();
        let hash = stored.hash(&self.seeds);
        let known = flows.peek(stored, flows.home(hash), self.stamp(view.plan));
        let by_rules = view.plan.rules.entrance(&key.flow());
        let spread = known.map_or_else(
            || view.plan.spread_from(port, self.worker, spread_of(hash)),
            |(entry, _)| entry.spread,
        );
        let everywhere = view.plan.ports.get(port.index()).is_some_and(PortPlace::is_everywhere);
        let by_queue = known.is_none() && everywhere && self.workers() > 1;
        let mut found = LookedUp { known, by_rules, spread, by_queue, turned_away: None, passed_over: 0 };
        if let Some(entrance) = found.entrance() {
            found.turned_away = turned_away(view, entrance, spread);
            found.passed_over = passed_over(view, entrance, spread);
        }
        found
    }
}
