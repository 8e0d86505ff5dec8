//! Ring of records, from a worker to the thread that drains it: private memory, bounded, of words.
//!
//! Where a record finds no room it is lost, and counted; nobody waits.

use std::sync::Arc;

use super::record::{HEAD_WORDS, Record};
use crate::sync::{AtomicU64, Ordering};

const WORD: usize = size_of::<u64>();

/// Memory that both ends share.
struct Shared {
    words: Box<[AtomicU64]>,
    written: AtomicU64,
    read: AtomicU64,
    lost: AtomicU64,
    unseen: AtomicU64,
}

impl Shared {
    #[inline]
    fn word(&self, number: u64) -> &AtomicU64 {
        &self.words[number as usize & (self.words.len() - 1)]
    }
}

/// End that a worker puts records into.
pub struct RecordWriter {
    shared: Arc<Shared>,
    written: u64,
    lost: u64,
    unseen: u64,
}

/// End that records are taken out of.
pub struct RecordReader {
    shared: Arc<Shared>,
    read: u64,
}

/// Returns both ends of a ring with room for so many words, rounded up to a power of two.
#[must_use]
pub fn ring(words: usize) -> (RecordWriter, RecordReader) {
    let shared = Arc::new(Shared {
        words: (0..words.next_power_of_two()).map(|_| AtomicU64::new(0)).collect(),
        written: AtomicU64::new(0),
        read: AtomicU64::new(0),
        lost: AtomicU64::new(0),
        unseen: AtomicU64::new(0),
    });
    (
        RecordWriter { shared: shared.clone(), written: 0, lost: 0, unseen: 0 },
        RecordReader { shared, read: 0 },
    )
}

impl RecordWriter {
    /// Puts a record in, with its bytes.
    pub(super) fn put(&mut self, record: Record, bytes: &[u8]) {
        let (chunks, rest) = bytes.as_chunks::<WORD>();
        let words = HEAD_WORDS + chunks.len() + usize::from(!rest.is_empty());
        let read = self.shared.read.load(Ordering::Acquire); // R-acquire, with R-release: the words were read
        if self.written - read + words as u64 > self.shared.words.len() as u64 {
            self.lost += 1;
            return self.shared.lost.store(self.lost, Ordering::Relaxed);
        }
        let mut last = [0; WORD];
        last[..rest.len()].copy_from_slice(rest);
        let head = Record { kept: bytes.len() as u32, ..record }.pack().into_iter();
        let body = chunks.iter().chain((!rest.is_empty()).then_some(&last));
        for (number, value) in (self.written..).zip(head.chain(body.map(|word| u64::from_le_bytes(*word)))) {
            self.shared.word(number).store(value, Ordering::Relaxed);
        }
        self.written += words as u64;
        self.shared.written.store(self.written, Ordering::Release); // T-release, with T-acquire
    }

    /// Counts packets that passed while there was no time to look.
    pub(super) fn count_unseen(&mut self, packets: u64) {
        self.unseen += packets;
        self.shared.unseen.store(self.unseen, Ordering::Relaxed);
    }
}

impl RecordReader {
    /// Takes the oldest record out, and appends its bytes to `bytes`.
    pub fn take(&mut self, bytes: &mut Vec<u8>) -> Option<Record> {
        let written = self.shared.written.load(Ordering::Acquire); // T-acquire, with T-release
        if written == self.read {
            return None;
        }
        let word = |number| self.shared.word(number).load(Ordering::Relaxed);
        let record = Record::unpack(std::array::from_fn(|at| word(self.read + at as u64)));
        let first = self.read + HEAD_WORDS as u64;
        let words = (record.kept as usize).div_ceil(WORD) as u64;
        let end = bytes.len() + record.kept as usize;
        (first..first + words).for_each(|number| bytes.extend_from_slice(&word(number).to_le_bytes()));
        bytes.truncate(end);
        self.read = first + words;
        self.shared.read.store(self.read, Ordering::Release); // R-release, with R-acquire
        Some(record)
    }

