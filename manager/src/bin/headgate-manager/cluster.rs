//! The agent that agrees with other nodes in a store, where the configuration names one.

use std::sync::Arc;

use headgate_api::request::{Answer, Request};
use headgate_api::status::{EventCode, StoreStatus};
use headgate_cluster::{Agent, AgentError, Manager};
use headgate_config::{self as config, Catalog, Config, Machine};
use headgate_manager::Handle;

/// The manager in this process, and what its configuration is read with.
struct Own {
    handle: Handle,
    catalog: Catalog,
    node: Option<String>,
}

impl Manager for Own {
    fn ask(&self, request: Request) -> Answer {
        self.handle.ask(request)
    }

    fn tell(&self, code: EventCode, who: &str, what: String) {
        self.handle.tell(code, who, what);
    }

    fn read(&self, text: &str) -> Option<Config> {
        let mut machine = Machine::observe();
        // Reserved already, by this manager, which has taken the text.
        (machine.memory_bytes, machine.hugepages_free) = (u64::MAX, u64::MAX);
        let loaded = config::parse_part("", text, &self.catalog, &machine, self.node.as_deref());
        loaded.ok().map(|loaded| loaded.config)
    }

    fn tell_store(&self, store: StoreStatus) {
        self.handle.tell_store(store);
    }
}

/// Starts it; `None` where the configuration names no store.
///
/// # Errors
/// [`AgentError`].
pub fn start(config: &Config, catalog: Catalog, handle: Handle) -> Result<Option<Agent>, AgentError> {
    let node = config.node.as_ref().map(|node| node.name.clone());
    Agent::start(config, Arc::new(Own { handle, catalog, node }))
}
