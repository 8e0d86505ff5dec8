//! What an interface is reached by.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use super::sockets::Sockets;
use super::tap::Tap;
use super::terms::{Kind, Terms};
use crate::open::OpenError;

/// What an interface is reached by, open.
pub(super) enum Attachment {
    Sockets(Sockets),
    Tap(Tap),
}

impl Attachment {
    pub(super) fn open(terms: &Terms) -> Result<Self, OpenError> {
        Ok(match terms.kind {
            Kind::Sockets => Self::Sockets(Sockets::open(terms)?),
            Kind::Tap => Self::Tap(Tap::open(terms)?),
        })
    }

    /// The file that tells how the interface fares.
    pub(super) fn file(&self) -> Arc<OwnedFd> {
        match self {
            Self::Sockets(sockets) => Arc::clone(&sockets.receiving),
            Self::Tap(tap) => Arc::clone(&tap.file),
        }
    }

    /// The longest frame, without VLAN tag, that the interface carried when it was opened, in bytes.
    pub(super) const fn sent_bytes_max(&self) -> u32 {
        match self {
            Self::Sockets(sockets) => sockets.sent_bytes_max,
            Self::Tap(tap) => tap.sent_bytes_max,
        }
    }
}
