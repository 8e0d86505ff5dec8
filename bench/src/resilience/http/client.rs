//! A client that downloads, one request after another, and checks every byte.

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use headgate_host::namespace::{Endpoint, Namespace};

use super::server::{BLOCK, PORT, byte_at};

/// Longest wait for the next bytes. Our choice: a hundred times the longest failover.
const PATIENCE: Duration = Duration::from_secs(20);

/// A host that downloads.
pub(super) struct Client {
    namespace: Namespace,
    server: SocketAddr,
}

/// Requests of a window.
#[derive(Clone, Debug, Default)]
pub(super) struct Done {
    /// Time of each that was answered whole.
    pub times_ns: Vec<u64>,
    /// Number of those that were not answered, or not whole.
    pub failed: u32,
    /// Number of answers that were not what was asked for.
    pub differing: u32,
}

/// An answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    Right,
    Other,
}

impl Client {
    /// Returns one on a host, of the server on another.
    ///
    /// # Errors
    /// The host cannot be entered.
    pub fn of(host: &Endpoint, server: &Endpoint) -> anyhow::Result<Self> {
        let namespace = host.namespace.run(Namespace::current)??;
        Ok(Self { namespace, server: (server.addresses[0], PORT).into() })
    }

    /// Downloads so many bytes. Returns how long it took.
    ///
    /// # Errors
    /// It fails, or other bytes come.
    pub fn download(&self, bytes: u64) -> anyhow::Result<Duration> {
        let since = Instant::now();
        let answer = self.namespace.run(|| get(self.server, bytes))?;
        ensure!(answer.context("a download failed")? == Answer::Right, "a download came with other bytes");
        Ok(since.elapsed())
    }

    /// Requests so many bytes again and again, for a window.
    pub fn requests(&self, bytes: u64, window: Duration) -> Done {
        let all = || {
            let (mut done, began) = (Done::default(), Instant::now());
            while began.elapsed() < window {
                let since = Instant::now();
                match get(self.server, bytes) {
                    Ok(Answer::Right) => done.times_ns.push(since.elapsed().as_nanos() as u64),
                    Ok(Answer::Other) => done.differing += 1,
                    Err(_) => done.failed += 1,
                }
            }
            done
        };
        self.namespace.run(all).unwrap_or(Done { failed: 1, ..Done::default() })
    }
}

fn get(server: SocketAddr, bytes: u64) -> io::Result<Answer> {
    let mut stream = TcpStream::connect_timeout(&server, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    write!(stream, "GET /{bytes} HTTP/1.1\r\nHost: bench\r\nConnection: close\r\n\r\n")?;
    let (mut block, mut head) = (vec![0; BLOCK], Vec::new());
    let (mut place, mut is_right, mut in_body) = (0_u64, true, false);
    loop {
        let count = stream.read(&mut block)?;
        if count == 0 {
            break;
        }
        let mut came = &block[..count];
        let rest;
        if !in_body {
            head.extend_from_slice(came);
            let Some(end) = head.windows(4).position(|four| four == b"\r\n\r\n") else { continue };
            (in_body, is_right) = (true, head.starts_with(b"HTTP/1.1 200 "));
            rest = head.split_off(end + 4);
            came = &rest;
        }
        is_right &= came.iter().zip(place..).all(|(byte, place)| *byte == byte_at(place));
        place += came.len() as u64;
    }
    if place < bytes {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(if is_right && place == bytes { Answer::Right } else { Answer::Other })
}

#[cfg(test)]
mod tests {
    use super::super::server::Server;
    use super::*;
    use headgate_host::namespace::Namespaces;

    #[test]
    fn what_is_asked_for_comes() {
        let Ok(middle) = Namespace::new() else {
            println!("what_is_asked_for_comes: skipped: namespaces take root");
            return;
        };
        let hosts = Namespaces::new(&middle).unwrap();
        let _server = Server::start(&hosts.left).unwrap();
        // To itself: nothing joins the two hosts.
        let client = Client::of(&hosts.left, &hosts.left).unwrap();
        client.download(0).unwrap();
        client.download((1 << 20) + 1).unwrap();
        let done = client.requests(1000, Duration::from_millis(50));
        assert!(!done.times_ns.is_empty() && done.failed + done.differing == 0, "{done:?}");
    }
}
