//! Look-ups: what would become of a packet that an operator describes, if it came now.
//!
//! The worker answers, because it alone has the flow table and knows which plan it works by. Nothing is learnt or
//! used by the question.

use headgate_units::PortId;
use headgate_wire::MalformedError;
use headgate_wire::flow_key::{self, Parsed};

use super::learn::FlowKey;
use super::spread_of;
use crate::flows::{Entry, Flows, Key};
use crate::holders::Entrance;
use crate::intake::Intake;
use crate::plan::Plan;

/// What would become of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LookedUp {
    /// What the flow table says of its flow, and the ticks of the table's clock since it was last used. It
    /// is obeyed before the rules.
    pub known: Option<(Entry, u32)>,
    /// What the rules say.
    pub by_rules: Option<Entrance>,
    /// Hash that chooses instances, of a flow that is not known.
    pub spread: u32,
}

impl Intake {
    /// Returns what would become of a whole frame that comes by a port now.
    pub fn look_up(&self, plan: &Plan, port: PortId, frame: &[u8]) -> Result<LookedUp, MalformedError> {
        let ingress = port.0 as u8;
        match flow_key::parse(frame, frame.len()) {
            Parsed::Ipv4 { key, .. } => Ok(self.looked_up(&self.flows, plan, key.with_ingress(ingress))),
            Parsed::Wide { key, .. } => Ok(self.looked_up(&self.wide_flows, plan, key.with_ingress(ingress))),
            Parsed::Malformed(why) => Err(why),
            Parsed::NeedMore { .. } => unreachable!("the frame is there whole"),
        }
    }

    fn looked_up<K: FlowKey>(&self, flows: &Flows<K::Stored>, plan: &Plan, key: K) -> LookedUp {
        let stored = key.stored();
        let hash = stored.hash(&self.seeds);
        LookedUp {
            known: flows.peek(stored, flows.home(hash), self.stamp(plan)),
            by_rules: plan.rules.entrance(&key.flow()),
            spread: spread_of(hash),
        }
    }
}
