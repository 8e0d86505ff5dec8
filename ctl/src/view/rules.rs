//! Rules as a table.

use headgate_api::configuration::RulesStatus;
use headgate_units::text as units;

use crate::output::Paint;
use crate::table::Table;

/// Returns the rules in their order; what none of them matches comes last.
pub fn rules(rules: &RulesStatus, paint: Paint) -> String {
    let mut table = Table::new(&[">rule", "chain", ">flows", "packets that match"]);
    for rule in &rules.rules {
        table.row([
            rule.place.to_string(),
            rule.chain.clone(),
            units::whole(rule.flows),
            rule.matches.clone(),
        ]);
    }
    let mut text = if table.is_empty() { "no rules\n".to_owned() } else { table.render(paint) };
    if rules.unmatched_packets > 0 {
        let packets = units::whole(rules.unmatched_packets);
        text += &format!("packets that matched none and were dropped (no-rule): {packets}\n");
    }
    text
}
