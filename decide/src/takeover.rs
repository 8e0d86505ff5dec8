//! Takeover: what the standby of an NF does first when the process that worked has died.
//!
//! The problem: a process can die between any two stores. Its state, which outlives it, may be half changed;
//! some of its burst may be in the transmit ring; and the packet that killed it will kill the next one.
//!
//! The intuition: *the commit is one store*, that of the transmit ring's produced counter. It publishes a
//! burst's verdicts and makes the undo log of that burst void at once, because the log says at which count it
//! began. So the standby undoes exactly what was not returned ([`must_undo`]), and everything that was not
//! returned is delivered to it again, in order. The count goes on over all processes of an instance
//! ([`Takeover::on_death`]): with one that began anew, a standby that dies while it undoes would leave a log
//! that looks like another process's.
//!
//! The threshold: the same first packet at a second death in a row is worked on alone, so that its neighbours
//! are not blamed; at the third it ends as `poison`.
//!
//! Rejected: checking state by a sum over it: the time grows with the state, and says that it is wrong, not
//! what was right.
//!
//! What it refuses to do: trust the log of a process that was condemned for an offence. The
//! manager gives such a process no successor with its state.
//!
//! Source: our own; the dissertation, 14.3.1, copies state after each batch instead.

#[cfg(test)]
mod tests;

/// Header of an undo log, as it lies in the state region.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct LogHeader {
    /// Packets that the instance had returned when the burst began.
    pub begin: u64,
    /// Records in the log. Stored after each record, and before the bytes that the record saves change.
    pub length: u32,
}

/// Returns whether the records of a log are to be applied, last one first, and `length` set to 0 after that:
/// there are some, and they are those of a burst that was not returned.
#[must_use]
#[inline]
pub const fn must_undo(log: LogHeader, base: u64) -> bool {
    log.length > 0 && log.begin == base
}

/// Way in which a successor works on packets that are delivered to it again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "kebab-case"))]
pub enum Pace {
    /// In bursts, as ever.
    Bursts,
    /// One packet a burst, until all that were delivered again have been returned: the next death names the
    /// packet that it came of.
    Single,
    /// The first packet ends as `poison`; the others are worked on one by one.
    WithoutTheFirst,
}

/// Orders for a successor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Orders {
    /// Packets that all processes before it returned: told to it before its first packet.
    pub base: u64,
    /// Its way to work.
    pub pace: Pace,
}

/// The successions of one instance that keeps state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Takeover {
    /// Packets that all processes before the one that works returned.
    base: u64,
    /// First packet that was not returned at the last death, and how often in a row that was the same.
    suspect: Option<(u64, u8)>,
}

impl Takeover {
    /// Takes in that the process has died: `returned` packets of it were taken back in good order, and
    /// `first` is the number of the first delivery that was not, if there is one.
    pub fn on_death(&mut self, returned: u64, first: Option<u64>) -> Orders {
        self.base += returned;
        let deaths = match (self.suspect, first) {
            (Some((suspect, deaths)), Some(first)) if suspect == first => deaths.saturating_add(1),
            _ => 1,
        };
        self.suspect = first.map(|first| (first, deaths));
        let pace = match (first, deaths) {
            (None, _) | (_, 1) => Pace::Bursts,
            (_, 2) => Pace::Single,
            _ => Pace::WithoutTheFirst,
        };
        if pace == Pace::WithoutTheFirst {
            // It ends here, and another one is first.
            self.suspect = None;
        }
        Orders { base: self.base, pace }
    }
}
