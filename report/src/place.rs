//! The folder that a run leaves.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::clock::stamp;
use crate::draw::svg;
use crate::page;
use crate::report::{FILE, Report};

/// Folder in which reports lie that were given no place, below the one where the command was run.
pub const FOLDER: &str = "headgate-reports";
/// Word for a run that leaves none.
pub const NONE: &str = "none";
/// Variable with another folder for them, or the word for none.
pub const VARIABLE: &str = "HEADGATE_REPORTS";
/// Runs of one second that have names of their own.
const MOST_IN_A_SECOND: u32 = 1000;

/// The place of a report.
#[derive(Debug)]
pub struct Place {
    folder: Option<PathBuf>,
    /// The folder that is made when there is something to be written, where nobody asked for one: a run that
    /// is interrupted leaves none.
    later: Option<Later>,
    /// Why there is none, where that was not asked for.
    missing: Option<String>,
    written: bool,
}

/// A folder that is made later: below which, and what its name is made of.
#[derive(Debug)]
struct Later {
    base: PathBuf,
    name: String,
    now: SystemTime,
}

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
pub enum PlaceError {
    /// There is something already.
    #[error("--report {0}: something is there already; name another folder, or remove it first")]
    Exists(PathBuf),
    /// It cannot be made.
    #[error("--report {0}: the folder cannot be made: {1}")]
    NotMade(PathBuf, io::Error),
    /// A file of it cannot be written.
    #[error(
        "the report cannot be written: {0}: {1}; what was printed is all that is left of the run \
         (--report DIR chooses another place)"
    )]
    NotWritten(PathBuf, io::Error),
}

impl Place {
    /// Makes the folder that was asked for before anything runs. Where none was (`None`), one with the name
    /// and the time is made at the end, in the folder that the variable names, else in [`FOLDER`]; if that
    /// cannot be, there is no report, and the last line says so.
    ///
    /// # Errors
    /// The folder that was asked for is there already, or cannot be made.
    pub fn prepare(wish: Option<&Path>, name: &str, now: SystemTime) -> Result<Self, PlaceError> {
        let of = |folder, later| Self { folder, later, missing: None, written: false };
        if let Some(folder) = wish {
            return Ok(match folder == Path::new(NONE) {
                true => of(None, None),
                false => of(Some(made(folder)?), None),
            });
        }
        let base = std::env::var_os(VARIABLE).filter(|value| !value.is_empty()).map(PathBuf::from);
        let base = base.unwrap_or_else(|| PathBuf::from(FOLDER));
        if base == Path::new(NONE) {
            return Ok(of(None, None));
        }
        Ok(of(None, Some(Later { base, name: name.to_owned(), now })))
    }

    /// Returns the place of a part of the run, in the folder of the whole; a second part of that name
    /// replaces the first.
    #[must_use]
    pub fn part(&mut self, name: &str) -> Self {
        let folder = self.folder().map(|folder| folder.join(file_name(name)));
        Self { folder, later: None, missing: None, written: true }
    }

    /// Returns whether a report is to be written.
    #[must_use]
    pub const fn is_wanted(&self) -> bool {
        self.folder.is_some() || self.later.is_some()
    }

    /// Writes a report: all of its files, or none.
    ///
    /// # Errors
    /// A file cannot be written; those that were are removed.
    pub fn write(&mut self, report: &Report) -> Result<(), PlaceError> {
        let Some(folder) = self.folder() else { return Ok(()) };
        let not_made = |error| PlaceError::NotWritten(folder.clone(), error);
        fs::create_dir_all(&folder).map_err(not_made)?;
        let mut paths = Vec::new();
        for (name, bytes) in files(report) {
            let path = folder.join(name);
            paths.push(path.clone());
            if let Err(error) = bytes.and_then(|bytes| fs::write(&path, bytes)) {
                for path in &paths {
                    // It may be the one that could not be made.
                    let _ = fs::remove_file(path);
                }
                return Err(PlaceError::NotWritten(path, error));
            }
        }
        self.written = true;
        Ok(())
    }

    /// Returns the folder, which is made now if it was to be made later.
    fn folder(&mut self) -> Option<PathBuf> {
        if let Some(Later { base, name, now }) = self.later.take() {
            match made_anew(&base, &name, now) {
                Ok(folder) => self.folder = Some(folder),
                Err(error) => {
                    self.missing = Some(format!("no report is left: {}: {error}", base.display()));
                }
            }
        }
        self.folder.clone()
    }

