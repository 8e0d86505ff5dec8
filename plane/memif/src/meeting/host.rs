//! The thread at a meeting's socket.
//!
//! A client brings files, and to receive one is to have to close it, which takes as long as its maker
//! likes: a socket may linger, a file may be of a file system in user space. So all that comes is received,
//! inspected and closed here, and the sockets are too, in whose queues there may be more.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender, SyncSender};

use headgate_shm::{Memory, Pages};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendFlags, SocketFlags,
    accept_with, recvmsg, sendmsg, sockopt,
};
use rustix::time::Timespec;

use super::{MeetingError, Outcome, refused, system};
use crate::connection::Connection;
use crate::message::{FromClient, FromServer, MESSAGE_BYTES, VERSION};
use crate::ring::{Ring, Shared};

/// Pieces of memory that a client may bring. Our choice: DPDK's clients bring one, and with buffers of their
/// own one for each segment of their memory.
const REGIONS_MAX: u16 = 16;
/// Bytes of one of them. Our choice: more than the largest rings and their buffers take.
const REGION_BYTES_MAX: u64 = 1 << 30;

/// Messages of one client. Our choice: many times what an honest one says.
const MESSAGES_MAX: u32 = 1024;
/// Time for which nobody is let in after somebody who was not expected: a client that comes again and again
/// must not cost a core.
const DEAF_FOR: Timespec = Timespec { tv_sec: 0, tv_nsec: 1_000_000 };

/// Signal that ends a meeting's thread.
#[derive(Debug)]
pub(super) struct End {
    nudge: OwnedFd,
    has_come: AtomicBool,
}

impl End {
    pub(super) fn new(nudge: OwnedFd) -> Self {
        Self { nudge, has_come: AtomicBool::new(false) }
    }

    pub(super) fn come(&self) {
        self.has_come.store(true, Ordering::Release); // E-release, with the thread's acquire in `has_come`
        // A counter that is full has been written.
        let _ = rustix::io::write(&self.nudge, &1u64.to_ne_bytes());
    }

    fn has_come(&self) -> bool {
        self.has_come.load(Ordering::Acquire) // E-acquire, with `come`
    }
}

/// State of the thread.
pub(super) struct Host {
    listener: OwnedFd,
    user: u32,
    log2_ring_max: u8,
    end: Arc<End>,
    outcomes: SyncSender<Outcome>,
    guest: Option<Guest>,
    /// Queue of memory to be closed: here, whichever side used it last.
    graves: (Sender<Vec<Memory>>, Receiver<Vec<Memory>>),
}

impl Host {
    pub(super) fn new(
        listener: OwnedFd,
        user: u32,
        log2_ring_max: u8,
        end: Arc<End>,
        outcomes: SyncSender<Outcome>,
    ) -> Self {
        Self { listener, user, log2_ring_max, end, outcomes, guest: None, graves: mpsc::channel() }
    }

    pub(super) fn run(mut self) {
        while self.wait(true, None) {
            if let Err(error) = self.serve() {
                if let (MeetingError::Refused(why), Some(guest)) = (&error, &self.guest) {
                    // It may be gone already.
                    let _ = guest.say(FromServer::Disconnect(why));
                }
                // There is room: a meeting has a client once, and an end once.
                let _ = self.outcomes.try_send(Outcome::Ended(error));
                break;
            }
        }
        while self.wait(false, None) {}
        let Self { listener, guest, graves: (sender, receiver), .. } = self;
        drop((listener, guest, sender));
        // Until nobody has memory of the client's any more.
        receiver.iter().for_each(drop);
    }

    /// Waits for the meeting's end, and for something to do, or for so long; false at the end.
    fn wait(&self, works: bool, limit: Option<&Timespec>) -> bool {
        if self.end.has_come() {
            return false;
        }
        let nudge = PollFd::new(&self.end.nudge, PollFlags::IN);
        let socket = self.guest.as_ref().map_or(&self.listener, |guest| &guest.socket);
        // An interrupted wait is a short one.
        let _ = match works {
            true => poll(&mut [nudge, PollFd::new(socket, PollFlags::IN)], limit),
            false => poll(&mut [nudge], limit),
        };
        !self.end.has_come()
    }

    fn serve(&mut self) -> Result<(), MeetingError> {
        let Some(guest) = &mut self.guest else { return self.let_in() };
        let Some(message) = guest.receive()? else { return Ok(()) };
        if let Some(connection) = guest.heed(message, &self.graves.0)? {
            let _ = self.outcomes.try_send(Outcome::Connected(connection));
        }
        Ok(())
    }

