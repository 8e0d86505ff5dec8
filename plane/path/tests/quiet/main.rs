//! While NFs are awake, the packet path neither allocates nor calls the kernel.
//!
//! Both are counted, on the thread that makes the passes and only while it makes them: allocations by the
//! allocator of this binary, system calls by the kernel, which turns each into a signal. Alone in its
//! binary, because the allocator and the signal handler are the whole process's.

#[allow(dead_code, reason = "the harness has more than this binary needs")]
#[path = "../path/harness/mod.rs"]
mod harness;
mod kernel;
mod memory;
mod queue;

use std::io::Write;
use std::sync::mpsc::channel;

use headgate_path::plan::{Exit, TunnelId, UNCLAIMED};
use headgate_path::rules::Rule;
use headgate_path::trace::{self, Steps, Tap, Wanted};
use headgate_path::worker::{Command, Pass};
use headgate_shm::{Verdict, doorbell};
use headgate_units::{ChainId, PortId};
use headgate_wire::MacAddress;
use headgate_wire::nsh::{self, Base, ServicePath, md_type};
use headgate_wire::vlan::Tag;

use harness::World;
use harness::frames::{first_fragment, later_fragment, malformed, other, tagged, udp4, udp6};
use harness::layout::{At, Layout, to_chain};
use harness::nf::make;
use kernel::SystemCalls;
use memory::allocations_of;
use queue::Endless;

/// Passes of each worker until everything has its final size.
const WARM_UP: usize = 1_000;
/// Passes that are counted.
const PASSES: usize = 10_000;

/// The tag of a made packet that enters chain 2.
const ONTO_2: u32 = Verdict::onto_chain(2).unwrap();
/// The instance that never takes a packet.
const STUCK: u16 = 4;
/// The chain through a tunnel, and the packets that go there.
const TUNNELLED: u16 = 5;
const ETHERTYPE_MPLS: u16 = 0x8847;
/// The chain of packets with service headers, and its service path.
const ON_PATH: u16 = 6;
const PATH: u32 = 0x777;
/// Address of the ports, and their Ethernet header towards a next hop.
const OWN: MacAddress = MacAddress([2, 0, 0, 0, 0, 0xaa]);
const LINK: [u8; 14] = [2, 0, 0, 0, 0, 0xaa, 2, 0, 0, 0, 0, 0xbb, 0x89, 0x4f];

/// Returns a frame behind a service header.
fn with_header(base: Base, index: u8, metadata: &[u8], flow: u32) -> Vec<u8> {
    let mut header = vec![0; nsh::FIXED_LENGTH + metadata.len()];
    nsh::write(base, ServicePath { path: PATH, index }, metadata, &mut header).unwrap();
    [&LINK[..], &header, &udp4(flow, 0)].concat()
}

/// Returns one frame of everything that classification knows.
fn templates() -> Vec<Vec<u8>> {
    let mut frames: Vec<_> = (0..7).map(|flow| udp4(flow, flow)).collect();
    frames.extend((0..4).map(|flow| udp6(flow, flow)));
    frames.push(tagged([Some(Tag::customer(10)), None], 20, 0));
    frames.push(tagged([Some(Tag::service(20)), Some(Tag::customer(10))], 21, 0));
    frames.extend([first_fragment(22, 0, 7), later_fragment(22, 1, 7), later_fragment(23, 0, 9)]);
    frames.extend([other(0x0806, 24, 0), other(0x88cc, 25, 0), malformed(26, 0)]);
    frames.push(other(ETHERTYPE_MPLS, 27, 0));
    let first = Base::of_type_1();
    frames.extend((0..3).map(|flow| with_header(first, 255 - flow as u8, &[flow as u8; 16], 40 + flow)));
    let variable = Base::from_bits(first.bits() & !0xf00 | u32::from(md_type::VARIABLE) << 8);
    frames.push(with_header(variable, 255, &[[1, 1, 1, 60].as_slice(), &[7; 60]].concat(), 43));
    frames.push(with_header(first, 77, &[0; 16], 44));
    frames.push(with_header(first.with_ttl(1), 255, &[0; 16], 45));
    frames
}

