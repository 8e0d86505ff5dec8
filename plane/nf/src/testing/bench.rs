//! Buffers of the packets of a [`Harness`], and its wait for a disk.

use std::collections::HashMap;
use std::convert::Infallible;
use std::time::{Duration, Instant};

use headgate_shm::control::LENT_MAX;
use headgate_shm::descriptor::Descriptor;
use headgate_shm::{Region, Verdict};

use super::{Arrival, Harness, MadeFrame, get, put, region_for};
use crate::burst::{BURST_MAX, Burst};
use crate::context::Environment;
use crate::disk::drive;
use crate::disk::requests::Requests;
use crate::maker::Way;

/// Packets that may be in the NF's hands at a time: our choice, as many as wait in a short ring.
pub const WINDOW: usize = 1024;
/// Maximum time for which a test waits for a disk. Long, because machines that test are busy.
const PATIENCE: Duration = Duration::from_secs(20);

pub struct Bench {
    pub burst: Burst,
    pub books: Books,
}

/// Books of the packets: the buffer of each, and its outcome.
pub struct Books {
    region: Region,
    free: Vec<u32>,
    /// Arrival that is in each buffer.
    lent: HashMap<u32, usize>,
    pub outcomes: Vec<Option<(Verdict, Vec<u8>)>>,
    pub order: Vec<usize>,
    /// Packets that one NF of the process made and another held for a while.
    made: Vec<Descriptor>,
    /// Arrival that was last in each buffer, for made packets that follow it.
    last_in: HashMap<u32, usize>,
}

impl Bench {
    pub fn new(region: Region) -> Self {
        let books = Books {
            free: (0..region.geometry().buffers()).rev().collect(),
            lent: HashMap::new(),
            outcomes: Vec::new(),
            order: Vec::new(),
            made: Vec::new(),
            last_in: HashMap::new(),
            region: region.clone(),
        };
        Self { burst: Burst::new(region), books }
    }

    /// Lays packets out, the first of which is arrival `first`.
    pub fn load(&mut self, arrivals: &[Arrival], first: usize) {
        let books = &mut self.books;
        let mut lay = |(arrival, number): (&Arrival, usize)| {
            let index = books.free.pop().expect("the window keeps buffers");
            books.lent.insert(index, number);
            books.last_in.insert(index, number);
            put(&books.region, index, arrival)
        };
        let descriptors: Vec<Descriptor> = arrivals.iter().zip(first..).map(&mut lay).collect();
        self.burst.load(&descriptors);
    }

    /// Lends the NF buffers in place of those it used.
    pub fn lend(&mut self, environment: &Environment) {
        if let Some(made) = environment.made.get() {
            made.borrow_mut().refill(|| self.books.free.pop());
        }
    }
}

impl Books {
    /// Takes back what the NF has decided on.
    pub fn take_back(&mut self, burst: &Burst) {
        for packet in burst.decided() {
            let number = self.lent.remove(&packet.index());
            if number.is_none() && !self.free.contains(&packet.index()) {
                self.made.push(*packet);
                continue;
            }
            let number = number.unwrap_or_else(|| panic!("buffer {} came twice", packet.index()));
            self.outcomes[number] = Some((packet.verdict(), get(&self.region, *packet)));
            self.order.push(number);
            self.free.push(packet.index());
        }
    }
}

impl Harness {
    /// A bench with so many buffers, and those that the NF is lent.
    pub(super) fn bench(&self, longest: usize, buffers: usize) -> Bench {
        let Some(made) = self.environment.made.get() else {
            return Bench::new(region_for(longest, buffers));
        };
        let region = region_for(longest, buffers + LENT_MAX as usize);
        made.borrow_mut().move_to(&region);
        Bench::new(region)
    }

    /// Takes in what the NF made, as far as what it follows came back.
    pub(super) fn take_made(&mut self, bench: &mut Bench) {
        let Some(made) = self.environment.made.get() else { return };
        let (at, books) = (self.environment.clock.now(), &mut bench.books);
        let is_back = |index: u32| !books.lent.contains_key(&index);
        let mut taken: Vec<_> = books.made.drain(..).map(|packet| (None, packet)).collect();
        made.borrow_mut().take(is_back, |one| taken.push((one.follows, one.packet)));
        for (follows, packet) in taken {
            self.made.push(MadeFrame {
                at,
                follows: follows.and_then(|index| books.last_in.get(&index).copied()),
                way: Way::of_tag(packet.tag()),
                frame: get(&books.region, packet),
            });
            books.free.push(packet.index());
        }
    }

    /// Buffers the NF needs: for a burst, and for all it may hold.
    pub(super) fn buffers(&self) -> usize {
        let holds = self.environment.disk.requests.get().is_some();
        if holds { WINDOW + 2 * BURST_MAX } else { BURST_MAX }
    }

    pub(super) fn next_disk_due(&self) -> Option<Duration> {
        self.environment.disk.requests.get()?.borrow().next_due()
    }

    /// Tells the NF what its disk has done.
    pub(super) fn hear_disk(&mut self, bench: &mut Bench) {
        let Some(requests) = self.environment.disk.requests.get().cloned() else { return };
        let now = self.environment.clock.now();
        requests.borrow_mut().poll(now);
        let Bench { burst, books } = bench;
        let told: Result<(), Infallible> = drive::tell(&requests, &mut self.nfs, burst, |burst| {
            books.take_back(burst);
            Ok(())
        });
        let Ok(()) = told;
        requests.borrow_mut().poll(now);
        self.take_made(bench);
    }

    /// Waits in real time until the disk has come so far.
    pub(super) fn wait_for_disk(&mut self, bench: &mut Bench, is_so: impl Fn(&mut Requests) -> bool) {
        let Some(requests) = self.environment.disk.requests.get().cloned() else { return };
        let started = Instant::now();
        self.hear_disk(bench);
        while !is_so(&mut requests.borrow_mut()) || requests.borrow_mut().has_news() {
            assert!(started.elapsed() < PATIENCE, "the disk has not answered for {PATIENCE:?}");
            self.hear_disk(bench);
            if !requests.borrow_mut().has_news() && !is_so(&mut requests.borrow_mut()) {
                requests.borrow_mut().start();
                std::thread::park_timeout(Duration::from_millis(10));
            }
        }
    }
}