    /// Returns how many records found no room, ever.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.shared.lost.load(Ordering::Relaxed)
    }

    /// Returns how many packets passed stations while there was no time to look at them, ever.
    #[must_use]
    pub fn unseen(&self) -> u64 {
        self.shared.unseen.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::super::record::{At, Step};
    use super::*;
    use crate::board::Station;
    use crate::drop::DropReason;
    use crate::holders::Place;
    use headgate_shm::Descriptor;
    use headgate_units::{InstanceId, PortId, RegionId, Ticks};
    use proptest::prelude::*;

    pub(super) fn record(number: u64) -> Record {
        Record {
            step: Step::Passed(Station::Hop),
            at: At::Instance(InstanceId(number as u16)),
            region: RegionId(1),
            packet: Descriptor(number),
            place: Place::from_bits(number * 3),
            time: Ticks(number * 5),
            kept: 0,
        }
    }

    #[test]
    fn a_full_ring_loses_and_counts() {
        let (mut writer, mut reader) = ring(4 * (HEAD_WORDS + 1));
        let words = writer.shared.words.len() / (HEAD_WORDS + 1);
        let all = words as u64 + 2;
        (0..all).for_each(|number| writer.put(record(number), &[number as u8; 3]));
        assert_eq!(reader.lost(), 2);
        let mut bytes = Vec::new();
        let taken: Vec<u64> =
            std::iter::from_fn(|| reader.take(&mut bytes)).map(|record| record.packet.0).collect();
        assert_eq!(taken, (0..words as u64).collect::<Vec<_>>());
        assert_eq!(bytes.len(), 3 * words);
        writer.put(record(9), &[7; 9]);
        bytes.clear();
        let kept = Record { kept: 9, ..record(9) };
        assert_eq!((reader.take(&mut bytes), reader.lost()), (Some(kept), 2));
        assert_eq!((bytes, reader.take(&mut Vec::new())), (vec![7; 9], None));
        writer.put(record(9), &[0; 1 << 10]);
        assert_eq!(reader.lost(), 3, "one that is longer than the ring");
    }

    proptest! {
        #[test]
        fn records_come_out_as_they_went_in(
            all in prop::collection::vec(
                (any::<u64>(), any::<u64>(), any::<u64>(), any::<u8>(), 0usize..100, 0usize..5, 0usize..300),
                1..40,
            ),
        ) {
            let (mut writer, mut reader) = ring(256);
            for (packet, place, time, region, kind, step, kept) in all {
                let step = match step {
                    0 => Step::Passed(Station::ALL[kind % Station::ALL.len()]),
                    1 => Step::Ended(DropReason::ALL[kind % DropReason::ALL.len()]),
                    2 => Step::Copied,
                    3 => Step::Gone,
                    _ => Step::Other,
                };
                let at = match kind % 3 {
                    0 => At::Nowhere,
                    1 => At::Instance(InstanceId(place as u16)),
                    _ => At::Port(PortId(place as u16)),
                };
                let record = Record {
                    step,
                    at,
                    region: RegionId(region),
                    packet: Descriptor(packet),
                    place: Place::from_bits(place),
                    time: Ticks(time),
                    kept: kept as u32,
                };
                let bytes: Vec<u8> = (0..kept).map(|byte| byte as u8 ^ region).collect();
                writer.put(record, &bytes);
                let mut taken = Vec::new();
                prop_assert_eq!(reader.take(&mut taken), Some(record));
                prop_assert_eq!(taken, bytes);
            }
        }
    }
}

/// Checks every order in which a worker and the thread that drains its records can meet.
#[cfg(all(test, feature = "loom"))]
mod orderings {
    use super::tests::record;
    use super::*;
    use loom::thread;

    /// No record is torn, given twice or given out of order, and those that found no room are counted.
    #[test]
    fn orderings_of_the_record_ring_tear_nothing() {
        loom::model(|| {
            // Without bytes: a word is a word, and each more is many more orders.
            let (mut writer, mut reader) = ring(HEAD_WORDS);
            let worker = thread::spawn(move || {
                [1, 2].into_iter().for_each(|number| writer.put(record(number), &[]));
            });
            let mut bytes = Vec::new();
            let mut taken: Vec<Record> =
                [reader.take(&mut bytes), reader.take(&mut bytes)].into_iter().flatten().collect();
            worker.join().unwrap();
            taken.extend(std::iter::from_fn(|| reader.take(&mut bytes)));
            assert_eq!(taken, [1, 2].map(record)[..2 - reader.lost() as usize]);
        });
    }
}
