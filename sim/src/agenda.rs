//! The agenda: the next moment of each entity, the earliest first, of equal ones that of the entity with the
//! lowest number.
//!
//! Each entity has one next moment or none, so nothing has to be taken back when its plans change, and the
//! order of events is (time, entity) without a queue. A tree of minima: setting one costs its depth.

use headgate_decide::units::Instant;

const NEVER: u64 = u64::MAX;

/// Next moments of a fixed number of entities.
pub(crate) struct Agenda {
    /// Minima by pairs: the root is 1, the entities' own moments are the last half.
    earliest: Vec<u64>,
}

impl Agenda {
    /// Returns one in which no entity has a next moment.
    pub(crate) fn new(entities: usize) -> Self {
        Self { earliest: vec![NEVER; 2 * entities.next_power_of_two().max(2)] }
    }

    /// Sets an entity's next moment.
    pub(crate) fn set(&mut self, entity: usize, at: Option<Instant>) {
        let mut place = self.earliest.len() / 2 + entity;
        self.earliest[place] = at.map_or(NEVER, |at| at.0);
        while place > 1 {
            place /= 2;
            self.earliest[place] = self.earliest[2 * place].min(self.earliest[2 * place + 1]);
        }
    }

    /// Returns the earliest moment, and whose it is.
    pub(crate) fn next(&self) -> Option<(Instant, usize)> {
        let earliest = self.earliest[1];
        if earliest == NEVER {
            return None;
        }
        let (mut place, leaves) = (1, self.earliest.len() / 2);
        while place < leaves {
            place *= 2;
            place += usize::from(self.earliest[place] != earliest);
        }
        Some((Instant(earliest), place - leaves))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_earliest_comes_first_and_of_equals_the_lowest() {
        let mut agenda = Agenda::new(5);
        assert_eq!(agenda.next(), None);
        for (entity, at) in [(4, 7), (1, 9), (3, 7), (0, 8)] {
            agenda.set(entity, Some(Instant(at)));
        }
        let mut order = Vec::new();
        while let Some((at, entity)) = agenda.next() {
            order.push((at.0, entity));
            agenda.set(entity, None);
        }
        assert_eq!(order, [(7, 3), (7, 4), (8, 0), (9, 1)]);
    }
}
