//! Delay beside a stream: datagrams that go from the client to the server and back, one after another.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle, sleep};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use headgate_host::namespace::Endpoint;

/// Time between two datagrams. Our choice: some thousand in a window, and by far fewer frames than a stream
/// has.
const EVERY: Duration = Duration::from_millis(1);
/// A datagram that is not back by then is lost. Our choice: a hundred time slices of the kernel.
const PATIENCE: Duration = Duration::from_millis(400);

/// Delays there and back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Delays {
    /// Of those that came back, in nanoseconds, in rising order.
    pub took_ns: Vec<u64>,
    /// Datagrams that did not.
    pub lost: u64,
}

impl Delays {
    /// Returns the delay that so many parts of all datagrams did not exceed, in microseconds; of one that was
    /// lost, the time it was waited for.
    #[must_use]
    pub(crate) fn quantile_us(&self, part: f64) -> Option<f64> {
        let all = self.took_ns.len() + self.lost as usize;
        let at = (all.checked_sub(1)? as f64 * part).round() as usize;
        Some(self.took_ns.get(at).map_or(PATIENCE.as_micros() as f64, |&ns| ns as f64 / 1e3))
    }
}

/// Datagrams on their way. Dropping it ends them.
pub struct Echo {
    over: Arc<AtomicBool>,
    server: Option<JoinHandle<()>>,
    client: Option<JoinHandle<Delays>>,
}

impl Echo {
    /// Begins; what is sent before `warm_up` is over is not counted.
    ///
    /// # Errors
    /// A socket cannot be had.
    pub fn start(client: &Endpoint, server: &Endpoint, warm_up: Duration) -> anyhow::Result<Self> {
        let bind = |host: &Endpoint| -> anyhow::Result<UdpSocket> {
            let at = SocketAddr::new(host.addresses[0], 0);
            let socket = host.namespace.run(|| UdpSocket::bind(at))?.context("a socket for delays")?;
            socket.set_read_timeout(Some(PATIENCE))?;
            Ok(socket)
        };
        let (near, far) = (bind(client)?, bind(server)?);
        near.connect(far.local_addr()?)?;
        let over = Arc::new(AtomicBool::new(false));
        let [ends, stops] = [&over, &over].map(Arc::clone);
        let server = thread::spawn(move || answer(&far, &ends));
        let client = thread::spawn(move || ask(&near, warm_up, &stops));
        Ok(Self { over, server: Some(server), client: Some(client) })
    }

    /// Ends. Returns the delays.
    #[must_use]
    pub fn stop(mut self) -> Delays {
        self.join()
    }

    fn join(&mut self) -> Delays {
        self.over.store(true, Ordering::Relaxed);
        let delays = self.client.take().and_then(|client| client.join().ok()).unwrap_or_default();
        if let Some(server) = self.server.take() {
            let _ = server.join();
        }
        delays
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        self.join();
    }
}

fn answer(socket: &UdpSocket, over: &AtomicBool) {
    let mut bytes = [0; 64];
    while !over.load(Ordering::Relaxed) {
        if let Ok((count, from)) = socket.recv_from(&mut bytes) {
            // One that cannot be sent is lost, as the client sees.
            let _ = socket.send_to(&bytes[..count], from);
        }
    }
}

fn ask(socket: &UdpSocket, warm_up: Duration, over: &AtomicBool) -> Delays {
    let mut delays = Delays::default();
    let began = Instant::now();
    let mut number = 0_u64;
    while !over.load(Ordering::Relaxed) {
        number += 1;
        let sent = Instant::now();
        let is_back = socket.send(&number.to_le_bytes()).is_ok() && await_back(socket, number, sent);
        if began.elapsed() >= warm_up {
            if is_back {
                delays.took_ns.push(sent.elapsed().as_nanos() as u64);
            } else if !over.load(Ordering::Relaxed) {
                delays.lost += 1;
            }
        }
        sleep(EVERY);
    }
    delays.took_ns.sort_unstable();
    delays
}

/// Waits for the datagram of that number; those before it come too late.
fn await_back(socket: &UdpSocket, number: u64, sent: Instant) -> bool {
    let mut bytes = [0; 8];
    while sent.elapsed() < PATIENCE {
        match socket.recv(&mut bytes) {
            Ok(8) if u64::from_le_bytes(bytes) == number => return true,
            Ok(_) => {}
            Err(_) => return false,
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use headgate_host::namespace::NamespaceError;

    #[test]
    fn what_is_lost_counts_as_the_time_it_was_waited_for() {
        let delays = Delays { took_ns: vec![1000, 2000, 3000], lost: 1 };
        assert_eq!([0.0, 0.5, 1.0].map(|part| delays.quantile_us(part)), [1.0, 3.0, 400_000.0].map(Some));
        assert_eq!(Delays::default().quantile_us(0.5), None);
    }

    #[test]
    fn datagrams_come_back() {
        let bed = match super::super::beds::TestBed::row(1, true) {
            Err(NamespaceError::NotPermitted { .. }) => return,
            bed => bed.unwrap(),
        };
        let echo = Echo::start(&bed.client, &bed.server, Duration::ZERO).unwrap();
        // Neighbours are found out first.
        sleep(Duration::from_millis(500));
        assert!(!echo.stop().took_ns.is_empty());
    }
}
