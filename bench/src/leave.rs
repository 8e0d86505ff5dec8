//! What a run prints, and the report that it leaves.

use std::path::Path;

use headgate_host::environment::Environment;
use headgate_host::run::Run;
use headgate_report::place::{Place, PlaceError};
use headgate_report::plot::{Axis, Bars, Drawing, Plot};
use headgate_report::report::{Report as Left, Value};

use crate::report::{Ratio, Report, Row, Section, base};
use crate::statistics::{Rounds, Summary};

/// The output of a run.
pub struct Output {
    /// Whether one JSON document is printed in place of tables.
    pub json: bool,
    name: String,
    place: Place,
    run: Run,
    /// The first report that could not be written. What is measured is printed all the same.
    failed: Option<PlaceError>,
}

impl Output {
    /// Makes the folder of the report, and looks at the machine before the run.
    ///
    /// # Errors
    /// The folder that was asked for is there already or cannot be made.
    pub fn begin(json: bool, wish: Option<&Path>, name: String) -> Result<Self, PlaceError> {
        let run = Run::begin();
        let place = Place::prepare(wish, &name, run.started())?;
        Ok(Self { json, name, place, run, failed: None })
    }

    /// Returns the machine before the run.
    #[must_use]
    pub fn machine(&self) -> Environment {
        self.run.machine().clone()
    }

    /// Prints the result of a run, and leaves its report.
    ///
    /// # Errors
    /// Standard output cannot be written to.
    pub fn tell(&mut self, report: &Report) -> anyhow::Result<()> {
        report.print(self.json)?;
        self.leave(None, report, plots(report));
        Ok(())
    }

    /// Leaves the report of a run, or of a part of it.
    pub(crate) fn leave(&mut self, part: Option<&str>, report: &Report, plots: Vec<Plot>) {
        if !self.place.is_wanted() {
            return;
        }
        let name = part.map_or_else(|| self.name.clone(), |_| report.bench.to_string());
        let told = serde_json::to_value(self.run.told()).unwrap_or_default();
        let left = Left {
            heading: report.heading.clone(),
            settings: report.settings.clone(),
            values: values(report),
            notes: report.all_notes().collect(),
            plots,
            ..Left::of_run(&name, self.run.started(), told)
        };
        let written = match part {
            Some(part) => self.place.part(part).write(&left).map(|()| self.place.keep()),
            None => self.place.write(&left),
        };
        self.failed = self.failed.take().or(written.err());
    }

    /// Says where the report lies.
    ///
    /// # Errors
    /// A report could not be written.
    pub fn end(self) -> Result<(), PlaceError> {
        if let Some(line) = self.place.last_line() {
            eprintln!("headgate: {line}");
        }
        self.failed.map_or(Ok(()), Err)
    }
}

fn values(report: &Report) -> Vec<Value> {
    let of_row = |title: &'static str| {
        move |row: &Row| value(title, &row.name, base(row.unit).0, row.summary, row.note, &report.rounds)
    };
    let rows = report.sections.iter().flat_map(|section| section.rows.iter().map(of_row(section.title)));
    let ratio =
        |ratio: &Ratio| value("ratio", &ratio.name, "", ratio.summary, &ratio.aim, &Rounds::default());
    rows.chain(report.ratios.iter().map(ratio)).collect()
}

fn value(section: &str, name: &str, unit: &str, summary: Summary, note: &str, rounds: &Rounds) -> Value {
    let rounds = rounds.iter().map(|round| round.get(name).copied());
    let Summary { median, min, max, n } = summary;
    Value {
        median: Some(median),
        min: Some(min),
        max: Some(max),
        n,
        ..Value::of(section, name, unit, rounds).noted(note)
    }
}

/// A plot of each table, and of each unit in it.
fn plots(report: &Report) -> Vec<Plot> {
    let mut plots = Vec::new();
    for section in &report.sections {
        let mut units: Vec<&str> = section.rows.iter().map(|row| row.unit).collect();
        units.dedup();
        for unit in units {
            plots.push(of_section(section, unit, plots.len()));
        }
    }
    if !report.ratios.is_empty() {
        let mut bars = Bars::new("ratio", Axis::linear("ratio"));
        for Ratio { name, summary, .. } in &report.ratios {
            bars.add(name, "", summary.median, [summary.min, summary.max]);
        }
        plots.push(Plot {
            name: "ratios".to_owned(),
            title: "Ratios, within rounds".to_owned(),
            drawing: Drawing::Bars(bars),
        });
    }
    plots
}

fn of_section(section: &Section, unit: &str, number: usize) -> Plot {
    let label = if unit.is_empty() { section.title.to_owned() } else { format!("{}, {unit}", section.title) };
    let mut bars = Bars::new("value", Axis::linear(label));
    let scale = base(unit).1;
    for row in section.rows.iter().filter(|row| row.unit == unit) {
        let Summary { median, min, max, .. } = row.summary;
        bars.add(&row.name, "", median * scale, [min * scale, max * scale]);
    }
    Plot {
        name: format!("{}-{}", number + 1, section.title),
        title: format!("{}: median, smallest and largest of rounds", section.title),
        drawing: Drawing::Bars(bars),
    }
}
