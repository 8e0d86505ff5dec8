//! The reference of keys in the guide, made from the schema: `docs/guide/keys.md`.

use serde_json::Value as Json;

use super::snapshots::{assert_snapshot, here};
use crate::schema;

const HEAD: &str = "\
# Every key, from the schema

This page is made from `headgate check --schema` by a test, so it has every key that this version reads.
[Configuration](configuration.md) explains them and how they go together. A key without a default must be given or is
left out, as its description says; **bold** keys are required.
";

#[test]
fn the_reference_of_keys_is_current() {
    let mut text = HEAD.to_owned();
    sections(&schema(), "", &mut text);
    assert_snapshot(&here("../docs/guide/keys.md"), &text);
}

/// Writes the tables that a table of the schema has, each with those within it behind it.
fn sections(table: &Json, path: &str, text: &mut String) {
    for (key, schema) in table["properties"].as_object().into_iter().flatten() {
        let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
        for (kind, one) in variants(schema) {
            let brackets =
                if schema.get("items").is_some() { format!("[[{path}]]") } else { format!("[{path}]") };
            let heading = format!("\n## `{brackets}`{kind}\n");
            // Every kind of port has the same faults.
            if text.contains(&heading) {
                continue;
            }
            *text += &format!("{heading}\n{}\n", sentence(one));
            rows(one, text);
            sections(one, &path, text);
        }
    }
}

/// Returns the tables that a key can have, and the kind of each where there are several.
fn variants(schema: &Json) -> Vec<(String, &Json)> {
    let schema = schema.get("items").unwrap_or(schema);
    let alternatives = ["oneOf", "anyOf"].iter().find_map(|key| schema.get(key)?.as_array());
    let all: Vec<&Json> = alternatives.map_or_else(|| vec![schema], |all| all.iter().collect());
    let tables = all.into_iter().filter(|one| one.get("properties").is_some());
    tables.map(|one| (kind(one), one)).collect()
}

/// Returns the word that tells a variant from the others.
fn kind(table: &Json) -> String {
    let word = &table["properties"]["kind"]["const"];
    let word = word.as_str().or_else(|| table["properties"]["kind"]["enum"].get(0)?.as_str());
    word.map_or_else(String::new, |word| format!(" of `kind = \"{word}\"`"))
}

fn rows(table: &Json, text: &mut String) {
    let Some(properties) = table["properties"].as_object() else { return };
    *text += "\n| key | value | default | meaning |\n|---|---|---|---|\n";
    let required = table["required"].as_array();
    for (key, schema) in properties {
        let is_required = required.is_some_and(|names| names.iter().any(|name| name == key));
        let key = if is_required { format!("**`{key}`**") } else { format!("`{key}`") };
        let default = schema.get("default").map_or_else(String::new, |value| format!("`{value}`"));
        let cells = [key, value(schema), default, sentence(schema)];
        *text += &format!("| {} |\n", cells.map(|cell| cell.replace('|', "\\|")).join(" | "));
    }
}

fn sentence(schema: &Json) -> String {
    schema["description"].as_str().unwrap_or_default().replace('\n', " ")
}

/// Returns what a value can be, in words.
fn value(schema: &Json) -> String {
    if let Some(words) = schema["enum"].as_array() {
        return words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ");
    }
    if let Some(word) = schema.get("const") {
        return format!("`{word}`");
    }
    if let Some(all) = ["anyOf", "oneOf"].iter().find_map(|key| schema.get(key)?.as_array()) {
        let mut words: Vec<String> = all.iter().map(value).collect();
        words.dedup();
        return words.join(" or ");
    }
    match schema["type"].as_str() {
        Some("integer" | "number") => match (schema.get("minimum"), schema.get("maximum")) {
            (Some(least), Some(most)) => format!("{least} to {most}"),
            (Some(least), None) => format!("{least} or more"),
            _ => "number".to_owned(),
        },
        Some("boolean") => "true or false".to_owned(),
        Some("array") => {
            format!("list of {}", schema.get("items").map_or_else(|| "values".to_owned(), value))
        }
        Some("object") => "table".to_owned(),
        Some("string") => "string".to_owned(),
        _ => "value".to_owned(),
    }
}
