//! Changes to the text of a configuration: one rule more or less, and a copy without secrets.
//!
//! The text stays as its author wrote it, comments included, but for the lines of the change. Every edit is
//! checked against the values of the document: what comes out must say what was asked for and nothing else.
//! Where it does not, because rules are written in a way that lines cannot be found in (`rule = [{ … }]`),
//! the whole document is written anew, without comments.

use serde_json::Value as Json;
use toml::{Table, Value};

use super::json::is_json;
use super::report::{Report, Span};
use super::tree::{self, Node};

/// Text in place of a secret.
pub const LEFT_OUT: &str = "(left out)";

/// Words of which one in the name of an argument or a variable says that its value is secret. Our choice:
/// what programs call such values; `key` alone is among them because a wrong guess costs a reader nothing.
const SECRET_WORDS: [&str; 11] = [
    "key",
    "keys",
    "secret",
    "secrets",
    "token",
    "tokens",
    "password",
    "passwd",
    "passphrase",
    "psk",
    "credentials",
];

/// Reason why a text cannot be changed so.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EditError {
    /// The new rule is no list of keys and values.
    #[error(
        "the rule is not written as in a file: {0}; write for example `protocol = \"tcp\", destination_port = 80, \
         chain = \"web\"`"
    )]
    Rule(String),
    /// There is no rule at that place.
    #[error("there is no rule {place}; {}", places(*count))]
    Place {
        /// Place that was asked for, from 1 on.
        place: usize,
        /// Number of rules.
        count: usize,
    },
    /// The text is not what this reads.
    #[error("the configuration cannot be edited: {0}")]
    Text(String),
}

fn places(count: usize) -> String {
    match count {
        0 => "there are none".to_owned(),
        1 => "there is one, 1".to_owned(),
        count => format!("rules are 1 to {count}"),
    }
}

/// Returns the text with one more rule, written as in a file: `protocol = "tcp", chain = "web"`. It comes
/// before the rule that has `place` now, counted from 1; `None`: behind all others.
///
/// # Errors
/// A rule or a place that makes no sense. Whether the rule is right in its configuration is not checked.
pub fn add_rule(name: &str, text: &str, rule: &str, place: Option<usize>) -> Result<String, EditError> {
    let rule = read_rule(rule)?;
    let mut wanted = Document::read(name, text)?;
    let rules = wanted.rules()?;
    let count = rules.len();
    let place = place.unwrap_or(count + 1);
    if place == 0 || place > count + 1 {
        return Err(EditError::Place { place, count });
    }
    rules.insert(place - 1, Value::Table(rule.clone()));
    let lines: String = rule.iter().map(|(key, value)| format!("{key} = {value}\n")).collect();
    let edited = match wanted {
        Document::Json(_) => None,
        Document::Toml(_) => headers(text, count).map(|headers| match headers.get(place - 1) {
            Some(header) => {
                let (before, behind) = text.split_at(above_comments(text, *header));
                format!("{before}[[rule]]\n{lines}\n{behind}")
            }
            None => format!("{}\n\n[[rule]]\n{lines}", text.trim_end()),
        }),
    };
    wanted.write(edited)
}

/// Returns the text without the rule at `place`, counted from 1.
///
/// # Errors
/// A place where there is none.
pub fn delete_rule(name: &str, text: &str, place: usize) -> Result<String, EditError> {
    let mut wanted = Document::read(name, text)?;
    let rules = wanted.rules()?;
    let count = rules.len();
    if place == 0 || place > count {
        return Err(EditError::Place { place, count });
    }
    rules.remove(place - 1);
    let edited = match wanted {
        Document::Json(_) => None,
        Document::Toml(_) => headers(text, count).map(|headers| {
            let start = headers[place - 1];
            format!("{}{}", &text[..start], &text[start + length_of_table(&text[start..])..])
        }),
    };
    wanted.write(edited)
}

/// Returns the text with every secret left out, and how many there were. Secret are values that are named so
/// in the arguments of NFs (`args`) and on the command lines of programs (`exec`).
///
/// # Errors
/// A text that cannot be read.
pub fn without_secrets(name: &str, text: &str) -> Result<(String, usize), EditError> {
    let mut report = Report::default();
    let tree = match is_json(name, text) {
        true => super::json::from_json(text, &mut report),
        false => tree::from_toml(text, &mut report),
    };
    if report.has_errors() {
        return Err(EditError::Text("it is neither TOML nor JSON".to_owned()));
    }
    let mut secrets = Vec::new();
    find_secrets(&tree, false, &mut secrets);
    secrets.sort_unstable_by_key(|span: &Span| span.start);
    let mut left = text.to_owned();
    for span in secrets.iter().rev() {
        left.replace_range(span.clone(), &format!("\"{LEFT_OUT}\""));
    }
    Ok((left, secrets.len()))
}

/// Finds the spans of secret values below a node. `among` says whether names count: they do in what NFs and
/// programs define, and not in our own keys.
fn find_secrets(node: &Node, among: bool, secrets: &mut Vec<Span>) {
    match &node.value {
        tree::Value::Table(entries) => {
            for entry in entries {
                let theirs = among || entry.key == "args";
                match &entry.node.value {
                    tree::Value::List(words) if entry.key == "exec" => secrets.extend(secret_words(words)),
                    tree::Value::Text(_) | tree::Value::Integer(_) if among && is_secret(&entry.key) => {
                        secrets.push(entry.node.span.clone());
                    }
                    tree::Value::List(values) if among && is_secret(&entry.key) => {
                        let texts = values.iter().filter(|value| matches!(value.value, tree::Value::Text(_)));
                        secrets.extend(texts.map(|value| value.span.clone()));
                    }
                    _ => find_secrets(&entry.node, theirs, secrets),
                }
            }
        }
        tree::Value::List(nodes) => nodes.iter().for_each(|node| find_secrets(node, among, secrets)),
        _ => {}
    }
}

