//! Tables of a file for all nodes: what each says of it, and what they would do.

use headgate_cluster::NodeAnswer;
use headgate_cluster::forecast::{ChangeForecast, CoreForecast, Forecast};
use headgate_units::text as units;
use headgate_units::text::harmless;

use crate::output::{Ink, Paint};
use crate::table::Table;

/// Returns what nodes say of a file, in a word: of one that is in force, or that would be.
pub fn answer_state(is_in_force: bool, answer: Option<&Option<NodeAnswer>>) -> &'static str {
    match answer {
        None => "not there",
        Some(None) => "silent",
        Some(Some(answer)) if answer.problem.is_some() => "refuses",
        Some(Some(_)) if is_in_force => "goes by it",
        Some(Some(_)) => "could",
    }
}

/// Returns what nodes say of a file.
pub fn applied(
    number: u64,
    is_in_force: bool,
    nodes: &[(&str, Option<Option<NodeAnswer>>)],
    paint: Paint,
) -> String {
    let mut text = if is_in_force { format!("file {number} is in force\n\n") } else { String::new() };
    let mut table = Table::new(&["node", "state", if is_in_force { "changed" } else { "would change" }]);
    for (node, answer) in nodes {
        let state = answer_state(is_in_force, answer.as_ref());
        let said = answer.as_ref().and_then(Option::as_ref);
        let told = said.map(|said| said.problem.clone().unwrap_or_else(|| said.changes.join(", ")));
        let ink = matches!(state, "refuses" | "silent").then_some(Ink::Red);
        table.inked_row([
            (harmless(node), None),
            (state.to_owned(), ink),
            (harmless(&told.unwrap_or_default()), None),
        ]);
    }
    text += &table.render(paint);
    text + "\n"
}

/// Returns what nodes would do.
pub fn forecast(forecast: &Forecast, paint: Paint) -> String {
    let mut text = String::new();
    if forecast.changes.is_empty() {
        text += "no instance starts or ends\n\n";
    } else {
        text += &changes(&forecast.changes, paint);
        text.push('\n');
    }
    if !forecast.is_settled {
        text += "it does not settle within 15 minutes\n\n";
    }
    text += &cores(&forecast.cores, paint);
    text.push('\n');
    let mut table = Table::new(&["nf", "serve it at the end", ">of"]);
    for nf in &forecast.nfs {
        let nodes: Vec<String> = nf.nodes.iter().map(|node| harmless(node)).collect();
        table.row([harmless(&nf.nf), nodes.join(", "), format!("{} to {}", nf.min, nf.max)]);
    }
    if !table.is_empty() {
        text += &table.render(paint);
        text.push('\n');
    }
    let mut table = Table::new(&["chain", ">enter", ">lost"]);
    for chain in &forecast.chains {
        // What is lost by rounding is not lost.
        let is_lost = chain.lost > 0.5;
        let lost = if is_lost { units::packet_rate(chain.lost) } else { "none".to_owned() };
        table.inked_row([
            (harmless(&chain.chain), None),
            (units::packet_rate(chain.entered), None),
            (lost, is_lost.then_some(Ink::Red)),
        ]);
    }
    text + &table.render(paint)
}

fn changes(changes: &[ChangeForecast], paint: Paint) -> String {
    let mut table = Table::new(&[">after", "nf", "node", "", "why"]);
    for change in changes {
        table.row([
            format!("{:.1} s", change.at_s),
            harmless(&change.nf),
            harmless(&change.node),
            if change.starts { "starts" } else { "ends" }.to_owned(),
            change.why.clone(),
        ]);
    }
    table.render(paint)
}

fn cores(cores: &[CoreForecast], paint: Paint) -> String {
    let mut table = Table::new(&["node", ">core", "nfs", ">asked for", ">price", "band"]);
    for core in cores {
        let nfs: Vec<String> = core.nfs.iter().map(|nf| harmless(nf)).collect();
        let ink = match core.band {
            "over" => Some(Ink::Red),
            "under" => Some(Ink::Dim),
            _ => None,
        };
        table.inked_row([
            (harmless(&core.node), None),
            (core.core.to_string(), None),
            (nfs.join(", "), None),
            (units::percent(core.asked), None),
            (format!("{:.2}", core.price), None),
            (core.band.to_owned(), ink),
        ]);
    }
    table.render(paint)
}

#[cfg(test)]
mod tests {
    use headgate_cluster::forecast::{ChainForecast, NfForecast};

    use super::*;

    #[test]
    fn what_nodes_say_and_would_do_reads_well() {
        let said = |changes: &[&str], problem: Option<&str>| {
            let changes = changes.iter().map(|change| (*change).to_owned()).collect();
            Some(Some(NodeAnswer { changes, problem: problem.map(str::to_owned) }))
        };
        let nodes = [
            ("a", said(&["nf fw added"], None)),
            ("b", said(&[], Some("no\u{1b}[2J"))),
            ("c", Some(None)),
            ("d", None),
        ];
        let text = applied(7, true, &nodes, Paint::default());
        for part in ["file 7 is in force", "goes by it", "nf fw added", "refuses", "silent", "not there"] {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
        assert!(!text.contains('\u{1b}'));
        assert!(applied(0, false, &nodes, Paint::default()).contains("could"));
        let core = |node: &str, band| CoreForecast {
            node: node.to_owned(),
            core: 1,
            nfs: vec!["fw".to_owned()],
            asked: 0.9,
            price: 9.0,
            band,
        };
        let change = ChangeForecast {
            at_s: 2.0,
            nf: "fw".into(),
            node: "c".into(),
            starts: true,
            why: "it pays".into(),
        };
        let would = Forecast {
            is_settled: false,
            changes: vec![change],
            cores: vec![core("b", "over"), core("c", "under")],
            nfs: vec![NfForecast { nf: "fw".into(), min: 1, max: 3, nodes: vec!["b".into(), "c".into()] }],
            chains: vec![ChainForecast { chain: "out".into(), entered: 1e5, lost: 5e3 }],
        };
        let text = forecast(&would, Paint::default());
        for part in
            ["2.0 s", "starts", "it pays", "not settle", "over", "90", "b, c", "1 to 3", "100", "5.00"]
        {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
    }
}
