//! Arguments of an NF: read as the NF's own type, every mistake found at once, each with its path.
//!
//! The type that an NF reads its arguments as is the only description of them that cannot be wrong, so it is
//! the one that is asked. It stops at its first mistake: what is wrong there is taken out and it is asked
//! again, until it accepts the rest. A complaint about a part from which something was taken out is no
//! mistake of the file's, and is left out.
//!
//! What no type can say (two routes to one prefix, a port that is not there) an NF says itself, by
//! [`ArgumentErrors::add`].

use std::fmt;

use headgate_session::arguments::{ArgumentError, ArgumentErrorKind, PathStep};
use serde::de::DeserializeOwned;
use serde_json::Value as Json;
use serde_path_to_error::Segment;

/// Most mistakes that are looked for. Our choice: nobody reads more before mending some, and each takes the
/// time of reading all arguments.
const MISTAKES_MAX: usize = 50;

/// Everything that is wrong with the arguments of an NF: an error that an operator can mend in one go.
///
/// ```
/// # use headgate_nf::{ArgumentErrors, NfError};
/// # fn check(cycles: &[u64]) -> Result<(), NfError> {
/// let mut mistakes = ArgumentErrors::default();
/// for (number, cycles) in cycles.iter().enumerate() {
///     if *cycles > 1_000 {
///         mistakes.add(["steps".into(), number.into()], format!("{cycles} are more than 1000"));
///     }
/// }
/// mistakes.none()?;
/// # Ok(())
/// # }
/// # assert_eq!(check(&[1, 2000]).unwrap_err().to_string(), "steps[1]: 2000 are more than 1000");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ArgumentErrors(Vec<ArgumentError>);

impl ArgumentErrors {
    /// Adds a mistake that the types of the arguments could not see.
    pub fn add(&mut self, path: impl IntoIterator<Item = PathStep>, message: impl fmt::Display) {
        self.0.push(ArgumentError {
            path: path.into_iter().collect(),
            kind: ArgumentErrorKind::BadValue,
            word: String::new(),
            known: Vec::new(),
            message: message.to_string(),
        });
    }

    /// Adds a port or a stage that is not there.
    pub fn add_unknown(&mut self, path: impl IntoIterator<Item = PathStep>, unknown: &UnknownNameError) {
        self.add(path, unknown);
        if let Some(added) = self.0.last_mut() {
            added.kind = ArgumentErrorKind::UnknownWord;
            added.word.clone_from(&unknown.name);
            added.known.clone_from(&unknown.known);
        }
    }

    /// Returns the one mistake of naming a port or a stage that is not there.
    pub fn unknown(path: impl IntoIterator<Item = PathStep>, unknown: &UnknownNameError) -> Self {
        let mut mistakes = Self::default();
        mistakes.add_unknown(path, unknown);
        mistakes
    }

    /// Ends the check.
    ///
    /// # Errors
    /// Itself, unless there are none.
    pub fn none(self) -> Result<(), Self> {
        if self.0.is_empty() { Ok(()) } else { Err(self) }
    }

    /// The mistakes, in the order in which they were found.
    #[must_use]
    pub fn list(&self) -> &[ArgumentError] {
        &self.0
    }
}

impl fmt::Display for ArgumentErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, error) in self.0.iter().enumerate() {
            write!(f, "{}{error}", if number > 0 { "; " } else { "" })?;
        }
        Ok(())
    }
}

impl std::error::Error for ArgumentErrors {}

/// Error of one of several NFs that share a process.
#[derive(Debug, thiserror::Error)]
#[error("{label}: {error}")]
pub(crate) struct MemberError {
    /// Its name.
    pub(crate) label: String,
    /// Place of its arguments in those of the process.
    pub(crate) place: usize,
    /// Its error.
    pub(crate) error: Box<dyn std::error::Error>,
}

