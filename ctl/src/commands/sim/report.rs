//! Tables of simulated runs.

use headgate_sim::Report;
use headgate_sim::scenarios::Scenario;

use crate::table::Table;

/// Returns the figures of a scenario's cases beside those that were measured, and the papers'.
pub fn beside(scenario: &Scenario, reports: &[(String, Report)]) -> Table {
    let mut table = Table::new(&["value", ">simulated", "unit", ">measured", ">paper"]);
    for value in reports.iter().flat_map(|(case, report)| report.values(case)) {
        let (measured, paper) = scenario.beside(&value.name).unwrap_or_default();
        let figure = format!("{:.3}", value.value);
        table.row([value.name, figure, value.unit.to_owned(), measured.to_owned(), paper.to_owned()]);
    }
    table
}