/// Returns two workers, two domains, chains that cross both, an NF with instances on both, one NF that does
/// nothing and one that is down; and a chain that is entered in the middle, whose output waits and leaves by
/// a tunnel, and one that is entered and left with service headers.
fn world() -> World {
    let at = |worker, region| At { worker, region };
    let layout = Layout::new()
        .workers(2)
        .region(4096, 320)
        .region(4096, 320)
        .port(at(0, 0))
        .port(at(1, 1))
        .free_port(at(1, 0))
        .nf("a", &[at(0, 0), at(1, 0)])
        .nf("b", &[at(1, 1)])
        .nf("c", &[at(0, 1)])
        .nf("stuck", &[at(1, 0)])
        .nf("down", &[])
        .chain(&[0, 1, 2], Exit::Port(PortId(1)))
        .chain(&[0, 2, 1, 0], Exit::Port(PortId(2)))
        .chain(&[3], Exit::Port(PortId(2)))
        .chain(&[4], Exit::Port(PortId(2)))
        .tunnel(2, b"an outer header")
        .chain(&[3, 0], Exit::Tunnel(TunnelId(0)))
        .committed()
        .service_tunnel(2, &LINK, PATH, 253)
        .chain(&[1, 2], Exit::Tunnel(TunnelId(1)))
        .on_path(PATH, 255)
        .service_headers(OWN)
        .rule(Rule { ethertype: Some(ETHERTYPE_MPLS), position: 1, ..to_chain(TUNNELLED) })
        .rule(Rule { vlan: Some(10), chain: ChainId(3), ..Rule::default() })
        .rule(Rule { vlan: Some(20), chain: ChainId(4), ..Rule::default() })
        .rule(Rule { ethertype: Some(0x86dd), chain: ChainId(2), ..Rule::default() })
        .rule(Rule { destination_port: Some((80, 80)), chain: ChainId(1), ..Rule::default() })
        .rule(Rule { ethertype: Some(0x0806), chain: ChainId(2), ..Rule::default() })
        .idle_ticks(500)
        .lend(8);
    let layout = Layout {
        make_queue: |port, _, region| {
            let templates = if port == 2 { Vec::new() } else { templates() };
            Box::new(Endless::new(templates, region))
        },
        ..layout
    };
    let mut world = World::new(layout);
    world.nfs.remove(&STUCK);
    let verdicts = [
        Verdict::Next,
        Verdict::Next,
        Verdict::Next,
        Verdict::Next,
        Verdict::Next,
        Verdict::Drop,
        Verdict::Port(2),
        Verdict::Port(77),
        Verdict::Stage(2),
        Verdict::Stage(77),
    ];
    for number in 0..4u32 {
        let mut count = number;
        world.on(
            number as u16,
            Box::new(move |_, packet| {
                count += 1;
                packet.with_verdict(verdicts[count as usize % verdicts.len()])
            }),
        );
    }
    // One that makes packets of its own as well: on, back, to a stage, onto a chain, or after all none.
    let tags = [0, Verdict::Port(0).encode(), Verdict::Stage(2).encode(), Verdict::Drop.encode(), ONTO_2];
    let mut count = 0;
    world.makes(
        1,
        Box::new(move |region, packet, lent| {
            count += 1;
            let made = make(region, lent, &udp4(31, count as u32), tags[count % tags.len()]);
            let verdict = verdicts[count % verdicts.len()];
            [packet.with_verdict(verdict)].into_iter().chain(made).collect()
        }),
    );
    world
}

/// Cost of passes of all workers: calls of the allocator, and the first system call of each pass.
#[derive(Debug, Default, PartialEq, Eq)]
struct Cost {
    allocations: u64,
    system_calls: Vec<i64>,
}

/// Makes passes; NFs work in between, uncounted.
fn cost_of(world: &mut World, watch: Option<&SystemCalls>, passes: usize) -> Cost {
    let mut cost = Cost::default();
    for _ in 0..passes {
        for worker in 0..world.workers.len() {
            let mut pass = || {
                assert_ne!(world.pass_of(worker), Pass::Stopped);
            };
            let mut system_call = None;
            cost.allocations += allocations_of(|| match watch {
                Some(watch) => system_call = watch.first_of(&mut pass),
                None => pass(),
            });
            cost.system_calls.extend(system_call);
        }
        for nf in world.nfs.values_mut() {
            nf.step();
        }
    }
    cost
}

/// Starts the watch over system calls, if the machine lets a process watch itself; allocations are counted
/// everywhere. A failure is printed past the test runner, which swallows what a passing test prints.
fn watch() -> Option<SystemCalls> {
    match SystemCalls::watch() {
        Ok(watch) => Some(watch),
        Err(error) => {
            let mut stderr = std::io::stderr();
            writeln!(stderr, "skipped: system calls cannot be watched here: {error}").unwrap();
            None
        }
    }
}

