//! Time of a group: the gate's, for every node.

use super::trio::{BEGAN_US, LEFT, Nfs, Trio, WALL_US};
use super::witness::written;
use super::{both_ways, out};
use crate::harness::frames::udp4;
use crate::harness::{PASS_TICKS, TICKS_PER_MICRO};

#[test]
fn a_packet_has_the_time_at_which_it_came_to_the_gate_wherever_and_whenever_it_is_worked_on() {
    for seed in 0..6 {
        let mut trio = Trio::new(Nfs { shows_time: true, ..both_ways(None) }, 300 + seed);
        trio.protected();
        trio.losses = 10;
        // The gate's clock goes on faster than the others', and what is sent again is sent later.
        let (mut expected, mut left) = (Vec::new(), Vec::new());
        for round in 0..300_u32 {
            trio.gate.world.now += TICKS_PER_MICRO * (trio.random.next() % 3000);
            trio.gate.world.offer(0, &[udp4(1, round)]);
            // As it is when the next pass stamps the packet.
            let now = (trio.gate.world.now + PASS_TICKS) / TICKS_PER_MICRO;
            expected.push(((WALL_US + now - BEGAN_US) / 1000) as u32);
            if round == 150 {
                trio.kill(LEFT);
            }
            trio.pass();
            left.extend(out(&trio, 1));
        }
        trio.until("all leave", |trio| {
            left.extend(out(trio, 1));
            left.len() >= expected.len()
        });
        let times: Vec<u32> = left.iter().map(|frame| written(frame)[1]).collect();
        assert_eq!(times, expected, "seed {seed}");
        trio.check();
    }
}
