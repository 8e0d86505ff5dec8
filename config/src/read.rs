//! Reader of tables and values from a [`Node`] tree, every mistake reported, none ending the walk.
//!
//! What a file may say is declared once, in `document.rs`, by the [`tables!`] macro: from one
//! declaration come the struct, the reader, the list of known keys and the published schema, so
//! they cannot disagree.

use serde_json::{Map, Value as Json, json};

use super::codes::Code;
use super::renamed;
use super::report::{Finding, Report, Span};
use super::suggest;
use super::tree::{Entry, Node, Value};

/// A value that can be read from a node.
pub trait Read: Sized {
    /// The value, or `None` after a report of why not.
    fn read(node: &Node, report: &mut Report) -> Option<Self>;

    /// Notation of a table of this type, like `[memory]` or `[[port]]`; `None` for values.
    const PLACE: Option<&'static str> = None;

    /// The JSON schema of what [`Read::read`] accepts.
    fn schema() -> Json;
}

/// A value and the bytes it was read from.
#[derive(Debug, Clone)]
pub struct At<T> {
    /// The value.
    pub value: T,
    /// Place where it stands; for a default, the table that omits it.
    pub span: Span,
}

/// Content of a table under one key.
#[derive(Debug, Clone)]
pub struct Field<T> {
    /// The bytes of the key, when the file has it.
    pub key: Option<Span>,
    /// The value; `None` when it is absent without a default, or reported as wrong.
    pub found: Option<At<T>>,
}

impl<T> Field<T> {
    /// A key that is not there.
    pub const ABSENT: Self = Self { key: None, found: None };
    /// The value, when there is one.
    pub fn value(&self) -> Option<&T> {
        self.found.as_ref().map(|at| &at.value)
    }

    /// Returns whether the file has the key and its value was reported as wrong.
    pub fn is_broken(&self) -> bool {
        self.key.is_some() && self.found.is_none()
    }
}

/// A list of which the broken elements were left out.
#[derive(Debug, Clone)]
pub struct Many<T> {
    /// The elements that could be read.
    pub items: Vec<At<T>>,
    /// Whether that is all of them.
    pub complete: bool,
}

impl<T: Read> Read for Many<T> {
    fn read(node: &Node, report: &mut Report) -> Option<Self> {
        let Value::List(nodes) = &node.value else {
            match T::PLACE {
                Some(place) => wrong_type(node, "an array of tables", report).help(format!("write {place}")),
                None => wrong_type(node, "an array", report),
            };
            return None;
        };
        let mut items = Vec::with_capacity(nodes.len());
        for node in nodes {
            if let Some(value) = T::read(node, report) {
                items.push(At { value, span: node.span.clone() });
            }
        }
        let complete = items.len() == nodes.len();
        Some(Self { items, complete })
    }

    fn schema() -> Json {
        json!({ "type": "array", "items": T::schema() })
    }
}

/// One value, or an array of them.
#[derive(Debug, Clone)]
pub struct OneOrMany<T>(pub Many<T>);

impl<T: Read> Read for OneOrMany<T> {
    fn read(node: &Node, report: &mut Report) -> Option<Self> {
        if matches!(node.value, Value::List(_)) {
            return Many::read(node, report).map(Self);
        }
        let value = T::read(node, report)?;
        Some(Self(Many { items: vec![At { value, span: node.span.clone() }], complete: true }))
    }

    fn schema() -> Json {
        json!({ "anyOf": [T::schema(), Many::<T>::schema()] })
    }
}

impl Read for bool {
    fn read(node: &Node, report: &mut Report) -> Option<Self> {
        let Value::Flag(flag) = node.value else {
            wrong_type(node, "true or false", report);
            return None;
        };
        Some(flag)
    }

    fn schema() -> Json {
        json!({ "type": "boolean" })
    }
}

/// Reports that `node` is not `wanted` (with its article).
pub fn wrong_type<'r>(node: &Node, wanted: &str, report: &'r mut Report) -> &'r mut Finding {
    let kind = node.value.kind();
    report
        .add(Code::WrongType, &node.span, format!("expected {wanted}, found {kind}"))
        .label(format!("{kind}, not {wanted}"))
}

