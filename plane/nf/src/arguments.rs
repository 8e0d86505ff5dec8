//! Arguments of an NF: read as the NF's own type, every mistake found at once, each with its path.
//!
//! The type that an NF reads its arguments as is the only description of them that cannot be wrong, so it is
//! the one that is asked. It stops at its first mistake: what is wrong there is taken out and it is asked
//! again, until it accepts the rest. A complaint about a part from which something was taken out is no
//! mistake of the file's, and is left out.
//!
//! What no type can say (two routes to one prefix, a port that is not there) an NF says itself, by
//! [`Mistakes::add`].

use std::fmt::{self, Write as _};

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value as Json;
use serde_path_to_error::Segment;

/// Most mistakes that are looked for. Our choice: nobody reads more before mending some, and each takes the
/// time of reading all arguments.
const MISTAKES_MAX: usize = 50;

/// One step of a path into the arguments. Serialises as a string or a number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Step {
    /// To the value of a key.
    Key(String),
    /// To an element of an array, from 0.
    Index(usize),
}

impl From<&str> for Step {
    fn from(key: &str) -> Self {
        Self::Key(key.to_owned())
    }
}

impl From<usize> for Step {
    fn from(index: usize) -> Self {
        Self::Index(index)
    }
}

/// Kind of a mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum MistakeKind {
    /// A key that means nothing; the path ends with it.
    UnknownKey,
    /// A key that is missing; the path leads to the table that lacks it.
    MissingKey,
    /// A word that is none of those that may stand there.
    UnknownWord,
    /// Anything else.
    BadValue,
}

/// One thing that is wrong with the arguments of an NF.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Mistake {
    /// Path of the value or key that is wrong, from the top of the arguments.
    pub path: Vec<Step>,
    /// Kind.
    pub kind: MistakeKind,
    /// The unknown or missing word; empty for a bad value.
    pub word: String,
    /// Words that may stand there instead; empty where that is not known.
    pub known: Vec<String>,
    /// Description for people.
    pub message: String,
}

/// Everything that is wrong with the arguments of an NF: an error that an operator can mend in one go.
///
/// ```
/// # use headgate_nf::{Mistakes, NfError};
/// # fn check(cycles: &[u64]) -> Result<(), NfError> {
/// let mut mistakes = Mistakes::default();
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
pub struct Mistakes(Vec<Mistake>);

impl Mistakes {
    /// Adds a mistake that the types of the arguments could not see.
    pub fn add(&mut self, path: impl IntoIterator<Item = Step>, message: impl fmt::Display) {
        self.0.push(Mistake {
            path: path.into_iter().collect(),
            kind: MistakeKind::BadValue,
            word: String::new(),
            known: Vec::new(),
            message: message.to_string(),
        });
    }

    /// Adds a port or a stage that is not there.
    pub fn add_unknown(&mut self, path: impl IntoIterator<Item = Step>, unknown: &UnknownNameError) {
        self.add(path, unknown);
        if let Some(added) = self.0.last_mut() {
            added.kind = MistakeKind::UnknownWord;
            added.word.clone_from(&unknown.name);
            added.known.clone_from(&unknown.known);
        }
    }

    /// Returns the one mistake of naming a port or a stage that is not there.
    pub fn unknown(path: impl IntoIterator<Item = Step>, unknown: &UnknownNameError) -> Self {
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
    pub fn list(&self) -> &[Mistake] {
        &self.0
    }
}

impl fmt::Display for Mistakes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, Mistake { path, message, .. }) in self.0.iter().enumerate() {
            let between = if number > 0 { "; " } else { "" };
            match path_text(path) {
                path if path.is_empty() => write!(f, "{between}{message}")?,
                path => write!(f, "{between}{path}: {message}")?,
            }
        }
        Ok(())
    }
}

impl std::error::Error for Mistakes {}

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

/// Returns a path as people write it: `rules[2].protocol`.
fn path_text(path: &[Step]) -> String {
    let mut text = String::new();
    for step in path {
        // Writing to a string cannot fail.
        let _ = match step {
            Step::Index(index) => write!(text, "[{index}]"),
            Step::Key(key) if text.is_empty() => write!(text, "{key}"),
            Step::Key(key) => write!(text, ".{key}"),
        };
    }
    text
}