    /// Says that parts of it were written.
    pub fn keep(&mut self) {
        self.written = true;
    }

    /// Returns what is said of it at the end: where the report lies, or why there is none.
    #[must_use]
    pub fn last_line(&self) -> Option<String> {
        match (&self.folder, self.written) {
            (Some(folder), true) => {
                let page = folder.join("report.html");
                let path = if page.is_file() { page } else { folder.clone() };
                Some(format!("report: {}", path.display()))
            }
            (Some(_), false) => None,
            (None, _) => self.missing.clone(),
        }
    }
}

/// A run that failed leaves no folder.
impl Drop for Place {
    fn drop(&mut self) {
        if let Some(folder) = self.folder.as_ref().filter(|_| !self.written) {
            // One that holds something stays.
            let _ = fs::remove_dir(folder);
            // So does the one of all reports; it was perhaps made for this one.
            let _ = folder.parent().filter(|parent| parent.ends_with(FOLDER)).map(fs::remove_dir);
        }
    }
}

/// The files of a report.
fn files(report: &Report) -> Vec<(String, io::Result<Vec<u8>>)> {
    let json = serde_json::to_vec_pretty(report).map_err(io::Error::other);
    let mut files = vec![
        (FILE.to_owned(), json),
        ("values.csv".to_owned(), values(report)),
        ("rounds.csv".to_owned(), rounds(report)),
    ];
    for plot in &report.plots {
        files.push((format!("{}.svg", file_name(&plot.name)), Ok(svg(plot).into_bytes())));
    }
    files.push(("report.html".to_owned(), Ok(page::page(report).into_bytes())));
    files
}

/// A line for each value.
fn values(report: &Report) -> io::Result<Vec<u8>> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(["section", "name", "unit", "median", "min", "max", "n", "note"])?;
    for value in &report.values {
        let number = |number: Option<f64>| number.map_or(String::new(), |number| number.to_string());
        let [median, min, max] = [value.median, value.min, value.max].map(number);
        let n = value.n.to_string();
        let record: [&str; 8] =
            [&value.section, &value.name, &value.unit, &median, &min, &max, &n, &value.note];
        writer.write_record(record)?;
    }
    writer.into_inner().map_err(|error| error.into_error())
}

/// A line for each value and round.
fn rounds(report: &Report) -> io::Result<Vec<u8>> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(["name", "unit", "round", "value"])?;
    for value in &report.values {
        for (round, number) in value.rounds.iter().enumerate() {
            let number = number.map_or(String::new(), |number| number.to_string());
            let record: [&str; 4] = [&value.name, &value.unit, &(round + 1).to_string(), &number];
            writer.write_record(record)?;
        }
    }
    writer.into_inner().map_err(|error| error.into_error())
}

/// Makes a folder that is not there yet, or is empty.
fn made(folder: &Path) -> Result<PathBuf, PlaceError> {
    let not_made = |error| PlaceError::NotMade(folder.to_owned(), error);
    if let Some(parent) = folder.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        fs::create_dir_all(parent).map_err(not_made)?;
    }
    match fs::create_dir(folder) {
        Ok(()) => Ok(folder.to_owned()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            // One that is empty was made for this, or by a run that was interrupted.
            let is_empty = fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_none());
            if is_empty { Ok(folder.to_owned()) } else { Err(PlaceError::Exists(folder.to_owned())) }
        }
        Err(error) => Err(not_made(error)),
    }
}

/// Makes a folder of a name that no other has.
fn made_anew(base: &Path, name: &str, now: SystemTime) -> io::Result<PathBuf> {
    fs::create_dir_all(base)?;
    let stamp = stamp(now);
    let name = file_name(name);
    for again in 1..MOST_IN_A_SECOND {
        let again = if again == 1 { String::new() } else { format!("-{again}") };
        let folder = base.join(format!("{name}-{stamp}{again}"));
        match fs::create_dir(&folder) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            made => return made.map(|()| folder),
        }
    }
    Err(io::Error::other("too many reports of this second"))
}

