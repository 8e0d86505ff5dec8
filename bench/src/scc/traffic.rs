//! Packets with the time in them, out of one interface and in by the other, from one thread.
//!
//! What is timed is the way from the call that sends a packet to the moment this thread receives it; it polls
//! after every few packets it sent. The receiving side is a mapped ring, so polling costs no system call
//! and finds packets whatever the sender is busy with.

use std::time::{Duration, Instant};

use anyhow::Context as _;
use headgate_host::cores;
use headgate_kernel::{InterfaceIo, Pool, attach, open};
use headgate_session::kernel_io::{Driver, KernelIo};
use headgate_shm::descriptor::Descriptor;
use headgate_shm::geometry::HEADROOM_BYTES;
use headgate_wire::checksum::Sum;

use super::hosts::{ADDRESSES, Hosts, MACS, SINK, SOURCE};

/// Packets sent with one call. Our choice: few, because the last waits for the first.
const BURST: u32 = 4;
/// Bytes of Ethernet, IPv4 and UDP headers.
const HEADERS_BYTES: usize = 14 + 20 + 8;
/// First bytes of a stamp; our choice, unlikely to begin any payload.
const MAGIC: u64 = 0x9d53_4343_6867_5343;
/// Bytes of a frame that the rings hold.
const FRAME_BYTES: u32 = 2048;
/// Size of a frame's check sequence, which frame sizes count and no buffer holds.
const CHECK_BYTES: usize = 4;
/// Longest time for packets on their way after the last was sent.
const DRAIN: Duration = Duration::from_millis(60);

/// Load to send.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Bytes of a frame, check sequence included.
    pub frame_bytes: usize,
    /// Packets per second; `None`: as many as can be.
    pub rate: Option<f64>,
    /// Time before the window; not measured.
    pub warm_up: Duration,
    /// Measured time.
    pub window: Duration,
}

/// Counts of packets sent and received.
#[derive(Clone, Debug, Default)]
pub struct TrafficResult {
    /// Packets sent in the window, a second.
    pub offered: f64,
    /// Packets that came back in the window, a second.
    pub came: f64,
    /// Delays of those sent in the window, in nanoseconds, in rising order.
    pub took_ns: Vec<u64>,
}

impl TrafficResult {
    /// The time that so many parts of the packets did not exceed, in nanoseconds.
    #[must_use]
    pub fn quantile(&self, part: f64) -> Option<f64> {
        let last = self.took_ns.len().checked_sub(1)?;
        Some(self.took_ns[(last as f64 * part).round() as usize] as f64)
    }
}

/// Sends and receives, on a thread of its own on this core.
///
/// # Errors
/// Whatever kept it from doing so.
pub fn run(hosts: &Hosts, core: u32, load: Load) -> anyhow::Result<TrafficResult> {
    let work = || {
        cores::pin_current_thread(core)?;
        Traffic::new(load)?.run()
    };
    hosts.host.run(work).context("the host of the experiment")?
}

struct Traffic {
    load: Load,
    source: Box<dyn InterfaceIo>,
    sink: Box<dyn InterfaceIo>,
    pool: Pool,
    frame: Vec<u8>,
    began: Instant,
    came: Vec<Descriptor>,
}

impl Traffic {
    fn new(load: Load) -> anyhow::Result<Self> {
        let io = |driver, batch, queue| KernelIo {
            driver,
            batch,
            queue,
            frame_bytes: FRAME_BYTES,
            interfaces: [SOURCE.to_owned(), SINK.to_owned()],
        };
        let (send, receive) = (io(Driver::Packet, BURST, 64), io(Driver::Mapped, 256, 8192));
        let mut pool = Pool::over(Pool::memory(&receive, 0)?);
        let source = attach(open::open(SOURCE, &send, pool.region())?.socket, &send, &mut pool)?;
        let sink = attach(open::open(SINK, &receive, pool.region())?.socket, &receive, &mut pool)?;
        let frame = frame(load.frame_bytes);
        let came = Vec::with_capacity(256);
        Ok(Self { load, source, sink, pool, frame, began: Instant::now(), came })
    }

