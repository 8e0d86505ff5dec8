//! Witness: an NF whose state is what it worked on, and which writes that into each packet.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use headgate_path::holders::Holders;
use headgate_shm::{Descriptor, Region};

use crate::harness::frames::label;
use crate::harness::nf::Handler;

/// Offset of its words in a frame: behind the headers of UDP over IPv4.
const AT: u32 = 42;

/// What it keeps: packets of all flows, and of each.
#[derive(Clone, Default)]
pub struct Kept {
    total: u32,
    flows: BTreeMap<u32, u32>,
}

impl Kept {
    pub fn bytes(&self) -> Vec<u8> {
        let flows = self.flows.iter().flat_map(|(flow, count)| [*flow, *count]);
        [self.total].into_iter().chain(flows).flat_map(u32::to_le_bytes).collect()
    }

    pub fn of(bytes: &[u8]) -> Self {
        let mut words = bytes.chunks_exact(4).map(|word| u32::from_le_bytes(word.try_into().unwrap()));
        let total = words.next().unwrap_or(0);
        let mut flows = BTreeMap::new();
        while let (Some(flow), Some(count)) = (words.next(), words.next()) {
            flows.insert(flow, count);
        }
        Self { total, flows }
    }

    /// Works on a packet of a flow. Returns what is written into it.
    pub fn see(&mut self, flow: u32) -> [u32; 2] {
        self.total += 1;
        let count = self.flows.entry(flow).or_default();
        *count += 1;
        [self.total, *count]
    }
}

/// State that outlives the handler.
pub type Shared = Arc<Mutex<Kept>>;

/// Returns a handler that works with this state. `drops`: every packet with a sequence number that this
/// divides ends here. `times`: the second word is the packet's time in milliseconds.
pub fn witness(state: Shared, drops: Option<u32>, times: Option<Arc<Holders>>) -> Handler {
    Box::new(move |region: &Region, packet: Descriptor| {
        let mut frame = vec![0; packet.length() as usize];
        region.read(packet, &mut frame);
        let label = label(&frame);
        let [total, count] = state.lock().unwrap().see(label.flow);
        let time = times.as_ref().and_then(|holders| holders.extras.times.as_ref());
        let count = time.map_or(count, |times| (times.of(packet.index()) / 1000) as u32);
        let words = [total.to_be_bytes(), count.to_be_bytes()].concat();
        region.write(packet.index(), packet.offset() + AT, &words);
        let ends = drops.is_some_and(|every| label.sequence.is_multiple_of(every));
        packet.with_verdict(if ends { headgate_shm::Verdict::Drop } else { headgate_shm::Verdict::Next })
    })
}

/// Returns what the last witness of the chain wrote into a frame: packets of all flows, and of its own.
pub fn written(frame: &[u8]) -> [u32; 2] {
    let word = |at: usize| u32::from_be_bytes(frame[at..at + 4].try_into().unwrap());
    [word(AT as usize), word(AT as usize + 4)]
}

/// Returns what makes one state of another: how much of it stays, and what follows.
pub fn difference(state: &[u8], base: &[u8]) -> Vec<u8> {
    let same = state.iter().zip(base).take_while(|(byte, other)| byte == other).count();
    [&(same as u32).to_le_bytes(), &state[same..]].concat()
}

/// Returns the state that such a difference makes of another.
pub fn with(base: &[u8], difference: &[u8]) -> Vec<u8> {
    let (same, rest) = difference.split_first_chunk().expect("it says how much stays");
    [&base[..u32::from_le_bytes(*same) as usize], rest].concat()
}
