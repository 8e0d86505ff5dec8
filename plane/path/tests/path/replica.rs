//! A group on three nodes: nothing is lost, doubled or contradicted when the active one ends.

mod lengths;
mod random;
mod times;
mod trains;
mod trio;
mod witness;

use std::collections::{BTreeMap, BTreeSet};

use headgate_decide::replicate::{NodeId, Peer};
use headgate_path::replica::{Command as Order, Refusal};
use headgate_wire::replica::{Body, ETHERTYPE, Header, Kind, Message, Part};

use crate::harness::frames::{interleaved, label, udp4};
use trio::{GROUP, LEFT, Nfs, RIGHT, STATE_BYTES, Trio};
use witness::{Kept, written};

/// One chain over one NF.
fn one_lane() -> Nfs {
    Nfs { count: 1, chains: vec![vec![0]], drops: None, shows_time: false }
}

/// Two chains that meet at two NFs, in opposite directions.
fn both_ways(drops: Option<u32>) -> Nfs {
    Nfs { count: 2, chains: vec![vec![0, 1], vec![1, 0]], drops, shows_time: false }
}

/// Offers packets `from..to` of each of some flows, a few at a time, with passes in between.
fn offer(trio: &mut Trio, port: usize, flows: std::ops::Range<u32>, packets: std::ops::Range<u32>) {
    for sequence in packets {
        trio.gate.world.offer(port, &interleaved(flows.clone(), sequence..sequence + 1));
        trio.pass();
    }
}

/// What left the gate by a port.
fn out(trio: &Trio, port: usize) -> Vec<Vec<u8>> {
    trio.gate.world.sent(port)
}

/// What a single copy, which never failed, makes of packets in one lane.
fn single_copy(offered: &[Vec<u8>]) -> Vec<(Vec<u8>, [u32; 2])> {
    let mut kept = Kept::default();
    offered.iter().map(|frame| (frame.clone(), kept.see(label(frame).flow))).collect()
}

#[track_caller]
fn assert_as_unfailed(offered: &[Vec<u8>], left: &[Vec<u8>]) {
    let expected = single_copy(offered);
    let labels: Vec<_> = left.iter().map(|frame| label(frame)).collect();
    assert_eq!(labels, offered.iter().map(|frame| label(frame)).collect::<Vec<_>>(), "what left, in order");
    for ((frame, words), left) in expected.iter().zip(left) {
        assert_eq!(*words, written(left), "what the witness had seen by packet {:?}", label(frame));
        // All but what the witness writes is as it came.
        assert_eq!((&frame[..42], &frame[50..]), (&left[..42], &left[50..]));
    }
}

#[test]
fn outputs_leave_when_the_standby_knows() {
    let mut trio = Trio::new(one_lane(), 1);
    trio.protected();
    let offered = interleaved(0..3, 0..50);
    offer(&mut trio, 0, 0..3, 0..50);
    let mut left = out(&trio, 1);
    trio.until("all leave", |trio| {
        left.extend(out(trio, 1));
        left.len() >= offered.len()
    });
    assert_as_unfailed(&offered, &left);
    trio.check();
    // A checkpoint lets the gate forget them.
    trio.until("the log is empty", |trio| trio.gate.board.in_log.get() == 0);
    assert!(trio.node(RIGHT).board.epoch.get() > 0);
    trio.check();
}

#[test]
fn nothing_leaves_that_a_silent_standby_does_not_know() {
    let mut trio = Trio::new(one_lane(), 2);
    trio.protected();
    // The standby's process is there, but nothing comes from it or to it.
    let standby = trio.nodes[RIGHT].take();
    offer(&mut trio, 0, 0..3, 0..10);
    (0..200).for_each(|_| trio.pass());
    assert_eq!(out(&trio, 1).len(), 0, "{}", trio.describe());
    assert_eq!(trio.node(LEFT).board.in_latch.get(), 30);
    trio.check();
    // The gate hears that it does not answer, and lets the active node go on alone.
    let mut left = Vec::new();
    trio.until("it goes on alone", |trio| {
        left.extend(out(trio, 1));
        left.len() == 30
    });
    assert_as_unfailed(&interleaved(0..3, 0..10), &left);
    assert_eq!(trio.node(LEFT).board.role.get(), 3);
    drop(standby);
}

/// Frames by lane.
type Lanes = [Vec<Vec<u8>>; 2];

