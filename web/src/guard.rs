//! Keeps pages of other sites out: they can have their own names lead to this machine (DNS rebinding), and
//! send requests from the browser of somebody who may ask here (CSRF).

use std::net::{IpAddr, SocketAddr};

use axum::extract::Request;
use axum::http::header::{HOST, HeaderMap, HeaderValue, ORIGIN};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};

use crate::problem::{Kind, Problem};

/// Refuses what is not sent to this machine by its own name, or comes from a page of another server.
pub async fn own_pages_only(request: Request, next: Next) -> Response {
    match judge(request.headers()) {
        Ok(()) => next.run(request).await,
        Err(problem) => problem.into_response(),
    }
}

fn judge(headers: &HeaderMap) -> Result<(), Problem> {
    let host = headers.get(HOST);
    if !host.is_none_or(is_this_machine) {
        let why = "the request names another host, as one does that a page of another site sends here";
        return Err(Problem::new(Kind::ForeignHost, "header Host", why));
    }
    let own = |origin: &HeaderValue| {
        let host = host.map(HeaderValue::as_bytes);
        host.is_some() && origin.as_bytes().strip_prefix(b"http://") == host
    };
    if !headers.get_all(ORIGIN).iter().all(own) {
        let why = "the request comes from a page that this server did not serve";
        return Err(Problem::new(Kind::ForeignOrigin, "header Origin", why));
    }
    Ok(())
}

/// Returns whether a `Host` names this machine: `localhost` or a loopback address, with a port or without.
fn is_this_machine(host: &HeaderValue) -> bool {
    let Ok(host) = host.to_str() else { return false };
    if let Ok(address) = host.parse::<SocketAddr>() {
        return address.ip().is_loopback();
    }
    let name = host.rsplit_once(':').filter(|_| !host.ends_with(']')).map_or(host, |(name, _)| name);
    let name = name.trim_start_matches('[').trim_end_matches(']');
    name.eq_ignore_ascii_case("localhost")
        || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_own_pages_of_own_names_pass() {
        let passes = |host: &str, origin: Option<&str>| {
            let headers = [(HOST, Some(host)), (ORIGIN, origin)];
            let headers =
                headers.into_iter().filter_map(|(name, value)| Some((name, value?.parse().unwrap())));
            judge(&HeaderMap::from_iter(headers)).is_ok()
        };
        for host in ["localhost", "LocalHost:9465", "127.0.0.1:9465", "[::1]:9465", "[::1]"] {
            assert!(passes(host, None) && passes(host, Some(&format!("http://{host}"))), "{host}");
            for origin in ["null", "http://evil.example", "https://localhost", "http://localhost:1", ""] {
                assert!(!passes(host, Some(origin)), "{host} {origin}");
            }
        }
        for host in ["evil.example", "localhost.evil.example", "10.0.0.1", "", "\u{fe}"] {
            assert!(!passes(host, None), "{host}");
        }
        // HTTP/1.0 without a host is no browser's, unless it says where it comes from.
        assert!(judge(&HeaderMap::new()).is_ok());
        let origin = HeaderMap::from_iter([(ORIGIN, HeaderValue::from_static("http://localhost"))]);
        assert!(judge(&origin).is_err());
    }
}
