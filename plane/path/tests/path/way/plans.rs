//! The plan changes while packets are on their way.

use headgate_path::BURST;
use headgate_path::plan::{Chain, Exit, PortPlace, Senders};
use headgate_path::rules::Rules;
use headgate_shm::Verdict;
use headgate_units::{PortId, WorkerId};

use crate::harness::World;
use crate::harness::frames::{assert_same_flows, interleaved};
use crate::harness::layout::{HERE, Layout, from_port, to_chain};

fn everything_to(chain: u16) -> Rules {
    Rules::new(&[to_chain(chain)])
}

/// Returns chains 1 and 2, through NFs 0-1 and 1-0, to ports 1 and 2.
fn world() -> World {
    let layout = Layout::plain().port(HERE).nf("a", &[HERE]).nf("b", &[HERE]);
    let layout = layout.chain(&[0, 1], Exit::Port(PortId(1))).chain(&[1, 0], Exit::Port(PortId(2)));
    World::new(layout.default_chain(1))
}

#[test]
fn new_rules_hold_for_new_packets_of_known_flows() {
    let mut world = world();
    let old = interleaved(0..10, 0..20);
    world.offer(0, &old);
    world.pass_of(0);
    world.replan(|parts| {
        parts.generation += 1;
        parts.rules = everything_to(2);
    });
    world.settle();
    assert_same_flows(&old[..BURST], &world.sent(1));
    assert_same_flows(&old[BURST..], &world.sent(2));
    assert_eq!((world.entered(1), world.entered(2)), (BURST as u64, 200 - BURST as u64));
    assert_eq!(world.boards[0].flows_learnt.get(), 20);
    world.finish();
}

#[test]
fn a_plan_with_the_same_rules_asks_nothing_again() {
    let mut world = world();
    world.offer(0, &interleaved(0..10, 0..2));
    world.settle();
    world.replan(|_| ());
    world.offer(0, &interleaved(0..10, 2..4));
    world.settle();
    assert_eq!(world.boards[0].flows_learnt.get(), 10);
    assert_eq!(world.sent(1).len(), 40);
    world.finish();
}

#[test]
fn packets_of_a_removed_chain_end_and_others_stay() {
    let mut world = world();
    world.replan(|parts| parts.rules = Rules::new(&[from_port(0, 1), from_port(1, 2)]));
    let others = interleaved(10..20, 0..6);
    world.offer(0, &interleaved(0..10, 0..6));
    world.offer(1, &others);
    world.pass_of(0);
    // The same generation: flow entries still name the chain, as they do in a pass that was faster.
    world.replan(|parts| parts.chains[1] = None);
    world.offer(0, &interleaved(0..10, 6..8));
    world.settle();
    assert_eq!(world.drops(1), [("chain-removed", 80)].into());
    assert_same_flows(&others, &world.sent(2));
    world.finish();
}

/// Rules are asked, and their hits counted, once for a flow and not for its packets.
#[test]
fn a_rule_is_hit_once_by_each_flow() {
    let mut world = world();
    world.offer(0, &interleaved(0..10, 0..6));
    world.settle();
    let hits = world.parts.rules.hits();
    assert_eq!(hits.iter().sum::<u64>(), 10, "{hits:?}");
    world.offer(0, &interleaved(5..12, 6..9));
    world.settle();
    assert_eq!(world.parts.rules.hits().iter().sum::<u64>(), 12);
    world.finish();
}

/// A chain that became shorter: packets beyond its new end leave where it ends now, not where some other
/// chain would send them.
#[test]
fn packets_beyond_the_end_of_a_changed_chain_leave_it() {
    for chain in [1u16, 2] {
        let mut world = world();
        world.replan(|parts| parts.rules = everything_to(chain));
        let offered = interleaved(0..1, 0..20);
        world.offer(0, &offered);
        world.pass();
        world.pass_of(0);
        let second = world.parts.chains[chain as usize].as_ref().unwrap().stages[1].index();
        assert_eq!(world.boards[0].instances[second].held.get(), 20, "they are at position 1");
        world.replan(|parts| {
            let exit = Exit::Port(PortId(chain));
            parts.chains[chain as usize] = Some(Chain {
                name: "short".into(),
                stages: vec![],
                exit,
                delay_bound_us: None,
                committed: false,
                path: None,
                across: None,
            });
        });
        world.settle();
        assert_same_flows(&offered, &world.sent(chain as usize));
        world.finish();
    }
}

/// A new plan may know more ports than the worker was started with; an NF may name any of them.
#[test]
fn a_port_nobody_serves_yet_loses_its_packets_and_nothing_else() {
    let mut world = world();
    let unserved =
        PortPlace { worker_for: vec![WorkerId(0)], service_address: None, senders: Senders::Anybody };
    world.replan(|parts| parts.ports.push(unserved.clone()));
    world.on(0, Box::new(|_, packet| packet.with_verdict(Verdict::Port(3))));
    world.offer(0, &interleaved(0..1, 0..20));
    world.settle();
    assert_eq!(world.drops(1).values().sum::<u64>(), 20);
    world.finish();
}

#[test]
fn a_removed_stage_is_down() {
    let mut world = world();
    world.replan(|parts| parts.stages[1] = None);
    world.kill(1);
    world.offer(0, &interleaved(0..1, 0..20));
    world.settle();
    assert_eq!(world.drops(1), [("stage-down", 20)].into());
    world.finish();
}

/// Chain 2 comes and goes in every pass while packets of many flows are on their way.
#[test]
fn a_storm_of_plans_loses_only_what_was_addressed_to_the_removed() {
    let mut world = world();
    let chain = world.parts.chains[2].clone();
    let (mut stays, mut comes_and_goes) = (Vec::new(), 0);
    for round in 0..60u32 {
        let frames = interleaved(0..8, round * 4..round * 4 + 4);
        world.offer(0, &frames);
        world.offer(1, &frames);
        comes_and_goes += frames.len();
        stays.extend(frames);
        world.replan(|parts| {
            parts.rules = Rules::new(&[from_port(0, 1), from_port(1, 2)]);
            parts.chains[2] = (round % 5 != 4).then(|| chain.clone().unwrap());
            parts.generation += round % 2;
        });
        world.pass();
        world.check();
    }
    world.settle();
    assert_same_flows(&stays, &world.sent(1));
    let removed = world.drops(2)["chain-removed"];
    assert_eq!(world.sent(2).len() as u64 + removed, comes_and_goes as u64);
    assert!(0 < removed && removed < comes_and_goes as u64);
    world.finish();
}