/// Reads arguments, a JSON object, as `T`.
pub(crate) fn read<T: DeserializeOwned>(text: &str) -> Result<T, Mistakes> {
    let refused = match serde_json::from_str(text) {
        Ok(arguments) => return Ok(arguments),
        Err(refused) => refused,
    };
    let found = serde_json::from_str(text).map_or_else(|_| Vec::new(), mistakes::<T>);
    if !found.is_empty() {
        return Err(Mistakes(found));
    }
    // Not JSON at all, or JSON that is only wrong as text, such as one key twice. The place is one in the
    // JSON that the manager made of the configuration: no help to anyone.
    let said = refused.to_string();
    let mut mistakes = Mistakes::default();
    mistakes.add([], said.split(" at line ").next().unwrap_or(&said));
    Err(mistakes)
}

/// Asks `T` again and again, without what it has complained about.
fn mistakes<T: DeserializeOwned>(mut arguments: Json) -> Vec<Mistake> {
    let mut found = Vec::new();
    let mut gone: Vec<Vec<Step>> = Vec::new();
    while found.len() < MISTAKES_MAX {
        let Err(error) = serde_path_to_error::deserialize::<_, T>(&arguments) else { break };
        let path = steps(error.path(), &arguments);
        let mistake = described(original(&path, &gone), &error.into_inner().to_string());
        let is_ours = gone.iter().any(|gone| match mistake.kind {
            MistakeKind::MissingKey => missing_place(&mistake) == *gone,
            MistakeKind::UnknownKey => false,
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
fn missing_place(mistake: &Mistake) -> Vec<Step> {
    let mut place = mistake.path.clone();
    place.push(Step::Key(mistake.word.clone()));
    place
}

/// Returns the steps of a path as far as the arguments have them. What an untagged part of a type saw inside
/// its value is not told, so such a path ends at the value.
fn steps(path: &serde_path_to_error::Path, arguments: &Json) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut at = arguments;
    for segment in path {
        let (step, next) = match segment {
            Segment::Seq { index } => (Step::Index(*index), at.get(index)),
            Segment::Map { key } | Segment::Enum { variant: key } => (Step::Key(key.clone()), at.get(key)),
            Segment::Unknown => break,
        };
        let Some(next) = next else { break };
        steps.push(step);
        at = next;
    }
    steps
}

/// Takes what the path leads to out of the arguments; `false` if it leads nowhere.
fn take_out(arguments: &mut Json, path: &[Step]) -> bool {
    let Some((last, above)) = path.split_last() else { return false };
    let at = above.iter().try_fold(arguments, |at, step| match step {
        Step::Key(key) => at.get_mut(key),
        Step::Index(index) => at.get_mut(index),
    });
    match (at, last) {
        (Some(Json::Object(table)), Step::Key(key)) => table.remove(key).is_some(),
        (Some(Json::Array(list)), Step::Index(index)) if *index < list.len() => {
            list.remove(*index);
            true
        }
        _ => false,
    }
}

/// Returns a path as it was before the elements at `gone` were taken out of their arrays.
fn original(path: &[Step], gone: &[Vec<Step>]) -> Vec<Step> {
    let mut whole: Vec<Step> = Vec::with_capacity(path.len());
    for step in path {
        let mut step = step.clone();
        if let Step::Index(index) = &mut step {
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
fn sibling(place: &[Step], above: &[Step]) -> Option<usize> {
    match place.strip_prefix(above) {
        Some([Step::Index(index)]) => Some(*index),
        _ => None,
    }
}

/// Makes a mistake of what serde says.
fn described(path: Vec<Step>, said: &str) -> Mistake {
    let word = || said.split('`').nth(1).unwrap_or_default().to_owned();
    let known = |after: &str| {
        let listed = said.split_once(after).map_or("", |(_, listed)| listed);
        listed.split('`').skip(1).step_by(2).map(str::to_owned).collect()
    };
    let (kind, word, known) = if said.starts_with("unknown field ") {
        (MistakeKind::UnknownKey, word(), known("expected "))
    } else if said.starts_with("unknown variant ") {
        (MistakeKind::UnknownWord, word(), known("expected "))
    } else if said.starts_with("missing field ") {
        (MistakeKind::MissingKey, word(), Vec::new())
    } else {
        (MistakeKind::BadValue, String::new(), Vec::new())
    };
    let message = if kind == MistakeKind::BadValue { plain(said) } else { said.to_owned() };
    Mistake { path, kind, word, known, message }
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