/// Returns the arguments that an NF refuses by an error with which it did not start; none when the error is
/// about something else, which may be better next time. Names of ports, stages and chains come from
/// arguments, whatever the NF made of that.
pub(crate) fn refused(error: &(dyn std::error::Error + 'static)) -> Vec<ArgumentError> {
    if let Some(MemberError { place, error, .. }) = error.downcast_ref() {
        let mut refused = refused(&**error);
        for error in &mut refused {
            error.path.insert(0, PathStep::Index(*place));
        }
        return refused;
    }
    let causes = std::iter::successors(Some(error), |error| error.source());
    let of_cause = |error: &(dyn std::error::Error + 'static)| {
        let unknown = || error.downcast_ref().map(|unknown| ArgumentErrors::unknown([], unknown));
        error.downcast_ref().cloned().or_else(unknown).map(|ArgumentErrors(list)| list)
    };
    causes.into_iter().find_map(of_cause).unwrap_or_default()
}

/// No port or stage has this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no {what} `{name}`; there {}", say(.known))]
pub struct UnknownNameError {
    /// `port`, `stage`, or `chain through this NF`.
    pub what: &'static str,
    /// The name that was asked for.
    pub name: String,
    /// The names that are known.
    pub known: Vec<String>,
}

fn say(names: &[String]) -> String {
    if names.is_empty() { "are none".to_owned() } else { format!("are {}", names.join(", ")) }
}

/// Reads arguments, a JSON object, as `T`.
pub(crate) fn read<T: DeserializeOwned>(text: &str) -> Result<T, ArgumentErrors> {
    let refused = match serde_json::from_str(text) {
        Ok(arguments) => return Ok(arguments),
        Err(refused) => refused,
    };
    let found = serde_json::from_str(text).map_or_else(|_| Vec::new(), mistakes::<T>);
    if !found.is_empty() {
        return Err(ArgumentErrors(found));
    }
    // Not JSON at all, or JSON that is only wrong as text, such as one key twice. The place is one in the
    // JSON that the manager made of the configuration: no help to anyone.
    let said = refused.to_string();
    let mut mistakes = ArgumentErrors::default();
    mistakes.add([], said.split(" at line ").next().unwrap_or(&said));
    Err(mistakes)
}

/// Asks `T` again and again, without what it has complained about.
fn mistakes<T: DeserializeOwned>(mut arguments: Json) -> Vec<ArgumentError> {
    let mut found = Vec::new();
    let mut gone: Vec<Vec<PathStep>> = Vec::new();
    while found.len() < MISTAKES_MAX {
        let Err(error) = serde_path_to_error::deserialize::<_, T>(&arguments) else { break };
        let path = steps(error.path(), &arguments);
        let mistake = described(original(&path, &gone), &error.into_inner().to_string());
        let is_ours = gone.iter().any(|gone| match mistake.kind {
            ArgumentErrorKind::MissingKey => missing_place(&mistake) == *gone,
            ArgumentErrorKind::UnknownKey => false,
            _ => gone.starts_with(&mistake.path),
        });
        let taken = mistake.path.clone();
        if !is_ours {
            found.push(mistake);
        }
        if !take_out(&mut arguments, &path) {
            break;
        }
        gone.push(taken);
    }
    found
}

/// Returns the place where the missing key would be.
fn missing_place(mistake: &ArgumentError) -> Vec<PathStep> {
    let mut place = mistake.path.clone();
    place.push(PathStep::Key(mistake.word.clone()));
    place
}

/// Returns the steps of a path as far as the arguments have them. What an untagged part of a type saw inside
/// its value is not told, so such a path ends at the value.
fn steps(path: &serde_path_to_error::Path, arguments: &Json) -> Vec<PathStep> {
    let mut steps = Vec::new();
    let mut at = arguments;
    for segment in path {
        let (step, next) = match segment {
            Segment::Seq { index } => (PathStep::Index(*index), at.get(index)),
            Segment::Map { key } | Segment::Enum { variant: key } => {
                (PathStep::Key(key.clone()), at.get(key))
            }
            Segment::Unknown => break,
        };
        let Some(next) = next else { break };
        steps.push(step);
        at = next;
    }
    steps
}

/// Takes what the path leads to out of the arguments; `false` if it leads nowhere.
fn take_out(arguments: &mut Json, path: &[PathStep]) -> bool {
    let Some((last, above)) = path.split_last() else { return false };
    let at = above.iter().try_fold(arguments, |at, step| match step {
        PathStep::Key(key) => at.get_mut(key),
        PathStep::Index(index) => at.get_mut(index),
    });
    match (at, last) {
        (Some(Json::Object(table)), PathStep::Key(key)) => table.remove(key).is_some(),
        (Some(Json::Array(list)), PathStep::Index(index)) if *index < list.len() => {
            list.remove(*index);
            true
        }
        _ => false,
    }
}

/// Returns a path as it was before the elements at `gone` were taken out of their arrays.
fn original(path: &[PathStep], gone: &[Vec<PathStep>]) -> Vec<PathStep> {
    let mut whole: Vec<PathStep> = Vec::with_capacity(path.len());
    for step in path {
        let mut step = step.clone();
        if let PathStep::Index(index) = &mut step {
            let mut gone_here: Vec<usize> = gone.iter().filter_map(|gone| sibling(gone, &whole)).collect();
            gone_here.sort_unstable();
            for gone in gone_here {
                *index += usize::from(gone <= *index);
            }
        }
        whole.push(step);
    }
    whole
}

/// Returns the index of `place` in the array at `above`, if it is an element of it.
fn sibling(place: &[PathStep], above: &[PathStep]) -> Option<usize> {
    match place.strip_prefix(above) {
        Some([PathStep::Index(index)]) => Some(*index),
        _ => None,
    }
}

/// Makes a mistake of what serde says.
fn described(path: Vec<PathStep>, said: &str) -> ArgumentError {
    let word = || said.split('`').nth(1).unwrap_or_default().to_owned();
    let known = |after: &str| {
        let listed = said.split_once(after).map_or("", |(_, listed)| listed);
        listed.split('`').skip(1).step_by(2).map(str::to_owned).collect()
    };
    let (kind, word, known) = if said.starts_with("unknown field ") {
        (ArgumentErrorKind::UnknownKey, word(), known("expected "))
    } else if said.starts_with("unknown variant ") {
        (ArgumentErrorKind::UnknownWord, word(), known("expected "))
    } else if said.starts_with("missing field ") {
        (ArgumentErrorKind::MissingKey, word(), Vec::new())
    } else {
        (ArgumentErrorKind::BadValue, String::new(), Vec::new())
    };
    let message = if kind == ArgumentErrorKind::BadValue { plain(said) } else { said.to_owned() };
    ArgumentError { path, kind, word, known, message }
}

/// Says what serde says in the words of a configuration instead of those of a program.
fn plain(said: &str) -> String {
    let types = [
        ("u8", "a whole number, 0 to 255"),
        ("u16", "a whole number, 0 to 65535"),
        ("u32", "a whole number, 0 to 4294967295"),
        ("u64", "a whole number, 0 or more"),
        ("usize", "a whole number, 0 or more"),
        ("f64", "a number"),
        ("a boolean", "true or false"),
        ("a sequence", "an array"),
        ("a map", "a table"),
    ];
    let is_wrong = ["invalid type: ", "invalid value: "].iter().find_map(|start| said.strip_prefix(start));
    let Some((found, expected)) = is_wrong.and_then(|rest| rest.rsplit_once(", expected ")) else {
        return said.to_owned();
    };
    let named = types.iter().find(|(name, _)| *name == expected).map(|(_, named)| *named);
    let a_table = expected.starts_with("struct ").then_some("a table");
    let found = match found {
        "sequence" => "an array",
        "map" => "a table",
        "null" => "nothing",
        other => other,
    };
    format!("expected {}, found {found}", named.or(a_table).unwrap_or(expected))
}

#[cfg(test)]
mod tests;
