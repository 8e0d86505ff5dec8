//! Refusals and failures as documents: `application/problem+json` (RFC 9457), with what, where, why and cure.

use axum::Json;
use axum::http::StatusCode;
use axum::http::header::{CONTENT_TYPE, HeaderValue, WWW_AUTHENTICATE};
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::Serialize;

/// Content type of a [`Problem`] (RFC 9457, section 3).
pub const CONTENT_TYPE_PROBLEM: &str = "application/problem+json";

/// Reason why a request was not met.
#[derive(Clone, Debug, Serialize)]
#[serde(into = "Document")]
pub struct Problem {
    kind: Kind,
    place: String,
    detail: String,
}

/// A [`Problem`] as it is sent.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Problem")]
pub struct Document {
    /// Kind of problem: `urn:headgate:problem:` and a word that keeps its meaning.
    #[serde(rename = "type")]
    kind: String,
    /// What happened.
    title: &'static str,
    /// Status code of the answer.
    status: u16,
    /// Why it happened, for this request.
    detail: String,
    /// The part of the request, or the other side, that it is about.
    #[serde(rename = "where")]
    place: String,
    /// What to do.
    cure: &'static str,
}

impl From<Problem> for Document {
    fn from(Problem { kind, place, detail }: Problem) -> Self {
        let (status, word, title, cure) = kind.terms();
        let kind = format!("urn:headgate:problem:{word}");
        Self { kind, title, status: status.as_u16(), detail, place, cure }
    }
}

macro_rules! kinds {
    ($($(#[$doc:meta])+ $kind:ident: $status:ident, $word:literal, $title:literal, $cure:literal;)+) => {
        /// Kind of problem.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Kind {
            $($(#[$doc])+ $kind,)+
        }

        impl Kind {
            const fn terms(self) -> (StatusCode, &'static str, &'static str, &'static str) {
                match self {
                    $(Self::$kind => (StatusCode::$status, $word, $title, $cure),)+
                }
            }
        }
    };
}

kinds! {
    /// No credentials came with a request that needs them.
    NoCredentials: UNAUTHORIZED, "no-credentials", "This needs a token.",
        "send the header `Authorization: Bearer TOKEN` with the contents of the server's token file";
    /// The token is none of the server's.
    WrongToken: UNAUTHORIZED, "wrong-token", "This token is not known.",
        "send the contents of the file that `--token` or `--read-token` of the server names";
    /// The user at the other end of the Unix socket is not the server's.
    WrongUser: FORBIDDEN, "wrong-user", "This user may not ask here.",
        "ask as the user that runs the server, or as root";
    /// A read-only token came with an operation that changes something.
    ReadOnly: FORBIDDEN, "read-only", "This token may only read.",
        "send the token of the file that `--token` of the server names";
    /// The request was sent to another host's name.
    ForeignHost: FORBIDDEN, "foreign-host", "This is served to this machine alone.",
        "use an address such as http://127.0.0.1:PORT or http://localhost:PORT";
    /// The request comes from a page of another site.
    ForeignOrigin: FORBIDDEN, "foreign-origin", "Pages of other sites may not ask here.",
        "use the page of this server, or a program that sends no header `Origin`";
    /// The path leads nowhere.
    NoSuchPath: NOT_FOUND, "no-such-path", "There is no such operation.",
        "take a path of /openapi.json";
    /// Nothing has the name in the path.
    NoSuchName: NOT_FOUND, "no-such-name", "Nothing has this name.",
        "take a name of /v1/snapshot";
    /// The path is right, the method is not.
    WrongMethod: METHOD_NOT_ALLOWED, "wrong-method", "This path has other methods.",
        "take a method of the header `Allow`";
    /// The body did not come in time.
    TooSlow: REQUEST_TIMEOUT, "too-slow", "The body did not come in time.",
        "send it at once";
    /// The body is too long.
    TooLong: PAYLOAD_TOO_LARGE, "too-long", "The body is too long.",
        "send less";
    /// The body is no JSON.
    WrongType: UNSUPPORTED_MEDIA_TYPE, "wrong-type", "The body must be JSON.",
        "send the header `Content-Type: application/json`";
    /// The request's parameters or body do not have the form of /openapi.json.
    Malformed: BAD_REQUEST, "malformed", "The request does not have the form that it should.",
        "see the operation in /openapi.json";
    /// The manager refused a configuration.
    Configuration: UNPROCESSABLE_ENTITY, "configuration-refused", "The configuration is refused.",
        "try it with `headgate check FILE`";
    /// The manager refused.
    Refused: CONFLICT, "refused", "The manager refused.",
        "see the detail, and `headgate status`";
    /// There is no manager.
    NotRunning: SERVICE_UNAVAILABLE, "manager-not-running", "The manager does not run.",
        "start it with `headgate up FILE`";
    /// The manager may not be asked.
    NotPermitted: SERVICE_UNAVAILABLE, "manager-not-permitted", "The server may not ask the manager.",
        "run `headgate serve` as the user that started the manager, or as root";
    /// The manager gives no answer.
    Silent: GATEWAY_TIMEOUT, "manager-silent", "The manager does not answer.",
        "see its log; `headgate down` and `kill` end it, and nothing is left behind";
    /// The manager's answer is not understood.
    OtherVersion: BAD_GATEWAY, "manager-of-another-version", "The manager's answer is not understood.",
        "run `headgate serve` and the manager from one version of Headgate";
}

impl Problem {
    /// Returns a problem of a kind: where it is, and why.
    pub fn new(kind: Kind, place: impl Into<String>, detail: impl Into<String>) -> Self {
        Self { kind, place: place.into(), detail: detail.into() }
    }

    /// Returns whether it is of a kind.
    pub fn is(&self, kind: Kind) -> bool {
        self.kind == kind
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let (status, ..) = self.kind.terms();
        let mut response = (status, Json(self)).into_response();
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(CONTENT_TYPE_PROBLEM));
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"headgate\""));
        }
        response
    }
}
