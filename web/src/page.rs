//! The page: files in `web/page`, part of the program, that need nothing from anywhere else.
//!
//! They are the same for everybody and say nothing of a manager, so they need no role; what the page shows,
//! it asks of the API with the token that its reader gives it.

use axum::Router;
use axum::http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, REFERRER_POLICY};
use axum::routing::get;

/// Scripts, styles and requests of this server, and nothing else; in no frame.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
    base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
const SCRIPT: &str = "text/javascript; charset=utf-8";

/// Path, content type and text of each file.
const FILES: [(&str, &str, &str); 10] = [
    ("/", "text/html; charset=utf-8", include_str!("../page/index.html")),
    ("/page/style.css", "text/css; charset=utf-8", include_str!("../page/style.css")),
    ("/page/icon.svg", "image/svg+xml", include_str!("../page/icon.svg")),
    ("/page/main.js", SCRIPT, include_str!("../page/main.js")),
    ("/page/client.js", SCRIPT, include_str!("../page/client.js")),
    ("/page/frame.js", SCRIPT, include_str!("../page/frame.js")),
    ("/page/map.js", SCRIPT, include_str!("../page/map.js")),
    ("/page/plot.js", SCRIPT, include_str!("../page/plot.js")),
    ("/page/trace.js", SCRIPT, include_str!("../page/trace.js")),
    ("/page/units.js", SCRIPT, include_str!("../page/units.js")),
];

/// Returns the routes of the files.
pub fn routes<S: Clone + Send + Sync + 'static>() -> Router<S> {
    FILES.iter().fold(Router::new(), |router, &(path, kind, text)| {
        let headers: [(HeaderName, &str); 3] =
            [(CONTENT_TYPE, kind), (CONTENT_SECURITY_POLICY, POLICY), (REFERRER_POLICY, "no-referrer")];
        router.route(path, get(move || async move { (headers, text) }))
    })
}

#[cfg(test)]
mod tests {
    use headgate_api::status::HISTOGRAM_BOUNDS_NS;

    use super::*;

    fn text(path: &str) -> &'static str {
        FILES.iter().find(|file| file.0 == path).unwrap().2
    }

    #[test]
    fn the_page_knows_the_bounds_of_histograms() {
        let (_, rest) = text("/page/main.js").split_once("BOUNDS_NS = [").unwrap();
        let (list, _) = rest.split_once(']').unwrap();
        let bounds: Vec<u64> = list.split(',').map(|bound| bound.trim().parse().unwrap()).collect();
        assert_eq!(bounds, HISTOGRAM_BOUNDS_NS);
    }

    #[test]
    fn every_file_that_is_named_is_served_and_nothing_comes_from_elsewhere() {
        for (path, _, text) in FILES {
            let names =
                text.split(['"', '\'']).filter(|word| word.starts_with("./") || word.starts_with("/page/"));
            for name in names {
                let name = name.replacen("./", "/page/", 1);
                assert!(FILES.iter().any(|file| file.0 == name), "{path} names {name}");
            }
            for outside in
                text.split("http").skip(1).filter(|rest| rest.starts_with("://") || rest.starts_with("s://"))
            {
                assert!(outside.starts_with("://www.w3.org/2000/svg"), "{path}: {outside:.40}");
            }
            // What a name of a configuration or a message of an NF says is text, never markup.
            for danger in
                ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "localStorage"]
            {
                assert!(!text.contains(danger), "{path}: {danger}");
            }
        }
    }
}
