//! Messages between an NF and the manager, by which it gets its memory, over a Unix socket that keeps their
//! boundaries (SOCK_SEQPACKET).
//!
//! ```text
//! process  -> manager   seated {lacks}               where it was launched to wait
//! manager  -> process   go
//! NF       -> manager   hello {versions, name}
//! manager  -> NF        welcome {version, shape, names, arguments} + files: packets, control, directives,
//!                       and the state region of an NF whose state is kept
//!                       or refused {reason}
//! NF       -> manager   ready {lend, answers, ...}   from here on packets may come, and empty buffers
//! manager  -> NF        state + file               a region to go on with in the place of its own
//! both                  message {body}               for the NF's author; a numbered one is answered:
//! NF       -> manager   answer {number, body, refused}
//! NF       -> manager   counters {names}             what its counters mean
//! NF       -> manager   goodbye {reason, refused}    every packet returned; or why it could not start
//! ```
//!
//! Off the packet path, so JSON: readable in `strace`, parsed by a library that is used to hostile input.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::arguments::ArgumentError;
use crate::kernel_io::KernelIo;
use crate::version::Versions;

/// The longest message, in bytes. A longer one is cut by the kernel and refused by us.
pub const MESSAGE_BYTES_MAX: usize = 64 << 10;
/// Files that come with a welcome: packet region, control region, directives.
pub const WELCOME_FILES: usize = 3;
/// Most files that come with a welcome: to I/O on interfaces a socket for each of them besides, to an NF
/// whose state is kept the state region.
pub const WELCOME_FILES_MAX: usize = WELCOME_FILES + 2;
/// The environment variable that tells a launched NF which file descriptor is its socket.
pub const SOCKET_VARIABLE: &str = "HEADGATE_FD";

/// Way in which an NF waits for packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Loop {
    /// Sleeps on its doorbell when there is nothing to do.
    #[default]
    Notified,
    /// Never sleeps.
    Polling,
    /// Never sleeps, but gives the core up after this many bursts, and when there is nothing to do.
    Cooperative {
        /// Bursts between two yields (UNiS, k).
        yield_after: u32,
    },
}

/// Message from an NF, or from the process that will become one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "is")]
pub enum FromNf {
    /// The process that waits to be this NF has taken its place; it runs nothing of the NF before
    /// [`ToNf::Go`].
    Seated {
        /// Parts of the confinement that this kernel lacks, in sentences.
        lacks: Vec<String>,
    },
    /// First word of an NF: which versions the library speaks, and which configured NF this is.
    Hello {
        /// Versions of the interface.
        #[serde(flatten)]
        versions: Versions,
        /// The NF's name in the configuration; empty for one that the manager launched.
        name: String,
    },
    /// The NF is set up and waits for packets.
    Ready {
        /// Number of empty buffers it wants to be lent for packets it makes; it is lent at most
        /// [`headgate_shm::control::lent_for`] as many.
        #[serde(default)]
        lend: u32,
        /// Whether it answers messages that have a number; libraries of before there were answers do not.
        #[serde(default)]
        answers: bool,
        /// Its kept state, if the welcome came with some.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        state: Option<StateSaid>,
        /// Whether it takes frames that are not cut yet, and whose checksums are only begun.
        #[serde(default)]
        takes_long: bool,
    },
    /// A message for listeners to this NF's events.
    Message {
        /// Free text; by convention JSON.
        body: String,
    },
    /// The answer to a message from an operator.
    Answer {
        /// Number of the message.
        number: u64,
        /// What the NF said to it, or why it refused.
        body: String,
        /// Whether it refused.
        #[serde(default)]
        refused: bool,
    },
    /// The names of its counters, in the order of their places.
    Counters {
        /// Names, at most [`headgate_shm::control::COUNTERS`].
        names: Vec<String>,
    },
    /// The NF has returned every packet and leaves; or it could not start, and says why.
    Goodbye {
        /// Empty for a clean end.
        reason: String,
        /// Its arguments that it refuses, so that it need not be started again with them. Libraries of
        /// before do not say so.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        refused: Vec<ArgumentError>,
    },
}

