//! The API under clients without a role, with a wrong one, from other sites, with garbage, too large and too
//! slow, and over managers that are gone, hung or of another version.

mod common;

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::thread;

use common::fake::{Fake, Manners, event};
use common::{ADMIN, READER, Running, ask_locally, own_socket, parted, request};
use headgate_api::Request;
use headgate_web::openapi;
use headgate_web::server::CONNECTIONS_MAX;
use proptest::prelude::*;
use serde_json::{Value as Json, json};

/// A server of the API, and the manager that it asks.
fn with_manager() -> (Running, Fake) {
    let fake = Fake::start(Manners::Good);
    (Running::of_api(fake.folder(), fake.socket()), fake)
}

/// Every operation: method, path with names filled in, least role, body.
fn operations() -> Vec<(String, String, String, Option<&'static str>)> {
    let document = openapi::document();
    let mut all = Vec::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let body = match operation["operationId"].as_str().unwrap() {
                "tell" => Some(r#"{"body":"reset"}"#),
                "apply" | "diff" => Some(r#"{"name":"edge.toml","text":"good"}"#),
                "add-rule" => Some(r#"{"rule":"chain = \"web\""}"#),
                "capture" => Some(r#"{"chain":"web"}"#),
                "migrate" => Some(r#"{"to":"east"}"#),
                "warn" => Some(r#"{"within_ms":10000}"#),
                "measure" => Some(r#"{"on":true}"#),
                _ => None,
            };
            let name = if path.starts_with("/v1/chains") { "web" } else { "fw" };
            let role = operation["x-role"].as_str().unwrap().to_owned();
            let path = match path.as_str() {
                "/v1/explain" => "/v1/explain?packet=udp+10.0.0.1:1+%3e+10.0.1.1:2".to_owned(),
                "/v1/rules" if method == "delete" => "/v1/rules?place=1".to_owned(),
                path => path.replace("{name}", name),
            };
            all.push((method.to_uppercase(), path, role, body));
        }
    }
    assert!(all.len() > 15, "{all:?}");
    all
}

fn is_stream(path: &str) -> bool {
    path.starts_with("/v1/watch")
}

/// The word at the end of a problem's type.
fn kind(problem: &Json) -> &str {
    for key in ["title", "detail", "where", "cure"] {
        assert!(problem[key].as_str().is_some_and(|text| !text.is_empty()), "{key}: {problem}");
    }
    problem["type"].as_str().unwrap().rsplit(':').next().unwrap()
}

#[test]
fn the_administrator_may_do_everything() {
    let (server, manager) = with_manager();
    for (method, path, _, body) in operations() {
        if !is_stream(&path) {
            let (status, text) = server.ask(ADMIN, &method, &path, body);
            assert!([200, 204].contains(&status), "{method} {path}: {status} {text}");
        }
    }
    // What the manager said before its end, as it said it.
    let capture = server.ask(ADMIN, "POST", "/v1/capture", Some(r#"{"chain":"web"}"#));
    assert!(capture.0 == 200 && capture.1.contains("blocks"), "{capture:?}");
    let trace = server.ask(READER, "GET", "/v1/trace?packets=3&chain=web", None).1;
    assert!(trace.contains("event: trace") && trace.contains("event: end"), "{trace}");
    let (status, problem) = server.ask_json(READER, "GET", "/v1/observe?chain=wep", None);
    assert_eq!((status, kind(&problem)), (409, "refused"));
    let (status, problem) = server.ask_json(READER, "GET", "/v1/trace?filter=tcp+prot+80", None);
    assert!(status == 400 && problem["detail"].as_str().unwrap().contains("^^^^"), "{problem}");
    let asked = format!("{:?}", manager.asked());
    for word in ["audit: true", "Flows { most: 100 }", "nf: \"fw\", most: 100, from: 0", "Stop", "on: true"] {
        assert!(asked.contains(word), "{word}: {asked}");
    }
    let (_, told) = server.ask_json(ADMIN, "POST", "/v1/nfs/fw/tell", Some(r#"{"body":"a \"b\"\n"}"#));
    assert_eq!(told, json!({ "told": 1, "answers": [{ "instance": "fw", "answered": "did a \"b\"\n" }] }));
    let (_, applied) =
        server.ask_json(ADMIN, "PUT", "/v1/configuration", Some(r#"{"name":"e","text":"good"}"#));
    assert_eq!(applied, json!({ "changes": ["nf fw: added"] }));
    let rule = Some(r#"{"rule":"protocol = \"tcp\", chain = \"web\"","place":1}"#);
    let (_, added) = server.ask_json(ADMIN, "POST", "/v1/rules", rule);
    assert_eq!(added, json!({ "changes": ["rule 1 added: protocol = \"tcp\", chain = \"web\""] }));
    for (method, path, status, word) in [
        ("DELETE", "/v1/rules?place=9", 422, "configuration-refused"),
        ("DELETE", "/v1/rules", 400, "malformed"),
        ("DELETE", "/v1/rules?place=-1", 400, "malformed"),
        ("POST", "/v1/nfs/none/restart", 404, "no-such-name"),
        ("POST", "/v1/nfs/none/drain", 404, "no-such-name"),
    ] {
        let (code, problem) = server.ask_json(ADMIN, method, path, None);
        assert_eq!((code, kind(&problem)), (status, word), "{method} {path}: {problem}");
    }
}

#[test]
fn a_reader_reads_and_changes_nothing() {
    let (server, manager) = with_manager();
    for (method, path, role, body) in operations() {
        if is_stream(&path) {
            continue;
        }
        let (status, text) = server.ask(READER, &method, &path, body);
        if role == "read-only" {
            assert_eq!(status, 200, "{path}: {text}");
        } else {
            let problem: Json = serde_json::from_str(&text).unwrap();
            assert_eq!((status, kind(&problem)), (403, "read-only"), "{path}");
        }
    }
    assert!(!manager.was_changed());
    let (_, snapshot) = server.ask_json(READER, "GET", "/v1/snapshot", None);
    assert_eq!(snapshot["chains"][1]["stages"], json!(["fw", "monitor", "scan"]));
    assert_eq!(server.ask_json(READER, "GET", "/v1/audit", None).1["conserved"], true);
    let names = |path: &str| {
        let list = server.ask_json(READER, "GET", path, None).1;
        list.as_array()
            .unwrap()
            .iter()
            .map(|one| one["name"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(names("/v1/chains"), ["-", "web", "voice"]);
    assert_eq!(names("/v1/ports"), ["source"]);
    let flows = server.ask_json(READER, "GET", "/v1/flows?most=2", None).1;
    assert_eq!(flows.as_array().unwrap().len(), 2);
    assert_eq!(server.ask_json(READER, "GET", "/v1/nfs/fw/logs?from=3", None).1["next"], 4);
    assert!(server.ask(READER, "GET", "/metrics", None).1.contains("headgate_up 1.0"));
}

/// Nothing at all is told or done without a token, not even whether there is something at a path.
#[test]
fn there_is_no_way_in_without_a_token() {
    let (server, manager) = with_manager();
    let nowhere =
        [("GET", "/v1/nothing"), ("DELETE", "/v1/snapshot")].map(|(m, p)| (m.to_owned(), p.to_owned()));
    let all = operations().into_iter().map(|(method, path, ..)| (method, path)).chain(nowhere);
    for (method, path) in all {
        for authorization in [
            "",
            "Authorization: Bearer\r\n",
            "Authorization: Bearer \r\n",
            "Authorization: Bearer wrong-0123456789abcdef0123456789\r\n",
            &format!("Authorization: Bearer {ADMIN}x\r\n"),
            &format!("Authorization: Bearer {}\r\n", &ADMIN[..ADMIN.len() - 1]),
            &format!("Authorization: Basic {ADMIN}\r\n"),
            &format!("Authorization: {ADMIN}\r\n"),
            &format!("X-Authorization: Bearer {ADMIN}\r\n"),
        ] {
            let head =
                format!("{method} {path}?token={ADMIN} HTTP/1.1\r\nHost: localhost\r\n{authorization}\r\n");
            let answer = server.say(head.as_bytes());
            let (status, text) = parted(&answer);
            assert_eq!(status, 401, "{head}{text}");
            assert!(answer.contains("www-authenticate: Bearer"), "{answer}");
            let problem: Json = serde_json::from_str(&text).unwrap();
            assert!(["no-credentials", "wrong-token"].contains(&kind(&problem)), "{text}");
            assert!(!text.contains(ADMIN));
        }
    }
    assert!(manager.asked().is_empty());
}

/// A page of another site sends requests from the browser of somebody who may, or has its name lead here.
#[test]
fn pages_of_other_sites_can_do_nothing() {
    let (server, manager) = with_manager();
    for (host, origin, expected) in [
        ("evil.example", "", "foreign-host"),
        ("localhost.evil.example", "Origin: http://localhost\r\n", "foreign-host"),
        ("10.0.0.1:9465", "", "foreign-host"),
        ("localhost", "Origin: http://evil.example\r\n", "foreign-origin"),
        ("localhost", "Origin: null\r\n", "foreign-origin"),
        ("localhost", "Origin: http://localhost:1\r\n", "foreign-origin"),
        ("localhost", "Origin: http://localhost\r\nOrigin: http://evil.example\r\n", "foreign-origin"),
    ] {
        for (method, path, _, body) in operations() {
            let body = body.unwrap_or_default();
            let head =
                format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\n{origin}Authorization: Bearer {ADMIN}");
            let answer =
                server.say(format!("{head}\r\nContent-Length: {}\r\n\r\n{body}", body.len()).as_bytes());
            let (status, text) = parted(&answer);
            assert_eq!(status, 403, "{answer}");
            assert_eq!(kind(&serde_json::from_str(&text).unwrap()), expected);
            assert!(!answer.contains("access-control-allow"), "{answer}");
        }
    }
    // A form can send this without the browser's asking first; only JSON is taken.
    let form = format!(
        "POST /v1/nfs/fw/tell HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {ADMIN}\r\n\
         Content-Type: text/plain\r\nContent-Length: 16\r\n\r\n{{\"body\":\"reset\"}}"
    );
    assert_eq!(parted(&server.say(form.as_bytes())).0, 415);
    assert!(manager.asked().is_empty());
    let own =
        request(ADMIN, "GET", "/v1/chains", None).replace("\r\n\r\n", "\r\nOrigin: http://localhost\r\n\r\n");
    assert_eq!(parted(&server.say(own.as_bytes())).0, 200);
}

#[test]
fn the_socket_is_for_its_user_and_needs_no_token() {
    let (server, manager) = with_manager();
    let ask = |method: &str, path: &str| {
        ask_locally(
            manager.folder(),
            format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").as_bytes(),
        )
    };
    assert_eq!(ask("GET", "/v1/snapshot").0, 200);
    assert_eq!(ask("POST", "/v1/stop").0, 200);
    assert!(matches!(manager.asked()[..], [Request::Snapshot { .. }, Request::Stop]));
    let path = own_socket(manager.folder());
    let mode = std::os::unix::fs::MetadataExt::mode(&fs::metadata(&path).unwrap());
    assert_eq!(mode & 0o777, 0o600);
    drop(server);
    assert!(!path.exists());
}

#[test]
fn what_is_wrong_is_said_with_its_cure() {
    let (server, manager) = with_manager();
    let long = "x".repeat(17 << 20);
    let long = json!({ "body": long }).to_string();
    for (method, path, body, status, expected) in [
        ("GET", "/v1/nothing", None, 404, "no-such-path"),
        ("GET", "/v1/nfs/firewal", None, 404, "no-such-name"),
        ("GET", "/v1/chains/wed", None, 404, "no-such-name"),
        ("GET", "/v1/nfs/firewal/logs", None, 404, "no-such-name"),
        ("POST", "/v1/nfs/firewal/tell", Some("{\"body\":\"\"}"), 404, "no-such-name"),
        ("DELETE", "/v1/snapshot", None, 405, "wrong-method"),
        ("GET", "/v1/stop", None, 405, "wrong-method"),
        ("GET", "/v1/flows?most=-1", None, 400, "malformed"),
        ("GET", "/v1/flows?most=65536", None, 400, "malformed"),
        ("GET", "/v1/flows?least=1", None, 400, "malformed"),
        ("GET", "/v1/nfs/%ff/logs", None, 400, "malformed"),
        ("GET", "/v1/explain", None, 400, "malformed"),
        ("GET", "/v1/explain?packet=tcp", None, 409, "refused"),
        ("POST", "/v1/nfs/fw/tell", Some("{"), 400, "malformed"),
        ("POST", "/v1/nfs/fw/tell", Some("{\"body\":7}"), 400, "malformed"),
        ("POST", "/v1/nfs/fw/tell", Some("{\"body\":\"\",\"more\":1}"), 400, "malformed"),
        ("POST", "/v1/nfs/fw/tell", Some(long.as_str()), 413, "too-long"),
        ("PUT", "/v1/configuration", Some("{\"name\":\"a\",\"text\":\"bad\"}"), 422, "configuration-refused"),
    ] {
        let (found, problem) = server.ask_json(ADMIN, method, path, body);
        assert_eq!((found, kind(&problem)), (status, expected), "{path}: {problem}");
        assert_eq!(problem["status"], status);
    }
    let (_, problem) = server.ask_json(ADMIN, "GET", "/v1/nfs/firewal", None);
    assert_eq!(problem["detail"], "there is no NF named \"firewal\"; there are: fw, monitor, scan");
    let (_, problem) =
        server.ask_json(ADMIN, "PUT", "/v1/configuration", Some(r#"{"name":"a","text":"bad"}"#));
    assert_eq!(problem["detail"], "a:1:1: expected a table");
    let (_, problem) = server.ask_json(ADMIN, "POST", "/v1/nfs/fw/tell", Some(r#"{"body":7}"#));
    assert!(problem["detail"].as_str().unwrap().contains("expected a string"), "{problem}");
    let answer = server.say(request(ADMIN, "DELETE", "/v1/stop", None).as_bytes());
    assert!(answer.contains("allow: POST"), "{answer}");
    assert!(answer.contains("content-type: application/problem+json"), "{answer}");
    assert!(answer.contains("cache-control: no-store") && answer.contains("nosniff"), "{answer}");
    assert!(!manager.asked().iter().any(|asked| matches!(asked, Request::Stop)));
}

/// A body that does not come holds its own connection and nothing else.
#[test]
fn a_slow_body_is_given_up() {
    let (server, manager) = with_manager();
    let mut slow = server.connect();
    let text = request(ADMIN, "POST", "/v1/nfs/fw/tell", Some(&"x".repeat(100)));
    slow.write_all(&text.as_bytes()[..text.len() - 1]).unwrap();
    assert_eq!(server.ask(READER, "GET", "/v1/snapshot", None).0, 200);
    let mut answer = String::new();
    slow.read_to_string(&mut answer).unwrap();
    let (status, text) = parted(&answer);
    assert_eq!((status, kind(&serde_json::from_str(&text).unwrap())), (408, "too-slow"));
    assert!(!manager.was_changed());
}

#[test]
fn a_manager_that_is_gone_hung_or_of_another_version_is_said_plainly() {
    let folder = tempfile::tempdir().unwrap();
    let nowhere = Running::of_api(folder.path(), PathBuf::from("/nonexistent/fake.sock"));
    let (status, problem) = nowhere.ask_json(ADMIN, "GET", "/v1/snapshot", None);
    assert_eq!((status, kind(&problem)), (503, "manager-not-running"));
    assert!(problem["cure"].as_str().unwrap().contains("headgate up"), "{problem}");
    assert_eq!(nowhere.ask(ADMIN, "GET", "/v1/watch/events", None).0, 503);
    drop(nowhere);

    let refusal = "{\"Err\":{\"code\":2,\"message\":\"not a request of this API\"}}\n";
    for (manners, status, expected) in [
        (Manners::Hung, 504, "manager-silent"),
        (Manners::Rude, 504, "manager-silent"),
        (Manners::Busy, 409, "refused"),
        (Manners::Says("HTTP/1.1 200 OK\n"), 502, "manager-of-another-version"),
        (Manners::Says("{\"Ok\":{\"new\":1}}\n"), 502, "manager-of-another-version"),
        (Manners::Says(refusal), 502, "manager-of-another-version"),
        (Manners::Says("{\"Ok\":"), 504, "manager-silent"),
    ] {
        let fake = Fake::start(manners.clone());
        let server = Running::of_api(fake.folder(), fake.socket());
        let (found, problem) = server.ask_json(READER, "GET", "/v1/snapshot", None);
        assert_eq!((found, kind(&problem)), (status, expected), "{manners:?}: {problem}");
        // What needs no manager is answered meanwhile, and the manager is asked again once it is well.
        assert_eq!(server.ask(READER, "GET", "/openapi.json", None).0, 200);
        fake.behave(Manners::Good);
        assert_eq!(server.ask(READER, "GET", "/v1/flows", None).0, 200);
    }
}

/// A stream, from behind its head.
fn watch(server: &Running, path: &str) -> BufReader<TcpStream> {
    let mut stream = server.connect();
    stream.write_all(request(READER, "GET", path, None).as_bytes()).unwrap();
    let mut stream = BufReader::new(stream);
    let mut line = String::new();
    stream.read_line(&mut line).unwrap();
    assert!(line.starts_with("HTTP/1.1 200"), "{line}");
    while line != "\r\n" {
        line.clear();
        stream.read_line(&mut line).unwrap();
    }
    stream
}

/// Reads until a line begins so, and returns the rest of it.
fn until(stream: &mut BufReader<TcpStream>, start: &str) -> String {
    let mut line = String::new();
    while !line.starts_with(start) {
        line.clear();
        assert!(stream.read_line(&mut line).unwrap() > 0, "the stream ends before {start:?}");
    }
    line[start.len()..].trim_end().to_owned()
}

#[test]
fn events_and_snapshots_are_watched() {
    let (server, manager) = with_manager();
    let mut snapshots = watch(&server, "/v1/watch/snapshots");
    let mut events = watch(&server, "/v1/watch/events");
    assert_eq!(until(&mut snapshots, "event: "), "snapshot");
    let first: Json = serde_json::from_str(&until(&mut snapshots, "data: ")).unwrap();
    assert_eq!(first["manager"]["name"], "fake");
    for number in ["0", "1"] {
        assert_eq!(until(&mut events, "id: "), number);
    }
    {
        let mut now = manager.snapshot.lock().unwrap();
        now.at_ns += 1;
        now.events.push(event(3_000_000));
    }
    let new: Json = serde_json::from_str(&until(&mut events, "data: ")).unwrap();
    assert_eq!((&new["at_ns"], &new["code"]), (&json!(3_000_000), &json!("nf-ready")));
    let second: Json = serde_json::from_str(&until(&mut snapshots, "data: ")).unwrap();
    assert!(second["at_ns"].as_u64() > Some(0));
    // One that comes again goes on where it was.
    assert_eq!(until(&mut watch(&server, "/v1/watch/events?after=1"), "id: "), "2");
    manager.behave(Manners::Rude);
    assert_eq!(until(&mut events, "event: "), "problem");
    assert!(until(&mut events, "data: ").contains("manager-silent"));
    manager.behave(Manners::Good);
    until(&mut snapshots, "event: problem");
    assert_eq!(until(&mut snapshots, "event: "), "snapshot");
}

/// Clients without a token open more connections than there may be: one that watches with a token stays.
#[test]
fn connections_without_a_token_displace_nobody_who_has_one() {
    let (server, manager) = with_manager();
    let mut events = watch(&server, "/v1/watch/events");
    assert_eq!(until(&mut events, "id: "), "0");
    let silent: Vec<TcpStream> = (0..CONNECTIONS_MAX + 50).map(|_| server.connect()).collect();
    assert_eq!(server.ask(READER, "GET", "/v1/snapshot", None).0, 200);
    manager.snapshot.lock().unwrap().events.push(event(9_000_000));
    assert_eq!(until(&mut events, "id: "), "1");
    drop(silent);
}

/// Many ask at once for slow answers: the manager is asked for few at a time, and each gets its own.
#[test]
fn many_requests_at_once_are_all_answered() {
    let (server, manager) = with_manager();
    thread::scope(|scope| {
        for _ in 0..40 {
            scope.spawn(|| assert_eq!(server.ask(READER, "GET", "/v1/flows", None).0, 200));
            scope.spawn(|| assert_eq!(server.ask(READER, "GET", "/v1/snapshot", None).0, 200));
        }
    });
    let snapshots = manager.asked().iter().filter(|asked| matches!(asked, Request::Snapshot { .. })).count();
    assert!(snapshots < 40, "{snapshots}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    /// Whatever comes, the server is not the one that failed, and is there afterwards.
    #[test]
    fn nothing_that_is_sent_makes_the_server_fail(
        garbage in prop::collection::vec(
            (
                prop::sample::select(vec!["GET", "POST", "PUT", "DELETE", "HEAD", "PATCH", "BREW"]),
                "(/v1/(nfs|chains|snapshot|flows|configuration|measure|watch)?(/[ -~]{0,12}){0,2}(\\?[ -~]{0,20})?|[ -~]{1,40})",
                prop::option::of(prop_oneof![
                    "[ -~]{0,80}".prop_map(String::from),
                    r#"\{"(name|text|body|on)":("[^"\\]{0,20}"|true|-?[0-9]{1,25}|\[|null|\{\})(,"text":"[a-z]{0,9}")?\}"#,
                    "\\PC{0,60}",
                ]),
            ),
            20,
        ),
        bytes in prop::collection::vec(any::<u8>(), 0..600),
    ) {
        let (server, _manager) = with_manager();
        for (method, path, body) in &garbage {
            if is_stream(path) {
                continue;
            }
            let answer = server.say(request(ADMIN, method, path, body.as_deref()).as_bytes());
            prop_assert!(!answer.starts_with("HTTP/1.1 5"), "{method} {path} {body:?}: {answer}");
        }
        let answer = server.say(&bytes);
        prop_assert!(!answer.starts_with("HTTP/1.1 5"), "{answer}");
        prop_assert_eq!(server.ask(READER, "GET", "/v1/snapshot", None).0, 200);
    }
}

#[test]
fn the_document_is_as_committed() {
    let text = serde_json::to_string_pretty(&openapi::document()).unwrap() + "\n";
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/guide/openapi.json");
    if std::env::var_os("HEADGATE_UPDATE_SNAPSHOTS").is_some() {
        fs::write(&path, &text).unwrap();
    }
    assert!(
        fs::read_to_string(&path).is_ok_and(|committed| committed == text),
        "{} differs from the types; if that is meant, run this test with HEADGATE_UPDATE_SNAPSHOTS=1",
        path.display()
    );
}