/// A table whose keys are taken one after another; what is left in the end is unknown.
pub struct Keys<'n> {
    place: String,
    span: Span,
    entries: &'n [Entry],
    known: Vec<&'static str>,
}

impl<'n> Keys<'n> {
    /// `place` names the table to the operator, like `[memory]`.
    pub fn open(node: &'n Node, place: &str, report: &mut Report) -> Option<Self> {
        match &node.value {
            Value::Table(entries) => {
                Some(Self { place: place.to_owned(), span: node.span.clone(), entries, known: Vec::new() })
            }
            Value::List(_) if place.starts_with('[') => {
                wrong_type(node, "one table", report).help(format!("write {place}, once"));
                None
            }
            _ => {
                wrong_type(node, "a table", report);
                None
            }
        }
    }

    /// The bytes of the table's header, or of the table when it is inline.
    pub fn span(&self) -> Span {
        self.span.clone()
    }

    /// The value of `key`, which may be absent.
    pub fn optional<T: Read>(&mut self, key: &'static str, _about: &str, report: &mut Report) -> Field<T> {
        self.known.push(key);
        let Some(entry) = self.entries.iter().find(|entry| entry.key == key) else {
            return Field { key: None, found: None };
        };
        let span = entry.node.span.clone();
        let found = T::read(&entry.node, report).map(|value| At { value, span });
        Field { key: Some(entry.key_span.clone()), found }
    }

    /// The value of `key`, else `default` read as if the file had it.
    pub fn defaulted<T: Read>(
        &mut self,
        key: &'static str,
        default: Value,
        about: &str,
        report: &mut Report,
    ) -> Field<T> {
        let mut field = self.optional(key, about, report);
        if field.key.is_none() {
            let node = Node { span: self.span(), value: default };
            field.found = T::read(&node, report).map(|value| At { value, span: node.span });
        }
        field
    }

    /// The value of `key`, whose absence is reported with what it is `about`.
    pub fn required<T: Read>(&mut self, key: &'static str, about: &str, report: &mut Report) -> Field<T> {
        let field = self.optional(key, about, report);
        if field.key.is_none() {
            self.report_missing(key, about, report);
        }
        field
    }

    /// Whether the table has a key.
    pub fn has(&self, key: &str) -> bool {
        self.entries.iter().any(|entry| entry.key == key)
    }

    /// Reports that a key is missing, with what it is `about`.
    pub fn report_missing(&self, key: &str, about: &str, report: &mut Report) {
        report
            .add(Code::MissingKey, &self.span, format!("{} needs `{key}`", self.place))
            .label(format!("`{key}` is missing"))
            .help(format!("add `{key} = …`: {}", clause(about)));
    }

    /// Reports the keys that nobody asked for. `elsewhere` may say where such a key belongs.
    pub fn close(self, elsewhere: impl Fn(&str) -> Option<String>, report: &mut Report) {
        for entry in self.entries {
            let key = entry.key.as_str();
            if self.known.contains(&key) {
                continue;
            }
            let place = &self.place;
            let finding =
                report.add(Code::UnknownKey, &entry.key_span, format!("{place} has no key `{key}`"));
            if let Some(new) = renamed::new_name(place, key) {
                finding.label("renamed").help(format!("`{key}` is called `{new}` now: write `{new}`"));
                continue;
            }
            let known = self.known.iter().copied();
            let help = elsewhere(key).unwrap_or_else(|| suggest::help("known keys", key, known));
            finding.label("unknown key").help(help);
        }
    }
}

/// The schema of a table, key by key.
#[derive(Debug, Default)]
pub struct Object {
    properties: Map<String, Json>,
    required: Vec<&'static str>,
}

impl Object {
    /// A key that may be absent.
    pub fn optional(&mut self, key: &'static str, about: &str, schema: Json) {
        let mut schema = schema;
        schema["description"] = prose(about).into();
        self.properties.insert(key.to_owned(), schema);
    }

