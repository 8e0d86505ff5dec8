//! NFs that live in a thread of the manager, which calls them for each burst, instead of in a process.
//!
//! They are NFs like any others: they say hello, are welcomed, work on their own rings, and their counters,
//! messages and timers are the same. What a process gives them is missing: whatever they do wrong is done to
//! the manager, and while they hang, so does the thread that called them. Only a panic is held: it ends the
//! resident, and nothing else.

use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use headgate_session::attach::{Attached, Connection};

use crate::NfError;
use crate::burst_loop::{BurstLoop, Visit};
use crate::context::Environment;
use crate::fuse::{Build, Fused, Member};
use crate::run::{RunError, lost_manager, panicked, remember_panics, say_goodbye, say_ready, settle};

/// Entrance of NFs that are to live in a thread of the manager: they have said hello.
pub struct Entrance(Connection);

impl Entrance {
    /// Says hello over the NF's end of a pair of sockets.
    ///
    /// # Errors
    /// [`RunError`].
    pub fn open(socket: OwnedFd) -> Result<Self, RunError> {
        let connection = Connection::from_socket(socket);
        connection.say_hello()?;
        Ok(Self(connection))
    }

    /// Makes an NF that has been welcomed, in the calling thread, which is the one that visits it.
    ///
    /// # Errors
    /// [`RunError`]; the manager was told the reason.
    pub fn enter(self, build: Build) -> Result<Resident, RunError> {
        self.enter_by(|environment, arguments| Fused::alone(environment, arguments, build))
    }

    /// As [`enter`](Self::enter), for several NFs, one after another on each burst.
    ///
    /// # Errors
    /// As [`enter`](Self::enter).
    pub fn enter_fused(self, members: Vec<Member>) -> Result<Resident, RunError> {
        self.enter_by(|environment, arguments| Fused::together(environment, arguments, members))
    }

    fn enter_by(
        self,
        make: impl FnOnce(&Rc<Environment>, &str) -> Result<Fused, NfError>,
    ) -> Result<Resident, RunError> {
        let attached = Rc::new(self.0.take_welcome()?);
        remember_panics();
        let begun = catch_unwind(AssertUnwindSafe(|| begin(&attached, make)))
            .unwrap_or_else(|_| Err(panicked(&attached)));
        match begun {
            Ok(work) => Ok(Resident { work: Some(work), attached }),
            Err(error) => {
                say_goodbye(&attached, Some(&error));
                Err(error)
            }
        }
    }
}

fn begin(
    attached: &Rc<Attached>,
    make: impl FnOnce(&Rc<Environment>, &str) -> Result<Fused, NfError>,
) -> Result<BurstLoop, RunError> {
    let (environment, nfs) = settle(attached, true, make)?;
    say_ready(attached, &environment, &nfs)
        .map_err(|error| lost_manager(attached.welcome.name.clone(), &error))?;
    Ok(BurstLoop::new(attached, &environment, nfs))
}

/// NFs that live in the thread that made them.
pub struct Resident {
    /// Their loop; none once they have ended.
    work: Option<BurstLoop>,
    attached: Rc<Attached>,
}

impl Resident {
    /// Lets them work on one burst of what waits in their ring. A panic ends them; the manager was told why.
    #[inline]
    pub fn visit(&mut self) -> Visit {
        let Some(work) = &mut self.work else { return Visit::Ended };
        match catch_unwind(AssertUnwindSafe(|| work.visit())) {
            Ok(Ok(Visit::Ended)) => self.end(None),
            Ok(Ok(visit)) => visit,
            Ok(Err(error)) => {
                let error = lost_manager(self.attached.welcome.name.clone(), &error);
                self.end(Some(&error))
            }
            Err(_) => {
                let error = panicked(&self.attached);
                self.end(Some(&error))
            }
        }
    }

    #[cold]
    fn end(&mut self, error: Option<&RunError>) -> Visit {
        say_goodbye(&self.attached, error);
        self.give_up();
        Visit::Ended
    }

    /// Ends them at once. What they hold is the manager's to take back.
    pub fn give_up(&mut self) {
        let work = self.work.take();
        // An NF that panics once more while it is dropped has nothing left to lose.
        let _ = catch_unwind(AssertUnwindSafe(|| drop(work)));
    }
}

impl Drop for Resident {
    fn drop(&mut self) {
        self.give_up();
    }
}

#[cfg(test)]
mod tests;
