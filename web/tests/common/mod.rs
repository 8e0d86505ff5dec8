//! A server over a fake manager, and a client that says what it likes.
#![allow(dead_code, reason = "each test file uses a part")]

pub mod fake;

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use headgate_web::auth::{Token, Tokens};
use headgate_web::{Manager, Server};
use serde_json::Value as Json;

/// Longest wait of a test before it gives up; not a measurement.
pub const PATIENCE: Duration = Duration::from_secs(60);
/// Token of the administrator.
pub const ADMIN: &str = "admin-0123456789abcdef0123456789";
/// Token of those who read.
pub const READER: &str = "reader+0123456789abcdef012345678";

/// A server that runs until it is dropped.
pub struct Running {
    pub address: SocketAddr,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Running {
    fn start(server: Server) -> Self {
        let (address, is_over) = (server.address().unwrap(), Arc::<AtomicBool>::default());
        let asked = is_over.clone();
        let thread = thread::spawn(move || server.run(|| asked.load(Ordering::Relaxed)));
        Self { address, is_over, thread: Some(thread) }
    }

    /// A server of metrics of the manager at a socket.
    pub fn of_metrics(socket: PathBuf) -> Self {
        let manager = Manager::at("fake", socket);
        Self::start(Server::metrics(manager, "127.0.0.1:0".parse().unwrap()).unwrap())
    }

    /// A server of the API of the manager at a socket; its own lies in `folder`.
    pub fn of_api(folder: &Path, socket: PathBuf) -> Self {
        let address = Some("127.0.0.1:0".parse().unwrap());
        let tokens = Tokens::new(Some(token(folder, ADMIN)), Some(token(folder, READER))).unwrap();
        let server = Server::api(Manager::at("fake", socket), &own_socket(folder), address, tokens);
        Self::start(server.unwrap())
    }

    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// Sends bytes and returns what comes until the end.
    pub fn say(&self, bytes: &[u8]) -> String {
        exchange(self.connect(), bytes)
    }

    /// Gets a path without a token.
    pub fn get(&self, path: &str) -> String {
        self.say(format!("GET {path} HTTP/1.1\r\nHost: {}\r\n\r\n", self.address).as_bytes())
    }

    /// Asks with a token: status code and body.
    pub fn ask(&self, token: &str, method: &str, path: &str, body: Option<&str>) -> (u16, String) {
        let answer = self.say(request(token, method, path, body).as_bytes());
        parted(&answer)
    }

    /// The same; the body is JSON.
    pub fn ask_json(&self, token: &str, method: &str, path: &str, body: Option<&str>) -> (u16, Json) {
        let (status, text) = self.ask(token, method, path, body);
        (status, serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {path}: {text}")))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        let ended = self.thread.take().unwrap().join();
        assert!(ended.is_ok() || thread::panicking());
    }
}

/// Path of the server's own socket.
pub fn own_socket(folder: &Path) -> PathBuf {
    folder.join("http.sock")
}

/// Asks at the server's own socket.
pub fn ask_locally(folder: &Path, bytes: &[u8]) -> (u16, String) {
    let stream = UnixStream::connect(own_socket(folder)).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    parted(&exchange(stream, bytes))
}

fn exchange(mut stream: impl Read + Write, bytes: &[u8]) -> String {
    // It may be closed before all of it was sent.
    let _ = stream.write_all(bytes);
    let mut text = Vec::new();
    match stream.read_to_end(&mut text) {
        Ok(_) => {}
        Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset),
    }
    String::from_utf8_lossy(&text).into_owned()
}

/// A request with a token, as text.
pub fn request(token: &str, method: &str, path: &str, body: Option<&str>) -> String {
    let head = format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n");
    match body {
        None => head + "\r\n",
        Some(body) => {
            let length = body.len();
            format!("{head}Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}")
        }
    }
}

/// Status code and body of an answer.
pub fn parted(answer: &str) -> (u16, String) {
    let status = answer.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3)?.parse().ok());
    let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    (status.unwrap_or_else(|| panic!("no answer: {answer:?}")), body.to_owned())
}

fn token(folder: &Path, text: &str) -> Token {
    let path = folder.join("token");
    std::fs::write(&path, text).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    Token::read(&path).unwrap()
}
