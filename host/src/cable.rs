//! A cable between two namespaces that is as bad as it is asked to be: slow, narrow, lossy, doubling, in
//! another order, or cut one way.
//!
//! A TAP is at each end, and a thread of this process between them. Kernels mostly have queues that do some
//! of this (`netem`), but not each, and they are not ours to load. It is gone with the process.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::OpenOptions;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::namespace::{Namespace, NamespaceError};
use crate::network::{NetworkError, request_for};

/// Device by which TAPs are made.
const DEVICE: &str = "/dev/net/tun";
/// Longest sleep. Our choice: nobody notices it at the end.
const IDLE: Duration = Duration::from_millis(20);
/// Longest frame that a TAP gives.
const FRAME_BYTES_MAX: usize = 65_536;
/// Time for which frames may wait for their turn on a cable with a rate; more are lost. Our choice: what
/// queues of routers hold.
const QUEUE: Duration = Duration::from_millis(50);

/// What a cable does to frames of one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quality {
    /// Time that each takes.
    pub delay: Duration,
    /// Most that is added to it, drawn for each frame: those that are overtaken arrive in another order.
    pub jitter: Duration,
    /// Bits per second.
    pub rate: Option<u64>,
    /// Frames of 1000 that are lost.
    pub lost: u16,
    /// Frames of 1000 that arrive twice.
    pub doubled: u16,
    /// Whether none arrives.
    pub is_cut: bool,
}

/// Error: a cable cannot be laid.
#[derive(Debug, thiserror::Error)]
pub enum CableError {
    /// There is no TAP to be had.
    #[error(
        "no TAP {name:?} can be made: {source} (load the module: `modprobe tun`; it takes CAP_NET_ADMIN)"
    )]
    Tap {
        /// Its interface.
        name: String,
        /// The kernel's error.
        source: io::Error,
    },
    /// The place of an end is gone.
    #[error(transparent)]
    Namespace(#[from] NamespaceError),
    /// An end cannot be set up.
    #[error(transparent)]
    Network(#[from] NetworkError),
    /// No thread could be started.
    #[error("no thread could be started: {0}")]
    Thread(io::Error),
}

/// A cable. Its ends are gone when it is dropped.
pub struct Cable {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    is_over: AtomicBool,
    /// From the first end, and from the second.
    qualities: Mutex<[Quality; 2]>,
}

impl Cable {
    /// Lays it between two places, of one quality in both directions.
    ///
    /// # Errors
    /// [`CableError`].
    pub fn lay(
        places: [&Namespace; 2],
        names: [&str; 2],
        mtu: u32,
        quality: Quality,
    ) -> Result<Self, CableError> {
        let [near, far] = [0, 1].map(|end| lay_end(places[end], names[end], mtu));
        let ends = [near?, far?];
        let shared =
            Arc::new(Shared { is_over: AtomicBool::new(false), qualities: Mutex::new([quality; 2]) });
        let theirs = shared.clone();
        let thread = thread::Builder::new().name("hg-cable".to_owned());
        let thread = thread.spawn(move || carry(&ends, &theirs)).map_err(CableError::Thread)?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// Changes the quality from the first end, and from the second. Frames that are on their way arrive.
    pub fn set(&self, qualities: [Quality; 2]) {
        *self.shared.qualities.lock().unwrap_or_else(PoisonError::into_inner) = qualities;
    }
}

impl Drop for Cable {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // One that panicked carries nothing any more.
            let _ = thread.join();
        }
    }
}

fn lay_end(place: &Namespace, name: &str, mtu: u32) -> Result<OwnedFd, CableError> {
    let file = place.run(|| tap(name))??;
    let mut links = place.links()?;
    links.set_mtu(name, mtu)?;
    links.set_no_own_ipv6_address(name)?;
    links.set_up(name)?;
    Ok(file)
}

