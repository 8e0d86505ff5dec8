//! Report of a takeover.

use headgate_decide::lifecycle::TakenOver;

use super::Effect;
use crate::control::instance::Instance;
use crate::status::EventCode;

/// Report of a packet that ended as poison.
const POISONED: &str = "a packet ended as poison: three processes in a row died with it as the first in their hands; \
                        capture its chain's traffic to find it";

/// Notes that a standby took over. Returns the event.
pub(super) fn report_takeover(
    instance: &mut Instance,
    takeover: &TakenOver,
    effects: &mut Vec<Effect>,
) -> (EventCode, String) {
    let TakenOver { why, again, alone, poisoned, took } = takeover;
    instance.last_failure = Some(why.to_string());
    instance.takeovers += 1;
    if *poisoned {
        let (code, who) = (EventCode::PacketPoisoned, instance.seat.name.clone());
        effects.push(Effect::Log { code, who, what: POISONED.to_owned() });
    }
    let alone = if *alone { ", one by one" } else { "" };
    let took = instance.takeover_ns.unwrap_or(took.0) / 1000;
    let what =
        format!("its standby took over within {took} us: {why}; {again} packets were delivered again{alone}");
    (EventCode::NfTakenOver, what)
}
