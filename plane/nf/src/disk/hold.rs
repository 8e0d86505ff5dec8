//! Packets that wait for a read, by the word of their read.
//!
//! A packet held is one of those the manager lent: it counts against the NF's window
//! (`plane/path/src/link/rings.rs`), so an NF can hold no more than its ring is long, and the memory here is
//! made for so many at the start. The packets of one word leave in the order in which they came.

use std::collections::HashMap;

use headgate_shm::descriptor::Descriptor;

/// Whose word it is: NFs that share a process have words of their own.
pub type Key = (u32, u64);

/// A packet on hold: as it goes, and as it came.
#[derive(Clone, Copy)]
struct Held {
    packet: Descriptor,
    received: Descriptor,
    next: u32,
}

/// No further packet.
const NONE: u32 = u32::MAX;

/// The packets of a word, first to last.
#[derive(Clone, Copy)]
pub struct Line {
    first: u32,
    last: u32,
}

impl Line {
    const EMPTY: Self = Self { first: NONE, last: NONE };
}

struct Waiting {
    reads: u32,
    line: Line,
}

pub struct Hold {
    places: Vec<Held>,
    free: Vec<u32>,
    waiting: HashMap<Key, Waiting>,
}

impl Hold {
    pub fn new(capacity: usize) -> Self {
        let empty = Held { packet: Descriptor(0), received: Descriptor(0), next: NONE };
        Self {
            places: vec![empty; capacity],
            free: (0..capacity as u32).rev().collect(),
            waiting: HashMap::new(),
        }
    }

    /// Packets held.
    pub fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }

    /// Packets for which there is room.
    pub fn room(&self) -> usize {
        self.free.len()
    }

    /// Whether a read of this word is under way.
    pub fn is_waiting(&self, key: Key) -> bool {
        self.waiting.contains_key(&key)
    }

    /// A read of this word begins.
    pub fn begin(&mut self, key: Key) {
        self.waiting.entry(key).or_insert(Waiting { reads: 0, line: Line::EMPTY }).reads += 1;
    }

    /// A read of this word has ended. If it was the last one, its packets are to go.
    pub fn end(&mut self, key: Key) -> Option<Line> {
        let waiting = self.waiting.get_mut(&key)?;
        waiting.reads -= 1;
        if waiting.reads > 0 {
            return None;
        }
        self.waiting.remove(&key).map(|waiting| waiting.line)
    }

    /// Takes a packet in behind those of its word. False when the word waits for nothing, or there is no
    /// room.
    #[must_use]
    pub fn put(&mut self, key: Key, packet: Descriptor, received: Descriptor) -> bool {
        let Some(waiting) = self.waiting.get_mut(&key) else { return false };
        let Some(place) = self.free.pop() else { return false };
        self.places[place as usize] = Held { packet, received, next: NONE };
        match waiting.line.last {
            NONE => waiting.line.first = place,
            last => self.places[last as usize].next = place,
        }
        waiting.line.last = place;
        true
    }

    /// The next packet of a line that may go: as it goes, and as it came.
    pub fn take(&mut self, line: &mut Line) -> Option<(Descriptor, Descriptor)> {
        if line.first == NONE {
            return None;
        }
        let held = self.places[line.first as usize];
        self.free.push(line.first);
        line.first = held.next;
        Some((held.packet, held.received))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    #[test]
    fn packets_leave_with_the_last_read_of_their_word() {
        let mut hold = Hold::new(4);
        let key = (0, 7);
        assert!(!hold.put(key, Descriptor(1), Descriptor(1)));
        hold.begin(key);
        hold.begin(key);
        assert!(hold.put(key, Descriptor(1), Descriptor(1)));
        assert!(hold.end(key).is_none());
        assert!(hold.put(key, Descriptor(2), Descriptor(2)));
        let mut line = hold.end(key).unwrap();
        assert!(!hold.is_waiting(key));
        let left: Vec<_> = std::iter::from_fn(|| hold.take(&mut line)).map(|(packet, _)| packet.0).collect();
        assert_eq!((left, hold.len()), (vec![1, 2], 0));
    }

    proptest! {
        /// Against one queue for each word: nothing is lost, nothing overtakes, memory is bounded.
        #[test]
        fn no_packet_is_lost_or_overtakes(steps in prop::collection::vec((0u64..4, 0u8..4), 1..300)) {
            let mut hold = Hold::new(16);
            let mut model: HashMap<u64, (u32, VecDeque<u64>)> = HashMap::new();
            let mut number = 0;
            for (word, step) in steps {
                let key = (1, word);
                let held = model.values().map(|(_, queue)| queue.len()).sum::<usize>();
                prop_assert_eq!(hold.len(), held);
                match step {
                    0 => {
                        hold.begin(key);
                        model.entry(word).or_default().0 += 1;
                    }
                    1 => {
                        let ended = hold.end(key);
                        let Some((reads, _)) = model.get_mut(&word) else {
                            prop_assert!(ended.is_none());
                            continue;
                        };
                        *reads -= 1;
                        prop_assert_eq!(ended.is_some(), *reads == 0);
                        let Some(mut line) = ended else { continue };
                        let left: Vec<_> = std::iter::from_fn(|| hold.take(&mut line)).collect();
                        let (_, queue) = model.remove(&word).unwrap();
                        prop_assert_eq!(left.iter().map(|(packet, _)| packet.0).collect::<VecDeque<_>>(), queue);
                    }
                    _ => {
                        number += 1;
                        let taken = hold.put(key, Descriptor(number), Descriptor(0));
                        prop_assert_eq!(taken, model.contains_key(&word) && held < 16);
                        if taken {
                            model.get_mut(&word).unwrap().1.push_back(number);
                        }
                    }
                }
            }
        }
    }
}
