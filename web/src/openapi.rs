//! The OpenAPI document (version 3.1), made of the operations and their types.

use schemars::generate::{SchemaGenerator, SchemaSettings};
use serde_json::{Map, Value as Json, json};

use crate::auth::Role;
use crate::operation::{Answers, Describe, Operation};
use crate::operations::all;
use crate::problem::{CONTENT_TYPE_PROBLEM, Document};
use crate::streams::Lost;

const ABOUT: &str = "Everything that the command can do to a running manager. A read-only token may use the \
    operations with GET, that of the administrator all. The paths begin with the version of their forms: in one \
    version, keys may be added and never change their meaning or go.";

/// Returns the document.
#[must_use]
pub fn document() -> Json {
    let mut answers = generator(SchemaSettings::for_serialize);
    let mut questions = generator(SchemaSettings::for_deserialize);
    let problem = answers.subschema_for::<Document>();
    answers.subschema_for::<Lost>();
    let mut paths = Map::new();
    for operation in all() {
        let path = paths.entry(operation.path).or_insert_with(|| json!({}));
        path[operation.method.as_str().to_ascii_lowercase()] =
            described(&operation, &mut questions, &mut answers, &json!(problem));
    }
    let mut schemas = questions.take_definitions(true);
    schemas.append(&mut answers.take_definitions(true));
    schemas.values_mut().for_each(unwrap_descriptions);
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Headgate",
            "version": env!("CARGO_PKG_VERSION"),
            "description": ABOUT,
            "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" },
        },
        "security": [{ "token": [] }],
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": { "token": { "type": "http", "scheme": "bearer" } },
        },
    })
}

/// Joins the lines of descriptions: they come from comments, which are wrapped for readers of the source.
fn unwrap_descriptions(schema: &mut Json) {
    match schema {
        Json::Object(members) => {
            for (key, value) in members {
                match value {
                    Json::String(text) if key == "description" => {
                        *text = text.replace("\n\n", "\0").replace('\n', " ").replace('\0', "\n\n");
                    }
                    other => unwrap_descriptions(other),
                }
            }
        }
        Json::Array(items) => items.iter_mut().for_each(unwrap_descriptions),
        _ => {}
    }
}

fn generator(contract: fn(SchemaSettings) -> SchemaSettings) -> SchemaGenerator {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.definitions_path = "/components/schemas".into();
        settings.meta_schema = None;
    });
    contract(settings).into_generator()
}

fn described(
    operation: &Operation,
    questions: &mut SchemaGenerator,
    answers: &mut SchemaGenerator,
    problem: &Json,
) -> Json {
    let mut written = json!({
        "operationId": operation.id,
        "summary": operation.summary,
        "x-role": operation.role.word(),
        "x-request": operation.request,
        "responses": {
            "default": {
                "description": "What is wrong, where, why, and what to do",
                "content": { CONTENT_TYPE_PROBLEM: { "schema": problem } },
            },
        },
    });
    let (status, answer) = answered(operation.answers, answers);
    written["responses"][status] = answer;
    let names = operation.path.contains("{name}").then(|| {
        json!({ "name": "name", "in": "path", "required": true, "schema": { "type": "string", "minLength": 1 } })
    });
    let of_query = operation.query.into_iter().flat_map(|describe| parameters(describe, questions));
    let parameters: Vec<Json> = names.into_iter().chain(of_query).collect();
    if !parameters.is_empty() {
        written["parameters"] = parameters.into();
    }
    if let Some(describe) = operation.body {
        let schema = describe(questions);
        written["requestBody"] =
            json!({ "required": true, "content": { "application/json": { "schema": schema } } });
    }
    if operation.role == Role::ReadOnly {
        written["security"] = json!([{ "token": ["read-only"] }]);
    }
    written
}

fn answered(answers: Answers, types: &mut SchemaGenerator) -> (&'static str, Json) {
    let (kind, schema) = match answers {
        Answers::Nothing => return ("204", json!({ "description": "Done" })),
        Answers::Json(describe) => ("application/json", json!(describe(types))),
        Answers::Text("application/json") => ("application/json", json!({ "type": "object" })),
        Answers::Text(kind) => (kind, json!({ "type": "string" })),
        Answers::Bytes(kind) => (kind, json!({ "type": "string", "format": "binary" })),
        Answers::Stream(describe) => {
            let data = describe(types);
            let about = "Server-sent events. The data of an event is of the type in `x-data`, but that of \
                `lost` and `problem`: `lost` says how many a slow reader lost, `problem` why nothing comes.";
            let schema = json!({ "type": "string", "description": about, "x-data": data });
            ("text/event-stream", schema)
        }
    };
    ("200", json!({ "description": "Answer", "content": { kind: { "schema": schema } } }))
}

/// Returns each field of a type as a parameter behind the path.
fn parameters(describe: Describe, types: &mut SchemaGenerator) -> Vec<Json> {
    let reference = describe(types);
    let name = reference.get("$ref").and_then(Json::as_str).and_then(|path| path.rsplit('/').next());
    // A list of parameters has no name of its own in the document.
    let Some(Json::Object(schema)) = name.and_then(|name| types.definitions_mut().remove(name)) else {
        return Vec::new();
    };
    let Some(Json::Object(fields)) = schema.get("properties") else { return Vec::new() };
    let required = schema.get("required").and_then(Json::as_array);
    let parameter = |(name, schema): (&String, &Json)| {
        let is_required = required.is_some_and(|names| names.iter().any(|one| one == name));
        let mut schema = schema.clone();
        let about = schema.as_object_mut().and_then(|schema| schema.remove("description"));
        json!({ "name": name, "in": "query", "required": is_required, "description": about, "schema": schema })
    };
    fields.iter().map(parameter).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_a_comment_is_wrapped_makes_no_difference() {
        let mut schema = json!({ "a": [{ "description": "one\ntwo\n\nthree" }], "const": "one\ntwo" });
        unwrap_descriptions(&mut schema);
        assert_eq!(schema, json!({ "a": [{ "description": "one two\n\nthree" }], "const": "one\ntwo" }));
    }

    #[test]
    fn every_reference_leads_somewhere() {
        let document = document();
        let text = document.to_string();
        let mut references: Vec<&str> = text.split("\"$ref\":\"#").skip(1).collect();
        references.iter_mut().for_each(|rest| *rest = rest.split('"').next().unwrap());
        assert!(references.len() > 30, "{references:?}");
        for reference in references {
            assert!(document.pointer(reference).is_some(), "{reference}");
        }
    }
}
