//! A lab whose nodes agree in a store, and that store as its clients see it.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use headgate_host::namespace::named;
use serde_json::{Value as Json, json};

use super::eventually;
use super::network::{EDGES, Lab, link, there_and_back};

/// Address of the store.
const STORE: &str = "10.8.0.1:2379";
/// Bytes in base64, in groups of three.
const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Packets enter and leave at a; b, c or both work on them.
pub fn text(name: &str) -> String {
    let links = [link(0, ["a", "b"]), link(1, ["a", "c"])].concat();
    let chains = there_and_back("work");
    format!(
        r#"
[manager]
name = "{name}"
idle = "yield"
[memory]
buffers = 8192
hugepages = "never"
[flows]
idle_timeout = "4s"
[cluster]
store = ["http://{STORE}"]
[steering]
high = 30
low = 10
period = "500ms"
beat = "200ms"
[[node]]
name = "a"
[[node]]
name = "b"
[[node]]
name = "c"
{links}
{EDGES}
[[nf]]
name = "work"
nodes = ["b", "c"]
instances = {{ min = 1, max = 2 }}
run = "synthetic"
core = 1
args = {{ cycles = 400000 }}
{chains}"#
    )
}

/// Returns what the store says of its claims: the node of each, and how far it is.
pub fn claims(lab: &Lab) -> Vec<(String, String)> {
    let status = lab.json("a", &["cluster", "status"]);
    let all = status["store"]["claims"].as_array().cloned().unwrap_or_default();
    let word = |claim: &Json, key: &str| claim[key].as_str().unwrap_or_default().to_owned();
    all.iter().map(|claim| (word(claim, "node"), word(claim, "state"))).collect()
}

/// Waits until one node alone serves. Returns it.
pub fn the_one_that_serves(lab: &Lab) -> String {
    let mut found = String::new();
    eventually("one node serves", || {
        let claims = claims(lab);
        let serving = claims.iter().filter(|(_, state)| state == "serving");
        found = serving.map(|(node, _)| node.clone()).next().unwrap_or_default();
        claims.len() == 1 && !found.is_empty()
    });
    lab.wait_for_servers([found.as_str()]);
    found
}

pub fn has_event(lab: &Lab, node: &str, code: &str) -> bool {
    let events = lab.json(node, &["show", "events"]);
    events.as_array().is_some_and(|all| all.iter().any(|event| event["code"] == code))
}

/// Asks the store as its clients do, from its own namespace.
fn ask_store(lab: &Lab, what: &str, body: &Json) -> Json {
    let place = named::open(&format!("{}-store", lab.name)).unwrap();
    let body = body.to_string();
    let request = format!(
        "POST /v3/{what} HTTP/1.1\r\nHost: store\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let ask = || {
        let mut stream = TcpStream::connect(STORE).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    let answer = place.run(ask).unwrap();
    let (_, document) = answer.split_once("\r\n\r\n").unwrap();
    serde_json::from_str(document.trim()).unwrap_or_else(|error| panic!("{error}: {answer}"))
}

/// Returns text in base64 (RFC 4648).
fn encoded(text: &str) -> String {
    let group = |group: &[u8]| -> String {
        let bits = (0..3).fold(0, |bits, at| bits << 8 | u32::from(group.get(at).copied().unwrap_or(0)));
        let digit = |at: usize| match at <= group.len() {
            true => char::from(DIGITS[(bits >> (18 - 6 * at) & 0x3f) as usize]),
            false => '=',
        };
        (0..4).map(digit).collect()
    };
    text.as_bytes().chunks(3).map(group).collect()
}

pub fn put(lab: &Lab, key: &str, value: &str) {
    let key = format!("/headgate/{}/{key}", lab.name);
    ask_store(lab, "kv/put", &json!({ "key": encoded(&key), "value": encoded(value) }));
}

pub fn delete(lab: &Lab, key: &str) {
    let key = format!("/headgate/{}/{key}", lab.name);
    ask_store(lab, "kv/deleterange", &json!({ "key": encoded(&key) }));
}
