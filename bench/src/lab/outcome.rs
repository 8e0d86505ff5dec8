//! The report of an experiment.

use headgate_host::environment::Environment;
use serde_json::json;

use crate::report::{Ratio, Report, Row, Section, THROUGHPUT};

use super::experiment::Experiment;
use super::runner::{Outcome, Setting};

/// Sections by the last word of a value's name, and their titles.
const SECTIONS: [(&str, &str); 31] = [
    ("chain", "throughput of chains"),
    ("udp", "UDP"),
    ("dropped", "dropped, for whatever reason"),
    ("served", "NFs: packets worked on"),
    ("cpu", "NFs: part of a core"),
    ("wasted", "worked on, then dropped"),
    ("wasted_over_delivered", "wasted over delivered"),
    ("jain", "fairness (Jain)"),
    ("share_before", "CPU share of the first NF"),
    ("share_during", "CPU share of the first NF"),
    ("share_after", "CPU share of the first NF"),
    ("settle_ms", "until the share settled"),
    ("variation", "standard deviation over mean, of means of 100 ms"),
    ("recovers_ms", "until a chain had its part again"),
    ("voluntary", "context switches: slept"),
    ("involuntary", "context switches: taken"),
    ("delay", "ready, and waiting for the core before each run"),
    ("cycles", "cost of a packet"),
    ("p50", "latency, median"),
    ("p99", "latency, 99th percentile"),
    ("p25", "latency, 25th percentile"),
    ("p75", "latency, 75th percentile"),
    ("spread", "latency, from the 25th percentile to the 75th"),
    ("came", "throughput where the latency was measured"),
    ("wait", "time asleep over time at work"),
    ("contention", "time waiting for the core over time at work"),
    ("calls", "system calls for a packet at an NF"),
    ("control_cpu", "control thread"),
    ("resent", "TCP segments sent again"),
    ("udp_wasted", "UDP: worked on, then dropped"),
    ("over_bottleneck", "over what the slow NF had time for"),
];

/// The title of the section of a value.
fn section_of(experiment: &Experiment, name: &str) -> &'static str {
    if experiment.cases.iter().any(|case| case.name() == name) {
        return THROUGHPUT;
    }
    let word = name.rsplit('.').next().unwrap_or(name);
    let word = if word.ends_with("over_bottleneck") { "over_bottleneck" } else { word };
    let word = match word.strip_prefix("chain") {
        Some(number) if number.parse::<u32>().is_ok() => "chain",
        _ => word,
    };
    SECTIONS.iter().find(|(of, _)| *of == word).map_or("other", |(_, title)| title)
}

/// Returns the report of an experiment.
pub fn report(
    bench: String,
    experiment: &Experiment,
    outcome: Outcome,
    setting: &Setting,
    environment: Environment,
) -> Report {
    let rounds = &outcome.rounds;
    let mut sections: Vec<Section> = Vec::new();
    for (name, unit) in &outcome.units {
        let Some(summary) = rounds.summary(name) else { continue };
        let row = Row { name: name.clone().into(), unit, note: experiment.paper_of(name), summary };
        let title = section_of(experiment, name);
        match sections.iter_mut().find(|section| section.title == title) {
            Some(section) => section.rows.push(row),
            None => sections.push(Section { title, note: "", rows: vec![row] }),
        }
    }
    for section in &mut sections {
        if section.rows.iter().any(|row| !row.note.is_empty()) {
            section.note = "the paper's";
        }
    }
    Report {
        bench: bench.into(),
        heading: heading(experiment, rounds.len(), setting),
        settings: json!({
            "rounds": rounds.len(),
            "warm_up_s": setting.warm_up_s,
            "window_s": setting.window_s,
            "cores": { "manager": setting.cores.first(), "nfs": setting.cores.get(1..) },
            "cycles_per_second": setting.cycles_per_second,
            "simulated": setting.is_simulated,
            "source": experiment.source,
        }),
        environment,
        sections,
        ratios: ratios(experiment, &outcome),
        conserved: outcome.lost == 0,
        notes: notes(experiment, &outcome, setting),
        rounds: outcome.rounds,
    }
}

