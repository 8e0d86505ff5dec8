//! The generator as its users see it, judged by `headgate-wire`.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use headgate_wire::{ethernet, ip::protocol, ipv4, ipv6, tcp, udp, vlan};
use proptest::prelude::*;

use super::stamp::Stamp;
use super::*;
use headgate_port::testing::{HERTZ, receive, setting, stack};

fn open_one(spec: &GeneratorSpec) -> Box<dyn Queue> {
    open(spec, &setting(1)).unwrap().remove(0)
}

/// The first `count` frames of a generator without a rate.
fn frames(spec: &GeneratorSpec, count: usize) -> Vec<Vec<u8>> {
    let (mut queue, mut stack) = (open_one(spec), stack(64));
    let mut frames = Vec::new();
    while frames.len() < count {
        let most = (count - frames.len()).min(32);
        frames.extend(receive(&mut *queue, frames.len() as u64, &mut stack, most));
    }
    frames
}

fn even(flows: u32) -> Load {
    Load::Even { flows, rate: Rate::Unlimited }
}

/// Fields of a frame, after all its lengths and checksums were checked.
struct Read {
    source: IpAddr,
    ports: (u16, u16),
    protocol: u8,
    payload: Vec<u8>,
}

fn read(frame: &[u8]) -> Read {
    let tags = vlan::Tags::parse(frame).unwrap();
    let packet = &frame[tags.payload_offset..];
    let (source, protocol, pseudo, rest) = if tags.ethertype == ethernet::ethertype::IPV4 {
        let packet = ipv4::Packet::new(packet).unwrap();
        assert!(packet.verify_checksum());
        (IpAddr::V4(packet.source()), packet.protocol(), packet.pseudo_header(), packet.payload().to_vec())
    } else {
        assert_eq!(tags.ethertype, ethernet::ethertype::IPV6);
        let packet = ipv6::Packet::new(packet).unwrap();
        let upper = packet.upper_layer().unwrap();
        let pseudo = packet.pseudo_header(upper.protocol, upper.payload.len() as u32);
        (IpAddr::V6(packet.source()), upper.protocol, pseudo, upper.payload.to_vec())
    };
    if protocol == protocol::UDP {
        let datagram = udp::Datagram::new(&rest[..]).unwrap();
        assert_ne!(datagram.checksum(), 0);
        assert!(datagram.verify_checksum(pseudo), "{frame:02x?}");
        assert_eq!(datagram.length(), rest.len());
        let ports = (datagram.source_port(), datagram.destination_port());
        Read { source, ports, protocol, payload: datagram.payload().to_vec() }
    } else {
        let segment = tcp::Segment::new(&rest[..]).unwrap();
        assert!(segment.verify_checksum(pseudo), "{frame:02x?}");
        assert_eq!(segment.flags(), tcp::flag::ACK);
        let ports = (segment.source_port(), segment.destination_port());
        Read { source, ports, protocol, payload: segment.payload().to_vec() }
    }
}

fn flow_address(spec: &GeneratorSpec, flow: u32) -> IpAddr {
    match spec.source {
        IpAddr::V4(first) => IpAddr::V4((first.to_bits() + flow).into()),
        IpAddr::V6(first) => IpAddr::V6((first.to_bits() + u128::from(flow)).into()),
    }
}

