//! Report of a benchmark: tables for people, or one JSON object.

use std::fmt::Write as _;
use std::io::{self, Write as _};

use headgate_host::environment::Environment;
use serde_json::{Map, Value as Json, json};

use crate::statistics::{Name, Rounds, Summary};

/// Title of the section of throughputs.
pub const THROUGHPUT: &str = "throughput";

/// A result.
#[derive(Clone, Debug)]
pub struct Row {
    /// Its name.
    pub name: Name,
    /// Unit in which it is shown. The value behind `Mpps` is in packets per second, that behind `Gbit/s` in
    /// bits per second.
    pub unit: &'static str,
    /// Value to compare it with.
    pub note: &'static str,
    /// The values.
    pub summary: Summary,
}

/// Results that belong together.
#[derive(Clone, Debug)]
pub struct Section {
    /// Its title.
    pub title: &'static str,
    /// The title of the notes.
    pub note: &'static str,
    /// The results.
    pub rows: Vec<Row>,
}

/// Two results compared.
#[derive(Clone, Debug)]
pub struct Ratio {
    /// Its name.
    pub name: Name,
    /// The values.
    pub summary: Summary,
    /// Aim in words; empty if there is none.
    pub aim: String,
}

/// Results of an experiment.
#[derive(Clone, Debug)]
pub struct Report {
    /// The experiment.
    pub bench: Name,
    /// Description of the measurement, in a line.
    pub heading: String,
    /// Settings of the measurement.
    pub settings: Json,
    /// The machine, before it was busy with us.
    pub environment: Environment,
    /// The results.
    pub sections: Vec<Section>,
    /// The comparisons.
    pub ratios: Vec<Ratio>,
    /// Whether no audit found packets or buffers unaccounted for.
    pub conserved: bool,
    /// Notes for the reader.
    pub notes: Vec<String>,
    /// The values round by round.
    pub rounds: Rounds,
}

impl Report {
    /// Prints it to standard output.
    ///
    /// # Errors
    /// Fails if standard output cannot be written to.
    pub fn print(&self, json: bool) -> io::Result<()> {
        // Not line by line.
        let mut stdout = io::BufWriter::new(io::stdout().lock());
        if json {
            serde_json::to_writer_pretty(&mut stdout, &self.document())?;
            writeln!(stdout)?;
        } else {
            stdout.write_all(self.text().as_bytes())?;
        }
        stdout.flush()
    }

    /// Returns the report as a JSON object.
    #[must_use]
    pub fn document(&self) -> Json {
        let rows = || self.sections.iter().flat_map(|section| &section.rows);
        let variants: Map<_, _> = rows().map(|row| (row.name.to_string(), json!(row.summary))).collect();
        let units: Map<_, _> = rows().map(|row| (row.name.to_string(), json!(base(row.unit).0))).collect();
        let ratios: Map<_, _> =
            self.ratios.iter().map(|ratio| (ratio.name.to_string(), json!(ratio.summary))).collect();
        json!({
            "bench": self.bench,
            "settings": self.settings,
            "environment": self.environment,
            "conserved": self.conserved,
            "notes": self.all_notes().collect::<Vec<_>>(),
            "units": units,
            "variants": variants,
            "ratios": ratios,
        })
    }

    /// Notes of the bench, and a warning where the measurements differ too much.
    pub(crate) fn all_notes(&self) -> impl Iterator<Item = String> {
        self.notes.iter().cloned().chain(spread_note(&self.sections))
    }

    /// Returns the report as tables.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = format!("{}\n", self.heading);
        for section in self.sections.iter().filter(|section| !section.rows.is_empty()) {
            let rows = section
                .rows
                .iter()
                .map(|row| (&*row.name, numbers(&row.summary, base(row.unit).1), row.unit, row.note));
            write_table(&mut text, section.title, section.note, rows);
        }
        if !self.ratios.is_empty() {
            let rows =
                self.ratios.iter().map(|ratio| (&*ratio.name, numbers(&ratio.summary, 1.0), "", &*ratio.aim));
            write_table(&mut text, "ratio", "aim", rows);
        }
        write_environment(&mut text, &self.environment);
        for note in self.all_notes() {
            let _ = writeln!(text, "note: {note}");
        }
        let found = if self.conserved { "nothing was lost" } else { "PACKETS OR BUFFERS WERE LOST" };
        let _ = writeln!(text, "last audits: {found}");
        text
    }
}

/// The unit of the value behind one that is shown in another, and the factor between them.
pub(crate) fn base(shown: &str) -> (&str, f64) {
    match shown {
        "Mpps" => ("packets/s", 1e-6),
        "Gbit/s" => ("bit/s", 1e-9),
        same => (same, 1.0),
    }
}

/// Largest throughput of a case over its least, over all windows, from which on a note says so. Our choice:
/// that is more than what is compared mostly differs by.
const SPREAD_MAX: f64 = 1.3;

/// Returns a warning that names the throughputs whose windows differ too much to be relied on.
fn spread_note(sections: &[Section]) -> Option<String> {
    let rows =
        sections.iter().filter(|section| section.title == THROUGHPUT).flat_map(|section| &section.rows);
    let spread = rows.filter_map(|Row { name, summary, .. }| {
        let factor = summary.max / summary.min.max(f64::MIN_POSITIVE);
        (factor > SPREAD_MAX).then(|| match summary.min > 0.0 {
            true => format!("{name} ({factor:.1} times)"),
            false => format!("{name} (nothing in one)"),
        })
    });
    let spread: Vec<String> = spread.collect();
    (!spread.is_empty()).then(|| {
        format!(
            "warning: throughputs differ by more than {SPREAD_MAX} times from one window to another, so their medians \
             say little: {}",
            spread.join(", ")
        )
    })
}

