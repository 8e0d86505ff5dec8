//! A cable on which frames take their time: a TAP at each end, and a thread of this process between them.
//!
//! Kernels mostly have a queue that delays (netem), but not each, and it is not ours to load.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use headgate_host::namespace::Namespace;
use headgate_kernel::interface::cable;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Longest sleep. Our choice: nobody notices it at the end.
const IDLE: Duration = Duration::from_millis(20);
/// Longest frame that a TAP gives.
const FRAME_BYTES_MAX: usize = 65_536;

/// Frames on their way, and when they arrive.
type Way = VecDeque<(Instant, Vec<u8>)>;

/// A cable. Its ends are gone when it is dropped.
pub(super) struct SlowCable {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl SlowCable {
    /// Lays it between two places, in each direction with this delay.
    ///
    /// # Errors
    /// A TAP cannot be made.
    pub fn lay(places: [&Namespace; 2], names: [&str; 2], mtu: u32, delay: Duration) -> anyhow::Result<Self> {
        let [near, far] = [0, 1].map(|end| lay_end(places[end], names[end], mtu));
        let (ends, stop) = ([near?, far?], Arc::<AtomicBool>::default());
        let asked = stop.clone();
        let thread = thread::Builder::new().name("bench-cable".to_owned());
        let thread = thread.spawn(move || carry(&ends, delay, &asked))?;
        Ok(Self { stop, thread: Some(thread) })
    }
}

impl Drop for SlowCable {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // One that panicked carries nothing any more.
            let _ = thread.join();
        }
    }
}

fn lay_end(place: &Namespace, name: &str, mtu: u32) -> anyhow::Result<OwnedFd> {
    let file = place.run(|| cable(name))?;
    let file = file.context("no TAP can be made (load the module: `modprobe tun`)")?;
    let mut links = place.links()?;
    links.set_mtu(name, mtu)?;
    links.set_no_own_ipv6_address(name)?;
    links.set_up(name)?;
    Ok(file)
}

/// Carries frames until it is to stop.
fn carry(ends: &[OwnedFd; 2], delay: Duration, stop: &AtomicBool) {
    let (mut ways, mut frame) = ([Way::new(), Way::new()], vec![0; FRAME_BYTES_MAX]);
    while !stop.load(Ordering::Relaxed) {
        let now = Instant::now();
        let first = ways.iter().filter_map(|way| way.front()).map(|(due, _)| *due).min();
        let sleep = first.map_or(IDLE, |due| due.saturating_duration_since(now).min(IDLE));
        let mut polled = ends.each_ref().map(|end| PollFd::new(end, PollFlags::IN));
        // Whatever it says, both are tried.
        let _ = poll(&mut polled, Timespec::try_from(sleep).ok().as_ref());
        for (way, [from, to]) in ways.iter_mut().zip([[0, 1], [1, 0]]) {
            while let Ok(count) = rustix::io::read(&ends[from], &mut frame[..]) {
                way.push_back((Instant::now() + delay, frame[..count].to_vec()));
            }
            let now = Instant::now();
            while way.front().is_some_and(|(due, _)| *due <= now)
                && let Some((_, frame)) = way.pop_front()
            {
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

    #[test]
    fn what_goes_there_and_back_takes_twice_the_delay() {
        let Ok(places) = Namespace::new().and_then(|one| Ok([one, Namespace::new()?])) else {
            println!("what_goes_there_and_back_takes_twice_the_delay: skipped: namespaces take root");
            return;
        };
        let delay = Duration::from_millis(5);
        let [one, other] = places.each_ref();
        let _cable = SlowCable::lay([one, other], ["a", "b"], 1500, delay).unwrap();
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
    }
}
