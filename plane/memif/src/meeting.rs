//! How a client comes: we listen, it connects, brings memory and rings, and says that all is said.
//!
//! The socket's name is abstract (unix(7)): there is no file that could stay behind, whatever ends us.
//! Anybody may connect to it, so the kernel is asked who did, and only the user that the program runs as is
//! let in.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use headgate_shm::{Memory, Pages};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendFlags,
    SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, listen, recvmsg, sendmsg, socket_with,
    sockopt,
};

use crate::connection::Connection;
use crate::message::{FromClient, FromServer, MESSAGE_BYTES, VERSION};
use crate::ring::{LOG2_RING_MAX, Ring, Shared, Watch};

/// Pieces of memory that a client may bring. Our choice: DPDK's clients bring one, and with buffers of their
/// own one for each segment of their memory.
const REGIONS_MAX: u16 = 16;
/// Bytes of one of them. Our choice: more than the largest rings and their buffers take.
const REGION_BYTES_MAX: u64 = 1 << 30;
/// Maximum number of messages read in one call, so that a talkative client cannot hold its listener.
const MESSAGES_MAX: usize = 64;

/// Why there is no connection, or none any more.
#[derive(Debug, thiserror::Error)]
pub enum MeetingError {
    /// The kernel refused.
    #[error("memif: cannot {step}: {cause}")]
    System {
        /// What was tried.
        step: &'static str,
        /// What the kernel said.
        cause: Errno,
    },
    /// The client broke the protocol, or memory of its cannot be used.
    #[error("memif: {0}")]
    Refused(String),
    /// The client went.
    #[error("memif: it has disconnected{0}")]
    Gone(String),
}

fn system(step: &'static str) -> impl FnOnce(Errno) -> MeetingError {
    move |cause| MeetingError::System { step, cause }
}

fn refused<T>(why: impl Into<String>) -> Result<T, MeetingError> {
    Err(MeetingError::Refused(why.into()))
}

/// A client that has connected its socket.
struct Guest {
    socket: OwnedFd,
    introduced: bool,
    regions: Vec<Memory>,
    /// To the client, and from it: region, offset, size.
    rings: [Option<(u16, u32, u8)>; 2],
    connected: Option<Watch>,
}

/// One interface that one client may connect to. To drop it is to disconnect.
pub struct Meeting {
    name: String,
    listener: OwnedFd,
    log2_ring_max: u8,
    user: u32,
    guest: Option<Guest>,
}

impl Meeting {
    /// Listens under an abstract name for a process of that user. Rings have at most `ring` places.
    ///
    /// # Errors
    /// [`MeetingError::System`], also when somebody has the name.
    pub fn open(name: &str, user: u32, ring: u32) -> Result<Self, MeetingError> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let listener = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)
            .map_err(system("make a socket"))?;
        let address =
            SocketAddrUnix::new_abstract_name(name.as_bytes()).map_err(system("name its socket"))?;
        bind(&listener, &address).map_err(system("take the name of its socket"))?;
        listen(&listener, 1).map_err(system("listen"))?;
        let log2_ring_max = (ring.ilog2() as u8).min(LOG2_RING_MAX);
        Ok(Self { name: name.to_owned(), listener, log2_ring_max, user, guest: None })
    }

    /// What a client connects to.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Sees to it that it goes on; never waits. The worker's end once the client is connected.
    ///
    /// # Errors
    /// [`MeetingError`]: there is no client any more, or never will be.
    pub fn tend(&mut self) -> Result<Option<Connection>, MeetingError> {
        self.let_in()?;
        let Some(guest) = &mut self.guest else { return Ok(None) };
        if let Some(offence) = guest.connected.as_ref().and_then(Watch::offence) {
            return refused(offence.to_string());
        }
        let result = guest.listen();
        if let Err(MeetingError::Refused(why)) = &result {
            // It may be gone already.
            let _ = guest.say(FromServer::Disconnect(why));
        }
        result
    }

    /// Whether a client is connected.
    #[must_use]
    pub fn watch(&self) -> Option<&Watch> {
        self.guest.as_ref()?.connected.as_ref()
    }

    fn let_in(&mut self) -> Result<(), MeetingError> {
        // Whoever comes while there is a guest waits in vain.
        while self.guest.is_none() {
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            let socket = match accept_with(&self.listener, flags) {
                Ok(socket) => socket,
                Err(Errno::AGAIN | Errno::INTR | Errno::CONNABORTED) => return Ok(()),
                Err(cause) => return Err(system("let a client in")(cause)),
            };
            let is_expected =
                sockopt::socket_peercred(&socket).is_ok_and(|peer| peer.uid.as_raw() == self.user);
            if !is_expected {
                continue;
            }
            let guest =
                Guest { socket, introduced: false, regions: Vec::new(), rings: [None; 2], connected: None };
            guest
                .say(FromServer::Hello { region_max: REGIONS_MAX - 1, log2_ring_max: self.log2_ring_max })?;
            self.guest = Some(guest);
        }
        Ok(())
    }
}