/// Returns the spans of secrets on a command line: `--token=VALUE`, and the word behind `--token`.
fn secret_words(words: &[Node]) -> impl Iterator<Item = Span> {
    let text = |node: &Node| match &node.value {
        tree::Value::Text(text) => text.clone(),
        _ => String::new(),
    };
    let is_secret_option = |word: &str| word.starts_with('-') && is_secret(word);
    (0..words.len()).filter_map(move |at| {
        let word = text(&words[at]);
        let named = word.split_once('=').is_some_and(|(name, _)| is_secret(name));
        let before = at.checked_sub(1).map(|at| text(&words[at])).unwrap_or_default();
        let follows = !before.contains('=') && is_secret_option(&before);
        (named || follows).then(|| words[at].span.clone())
    })
}

/// Returns whether a name says that its value is secret.
fn is_secret(name: &str) -> bool {
    let mut words = name.split(|letter: char| !letter.is_ascii_alphanumeric());
    words.any(|word| SECRET_WORDS.contains(&word.to_ascii_lowercase().as_str()))
}

fn read_rule(rule: &str) -> Result<Table, EditError> {
    let rule = rule.trim().trim_end_matches(',');
    if rule.is_empty() {
        return Err(EditError::Rule("it is empty".to_owned()));
    }
    if rule.contains('\n') {
        return Err(EditError::Rule("it has more than one line".to_owned()));
    }
    let read: Result<Table, toml::de::Error> = toml::from_str(&format!("rule = {{ {rule} }}\n"));
    let mut read = read.map_err(|error| EditError::Rule(error.message().to_owned()))?;
    match (read.remove("rule"), read.is_empty()) {
        (Some(Value::Table(rule)), true) => Ok(rule),
        _ => Err(EditError::Rule("it is more than one rule".to_owned())),
    }
}

/// A document as plain values.
enum Document {
    Toml(Table),
    Json(Table),
}

impl Document {
    fn read(name: &str, text: &str) -> Result<Self, EditError> {
        if is_json(name, text) {
            let read: Result<Table, serde_json::Error> = serde_json::from_str(text);
            return read.map(Self::Json).map_err(|error| EditError::Text(error.to_string()));
        }
        let read: Result<Table, toml::de::Error> = toml::from_str(text);
        read.map(Self::Toml).map_err(|error| EditError::Text(error.message().to_owned()))
    }

    fn rules(&mut self) -> Result<&mut Vec<Value>, EditError> {
        let (Self::Toml(table) | Self::Json(table)) = self;
        let rules = table.entry("rule").or_insert_with(|| Value::Array(Vec::new()));
        rules.as_array_mut().ok_or_else(|| EditError::Text("`rule` is no array".to_owned()))
    }

    /// Returns its text: what was edited, if that says the same, else written anew.
    fn write(self, edited: Option<String>) -> Result<String, EditError> {
        let failed = |error: String| EditError::Text(error);
        match self {
            Self::Json(table) => {
                let document: Json =
                    serde_json::to_value(&table).map_err(|error| failed(error.to_string()))?;
                Ok(format!("{document:#}\n"))
            }
            Self::Toml(wanted) => {
                let is_wanted = |text: &String| {
                    let mut read: Table = toml::from_str(text).unwrap_or_default();
                    read.entry("rule").or_insert_with(|| Value::Array(Vec::new()));
                    read == wanted
                };
                match edited.filter(is_wanted) {
                    Some(edited) => Ok(edited),
                    None => toml::to_string(&wanted).map_err(|error| failed(error.to_string())),
                }
            }
        }
    }
}

/// Returns where the lines of the `[[rule]]` headers begin; `None` where there are not `count` of them.
fn headers(text: &str, count: usize) -> Option<Vec<usize>> {
    let starts = lines(text).filter(|(_, line)| is_header(line, "[[rule]]")).map(|(start, _)| start);
    let starts: Vec<usize> = starts.collect();
    (starts.len() == count).then_some(starts)
}

/// Returns where the comments begin that stand right above a line.
fn above_comments(text: &str, mut line: usize) -> usize {
    while let Some(before) = text[..line].strip_suffix('\n') {
        let start = before.rfind('\n').map_or(0, |at| at + 1);
        if !before[start..].trim_start().starts_with('#') {
            break;
        }
        line = start;
    }
    line
}

fn is_header(line: &str, header: &str) -> bool {
    let bare = line.split('#').next().unwrap_or_default();
    bare.chars().filter(|letter| !letter.is_whitespace()).eq(header.chars())
}

/// Returns the length of the table that a text begins with: its header, its last key, and the empty lines
/// behind it. Comments behind its last key are those of what follows.
fn length_of_table(text: &str) -> usize {
    let mut end = 0;
    let mut is_open = true;
    for (start, line) in lines(text) {
        let bare = line.trim();
        if start > 0 && bare.starts_with('[') {
            break;
        }
        if bare.starts_with('#') {
            is_open = false;
        } else if !bare.is_empty() {
            is_open = true;
            end = start + line.len();
        } else if is_open {
            end = start + line.len();
        }
    }
    end
}

/// Returns the lines of a text with their ends, and where each begins.
fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.split_inclusive('\n').scan(0, |at, line| {
        let start = *at;
        *at += line.len();
        Some((start, line))
    })
}

#[cfg(test)]
mod tests;
