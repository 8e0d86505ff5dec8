//! Recording and tracing, and all of it together.

use std::sync::{Arc, Mutex};

use super::traced::START_BYTES;
use super::{Direction, FaultSpec, Faulty, Recorded, Sink, traced};
use crate::Queue;
use crate::testing::conformance::run;
use crate::testing::link::{TestLink, Wrapped};
use crate::testing::{numbered, packets, receive, stack};

type Record = (u64, Direction, Vec<u8>);

/// Keeps all it is given.
#[derive(Clone, Default)]
struct Kept(Arc<Mutex<Vec<Record>>>);

impl Sink for Kept {
    fn record(&mut self, now: u64, direction: Direction, frame: &[u8]) {
        self.0.lock().unwrap().push((now, direction, frame.to_vec()));
    }
}

impl Kept {
    fn take(&self) -> Vec<Record> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

#[test]
fn wrapped_queues_do_what_every_queue_does() {
    for keeps in [false, true] {
        run(&mut Wrapped { keeps, ends: false, wrap: |queue| Recorded::new(queue, Kept::default()) });
        run(&mut Wrapped { keeps, ends: false, wrap: |queue| traced(queue, 8).0 });
        let on = |queue| {
            let (queue, trace) = traced(queue, 8);
            trace.set_on(true);
            queue
        };
        run(&mut Wrapped { keeps, ends: true, wrap: on });
        let all = |queue| {
            let faulty = Faulty::new(traced(queue, 8).0, &FaultSpec::default());
            Box::new(Recorded::new(faulty, Kept::default())) as Box<dyn Queue>
        };
        run(&mut Wrapped { keeps, ends: false, wrap: all });
    }
}

fn frames(count: usize) -> Vec<Vec<u8>> {
    (0..count).map(|number| numbered(number, 60 + number)).collect()
}

#[test]
fn what_passes_is_recorded_and_what_is_refused_is_not() {
    let (link, kept) = (TestLink::default(), Kept::default());
    let (mut queue, mut stack) = (Recorded::new(link.queue(), kept.clone()), stack(512));
    let all = frames(100);
    link.offer(&all);
    assert_eq!(receive(&mut queue, 5, &mut stack, 128), all);
    let recorded = |now, direction, frames: &[Vec<u8>]| {
        frames.iter().map(|frame| (now, direction, frame.clone())).collect::<Vec<_>>()
    };
    assert_eq!(kept.take(), recorded(5, Direction::Received, &all));
    let mut sent = Vec::new();
    for now in 6..10 {
        let burst = packets(&mut stack, &all);
        let taken = queue.transmit(now, &mut stack, &burst);
        stack.give_many(burst[taken..].iter().map(|packet| packet.index()));
        sent.extend(recorded(now, Direction::Sent, &all[..taken]));
    }
    assert_eq!(sent.len(), TestLink::ROOM, "the link is full");
    assert_eq!(kept.take(), sent);
}

#[test]
fn a_trace_is_off_until_it_is_switched_on_and_counts_what_it_misses() {
    let link = TestLink::default();
    let ((mut queue, trace), mut stack) = (traced(link.queue(), 70), stack(512));
    let all = frames(50);
    let pass = |queue: &mut dyn Queue, now: u64, stack: &mut _| {
        link.offer(&all);
        assert_eq!(receive(queue, now, stack, 128), all);
        let sent = packets(stack, &all);
        assert_eq!(queue.transmit(now + 1, stack, &sent), 50);
        link.take_left();
    };
    pass(&mut queue, 1, &mut stack);
    assert_eq!(trace.take(), None);
    trace.set_on(true);
    pass(&mut queue, 10, &mut stack);
    trace.set_on(false);
    pass(&mut queue, 20, &mut stack);
    let entries: Vec<_> = std::iter::from_fn(|| trace.take()).collect();
    assert_eq!((entries.len(), trace.missed()), (70, 30));
    for (number, entry) in entries.iter().enumerate() {
        let frame = &all[number % 50];
        let wanted = if number < 50 { (10, Direction::Received) } else { (11, Direction::Sent) };
        assert_eq!((entry.ticks, entry.direction), wanted);
        assert_eq!((entry.length as usize, &entry.start[..]), (frame.len(), &frame[..START_BYTES]));
    }
    // Room again.
    trace.set_on(true);
    pass(&mut queue, 30, &mut stack);
    assert_eq!(trace.take().map(|entry| entry.ticks), Some(30));
}

#[test]
fn a_short_packet_is_traced_as_far_as_it_goes() {
    let link = TestLink::default();
    let ((mut queue, trace), mut stack) = (traced(link.queue(), 1), stack(8));
    trace.set_on(true);
    let short = numbered(7, 20);
    link.offer(std::slice::from_ref(&short));
    receive(&mut queue, 0, &mut stack, 1);
    let entry = trace.take().unwrap();
    assert_eq!(
        (entry.length, &entry.start[..20], &entry.start[20..]),
        (20, &short[..], &[0; START_BYTES - 20][..])
    );
}