fn heading(experiment: &Experiment, rounds: usize, setting: &Setting) -> String {
    let Experiment { name, about, source, .. } = experiment;
    let (manager, nfs) = (setting.cores.first(), setting.cores.get(1..).unwrap_or_default());
    let nfs = if nfs.is_empty() { &setting.cores[..] } else { nfs };
    if setting.is_simulated {
        let cores = nfs.len();
        return format!(
            "{name} ({source}): {about}; simulated, nothing here was measured: a core for the worker and {cores} for NFs; \
             {rounds} seeds"
        );
    }
    format!(
        "{name} ({source}): {about}; manager on core {}, NFs on {nfs:?}; {rounds} rounds",
        manager.copied().unwrap_or_default()
    )
}

fn notes(experiment: &Experiment, outcome: &Outcome, setting: &Setting) -> Vec<String> {
    let mut notes = outcome.notes.clone();
    if setting.is_simulated {
        if outcome.lost > 0 {
            notes.push("something did not hold that must hold in every run: this is a bug".to_owned());
        }
        return notes;
    }
    let nf_cores = setting.cores.len().saturating_sub(1);
    if nf_cores == 0 {
        notes.push("one core only: manager and NFs share it, and the figures mean something else".to_owned());
    }
    if nf_cores < experiment.nf_cores {
        notes.push(format!(
            "the paper has {} cores for NFs here, this machine has {nf_cores}: NFs are put on {} in turn, so \
             absolute figures cannot be compared with the paper's",
            experiment.nf_cores,
            if nf_cores > 1 { "these" } else { "one core" },
        ));
    }
    if outcome.rounds.len() < 5 {
        notes.push("fewer than 5 rounds: the spread says little".to_owned());
    }
    if outcome.lost > 0 {
        let lost = outcome.lost;
        notes.push(format!("{lost} managers ended with packets or buffers unaccounted for: this is a bug"));
    }
    notes
}

/// Ratios of all rounds, with what is aimed at and what the paper has.
fn ratios(experiment: &Experiment, outcome: &Outcome) -> Vec<Ratio> {
    let of = |comparison: &super::experiment::Comparison| {
        let summary = outcome.rounds.derived(|round| comparison.formula.of(round))?;
        let aim = match (comparison.aim, experiment.paper_of(&comparison.name)) {
            (aim, "") => aim.to_owned(),
            ("", paper) => format!("the paper's: {paper}"),
            (aim, paper) => format!("{aim}; the paper's: {paper}"),
        };
        Some(Ratio { name: comparison.name.clone(), summary, aim })
    };
    experiment.comparisons.iter().filter_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::bed::TestBed;
    use crate::lab::experiment::{Case, Comparison, THROUGHPUT as MPPS};
    use crate::statistics::Round;

    fn measured() -> (Experiment, Outcome) {
        let experiment = Experiment {
            name: "chain",
            about: "",
            source: "",
            cases: vec![Case::new("normal", TestBed::chain(&[1], 1.0), &[])],
            comparisons: vec![Comparison::same("waste", "normal.nfvnice.wasted_over_delivered", "none")],
            paper: &[("normal.nfvnice", "2, and more"), ("waste", "little")],
            plot: MPPS,
            nf_cores: 1,
        };
        let mut outcome = Outcome::default();
        for value in [1e6, 3e6, 2e6] {
            let (rate, waste) = ("normal.nfvnice", "normal.nfvnice.wasted_over_delivered");
            outcome.rounds.push(Round::from([(rate, value), (waste, value / 1e9)]));
            outcome.units = vec![(rate.to_owned(), "Mpps"), (waste.to_owned(), "")];
        }
        (experiment, outcome)
    }

    #[test]
    fn ratios_have_their_aim_and_the_papers_beside() {
        let (experiment, outcome) = measured();
        assert_eq!(ratios(&experiment, &outcome)[0].aim, "none; the paper's: little");
    }

    #[test]
    fn values_have_a_section_by_their_last_word() {
        let (experiment, _) = measured();
        let section = |name| section_of(&experiment, name);
        assert_eq!(section("normal.nfvnice"), "throughput");
        assert_eq!(section("normal.nfvnice.chain2"), "throughput of chains");
        assert_eq!(section("normal.nfvnice.nf1.cpu"), "NFs: part of a core");
        assert_eq!(section("x.chain2_over_bottleneck"), "over what the slow NF had time for");
    }
}
