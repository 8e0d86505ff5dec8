//! A network function that knows too much: its rings by the library, and the same memory as bare files.

use std::error::Error;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;

use headgate_session::message::{self, FromNf, ToNf, Welcome};
use headgate_session::version::Versions;
use headgate_shm::memory::PAGE_BYTES;
use headgate_shm::ring::{Consumer, Producer};
use headgate_shm::{ControlLayout, Descriptor, Geometry, Memory, NfSide, Region};
use headgate_tests::random::Random;

/// Offsets in the control region of what this program forges (plane/shm/src/control.rs).
pub mod offset {
    /// Index up to which packets were taken from the receive ring.
    pub const RECEIVE_CONSUMED: u64 = 256;
    /// Index up to which packets were put into the transmit ring.
    pub const TRANSMIT_PRODUCED: u64 = 384;
    /// Index up to which empty buffers were taken from the lend ring.
    pub const LEND_CONSUMED: u64 = 1024;
}

/// Packets it passes on before it shows what it is: the chain was in service.
const HONEST_PACKETS: u64 = 200;
const BURST: usize = 64;
/// Empty buffers that it asks for.
const LEND: u32 = 8;

/// An attached network function and everything it can reach.
pub struct Foe {
    pub socket: OwnedFd,
    pub geometry: Geometry,
    /// The packet region as a file.
    pub packets: File,
    /// The control region as a file.
    pub control: File,
    pub region: Region,
    pub side: NfSide,
    pub receive: Consumer,
    pub transmit: Producer,
    pub lent: Consumer,
    pub random: Random,
}

impl Foe {
    /// Says hello, maps its memory, says it is ready.
    pub fn attach() -> Result<Self, Box<dyn Error>> {
        let socket = rustix::io::dup(rustix::stdio::stdin())?;
        message::send(&socket, &FromNf::Hello { versions: Versions::OURS, name: String::new() }, &[])?;
        let (answer, files) = message::receive::<ToNf>(&socket)?.ok_or("no answer")?;
        let ToNf::Welcome(Welcome { buffers, stride, ring, .. }) = answer else {
            return Err(format!("not welcome: {answer:?}").into());
        };
        let [packets, control, directives]: [OwnedFd; 3] =
            files.try_into().map_err(|files| format!("strange files: {files:?}"))?;
        let geometry = Geometry::announced(buffers, stride).ok_or("a strange shape")?;
        let layout = ControlLayout::new(ring)?;
        let bare = |file: &OwnedFd| file.try_clone().map(File::from);
        let files = (bare(&packets)?, bare(&control)?);
        let region = Region::attach(Memory::attach("packets", packets, geometry.bytes(), true)?, geometry)?;
        let control = Memory::attach("control", control, layout.bytes(), true)?;
        let directives = Memory::attach("directives", directives, PAGE_BYTES, false)?;
        let side = NfSide::attach(control, directives, layout)?;
        message::send(&socket, &FromNf::Ready { lend: LEND }, &[])?;
        Ok(Self {
            socket,
            geometry,
            packets: files.0,
            control: files.1,
            receive: side.receive_consumer(),
            transmit: side.transmit_producer(),
            lent: side.lend_consumer(),
            region,
            side,
            random: Random::new(u64::from(std::process::id())),
        })
    }

    /// Returns whether the manager wants it to go on. Even a foe may be told to stop.
    pub fn goes_on(&self) -> bool {
        self.side.orders().stop.load(Ordering::Relaxed) == 0
    }

    /// Up to a burst of packets. Impossible indices, which its own punching leaves, are no packets.
    pub fn take(&mut self) -> Vec<Descriptor> {
        let mut burst = [Descriptor::default(); BURST];
        let count = self.receive.pop(&mut burst).unwrap_or(0);
        if count == 0 {
            std::thread::yield_now();
        }
        burst[..count].to_vec()
    }

    /// An empty buffer with a packet in it, if one is lent.
    pub fn make(&mut self) -> Option<Descriptor> {
        let mut empty = [Descriptor::default()];
        (self.lent.pop(&mut empty) == Ok(1)).then(|| empty[0].with_extent(empty[0].offset(), 64))
    }

    /// Puts anything into the transmit ring.
    pub fn give(&mut self, packets: &[Descriptor]) {
        // A full ring loses the rest, as a foe's packets may be.
        let _ = self.transmit.push(packets);
    }

    /// Passes a burst on as it should. Returns how many packets.
    pub fn behave(&mut self) -> u64 {
        let burst = self.take();
        self.give(&burst);
        burst.len() as u64
    }

    /// Passes packets on until the manager has come to trust it.
    pub fn behave_at_first(&mut self) {
        let mut passed = 0;
        while passed < HONEST_PACKETS && self.goes_on() {
            passed += self.behave();
        }
    }

    /// Takes at least one packet of its own.
    pub fn some(&mut self) -> Vec<Descriptor> {
        loop {
            let burst = self.take();
            if !burst.is_empty() || !self.goes_on() {
                return burst;
            }
        }
    }

    /// Overwrites an index of a ring.
    pub fn forge(&self, offset: u64, index: u32) {
        // The file is memory: writing cannot fail short of a bug here.
        let _ = rustix::io::pwrite(&self.control, &index.to_ne_bytes(), offset);
    }

    /// Says something to the manager.
    pub fn say(&self, word: &FromNf) -> bool {
        message::send(&self.socket, word, &[]).is_ok()
    }
}
