//! Tables of groups of chains that nodes keep for each other.

use headgate_api::status::{FailoverStatus, GroupStatus, RefusedFrames};
use headgate_units::text as units;

use crate::output::Paint;
use crate::table::Table;

/// Returns the groups of a node, in the order of the configuration.
pub fn groups(groups: &[GroupStatus], paint: Paint) -> String {
    if groups.is_empty() {
        return "no groups: this node keeps no chains for others\n".into();
    }
    let parts: Vec<String> = groups.iter().map(|group| one(group, paint)).collect();
    parts.join("\n")
}

fn one(group: &GroupStatus, paint: Paint) -> String {
    let mut text = facts(group).render(paint) + "\n" + &lanes(group).render(paint);
    if group.doubled > 0 {
        text += &format!("outputs that came a second time, and ended: {}\n", units::whole(group.doubled));
    }
    let count = |one: &RefusedFrames| format!("{} {}", one.reason, units::whole(one.count));
    let refused: Vec<String> = group.refused.iter().map(count).collect();
    if !refused.is_empty() {
        text += &format!("frames not heeded: {}\n", refused.join(", "));
    }
    if let Some(time) = group.warned_ns {
        text += &format!("this node loses its power in {}\n", units::time(time));
    }
    text + &group.failover.as_ref().map_or(String::new(), failover)
}

fn facts(group: &GroupStatus) -> Table {
    let named = |name: &Option<String>| name.as_deref().unwrap_or("nobody").to_owned();
    let mut facts = Table::new(&["group", "role", ">view", "active", "standby", ">checkpoint", "kept"]);
    let is_gate = group.protected.is_some();
    let kept = match (group.log, group.latch) {
        (Some(log), _) => format!("log {} of {}", units::whole(group.in_log), units::whole(log.into())),
        (None, latch) => {
            format!("latch {} of {}", units::whole(group.in_latch), units::whole(latch.unwrap_or(0).into()))
        }
    };
    let standby = match group.protected {
        Some(false) if group.standby.is_some() => format!("{}, not ready", named(&group.standby)),
        _ => named(&group.standby),
    };
    let known = |text: String| if is_gate { text } else { format!("gate {} knows", group.gate) };
    let checkpoint = if is_gate { String::new() } else { group.epoch.to_string() };
    let (name, role, view) = (group.name.clone(), group.role.clone(), group.view.to_string());
    facts.row([name, role, view, known(named(&group.active)), known(standby), checkpoint, kept]);
    facts
}

fn lanes(group: &GroupStatus) -> Table {
    let mut lanes = Table::new(&["chain", ">arrived", ">finished", ">released", ">trimmed"]);
    for lane in &group.lanes {
        let [arrived, finished, released] = [lane.arrived, lane.finished, lane.released].map(units::whole);
        let trimmed = lane.trimmed.map_or(String::new(), units::whole);
        lanes.row([lane.chain.clone(), arrived, finished, released, trimmed]);
    }
    lanes
}

fn failover(failover: &FailoverStatus) -> String {
    let FailoverStatus { view, from, to, decided_ns, resumed_ns, .. } = failover;
    let decided = decided_ns
        .map_or(String::new(), |time| format!("; decided {} after it was out of reach", units::time(time)));
    let resumed = match resumed_ns {
        Some(time) => format!("; first packet out {} later", units::time(*time)),
        None => "; no packet has left since".to_owned(),
    };
    format!("last failover: from {from} to {to}, view {view}{decided}{resumed}\n")
}
