//! What becomes of a packet, as text.

use headgate_api::explanation::{Explanation, StageExplanation, Treatment};
use headgate_units::text as units;
use headgate_units::text::harmless;

use crate::output::{Ink, Paint};
use crate::table::Table;

/// Returns the way of a packet. Without a manager nothing is known of flows and states.
pub fn explanation(told: &Explanation, paint: Paint) -> String {
    let mut text = paint.ink(Ink::Bold, &harmless(&told.packet)) + "\n";
    text += &format!("  {:<7}{}\n", "rule", rule(told));
    if let Some(known) = &told.known {
        let ago = units::time(known.idle_ns);
        text += &format!(
            "  {:<7}known, last packet {ago} ago; takes chain {} whatever the rules say\n",
            "flow",
            harmless(&known.chain)
        );
    }
    if let Some(chain) = &told.chain {
        text += &format!("  {:<7}{}\n", "chain", harmless(chain));
    }
    if let Some(end) = &told.end {
        let reason = paint.ink(Ink::Red, &harmless(&end.reason));
        text += &format!("  {:<7}{reason}: {}\n", "ends", harmless(&end.sentence));
    }
    if !told.stages.is_empty() {
        text.push('\n');
        text += &stages(&told.stages, paint);
    }
    if let Some(out) = told.out.as_ref().filter(|_| told.end.is_none()) {
        text += &match out.as_str() {
            "nf" => "\nleaves by the port that the last NF names\n".to_owned(),
            out => format!("\nleaves by {}, unless an NF drops it or sends it elsewhere\n", harmless(out)),
        };
    }
    for note in &told.notes {
        text += &paint.wrap(&format!("note: {}", harmless(note)), 2);
        text.push('\n');
    }
    text
}

fn rule(told: &Explanation) -> String {
    match &told.rule {
        Some(rule) => {
            format!("{}: {}, to chain {}", rule.place, harmless(&rule.matches), harmless(&rule.chain))
        }
        None => "none matches".to_owned(),
    }
}

fn stages(stages: &[StageExplanation], paint: Paint) -> String {
    let mut table = Table::new(&["stage", "runs", "instance", "state", "treatment"]);
    for stage in stages {
        let instance = match (&stage.instance, stage.instances) {
            (Some(instance), _) => harmless(instance),
            (None, 1) => stage.nf.clone(),
            (None, 0) => "-".to_owned(),
            (None, count) => format!("one of {count}"),
        };
        let treatment = match stage.treatment {
            Treatment::Works => "works on it",
            Treatment::LeftOut => "is left out",
            Treatment::NotReached => "not reached",
        };
        let notes: String = stage.notes.iter().map(|note| format!("; {}", harmless(note))).collect();
        table.row([
            harmless(&stage.nf),
            harmless(&stage.runs),
            instance,
            stage.state.clone().unwrap_or_else(|| "-".to_owned()),
            format!("{treatment}{notes}"),
        ]);
    }
    table.render(paint)
}
