//! Where the scenes of a run come from: a scenario by its name, a configuration, or a scene as it is.

use std::path::Path;

use headgate_sim::scenarios::{self, Scenario};
use headgate_sim::{Report, Scene};

use super::{report, scene};
use crate::error::{CommandError, Exit};
use crate::output::{Output, Paint};
use crate::shipped::Shipped;

/// End of the name of a file that is a scene as it is.
pub const SCENE_SUFFIX: &str = ".scene.json";
/// Name of the only case of a file.
const FILE_CASE: &str = "run";

/// The scenes that are run, and what they are compared with.
pub enum Source {
    /// Cases of a scenario.
    Scenario(Scenario),
    /// The scene of a file.
    File {
        /// Its name.
        name: String,
        /// Its one case.
        cases: Vec<(String, Scene)>,
    },
}

impl Source {
    /// Finds it: a name of a scenario first, else a file.
    ///
    /// # Errors
    /// There is neither, the file is refused, or no case of the scenario begins with `case`.
    pub fn find(name: &str, case: &str, out: &Output) -> Result<Self, CommandError> {
        if let Some(scenario) = scenarios::named(name) {
            return of_scenario(scenario, case);
        }
        if !case.is_empty() {
            return Err(CommandError::usage("--case chooses cases of a scenario: leave it out with a file"));
        }
        let path = Path::new(name);
        if !path.exists() {
            return Err(unknown(name));
        }
        let scene =
            if name.ends_with(SCENE_SUFFIX) { read_scene(path)? } else { of_configuration(path, out)? };
        Ok(Self::File { name: name.to_owned(), cases: vec![(FILE_CASE.to_owned(), scene)] })
    }

    /// Returns the cases to run.
    pub fn cases(&self) -> &[(String, Scene)] {
        match self {
            Self::Scenario(scenario) => &scenario.cases,
            Self::File { cases, .. } => cases,
        }
    }

    /// Returns its kind and name.
    pub fn name(&self) -> (&'static str, &str) {
        match self {
            Self::Scenario(scenario) => ("scenario", scenario.name),
            Self::File { name, .. } => ("file", name),
        }
    }

    /// Returns what a value is to be compared with: what was measured, and what papers have, in this unit.
    pub fn note(&self, value: &str, unit: &str) -> String {
        let Self::Scenario(scenario) = self else { return String::new() };
        let (measured, paper) = scenario.beside(value).unwrap_or_default();
        let all = [("measured", measured), ("paper", paper)];
        let said = all.iter().filter(|(_, figure)| !figure.is_empty());
        said.map(|(who, figure)| format!("{who}: {figure} {unit}").trim_end().to_owned())
            .collect::<Vec<_>>()
            .join("; ")
    }

    /// Returns what was counted, for people.
    pub fn render(&self, reports: &[(String, Report)], paint: Paint) -> String {
        match (self, reports) {
            (Self::Scenario(scenario), _) => report::beside(scenario, reports).render(paint),
            (Self::File { .. }, [(_, only)]) => report::whole(only, paint),
            (Self::File { .. }, many) => report::values(many).render(paint),
        }
    }
}

fn of_scenario(mut scenario: Scenario, case: &str) -> Result<Source, CommandError> {
    let known: Vec<String> = scenario.cases.iter().map(|(name, _)| name.clone()).collect();
    scenario.cases.retain(|(name, _)| name.starts_with(case));
    if scenario.cases.is_empty() {
        let (name, known) = (scenario.name, known.join(", "));
        let message = format!("no case of {name} begins with `{case}`: there are {known}");
        return Err(CommandError::usage(message));
    }
    Ok(Source::Scenario(scenario))
}

fn of_configuration(path: &Path, out: &Output) -> Result<Scene, CommandError> {
    let simulated = headgate_config::load_simulated(path, &Shipped::find()?.catalog)?;
    out.report(&simulated.warnings);
    scene::of(&simulated).map_err(|error| refused(path, &error))
}

fn read_scene(path: &Path) -> Result<Scene, CommandError> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| CommandError::environment(format!("cannot read {}: {error}", path.display())))?;
    let scene: Scene = serde_json::from_str(&text).map_err(|error| refused(path, &error.to_string()))?;
    match scene.mistakes().as_slice() {
        [] => Ok(scene),
        mistakes => Err(refused(path, &mistakes.join("; "))),
    }
}

fn refused(path: &Path, why: &str) -> CommandError {
    CommandError::new(Exit::Configuration, format!("{}: {why}", path.display()))
}

fn unknown(name: &str) -> CommandError {
    let known: Vec<&str> = scenarios::all().iter().map(|scenario| scenario.name).collect();
    CommandError::usage(format!(
        "there is no file and no scenario `{name}`: give a configuration, or one of {}",
        known.join(", ")
    ))
}
