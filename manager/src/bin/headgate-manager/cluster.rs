//! The agent that agrees with other nodes in a store, where the configuration names one.

use std::sync::Arc;

use headgate_api::request::{Answer, Request};
use headgate_api::status::{EventCode, StoreStatus};
use headgate_cluster::{Agent, AgentError, Manager};
use headgate_config::Config;
use headgate_manager::Handle;

/// The manager in this process.
struct Own(Handle);

impl Manager for Own {
    fn ask(&self, request: Request) -> Answer {
        self.0.ask(request)
    }

    fn tell(&self, code: EventCode, who: &str, what: String) {
        self.0.tell(code, who, what);
    }

    fn tell_store(&self, store: StoreStatus) {
        self.0.tell_store(store);
    }
}

/// Starts it; `None` where the configuration names no store.
///
/// # Errors
/// [`AgentError`].
pub fn start(config: &Config, handle: Handle) -> Result<Option<Agent>, AgentError> {
    Agent::start(config, Arc::new(Own(handle)))
}
