//! What all requests of a server share.

use axum::body::Bytes;

use crate::auth::Tokens;
use crate::feed::Feed;
use crate::manager::Manager;

/// The manager, who may ask it, and who watches it.
#[derive(Debug)]
pub struct Site {
    /// The manager.
    pub manager: Manager,
    /// Who may ask.
    pub tokens: Tokens,
    /// Those who watch.
    pub feed: Feed,
    /// The document that describes the operations.
    pub description: Bytes,
}