/// Makes a TAP in the calling thread's namespace, for frames as on a wire: each read takes one that the
/// kernel sent on it, each write is one that it receives, and neither waits.
fn tap(name: &str) -> Result<OwnedFd, CableError> {
    let mut request = request_for(name)?;
    request.ifr_ifru.ifru_flags = (libc::IFF_TAP | libc::IFF_NO_PI) as libc::c_short;
    let refused = |source| CableError::Tap { name: name.to_owned(), source };
    let file = OpenOptions::new().read(true).write(true).custom_flags(libc::O_NONBLOCK).open(DEVICE);
    let file = file.map_err(refused)?;
    // SAFETY: the request lives through the call, and is what the call is documented to want.
    let code = unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF, &raw mut request) };
    if code < 0 { Err(refused(io::Error::last_os_error())) } else { Ok(file.into()) }
}

/// Frames of one direction that are on their way.
#[derive(Default)]
struct Way {
    /// When each arrives, and its number, by which those of one time stay in order.
    frames: BinaryHeap<Reverse<(Instant, u64, Vec<u8>)>>,
    number: u64,
    /// When the last one is on the cable, where that has a rate.
    sent: Option<Instant>,
}

impl Way {
    /// Puts a frame on its way.
    fn take(&mut self, now: Instant, frame: &[u8], quality: &Quality, random: &mut Random) {
        if quality.is_cut || random.below(1000) < u64::from(quality.lost) {
            return;
        }
        let mut at = now;
        if let Some(rate) = quality.rate {
            let begins = self.sent.map_or(now, |sent| sent.max(now));
            if begins - now > QUEUE {
                return;
            }
            at = begins + Duration::from_nanos(frame.len() as u64 * 8 * 1_000_000_000 / rate.max(1));
            self.sent = Some(at);
        }
        let copies = 1 + u64::from(random.below(1000) < u64::from(quality.doubled));
        for _ in 0..copies {
            let jitter = Duration::from_nanos(random.below(quality.jitter.as_nanos() as u64 + 1));
            self.frames.push(Reverse((at + quality.delay + jitter, self.number, frame.to_vec())));
            self.number += 1;
        }
    }

    fn arrives(&self) -> Option<Instant> {
        self.frames.peek().map(|Reverse((at, ..))| *at)
    }

    /// Returns the next frame that has arrived.
    fn arrived(&mut self, now: Instant) -> Option<Vec<u8>> {
        let is_due = self.arrives().is_some_and(|at| at <= now);
        if is_due { self.frames.pop().map(|Reverse((.., frame))| frame) } else { None }
    }
}

/// Random numbers (SplitMix64), the same for each cable.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (word ^ word >> 31) % end
    }
}

