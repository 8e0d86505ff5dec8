//! The table of one stage of a chain at a node of a running network: which of the nodes that serve it has
//! each slot, period after period.
//!
//! The problem: [`slots`](super::slots) fills a table and [`redirect`](super::redirect) moves flows of it,
//! and a node has to know when it does which, and what becomes of the table when a server is lost or comes
//! back.
//!
//! The intuition: *where flows stay* because the packet path keeps known ones at their server
//! ([`State::Kept`]), a slot's server is for new flows alone, so the table moves towards a fresh one each
//! period and nothing is lost by it. *Where they may move* the slot is the flow: the table stays, a slot
//! without packets takes a fresh server, and others are moved by redirection, a slot being a flow of its
//! rate.
//!
//! The threshold: that of redirection. A lost server's slots go to the next cheapest at once; one that comes
//! back gets slots at the end of the period.
//!
//! What it refuses to do: leave a slot with a server that is lost while there is another.
//!
//! Source: dissertation, 9.2.2; the baselines are those of the simulator.

use alloc::vec::Vec;

use super::Owner;
use super::cost::cheapest;
use super::redirect::{FlowLoad, Redirection, State};
use super::slots::{MOVES_MAX, Pricing, SlotTable, TURNOVER, Toll, Traffic, Way, approach};
use crate::spread::SLOTS;
use crate::units::Instant;

/// Way of choosing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// By prices, with an eye on what a choice adds to them.
    #[default]
    Drench,
    /// The fewest hops.
    Nearest,
    /// Evenly among those of the fewest hops.
    Ecmp,
    /// The lowest price, wherever it is.
    LeastLoaded,
    /// Any.
    Random,
}

/// What the tables of a node go by.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// Way of choosing.
    pub mode: Mode,
    /// Price of a hop off the shortest way.
    pub off_path: f64,
    /// Gap of costs from which on flows move.
    pub theta: f64,
}

/// A node that serves the stage and is alive.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Server {
    /// Which.
    pub owner: Owner,
    /// Its core.
    pub core: Toll,
    /// Links on the way there.
    pub hops: f64,
    /// Hops by which the way over it is longer than the shortest.
    pub detour: f64,
}

/// Table of a stage, and what is known of its past.
#[derive(Clone, Debug)]
pub struct Sharing {
    table: SlotTable,
    redirection: Redirection,
    /// When each slot moved last.
    moved: [Option<Instant>; SLOTS],
    /// Servers that new flows may go to, as they were last.
    open: Vec<Owner>,
}

impl Default for Sharing {
    fn default() -> Self {
        let (table, moved) = ([None; SLOTS], [None; SLOTS]);
        Self { table, redirection: Redirection::default(), moved, open: Vec::new() }
    }
}

impl Sharing {
    /// Returns one that goes on with a table.
    #[must_use]
    pub fn with_table(table: SlotTable) -> Self {
        Self { table, ..Self::default() }
    }

    /// Returns the server of each slot; `None` where none is alive.
    #[must_use]
    pub const fn table(&self) -> &SlotTable {
        &self.table
    }

    /// Returns the servers that new flows may go to.
    #[must_use]
    pub fn open(&self) -> &[Owner] {
        &self.open
    }

    /// Follows who serves, and at the end of a period what it costs. `open` are those that new flows may go
    /// to. Returns how many slots had a server and have another now.
    pub fn settle(
        &mut self,
        (now, ends): (Instant, bool),
        rules: Rules,
        pricing: &mut Pricing,
        open: &[Server],
        (state, rates): (State, &[f64; SLOTS]),
    ) -> usize {
        let owners: Vec<Owner> = open.iter().map(|server| server.owner).collect();
        let comes = owners.iter().any(|owner| !self.open.contains(owner));
        let mut moved = 0;
        if owners != self.open {
            moved = self.on_servers(rules, pricing, open, rates.iter().sum());
            self.open = owners;
        }
        // One that comes is waited for, where there is load: it gets its part of new flows at once.
        if ends || comes {
            moved += self.on_period(now, rules, pricing, open, (state, rates));
        }
        moved
    }

