//! Where clients find a manager: its place, and the thread that serves them.
//!
//! A manager that follows another one has its place when that one has given it back, which its end does.

use std::os::unix::net::UnixListener;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use headgate_host::cores;

use crate::api::{self, Handle};
use crate::place::{Place, PlaceError};
use crate::status::EventCode;

/// Time between two tries to take the place of the manager before. Our choice: a fiftieth of what its end
/// takes.
const TRY_EVERY: Duration = Duration::from_millis(2);

/// Place of a manager, now or soon. Dropping it gives the place back.
pub struct Listening {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    place: Mutex<Option<Place>>,
    is_over: AtomicBool,
}

impl Listening {
    /// Serves clients in a thread: at once where the place is `taken`, else when the manager before has gone.
    ///
    /// # Errors
    /// When no thread can be started.
    pub fn begin(
        name: String,
        taken: Option<(Place, UnixListener)>,
        handle: Handle,
        off_cores: Vec<u32>,
    ) -> std::io::Result<Self> {
        let shared = Arc::<Shared>::default();
        let theirs = Arc::clone(&shared);
        std::thread::Builder::new().name("hg-api".to_owned()).spawn(move || {
            // The control thread left these cores already, or the manager would not have started.
            let _ = cores::keep_current_thread_off(&off_cores);
            let Some((place, listener)) = taken.or_else(|| theirs.follow(&name, &handle)) else { return };
            if theirs.keep(place) {
                api::serve(listener, handle);
            }
        })?;
        Ok(Self { shared })
    }
}

impl Shared {
    /// Waits for the place of the manager before.
    fn follow(&self, name: &str, handle: &Handle) -> Option<(Place, UnixListener)> {
        // A flag alone: it announces nothing.
        while !self.is_over.load(Ordering::Relaxed) {
            match Place::take(name) {
                Ok(taken) => {
                    handle.tell_alone();
                    return Some(taken);
                }
                Err(PlaceError::Taken { .. }) => std::thread::sleep(TRY_EVERY),
                Err(error) => {
                    handle.tell(
                        EventCode::HandOverFailed,
                        "manager",
                        format!("no command finds this manager: {error}"),
                    );
                    return None;
                }
            }
        }
        None
    }

    /// Keeps the place until the end. Returns false when that has come already.
    fn keep(&self, place: Place) -> bool {
        let mut kept = self.place.lock().unwrap_or_else(PoisonError::into_inner);
        let is_needed = !self.is_over.load(Ordering::Relaxed);
        *kept = is_needed.then_some(place);
        is_needed
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        let mut kept = self.shared.place.lock().unwrap_or_else(PoisonError::into_inner);
        self.shared.is_over.store(true, Ordering::Relaxed);
        *kept = None;
    }
}
