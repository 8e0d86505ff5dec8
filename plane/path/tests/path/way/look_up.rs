//! Look-ups: what a worker says of a packet is what becomes of one that comes, and asking changes nothing.

use std::collections::BTreeMap;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};

use headgate_decide::spread;
use headgate_path::classify::LookedUp;
use headgate_path::drop::DropReason;
use headgate_path::holders::Entrance;
use headgate_path::plan::{Exit, Parts};
use headgate_path::rules::{Rule, Rules};
use headgate_path::worker::Command;
use headgate_units::{ChainId, InstanceId, PortId};
use headgate_wire::MalformedError;

use crate::harness::World;
use crate::harness::frames::{interleaved, label, malformed, other, udp4, udp6};
use crate::harness::layout::{HERE, Layout};

const FLOWS: u32 = 100;

fn look_up(world: &mut World, port: u16, frame: Vec<u8>) -> Result<LookedUp, MalformedError> {
    let (reply, answer) = channel();
    world.mailboxes[0].post(Command::LookUp { port: PortId(port), frame, reply });
    world.pass();
    answer.recv().unwrap()
}

/// One NF with four instances in two chains, of which the second is for IPv6.
fn world() -> World {
    let layout = Layout::plain().nf("nf", &[HERE; 4]);
    let layout = layout.chain(&[0], Exit::Port(PortId(1))).chain(&[0], Exit::Port(PortId(1)));
    let v6 = Rule { ethertype: Some(0x86dd), chain: ChainId(2), ..Rule::default() };
    let v4 = Rule { ethertype: Some(0x0800), chain: ChainId(1), ..Rule::default() };
    World::new(layout.rule(v6).rule(v4))
}

/// The instance that the plan has for a hash.
fn owner(parts: &Parts, hash: u32) -> u16 {
    parts.stages[0].as_ref().unwrap().table[spread::slot(hash)].0
}

#[test]
fn what_is_said_is_what_comes_to_pass() {
    let mut world = world();
    let frame = |flow: u32| if flow.is_multiple_of(2) { udp4(flow, 0) } else { udp6(flow, 0) };
    let mut said = BTreeMap::new();
    for flow in 0..FLOWS {
        let found = look_up(&mut world, 0, frame(flow)).unwrap();
        assert_eq!(found.known, None, "flow {flow} has not come yet");
        assert_eq!(found.by_rules, Some(Entrance::head(ChainId(1 + (flow % 2) as u16))));
        said.insert(flow, owner(&world.parts, found.spread));
    }
    let seen: Arc<Mutex<BTreeMap<u32, u16>>> = Arc::default();
    for number in 0..4 {
        let seen = seen.clone();
        world.on(
            number,
            Box::new(move |region, packet| {
                let mut frame = vec![0; packet.length() as usize];
                region.read(packet, &mut frame);
                seen.lock().unwrap().insert(label(&frame).flow, number);
                packet.with_tag(0)
            }),
        );
    }
    let frames: Vec<_> = (0..FLOWS).map(frame).collect();
    world.offer(0, &frames);
    world.settle();
    assert_eq!(*seen.lock().unwrap(), said);
    assert_eq!((world.entered(1), world.entered(2)), (50, 50), "questions are no packets");
    world.finish();
}

#[test]
fn the_table_is_told_apart_from_the_rules() {
    let mut world = world();
    world.offer(0, &[udp4(7, 0)]);
    world.settle();
    let found = look_up(&mut world, 0, udp4(7, 1)).unwrap();
    let (entry, _) = found.known.unwrap();
    assert_eq!((entry.entrance, entry.spread), (Entrance::head(ChainId(1)), found.spread));
    assert_eq!(look_up(&mut world, 1, udp4(7, 1)).unwrap().known, None, "by another port it is another flow");
    // Other rules are a new generation: what the table says counts no more.
    world.replan(|parts| {
        parts.generation += 1;
        parts.rules = Rules::new(&[Rule { chain: ChainId(2), ..Rule::default() }]);
    });
    let found = look_up(&mut world, 0, udp4(7, 1)).unwrap();
    assert_eq!((found.known, found.by_rules), (None, Some(Entrance::head(ChainId(2)))));
    world.finish();
}

#[test]
fn what_would_end_at_the_head_is_told() {
    let layout = Layout::plain().ring(256).pressure(128).nf("nf", &[HERE; 2]);
    let mut world = World::new(layout.chain(&[0], Exit::Port(PortId(1))).default_chain(1));
    let said = |world: &mut World, flow: u32| {
        let found = look_up(world, 0, udp4(flow, 0)).unwrap();
        (owner(&world.parts, found.spread), found.turned_away)
    };
    let flows: Vec<(u16, Option<DropReason>)> = (0..8).map(|flow| said(&mut world, flow)).collect();
    assert!(flows.iter().all(|(_, reason)| reason.is_none()), "{flows:?}");
    // Instance 1 works, and instance 0 does not.
    for pass in 0..60 {
        world.offer(0, &interleaved(0..8, pass * 8..pass * 8 + 8));
        world.pass_of(0);
        world.nf(1).step();
    }
    assert!(world.signals.pressure.is_throttled(InstanceId(0)));
    for (flow, (owner, _)) in (0..8).zip(flows) {
        let (reply, answer) = channel();
        world.mailboxes[0].post(Command::LookUp { port: PortId(0), frame: udp4(flow, 0), reply });
        world.pass_of(0);
        let reason = answer.recv().unwrap().unwrap().turned_away;
        assert_eq!(reason, (owner == 0).then_some(DropReason::Throttled), "flow {flow} of instance {owner}");
    }
    world.set_running(0, &[]);
    assert_eq!(said(&mut world, 1).1, Some(DropReason::StageDown));
}

#[test]
fn frames_without_a_rule_and_malformed_ones_are_told() {
    let mut world = world();
    let found = look_up(&mut world, 0, other(0x0806, 1, 0)).unwrap();
    assert_eq!((found.known, found.by_rules), (None, None));
    assert!(look_up(&mut world, 0, malformed(1, 0)).is_err());
    assert!(look_up(&mut world, 0, Vec::new()).is_err());
    world.finish();
}