    /// Lets a client in, if it is of the user that is expected. Another that comes while there is one
    /// waits in vain.
    fn let_in(&mut self) -> Result<(), MeetingError> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = match accept_with(&self.listener, flags) {
            Ok(socket) => socket,
            Err(Errno::AGAIN | Errno::INTR | Errno::CONNABORTED) => return Ok(()),
            Err(cause) => return Err(system("let a client in")(cause)),
        };
        let is_expected = sockopt::socket_peercred(&socket).is_ok_and(|peer| peer.uid.as_raw() == self.user);
        if !is_expected {
            drop(socket);
            self.wait(false, Some(&DEAF_FOR));
        } else {
            let guest = Guest {
                socket,
                introduced: false,
                regions: Vec::new(),
                rings: [None; 2],
                is_connected: false,
                messages: 0,
                file: None,
            };
            guest
                .say(FromServer::Hello { region_max: REGIONS_MAX - 1, log2_ring_max: self.log2_ring_max })?;
            self.guest = Some(guest);
        }
        Ok(())
    }
}

/// A client that has connected its socket.
struct Guest {
    socket: OwnedFd,
    introduced: bool,
    regions: Vec<Memory>,
    /// To the client, and from it: region, offset, size.
    rings: [Option<(u16, u32, u8)>; 2],
    is_connected: bool,
    messages: u32,
    /// File that came with the last message. It is closed after everything that there is to say of that
    /// message was said.
    file: Option<OwnedFd>,
}

impl Guest {
    fn say(&self, message: FromServer<'_>) -> Result<(), MeetingError> {
        let mut nothing = SendAncillaryBuffer::default();
        sendmsg(&self.socket, &[IoSlice::new(&message.write())], &mut nothing, SendFlags::NOSIGNAL)
            .map(drop)
            .map_err(system("answer"))
    }

    fn receive(&mut self) -> Result<Option<FromClient>, MeetingError> {
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
        self.file = files.next();
        self.messages += 1;
        if self.messages > MESSAGES_MAX {
            return refused(format!("it sent more than {MESSAGES_MAX} messages"));
        }
        match received.bytes {
            0 => Err(MeetingError::Gone(String::new())),
            MESSAGE_BYTES => match FromClient::read(&body) {
                Some(message) => Ok(Some(message)),
                None => refused("it sent a message that is none"),
            },
            bytes => refused(format!("it sent a message of {bytes} bytes; every one has {MESSAGE_BYTES}")),
        }
    }

    /// The worker's end when all is said.
    fn heed(
        &mut self,
        message: FromClient,
        graves: &Sender<Vec<Memory>>,
    ) -> Result<Option<Connection>, MeetingError> {
        match message {
            FromClient::Ack => return Ok(None),
            FromClient::Disconnect { reason } => {
                let because = if reason.is_empty() { reason } else { format!(": {reason}") };
                return Err(MeetingError::Gone(because));
            }
            _ if self.is_connected => return refused("it is connected and wants to change its memory"),
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
            FromClient::AddRegion { index, bytes } => self.add_region(index, bytes)?,
            FromClient::AddRing { from_client, index, region, offset, log2_size } => {
                let ring = &mut self.rings[usize::from(from_client)];
                if index != 0 || ring.is_some() {
                    return refused("it brought more than one ring each way");
                }
                *ring = Some((region, offset, log2_size));
            }
            FromClient::Connect => return self.connect(graves).map(Some),
        }
        self.say(FromServer::Ack)?;
        Ok(None)
    }

    fn add_region(&mut self, index: u16, bytes: u64) -> Result<(), MeetingError> {
        let Some(file) = &self.file else { return refused("it brought memory without a file") };
        if usize::from(index) != self.regions.len() || index >= REGIONS_MAX {
            return refused(format!("its memory has number {index}; {} was due", self.regions.len()));
        }
        let size = rustix::fs::fstat(file).map_err(system("read the size of its memory"))?.st_size as u64;
        if bytes == 0 || size.max(bytes) > REGION_BYTES_MAX {
            return refused(format!(
                "it brought memory of {bytes} bytes; from 1 to {REGION_BYTES_MAX} can be used"
            ));
        }
        let file = file.try_clone().map_err(|_| system("keep its memory")(Errno::MFILE))?;
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

    fn connect(&mut self, graves: &Sender<Vec<Memory>>) -> Result<Connection, MeetingError> {
        let ring = |place: Option<(u16, u32, u8)>| {
            let (region, offset, log2_size) = place?;
            Ring::at(self.regions.get(usize::from(region))?, offset, log2_size)
        };
        let (Some(to_client), Some(from_client)) = (ring(self.rings[0]), ring(self.rings[1])) else {
            return refused("it did not bring one good ring each way");
        };
        let regions = std::mem::take(&mut self.regions);
        let shared = Arc::new(Shared::new(regions, to_client, from_client, graves.clone()));
        self.is_connected = true;
        self.say(FromServer::Connected)?;
        Ok(Connection::new(shared))
    }
}