/// Message from the manager.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "is")]
pub enum ToNf {
    /// A process that waits in its place is needed.
    Go,
    /// The NF is taken in. Comes with three files.
    Welcome(Welcome),
    /// The NF is not taken in.
    Refused {
        /// Reason and cure.
        reason: String,
    },
    /// What another node kept takes the place of what the NF keeps, from the next packet on. Comes with its
    /// region as a file, to an NF that says that it [can](StateSaid::replaces), while it has no packet.
    State,
    /// A message from an operator (`headgate tell`).
    Message {
        /// Free text; by convention JSON.
        body: String,
        /// Number under which an answer is awaited.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        number: Option<u64>,
    },
}

/// Facts that an NF needs to work.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Welcome {
    /// Version of the interface that both speak from here on: the highest that both know. 0 from a manager
    /// that does not say, which is of the NF's newest.
    #[serde(default)]
    pub abi: u32,
    /// The instance's name, for people: `fw` or `fw.2`.
    pub name: String,
    /// Plain buffers in the packet region.
    pub buffers: u32,
    /// Bytes from one of them to the next.
    pub stride: u32,
    /// Long buffers, which lie behind them.
    #[serde(default)]
    pub long_buffers: u32,
    /// Descriptors in each ring.
    pub ring: u32,
    /// Way of waiting.
    pub waits: Loop,
    /// Names of the ports; a port's number is its place here.
    pub ports: Vec<String>,
    /// Names of the stages; a stage's number is its place here.
    pub stages: Vec<String>,
    /// Numbers and names of the chains that visit the NF, for packets that it makes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub chains: Vec<(u16, String)>,
    /// The NF's own arguments from the configuration, a JSON object.
    pub arguments: String,
    /// The interfaces it works on instead of its rings, if it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel: Option<KernelIo>,
    /// Its kept state, whose region is the file behind the directives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<KeptState>,
    /// Whether packets have times of their own, which are in the file behind its state: those of its group.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_times: bool,
}

/// State of an NF that outlives its processes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptState {
    /// Bytes for tables and values, whole pages.
    pub bytes: u64,
    /// Packets that all processes of the instance before this one returned (wraps).
    pub base: u32,
    /// Treatment of tables of another schema.
    pub on_change: OnChange,
    /// Part of this process in the instance.
    #[serde(default)]
    pub part: Part,
}

/// Part of a process in an instance whose state is kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Part {
    /// It has no standby.
    #[default]
    Alone,
    /// It works, and a standby is given the packets again that it does not return: packets are saved before
    /// they change, as state is.
    Active,
    /// It waits, beside the process that works, until its orders say that it goes, and is active from then
    /// on.
    Standby,
}

/// Treatment of kept state whose schema is not the program's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnChange {
    /// It begins anew, with an event.
    #[default]
    Discard,
    /// The NF does not start.
    Refuse,
}

/// What an NF says of its kept state once it is ready.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateSaid {
    /// Whether an earlier process left some.
    pub found: bool,
    /// Changes of a burst that was not returned, which were undone.
    pub undone: u32,
    /// Parts that were discarded, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub discarded: Vec<String>,
    /// Its tables and values.
    pub tables: u32,
    /// Whether it goes on with another region when it is given one ([`ToNf::State`]). Libraries of before do
    /// not.
    #[serde(default)]
    pub replaces: bool,
}

