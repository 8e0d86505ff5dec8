//! What an NF keeps of its traffic: tables and values of plain types, bounded, their memory known at the
//! start.
//!
//! ```no_run
//! use std::time::Duration;
//! use headgate_nf::state::{Bound, Table, Value};
//! use headgate_nf::{Burst, Context, NetworkFunction, NfError};
//!
//! headgate_nf::plain! {
//!     /// Counts of a sender.
//!     struct Counts {
//!         packets: u64,
//!         bytes: u64,
//!     }
//! }
//!
//! struct Senders {
//!     senders: Table<[u8; 6], Counts>,
//!     lost: Value<u64>,
//! }
//!
//! impl Senders {
//!     fn new(context: &mut Context) -> Result<Self, NfError> {
//!         let mut state = context.state()?;
//!         let bound = Bound { entries: 1024, idle: Some(Duration::from_secs(60)) };
//!         Ok(Self { senders: state.table("senders", bound)?, lost: state.value("lost")? })
//!     }
//! }
//!
//! impl NetworkFunction for Senders {
//!     fn process(&mut self, burst: &mut Burst, _: &mut Context) {
//!         for packet in burst.packets() {
//!             let sender: [u8; 6] = packet.data()[6..12].try_into().expect("a frame has a header");
//!             let bytes = packet.len() as u64;
//!             if let Some(counts) = self.senders.edit(&sender) {
//!                 counts.packets += 1;
//!                 counts.bytes += bytes;
//!             } else if self.senders.insert(sender, Counts { packets: 1, bytes }).is_err() {
//!                 *self.lost.edit() += 1;
//!             }
//!         }
//!     }
//! }
//! ```
//!
//! With `state = { keep = true }` in the configuration they outlive the process: whenever it dies, the next
//! one finds them as the last burst left them that was returned. Changes are saved before they are made
//! ([`headgate_shm::state`]), so they are made through [`Table`] and [`Value`] alone, and only while a burst
//! is at hand: in [`process`](crate::NetworkFunction::process), not in `timer` or `message`, which may read.
//! Without that key the same NF keeps them in ordinary memory, and pays nothing for it.
//!
//! What is worked on again, by a standby or by another node, has to come to the same. So the time is the
//! [`Clock`] of the state, and chance is [`Random`]; what follows from a file, from another thread or from
//! the process's own clock or random numbers is different there.
//!
//! A table has a schema: sizes and field names of its keys and values. An NF whose program was replaced by
//! one with another schema finds the table empty, or is refused (`state.on_change`).

mod bytes;
mod chance;
pub(crate) mod core;
mod error;
mod hash;
mod plain;
pub(crate) mod raw;
mod shadow;
mod stores;
mod table;
#[cfg(test)]
mod tests;

use std::cell::OnceCell;
use std::rc::Rc;

use self::core::Core;
pub use bytes::{BytesTable, BytesValue};
pub use chance::{Clock, Random};
pub use error::{Bound, ENTRIES_MAX, Full, PLAIN_BYTES_MAX, StateError};
pub use plain::Plain;
pub use shadow::CHECK_EDITS_VARIABLE;
pub use table::{Table, Value};

/// State of an NF, from which it takes its tables and values.
pub struct State {
    pub(crate) core: Rc<Core>,
    /// Label of the NF where several share the process.
    pub(crate) label: Option<String>,
}

impl State {
    /// The table of this name: as it was kept, or empty.
    ///
    /// # Errors
    /// [`StateError`].
    pub fn table<K: Plain, V: Plain>(&mut self, name: &str, bound: Bound) -> Result<Table<K, V>, StateError> {
        Table::new(self.core.clone(), &self.full_name(name), bound)
    }

    /// The value of this name: as it was kept, or all zero.
    ///
    /// # Errors
    /// [`StateError`].
    pub fn value<T: Plain>(&mut self, name: &str) -> Result<Value<T>, StateError> {
        Value::new(self.core.clone(), &self.full_name(name))
    }

    /// The table of this name, whose keys and values are bytes, so many of each: for bindings to other
    /// languages. `fields` tell what the bytes mean; other ones mean another schema.
    ///
    /// # Errors
    /// [`StateError`].
    pub fn bytes_table(
        &mut self,
        name: &str,
        bound: Bound,
        key_and_value_bytes: (usize, usize),
        fields: &str,
    ) -> Result<BytesTable, StateError> {
        BytesTable::new(self.core.clone(), &self.full_name(name), bound, key_and_value_bytes, fields)
    }

    /// The value of this name, which is so many bytes, as [`State::bytes_table`].
    ///
    /// # Errors
    /// [`StateError`].
    pub fn bytes_value(&mut self, name: &str, bytes: usize, fields: &str) -> Result<BytesValue, StateError> {
        BytesValue::new(self.core.clone(), &self.full_name(name), bytes, fields)
    }

    /// The time by which entries get idle, and by which an NF should go whose state is kept. Where a group
    /// of nodes keeps it, that is the time at which packets came to the gate, in steps of a millisecond and
    /// since 1970 by the gate's wall clock: the same wherever and whenever they are worked on again. Packets
    /// of one burst have the same. Anywhere else it is this machine's, since it was started.
    #[must_use]
    pub fn clock(&self) -> Clock {
        Clock(self.core.clone())
    }

    /// Random numbers of this name, which go on where they were. They are drawn from the state, so another
    /// process or node that works on the same packets again draws the same; and they are no secrets from who
    /// reads the state.
    ///
    /// # Errors
    /// [`StateError`].
    pub fn random(&mut self, name: &str) -> Result<Random, StateError> {
        Random::new(self.core.clone(), &self.full_name(name))
    }

    /// Whether it outlives the process.
    #[must_use]
    pub fn is_kept(&self) -> bool {
        self.core.is_kept()
    }

    fn full_name(&self, name: &str) -> String {
        self.label.as_ref().map_or_else(|| name.to_owned(), |label| format!("{label}.{name}"))
    }
}

/// State that a process may have: what the manager handed over, or what its NFs ask for.
#[derive(Default)]
pub(crate) struct StateAccess {
    core: OnceCell<Rc<Core>>,
}

impl StateAccess {
    /// State in a region of the manager's.
    pub(crate) fn kept(core: Core) -> Self {
        Self { core: OnceCell::from(Rc::new(core)) }
    }

    /// Returns the state, if there is any.
    pub(crate) fn get(&self) -> Option<&Rc<Core>> {
        self.core.get()
    }

    /// Whether it outlives the process.
    pub(crate) fn is_kept(&self) -> bool {
        self.core.get().is_some_and(|core| core.is_kept())
    }

    /// Returns the state of an NF that asks for it.
    pub(crate) fn ask(&self, uses_disk: bool, label: Option<String>) -> Result<State, StateError> {
        let core = self.core.get_or_init(|| Rc::new(Core::passing())).clone();
        if core.is_kept() && uses_disk {
            return Err(StateError::Disk);
        }
        Ok(State { core, label })
    }
}
