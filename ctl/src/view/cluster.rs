//! Tables of nodes that share NFs.

use headgate_api::explanation::{Explanation, NodeChange, NodeCost};
use headgate_api::status::{
    ClusterStatus, NodeStatus, RangeStatus, ServerStatus, SharedStageStatus, StoreStatus,
};
use headgate_decide::spread::SLOTS;
use headgate_units::text as units;
use headgate_units::text::harmless;

use crate::output::{Ink, Paint};
use crate::table::Table;

/// Returns nodes, and how flows are divided.
pub fn cluster(cluster: &ClusterStatus, paint: Paint) -> String {
    let ClusterStatus { node, mode, period_ns, .. } = cluster;
    let mut text = format!("node {}, {mode} every {}\n\n", harmless(node), units::time(*period_ns));
    text += &nodes(cluster, paint);
    text.push('\n');
    text += &stages(&cluster.stages, paint);
    if let Some(told) = &cluster.store {
        text += &store(told, &cluster.ranges, paint);
    }
    text + &beats(cluster)
}

/// Returns how the store is, and who has claimed to serve what.
fn store(store: &StoreStatus, ranges: &[RangeStatus], paint: Paint) -> String {
    let state = if store.reachable { "answers" } else { "does not answer" };
    let by = match &store.orchestrator {
        Some(node) => format!("{}, term {}", harmless(node), store.term),
        None => "nobody".to_owned(),
    };
    let mut text = format!("\nstore {} {state}; orchestrator: {by}\n", harmless(&store.server));
    if let Some(problem) = &store.problem {
        text += &format!("{}\n", harmless(problem));
    }
    text += &files(store);
    let here: Vec<String> = ranges
        .iter()
        .map(|range| {
            format!(
                "{} is {} here, {} to {} serve it",
                harmless(&range.nf),
                range.state,
                range.min,
                range.max
            )
        })
        .collect();
    if !here.is_empty() {
        text += &format!("{}\n", here.join("; "));
    }
    let mut table = Table::new(&["nf", "node", "claim", "why"]);
    for claim in &store.claims {
        table.row([harmless(&claim.nf), harmless(&claim.node), harmless(&claim.state), harmless(&claim.why)]);
    }
    text + "\n" + &table.render(paint)
}

/// Returns which file is in force, and which nodes cannot go by it.
fn files(store: &StoreStatus) -> String {
    let file = store.file.map(|file| format!("file {file} is in force for all nodes\n"));
    let problems = store.applied.iter().filter_map(|node| {
        let first = node.problem.as_ref()?.lines().next().unwrap_or_default();
        Some(format!("node {} cannot go by file {}: {}\n", harmless(&node.node), node.file, harmless(first)))
    });
    file.into_iter().chain(problems).collect()
}

/// Returns the price of each core.
pub fn prices(cluster: &ClusterStatus, paint: Paint) -> String {
    let mut table = Table::new(&["node", "nf", ">instances", ">price", ">used", ">service time"]);
    for node in &cluster.nodes {
        for nf in &node.nfs {
            table.row([
                harmless(&node.name),
                harmless(&nf.nf),
                units::whole(nf.instances.into()),
                format!("{:.2}", nf.price),
                format!("{:.0} %", 100.0 * nf.price / (1.0 + nf.price)),
                nf.service_time_ns.map_or(String::new(), units::time),
            ]);
        }
    }
    table.render(paint)
}

/// Returns the nodes that a packet passes.
pub fn path(told: &Explanation, entry: &str, paint: Paint) -> String {
    let mut text = paint.ink(Ink::Bold, &harmless(&told.packet)) + "\n";
    if let Some(end) = &told.end {
        return text + &format!("ends at {}: {}\n", harmless(entry), harmless(&end.sentence));
    }
    let Some(chain) = &told.chain else { return text + "takes no chain\n" };
    text += &format!("chain {}, enters at {}\n\n", harmless(chain), harmless(entry));
    let mut table = Table::new(&["stage", "node", "instance", "before", "what a packet cost then"]);
    for stage in &told.stages {
        let nf = stage.nf.split('@').next().unwrap_or_default();
        let own = stage.instance.as_ref().map(|_| entry);
        let node =
            stage.node.as_deref().or(own).map_or_else(|| "the node before chooses".to_owned(), harmless);
        let instance = stage.instance.as_deref().map_or(String::new(), harmless);
        let [before, costs] = stage.changed.as_ref().map(change).unwrap_or_default();
        table.row([harmless(nf), node, instance, before, costs]);
    }
    text += &table.render(paint);
    text + &told.out.as_ref().map_or(String::new(), |out| format!("\nleaves by {}\n", harmless(out)))
}

