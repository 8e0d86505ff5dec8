//! An operation of the API: what it is asked by, and what it answers.

use std::sync::Arc;

use axum::handler::Handler;
use axum::http::Method;
use axum::routing::{MethodFilter, MethodRouter, on};
use schemars::generate::SchemaGenerator;
use schemars::{JsonSchema, Schema};

use crate::auth::Role;
use crate::site::Site;

/// How a type is described.
pub type Describe = fn(&mut SchemaGenerator) -> Schema;

/// What an operation answers.
#[derive(Clone, Copy, Debug)]
pub enum Answers {
    /// A document of this type.
    Json(Describe),
    /// Text of this content type.
    Text(&'static str),
    /// Server-sent events, each with a document of this type.
    Stream(Describe),
    /// Bytes of this content type.
    Bytes(&'static str),
    /// A status without a body.
    Nothing,
}

/// An operation.
#[derive(Debug)]
pub struct Operation {
    /// Its name.
    pub id: &'static str,
    /// Method of the request.
    pub method: Method,
    /// Path of the request, with names in braces.
    pub path: &'static str,
    /// Least role that may ask it.
    pub role: Role,
    /// Word of the request to the manager; `None` where the server answers by itself.
    pub request: Option<&'static str>,
    /// What it does, in a sentence.
    pub summary: &'static str,
    /// Parameters behind the path.
    pub query: Option<Describe>,
    /// Body of the request.
    pub body: Option<Describe>,
    /// Answer.
    pub answers: Answers,
    /// The function.
    pub route: MethodRouter<Arc<Site>>,
}

impl Operation {
    /// Returns one: its name, method, path and sentence, and what asks and answers it.
    pub fn new<H, T>(
        [id, method, path, summary]: [&'static str; 4],
        request: Option<&'static str>,
        answers: Answers,
        handler: H,
    ) -> Self
    where
        H: Handler<T, Arc<Site>>,
        T: 'static,
    {
        let (method, filter) = match method {
            "PUT" => (Method::PUT, MethodFilter::PUT),
            "POST" => (Method::POST, MethodFilter::POST),
            "DELETE" => (Method::DELETE, MethodFilter::DELETE),
            _ => (Method::GET, MethodFilter::GET),
        };
        // What changes the manager is the administrator's.
        let role = if method == Method::GET { Role::ReadOnly } else { Role::Admin };
        let route = on(filter, handler);
        Self { id, method, path, role, request, summary, query: None, body: None, answers, route }
    }

    /// Returns it with parameters of this type behind its path.
    pub fn query<T: JsonSchema>(self) -> Self {
        Self { query: Some(|types| types.subschema_for::<T>()), ..self }
    }

    /// Returns it with a body of this type.
    pub fn body<T: JsonSchema>(self) -> Self {
        Self { body: Some(|types| types.subschema_for::<T>()), ..self }
    }
}

/// Returns that a document of this type is the answer.
pub fn json<T: JsonSchema>() -> Answers {
    Answers::Json(|types| types.subschema_for::<T>())
}

/// Returns that events of this type are the answer.
pub fn stream<T: JsonSchema>() -> Answers {
    Answers::Stream(|types| types.subschema_for::<T>())
}
