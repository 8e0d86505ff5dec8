//! What an interface is reached by.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::Arc;

use super::sockets::{RingFacts, Sockets};
use super::tap::Tap;
use super::terms::{Kind, Terms};
use crate::open::OpenError;

/// What an interface is reached by, open.
pub(super) enum Attachment {
    Sockets(Sockets),
    Tap(Tap),
    /// Nothing yet, or nothing any more: another process has it.
    Away,
}

/// Interface of a queue on its way to another process: with its files that process goes on where this one
/// stopped, and nothing that came meanwhile is lost or taken twice.
pub struct Handed(Attachment);

/// Facts beside the files of an interface that is handed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandedFacts {
    /// Packet sockets: first the one that receives, then the one that sends.
    Sockets(RingFacts),
    /// A TAP.
    Tap {
        /// The longest frame, without VLAN tag, that the interface carries, in bytes.
        sent_bytes_max: u32,
    },
}

impl Handed {
    pub(super) const fn of(attachment: Attachment) -> Self {
        Self(attachment)
    }

    /// Takes over an interface from the files that another process sent.
    ///
    /// # Errors
    /// The kernel's, or that these are not such files.
    pub fn from_files(facts: HandedFacts, files: Vec<OwnedFd>) -> io::Result<Self> {
        let attachment = match facts {
            HandedFacts::Sockets(ring) => {
                let [receiving, sending] = exactly(files)?;
                Attachment::Sockets(Sockets::adopt(ring, receiving, sending)?)
            }
            HandedFacts::Tap { sent_bytes_max } => {
                let [file] = exactly(files)?;
                Attachment::Tap(Tap::adopt(file, sent_bytes_max))
            }
        };
        Ok(Self(attachment))
    }

    /// Returns what the other process needs to know, and the files for it; `None` when the interface had
    /// gone.
    #[must_use]
    pub fn parts(&self) -> Option<(HandedFacts, Vec<BorrowedFd<'_>>)> {
        match &self.0 {
            Attachment::Sockets(sockets) => {
                let files = vec![sockets.receiving.as_fd(), sockets.sending.as_fd()];
                Some((HandedFacts::Sockets(sockets.facts()), files))
            }
            Attachment::Tap(tap) => {
                let facts = HandedFacts::Tap { sent_bytes_max: tap.sent_bytes_max };
                Some((facts, vec![tap.file.as_fd()]))
            }
            Attachment::Away => None,
        }
    }

    pub(super) fn into_attachment(self) -> Box<Attachment> {
        Box::new(self.0)
    }
}

fn exactly<const COUNT: usize>(files: Vec<OwnedFd>) -> io::Result<[OwnedFd; COUNT]> {
    let came = files.len();
    files.try_into().map_err(|_| io::Error::other(format!("{COUNT} files were expected, {came} came")))
}

impl Attachment {
    pub(super) fn open(terms: &Terms) -> Result<Self, OpenError> {
        Ok(match terms.kind {
            Kind::Sockets | Kind::SocketsFor(_) => Self::Sockets(Sockets::open(terms)?),
            Kind::Tap => Self::Tap(Tap::open(terms)?),
        })
    }

    /// The file that frames are read from, and that tells how the interface fares; `None` while there is
    /// none.
    pub(super) const fn file(&self) -> Option<&Arc<OwnedFd>> {
        match self {
            Self::Sockets(sockets) => Some(&sockets.receiving),
            Self::Tap(tap) => Some(&tap.file),
            Self::Away => None,
        }
    }

    /// The longest frame, without VLAN tag, that the interface carried when it was opened, in bytes.
    pub(super) const fn sent_bytes_max(&self) -> u32 {
        match self {
            Self::Sockets(sockets) => sockets.sent_bytes_max,
            Self::Tap(tap) => tap.sent_bytes_max,
            Self::Away => 0,
        }
    }
}