    /// Takes in that servers were lost or came: slots of lost ones go to the next cheapest. `rate` is what
    /// the table's packets take, per second. Returns how many slots had a server and have another now.
    fn on_servers(&mut self, rules: Rules, pricing: &mut Pricing, servers: &[Server], rate: f64) -> usize {
        let before = self.table;
        let is_alive = |owner: Owner| servers.iter().any(|server| server.owner == owner);
        match rules.mode {
            Mode::Drench => {
                pricing.replace(&mut self.table, &ways(rules, servers), Traffic::Capped(rate), is_alive);
            }
            _ => {
                let fresh = fill(rules, pricing, servers);
                for (owner, fresh) in self.table.iter_mut().zip(fresh) {
                    *owner = owner.filter(|owner| is_alive(*owner)).or(fresh);
                }
            }
        }
        self.changed(&before)
    }

    /// Ends a period in which the slots had these rates, in packets per second. `state` is what becomes of a
    /// flow when its slot moves. Returns how many slots with packets have another server now.
    pub fn on_period(
        &mut self,
        now: Instant,
        rules: Rules,
        pricing: &mut Pricing,
        servers: &[Server],
        (state, rates): (State, &[f64; SLOTS]),
    ) -> usize {
        let before = self.table;
        if rules.mode != Mode::Drench {
            self.table = fill(rules, pricing, servers);
            return self.changed_of(&before, rates);
        }
        let ways = ways(rules, servers);
        if state == State::Kept {
            let is_alive = |owner: Owner| servers.iter().any(|server| server.owner == owner);
            approach(&mut self.table, &pricing.fill(&ways, TURNOVER), MOVES_MAX, is_alive);
            return self.changed_of(&before, rates);
        }
        let flows = self.loads(rates);
        // Detours are left out, so that what is off its way already does not come back for that.
        let direct = ways.iter().map(|way| Way { fixed: 0.0, ..way.clone() }).collect::<Vec<_>>();
        let moves = self.redirection.on_epoch(now, rules.theta, pricing, &direct, (state, &flows));
        for one in moves {
            self.table[one.flow as usize] = Some(one.to);
            self.moved[one.flow as usize] = Some(now);
        }
        let is_used = |slot: usize| rates[slot] > 0.0;
        let mut idle = self.table;
        (0..SLOTS).filter(|slot| !is_used(*slot)).for_each(|slot| idle[slot] = None);
        pricing.replace(&mut idle, &ways, Traffic::Capped(0.0), |_| true);
        self.table = idle;
        self.changed_of(&before, rates)
    }

    /// Returns how many slots with packets had a server and have another now.
    fn changed_of(&self, before: &SlotTable, rates: &[f64; SLOTS]) -> usize {
        let has_moved = |slot: &usize| rates[*slot] > 0.0 && moved(before[*slot], self.table[*slot]);
        (0..SLOTS).filter(has_moved).count()
    }

    /// Returns slots with packets as flows.
    fn loads(&self, rates: &[f64; SLOTS]) -> Vec<FlowLoad> {
        let load = |(slot, rate): (usize, &f64)| {
            let owner = self.table[slot].filter(|_| *rate > 0.0)?;
            let moved = self.moved[slot];
            Some(FlowLoad { flow: slot as u64, owner, rate: *rate, moved, traffic: Traffic::Capped(*rate) })
        };
        rates.iter().enumerate().filter_map(load).collect()
    }

    /// Returns how many slots had a server and have another now.
    fn changed(&self, before: &SlotTable) -> usize {
        before.iter().zip(&self.table).filter(|(before, after)| moved(**before, **after)).count()
    }
}

fn moved(before: Option<Owner>, after: Option<Owner>) -> bool {
    before.is_some() && after.is_some() && before != after
}

