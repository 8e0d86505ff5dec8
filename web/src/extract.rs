//! Bodies, parameters and names of requests; what is wrong with them is a [`Problem`].

use std::time::Duration;

use axum::extract::rejection::{JsonRejection, PathRejection, QueryRejection};
use axum::extract::{FromRequest, FromRequestParts, Json, Path, Query, Request};
use axum::http::StatusCode;
use axum::http::request::Parts;
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use crate::problem::{Kind, Problem};

/// Longest time for a body to come. Our choice: what the manager waits for a line.
const BODY_PATIENCE: Duration = headgate_api::request::CLIENT_PATIENCE;

/// Body of a request, from JSON.
pub struct Body<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Body<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        match timeout(BODY_PATIENCE, Json::<T>::from_request(request, state)).await {
            Ok(Ok(Json(value))) => Ok(Self(value)),
            Ok(Err(rejection)) => Err(of_body(&rejection)),
            Err(_) => {
                let why = format!("it did not come within {} s", BODY_PATIENCE.as_secs());
                Err(Problem::new(Kind::TooSlow, "body", why))
            }
        }
    }
}

fn of_body(rejection: &JsonRejection) -> Problem {
    let kind = match rejection.status() {
        StatusCode::UNSUPPORTED_MEDIA_TYPE => Kind::WrongType,
        StatusCode::PAYLOAD_TOO_LARGE => Kind::TooLong,
        _ => Kind::Malformed,
    };
    Problem::new(kind, "body", rejection.body_text())
}

/// Parameters of a request, behind the `?` of its path.
pub struct Parameters<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Parameters<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let read = Query::<T>::from_request_parts(parts, state).await;
        let why = |rejection: QueryRejection| Problem::new(Kind::Malformed, "query", rejection.body_text());
        read.map(|Query(value)| Self(value)).map_err(why)
    }
}

/// The name in a path.
pub struct Name(pub String);

impl<S: Send + Sync> FromRequestParts<S> for Name {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let read = Path::<String>::from_request_parts(parts, state).await;
        let why = |rejection: PathRejection| Problem::new(Kind::Malformed, "path", rejection.body_text());
        read.map(|Path(name)| Self(name)).map_err(why)
    }
}
