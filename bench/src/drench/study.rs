//! What an experiment comes to, and how it is run.

use headgate_sim::network::Graph;

use crate::statistics::{Name, Round, Rounds};

/// How a study is run.
pub struct Setting {
    /// Number of seeds.
    pub seeds: u64,
    /// Half the time.
    pub quick: bool,
    /// Map of a network in place of generated ones.
    pub map: Option<Graph>,
}

/// A section: its title, and the names of values with their unit and the dissertation's figure.
pub type Shown = (&'static str, Vec<(Name, &'static str, &'static str)>);

/// How a comparison is formed from the values of a seed.
pub type Formula = Box<dyn Fn(&Round) -> Option<f64>>;

/// What an experiment came to.
pub struct Study {
    /// Description, in a line.
    pub heading: String,
    /// Values by seed.
    pub rounds: Rounds,
    /// Its sections.
    pub sections: Vec<Shown>,
    /// Comparisons: name, aim, and how it is formed.
    pub ratios: Vec<Comparison>,
    /// Notes for the reader.
    pub notes: Vec<String>,
    /// Whether all held that must hold in every run.
    pub is_sound: bool,
}

/// A comparison within a seed.
pub struct Comparison {
    /// Its name.
    pub name: String,
    /// Aim in words.
    pub aim: &'static str,
    /// What it is.
    pub formula: Formula,
}

impl Comparison {
    /// Makes the ratio of two values.
    #[must_use]
    pub fn ratio(name: impl Into<String>, over: String, under: String, aim: &'static str) -> Self {
        let formula = move |round: &Round| Some(round.get(&*over)? / round.get(&*under)?);
        Self { name: name.into(), aim, formula: Box::new(formula) }
    }

    /// Makes that of one value, which is a ratio itself.
    #[must_use]
    pub fn same(name: impl Into<String>, value: String, aim: &'static str) -> Self {
        Self { name: name.into(), aim, formula: Box::new(move |round| round.get(&*value).copied()) }
    }

    /// Makes that of the least, or the largest, step between neighbours of a row of values.
    #[must_use]
    pub fn steps(name: impl Into<String>, row: Vec<String>, rises: bool, aim: &'static str) -> Self {
        let formula = move |round: &Round| {
            let values: Option<Vec<f64>> = row.iter().map(|name| round.get(&**name).copied()).collect();
            let values = values?;
            let steps = values.windows(2).map(|pair| pair[1] / pair[0]);
            if rises { steps.min_by(f64::total_cmp) } else { steps.max_by(f64::total_cmp) }
        };
        Self { name: name.into(), aim, formula: Box::new(formula) }
    }
}
