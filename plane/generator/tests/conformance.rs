//! Generators and null ports do what every queue does.

use headgate_generator::null::{self, Measure};
use headgate_generator::{self as generator, GeneratorSpec, Load, Rate, Sizes};
use headgate_port::Queue;
use headgate_port::testing::conformance::{Abilities, Backend, Device, Gives, run};
use headgate_port::testing::{receive, setting, stack};
use headgate_shm::Stack;

struct Opened(Box<dyn Queue>);

impl Device for Opened {
    fn queue(&mut self) -> &mut dyn Queue {
        &mut *self.0
    }
}

/// More flows than packets, so that no two frames are equal.
const FLOWS: u32 = 1 << 16;

struct Generator(GeneratorSpec);

impl Generator {
    fn queue(&self, count: usize) -> Box<dyn Queue> {
        let spec = GeneratorSpec { count: Some(count as u64), ..self.0.clone() };
        generator::open(&spec, &setting(1)).unwrap().remove(0)
    }
}

impl Backend for Generator {
    fn abilities(&self) -> Abilities {
        // With a rate it takes some calls until a packet is due.
        Abilities { gives: Gives::Supply { ends: true }, patience: 100, ..Abilities::default() }
    }

    /// Makes the frames of another generator with the same seed, one by one.
    fn incoming(&mut self, wanted: &[Vec<u8>]) -> Vec<Vec<u8>> {
        let mut twin = self.queue(wanted.len());
        let (mut stack, mut frames) = (stack(1), Vec::new());
        let mut now = 0;
        while !twin.is_finished() {
            now += 100;
            frames.extend(receive(&mut *twin, now, &mut stack, 1));
        }
        frames
    }

    fn open(&mut self, _stack: &mut Stack, incoming: &[Vec<u8>]) -> Box<dyn Device> {
        Box::new(Opened(self.queue(incoming.len())))
    }
}

#[test]
fn a_generator_is_a_queue() {
    let spec = |rate, sizes| GeneratorSpec {
        load: Load::Even { flows: FLOWS, rate },
        sizes,
        stamp: false,
        ..GeneratorSpec::default()
    };
    run(&mut Generator(spec(Rate::Unlimited, Sizes::Fixed(64))));
    run(&mut Generator(spec(Rate::Unlimited, Sizes::Imix)));
    run(&mut Generator(spec(Rate::PerSecond(3e6), Sizes::Imix)));
}

struct Null(Measure);

impl Backend for Null {
    fn abilities(&self) -> Abilities {
        Abilities::default()
    }

    fn open(&mut self, _stack: &mut Stack, _incoming: &[Vec<u8>]) -> Box<dyn Device> {
        Box::new(Opened(null::open(self.0, &setting(1)).queues.remove(0)))
    }
}

#[test]
fn a_null_port_is_a_queue() {
    run(&mut Null(Measure::Nothing));
    run(&mut Null(Measure::Everything));
}
