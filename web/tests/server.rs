//! The server under clients that are wrong, slow, many, or led here by another site.

mod common;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::thread;

use common::fake::{Fake, Manners};
use common::{PATIENCE, Running};
use headgate_web::server::{CONNECTIONS_MAX, REQUEST_PATIENCE};

/// A server of metrics, and the manager that it asks.
fn with_manager() -> (Running, Fake) {
    let fake = Fake::start(Manners::Good);
    (Running::of_metrics(fake.socket()), fake)
}

#[test]
fn metrics_are_served_and_nothing_else_is() {
    let (server, _manager) = with_manager();
    let answer = server.get("/metrics");
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    let kind = "content-type: application/openmetrics-text; version=1.0.0; charset=utf-8\r\n";
    assert!(answer.contains(kind) && answer.contains("\nheadgate_up 1.0\n"), "{answer}");
    assert!(answer.ends_with("# EOF\n"), "{answer}");
    assert!(server.get("/").contains("/metrics"));
    let head = server.say(b"HEAD /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 200") && !head.contains("headgate_up"), "{head}");
    for path in ["/metrics/", "/..", "/../etc/passwd", "/%00", "/metrics%2f", "//metrics"] {
        assert!(server.get(path).starts_with("HTTP/1.1 404"), "{path}");
    }
    for method in ["POST", "PUT", "DELETE", "OPTIONS", "TRACE", "BREW"] {
        let answer = server.say(format!("{method} /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").as_bytes());
        assert!(
            answer.starts_with("HTTP/1.1 405") && answer.contains("allow: GET,HEAD"),
            "{method}: {answer}"
        );
    }
}

/// What is no request ends its connection, and the next one is served.
#[test]
fn garbage_harms_nobody() {
    let (server, _manager) = with_manager();
    let long = format!("GET /{} HTTP/1.1\r\n\r\n", "a".repeat(1 << 20));
    let headers = format!("GET / HTTP/1.1\r\nHost: localhost\r\n{}\r\n", "X: y\r\n".repeat(5000));
    let chunked =
        "POST /metrics HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n";
    for bytes in [
        &b"\0\0\0\0\r\n\r\n"[..],
        b"GET",
        b"GET / HTTP/9.9\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        long.as_bytes(),
        headers.as_bytes(),
        chunked.as_bytes(),
    ] {
        let answer = server.say(bytes);
        assert!(!answer.contains("200 OK"), "{answer}");
        assert!(!answer.contains(" 50"), "no server error: {answer}");
    }
    assert!(server.get("/metrics").contains("headgate_up 1.0"));
}

#[test]
fn a_page_of_another_site_reads_nothing() {
    let (server, _manager) = with_manager();
    let of = |host: &str| server.say(format!("GET /metrics HTTP/1.1\r\nHost: {host}\r\n\r\n").as_bytes());
    for host in
        ["evil.example", "evil.example:9464", "localhost.evil.example", "10.0.0.1:9464", "[2001:db8::1]:80"]
    {
        let answer = of(host);
        assert!(answer.starts_with("HTTP/1.1 403") && !answer.contains("headgate_up"), "{host}: {answer}");
    }
    for host in ["localhost", "LocalHost:9464", "127.0.0.1", "127.0.0.1:9464", "[::1]:9464", "[::1]"] {
        assert!(of(host).starts_with("HTTP/1.1 200"), "{host}");
    }
}

/// A client that begins a request and does not end it is cut off; others are served meanwhile.
#[test]
fn a_slow_client_is_cut_off() {
    let (server, _manager) = with_manager();
    let mut slow = server.connect();
    slow.write_all(b"GET /metrics HTTP/1.1\r\nHo").unwrap();
    assert!(server.get("/metrics").contains("headgate_up 1.0"));
    slow.set_read_timeout(Some(REQUEST_PATIENCE + PATIENCE)).unwrap();
    let mut answer = Vec::new();
    let _ = slow.read_to_end(&mut answer);
    assert!(!String::from_utf8_lossy(&answer).contains("headgate_up"));
}

/// More connections than there may be, all silent: the newest is served, the oldest is ended.
#[test]
fn silent_connections_keep_nobody_out() {
    let (server, _manager) = with_manager();
    let mut silent: Vec<TcpStream> = (0..CONNECTIONS_MAX + 50).map(|_| server.connect()).collect();
    assert!(server.get("/metrics").contains("headgate_up 1.0"));
    assert!(matches!(silent[0].read(&mut [0]), Ok(0) | Err(_)));
}

/// Many requests at once are one request to the manager.
#[test]
fn the_manager_is_asked_once_for_many() {
    let (server, manager) = with_manager();
    thread::scope(|scope| {
        for _ in 0..50 {
            scope.spawn(|| assert!(server.get("/metrics").contains("headgate_up 1.0")));
        }
    });
    let times = manager.asked().len();
    assert!((1..=25).contains(&times), "asked {times} times");
}

/// A scrape says that there is no manager, that it hangs, or that it is no manager of this version.
#[test]
fn a_manager_that_does_not_answer_is_told_as_such() {
    let nowhere = Running::of_metrics(PathBuf::from("/nonexistent/fake.sock"));
    assert!(nowhere.get("/metrics").contains("headgate_up 0.0"));
    for manners in [Manners::Hung, Manners::Rude, Manners::Says("{}\n"), Manners::Says("\u{1}")] {
        let fake = Fake::start(manners);
        let server = Running::of_metrics(fake.socket());
        assert!(server.get("/metrics").contains("headgate_up 0.0"));
    }
}