/// Reason why a message could not be sent or received.
#[derive(Debug, thiserror::Error)]
pub enum MessageError {
    /// The other side closed the socket.
    #[error("the other side closed the connection")]
    Closed,
    /// The kernel refused.
    #[error("socket: {0}")]
    Socket(#[from] Errno),
    /// The message is none of ours.
    #[error("not a message of this protocol: {0}")]
    Garbled(String),
}

/// Sends a message, with files.
///
/// # Errors
/// [`MessageError`], also when the receiver does not drain its socket (`AGAIN` on a non-blocking one).
pub fn send<M: Serialize>(
    socket: impl AsFd,
    message: &M,
    files: &[BorrowedFd<'_>],
) -> Result<(), MessageError> {
    let body = serde_json::to_vec(message).map_err(|error| MessageError::Garbled(error.to_string()))?;
    if body.len() > MESSAGE_BYTES_MAX {
        return Err(MessageError::Garbled(format!(
            "{} bytes are more than the {MESSAGE_BYTES_MAX} of a message",
            body.len()
        )));
    }
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(WELCOME_FILES_MAX))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !files.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(files)) {
        return Err(MessageError::Garbled("too many files".to_owned()));
    }
    sendmsg(socket, &[IoSlice::new(&body)], &mut ancillary, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Receives a message with its files. On a non-blocking socket with nothing there: `None`.
///
/// # Errors
/// [`MessageError`]; after `Garbled` the socket may be read again.
pub fn receive<M: DeserializeOwned>(socket: impl AsFd) -> Result<Option<(M, Vec<OwnedFd>)>, MessageError> {
    let mut body = vec![0; MESSAGE_BYTES_MAX + 1];
    let Some((bytes, files)) = receive_bytes(socket, &mut body)? else { return Ok(None) };
    Ok(Some((read(&body[..bytes])?, files)))
}

/// Receives the bytes of a message, and its files. `body` has room for one byte more than the longest.
///
/// # Errors
/// [`MessageError::Closed`], [`MessageError::Socket`].
pub(crate) fn receive_bytes(
    socket: impl AsFd,
    body: &mut [u8],
) -> Result<Option<(usize, Vec<OwnedFd>)>, MessageError> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(WELCOME_FILES_MAX))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let received = loop {
        match recvmsg(&socket, &mut [IoSliceMut::new(body)], &mut ancillary, RecvFlags::CMSG_CLOEXEC) {
            Ok(received) => break received,
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => return Ok(None),
            Err(Errno::CONNRESET) => return Err(MessageError::Closed),
            Err(error) => return Err(error.into()),
        }
    };
    let files: Vec<OwnedFd> = ancillary
        .drain()
        .flat_map(|message| match message {
            RecvAncillaryMessage::ScmRights(files) => files.collect(),
            _ => Vec::new(),
        })
        .collect();
    if received.bytes == 0 {
        return Err(MessageError::Closed);
    }
    Ok(Some((received.bytes, files)))
}

/// Reads the bytes of a message.
///
/// # Errors
/// [`MessageError::Garbled`].
pub(crate) fn read<M: DeserializeOwned>(bytes: &[u8]) -> Result<M, MessageError> {
    if bytes.len() > MESSAGE_BYTES_MAX {
        return Err(MessageError::Garbled(format!("longer than {MESSAGE_BYTES_MAX} bytes")));
    }
    serde_json::from_slice(bytes).map_err(|error| MessageError::Garbled(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

    fn pair() -> (OwnedFd, OwnedFd) {
        socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap()
    }

    #[test]
    fn a_welcome_arrives_with_its_files() {
        let (manager, nf) = pair();
        let welcome = ToNf::Welcome(Welcome { name: "fw".into(), ring: 4096, ..Welcome::default() });
        send(&manager, &welcome, &[manager.as_fd(), nf.as_fd(), nf.as_fd()]).unwrap();
        let (got, files) = receive::<ToNf>(&nf).unwrap().unwrap();
        assert_eq!(got, welcome);
        assert_eq!(files.len(), 3);
    }

    #[test]
    fn garbage_is_refused_and_a_closed_socket_is_told_apart() {
        let (manager, nf) = pair();
        for garbage in
            [&b"{}"[..], b"\xff\x00", b"{\"is\":\"hello\",\"abi\":-1}", &[b'x'; MESSAGE_BYTES_MAX + 1]]
        {
            rustix::net::send(&nf, garbage, SendFlags::empty()).unwrap();
            assert!(matches!(receive::<FromNf>(&manager), Err(MessageError::Garbled(_))));
        }
        drop(nf);
        assert!(matches!(receive::<FromNf>(&manager), Err(MessageError::Closed)));
    }
}
