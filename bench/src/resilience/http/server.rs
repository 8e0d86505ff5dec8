//! A server that answers `GET /N` with N bytes that follow from their places.

use std::io::{self, BufRead as _, BufReader, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::thread;

use headgate_host::namespace::Endpoint;

/// Port of the server; it is alone in its namespace.
pub(super) const PORT: u16 = 8080;
/// Bytes that are written or read at once.
pub(super) const BLOCK: usize = 16 << 10;

/// A server. It ends when it is dropped; a connection that is open then ends with its client.
pub(super) struct Server(TcpListener);

/// Returns the byte at a place of every answer: words that count, so that none is like another.
pub(super) const fn byte_at(place: u64) -> u8 {
    (place / 8).to_be_bytes()[(place % 8) as usize]
}

impl Server {
    /// Starts one on a host.
    ///
    /// # Errors
    /// There is no socket for it.
    pub fn start(host: &Endpoint) -> anyhow::Result<Self> {
        let address = (host.addresses[0], PORT);
        let listener = host.namespace.run(|| TcpListener::bind(address))??;
        let accepts = listener.try_clone()?;
        thread::Builder::new().name("bench-http".to_owned()).spawn(move || {
            while let Ok((stream, _)) = accepts.accept() {
                // A client that is gone is none of ours.
                thread::spawn(move || serve(&stream));
            }
        })?;
        Ok(Self(listener))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Ends the wait for the next client: shutting a listener down makes accept(2) return.
        let _ = rustix::net::shutdown(&self.0, rustix::net::Shutdown::Both);
    }
}

fn serve(stream: &TcpStream) -> io::Result<()> {
    let mut lines = BufReader::new(stream).lines();
    let request = lines.next().unwrap_or(Ok(String::new()))?;
    while lines.next().transpose()?.is_some_and(|line| !line.is_empty()) {}
    let asked = request.strip_prefix("GET /").and_then(|rest| rest.split(' ').next()?.parse::<u64>().ok());
    let mut stream = stream;
    let Some(bytes) = asked else {
        return stream
            .write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    };
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {bytes}\r\nConnection: close\r\n\r\n");
    stream.write_all(head.as_bytes())?;
    let (mut block, mut sent) = ([0; BLOCK], 0);
    while sent < bytes {
        let count = block.len().min((bytes - sent) as usize);
        for (at, byte) in (sent..).zip(&mut block[..count]) {
            *byte = byte_at(at);
        }
        stream.write_all(&block[..count])?;
        sent += count as u64;
    }
    stream.shutdown(Shutdown::Write)
}