/// Room for names that all tables have, so that those with short names line up.
const NAME_WIDTH: usize = 22;

/// Median, smallest, largest.
fn numbers(summary: &Summary, scale: f64) -> [String; 3] {
    [summary.median, summary.min, summary.max].map(|value| figures(value * scale))
}

/// Formats a number with at least three figures.
fn figures(value: f64) -> String {
    match value.abs() {
        size if size < 10.0 => format!("{value:.3}"),
        size if size < 100.0 => format!("{value:.2}"),
        _ => format!("{value:.1}"),
    }
}

fn write_table<'a>(
    text: &mut String,
    title: &str,
    note: &str,
    rows: impl Iterator<Item = (&'a str, [String; 3], &'a str, &'a str)>,
) {
    let rows: Vec<_> = rows.collect();
    let width = rows.iter().map(|(name, ..)| name.len()).fold(NAME_WIDTH, usize::max);
    let mut line = |name: &str, [median, min, max]: [&str; 3], unit: &str, note: &str| {
        let line = format!("{name:<width$}{median:>9}{min:>10}{max:>9}  {unit:<6} {note}");
        let _ = writeln!(text, "{}", line.trim_end());
    };
    line("", [""; 3], "", "");
    line(title, ["median", "min", "max"], "", note);
    for (name, [median, min, max], unit, note) in &rows {
        line(name, [median, min, max], unit, note);
    }
}

fn write_environment(text: &mut String, environment: &Environment) {
    let said = |fact: &Option<String>| fact.clone().unwrap_or_else(|| "unknown".to_owned());
    let _ = write!(
        text,
        "\nmachine: {}, {}, cores {} ({} isolated), SMT {}\nkernel: {}\n2 MiB pages free: {}, steady TSC: {}, \
         load average before: {}\n",
        said(&environment.cpu_model),
        environment.hypervisor.as_ref().map_or("no hypervisor".to_owned(), |name| format!("under {name}")),
        said(&environment.cores_allowed),
        environment.cores_isolated.as_deref().unwrap_or("none"),
        environment.smt_active.map_or("unknown", |on| if on { "on" } else { "off" }),
        said(&environment.kernel),
        environment.hugepages_free.map_or("unknown".to_owned(), |pages| pages.to_string()),
        if environment.tsc_invariant { "yes" } else { "no" },
        environment.load_average.map_or("unknown".to_owned(), |load| load.to_string()),
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Report {
        let summary = |median| Summary { median, min: median * 0.9, max: median * 1.1, n: 5 };
        let row = |name: &'static str, unit, note, median| Row {
            name: name.into(),
            unit,
            note,
            summary: summary(median),
        };
        Report {
            bench: "hop".into(),
            heading: "how".to_owned(),
            settings: json!({ "rounds": 5 }),
            environment: Environment::observe(),
            sections: vec![
                Section {
                    title: "throughput",
                    note: "reference",
                    rows: vec![row("one", "Mpps", "27", 26_000_000.0)],
                },
                Section { title: "latency", note: "", rows: vec![] },
                Section { title: "cost", note: "", rows: vec![row("hop_ns", "ns", "", 7.5)] },
            ],
            ratios: vec![Ratio {
                name: "isolated_over_fused".into(),
                summary: summary(0.95),
                aim: "at least 0.9".to_owned(),
            }],
            conserved: true,
            notes: vec!["be careful".to_owned()],
            rounds: Rounds::default(),
        }
    }

    #[test]
    fn the_document_maps_names_to_exactly_median_min_max_and_n() {
        let document = report().document();
        let keys = |value: &Json| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
        assert_eq!(keys(&document["variants"]), ["hop_ns", "one"]);
        assert_eq!(keys(&document["variants"]["one"]), ["max", "median", "min", "n"]);
        assert_eq!(keys(&document["ratios"]["isolated_over_fused"]), ["max", "median", "min", "n"]);
        assert_eq!(document["units"], json!({ "hop_ns": "ns", "one": "packets/s" }));
        assert!(document["environment"]["kernel"].is_string());
    }

    #[test]
    fn throughputs_that_swing_are_warned_of() {
        assert!(!report().text().contains("warning"));
        let mut swings = report();
        swings.sections[0].rows[0].summary.min = 13_000_000.0;
        let text = swings.text();
        assert!(text.contains("so their medians say little: one (2.2 times)\n"), "{text}");
        assert_eq!(swings.document()["notes"].as_array().unwrap().len(), 2);
        // What takes longer or shorter is no throughput.
        let mut other = report();
        other.sections[2].rows[0].summary.min = 0.0;
        assert!(!other.text().contains("warning"));
    }

    #[test]
    fn tables_line_up_and_empty_sections_are_left_out() {
        let text = report().text();
        let expected = "\
how

throughput               median       min      max         reference
one                       26.00     23.40    28.60  Mpps   27

cost                     median       min      max
hop_ns                    7.500     6.750    8.250  ns

ratio                    median       min      max         aim
isolated_over_fused       0.950     0.855    1.045         at least 0.9
";
        assert!(text.starts_with(expected), "{text}");
        assert!(text.contains("note: be careful\n") && text.ends_with("nothing was lost\n"), "{text}");
    }
}