fn ways(rules: Rules, servers: &[Server]) -> Vec<Way> {
    let way = |server: &Server| Way {
        owner: server.owner,
        fixed: rules.off_path * server.detour,
        tolls: alloc::vec![server.core],
    };
    servers.iter().filter(|server| server.hops.is_finite()).map(way).collect()
}

/// Returns the table of a mode that does not look back.
fn fill(rules: Rules, pricing: &Pricing, servers: &[Server]) -> SlotTable {
    let within: Vec<&Server> = servers.iter().filter(|server| server.hops.is_finite()).collect();
    let least = within.iter().map(|server| server.hops).fold(f64::INFINITY, f64::min);
    let near = || within.iter().copied().filter(|server| server.hops <= least);
    let price = |server: &Server| {
        pricing.cost(&Way { owner: server.owner, fixed: 0.0, tolls: alloc::vec![server.core] })
    };
    let all: Vec<Owner> = match rules.mode {
        Mode::Nearest => near().map(|server| server.owner).min().into_iter().collect(),
        Mode::LeastLoaded => {
            let costs = within.iter().map(|server| (server.owner, price(server)));
            cheapest(costs).map(|(owner, _)| owner).into_iter().collect()
        }
        Mode::Ecmp => near().map(|server| server.owner).collect(),
        Mode::Drench | Mode::Random => within.iter().map(|server| server.owner).collect(),
    };
    let place = |slot: usize| match rules.mode {
        Mode::Random => mixed(slot as u64) as usize,
        _ => slot,
    };
    core::array::from_fn(|slot| all.get(place(slot) % all.len().max(1)).copied())
}