    fn run(mut self) -> anyhow::Result<TrafficResult> {
        let Load { rate, warm_up, window, .. } = self.load;
        let (first, last) = (warm_up.as_nanos() as u64, (warm_up + window).as_nanos() as u64);
        let (mut sent, mut sent_seen, mut came) = (0u64, 0u64, 0u64);
        let mut took_ns = Vec::with_capacity(1 << 20);
        self.began = Instant::now();
        loop {
            let now = self.now_ns();
            if now >= last + DRAIN.as_nanos() as u64 {
                break;
            }
            let due = rate.map_or(u64::MAX, |rate| (now as f64 * rate / 1e9) as u64);
            if now < last && sent < due {
                let count = (due - sent).min(u64::from(BURST));
                self.send(count)?;
                sent += count;
                sent_seen += if now >= first { count } else { 0 };
            }
            let now = self.now_ns();
            for stamp in self.receive()? {
                came += u64::from((first..last).contains(&now));
                if (first..last).contains(&stamp) {
                    took_ns.push(now.saturating_sub(stamp));
                }
            }
        }
        took_ns.sort_unstable();
        let seconds = window.as_secs_f64();
        Ok(TrafficResult { offered: sent_seen as f64 / seconds, came: came as f64 / seconds, took_ns })
    }

    fn now_ns(&self) -> u64 {
        self.began.elapsed().as_nanos() as u64
    }

    fn send(&mut self, count: u64) -> anyhow::Result<()> {
        let now = self.now_ns();
        self.frame[HEADERS_BYTES + 8..][..8].copy_from_slice(&now.to_le_bytes());
        let lay = |_| {
            let packet = self.pool.lend().context("the pool is larger than what is in hand")?;
            self.pool.region().write(packet.index(), HEADROOM_BYTES, &self.frame);
            Ok(packet.with_extent(HEADROOM_BYTES, self.frame.len() as u32))
        };
        let packets: Vec<Descriptor> = (0..count).map(lay).collect::<anyhow::Result<_>>()?;
        Ok(self.source.send(&mut self.pool, &packets)?)
    }

    /// The stamps of packets that came.
    fn receive(&mut self) -> anyhow::Result<Vec<u64>> {
        self.sink.receive(&mut self.pool, &mut self.came)?;
        let mut stamps = Vec::with_capacity(self.came.len());
        for packet in self.came.drain(..) {
            let mut bytes = [0; HEADERS_BYTES + 16];
            self.pool.region().read(packet, &mut bytes);
            self.pool.put(packet);
            let word = |at: usize| bytes[at..].first_chunk().map_or(0, |word| u64::from_le_bytes(*word));
            if word(HEADERS_BYTES) == MAGIC {
                stamps.push(word(HEADERS_BYTES + 8));
            }
        }
        Ok(stamps)
    }
}

/// Returns a UDP datagram without a checksum, which IPv4 allows: the time in it changes.
#[must_use]
pub fn frame(frame_bytes: usize) -> Vec<u8> {
    let bytes = frame_bytes.max(64) - CHECK_BYTES;
    let mut ip = vec![0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, 17, 0, 0];
    ip[2..4].copy_from_slice(&((bytes - 14) as u16).to_be_bytes());
    ip.extend(ADDRESSES[0].octets());
    ip.extend(ADDRESSES[1].octets());
    let checksum = Sum::new().bytes(&ip).finish();
    ip[10..12].copy_from_slice(&checksum.to_be_bytes());
    let udp_length = (bytes - 14 - 20) as u16;
    let mut frame = [&MACS[1][..], &MACS[0], &[8, 0], &ip].concat();
    for word in [1024, 9, udp_length, 0] {
        frame.extend(word.to_be_bytes());
    }
    frame.extend(MAGIC.to_le_bytes());
    frame.resize(bytes, 0);
    frame
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_as_long_as_asked_and_sum_up() {
        for bytes in [64, 128, 1500] {
            let frame = frame(bytes);
            assert_eq!(frame.len(), bytes - CHECK_BYTES);
            assert_eq!(Sum::new().bytes(&frame[14..34]).finish(), 0);
            assert!(frame.len() >= HEADERS_BYTES + 16);
        }
    }

    #[test]
    fn quantiles_are_of_what_was_seen() {
        let seen = TrafficResult { took_ns: (0..=100).collect(), ..TrafficResult::default() };
        assert_eq!([0.0, 0.25, 0.5, 1.0].map(|part| seen.quantile(part)), [0.0, 25.0, 50.0, 100.0].map(Some));
        assert_eq!(TrafficResult::default().quantile(0.5), None);
    }
}
