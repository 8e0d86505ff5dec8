//! Instructions that a worker spends on a packet, counted by valgrind, so that a change of the packet path
//! can be judged on a machine that others use too.
//!
//! ```sh
//! cargo run --release -p headgate-path --example cost              # every scenario under callgrind
//! cargo run --release -p headgate-path --example cost time one     # one scenario by the clock, ns a packet
//! ```
//! One worker, its ports and its NFs share one thread. The port makes packets by changing an address in
//! frames that lie in their buffers already; each NF returns what it was given over its real rings. The count
//! covers the worker's work between the port and the rings: calls of the port itself are left out.

#[allow(dead_code, reason = "the harness has more than this needs")]
#[path = "../tests/path/harness/mod.rs"]
mod harness;

use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use headgate_path::plan::Exit;
use headgate_path::rules::{Prefix, Rule};
use headgate_port::{Queue, QueueCounters};
use headgate_shm::geometry::HEADROOM_BYTES;
use headgate_shm::{Descriptor, Stack, Verdict};
use headgate_units::{ChainId, PortId};

use harness::World;
use harness::frames::udp4_long;
use harness::layout::{HERE, Layout};

const FRAME_BYTES: usize = 64;
/// Offset of the IPv4 source address in a plain frame.
const SOURCE: u32 = 26;
const BUFFERS: u32 = 16_384;
/// Passes that are counted. Our choice: under valgrind a scenario takes a second or two. A run of as many and
/// one of twice as many differ by them alone, however many came before.
const PASSES: usize = 1_000;
/// Passes that are timed together, and number of such runs. Our choice: a run is shorter than a slice of the
/// kernel, so that some of them have the core to themselves on a machine that others use too.
const TIMED: (usize, usize) = (100, 1_000);
/// Percentage of the runs that were faster than the one that counts.
const FASTER: usize = 5;

/// Number of flows the port makes, all equally often.
static FLOWS: AtomicU32 = AtomicU32::new(1);

/// Port that always has packets, and takes all.
struct Feed {
    next: u32,
    counters: QueueCounters,
}

impl Queue for Feed {
    #[inline(never)]
    fn receive(&mut self, _now: u64, stack: &mut Stack, into: &mut [Descriptor]) -> usize {
        let flows = FLOWS.load(Ordering::Relaxed);
        let mut count = 0;
        for slot in into {
            let Some(index) = stack.take() else { break };
            // An odd stride: neighbours in a burst are none in memory.
            self.next = self.next.wrapping_add(0x9e37_79b1);
            let source = 0x0a00_0000 | (self.next % flows);
            stack.region().write(index, HEADROOM_BYTES + SOURCE, &source.to_be_bytes());
            *slot = Descriptor::new(index, HEADROOM_BYTES, FRAME_BYTES as u32, 0);
            count += 1;
        }
        self.counters.received += count as u64;
        count
    }

    #[inline(never)]
    fn transmit(&mut self, _now: u64, stack: &mut Stack, packets: &[Descriptor]) -> usize {
        headgate_port::give_back(stack, packets);
        packets.len()
    }

    fn counters(&self) -> QueueCounters {
        self.counters
    }
}

/// Port that only takes.
struct Sink(Feed);

impl Queue for Sink {
    #[inline(never)]
    fn receive(&mut self, _now: u64, _stack: &mut Stack, _into: &mut [Descriptor]) -> usize {
        0
    }

    fn transmit(&mut self, now: u64, stack: &mut Stack, packets: &[Descriptor]) -> usize {
        self.0.transmit(now, stack, packets)
    }

    fn counters(&self) -> QueueCounters {
        self.0.counters
    }
}

/// Scenario that is counted.
struct Scenario {
    name: &'static str,
    flows: u32,
    chains: u16,
    nfs: u16,
    /// Number of instances of each NF.
    instances: usize,
    /// Number of packets of which the first NF ends one; 0: it ends none.
    drops_one_of: u32,
}

const PLAIN: Scenario = Scenario { name: "", flows: 64, chains: 1, nfs: 1, instances: 1, drops_one_of: 0 };

const SCENARIOS: [Scenario; 8] = [
    Scenario { name: "wire", nfs: 0, ..PLAIN },
    Scenario { name: "one", ..PLAIN },
    Scenario { name: "three", nfs: 3, ..PLAIN },
    Scenario { name: "chains_2", chains: 2, ..PLAIN },
    Scenario { name: "chains_10000", flows: 10_000, chains: 10_000, ..PLAIN },
    Scenario { name: "flows_1m", flows: 1 << 20, ..PLAIN },
    Scenario { name: "spread", instances: 2, ..PLAIN },
    Scenario { name: "verdicts", drops_one_of: 8, ..PLAIN },
];

impl Scenario {
    fn world(&self) -> World {
        FLOWS.store(self.flows, Ordering::Relaxed);
        let layout = Layout {
            ring: 4096,
            flows: self.flows.max(65_536) as usize,
            chains_max: usize::from(self.chains) + 1,
            make_queue: |port, _, _| {
                let feed = Feed { next: 0, counters: QueueCounters::default() };
                if port == 0 { Box::new(feed) } else { Box::new(Sink(feed)) }
            },
            ..Layout::new().region(BUFFERS, 2048).port(HERE).port(HERE)
        };
        let layout = (0..self.nfs)
            .fold(layout, |layout, nf| layout.nf(&format!("nf {nf}"), &vec![HERE; self.instances]));
        let world = World::new(self.with_chains(layout));
        for index in 0..BUFFERS {
            world.regions[0].write(index, HEADROOM_BYTES, &udp4_long(0, 0, FRAME_BYTES));
        }
        world
    }

