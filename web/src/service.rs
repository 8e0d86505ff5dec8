//! Routes: what is served, to whom.

use std::sync::Arc;

use axum::Router;
use axum::extract::{DefaultBodyLimit, Extension, Request, State};
use axum::http::Uri;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue, X_CONTENT_TYPE_OPTIONS};
use axum::middleware::{Next, from_fn, from_fn_with_state, map_response};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use headgate_api::request::REQUEST_BYTES_MAX;

use crate::auth::{Peer, Role};
use crate::connection::Connection;
use crate::guard;
use crate::operation::Operation;
use crate::operations;
use crate::page;
use crate::problem::{Kind, Problem};
use crate::site::Site;

const INDEX: &str = "headgate: metrics are at /metrics\n";
/// Longest body, in bytes: what the manager takes, less the frame of the request.
const BODY_BYTES_MAX: usize = REQUEST_BYTES_MAX as usize - 4096;
/// Headers of every answer: none is kept, none is taken for something else.
const ALWAYS: [(HeaderName, &str); 2] = [(CACHE_CONTROL, "no-store"), (X_CONTENT_TYPE_OPTIONS, "nosniff")];

/// Returns a service of metrics alone, for all who reach it. With `is_local` that is this machine.
pub fn metrics(site: Arc<Site>, is_local: bool) -> Router {
    let Operation { path, route, .. } = operations::metrics();
    let index = || async { ([(CONTENT_TYPE, "text/plain; charset=utf-8")], INDEX) };
    let router = finish(Router::new().route(path, route).route("/", get(index)), site);
    let router = if is_local { router.layer(from_fn(guard::own_pages_only)) } else { router };
    router.layer(map_response(with_headers))
}

/// Returns the service of the whole API, for clients with a role.
pub fn api(site: Arc<Site>) -> Router {
    let mut router = Router::new();
    for Operation { path, role, route, .. } in operations::all() {
        router = router.route(path, route.route_layer(from_fn_with_state(role, only_with)));
    }
    finish(router.layer(DefaultBodyLimit::max(BODY_BYTES_MAX)), site.clone())
        .layer(from_fn_with_state(site, with_role))
        .merge(page::routes())
        .layer(from_fn(guard::own_pages_only))
        .layer(map_response(with_headers))
}

fn finish(router: Router<Arc<Site>>, site: Arc<Site>) -> Router {
    router.fallback(no_such_path).method_not_allowed_fallback(wrong_method).with_state(site)
}

/// Refuses clients without a role, and notes the role of others.
async fn with_role(
    State(site): State<Arc<Site>>,
    Extension(peer): Extension<Peer>,
    Extension(connection): Extension<Arc<Connection>>,
    mut request: Request,
    next: Next,
) -> Response {
    match site.tokens.role(peer, request.headers()) {
        Ok(role) => {
            connection.set_known();
            request.extensions_mut().insert(role);
            next.run(request).await
        }
        Err(problem) => problem.into_response(),
    }
}

/// Refuses clients whose role is not enough.
async fn only_with(
    State(least): State<Role>,
    Extension(role): Extension<Role>,
    request: Request,
    next: Next,
) -> Response {
    if role >= least {
        return next.run(request).await;
    }
    let why = format!("{} changes the manager", request.uri().path());
    Problem::new(Kind::ReadOnly, "header Authorization", why).into_response()
}

async fn no_such_path(uri: Uri) -> Problem {
    Problem::new(Kind::NoSuchPath, "path", format!("nothing is at {:?}", uri.path()))
}

async fn wrong_method(request: Request) -> Problem {
    Problem::new(Kind::WrongMethod, "method", format!("it is {}", request.method()))
}

async fn with_headers(mut response: Response) -> Response {
    for (name, value) in ALWAYS {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}
