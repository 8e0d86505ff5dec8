//! Loom explores the orderings; property tests and hostile peers check the arithmetic.

use super::*;

fn descriptors(from: u64, count: u64) -> Vec<Descriptor> {
    (from..from + count).map(Descriptor).collect()
}

#[cfg(loom)]
mod orderings {
    use super::*;
    use crate::doorbell;
    use loom::thread;

    #[test]
    fn what_is_seen_was_written_before() {
        loom::model(|| {
            let (mut producer, mut consumer) = private(2);
            let writer = thread::spawn(move || {
                let mut sent = 0;
                for _ in 0..3 {
                    sent += producer.push(&descriptors(10 + sent, 2)).unwrap() as u64;
                }
                sent
            });
            let mut got = Vec::new();
            let mut into = [Descriptor::default(); 2];
            for _ in 0..3 {
                let count = consumer.pop(&mut into).unwrap();
                got.extend_from_slice(&into[..count]);
            }
            let sent = writer.join().unwrap();
            loop {
                let count = consumer.pop(&mut into).unwrap();
                if count == 0 {
                    break;
                }
                got.extend_from_slice(&into[..count]);
            }
            assert_eq!(got, descriptors(10, sent));
        });
    }

    /// The sleeper ends asleep with work in its ring only if the ringer was told to wake it.
    #[test]
    fn no_wake_up_is_lost() {
        loom::model(|| {
            let (mut producer, mut consumer) = private(2);
            let word = loom::sync::Arc::new(AtomicU32::new(doorbell::AWAKE));
            let theirs = word.clone();
            let sleeper = thread::spawn(move || {
                doorbell::announce(&theirs);
                let empty = consumer.refresh().unwrap() == 0;
                if !empty {
                    doorbell::withdraw(&theirs);
                }
                empty
            });
            producer.push(&descriptors(1, 1)).unwrap();
            doorbell::published();
            let woken = doorbell::is_sleeping(&word) && doorbell::take(&word);
            let went_to_sleep = sleeper.join().unwrap();
            assert!(!went_to_sleep || woken, "asleep with work in the ring and nobody called");
        });
    }
}

#[cfg(not(loom))]
mod arithmetic {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    proptest! {
        /// Against a queue: same contents, same order, never more than fits.
        #[test]
        fn behaves_as_a_bounded_queue(steps in prop::collection::vec((any::<bool>(), 0usize..12), 1..200)) {
            let (mut producer, mut consumer) = private(8);
            let mut model = VecDeque::new();
            let mut next = 0;
            for (push, count) in steps {
                if push {
                    let pushed = producer.push(&descriptors(next, count as u64)).unwrap();
                    prop_assert_eq!(pushed, count.min(8 - model.len()));
                    model.extend(next..next + pushed as u64);
                    next += pushed as u64;
                } else {
                    let mut into = vec![Descriptor::default(); count];
                    let popped = consumer.pop(&mut into).unwrap();
                    prop_assert_eq!(popped, count.min(model.len()));
                    for descriptor in &into[..popped] {
                        prop_assert_eq!(Some(descriptor.0), model.pop_front());
                    }
                }
            }
        }

        /// Whatever a hostile consumer publishes, the producer refuses it or stays within the ring.
        #[test]
        fn producer_survives_any_index(published in prop::collection::vec(any::<u32>(), 1..50)) {
            let (parts, heap) = heap(8);
            let mut producer = Producer::new(parts);
            for index in published {
                heap.consumed.store(index, Ordering::Relaxed);
                match producer.push(&descriptors(0, 5)) {
                    Ok(count) => prop_assert!(count <= 5),
                    Err(RingIndexError) => return Ok(()),
                }
                prop_assert!(producer.produced().wrapping_sub(producer.consumed_seen()) <= 8);
            }
        }

        /// Whatever a hostile producer publishes, the consumer refuses it or takes at most a ring's worth.
        #[test]
        fn consumer_survives_any_index(published in prop::collection::vec(any::<u32>(), 1..50)) {
            let (parts, heap) = heap(8);
            let mut consumer = Consumer::new(parts);
            let mut into = [Descriptor::default(); 5];
            for index in published {
                heap.produced.store(index, Ordering::Relaxed);
                match consumer.pop(&mut into) {
                    Ok(count) => prop_assert!(count <= 5),
                    Err(RingIndexError) => return Ok(()),
                }
                prop_assert!(consumer.produced_seen.wrapping_sub(consumer.consumed) <= 8);
            }
        }
    }

    #[test]
    fn what_is_not_wanted_stays() {
        let (mut producer, mut consumer) = private(8);
        assert_eq!(consumer.peek(), Ok(None));
        // Over the end of the ring, too.
        for from in [0, 6, 12] {
            producer.push(&descriptors(from, 6)).unwrap();
            assert_eq!(consumer.peek(), Ok(Some(Descriptor(from))));
            assert_eq!(consumer.take_while(6, |descriptor| descriptor.0 < from + 4), Ok(4));
            assert!(!consumer.is_drained());
            assert_eq!(consumer.peek(), Ok(Some(Descriptor(from + 4))));
            let mut taken = Vec::new();
            assert_eq!(
                consumer.take_while(9, |descriptor| {
                    taken.push(descriptor);
                    true
                }),
                Ok(2)
            );
            assert_eq!(taken, descriptors(from + 4, 2));
            assert!(consumer.is_drained());
        }
    }

    #[test]
    fn a_batch_shows_itself_as_a_whole_or_not_at_all() {
        let (mut producer, mut consumer) = private(4);
        assert!(producer.batch(5).is_err(), "no room");
        producer.batch(4).unwrap().put(Descriptor(1));
        assert_eq!(consumer.peek(), Ok(None));
        let mut batch = producer.batch(4).unwrap();
        descriptors(2, 3).into_iter().for_each(|descriptor| batch.put(descriptor));
        batch.publish();
        let mut into = [Descriptor::default(); 4];
        assert_eq!(consumer.pop(&mut into), Ok(3));
        assert_eq!(into[..3], descriptors(2, 3));
    }

    #[test]
    fn an_index_that_runs_backwards_is_refused() {
        let (parts, heap) = heap(8);
        let mut consumer = Consumer::new(parts.clone());
        let mut producer = Producer::new(parts);
        producer.push(&descriptors(0, 6)).unwrap();
        let mut into = [Descriptor::default(); 4];
        assert_eq!(consumer.pop(&mut into), Ok(4));
        assert_eq!(producer.refresh(), Ok(2));
        heap.produced.store(5, Ordering::Relaxed);
        assert_eq!(consumer.pop(&mut into), Err(RingIndexError));
        heap.consumed.store(3, Ordering::Relaxed);
        assert_eq!(producer.refresh(), Err(RingIndexError));
    }

    #[test]
    fn two_threads_pass_everything_in_order() {
        const COUNT: u64 = 200_000;
        let (mut producer, mut consumer) = private(64);
        let writer = std::thread::spawn(move || {
            let mut sent = 0;
            while sent < COUNT {
                let burst = descriptors(sent, (COUNT - sent).min(17));
                sent += producer.push(&burst).unwrap() as u64;
                std::thread::yield_now();
            }
        });
        let mut into = [Descriptor::default(); 13];
        let mut expected = 0;
        while expected < COUNT {
            let count = consumer.pop(&mut into).unwrap();
            for descriptor in &into[..count] {
                assert_eq!(descriptor.0, expected);
                expected += 1;
            }
            if count == 0 {
                std::thread::yield_now();
            }
        }
        writer.join().unwrap();
    }
}