    /// Adds the chains: flow `n` goes to chain `n modulo chains`.
    fn with_chains(&self, mut layout: Layout) -> Layout {
        let stages: Vec<u16> = (0..self.nfs).collect();
        for _ in 1..=self.chains {
            layout = layout.chain(&stages, Exit::Port(PortId(1)));
        }
        if self.chains == 1 {
            return layout.default_chain(1);
        }
        for flow in 0..self.flows {
            let address = std::net::Ipv4Addr::from_bits(0x0a00_0000 | flow).into();
            let source = Some(Prefix { address, bits: 32 });
            let chain = (flow % u32::from(self.chains)) as u16 + 1;
            layout = layout.rule(Rule { source, chain: ChainId(chain), ..Rule::default() });
        }
        layout
    }

    /// Lets every NF return what it has.
    fn work(&self, world: &mut World, packets: &mut Vec<Descriptor>) {
        for (number, nf) in &mut world.nfs {
            packets.resize(nf.receive.size() as usize, Descriptor::default());
            let count = nf.receive.pop(packets).expect("the worker is honest");
            for (at, packet) in packets[..count].iter_mut().enumerate() {
                let ends = self.drops_one_of > 0
                    && usize::from(*number) < self.instances
                    && (at as u32).is_multiple_of(self.drops_one_of);
                *packet = packet.with_verdict(if ends { Verdict::Drop } else { Verdict::Next });
            }
            nf.transmit.push(&packets[..count]).expect("the worker is honest");
        }
    }

    /// Returns a world in which every flow is known and the rings are in use.
    fn warm(&self) -> (World, Vec<Descriptor>) {
        let (mut world, mut packets) = (self.world(), Vec::new());
        for _ in 0..2 * self.flows as usize / headgate_path::BURST + 100 {
            world.pass_of(0);
            self.work(&mut world, &mut packets);
        }
        (world, packets)
    }
}

/// Makes the passes of the worker that valgrind counts: it finds them by this name.
#[inline(never)]
fn counted(world: &mut World) {
    world.pass_of(0);
}

/// Makes this many passes of a warm world for valgrind to count. Returns how many packets entered meanwhile.
fn run(scenario: &Scenario, passes: usize) -> u64 {
    let (mut world, mut packets) = scenario.warm();
    let entered = |world: &World| (0..=scenario.chains).map(|chain| world.entered(chain)).sum::<u64>();
    let before = entered(&world);
    for _ in 0..passes {
        counted(&mut world);
        scenario.work(&mut world, &mut packets);
    }
    world.check();
    entered(&world) - before
}

/// Returns the nanoseconds that the worker takes for a packet, the port included: nearly the fastest of many
/// runs.
fn time(scenario: &Scenario) -> f64 {
    let (mut world, mut packets) = scenario.warm();
    let (passes, runs) = TIMED;
    let mut one = || {
        let mut ns = 0;
        for _ in 0..passes {
            let since = Instant::now();
            world.pass_of(0);
            ns += since.elapsed().as_nanos();
            scenario.work(&mut world, &mut packets);
        }
        ns
    };
    let mut all: Vec<u128> = (0..runs).map(|_| one()).collect();
    all.sort_unstable();
    all[runs * FASTER / 100] as f64 / (passes * headgate_path::BURST) as f64
}

/// Returns the worker's instructions for a packet.
fn instructions(scenario: &Scenario) -> f64 {
    let [few, many] = [PASSES, 2 * PASSES].map(|passes| callgrind(scenario, passes));
    (many.0 - few.0) / (many.1 - few.1)
}

/// Returns the instructions that callgrind counted in a run of this program, and the packets that entered.
fn callgrind(scenario: &Scenario, passes: usize) -> (f64, f64) {
    let program = std::env::current_exe().expect("a program has a path");
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        // Entering a port within a counted pass stops the count, leaving it resumes it.
        .args(["--toggle-collect=cost::counted*", "--toggle-collect=*Feed*Queue*receive*"])
        .args(["--toggle-collect=*Feed*Queue*transmit*", "--toggle-collect=*Sink*Queue*receive*"])
        .arg(program)
        .args(["run", scenario.name, &passes.to_string()])
        .output()
        .expect("valgrind is installed");
    let (said, log) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let collected = log.lines().find_map(|line| line.split("Collected :").nth(1));
    let number = |text: &str| text.trim().parse::<f64>().ok();
    match (collected.and_then(number), number(&said)) {
        (Some(instructions), Some(packets)) => (instructions, packets),
        _ => panic!("{}: valgrind said\n{log}", scenario.name),
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let chosen = |names: &[&str]| {
        let is_chosen = |name: &str| names.is_empty() || names.contains(&name);
        SCENARIOS.iter().filter(|scenario| is_chosen(scenario.name)).collect::<Vec<_>>()
    };
    match words.as_slice() {
        ["run", name, passes] => {
            let passes = passes.parse().expect("a number of passes");
            chosen(&[name]).iter().for_each(|scenario| println!("{}", run(scenario, passes)));
        }
        ["time", names @ ..] => chosen(names)
            .iter()
            .for_each(|scenario| println!("{:<14} {:>7.2} ns a packet", scenario.name, time(scenario))),
        names => chosen(names).iter().for_each(|scenario| {
            println!("{:<14} {:>7.1} instructions a packet", scenario.name, instructions(scenario));
        }),
    }
}
