//! Known flows, and the instance that each has.
//!
//! A slot's owner is for flows that begin. A flow that is known stays where it is, whatever becomes of
//! its slot. The table is bounded: the flow unseen for longest is forgotten first, and takes its slot's
//! owner when it comes again; where state would be lost by that, the owner that the slot had before.

use alloc::collections::{BTreeMap, BTreeSet};

use super::Owner;
use super::slots::SlotTable;
use crate::spread::{SLOTS, slot};
use crate::units::{Instant, Span};

/// A flow at a stage: hash, chain, position.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PinKey {
    /// Its hash, symmetric in source and destination.
    pub hash: u32,
    /// Chain.
    pub chain: u32,
    /// Position in it.
    pub position: u8,
}

#[derive(Clone, Copy, Debug)]
struct Pin {
    owner: Owner,
    seen: Instant,
}

/// Owners of the known flows of one node.
#[derive(Clone, Debug)]
pub struct Pins {
    pins: BTreeMap<PinKey, Pin>,
    by_age: BTreeSet<(Instant, PinKey)>,
    capacity: usize,
}

/// Owners that slots had before the last change, for packets of flows whose pin is lost.
#[derive(Clone, Debug)]
pub struct Former {
    owners: SlotTable,
    until: [Instant; SLOTS],
}

impl Default for Former {
    fn default() -> Self {
        Self { owners: [None; SLOTS], until: [Instant(0); SLOTS] }
    }
}

impl Former {
    /// Notes the owners that a change of a table takes slots from, for as long as a flow may be silent.
    pub fn on_change(&mut self, now: Instant, before: &SlotTable, after: &SlotTable, idle_timeout: Span) {
        for place in 0..SLOTS {
            if before[place] != after[place] && before[place].is_some() {
                self.owners[place] = before[place];
                self.until[place] = now + idle_timeout;
            }
        }
    }

    /// Returns the owner that a slot had, while one of its flows may still live.
    #[must_use]
    pub fn of(&self, now: Instant, hash: u32) -> Option<Owner> {
        let place = slot(hash);
        self.owners[place].filter(|_| !self.until[place].is_due(now))
    }
}

impl Pins {
    /// Makes room for so many flows.
    #[must_use]
    pub const fn new(capacity: usize) -> Self {
        Self { pins: BTreeMap::new(), by_age: BTreeSet::new(), capacity }
    }

    /// Number of known flows.
    #[must_use]
    pub fn len(&self) -> usize {
        self.pins.len()
    }

    /// Whether none is known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pins.is_empty()
    }

    /// Returns the owner of a packet's flow, which is pinned from then on: its pin's; else, for one that
    /// may be under way already (it `begins` not, and a `former` table is given because the NF keeps
    /// state), the slot's former owner; else the slot's.
    pub fn owner(
        &mut self,
        now: Instant,
        key: PinKey,
        table: &SlotTable,
        former: Option<&Former>,
        begins: bool,
    ) -> Option<Owner> {
        let known = self.pins.get(&key).map(|pin| pin.owner);
        let before = || former.filter(|_| !begins).and_then(|former| former.of(now, key.hash));
        let owner = known.or_else(before).or(table[slot(key.hash)])?;
        self.pin(now, key, owner);
        Some(owner)
    }

    /// Pins a flow to an owner: it was steered, or moved.
    pub fn pin(&mut self, now: Instant, key: PinKey, owner: Owner) {
        self.forget(key);
        if self.pins.len() >= self.capacity
            && let Some((_, oldest)) = self.by_age.first().copied()
        {
            self.forget(oldest);
        }
        if self.capacity > 0 {
            self.pins.insert(key, Pin { owner, seen: now });
            self.by_age.insert((now, key));
        }
    }

    /// Forgets a flow.
    pub fn forget(&mut self, key: PinKey) {
        if let Some(pin) = self.pins.remove(&key) {
            self.by_age.remove(&(pin.seen, key));
        }
    }

    /// Forgets all flows of owners that died, so that they take the next cheapest at once. Returns how many.
    pub fn on_dead(&mut self, is_alive: impl Fn(Owner) -> bool) -> usize {
        let before = self.pins.len();
        let by_age = &mut self.by_age;
        self.pins.retain(|key, pin| {
            let lives = is_alive(pin.owner);
            if !lives {
                by_age.remove(&(pin.seen, *key));
            }
            lives
        });
        before - self.pins.len()
    }
}
