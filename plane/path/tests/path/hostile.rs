//! An NF that lies. Whatever it writes into what it can reach, the manager goes on, every buffer and
//! packet stays accounted for, neighbours lose nothing, and the NF is stopped with the name of what it
//! did.

mod lend;
pub mod liar;
mod offences;
mod storms;

use std::sync::LazyLock;

use headgate_path::plan::Exit;
use headgate_units::PortId;

use crate::harness::World;
use crate::harness::frames::udp4;
use crate::harness::layout::{At, HERE, Layout, from_port};
use liar::Liar;

/// The liar's instance number.
pub const LIAR: u16 = 0;
/// The instance that shares the liar's domain.
pub const NEIGHBOUR: u16 = 2;
/// Empty buffers that every NF is lent where any are.
pub const LEND: u32 = 8;
/// Descriptors in every ring: few, so that all of them are soon used.
pub const RING: u32 = 64;

/// The liar with everything around it.
pub struct Scene {
    pub world: World,
    pub liar: Liar,
    neighbours: [Neighbour; 2],
}

/// An honest NF with a chain of its own: what goes into one port must come out of the other.
struct Neighbour {
    from: usize,
    to: usize,
    offered: Vec<Vec<u8>>,
    sent: Vec<Vec<u8>>,
}

impl Neighbour {
    fn new(from: usize, to: usize) -> Self {
        Self { from, to, offered: Vec::new(), sent: Vec::new() }
    }

    /// Asserts that all packets came through. The liar may send what it likes out of any port, so frames of
    /// its own may stand between.
    fn assert_all_came_through(&self) {
        let mut sent = self.sent.iter();
        for (number, frame) in self.offered.iter().enumerate() {
            assert!(sent.any(|other| other == frame), "port {}: packet {number} is missing", self.to);
        }
    }
}

impl Scene {
    pub fn new() -> Self {
        Self::lending(0)
    }

    /// Lends every NF so many empty buffers.
    pub fn lending(buffers: u32) -> Self {
        static LAYOUT: LazyLock<Layout> = LazyLock::new(layout);
        let mut world = World::new(LAYOUT.clone().lend(buffers));
        let liar = Liar::new(world.nfs.remove(&LIAR).unwrap());
        Self { world, liar, neighbours: [Neighbour::new(2, 3), Neighbour::new(4, 5)] }
    }

    /// Packets for the liar, and for each neighbour.
    pub fn offer(&mut self, to_liar: u32, to_neighbours: u32) {
        self.world.offer(0, &vec![udp4(0xbad, 0); to_liar as usize]);
        for neighbour in &mut self.neighbours {
            let from = neighbour.offered.len() as u32;
            let frames: Vec<_> =
                (from..from + to_neighbours).map(|sequence| udp4(neighbour.from as u32, sequence)).collect();
            self.world.offer(neighbour.from, &frames);
            neighbour.offered.extend(frames);
        }
    }

    /// Makes one pass of everyone, and compares the accounts.
    #[track_caller]
    pub fn pass(&mut self) {
        self.world.pass();
        self.world.check();
        for neighbour in &mut self.neighbours {
            neighbour.sent.extend(self.world.sent(neighbour.to));
        }
    }

    /// Ends the liar's process; another takes its place.
    pub fn replace_liar(&mut self) {
        self.world.reclaim(LIAR);
        self.world.start(LIAR);
        self.liar = Liar::new(self.world.nfs.remove(&LIAR).unwrap());
    }

    /// Ends the liar, and asserts that neighbours had all their packets and nothing is missing.
    #[track_caller]
    pub fn finish(mut self) {
        self.world.reclaim(LIAR);
        self.world.settle();
        for neighbour in &mut self.neighbours {
            neighbour.sent.extend(self.world.sent(neighbour.to));
            neighbour.assert_all_came_through();
        }
        for chain in [2, 3] {
            assert_eq!(self.world.drops(chain), [].into());
        }
        self.world.finish();
    }
}

/// Returns chain 1 through the liar in domain 0 and on to domain 1, and a neighbour in each domain.
fn layout() -> Layout {
    let there = At { worker: 0, region: 1 };
    let layout = Layout::new().ring(RING).region(192, 192).region(192, 128);
    let layout = layout.port(HERE).port(HERE).port(there).port(there).port(HERE).port(HERE);
    layout
        .nf("liar", &[HERE])
        .nf("neighbour in the other domain", &[there])
        .nf("neighbour in the same domain", &[HERE])
        .nf("behind the liar", &[there])
        .chain(&[0, 3], Exit::Port(PortId(1)))
        .chain(&[1], Exit::Port(PortId(3)))
        .chain(&[2], Exit::Port(PortId(5)))
        .rule(from_port(0, 1))
        .rule(from_port(2, 2))
        .rule(from_port(4, 3))
}
