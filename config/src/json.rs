//! A JSON document as the same tree that TOML becomes (SCC's own chain files are JSON).
//!
//! By hand, because a finding needs the bytes of every key and value, which the parsers of our stack do not
//! give. RFC 8259, strictly: no comments, no trailing commas. The first mistake ends it.

use super::codes::Code;
use super::report::{Report, Span};
use super::tree::{Entry, Node, Value};

/// Arrays and objects within each other. Our choice: a configuration has six.
const DEPTH_MAX: usize = 64;

/// Returns whether a file is JSON and not TOML: by its name, or as no TOML file starts with a brace.
pub fn is_json(name: &str, text: &str) -> bool {
    name.ends_with(".json") || text.trim_start().starts_with('{')
}

/// Parses `text`. After a mistake, which is reported, the tree holds what was understood before it.
pub fn from_json(text: &str, report: &mut Report) -> Node {
    let mut reader = Reader { text, at: 0, depth: 0, duplicates: Vec::new() };
    let parsed = reader.document();
    for span in std::mem::take(&mut reader.duplicates) {
        report
            .add(Code::DuplicateKey, &span, "the key stands here a second time")
            .help("leave one of the two out; several tables of one kind are an array of objects");
    }
    parsed.unwrap_or_else(|JsonError { span, what, help }| {
        report.add(Code::Syntax, &span, format!("not JSON: {what}")).help(help);
        Node { span: 0..0, value: Value::Table(Vec::new()) }
    })
}

struct JsonError {
    span: Span,
    what: String,
    help: &'static str,
}

struct Reader<'t> {
    text: &'t str,
    at: usize,
    depth: usize,
    duplicates: Vec<Span>,
}