/// Kills the active node after so many passes of a flood, and returns what was offered and what left.
fn fail_over(nfs: Nfs, seed: u64, losses: u64) -> (Trio, Lanes, Lanes) {
    let lanes = nfs.chains.len();
    let mut trio = Trio::new(nfs, seed);
    trio.protected();
    (trio.losses, trio.doubles) = (losses, losses);
    let (mut offered, mut left) = ([Vec::new(), Vec::new()], [Vec::new(), Vec::new()]);
    let dies_at = 40 + trio.random.next() % 400;
    for round in 0..600_u32 {
        if u64::from(round) == dies_at {
            trio.kill(LEFT);
        }
        for (lane, offered) in offered.iter_mut().enumerate().take(lanes) {
            let some = trio.random.next() % 2;
            for number in 0..some as u32 {
                let frame = udp4(lane as u32 * 10 + (round + number) % 3, round * 4 + number);
                trio.gate.world.offer(lane, std::slice::from_ref(&frame));
                offered.push(frame);
            }
        }
        trio.pass();
        if round % 37 == 0 {
            trio.check();
        }
        (0..2).for_each(|lane| left[lane].extend(out(&trio, 1 - lane)));
    }
    (trio, offered, left)
}

#[test]
fn a_lane_goes_on_as_if_nothing_had_failed() {
    for seed in 0..12 {
        let (mut trio, offered, mut left) = fail_over(one_lane(), seed, 0);
        trio.until("all leave", |trio| {
            left[0].extend(out(trio, 1));
            left[0].len() >= offered[0].len()
        });
        assert_as_unfailed(&offered[0], &left[0]);
        assert_eq!(trio.node(RIGHT).board.role.get(), 3, "it is on its own");
        trio.check();
    }
}

/// Asserts that what left is what some single copy makes of what was offered: each packet once, in the order
/// of its lane, and what the last NF of each lane counted fits one order of all of them.
#[track_caller]
fn assert_one_history(offered: &Lanes, left: &Lanes, drops: Option<u32>) {
    // NF 1 is the last of lane 0 and the first of lane 1; NF 0 the other way round.
    for lane in 0..2 {
        let stays = |frame: &&Vec<u8>| drops.is_none_or(|every| !label(frame).sequence.is_multiple_of(every));
        let expected: Vec<_> = offered[lane].iter().filter(stays).map(|frame| label(frame)).collect();
        assert_eq!(left[lane].iter().map(|frame| label(frame)).collect::<Vec<_>>(), expected, "lane {lane}");
        let totals: Vec<u32> = left[lane].iter().map(|frame| written(frame)[0]).collect();
        assert!(totals.is_sorted_by(|one, other| one < other), "lane {lane}: {totals:?}");
        let mut flows = BTreeMap::<u32, u32>::new();
        for frame in &left[lane] {
            let [_, count] = written(frame);
            let last = flows.insert(label(frame).flow, count).unwrap_or(0);
            assert!(count > last, "lane {lane}: a flow's count fell");
            assert!(drops.is_some() || count == last + 1, "lane {lane}: a flow's count skipped");
        }
    }
}

#[test]
fn lanes_that_meet_go_on_as_if_nothing_had_failed() {
    for seed in 0..12 {
        let drops = (seed % 2 == 1).then_some(5);
        let (mut trio, offered, mut left) = fail_over(both_ways(drops), 100 + seed, 0);
        let stay = |lane: usize| {
            let stays =
                |frame: &&Vec<u8>| drops.is_none_or(|every| !label(frame).sequence.is_multiple_of(every));
            offered[lane].iter().filter(stays).count()
        };
        trio.until("all leave", |trio| {
            (0..2).for_each(|lane| left[lane].extend(out(trio, 1 - lane)));
            (0..2).all(|lane| left[lane].len() >= stay(lane))
        });
        assert_one_history(&offered, &left, drops);
        // Both NFs saw everything that came to them exactly once.
        let last = |lane: usize| left[lane].iter().map(|frame| written(frame)[0]).max().unwrap_or(0);
        let all = (offered[0].len() + offered[1].len()) as u32;
        assert!(last(0) <= all && last(1) <= all);
        trio.check();
    }
}

