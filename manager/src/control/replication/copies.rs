//! What was copied of the NFs' state at the node that works, so that the next copy is what changed since.
//!
//! The group stands still while it is copied. To read what NFs ever wrote takes a few milliseconds for ten
//! megabytes; to send that takes a hundred. So a twin of each NF's region has what was copied last, and only
//! what differs from it is sent. For a standby that has nothing yet all is sent, but most of it was copied
//! into the twins before, while NFs worked, and it is read from them when they work again.

use std::io;

use headgate_path::replica::States;
use headgate_shm::state::Twin;

use super::standby::OfNf;
use crate::control::state::StateHome;

/// What was copied last.
#[derive(Default)]
pub struct Copies(Vec<Option<Twin>>);

impl Copies {
    /// Copies the state of all NFs. Returns what changed since the last time. What NFs that work meanwhile
    /// leave half done is copied again the next time.
    ///
    /// # Errors
    /// A sentence. Nothing counts as copied.
    pub fn take(&mut self, nfs: &[Option<OfNf>]) -> Result<States, String> {
        self.0.resize_with(nfs.len(), || None);
        let changes = nfs.iter().zip(&mut self.0).map(|(nf, twin)| {
            let Some(nf) = nf else { return Ok(Vec::new()) };
            let twin = match twin {
                Some(twin) => twin,
                None => twin.insert(StateHome::unreserved_twin(&nf.name, nf.shape)?),
            };
            nf.file.difference(&nf.name, nf.shape, twin)
        });
        let changes = changes.collect::<Result<States, String>>()?;
        // Not before all of them are there: what one of them lacks would be left out the next time.
        for (change, twin) in changes.iter().zip(&mut self.0) {
            let Some(twin) = twin else { continue };
            twin.apply(change).map_err(|why| why.to_string())?;
        }
        Ok(changes)
    }

    /// Gives away what was copied last.
    pub fn give(&mut self) -> Vec<Option<Twin>> {
        std::mem::take(&mut self.0)
    }

    /// Returns all that was copied.
    ///
    /// # Errors
    /// A sentence.
    pub fn all(&self) -> Result<States, String> {
        let image = |twin: &Option<Twin>| twin.as_ref().map_or_else(|| Ok(Vec::new()), Twin::image);
        let states = self.0.iter().map(image).collect::<io::Result<States>>();
        states.map_err(|error| error.to_string())
    }
}