impl Reader<'_> {
    fn document(&mut self) -> Result<Node, JsonError> {
        let mut node = self.value()?;
        if !matches!(node.value, Value::Table(_)) {
            return Err(JsonError {
                span: node.span,
                what: format!("the file is {}, not an object", node.value.kind()),
                help: "write { \"chain\": [ … ], … }",
            });
        }
        self.skip_space();
        if self.at < self.text.len() {
            return Err(self.mistake("something follows the end of the document", "leave it out"));
        }
        node.span = 0..0;
        Ok(node)
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn skip_space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn mistake(&self, what: &str, help: &'static str) -> JsonError {
        let wide = self.text[self.at..].chars().next().map_or(0, char::len_utf8);
        JsonError { span: self.at..self.at + wide, what: what.to_owned(), help }
    }

    fn value(&mut self) -> Result<Node, JsonError> {
        self.skip_space();
        let start = self.at;
        let value = match self.peek() {
            Some(b'{') => return self.nested(Self::object),
            Some(b'[') => return self.nested(Self::array),
            Some(b'"') => Value::Text(self.string()?),
            Some(b'-' | b'0'..=b'9') => self.number()?,
            Some(b't') => self.word("true", Value::Flag(true))?,
            Some(b'f') => self.word("false", Value::Flag(false))?,
            Some(b'n') => {
                return Err(self.mistake("`null` is no value here", "leave the key out"));
            }
            None => return Err(self.mistake("the file ends where a value should be", "write a value")),
            Some(_) => return Err(self.mistake("a value should be here", "strings are written in \"…\"")),
        };
        Ok(Node { span: start..self.at, value })
    }

    /// Reads a nested value; other findings point at its opening bracket.
    fn nested(&mut self, read: fn(&mut Self) -> Result<Value, JsonError>) -> Result<Node, JsonError> {
        let start = self.at;
        if self.depth == DEPTH_MAX {
            return Err(self.mistake("too deep", "a configuration is nested six times at most"));
        }
        self.depth += 1;
        self.at += 1;
        let value = read(self)?;
        self.depth -= 1;
        Ok(Node { span: start..start + 1, value })
    }

    fn object(&mut self) -> Result<Value, JsonError> {
        let mut entries: Vec<Entry> = Vec::new();
        while !self.is_closed(b'}', entries.is_empty(), "}")? {
            let start = self.at;
            if self.peek() != Some(b'"') {
                return Err(self.mistake("a key should be here", "keys are written in \"…\""));
            }
            let key = self.string()?;
            let key_span = start..self.at;
            self.skip_space();
            if self.peek() != Some(b':') {
                return Err(self.mistake("`:` should follow the key", "write \"key\": value"));
            }
            self.at += 1;
            let node = self.value()?;
            if entries.iter().any(|entry| entry.key == key) {
                self.duplicates.push(key_span);
            } else {
                entries.push(Entry { key, key_span, node });
            }
        }
        Ok(Value::Table(entries))
    }

    fn array(&mut self) -> Result<Value, JsonError> {
        let mut nodes = Vec::new();
        while !self.is_closed(b']', nodes.is_empty(), "]")? {
            nodes.push(self.value()?);
        }
        Ok(Value::List(nodes))
    }

    /// Passes the comma before the next element, or the bracket at the end.
    fn is_closed(&mut self, bracket: u8, is_first: bool, shown: &str) -> Result<bool, JsonError> {
        self.skip_space();
        match self.peek() {
            Some(found) if found == bracket => {
                self.at += 1;
                return Ok(true);
            }
            Some(b',') if !is_first => self.at += 1,
            Some(_) if is_first => {}
            _ => {
                let what = format!("`,` or `{shown}` should be here");
                return Err(self.mistake(&what, "separate values with `,` and close the bracket"));
            }
        }
        self.skip_space();
        if self.peek() == Some(bracket) && !is_first {
            return Err(self.mistake("nothing follows the `,`", "leave the `,` out"));
        }
        Ok(false)
    }

    fn word(&mut self, word: &str, value: Value) -> Result<Value, JsonError> {
        if !self.text[self.at..].starts_with(word) {
            return Err(self.mistake("a value should be here", "strings are written in \"…\""));
        }
        self.at += word.len();
        Ok(value)
    }

    /// A string from its first quote on. What is within is left to the JSON of our stack.
    fn string(&mut self) -> Result<String, JsonError> {
        let start = self.at;
        let bytes = self.text.as_bytes();
        let mut end = start + 1;
        while bytes.get(end).is_some_and(|byte| *byte != b'"' && *byte >= b' ') {
            end += if bytes[end] == b'\\' { 2 } else { 1 };
        }
        if bytes.get(end) != Some(&b'"') {
            let line = self.text[start..].find('\n').map_or(self.text.len(), |length| start + length);
            return Err(JsonError {
                span: start..line,
                what: "the string is not closed".to_owned(),
                help: "close it with `\"`; a line's end within is written \\n",
            });
        }
        self.at = end + 1;
        serde_json::from_str(&self.text[start..=end]).map_err(|_| JsonError {
            span: start..end + 1,
            what: "the string has an escape that is none".to_owned(),
            help: "a backslash is written \\\\",
        })
    }

    fn number(&mut self) -> Result<Value, JsonError> {
        let start = self.at;
        let is_part = |byte: u8| matches!(byte, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E');
        while self.peek().is_some_and(is_part) {
            self.at += 1;
        }
        let text = &self.text[start..self.at];
        let wrong = || JsonError {
            span: start..start + text.len(),
            what: format!("`{text}` is not a number"),
            help: "write digits, like 64 or 2.5",
        };
        let number: serde_json::Number = serde_json::from_str(text).map_err(|_| wrong())?;
        if text.contains(['.', 'e', 'E']) {
            return Ok(Value::Float(number.as_f64().ok_or_else(wrong)?));
        }
        let nearest = if text.starts_with('-') { i128::MIN } else { i128::MAX };
        Ok(Value::Integer(text.parse().unwrap_or(nearest)))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn plain(value: &Value) -> serde_json::Value {
        match value {
            Value::Text(text) => text.as_str().into(),
            Value::Integer(number) => i64::try_from(*number).unwrap().into(),
            Value::Float(number) => (*number).into(),
            Value::Flag(flag) => (*flag).into(),
            Value::Date => unreachable!("JSON has no dates"),
            Value::List(nodes) => nodes.iter().map(|node| plain(&node.value)).collect(),
            Value::Table(entries) => {
                entries.iter().map(|entry| (entry.key.clone(), plain(&entry.node.value))).collect()
            }
        }
    }

    fn any_json() -> impl Strategy<Value = serde_json::Value> {
        let leaf = prop_oneof![
            any::<bool>().prop_map(serde_json::Value::from),
            any::<i64>().prop_map(serde_json::Value::from),
            any::<String>().prop_map(serde_json::Value::from),
        ];
        leaf.prop_recursive(4, 32, 5, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(serde_json::Value::from),
                prop::collection::btree_map(any::<String>(), inner, 0..5)
                    .prop_map(|map| map.into_iter().collect()),
            ]
        })
    }

    proptest! {
        #[test]
        fn what_is_json_is_read_as_another_parser_reads_it(value in any_json()) {
            let document = serde_json::json!({ "value": value });
            for text in [document.to_string(), format!("{document:#}")] {
                let mut report = Report::default();
                let node = from_json(&text, &mut report);
                prop_assert!(!report.has_errors(), "{text}");
                prop_assert_eq!(plain(&node.value), document.clone());
            }
        }

        /// Tests that the parser ends on any input, and finds errors where another parser does.
        #[test]
        fn what_is_not_json_is_refused(text in "[\\[\\]{}:,\" a0.\\\\n-]{0,40}") {
            let mut report = Report::default();
            let text = format!("{{\"k\":{text}}}");
            from_json(&text, &mut report);
            let other: Result<serde_json::Value, _> = serde_json::from_str(&text);
            prop_assert_eq!(report.has_errors(), other.is_err() || has_null(&other.unwrap()) || has_twice(&text), "{}", text);
        }
    }

    fn has_null(value: &serde_json::Value) -> bool {
        match value {
            serde_json::Value::Null => true,
            serde_json::Value::Array(all) => all.iter().any(has_null),
            serde_json::Value::Object(all) => all.values().any(has_null),
            _ => false,
        }
    }

    /// Another parser lets a key stand twice.
    fn has_twice(text: &str) -> bool {
        let mut report = Report::default();
        from_json(text, &mut report);
        report.has(Code::DuplicateKey)
    }
}
