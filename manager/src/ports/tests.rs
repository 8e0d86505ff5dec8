//! Faults of the configuration arrive at the queues, and what they count in the status.

use headgate_shm::{Descriptor, Stack};

use super::*;
use crate::config::{self, Catalog, Machine};
use crate::fabric;
use headgate_decide::units::RegionId;

/// Returns a generator that never ends and a port that takes all, in this domain, with these faults.
fn config(faults: &str) -> Config {
    let text = format!(
        r#"
        [memory]
        buffers = 4096
        [[domain]]
        name = "west"
        [[port]]
        name = "in"
        kind = "generator"
        domain = "west"
        {faults}
        [[port]]
        name = "out"
        kind = "null"
        {faults}
        [[nf]]
        name = "a"
        exec = ["/bin/true"]
        [[chain]]
        name = "one"
        stages = ["a"]
        out = "out"
        [[rule]]
        chain = "one"
        "#
    );
    let machine = Machine { cores: vec![0], memory_bytes: 1 << 34, ..Machine::default() };
    config::parse("test.toml", &text, &Catalog::default(), &machine).unwrap().config
}

struct Bed {
    clock: Clock,
    stacks: Vec<Stack>,
    devices: Vec<Device>,
    homes: Vec<PortHome>,
    now: u64,
}

impl Bed {
    fn open(faults: &str) -> Self {
        let (config, clock) = (config(faults), Clock::calibrate());
        let mut stacks = fabric::full_stacks(&fabric::make_regions(&config).unwrap());
        let mut opened =
            open(&config, &clock, &mut stacks, Interfaces::Opened).unwrap_or_else(|error| panic!("{error}"));
        Self { clock, stacks, devices: opened.devices.remove(0), homes: opened.homes, now: 1 }
    }

    /// Receives packets from the first port, in bursts of 32 a millisecond apart. Returns how many came.
    fn receive(&mut self, bursts: usize) -> usize {
        let step = self.clock.ns_to_cycles(1_000_000);
        let stack = &mut self.stacks[self.devices[0].region.index()];
        let mut came = 0;
        for _ in 0..bursts {
            self.now += step;
            let mut burst = [Descriptor::default(); 32];
            let count = self.devices[0].device.receive(self.now, stack, &mut burst);
            stack.give_many(burst[..count].iter().map(|packet| packet.index()));
            came += count;
        }
        came
    }

    fn status(&self, port: usize) -> PortStatus {
        let mut status = self.homes[port].status();
        add(&mut status, &self.devices[port].device.counters());
        status
    }
}

#[test]
fn faults_of_the_configuration_are_counted_in_the_status() {
    let mut bed = Bed::open("faults = { seed = 3, loss = 0.25, duplicate = 0.5, corrupt = 1 }");
    let came = bed.receive(100) as u64;
    let status = bed.status(0);
    let FaultStatus { received, sent } = status.faults.unwrap();
    assert_eq!((status.received, sent), (came, crate::status::FaultCounts::default()));
    assert!(received.lost > 500 && received.duplicated > 500, "{received:?}");
    assert_eq!(received.reordered, 0);
    assert!(status.detail.contains("loses 25 %") && status.detail.contains("corrupts 100 %"), "{status:?}");
    let json = serde_json::to_value(&status).unwrap();
    assert_eq!(json["faults"]["received"]["lost"], received.lost);
}

#[test]
fn a_port_with_faults_keeps_to_the_memory_of_its_domain() {
    let bed = Bed::open("faults = { loss = 0.1 }");
    let bound = bed.devices.iter().map(|one| (one.region, one.device.region())).collect::<Vec<_>>();
    // The domain "default" comes behind those of the file.
    assert_eq!(bound, [(RegionId(0), Some(0)), (RegionId(1), Some(1))]);
    let plain = Bed::open("");
    assert_eq!(plain.devices[0].device.region(), None);
    assert_eq!(plain.status(0).faults, None);
}

/// By the clock of the machine, and no more than its part of the buffers waits.
#[test]
fn a_delay_is_kept_and_holds_its_part_of_the_buffers() {
    let mut bed = Bed::open("faults = { delay = \"50ms\", direction = \"both\" }");
    assert_eq!(bed.receive(50), 0);
    let held = bed.devices[0].device.holds();
    assert!(held > 500 && held <= 4096 / 8, "{held}");
    assert!(bed.receive(2) > 0);
    let stack = &bed.stacks[bed.devices[0].region.index()];
    let all = stack.region().geometry().buffers() as usize;
    assert_eq!(stack.len() + bed.devices[0].device.holds(), all);
}