/// Returns a tap that takes everything, and whose ring is soon full.
fn tap() -> Tap {
    let (steps, chain, instances, filter) = (Steps::ALL, None, None, None);
    let wanted = Wanted { steps, chain, instances, filter, bytes: 256, picks: None };
    Tap::new(wanted, trace::ring(1 << 14).0)
}

#[test]
fn passes_with_packets_neither_allocate_nor_call_the_kernel() {
    let mut world = world();
    let watch = watch();
    world.signals.releases.allow(ChainId(TUNNELLED), u64::MAX);
    for (measured, tapped) in [(false, false), (true, false), (false, true)] {
        for (number, mailbox) in world.mailboxes.iter().enumerate() {
            mailbox.post(Command::Measure(measured));
            if tapped {
                mailbox.post(Command::Tap { number: number as u32, tap: Box::new(tap()) });
            }
        }
        cost_of(&mut world, None, WARM_UP);
        let left = world.left(1) + world.left(2);
        let cost = cost_of(&mut world, watch.as_ref(), PASSES);
        assert_eq!(cost, Cost::default(), "measured: {measured}, tapped: {tapped}");
        assert!(world.left(1) + world.left(2) - left > 4 * PASSES as u64, "packets moved meanwhile");
    }
    world.check();
    assert_everything_happened(&world);
}

/// Asserts that the listed ways were walked while the counters stood at zero.
fn assert_everything_happened(world: &World) {
    let learnt: u64 = world.boards.iter().map(|board| board.flows_learnt.get()).sum();
    assert!(learnt > PASSES as u64 / 8, "{learnt} flows came and went");
    let returned: u64 = world.workers.iter().map(|worker| worker.report().returns_sent).sum();
    assert!(returned > 0, "buffers went home between workers");
    let ends = |chain: u16| world.drops(chain).into_keys().collect::<Vec<_>>();
    assert!(world.left(TUNNELLED) > PASSES as u64 / 4, "{}", world.left(TUNNELLED));
    assert!(world.made(1) > PASSES as u64 && world.made(2) > PASSES as u64, "packets were made");
    assert!(world.left(ON_PATH) > PASSES as u64 / 4, "{}", world.left(ON_PATH));
    assert_eq!(ends(UNCLAIMED.0), ["malformed", "no-rule", "nsh-index", "nsh-ttl"]);
    assert_eq!(ends(1), ["nf-verdict", "no-such-port", "no-such-stage"]);
    assert_eq!((ends(3), ends(4)), (vec!["stage-full"], vec!["stage-down"]));
}

/// A canary: the one system call of the path is seen.
#[test]
fn the_call_for_a_sleeping_nf_is_counted() {
    let Some(watch) = watch() else { return };
    let mut world = world();
    cost_of(&mut world, None, WARM_UP);
    world.nf(0).naps = true;
    doorbell::announce(world.nf(0).side.doorbell());
    let cost = cost_of(&mut world, Some(&watch), 1);
    assert_eq!(cost, Cost { allocations: 0, system_calls: vec![libc::SYS_futex] });
    assert_eq!(world.boards[0].instances[0].calls.get(), 1);
    world.nf(0).naps = false;
    assert_eq!(cost_of(&mut world, Some(&watch), 100), Cost::default());
}

/// A canary: what a command allocates is seen.
#[test]
fn what_a_command_allocates_is_counted() {
    let mut world = world();
    cost_of(&mut world, None, WARM_UP);
    let (reply, flows) = channel();
    world.mailboxes[0].post(Command::Flows { most: 10, reply });
    assert!(cost_of(&mut world, None, 1).allocations > 0);
    assert_eq!(flows.recv().unwrap().narrow.len(), 10);
}

/// A canary: the counters themselves.
#[test]
fn the_counters_count() {
    assert_eq!(allocations_of(|| drop(std::hint::black_box(Box::new(7)))), 2);
    assert_eq!(allocations_of(|| ()), 0);
    let Some(watch) = watch() else { return };
    // SAFETY: has no precondition and always succeeds.
    let parent = || unsafe { libc::getppid() };
    let mut seen = 0;
    assert_eq!(watch.first_of(|| seen = parent()), Some(libc::SYS_getppid));
    assert_eq!(seen, parent(), "the call was made after all");
    assert_eq!(watch.first_of(|| ()), None);
}
