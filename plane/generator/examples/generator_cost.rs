//! Measures the cost of a packet in the generator and in the null port: `cargo run --release -p
//! headgate-ports
//! --example generator_cost`.
//!
//! One thread makes bursts of 32 frames and ends them, at once or after as many as a ring holds, so
//! that buffers come from the first-level cache or from the second; on 4 KiB pages the second way also
//! pays for a page walk each packet. Prints the least and the median of the nanoseconds of processor
//! time per packet, both ports together. Pin it (`taskset -c 0`) and leave the machine alone.

use std::error::Error;
use std::num::NonZeroU32;

use headgate_generator::null::{self, Measure};
use headgate_generator::{self as generator, GeneratorSpec, Load, Rate, Selection, Sizes, Transport};
use headgate_port::{Setting, Timebase};
use headgate_shm::{Descriptor, Geometry, PagesWanted, Region, Stack};
use rustix::time::{ClockId, clock_gettime};

const BURST: usize = 32;
const BUFFERS: u32 = 16384;
const RING: usize = 4096;
const PACKETS: usize = 100_000;
const ROUNDS: usize = 201;

type Case = (&'static str, GeneratorSpec, Measure);

fn main() -> Result<(), Box<dyn Error>> {
    println!("{:<34} {:>18} {:>18}", "ns per packet, least (median)", "at once", "4096 later");
    let (spec, measure) = (GeneratorSpec::default(), Measure::Nothing);
    print("buffers taken and given back only", |in_flight| cost(&spec, measure, in_flight, true))?;
    for (name, spec, measure) in cases()? {
        print(name, |in_flight| cost(&spec, measure, in_flight, false))?;
    }
    Ok(())
}

fn cases() -> Result<Vec<Case>, Box<dyn Error>> {
    let base = GeneratorSpec::default;
    let flows = |flows| GeneratorSpec { load: Load::Even { flows, rate: Rate::Unlimited }, ..base() };
    let sizes = |sizes| GeneratorSpec { sizes, ..base() };
    let million = flows(1_000_000);
    let random = GeneratorSpec { selection: Selection::Random, ..million.clone() };
    let paced = GeneratorSpec { load: Load::Even { flows: 1, rate: Rate::PerSecond(1e9) }, ..base() };
    let v6 = GeneratorSpec {
        source: "2001:db8::1".parse()?,
        destination: "2001:db8:1::1".parse()?,
        ..sizes(Sizes::Fixed(84))
    };
    let tcp = GeneratorSpec { transport: Transport::Tcp, ..base() };
    let some = Measure::Latency { every: NonZeroU32::new(64).expect("64 is not 0") };
    Ok(vec![
        ("64 B, no stamp", GeneratorSpec { stamp: false, ..base() }, Measure::Nothing),
        ("64 B", base(), Measure::Nothing),
        ("64 B, 1000 flows", flows(1000), Measure::Nothing),
        ("64 B, 1000000 flows", million, Measure::Nothing),
        ("64 B, 1000000 flows at random", random, Measure::Nothing),
        ("64 B at a rate", paced, Measure::Nothing),
        ("64 B, latency of 1 in 64", base(), some),
        ("64 B, everything measured", base(), Measure::Everything),
        ("64 B TCP", tcp, Measure::Nothing),
        ("84 B UDP over IPv6", v6, Measure::Nothing),
        ("IMIX", sizes(Sizes::Imix), Measure::Nothing),
        ("1518 B", sizes(Sizes::Fixed(1518)), Measure::Nothing),
    ])
}

fn print(name: &str, cost: impl Fn(usize) -> Result<[f64; 2], Box<dyn Error>>) -> Result<(), Box<dyn Error>> {
    let text = |[least, median]: [f64; 2]| format!("{least:.1} ({median:.1})");
    println!("{name:<34} {:>18} {:>18}", text(cost(0)?), text(cost(RING)?));
    Ok(())
}

/// Nanoseconds per packet, least and median; `bare` without making packets.
fn cost(
    spec: &GeneratorSpec,
    measure: Measure,
    in_flight: usize,
    bare: bool,
) -> Result<[f64; 2], Box<dyn Error>> {
    let region = Region::create("cost", Geometry::new(BUFFERS, 2048)?, PagesWanted::HugeIfFree)?;
    let frame_bytes_max = region.geometry().frame_bytes_max();
    let mut stack = Stack::new(region, 0, 0..BUFFERS);
    let timebase = Timebase { cycles_per_second: 2_500_000_000, cycles: 0, unix_ns: 0 };
    let setting = Setting { name: "cost", queues: 1, source: 0, frame_bytes_max, timebase };
    let mut source = generator::open(spec, &setting)?.remove(0);
    let mut sink = null::open(measure, &setting).queues.remove(0);
    let mut ring = vec![Descriptor::default(); (in_flight + BURST).next_multiple_of(BURST)];
    let (mut now, mut at, mut held) = (0, 0, 0);
    let mut costs = [0.0; ROUNDS];
    for cost in &mut costs {
        let start = processor_seconds();
        let mut packets = 0;
        while packets < PACKETS {
            // 160 cycles a burst: at a rate of 1e9 a second, 64 are due.
            now += 160;
            let slots = &mut ring[at..at + BURST];
            let made = if bare { take(&mut stack, slots) } else { source.receive(now, &mut stack, slots) };
            packets += made;
            held += made;
            at = if at + BURST == ring.len() { 0 } else { at + BURST };
            if held > in_flight {
                let oldest =
                    if in_flight == 0 { at.checked_sub(BURST).unwrap_or(ring.len() - BURST) } else { at };
                held -= sink.transmit(now, &mut stack, &ring[oldest..oldest + BURST]);
            }
        }
        *cost = (processor_seconds() - start) * 1e9 / packets as f64;
    }
    costs.sort_by(f64::total_cmp);
    Ok([costs[0], costs[ROUNDS / 2]])
}

fn take(stack: &mut Stack, slots: &mut [Descriptor]) -> usize {
    let indices = stack.take_many(slots.len());
    slots.iter_mut().zip(indices).map(|(slot, index)| *slot = Descriptor::new(index, 128, 60, 0)).count()
}

/// Time this thread had the processor: what others do on it is not counted.
fn processor_seconds() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}