/// Returns a name without what has a meaning in paths and shells.
fn file_name(name: &str) -> String {
    let harmless = |letter: char| match letter {
        letter if letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_') => letter,
        _ => '-',
    };
    let name: String = name.chars().map(harmless).take(80).collect();
    let name = name.trim_matches('-');
    if name.is_empty() { "report".to_owned() } else { name.to_owned() }
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::*;
    use crate::plot::{Bars, Drawing, Plot};
    use crate::report::Value;

    fn report() -> Report {
        let plot =
            Plot { name: "../up".to_owned(), title: "t".to_owned(), drawing: Drawing::Bars(Bars::default()) };
        Report {
            headgate_report: crate::report::VERSION,
            name: "hop".to_owned(),
            values: vec![Value::of("", "a,b", "ns", [Some(1.0), None]).noted("\"aim\"")],
            plots: vec![plot],
            ..Report::default()
        }
    }

    #[test]
    fn a_folder_holds_page_values_and_pictures_and_is_read_again() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("new/one");
        let mut place = Place::prepare(Some(&folder), "hop", UNIX_EPOCH).unwrap();
        place.write(&report()).unwrap();
        let line = place.last_line().unwrap();
        assert!(line.starts_with("report: ") && line.ends_with("new/one/report.html"), "{line}");
        drop(place);
        let mut names: Vec<_> = fs::read_dir(&folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        assert_eq!(names, ["report.html", "report.json", "rounds.csv", "up.svg", "values.csv"]);
        assert_eq!(Report::read(&folder).unwrap().values, report().values);
        let text = fs::read_to_string(folder.join("values.csv")).unwrap();
        assert_eq!(text.lines().nth(1), Some(",\"a,b\",ns,1,1,1,1,\"\"\"aim\"\"\""));
        let text = fs::read_to_string(folder.join("rounds.csv")).unwrap();
        assert_eq!(text.lines().nth(2), Some("\"a,b\",ns,2,"));
    }

    #[test]
    fn a_folder_that_is_there_or_cannot_be_made_is_refused_before_the_run() {
        let home = tempfile::tempdir().unwrap();
        fs::write(home.path().join("other"), "").unwrap();
        let refused = |path: &Path| Place::prepare(Some(path), "hop", UNIX_EPOCH).unwrap_err().to_string();
        assert!(refused(home.path()).contains("there already"));
        let file = home.path().join("file");
        fs::write(&file, "").unwrap();
        assert!(refused(&file).contains("there already"));
        assert!(refused(&file.join("below")).contains("cannot be made"));
        let empty = home.path().join("empty");
        fs::create_dir(&empty).unwrap();
        assert!(Place::prepare(Some(&empty), "hop", UNIX_EPOCH).is_ok());
        let place = Place::prepare(Some(Path::new(NONE)), "hop", UNIX_EPOCH).unwrap();
        assert_eq!(place.last_line(), None);
    }

    #[test]
    fn a_run_that_failed_or_found_no_room_leaves_nothing() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("one");
        drop(Place::prepare(Some(&folder), "hop", UNIX_EPOCH).unwrap());
        assert!(!folder.exists());
        let mut place = Place::prepare(Some(&folder), "hop", UNIX_EPOCH).unwrap();
        // Where a file is to be written there is a folder.
        fs::create_dir(folder.join("rounds.csv")).unwrap();
        let error = place.write(&report()).unwrap_err().to_string();
        assert!(error.contains("rounds.csv") && error.contains("what was printed"), "{error}");
        assert!(!folder.join("report.json").exists() && place.last_line().is_none());
        fs::remove_dir(folder.join("rounds.csv")).unwrap();
        drop(place);
        assert!(!folder.exists());
    }

    #[test]
    fn two_runs_of_a_second_have_folders_of_their_own() {
        let home = tempfile::tempdir().unwrap();
        let one = made_anew(home.path(), "nfvnice chain", UNIX_EPOCH).unwrap();
        let other = made_anew(home.path(), "nfvnice chain", UNIX_EPOCH).unwrap();
        assert!(one.ends_with("nfvnice-chain-19700101-000000"), "{one:?}");
        assert!(other.ends_with("nfvnice-chain-19700101-000000-2"), "{other:?}");
        assert_eq!(file_name("../../etc/passwd"), "etc-passwd");
        assert_eq!(file_name("\u{0}"), "report");
    }
}
