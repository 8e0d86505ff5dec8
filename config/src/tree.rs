//! A document as a tree of values, each with the bytes it was written in.
//!
//! The tree knows nothing of Headgate and little of TOML: another format with the same data
//! model needs another function like [`from_toml`] and nothing else, as JSON has.

use toml::de::{DeTable, DeValue};

use super::codes::Code;
use super::report::{Report, Span};

/// A value and where it stands. The node of a `[table]` or `[[table]]` is its header.
#[derive(Debug, Clone)]
pub struct Node {
    /// The bytes of the value.
    pub span: Span,
    /// The value.
    pub value: Value,
}

/// A value of a document.
#[derive(Debug, Clone)]
pub enum Value {
    /// A string.
    Text(String),
    /// A whole number; beyond 128 bits it is the nearest that fits.
    Integer(i128),
    /// A number with a fraction or an exponent.
    Float(f64),
    /// `true` or `false`.
    Flag(bool),
    /// A date or a time, for which Headgate has no use.
    Date,
    /// An array.
    List(Vec<Node>),
    /// A table, its entries in the order of the file.
    Table(Vec<Entry>),
}

/// A key with its value.
#[derive(Debug, Clone)]
pub struct Entry {
    /// The key.
    pub key: String,
    /// The bytes of the key.
    pub key_span: Span,
    /// Its value.
    pub node: Node,
}

impl Value {
    /// The type in an operator's words, with its article.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Text(_) => "a string",
            Self::Integer(_) => "an integer",
            Self::Float(_) => "a number with a fraction",
            Self::Flag(_) => "a boolean",
            Self::Date => "a date",
            Self::List(_) => "an array",
            Self::Table(_) => "a table",
        }
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<i32> for Value {
    fn from(number: i32) -> Self {
        Self::Integer(number.into())
    }
}

impl From<bool> for Value {
    fn from(flag: bool) -> Self {
        Self::Flag(flag)
    }
}

/// Parses `text`. Every syntax error is reported; the tree then holds what was understood.
pub fn from_toml(text: &str, report: &mut Report) -> Node {
    let (table, errors) = DeTable::parse_recoverable(text);
    // An array that nothing closes swallows the rest of the file: behind the first sign of it, what the
    // parser says of that rest is guesswork.
    if errors.iter().any(|error| error.message().starts_with("unclosed array")) {
        let signs = errors.iter().filter(|error| is_sign_of_unclosed(error.message()));
        let first = signs.filter_map(|error| error.span()).map(|span| span.start).min();
        report.guessed_from(first.unwrap_or(text.len()));
    }
    for error in errors {
        let (span, message) = (error.span().unwrap_or(0..0), error.message());
        if message == "duplicate key" {
            report
                .add(Code::DuplicateKey, &span, "the key stands here a second time")
                .help("leave one of the two out; several tables of one kind are written [[like-this]]");
            continue;
        }
        let finding = report.add(Code::Syntax, &span, format!("not TOML: {message}"));
        if let Some(help) = cure(message, &text[span]) {
            finding.help(help);
        }
    }
    Node { span: 0..0, value: from_table(table.get_ref()) }
}

fn is_sign_of_unclosed(message: &str) -> bool {
    ["missing comma", "unexpected `=`", "unclosed array"].iter().any(|start| message.starts_with(start))
}

/// Returns the cure of a syntax error, found by the parser's message; `None` where only the message helps.
fn cure(message: &str, at: &str) -> Option<String> {
    if message.starts_with("string values must be quoted") {
        return Some(format!("write \"{at}\""));
    }
    is_sign_of_unclosed(message).then(|| "separate values with `,` and close the array with `]`".to_owned())
}

fn from_table(table: &DeTable<'_>) -> Value {
    let mut entries = Vec::with_capacity(table.len());
    for (key, value) in table {
        entries.push(Entry {
            key: key.get_ref().to_string(),
            key_span: key.span(),
            node: Node { span: value.span(), value: from_value(value.get_ref()) },
        });
    }
    entries.sort_by_key(|entry| entry.key_span.start);
    Value::Table(entries)
}

fn from_value(value: &DeValue<'_>) -> Value {
    match value {
        DeValue::String(text) => Value::Text(text.to_string()),
        DeValue::Integer(number) => {
            let parsed = i128::from_str_radix(number.as_str(), number.radix());
            let nearest = if number.as_str().starts_with('-') { i128::MIN } else { i128::MAX };
            Value::Integer(parsed.unwrap_or(nearest))
        }
        DeValue::Float(number) => Value::Float(number.as_str().parse().unwrap_or(f64::NAN)),
        DeValue::Boolean(flag) => Value::Flag(*flag),
        DeValue::Datetime(_) => Value::Date,
        DeValue::Table(table) => from_table(table),
        DeValue::Array(items) => {
            let mut nodes = Vec::with_capacity(items.len());
            for item in items {
                nodes.push(Node { span: item.span(), value: from_value(item.get_ref()) });
            }
            Value::List(nodes)
        }
    }
}
