//! `headgate serve`: what it refuses, what it prints, and what it leaves behind.

mod common;

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use common::{Running, configuration, eventually, headgate, name_of, run, written};
use rustix::process::Signal;
use serde_json::Value as Json;

/// Longest wait for an answer; not a measurement.
const PATIENCE: Duration = Duration::from_secs(60);

fn token(folder: &Path, name: &str, mode: u32) -> String {
    let path = folder.join(name);
    fs::write(&path, format!("{name}-0123456789abcdef0123456789\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    path.display().to_string()
}

fn ask(socket: &str, method: &str, path: &str) -> (String, Json) {
    let mut stream = UnixStream::connect(socket).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(stream, "{method} {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{text}"));
    let status = head.split(' ').nth(1).unwrap_or_default().to_owned();
    (status, serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {text}")))
}

#[test]
fn it_is_there_before_and_after_its_manager() {
    let folder = tempfile::tempdir().unwrap();
    let (folder, name) = (folder.path(), name_of("serve"));
    let admin = token(folder, "admin", 0o600);
    let words = ["--json", "serve", "--name", &name, "--listen", "127.0.0.1:0", "--token", &admin];
    let mut server = Running::start(headgate(folder, &words));
    let mut line = String::new();
    BufReader::new(server.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let places: Json = serde_json::from_str(&line).unwrap();
    let socket = places["socket"].as_str().unwrap();
    assert!(socket.ends_with(&format!("/{name}+http.sock")), "{places}");
    assert!(places["address"].as_str().unwrap().starts_with("127.0.0.1:"), "{places}");
    let (status, problem) = ask(socket, "GET", "/v1/snapshot");
    assert_eq!((status.as_str(), &problem["title"]), ("503", &"The manager does not run.".into()));

    let (code, _, messages) = run(folder, &["serve", "--name", &name]);
    assert_eq!(code, 3);
    assert!(messages.contains("another server listens there"), "{messages}");

    let file = written(folder, &configuration(&name));
    let manager = Running::start(headgate(folder, &["up", &file]));
    let entered = || ask(socket, "GET", "/v1/chains/through").1["entered"].as_u64() > Some(0);
    eventually("packets are counted", entered);
    assert_eq!(ask(socket, "GET", "/v1/audit").1["conserved"], true);
    let (status, last) = ask(socket, "POST", "/v1/stop");
    assert_eq!((status.as_str(), &last["conserved"]), ("200", &Json::Bool(true)));
    assert_eq!(manager.end().0, 0);
    eventually("it is gone", || ask(socket, "GET", "/v1/snapshot").0 == "503");

    server.signal(Signal::INT);
    assert_eq!(server.0.wait().unwrap().code(), Some(0));
    assert!(!Path::new(socket).exists());
}

#[test]
fn nothing_listens_without_a_private_token_or_beyond_this_machine() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let (private, open) = (token(folder, "private", 0o600), token(folder, "open", 0o644));
    let name = name_of("refused");
    let serve = |words: &[&str]| {
        let all = [&["serve", "--name", &name], words].concat();
        let (code, data, messages) = run(folder, &all);
        assert_eq!(data, "");
        (code, messages)
    };
    for (words, code, expected) in [
        (&["--listen", "127.0.0.1:0"][..], 2, "--token FILE"),
        (&["--token", &private], 2, "--listen"),
        (&["--listen", "0.0.0.0:0", "--token", &private], 3, "loopback"),
        (&["--listen", "127.0.0.1:0", "--token", &open], 3, "chmod 600"),
        (&["--listen", "127.0.0.1:0", "--token", "/nonexistent/token"], 3, "make one with"),
        (&["--listen", "127.0.0.1:0", "--token", &private, "--read-token", &private], 3, "make another"),
        (&["--socket", "/proc/http.sock"], 3, "--socket"),
    ] {
        let (found, messages) = serve(words);
        assert_eq!(found, code, "{words:?}: {messages}");
        assert!(messages.contains(expected), "{words:?}: {messages}");
    }
}

#[test]
fn the_guide_has_the_document_that_is_printed() {
    let folder = tempfile::tempdir().unwrap();
    let (code, text, _) = run(folder.path(), &["serve", "--openapi"]);
    assert_eq!((code, text.as_str()), (0, include_str!("../../docs/guide/openapi.json")));
}