#[test]
fn a_link_that_loses_and_doubles_delays_and_loses_nothing() {
    for seed in 0..9 {
        let losses = [5, 15, 30][seed as usize % 3];
        let (mut trio, offered, mut left) = fail_over(both_ways(None), 200 + seed, losses);
        trio.until("all leave", |trio| {
            (0..2).for_each(|lane| left[lane].extend(out(trio, 1 - lane)));
            (0..2).all(|lane| left[lane].len() >= offered[lane].len())
        });
        (0..200).for_each(|_| trio.pass());
        // Every one, once, in order, and of one history.
        for lane in 0..2 {
            left[lane].extend(out(&trio, 1 - lane));
            let labels = |frames: &[Vec<u8>]| frames.iter().map(|frame| label(frame)).collect::<Vec<_>>();
            assert_eq!(labels(&left[lane]), labels(&offered[lane]), "lane {lane} of seed {seed}");
            let totals: BTreeSet<u32> = left[lane].iter().map(|frame| written(frame)[0]).collect();
            assert_eq!(totals.len(), left[lane].len(), "no two outputs rest on one count");
        }
        let node = trio.node(RIGHT);
        let worked = |lane: usize| node.board.lanes[lane].finished.get() as usize;
        assert_eq!([worked(0), worked(1)], [offered[0].len(), offered[1].len()], "{}", trio.describe());
        trio.check();
    }
}

#[test]
fn a_node_comes_back_as_standby_and_takes_over_again() {
    let mut trio = Trio::new(both_ways(None), 7);
    trio.protected();
    let (mut sequence, mut left) = (0, [Vec::new(), Vec::new()]);
    let mut flood = |trio: &mut Trio, left: &mut [Vec<Vec<u8>>; 2]| {
        for _ in 0..150 {
            trio.gate.world.offer(0, &[udp4(1, sequence)]);
            trio.gate.world.offer(1, &[udp4(11, sequence)]);
            sequence += 1;
            trio.pass();
            (0..2).for_each(|lane| left[lane].extend(out(trio, 1 - lane)));
        }
    };
    for round in 0..4 {
        let dies = round % 2;
        flood(&mut trio, &mut left);
        trio.kill(dies);
        flood(&mut trio, &mut left);
        trio.revive(dies);
        trio.protected();
        flood(&mut trio, &mut left);
        trio.check();
    }
    trio.until("all leave", |trio| {
        (0..2).for_each(|lane| left[lane].extend(out(trio, 1 - lane)));
        (0..2).all(|lane| left[lane].len() == 12 * 150)
    });
    for (lane, left) in left.iter().enumerate() {
        let numbers: Vec<u32> = left.iter().map(|frame| label(frame).sequence).collect();
        assert_eq!(numbers, (0..12 * 150).collect::<Vec<_>>(), "lane {lane}");
        let counts: Vec<u32> = left.iter().map(|frame| written(frame)[1]).collect();
        assert_eq!(counts, (1..=12 * 150).collect::<Vec<_>>(), "state went through four failures");
    }
    trio.check();
}

#[test]
fn a_hand_over_loses_and_replays_nothing() {
    let mut trio = Trio::new(both_ways(None), 8);
    trio.protected();
    let mut left = [Vec::new(), Vec::new()];
    for sequence in 0..400 {
        trio.gate.world.offer(0, &[udp4(1, sequence)]);
        trio.gate.world.offer(1, &[udp4(11, sequence)]);
        if sequence == 120 {
            trio.gate.order(Order::HandOver(true));
        }
        trio.pass();
        (0..2).for_each(|lane| left[lane].extend(out(&trio, 1 - lane)));
    }
    trio.until("all leave", |trio| {
        (0..2).for_each(|lane| left[lane].extend(out(trio, 1 - lane)));
        (0..2).all(|lane| left[lane].len() == 400)
    });
    for left in &left {
        let counts: Vec<u32> = left.iter().map(|frame| written(frame)[1]).collect();
        assert_eq!(counts, (1..=400).collect::<Vec<_>>());
    }
    assert_eq!(trio.gate.board.doubled.get(), 0, "nothing was worked on twice");
    trio.until("the other one is active", |trio| trio.node(RIGHT).board.role.get() == 2);
    assert_eq!(trio.node(LEFT).board.role.get(), 4, "{}", trio.describe());
    trio.check();
}

#[test]
fn an_active_node_that_is_behind_has_packets_shed_at_the_gate() {
    let mut trio = Trio::new(one_lane(), 9);
    trio.protected();
    // Its NF works on nothing.
    trio.nodes[LEFT].as_mut().unwrap().world.nfs.get_mut(&0).unwrap().naps = true;
    let stuck = trio.nodes[LEFT].as_mut().unwrap().world.nfs.remove(&0).unwrap();
    for round in 0..200 {
        trio.gate.world.offer(0, &interleaved(0..6, round..round + 1));
        trio.pass();
    }
    let gate = &trio.gate.world;
    let drops = gate.drops(1);
    let shed = drops.get("uncommitted").copied().unwrap_or(0) + drops.get("log-full").copied().unwrap_or(0);
    assert!(shed > 0 && gate.entered(1) - shed <= trio::LOG, "{drops:?}");
    assert_eq!(trio.node(LEFT).world.drops(1), [].into(), "nothing ends behind its clock");
    trio.check();
    trio.nodes[LEFT].as_mut().unwrap().world.nfs.insert(0, stuck);
    trio.until("the log is empty", |trio| trio.gate.board.in_log.get() == 0);
    trio.check();
}

