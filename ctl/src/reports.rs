//! The folder that a run leaves: its page, plots and values (`headgate_report`), and where it ran.

use std::path::PathBuf;

use headgate_host::run::Run;
use headgate_report::place::{Place, PlaceError};
use headgate_report::report::Report;

use crate::error::{CommandError, Exit};
use crate::output::Output;

/// Where the report of a run is to lie.
#[derive(Clone, Debug, clap::Args)]
pub struct Wish {
    /// Leave the report (a page with plots, all values, the environment) in this new folder, or none
    /// [default: headgate-reports/NAME-TIME, or a folder in $HEADGATE_REPORTS]
    #[arg(long, value_name = "DIR|none")]
    report: Option<PathBuf>,
}

/// A run that will leave a report.
pub struct Leaving {
    name: String,
    place: Place,
    run: Run,
}

impl Wish {
    /// Makes the folder, and looks at the machine before the run.
    ///
    /// # Errors
    /// The folder that was asked for is there already or cannot be made.
    pub fn begin(&self, name: &str) -> Result<Leaving, CommandError> {
        let run = Run::begin();
        let place = Place::prepare(self.report.as_deref(), name, run.started())?;
        Ok(Leaving { name: name.to_owned(), place, run })
    }
}

impl Leaving {
    /// Writes the report when everything was printed, and says where it lies.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn end(mut self, out: &Output, fill: impl FnOnce(&mut Report)) -> Result<(), CommandError> {
        if self.place.is_wanted() {
            let told = serde_json::to_value(self.run.told()).map_err(CommandError::environment)?;
            let mut report = Report::of_run(&self.name, self.run.started(), told);
            fill(&mut report);
            self.place.write(&report)?;
        }
        if let Some(line) = self.place.last_line() {
            out.note(line);
        }
        Ok(())
    }
}

impl From<PlaceError> for CommandError {
    fn from(error: PlaceError) -> Self {
        let exit = match error {
            PlaceError::Exists(_) => Exit::Usage,
            PlaceError::NotMade(..) => Exit::Environment,
            PlaceError::NotWritten(..) => Exit::Failed,
        };
        Self::new(exit, error.to_string())
    }
}
