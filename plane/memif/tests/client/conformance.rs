//! A connection does what every queue does.

use headgate_memif::{Meeting, port};
use headgate_port::Queue;
use headgate_port::testing::conformance::{
    Abilities, Backend, Device, FRAME_BYTES_MAX, Gives, LONG_BYTES, run,
};
use headgate_shm::Stack;

use crate::peer::{Client, SMALL, Shape, USUAL, Which, connected};

struct Memif {
    shape: Shape,
    opened: u32,
}

impl Memif {
    const fn frame_bytes_max(&self) -> usize {
        self.shape.ring() * self.shape.buffer_bytes
    }
}

impl Backend for Memif {
    fn abilities(&self) -> Abilities {
        let whole = self.frame_bytes_max();
        Abilities {
            gives: Gives::Offered,
            shows_what_left: true,
            fills: true,
            brings_long_frames: whole > LONG_BYTES,
            sent_bytes_max: Some(whole as u32).filter(|&most| most < FRAME_BYTES_MAX),
            ..Abilities::default()
        }
    }

    /// A client has no room for longer frames than its ring takes.
    fn incoming(&mut self, wanted: &[Vec<u8>]) -> Vec<Vec<u8>> {
        let cut = |frame: &Vec<u8>| frame[..frame.len().min(self.frame_bytes_max())].to_vec();
        wanted.iter().map(cut).collect()
    }

    fn open(&mut self, _stack: &mut Stack, _incoming: &[Vec<u8>]) -> Box<dyn Device> {
        self.opened += 1;
        let name = format!("queue-{}-{}", self.shape.log2_ring, self.opened);
        let (meeting, client, cable) = connected(&name, self.shape);
        client.set_head(Which::ToClient, self.shape.ring() as u16);
        Box::new(Ends { queue: port::queue(cable), client, taken: 0, offered: 0, _meeting: meeting })
    }
}

/// A connection, and an honest client at its other end.
struct Ends {
    queue: Box<dyn Queue>,
    client: Client,
    /// The client's indices in the ring to it and in that from it.
    taken: u16,
    offered: u16,
    _meeting: Meeting,
}

impl Ends {
    fn tail(&self, ring: Which) -> u16 {
        let at = ring as usize * self.client.shape.ring_bytes() + 64;
        u16::from_ne_bytes(self.client.read(at, 2).try_into().unwrap())
    }

    /// Takes one frame of some pieces out of the ring to the client.
    fn take(&mut self) -> Vec<u8> {
        let shape = self.client.shape;
        let mut frame = Vec::new();
        loop {
            let slot = usize::from(self.taken) % shape.ring();
            let descriptor = self.client.read(128 + 16 * slot, 8);
            let length = u32::from_ne_bytes(descriptor[4..8].try_into().unwrap()) as usize;
            let buffer = shape.buffer_at(Which::ToClient, slot);
            frame.extend(self.client.read(buffer, length));
            let whole = shape.buffer_bytes as u32;
            self.client.descriptor(Which::ToClient, slot, 0, 0, whole, buffer as u32);
            self.taken = self.taken.wrapping_add(1);
            if descriptor[0] & 1 == 0 {
                return frame;
            }
        }
    }
}

impl Device for Ends {
    fn queue(&mut self) -> &mut dyn Queue {
        &mut *self.queue
    }

    fn offer(&mut self, frames: &[Vec<u8>]) -> usize {
        let shape = self.client.shape;
        let mut room = shape.ring() - usize::from(self.offered.wrapping_sub(self.tail(Which::FromClient)));
        let mut count = 0;
        for frame in frames {
            let pieces: Vec<&[u8]> = frame.chunks(shape.buffer_bytes).collect();
            if pieces.len() > room {
                break;
            }
            for (number, piece) in pieces.iter().enumerate() {
                let slot = usize::from(self.offered) % shape.ring();
                let at = shape.buffer_at(Which::FromClient, slot);
                self.client.write(at, piece);
                let goes_on = u16::from(number + 1 < pieces.len());
                let length = piece.len() as u32;
                self.client.descriptor(Which::FromClient, slot, goes_on, 0, length, at as u32);
                self.offered = self.offered.wrapping_add(1);
            }
            room -= pieces.len();
            count += 1;
        }
        self.client.set_head(Which::FromClient, self.offered);
        count
    }

    fn take_left(&mut self) -> Vec<Vec<u8>> {
        let tail = self.tail(Which::ToClient);
        let mut frames = Vec::new();
        while self.taken != tail {
            frames.push(self.take());
        }
        self.client.set_head(Which::ToClient, self.taken.wrapping_add(self.client.shape.ring() as u16));
        frames
    }

    fn close(mut self: Box<Self>, _stack: &mut Stack) -> Vec<Vec<u8>> {
        self.take_left()
    }
}

#[test]
fn a_connection_is_a_queue() {
    let pieces = Shape { log2_ring: 6, buffer_bytes: 64 };
    for shape in [USUAL, pieces, SMALL] {
        run(&mut Memif { shape, opened: 0 });
    }
}
