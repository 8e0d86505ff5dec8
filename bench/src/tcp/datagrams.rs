//! The shortest frames, as many as a sender can: through three NFs, and through three interfaces that the
//! kernel has forward by XDP, which is the fastest that it does by itself.

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use headgate_host::accounting;
use headgate_host::namespace::Endpoint;
use headgate_kernel::{InterfaceIo, Pool, attach, forward_by_xdp, open};
use headgate_session::kernel_io::{Driver, KernelIo};
use headgate_shm::geometry::HEADROOM_BYTES;

use super::beds::{LEFT, RIGHT, TestBed};
use crate::scc::traffic::frame;

/// Names of the results: datagrams a second that arrive.
pub const CHAIN: &str = "datagrams_headgate";
/// The same through XDP.
pub const XDP: &str = "datagrams_xdp";
/// The shortest Ethernet frame, check sequence included, in bytes (IEEE 802.3, 3.2.8).
const FRAME_BYTES: usize = 64;
/// Packets sent with one call, the most that a burst of our path has. Our choice.
const BATCH: u32 = 128;
/// Time that is not counted.
const WARM_UP: Duration = Duration::from_millis(200);

/// Has three kernels in a row forward from left to right by XDP, until what it returns is dropped.
///
/// # Errors
/// The kernel has no XDP, or not here.
pub fn forward(bed: &TestBed) -> anyhow::Result<Vec<OwnedFd>> {
    let between = bed.between.iter().map(|place| (place, LEFT, Some(RIGHT)));
    // An interface takes frames by XDP where it has a program itself: the last one passes all up.
    let all = between.chain([(&bed.server.namespace, bed.server.interface, None)]);
    let attach = |(place, from, to): (&headgate_host::namespace::Namespace, &str, Option<&str>)| {
        place.run(|| forward_by_xdp(from, to))?.with_context(|| format!("XDP on {from}"))
    };
    all.map(attach).collect()
}

/// Sends from the client as many as it can. Returns how many arrived at the server in a second.
///
/// # Errors
/// Whatever kept it from doing so.
pub fn run(bed: &TestBed, window: Duration) -> anyhow::Result<f64> {
    let arrived = || -> anyhow::Result<u64> {
        let Endpoint { namespace, interface, .. } = &bed.server;
        Ok(namespace.run(|| accounting::interface(interface))??.received)
    };
    let send = || -> anyhow::Result<f64> {
        let mut sender = Sender::new(bed.client.interface)?;
        sender.send_for(WARM_UP)?;
        let (began, before) = (Instant::now(), arrived()?);
        sender.send_for(window)?;
        let count = arrived()?.saturating_sub(before);
        Ok(count as f64 / began.elapsed().as_secs_f64())
    };
    bed.client.namespace.run(send)?
}

struct Sender {
    interface: Box<dyn InterfaceIo>,
    pool: Pool,
    frame: Vec<u8>,
}

impl Sender {
    fn new(name: &str) -> anyhow::Result<Self> {
        let interfaces = [name.to_owned(), name.to_owned()];
        let io = KernelIo { driver: Driver::Packet, batch: BATCH, queue: 64, frame_bytes: 2048, interfaces };
        let mut pool = Pool::over(Pool::memory(&io, 0)?);
        let interface = attach(open::open(name, &io, pool.region())?.socket, &io, &mut pool)?;
        Ok(Self { interface, pool, frame: frame(FRAME_BYTES) })
    }

    fn send_for(&mut self, time: Duration) -> anyhow::Result<()> {
        let began = Instant::now();
        let mut packets = Vec::with_capacity(BATCH as usize);
        while began.elapsed() < time {
            packets.clear();
            for _ in 0..BATCH {
                let packet = self.pool.lend().context("the pool is larger than what is in hand")?;
                self.pool.region().write(packet.index(), HEADROOM_BYTES, &self.frame);
                packets.push(packet.with_extent(HEADROOM_BYTES, self.frame.len() as u32));
            }
            self.interface.send(&mut self.pool, &packets)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use headgate_host::namespace::NamespaceError;

    #[test]
    fn datagrams_pass_three_interfaces_by_xdp() {
        let bed = match TestBed::row(3, true) {
            Err(NamespaceError::NotPermitted { .. }) => return,
            bed => bed.unwrap(),
        };
        // Nobody routes them: addressed to a host that is not there.
        let began = Instant::now();
        let links = forward(&bed).unwrap();
        while run(&bed, Duration::from_millis(50)).unwrap() < 1.0 {
            assert!(began.elapsed() < Duration::from_secs(20), "nothing arrives");
        }
        drop(links);
    }
}