/// Returns the node before the last change, and what that went by.
fn change(change: &NodeChange) -> [String; 2] {
    let cost = |one: &NodeCost| format!("{:.2} at {}", one.cost, harmless(&one.node));
    let costs: Vec<String> = change.costs.iter().map(cost).collect();
    [format!("{}, until {} ago", harmless(&change.from), units::time(change.ago_ns)), costs.join(", ")]
}

/// Returns whether a node is there, in a word.
pub fn node_state(node: &NodeStatus, own: &str) -> &'static str {
    match node.alive {
        _ if node.name == own => "this one",
        true => "alive",
        false => "lost",
    }
}

fn server_state(server: &ServerStatus) -> &'static str {
    match (server.alive, server.leaving) {
        (false, _) => "gone",
        (true, true) => "leaves",
        (true, false) => "serves",
    }
}

/// Returns the part of new flows that goes to a node, in words.
pub fn new_flows(server: &ServerStatus) -> String {
    format!("{:.0} %", f64::from(server.slots) * 100.0 / SLOTS as f64)
}

fn nodes(cluster: &ClusterStatus, paint: Paint) -> String {
    let mut table = Table::new(&["node", "state", ">hops", "by", ">heard ago", "offers"]);
    for node in &cluster.nodes {
        table.row([
            harmless(&node.name),
            node_state(node, &cluster.node).to_owned(),
            node.hops.map_or("no way".to_owned(), |hops| units::whole(hops.into())),
            node.interface.clone().unwrap_or_default(),
            node.heard_ns_ago.map_or(String::new(), units::time),
            offers(node),
        ]);
    }
    table.render(paint)
}

/// Returns what a node offers, with the prices of its cores.
pub fn offers(node: &NodeStatus) -> String {
    let offer = |nf: &headgate_api::status::OfferStatus| match nf.instances {
        0 => format!("{} down", harmless(&nf.nf)),
        1 => format!("{} at {:.2}", harmless(&nf.nf), nf.price),
        count => format!("{} ({count}) at {:.2}", harmless(&nf.nf), nf.price),
    };
    node.nfs.iter().map(offer).collect::<Vec<_>>().join(", ")
}

fn stages(stages: &[SharedStageStatus], paint: Paint) -> String {
    let mut table = Table::new(&[
        "chain",
        "stage",
        "node",
        "state",
        ">new flows",
        ">flows",
        ">cost",
        ">packets/s",
        ">moved",
    ]);
    for stage in stages {
        for (at, server) in stage.servers.iter().enumerate() {
            let first = |text: String| if at == 0 { text } else { String::new() };
            table.row([
                first(harmless(&stage.chain)),
                first(harmless(&stage.nf)),
                harmless(&server.node),
                server_state(server).to_owned(),
                new_flows(server),
                server.flows.map_or(String::new(), units::whole),
                server.cost.map_or(String::new(), |cost| format!("{cost:.2}")),
                first(format!("{:.0}", stage.steered_rate)),
                first(units::whole(stage.moved)),
            ]);
        }
    }
    table.render(paint)
}

/// Returns what came from others and was not heeded, if anything was.
fn beats(cluster: &ClusterStatus) -> String {
    let beats = &cluster.beats;
    let counts = [
        ("foreign", beats.foreign),
        ("malformed", beats.malformed),
        ("unknown", beats.unknown),
        ("old", beats.old),
    ];
    let refused: Vec<String> =
        counts.iter().filter(|(_, count)| *count > 0).map(|(why, count)| format!("{count} {why}")).collect();
    if refused.is_empty() { String::new() } else { format!("\nbeats not heeded: {}\n", refused.join(", ")) }
}