/// Returns a number that looks drawn, the same for the same slot (splitmix64): a table that is drawn anew
/// each period would move all flows.
const fn mixed(slot: u64) -> u64 {
    let mut bits = slot.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    (bits ^ bits >> 31) >> 1
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::NodeId;
    use super::*;
    use crate::elastic::Band;

    const SECOND: u64 = 1_000_000_000;

    fn rules(mode: Mode) -> Rules {
        Rules { mode, off_path: 0.3, theta: Band::default().theta() }
    }

    /// A server at so many hops, whose core a packet per second takes a 10,000th of.
    fn server(node: u32, hops: f64) -> Server {
        let core = Toll { resource: node, factor: 1.0, share: 1e-4 };
        Server { owner: Owner { node: NodeId(node), instance: 0 }, core, hops, detour: 2.0 * hops }
    }

    fn count(sharing: &Sharing, node: u32) -> usize {
        sharing.table().iter().flatten().filter(|owner| owner.node.0 == node).count()
    }

    fn even(rate: f64) -> [f64; SLOTS] {
        [rate / SLOTS as f64; SLOTS]
    }

    #[test]
    fn each_mode_has_its_table() {
        let servers = [server(0, 1.0), server(1, 1.0), server(2, 0.0), server(3, f64::INFINITY)];
        let table = |mode, kappas: &[f64], servers: &[Server]| {
            let mut sharing = Sharing::default();
            let mut pricing = Pricing::new(kappas);
            sharing.on_period(Instant(0), rules(mode), &mut pricing, servers, (State::Kept, &even(100.0)));
            [0, 1, 2, 3].map(|node| count(&sharing, node))
        };
        let idle = [0.0; 4];
        assert_eq!(table(Mode::Nearest, &idle, &servers), [0, 0, 128, 0]);
        assert_eq!(table(Mode::Nearest, &idle, &servers[..2]), [128, 0, 0, 0]);
        assert_eq!(table(Mode::Ecmp, &idle, &servers[..2]), [64, 64, 0, 0]);
        assert_eq!(table(Mode::LeastLoaded, &[1.0, 0.5, 2.0, 0.0], &servers), [0, 128, 0, 0]);
        assert!(table(Mode::Random, &idle, &servers).iter().take(3).all(|count| *count > 25));
        // Little traffic stays near; much goes where it is cheaper although it is far.
        assert_eq!(table(Mode::Drench, &idle, &servers), [0, 0, 128, 0]);
        assert_eq!(table(Mode::Drench, &[0.0, 3.0, 3.0, 0.0], &servers), [128, 0, 0, 0]);
        assert_eq!(table(Mode::Drench, &idle, &[]), [0; 4]);
    }

    #[test]
    fn traffic_is_divided_by_what_it_will_cost() {
        let mut sharing = Sharing::default();
        let servers = [server(0, 1.0), server(1, 1.0)];
        let mut fill = |kappas: &[f64], periods: u64| {
            for period in 0..periods {
                let (rates, now) = (even(8000.0), Instant(period * SECOND));
                let mut pricing = Pricing::new(kappas);
                sharing.on_period(now, rules(Mode::Drench), &mut pricing, &servers, (State::Kept, &rates));
            }
            [0, 1].map(|node| count(&sharing, node))
        };
        // Both are used by half: even.
        assert_eq!(fill(&[1.0, 1.0], 1), [64, 64]);
        // The first is used by more: it loses an eighth of the slots in a period, and in the end all.
        assert_eq!(fill(&[4.0, 0.5], 1), [48, 80]);
        assert_eq!(fill(&[4.0, 0.5], 3), [0, 128]);
        // Used a little more it keeps a part.
        let [few, many] = fill(&[1.05, 1.0], 8);
        assert!((40..64).contains(&few), "{few} {many}");
    }

    #[test]
    fn flows_that_may_move_leave_by_an_eighth() {
        let servers = [server(0, 0.0), server(1, 1.0)];
        let (mut sharing, rates) = (Sharing::default(), even(9500.0));
        sharing.on_servers(rules(Mode::Drench), &mut Pricing::new(&[0.0, 0.0]), &servers[..1], 9500.0);
        let mut counts = Vec::new();
        for period in 0..4 {
            let mut pricing = Pricing::new(&[19.0, 0.0]);
            let now = Instant(period * SECOND);
            sharing.on_period(now, rules(Mode::Drench), &mut pricing, &servers, (State::None, &rates));
            counts.push(count(&sharing, 1));
        }
        assert_eq!(counts, [0, 16, 30, 42], "in the second period, and an eighth of what is left");
        // Within the band nothing moves.
        let mut pricing = Pricing::new(&[2.0, 0.0]);
        let now = Instant(9 * SECOND);
        sharing.on_period(now, rules(Mode::Drench), &mut pricing, &servers, (State::None, &rates));
        assert_eq!(count(&sharing, 1), 42);
    }

    proptest! {
        /// Whatever comes and goes, no slot has a lost server while another is alive, and no slot of a living
        /// one moves for it.
        #[test]
        fn lost_servers_have_no_slots(
            sets in prop::collection::vec(prop::collection::btree_set(0u32..5, 0..5), 1..12),
            mode in prop::sample::select(std::vec![Mode::Drench, Mode::Nearest, Mode::Ecmp, Mode::LeastLoaded, Mode::Random]),
        ) {
            let mut sharing = Sharing::default();
            for set in sets {
                let servers: Vec<Server> = set.iter().map(|node| server(*node, f64::from(*node))).collect();
                let before = *sharing.table();
                let mut pricing = Pricing::new(&[0.5, 0.0, 3.0, 1.0, 0.0]);
                sharing.on_servers(rules(mode), &mut pricing, &servers, 1000.0);
                for (before, after) in before.iter().zip(sharing.table()) {
                    prop_assert_eq!(after.is_some(), !servers.is_empty());
                    prop_assert!(after.is_none_or(|owner| set.contains(&owner.node.0)));
                    let stays = before.is_some_and(|owner| set.contains(&owner.node.0));
                    prop_assert!(!stays || before == after);
                }
            }
        }
    }
}
