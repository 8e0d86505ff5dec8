//! What a node asks of its manager, which knows nothing of a store.

use headgate_api::request::{Answer, Request};
use headgate_api::status::{EventCode, StoreStatus};
use headgate_config::Config;

/// Way to the manager of this node.
pub trait Manager: Send + Sync {
    /// Sends a request, and waits for its answer.
    fn ask(&self, request: Request) -> Answer;
    /// Tells what happened.
    fn tell(&self, code: EventCode, who: &str, what: String);
    /// Reads the text of a configuration, this node's part of it; `None` where it means nothing.
    fn read(&self, text: &str) -> Option<Config>;
    /// Says how the store is.
    fn tell_store(&self, store: StoreStatus);
}