#[cfg(test)]
mod tests {
    use headgate_api::explanation::StageExplanation;
    use headgate_api::status::{BeatStatus, ClaimStatus, OfferStatus};

    use super::*;

    fn told() -> ClusterStatus {
        let offer = |instances, price| OfferStatus {
            nf: "fw".into(),
            instances,
            price,
            service_time_ns: Some(700),
            leaving: false,
        };
        let node = |name: &str, alive, nfs| NodeStatus {
            name: name.into(),
            alive,
            hops: Some(1),
            interface: Some(format!("a{name}")),
            heard_ns_ago: Some(40_000_000),
            nfs,
        };
        let server = |node: &str, slots| ServerStatus {
            node: node.into(),
            alive: slots > 0,
            slots,
            flows: Some(u64::from(slots) * 10),
            cost: (slots > 0).then_some(1.6),
            ..ServerStatus::default()
        };
        let stage = SharedStageStatus {
            chain: "out".into(),
            nf: "fw".into(),
            flows_stay: true,
            steered_rate: 1234.0,
            moved: 64,
            servers: vec![server("b", 128), server("c", 0)],
            ..SharedStageStatus::default()
        };
        ClusterStatus {
            node: "a".into(),
            mode: "drench".into(),
            period_ns: 1_000_000_000,
            nodes: vec![
                node("a", true, vec![]),
                node("b", true, vec![offer(2, 1.0)]),
                node("c", false, vec![]),
            ],
            stages: vec![stage],
            beats: BeatStatus { old: 3, ..BeatStatus::default() },
            ..ClusterStatus::default()
        }
    }

    #[test]
    fn nodes_and_flows_read_well() {
        let text = cluster(&told(), Paint::default());
        for part in [
            "node a, drench every 1.00 s",
            "this one",
            "alive",
            "lost",
            "fw (2) at 1.00",
            "100 %",
            "gone",
            "3 old",
        ] {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
        let text = prices(&told(), Paint::default());
        assert!(text.contains("50 %") && text.contains("700 ns"), "{text}");
    }

    #[test]
    fn a_store_and_its_claims_read_well() {
        let claim = ClaimStatus {
            nf: "fw".into(),
            node: "b".into(),
            state: "claimed".into(),
            why: "\u{1b}[2Jit pays".into(),
        };
        let store = StoreStatus {
            server: "10.8.0.1:2379".into(),
            problem: Some("it is wrong".into()),
            claims: vec![claim],
            ..StoreStatus::default()
        };
        let range =
            RangeStatus { nf: "fw".into(), min: 1, max: 3, state: "absent".into(), ..RangeStatus::default() };
        let text =
            cluster(&ClusterStatus { store: Some(store), ranges: vec![range], ..told() }, Paint::default());
        for part in [
            "store 10.8.0.1:2379 does not answer; orchestrator: nobody",
            "it is wrong",
            "fw is absent here, 1 to 3 serve it",
            "claimed",
            "it pays",
        ] {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
        assert!(!text.contains('\u{1b}'), "what lies in a store is harmless");
    }

    #[test]
    fn a_path_says_what_another_node_chooses() {
        let stage = |nf: &str, node: Option<&str>| StageExplanation {
            nf: nf.into(),
            node: node.map(str::to_owned),
            ..StageExplanation::default()
        };
        let cost = |node: &str, cost| NodeCost { node: node.into(), cost };
        let changed = NodeChange {
            from: "b".into(),
            ago_ns: 12_000_000_000,
            costs: vec![cost("b", 2.5), cost("c", 1.25)],
        };
        let moved = StageExplanation { changed: Some(changed), ..stage("fw@b,c", Some("c")) };
        let told = Explanation {
            packet: "tcp 10.0.0.1:1 > 10.0.0.2:2".into(),
            chain: Some("out".into()),
            stages: vec![moved, stage("mon@b,c", None)],
            out: Some("east@d".into()),
            ..Explanation::default()
        };
        let text = path(&told, "a", Paint::default());
        let before = ["b, until 12.0 s ago", "2.50 at b, 1.25 at c"];
        for part in ["enters at a", "the node before chooses", "leaves by east@d"].into_iter().chain(before) {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
    }
}