prop_compose! {
    fn any_spec()(
        (v6, tcp, random, stamp) in any::<(bool, bool, bool, bool)>(),
        vlan in prop::option::of(1u16..4095),
        flows in prop_oneof![1u32..40, 1u32..1 << 24],
        host: u8,
        sizes in prop_oneof![
            (84u32..=100).prop_map(Sizes::Fixed),
            (84u32..=1518).prop_map(Sizes::Fixed),
            Just(Sizes::Imix),
            prop::collection::vec((84u32..=1518, 1u32..9), 1..6).prop_map(Sizes::Weighted),
            Just(Sizes::Fixed(64)),
            Just(Sizes::Fixed(68)),
        ],
        seed: u64,
        ports: (u16, u16),
    ) -> GeneratorSpec {
        let short = matches!(sizes, Sizes::Fixed(64 | 68));
        let v6 = v6 && !short;
        let [source, destination] = if v6 {
            [format!("2001:db8::1:0:{host:x}"), "2001:db8:1::1".to_owned()]
        } else {
            [format!("10.0.0.{host}"), "198.18.0.1".to_owned()]
        }.map(|address| address.parse().unwrap());
        GeneratorSpec {
            load: even(flows),
            selection: if random { Selection::Random } else { Selection::RoundRobin },
            sizes,
            transport: if tcp { Transport::Tcp } else { Transport::Udp },
            source,
            destination,
            source_port: ports.0,
            destination_port: ports.1,
            vlan,
            seed,
            stamp,
            ..GeneratorSpec::default()
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// Whatever was asked for, the frames are what it says, down to the last checksum and stamp.
    #[test]
    fn frames_are_what_was_asked_for(spec in any_spec()) {
        let Load::Even { flows, .. } = spec.load else { unreachable!() };
        let sizes: BTreeSet<u32> = spec.sizes_and_weights().iter().map(|(size, _)| *size).collect();
        for (number, frame) in frames(&spec, 100).iter().enumerate() {
            prop_assert!(sizes.contains(&(frame.len() as u32 + 4)));
            let tags = vlan::Tags::parse(frame).unwrap();
            prop_assert_eq!(tags.outer.map(|tag| tag.id), spec.vlan);
            let link = ethernet::Frame::new(&frame[..]).unwrap();
            prop_assert_eq!((link.source(), link.destination()), (spec.source_mac, spec.destination_mac));
            let read = read(frame);
            prop_assert_eq!(read.ports, (spec.source_port, spec.destination_port));
            let tcp = spec.transport == Transport::Tcp;
            prop_assert_eq!(read.protocol, if tcp { protocol::TCP } else { protocol::UDP });
            let stamp = Stamp::find(frame, frame.len());
            prop_assert_eq!(stamp.is_some(), spec.stamp && read.payload.len() >= stamp::BYTES);
            if let Some(stamp) = stamp {
                prop_assert_eq!((stamp.sequence, stamp.source), (number as u32, 7));
                prop_assert_eq!(stamp.cycles, number as u64 / 32 * 32);
                prop_assert_eq!(read.source, flow_address(&spec, stamp.flow));
            }
            if spec.selection == Selection::RoundRobin {
                prop_assert_eq!(read.source, flow_address(&spec, number as u32 % flows));
            }
            let pattern = if stamp.is_some() { stamp::BYTES } else { 0 };
            prop_assert!((pattern..read.payload.len()).all(|at| read.payload[at] == at as u8));
        }
    }

    /// The path for short frames makes the same bytes as the path for all frames, which a list of two
    /// sizes takes.
    #[test]
    fn both_ways_to_make_a_frame_agree(
        flows in 1u32..100, vlan in prop::option::of(1u16..4095), stamp: bool, size in 64u32..=68, host: u8
    ) {
        let spec = GeneratorSpec {
            load: even(flows),
            sizes: Sizes::Fixed(size),
            source: IpAddr::from([10, 255, host, host]),
            vlan,
            stamp,
            ..GeneratorSpec::default()
        };
        let other = GeneratorSpec { sizes: Sizes::Weighted(vec![(size, 1), (size, 1)]), ..spec.clone() };
        prop_assert_eq!(frames(&spec, 150), frames(&other, 150));
    }

    /// In whatever portions packets are asked for, also in more than are computed at a time, they are
    /// the same.
    #[test]
    fn portions_do_not_matter(
        flows in 1u32..200, random: bool, stamp: bool, size in prop_oneof![Just(64u32), Just(200)],
        portions in prop::collection::vec(1usize..230, 1..12)
    ) {
        let spec = GeneratorSpec {
            load: even(flows),
            selection: if random { Selection::Random } else { Selection::RoundRobin },
            sizes: Sizes::Fixed(size),
            stamp,
            ..GeneratorSpec::default()
        };
        let mut stack = stack(256);
        let mut single = open_one(&spec);
        let mut many = open_one(&spec);
        for portion in portions {
            let ones: Vec<_> =
                (0..portion).flat_map(|_| receive(&mut *single, 5, &mut stack, 1)).collect();
            prop_assert_eq!(ones, receive(&mut *many, 5, &mut stack, portion));
        }
    }

    /// The same seed gives the same frames; another seed, others.
    #[test]
    fn a_seed_decides(spec in any_spec()) {
        let spec = GeneratorSpec { selection: Selection::Random, load: even(1 << 20), ..spec };
        prop_assert_eq!(frames(&spec, 40), frames(&spec, 40));
        prop_assert_ne!(frames(&spec, 40), frames(&GeneratorSpec { seed: spec.seed ^ 1, ..spec.clone() }, 40));
    }

    /// Every flow belongs to one queue, and a number of packets asked for is met exactly.
    #[test]
    fn queues_share_flows_and_count(flows in 1u32..60, queues in 1u16..6, count in 0u64..500, random: bool) {
        let spec = GeneratorSpec {
            load: even(flows),
            selection: if random { Selection::Random } else { Selection::RoundRobin },
            count: Some(count),
            ..GeneratorSpec::default()
        };
        let mut stack = stack(64);
        let mut owner = BTreeMap::new();
        let mut total = 0;
        for (number, mut queue) in open(&spec, &setting(queues)).unwrap().into_iter().enumerate() {
            while !queue.is_finished() {
                for frame in receive(&mut *queue, 0, &mut stack, 32) {
                    let stamp = Stamp::find(&frame, frame.len()).unwrap();
                    prop_assert_eq!(usize::from(stamp.source), 7 + number);
                    prop_assert!(stamp.flow < flows);
                    prop_assert_eq!(*owner.entry(stamp.flow).or_insert(number), number);
                    total += 1;
                }
            }
            prop_assert!(receive(&mut *queue, 0, &mut stack, 32).is_empty());
        }
        prop_assert_eq!(total, count);
        if !random && count >= u64::from(flows * u32::from(queues)) {
            prop_assert_eq!(owner.len(), flows as usize);
        }
    }

    /// Every bagful of sizes has exactly the mix, in an order of its own.
    #[test]
    fn sizes_come_in_their_mix(weights in prop::collection::vec(1u32..9, 1..5), factor in 1u32..4) {
        let list: Vec<(u32, u32)> =
            weights.iter().enumerate().map(|(at, weight)| (100 + 10 * at as u32, weight * factor)).collect();
        let divisor = weights.iter().fold(0, |divisor, &weight| check::gcd(divisor, weight));
        let bag = (weights.iter().sum::<u32>() / divisor) as usize;
        let spec = GeneratorSpec { sizes: Sizes::Weighted(list.clone()), ..GeneratorSpec::default() };
        for frames in frames(&spec, bag * 5).chunks(bag) {
            for (&(size, _), &weight) in list.iter().zip(&weights) {
                let found = frames.iter().filter(|frame| frame.len() as u32 + 4 == size).count();
                prop_assert_eq!(found as u32, weight / divisor);
            }
        }
    }
}

proptest! {
    // Each case polls thousands of times.
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    /// Packets that come and packets that are lost follow the rate, however late and in whatever portions a
    /// worker asks.
    #[test]
    fn packets_and_losses_follow_the_rate(
        rate in 1.0f64..40e6, portions in prop::collection::vec((1u64..400_000, 0usize..300), 1..200)
    ) {
        let spec = GeneratorSpec {
            load: Load::Even { flows: 5, rate: Rate::PerSecond(rate) }, ..GeneratorSpec::default()
        };
        let (mut queue, mut stack) = (open_one(&spec), stack(512));
        let start = 12_345;
        let mut now = start;
        prop_assert!(receive(&mut *queue, now, &mut stack, 32).is_empty());
        for (pause, room) in portions {
            now += pause;
            receive(&mut *queue, now, &mut stack, room);
        }
        let offered = (now - start) as f64 * rate / HERTZ as f64;
        let counters = queue.counters();
        let left = offered - (counters.received + counters.missed) as f64;
        prop_assert!((-0.01..1025.01).contains(&left), "{} left of {}", left, offered);
    }

    /// Classes keep their own rates, on one queue as on several.
    #[test]
    fn classes_have_their_rates(
        classes in prop::collection::vec((1u32..50, 1e3f64..2e6), 1..6), queues in 1u16..4
    ) {
        let spec = GeneratorSpec {
            load: Load::Classes(classes.iter().map(|&(flows, rate)| Class { flows, rate }).collect()),
            sizes: Sizes::Fixed(128),
            ..GeneratorSpec::default()
        };
        let mut stack = stack(256);
        let mut found = vec![0u32; classes.len()];
        let seconds = 0.01;
        for mut queue in open(&spec, &setting(queues)).unwrap() {
            for now in (0..=(seconds * HERTZ as f64) as u64).step_by(25_000) {
                for frame in receive(&mut *queue, now, &mut stack, 256) {
                    let flow = Stamp::find(&frame, frame.len()).unwrap().flow;
                    let mut end = 0;
                    let class = classes.iter().position(|&(flows, _)| { end += flows; flow < end });
                    found[class.unwrap()] += 1;
                }
            }
            prop_assert_eq!(queue.counters().missed, 0);
        }
        for (&(_, rate), &found) in classes.iter().zip(&found) {
            let wanted = rate * seconds;
            prop_assert!((wanted - f64::from(found)).abs() <= 1.1 * f64::from(queues), "{found} of {wanted}");
        }
    }
}

#[test]
fn imix_is_7_to_4_to_1() {
    let spec = GeneratorSpec { sizes: Sizes::Imix, ..GeneratorSpec::default() };
    let mut counts = BTreeMap::new();
    for frame in frames(&spec, 1200) {
        *counts.entry(frame.len() + 4).or_insert(0) += 1;
    }
    assert_eq!(counts, BTreeMap::from([(64, 700), (594, 400), (1518, 100)]));

    let v6 = GeneratorSpec {
        source: "2001:db8::1".parse().unwrap(),
        destination: "2001:db8::2".parse().unwrap(),
        ..spec
    };
    let shortest = frames(&v6, 12).iter().map(Vec::len).min();
    assert_eq!(shortest, Some(66 - 4), "UDP over IPv6 does not fit 64 bytes");
}

#[test]
fn a_64_byte_packet_is_60_bytes_in_its_buffer_and_stamped() {
    let frame = frames(&GeneratorSpec::default(), 1).remove(0);
    assert_eq!(frame.len(), 60);
    assert!(Stamp::find(&frame, 60).is_some());
}

#[test]
fn random_flows_are_spread() {
    let spec = GeneratorSpec { load: even(16), selection: Selection::Random, ..GeneratorSpec::default() };
    let mut counts = BTreeMap::new();
    for frame in frames(&spec, 16_000) {
        *counts.entry(read(&frame).source).or_insert(0u32) += 1;
    }
    // 1,000 expected with a deviation of 31: seven deviations.
    assert!(counts.len() == 16 && counts.values().all(|&count| count.abs_diff(1000) < 217), "{counts:?}");
}

#[test]
fn steps_change_the_rate_at_their_time() {
    let step = |ms, rate| RateStep { at: Duration::from_millis(ms), rate };
    let spec = GeneratorSpec {
        load: Load::Even { flows: 1, rate: Rate::PerSecond(1e6) },
        steps: vec![
            step(10, Rate::PerSecond(2e6)),
            step(20, Rate::PerSecond(0.0)),
            step(30, Rate::Unlimited),
            step(40, Rate::PerSecond(1e5)),
        ],
        ..GeneratorSpec::default()
    };
    let (mut queue, mut stack) = (open_one(&spec), stack(64));
    let start = 1 << 40;
    let mut counts = [0; 5];
    // 20,000 cycles are 8 us; asked 1,250 times in each 10 ms.
    for pass in 0..6_250 {
        let got = receive(&mut *queue, start + pass * 20_000, &mut stack, 32).len();
        counts[pass as usize / 1_250] += got;
    }
    let close = |count: usize, wanted: usize| count.abs_diff(wanted) <= 24;
    assert!(close(counts[0], 10_000) && close(counts[1], 20_000), "{counts:?}");
    assert!(counts[2] <= 16, "{counts:?}");
    assert_eq!(counts[3], 1_250 * 32);
    assert!(close(counts[4], 1_000), "{counts:?}");
}

#[test]
fn a_late_first_step_is_taken_at_its_own_time() {
    let spec = GeneratorSpec {
        load: Load::Even { flows: 1, rate: Rate::PerSecond(1e6) },
        steps: vec![RateStep { at: Duration::from_micros(100), rate: Rate::PerSecond(0.0) }],
        ..GeneratorSpec::default()
    };
    let (mut queue, mut stack) = (open_one(&spec), stack(256));
    receive(&mut *queue, 0, &mut stack, 1);
    assert_eq!(receive(&mut *queue, HERTZ, &mut stack, 256).len(), 100);
    assert_eq!(queue.counters().missed, 0);
}

#[test]
fn without_buffers_packets_wait_and_then_are_missed() {
    let spec = GeneratorSpec {
        load: Load::Even { flows: 1, rate: Rate::PerSecond(1e6) },
        ..GeneratorSpec::default()
    };
    let (mut queue, mut none) = (open_one(&spec), stack(1));
    let held = none.take().unwrap();
    receive(&mut *queue, 0, &mut none, 32);
    let microsecond = HERTZ / 1_000_000;
    assert!(receive(&mut *queue, 1_000 * microsecond, &mut none, 32).is_empty());
    assert_eq!(queue.counters().missed, 0, "a thousand packets wait");
    assert!(receive(&mut *queue, 3_000 * microsecond, &mut none, 32).is_empty());
    assert_eq!(queue.counters().missed, 3_000 - 1_024);
    none.give(held);
    assert_eq!(receive(&mut *queue, 3_000 * microsecond, &mut none, 32).len(), 1);
}

#[test]
fn what_is_sent_to_it_is_taken() {
    let (mut queue, mut stack) = (open_one(&GeneratorSpec::default()), stack(8));
    let mut burst = [Default::default(); 8];
    assert_eq!(queue.receive(0, &mut stack, &mut burst), 8);
    assert_eq!(queue.transmit(0, &mut stack, &burst), 8);
    assert_eq!(stack.len(), 8);
    let counters = queue.counters();
    assert_eq!((counters.sent, counters.sent_bytes), (8, 8 * 60));
    assert_eq!((counters.received, counters.received_bytes), (8, 8 * 60));
}

#[test]
fn errors_are_all_named_at_once() {
    let bad = GeneratorSpec {
        load: Load::Classes(vec![Class { flows: 0, rate: f64::NAN }]),
        steps: vec![
            RateStep { at: Duration::from_secs(2), rate: Rate::PerSecond(-1.0) },
            RateStep { at: Duration::from_secs(1), rate: Rate::Unlimited },
        ],
        sizes: Sizes::Weighted(vec![(10, 0), (9000, 5000), (100, 4999)]),
        source: "224.0.0.1".parse().unwrap(),
        destination: "2001:db8::1".parse().unwrap(),
        vlan: Some(4095),
        ..GeneratorSpec::default()
    };
    let fields: Vec<&str> = bad.errors(2048).iter().map(|error| error.field).collect();
    assert_eq!(
        fields,
        [
            "rates", "rates", "flows", "steps", "steps", "size", "size", "sizes", "sizes", "source",
            "source", "vlan"
        ]
    );
    let Err(SpecErrors { port, errors }) = open(&bad, &setting(1)) else {
        panic!("a wrong specification was opened")
    };
    assert_eq!((port.as_str(), errors.len()), ("test", fields.len()));
}

#[test]
fn every_limit_has_its_mistake() {
    let spec = GeneratorSpec::default;
    let classes = |count, rate| Load::Classes(vec![Class { flows: 1, rate }; count]);
    let two_and_unlimited = GeneratorSpec {
        load: classes(2, 1.0),
        steps: vec![RateStep { at: Duration::ZERO, rate: Rate::Unlimited }],
        ..spec()
    };
    for (field, bad) in [
        ("flows", GeneratorSpec { load: even(0), ..spec() }),
        ("flows", GeneratorSpec { load: even((1 << 24) + 1), ..spec() }),
        (
            "rate",
            GeneratorSpec { load: Load::Even { flows: 1, rate: Rate::PerSecond(f64::INFINITY) }, ..spec() },
        ),
        ("rates", GeneratorSpec { load: classes(65, 1.0), ..spec() }),
        ("rates", GeneratorSpec { load: classes(1, 0.0), ..spec() }),
        ("steps", two_and_unlimited),
        ("size", GeneratorSpec { sizes: Sizes::Fixed(63), ..spec() }),
        ("size", GeneratorSpec { sizes: Sizes::Fixed(2053), ..spec() }),
        (
            "size",
            GeneratorSpec {
                sizes: Sizes::Fixed(64),
                vlan: Some(1),
                transport: Transport::Tcp,
                source: "2001:db8::1".parse().unwrap(),
                destination: "2001:db8::2".parse().unwrap(),
                ..spec()
            },
        ),
        ("sizes", GeneratorSpec { sizes: Sizes::Weighted(Vec::new()), ..spec() }),
        ("source", GeneratorSpec { source: "255.255.255.255".parse().unwrap(), load: even(2), ..spec() }),
        ("vlan", GeneratorSpec { vlan: Some(0), ..spec() }),
    ] {
        let errors = bad.errors(2048);
        assert!(errors.iter().any(|error| error.field == field), "{field}: {errors:?}");
    }
    assert_eq!(GeneratorSpec { sizes: Sizes::Fixed(2052), ..spec() }.errors(2048), []);
    assert_eq!(GeneratorSpec { load: even(1 << 24), ..spec() }.errors(2048), []);
}

#[test]
fn a_stamp_reads_as_it_was_written() {
    let stamp = Stamp { sequence: 0xdead_beef, flow: 0x00ab_cdef, source: 0x12, cycles: 0xffff_1234_5678 };
    assert_eq!(Stamp::read(&stamp.to_bytes()), Some(stamp));
    assert_eq!(stamp.age(0x0001_ffff_1234_5679), 1);
    assert_eq!(stamp.age(5), 5 + (1 << 48) - 0xffff_1234_5678);
    let mut other = stamp.to_bytes();
    other[0] ^= 1;
    assert_eq!(Stamp::read(&other), None);
}