/// Returns a frame between nodes, as an honest node makes it.
fn frame(header: Header, message: &Message) -> Vec<u8> {
    let mut body = vec![0; 4096];
    let length = message.write(&mut body).unwrap();
    let body = &body[..length];
    let stated = if header.kind.has_packet() { Body::Packet(length) } else { Body::Bytes(body) };
    [&[2; 12][..], &ETHERTYPE.to_be_bytes(), &header.bytes(stated).unwrap(), body].concat()
}

#[test]
fn what_nobody_of_the_group_would_send_is_refused_by_name_and_changes_nothing() {
    let mut trio = Trio::new(both_ways(None), 10);
    trio.protected();
    offer(&mut trio, 0, 0..2, 0..20);
    let ack = |group| frame(Header::of(Kind::Ack, group, 1), &Message::Ack { seq: u64::MAX });
    let (mut flipped, mut version) = (ack(GROUP), ack(GROUP));
    *flipped.last_mut().unwrap() ^= 1;
    version[14] = 9;
    let part = |offset, total, bytes| Message::Part(Part { offset, total, bytes });
    let state = |seq, part: &Message| frame(Header { seq, ..Header::of(Kind::State, GROUP, 1) }, part);
    let data = |view, lane, clock| {
        let header = Header { lane, clock, ..Header::of(Kind::Data, GROUP, view) };
        frame(header, &Message::Packet(&[7; 60]))
    };
    let huge = state(u32::MAX, &part(0, STATE_BYTES + 1, &[0; 1460]));
    let frames = [
        (ack(GROUP + 1), Refusal::ForeignGroup),
        (flipped, Refusal::Crc),
        (version, Refusal::Version),
        (ack(GROUP)[..40].to_vec(), Refusal::Malformed),
        (huge, Refusal::Malformed),
        (state(0, &part(0, 4, &[0; 4])), Refusal::StaleEpoch),
        (data(1, 9, 1), Refusal::ForeignGroup),
        (data(7, 0, 1), Refusal::ForeignView),
    ];
    let refused = |trio: &Trio, refusal: Refusal| trio.node(RIGHT).board.refused[refusal as usize].get();
    for (frame, refusal) in frames {
        let before = refused(&trio, refusal);
        trio.node(RIGHT).inject(Peer::Node(NodeId(0)), frame);
        trio.pass();
        assert_eq!(refused(&trio, refusal), before + 1, "{}", refusal.name());
    }
    // Clocks that are not next are not taken, whoever sent them.
    let gaps = trio.node(LEFT).board.refused[Refusal::Gap as usize].get();
    trio.node(LEFT).inject(Peer::Gate, data(1, 0, 1 << 40));
    trio.node(LEFT).inject(Peer::Gate, data(1, 0, 1));
    trio.pass();
    assert_eq!(trio.node(LEFT).board.refused[Refusal::Gap as usize].get(), gaps + 1);
    // Any bytes at all, to everybody.
    for _ in 0..500 {
        let length = 14 + (trio.random.next() % 80) as usize;
        let mut bytes: Vec<u8> = (0..length).map(|_| trio.random.next() as u8).collect();
        bytes[12..14].copy_from_slice(&ETHERTYPE.to_be_bytes());
        trio.gate.inject(Peer::Node(NodeId(0)), bytes.clone());
        trio.node(LEFT).inject(Peer::Gate, bytes.clone());
        trio.node(RIGHT).inject(Peer::Node(NodeId(0)), bytes);
        trio.pass();
    }
    trio.kill(LEFT);
    offer(&mut trio, 0, 0..2, 20..40);
    let mut left = Vec::new();
    trio.until("all leave", |trio| {
        left.extend(out(trio, 1));
        left.len() >= 80
    });
    let offered: Vec<_> = interleaved(0..2, 0..40).iter().map(|frame| label(frame)).collect();
    assert_eq!(left.iter().map(|frame| label(frame)).collect::<Vec<_>>(), offered);
    trio.check();
}