    /// A key with a default, written as the file would write it.
    pub fn defaulted(&mut self, key: &'static str, default: Json, about: &str, schema: Json) {
        self.optional(key, about, schema);
        self.properties[key]["default"] = default;
    }

    /// A key that must be there.
    pub fn required(&mut self, key: &'static str, about: &str, schema: Json) {
        self.optional(key, about, schema);
        self.required.push(key);
    }

    /// The keys it has so far.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.properties.keys().map(String::as_str)
    }

    /// The schema.
    pub fn finish(self, about: &str) -> Json {
        json!({
            "type": "object",
            "description": prose(about),
            "properties": self.properties,
            "required": self.required,
            "additionalProperties": false,
        })
    }
}

/// Doc lines as running text.
fn prose(lines: &str) -> String {
    lines.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The first sentence of doc lines, to go on within another sentence.
fn clause(lines: &str) -> String {
    let prose = prose(lines);
    let sentence = prose.split(". ").next().unwrap_or_default().trim_end_matches('.');
    let mut characters = sentence.chars();
    match (characters.next(), characters.clone().next()) {
        (Some(first), second) if !second.is_some_and(char::is_uppercase) => {
            first.to_lowercase().chain(characters).collect()
        }
        _ => sentence.to_owned(),
    }
}

/// The key that a field named like a Rust keyword stands for: `r#in` is `in`.
pub const fn key_of(field: &'static str) -> &'static str {
    match field.as_bytes() {
        [b'r', b'#', ..] => field.split_at(2).1,
        _ => field,
    }
}

/// A table without keys, as a default.
pub struct Empty;
pub const EMPTY: Empty = Empty;

impl From<Empty> for Value {
    fn from(_: Empty) -> Self {
        Self::Table(Vec::new())
    }
}

impl From<Empty> for Json {
    fn from(_: Empty) -> Self {
        json!({})
    }
}

/// Declares tables of the document:
///
/// ```text
/// /// About the table.
/// pub struct Memory at "[memory]" {
///     /// About the key.
///     defaulted buffers: Buffers = 16_384;
///     /// About the key.
///     required name: Name;
///     /// About the key.
///     optional domain: Name;
/// }
/// ```
///
/// A default is written as the file would write it and read by the same reader. Every doc line
/// is also the description in the schema.
macro_rules! tables {
    ($(
        $(#[doc = $about:literal])+
        pub struct $table:ident at $place:literal {
            $(
                $(#[doc = $doc:literal])+
                $need:ident $key:ident: $type:ty $(= $default:expr)?;
            )*
        }
    )+) => {$(
        $(#[doc = $about])+
        #[derive(Debug)]
        pub struct $table {
            /// The table's header, or the whole of an inline table.
            #[allow(dead_code, reason = "many tables are pointed at only through their keys")]
            pub span: Span,
            $($(#[doc = $doc])+ pub $key: Field<$type>,)*
        }

        impl $table {
            /// Description of the table in the schema.
            pub const ABOUT: &'static str = concat!($($about, "\n"),+);

            /// Takes the keys of this table; others may take more of the same node.
            pub fn take(keys: &mut Keys<'_>, report: &mut Report) -> Self {
                Self {
                    span: keys.span(),
                    $($key: keys.$need(
                        key_of(stringify!($key)),
                        $(Value::from($default),)?
                        concat!($($doc, "\n"),+),
                        report,
                    ),)*
                }
            }

            /// Describes the keys of this table.
            pub fn describe(object: &mut Object) {
                $(object.$need(
                    key_of(stringify!($key)),
                    $(Json::from($default),)?
                    concat!($($doc, "\n"),+),
                    <$type as Read>::schema(),
                );)*
            }
        }

        impl Read for $table {
            const PLACE: Option<&'static str> = Some($place);

            fn read(node: &Node, report: &mut Report) -> Option<Self> {
                let mut keys = Keys::open(node, $place, report)?;
                let table = Self::take(&mut keys, report);
                keys.close(|_| None, report);
                Some(table)
            }

            fn schema() -> Json {
                let mut object = Object::default();
                Self::describe(&mut object);
                object.finish(Self::ABOUT)
            }
        }
    )+};
}
pub(super) use tables;