impl Guest {
    fn say(&self, message: FromServer<'_>) -> Result<(), MeetingError> {
        let mut nothing = SendAncillaryBuffer::default();
        sendmsg(&self.socket, &[IoSlice::new(&message.write())], &mut nothing, SendFlags::NOSIGNAL)
            .map(drop)
            .map_err(system("answer"))
    }

    fn listen(&mut self) -> Result<Option<Connection>, MeetingError> {
        for _ in 0..MESSAGES_MAX {
            let Some((message, file)) = self.receive()? else { return Ok(None) };
            if let Some(cable) = self.heed(message, file)? {
                return Ok(Some(cable));
            }
        }
        Ok(None)
    }

    fn receive(&self) -> Result<Option<(FromClient, Option<OwnedFd>)>, MeetingError> {
        let mut body = [0; MESSAGE_BYTES];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::CMSG_CLOEXEC;
        let received = match recvmsg(&self.socket, &mut [IoSliceMut::new(&mut body)], &mut ancillary, flags) {
            Ok(received) => received,
            Err(Errno::AGAIN | Errno::INTR) => return Ok(None),
            Err(Errno::CONNRESET) => return Err(MeetingError::Gone(String::new())),
            Err(cause) => return Err(system("listen to its client")(cause)),
        };
        let mut files = ancillary.drain().flat_map(|message| match message {
            RecvAncillaryMessage::ScmRights(files) => files.collect(),
            _ => Vec::new(),
        });
        match received.bytes {
            0 => Err(MeetingError::Gone(String::new())),
            MESSAGE_BYTES => match FromClient::read(&body) {
                Some(message) => Ok(Some((message, files.next()))),
                None => refused("it sent a message that is none"),
            },
            bytes => refused(format!("it sent a message of {bytes} bytes; every one has {MESSAGE_BYTES}")),
        }
    }

    /// The worker's end when all is said.
    fn heed(
        &mut self,
        message: FromClient,
        file: Option<OwnedFd>,
    ) -> Result<Option<Connection>, MeetingError> {
        let is_connected = self.connected.is_some();
        match message {
            FromClient::Ack => return Ok(None),
            FromClient::Disconnect { reason } => {
                let because = if reason.is_empty() { reason } else { format!(": {reason}") };
                return Err(MeetingError::Gone(because));
            }
            _ if is_connected => return refused("it is connected and wants to change its memory"),
            FromClient::Init { version, ethernet, .. } => {
                if version != VERSION {
                    return refused(format!(
                        "it speaks version {}.{}; we speak 2.0",
                        version >> 8,
                        version & 0xff
                    ));
                }
                if !ethernet {
                    return refused("its packets are not Ethernet frames");
                }
                self.introduced = true;
            }
            _ if !self.introduced => return refused("it did not say who it is"),
            FromClient::AddRegion { index, bytes } => self.add_region(index, bytes, file)?,
            FromClient::AddRing { from_client, index, region, offset, log2_size } => {
                let ring = &mut self.rings[usize::from(from_client)];
                if index != 0 || ring.is_some() {
                    return refused("it brought more than one ring each way");
                }
                *ring = Some((region, offset, log2_size));
            }
            FromClient::Connect => return self.connect().map(Some),
        }
        self.say(FromServer::Ack)?;
        Ok(None)
    }

    fn add_region(&mut self, index: u16, bytes: u64, file: Option<OwnedFd>) -> Result<(), MeetingError> {
        let Some(file) = file else { return refused("it brought memory without a file") };
        if usize::from(index) != self.regions.len() || index >= REGIONS_MAX {
            return refused(format!("its memory has number {index}; {} was due", self.regions.len()));
        }
        let size = rustix::fs::fstat(&file).map_err(system("examine its memory"))?.st_size as u64;
        if bytes == 0 || size.max(bytes) > REGION_BYTES_MAX {
            return refused(format!(
                "it brought memory of {bytes} bytes; from 1 to {REGION_BYTES_MAX} can be used"
            ));
        }
        let memory = Memory::attach("memif", file, bytes as usize, true).map_err(|_| {
            let why = "its memory could shrink while we read it: it must be a memfd with F_SEAL_SHRINK";
            MeetingError::Refused(why.to_owned())
        })?;
        // Of huge pages that are taken out of it none may be left to take their place.
        if memory.pages() != Pages::Ordinary {
            return refused("its memory is of huge pages, which could vanish while we read them");
        }
        self.regions.push(memory);
        Ok(())
    }

    fn connect(&mut self) -> Result<Connection, MeetingError> {
        let ring = |place: Option<(u16, u32, u8)>| {
            let (region, offset, log2_size) = place?;
            Ring::at(self.regions.get(usize::from(region))?, offset, log2_size)
        };
        let (Some(to_client), Some(from_client)) = (ring(self.rings[0]), ring(self.rings[1])) else {
            return refused("it did not bring one good ring each way");
        };
        let shared = Arc::new(Shared::new(std::mem::take(&mut self.regions), to_client, from_client));
        self.connected = Some(Watch(shared.clone()));
        self.say(FromServer::Connected)?;
        Ok(Connection::new(shared))
    }
}