/// Carries frames until it is over.
fn carry(ends: &[OwnedFd; 2], shared: &Shared) {
    let (mut ways, mut frame) = ([Way::default(), Way::default()], vec![0; FRAME_BYTES_MAX]);
    let mut random = Random(0);
    while !shared.is_over.load(Ordering::Relaxed) {
        let now = Instant::now();
        let first = ways.iter().filter_map(Way::arrives).min();
        let sleep = first.map_or(IDLE, |at| at.saturating_duration_since(now).min(IDLE));
        let mut polled = ends.each_ref().map(|end| PollFd::new(end, PollFlags::IN));
        // Whatever it says, both are tried.
        let _ = poll(&mut polled, Timespec::try_from(sleep).ok().as_ref());
        let qualities = *shared.qualities.lock().unwrap_or_else(PoisonError::into_inner);
        for ((way, quality), [from, to]) in ways.iter_mut().zip(&qualities).zip([[0, 1], [1, 0]]) {
            while let Ok(count) = rustix::io::read(&ends[from], &mut frame[..]) {
                way.take(Instant::now(), &frame[..count], quality, &mut random);
            }
            let now = Instant::now();
            while let Some(frame) = way.arrived(now) {
                // What an end does not take is lost, as on any cable.
                let _ = rustix::io::write(&ends[to], &frame);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, UdpSocket};

    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// Returns the times at which frames of these numbers arrive that were sent at once, and which.
    fn arrivals(quality: Quality, count: u8, bytes: usize) -> Vec<(Duration, u8)> {
        let (mut way, mut random, now) = (Way::default(), Random(7), Instant::now());
        for number in 0..count {
            way.take(now, &vec![number; bytes], &quality, &mut random);
        }
        let mut all = Vec::new();
        while let Some(at) = way.arrives() {
            all.push((at - now, way.arrived(at).unwrap()[0]));
        }
        all
    }

    #[test]
    fn a_frame_takes_its_time_and_its_turn() {
        assert_eq!(arrivals(Quality::default(), 2, 9), [(Duration::ZERO, 0), (Duration::ZERO, 1)]);
        assert_eq!(arrivals(Quality { delay: MS, ..Quality::default() }, 1, 9), [(MS, 0)]);
        // A thousand bits a millisecond.
        let narrow = Quality { rate: Some(1_000_000), delay: MS, ..Quality::default() };
        assert_eq!(arrivals(narrow, 2, 125), [(2 * MS, 0), (3 * MS, 1)]);
        assert_eq!(arrivals(narrow, 200, 125).len(), 51, "50 ms wait, and one is on its way");
    }

    #[test]
    fn frames_are_lost_doubled_and_overtaken() {
        let numbers = |quality: Quality| -> Vec<u8> {
            arrivals(quality, 200, 9).into_iter().map(|(_, number)| number).collect()
        };
        assert!(numbers(Quality { is_cut: true, ..Quality::default() }).is_empty());
        let lossy = numbers(Quality { lost: 300, ..Quality::default() }).len();
        assert!((100..180).contains(&lossy), "{lossy}");
        let doubled = numbers(Quality { doubled: 300, ..Quality::default() }).len();
        assert!((230..300).contains(&doubled), "{doubled}");
        assert!(!numbers(Quality { jitter: MS, ..Quality::default() }).is_sorted());
    }

    #[test]
    fn what_goes_there_and_back_takes_twice_the_delay() {
        let Ok(places) = Namespace::new().and_then(|one| Ok([one, Namespace::new()?])) else {
            println!("what_goes_there_and_back_takes_twice_the_delay: skipped: namespaces take root");
            return;
        };
        let delay = Duration::from_millis(5);
        let [one, other] = places.each_ref();
        let slow = Quality { delay, ..Quality::default() };
        let cable = Cable::lay([one, other], ["a", "b"], 1500, slow).unwrap();
        let sockets = [(one, "a", 1), (other, "b", 2)].map(|(place, name, end)| {
            place.links().unwrap().add_address(name, IpAddr::from([10, 9, 0, end]), 24).unwrap();
            let socket = place.run(|| UdpSocket::bind(("0.0.0.0", 7)).unwrap()).unwrap();
            socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
            socket
        });
        let mut bytes = [0; 8];
        // The first one waits for the neighbour's address.
        for is_measured in [false, true] {
            let since = Instant::now();
            sockets[0].send_to(b"there", ("10.9.0.2", 7)).unwrap();
            let (count, from) = sockets[1].recv_from(&mut bytes).unwrap();
            sockets[1].send_to(&bytes[..count], from).unwrap();
            sockets[0].recv(&mut bytes).unwrap();
            assert!(!is_measured || since.elapsed() >= 2 * delay, "{:?}", since.elapsed());
        }
        // Cut one way: what comes back does.
        cable.set([Quality { is_cut: true, ..slow }, slow]);
        sockets[0].set_read_timeout(Some(100 * MS)).unwrap();
        sockets[1].set_read_timeout(Some(100 * MS)).unwrap();
        sockets[0].send_to(b"lost", ("10.9.0.2", 7)).unwrap();
        assert!(sockets[1].recv(&mut bytes).is_err());
        sockets[1].send_to(b"back", ("10.9.0.1", 7)).unwrap();
        assert_eq!(sockets[0].recv(&mut bytes).unwrap(), 4);
    }
}
