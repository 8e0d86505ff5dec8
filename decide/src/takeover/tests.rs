//! Every death between any two stores, several in a row, of an NF that rewrites state and packets.

use std::format;
use std::string::String;
use std::vec::Vec;

use super::*;
use crate::snapshot;

const PACKETS: usize = 4;
/// Deaths in a row. The third may come while the second's undo is under way.
const DEATHS: usize = 3;
/// More stores than an undo and all packets take: a death behind the last one is none.
const STORES: usize = 54;

/// Rules that the toy NF and its spare keep, or break.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rules {
    Right,
    /// T15: a packet that is half rewritten at a death is rewritten again.
    WithoutUndo,
    /// A record is complete after the bytes that it saves have changed.
    LogsAfterwards,
    /// Each process counts from zero.
    WithoutBase,
}

/// Memory that outlives processes: state, packets, the undo log, the transmit ring.
#[derive(Clone, Default)]
struct Memory {
    state: [u8; 2],
    packets: [u8; PACKETS],
    header: LogHeader,
    records: Vec<(usize, u8)>,
    slots: Vec<(usize, u8)>,
    produced: u64,
}

/// A store after which the process may be gone.
struct Budget(Option<usize>);

impl Budget {
    /// Returns whether one more store is done.
    fn store(&mut self) -> Option<()> {
        match &mut self.0 {
            None => Some(()),
            Some(0) => None,
            Some(left) => {
                *left -= 1;
                Some(())
            }
        }
    }
}

impl Memory {
    fn at(&mut self, place: usize) -> &mut u8 {
        if place < 2 { &mut self.state[place] } else { &mut self.packets[place - 2] }
    }

    fn edit(
        &mut self,
        place: usize,
        rules: Rules,
        budget: &mut Budget,
        change: impl Fn(u8) -> u8,
    ) -> Option<()> {
        let old = *self.at(place);
        if rules == Rules::LogsAfterwards {
            budget.store()?;
            *self.at(place) = change(old);
        }
        // Slots of a burst before are written over.
        self.records.truncate(self.header.length as usize);
        budget.store()?;
        self.records.push((place, old));
        budget.store()?;
        self.header.length += 1;
        if rules != Rules::LogsAfterwards {
            budget.store()?;
            *self.at(place) = change(old);
        }
        Some(())
    }

    fn undo(&mut self, base: u64, budget: &mut Budget) -> Option<()> {
        if must_undo(self.header, base) {
            for at in (0..self.header.length as usize).rev() {
                let (place, old) = self.records[at];
                budget.store()?;
                *self.at(place) = old;
            }
            budget.store()?;
            self.header.length = 0;
        }
        Some(())
    }

    /// One process: undoes, and works on what was delivered in bursts of two.
    fn work(&mut self, base: u64, first: usize, rules: Rules, budget: &mut Budget) -> Option<()> {
        let base = if rules == Rules::WithoutBase { 0 } else { base };
        if rules != Rules::WithoutUndo {
            self.undo(base, budget)?;
        }
        let mut next = first;
        while next < PACKETS {
            let end = (next + 2).min(PACKETS);
            budget.store()?;
            self.header.length = 0;
            budget.store()?;
            self.header.begin = base + self.produced;
            for packet in next..end {
                self.edit(0, rules, budget, |count| count + 1)?;
                self.edit(1, rules, budget, |sum| sum.wrapping_mul(3).wrapping_add(packet as u8 + 1))?;
                let count = self.state[0];
                self.edit(2 + packet, rules, budget, |bytes| bytes.wrapping_mul(5).wrapping_add(count))?;
            }
            for packet in next..end {
                budget.store()?;
                self.slots.push((packet, self.packets[packet]));
            }
            budget.store()?;
            self.produced += (end - next) as u64;
            next = end;
        }
        Some(())
    }
}

/// Runs processes that die after so many stores each, and then one that lives. Returns state and output.
fn run(deaths: &[usize], rules: Rules) -> ([u8; 2], Vec<(usize, u8)>) {
    let (mut memory, mut takeover, mut output) = (Memory::default(), Takeover::default(), Vec::new());
    for death in deaths.iter().map(|stores| Some(*stores)).chain([None]) {
        (memory.slots, memory.produced) = (Vec::new(), 0);
        let _ = memory.work(takeover.base, output.len(), rules, &mut Budget(death));
        output.extend(&memory.slots[..memory.produced as usize]);
        takeover.on_death(memory.produced, Some(output.len() as u64));
    }
    (memory.state, output)
}

/// Counts the runs that end otherwise than one in which nobody dies.
fn wrong(rules: Rules) -> (usize, usize) {
    let right = run(&[], Rules::Right);
    let (mut runs, mut wrong) = (0, 0);
    for number in 0..STORES.pow(DEATHS as u32) {
        let deaths = [number % STORES, number / STORES % STORES, number / STORES / STORES];
        runs += 1;
        wrong += usize::from(run(&deaths, rules) != right);
    }
    (runs, wrong)
}

#[test]
fn a_death_between_any_two_stores_changes_nothing() {
    let (runs, wrong) = wrong(Rules::Right);
    assert_eq!((runs, wrong), (STORES.pow(DEATHS as u32), 0));
}

#[test]
fn each_rule_of_the_undo_log_is_needed() {
    for (name, rules) in [
        ("T15, without undo", Rules::WithoutUndo),
        ("records after the change", Rules::LogsAfterwards),
        ("without base", Rules::WithoutBase),
    ] {
        let (runs, wrong) = wrong(rules);
        std::println!("{name}: {wrong} of {runs} runs are wrong");
        assert!(wrong > 0, "{name} does no harm that this test sees");
    }
}

#[test]
fn poison_is_a_table() {
    type Deaths = &'static [(u64, Option<u64>)];
    let deaths: [(&str, Deaths); 5] = [
        ("the same first packet each time", &[(3, Some(7)), (0, Some(7)), (0, Some(7)), (0, Some(8))]),
        ("another one each time", &[(3, Some(7)), (1, Some(8)), (1, Some(9))]),
        ("the same one, with another between", &[(0, Some(7)), (1, Some(8)), (0, Some(7))]),
        ("without packets", &[(5, None), (0, None), (0, None)]),
        ("with and without", &[(0, Some(7)), (0, None), (0, Some(7))]),
    ];
    let mut table = String::new();
    for (name, deaths) in deaths {
        let mut takeover = Takeover::default();
        table += &format!("{name}\n");
        for (returned, first) in deaths {
            let Orders { base, pace } = takeover.on_death(*returned, *first);
            table += &format!("    returned {returned}, first {first:<8?} -> base {base}, {pace:?}\n");
        }
    }
    snapshot::assert("takeover", &table);
}
