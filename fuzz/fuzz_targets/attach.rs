//! Any bytes as a message between a manager and an NF, as each of them receives it.
//!
//! The input is one message. It goes through a socket as the real one does, because the parser is behind it.

#![no_main]

use std::os::fd::{AsFd, OwnedFd};

use headgate_session::message::{MessageError, FromNf, MESSAGE_BYTES_MAX, ToNf, Welcome, receive, send};
use headgate_shm::{ControlLayout, Geometry};
use libfuzzer_sys::fuzz_target;
use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, socketpair};
use serde::{Serialize, de::DeserializeOwned};

fuzz_target!(|bytes: &[u8]| {
    let sockets = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None);
    let (here, there) = sockets.expect("a pair of sockets");
    let from_nf = check::<FromNf>(&here, &there, bytes);
    let to_nf = check::<ToNf>(&here, &there, bytes);
    if let Some(ToNf::Welcome(welcome)) = &to_nf {
        check_shape(welcome);
    }
    // Neither side takes its own words for the other's, but for what both may say.
    if from_nf.is_some() && to_nf.is_some() {
        assert!(
            matches!(to_nf, Some(ToNf::Message { .. })) && matches!(from_nf, Some(FromNf::Message { .. }))
        );
    }
});

/// Checks that a message that is understood is what a JSON parser finds by itself, and survives being sent;
/// one that is not leaves the socket as it was.
fn check<M: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug>(
    here: &OwnedFd,
    there: &OwnedFd,
    bytes: &[u8],
) -> Option<M> {
    if rustix::net::send(here, bytes, SendFlags::NOSIGNAL).is_err() {
        return None;
    }
    let understood = match receive::<M>(there) {
        Ok(Some((message, files))) => {
            assert!(files.is_empty() && bytes.len() <= MESSAGE_BYTES_MAX);
            assert_eq!(serde_json::from_slice::<M>(bytes).ok().as_ref(), Some(&message));
            Some(message)
        }
        Ok(None) => panic!("a blocking socket had nothing"),
        Err(MessageError::Garbled(why)) => {
            assert!(!why.is_empty());
            None
        }
        // A message of no bytes cannot be told from the end of a connection.
        Err(MessageError::Closed) => return bytes.is_empty().then(|| None).expect("only for no bytes"),
        Err(error) => panic!("{error}"),
    };
    if let Some(message) = &understood {
        sent_again(here, there, message);
    }
    understood
}

/// Sent with a file it arrives as it was, unless it has grown too long for a message by being written anew.
fn sent_again<M: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug>(
    here: &OwnedFd,
    there: &OwnedFd,
    message: &M,
) {
    match send(here, message, &[here.as_fd()]) {
        Ok(()) => {
            let (again, files) = receive::<M>(there).expect("ours").expect("a message");
            assert_eq!((&again, files.len()), (message, 1));
        }
        Err(MessageError::Garbled(_)) => {
            assert!(serde_json::to_vec(message).expect("it was JSON").len() > MESSAGE_BYTES_MAX);
        }
        Err(error) => panic!("{error}"),
    }
}

/// An NF forms the shapes of its memory from what it was told, before it maps anything.
fn check_shape(welcome: &Welcome) {
    if let Some(geometry) = Geometry::announced(welcome.buffers, welcome.stride, welcome.long_buffers) {
        assert!(geometry.bytes() >= welcome.buffers as usize * welcome.stride as usize);
    }
    if let Ok(layout) = ControlLayout::new(welcome.ring) {
        assert!(layout.bytes() >= welcome.ring as usize * 16, "two rings of eight bytes a descriptor");
    }
}
