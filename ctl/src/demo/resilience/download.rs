//! A download between two hosts that lasts until it is told to end, and the sums of what was sent and of what
//! arrived.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

use headgate_host::namespace::Endpoint;

use crate::error::CommandError;

/// Port of the server. Our choice: one that nobody else has in a namespace of its own.
const PORT: u16 = 8080;
/// Bytes that are written or read at once.
const BLOCK: usize = 16 << 10;

/// A download under way.
pub struct Download {
    enough: Arc<AtomicBool>,
    arrived: Arc<AtomicU64>,
    server: JoinHandle<io::Result<u64>>,
    client: JoinHandle<io::Result<u64>>,
}

/// Sum over bytes in their order (FNV-1a): equal ones have the same.
#[derive(Clone, Copy)]
struct Sum(u64);

impl Sum {
    const fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    fn add(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

impl Download {
    /// Begins one from one host to another.
    ///
    /// # Errors
    /// They have no sockets, or hear nothing of each other.
    pub fn begin(from: &Endpoint, to: &Endpoint) -> Result<Self, CommandError> {
        let address = (from.addresses[0], PORT);
        let listener = from.namespace.run(|| TcpListener::bind(address))??;
        let (enough, arrived) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
        let stop = enough.clone();
        let server = std::thread::spawn(move || serve(&listener, &stop));
        let stream = to.namespace.run(|| TcpStream::connect(address))??;
        let counted = arrived.clone();
        let client = std::thread::spawn(move || receive(stream, &counted));
        Ok(Self { enough, arrived, server, client })
    }

    /// Returns the bytes that have arrived.
    pub fn arrived(&self) -> u64 {
        self.arrived.load(Ordering::Relaxed)
    }

    /// Ends it. Returns the bytes that arrived, and the sums of what was sent and of what arrived, which
    /// differ where one of both failed.
    pub fn end(self) -> (u64, [u64; 2]) {
        self.enough.store(true, Ordering::Relaxed);
        let sum = |thread: JoinHandle<io::Result<u64>>| thread.join().ok().and_then(Result::ok);
        let sums = [sum(self.server), sum(self.client)];
        (self.arrived.load(Ordering::Relaxed), [sums[0].unwrap_or(0), sums[1].unwrap_or(1)])
    }
}

fn serve(listener: &TcpListener, enough: &AtomicBool) -> io::Result<u64> {
    let (mut stream, _) = listener.accept()?;
    let (mut sum, mut number, mut block) = (Sum::new(), 0_u64, vec![0; BLOCK]);
    while !enough.load(Ordering::Relaxed) {
        for word in block.chunks_exact_mut(size_of::<u64>()) {
            number += 1;
            word.copy_from_slice(&number.to_be_bytes());
        }
        stream.write_all(&block)?;
        sum.add(&block);
    }
    stream.shutdown(Shutdown::Write)?;
    Ok(sum.0)
}

fn receive(mut stream: TcpStream, arrived: &AtomicU64) -> io::Result<u64> {
    let (mut sum, mut block) = (Sum::new(), vec![0; BLOCK]);
    loop {
        let count = stream.read(&mut block)?;
        if count == 0 {
            return Ok(sum.0);
        }
        sum.add(&block[..count]);
        arrived.fetch_add(count as u64, Ordering::Relaxed);
    }
}
