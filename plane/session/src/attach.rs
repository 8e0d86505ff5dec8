//! Attachment of an NF's process: how it finds its manager and gets its memory.

use std::cell::Cell;
use std::os::fd::{AsFd, FromRawFd, OwnedFd, RawFd};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use headgate_shm::memory::PAGE_BYTES;
use headgate_shm::state::{STATE_BYTES_MAX, STATE_BYTES_MIN, region_bytes};
use headgate_shm::{ControlLayout, Geometry, Memory, MemoryError, NfSide, Region, TimesView};
use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use rustix::time::Timespec;

use crate::arguments::{ArgumentError, cut_all};
use crate::message::{self, FromNf, KeptState, MessageError, SOCKET_VARIABLE, ToNf, WELCOME_FILES, Welcome};
use crate::version::Versions;

/// Longest wait before a check whether the process was told to end: a signal that comes just before a wait
/// does not end it.
const PATIENCE: Duration = Duration::from_millis(100);

/// The environment variable with the path of the manager's socket, for an NF the manager did not launch.
pub const PATH_VARIABLE: &str = "HEADGATE_SOCKET";
/// The environment variable that says which configured NF a process is that the manager did not launch.
pub const NAME_VARIABLE: &str = "HEADGATE_NF";

/// Reason why an NF did not get its memory.
#[derive(Debug, thiserror::Error)]
pub enum AttachError {
    /// Nothing says where the manager is.
    #[error(
        "no manager: this network function was not launched by one ({SOCKET_VARIABLE} is not set); to attach \
         to a running manager set {PATH_VARIABLE} to its socket's path and {NAME_VARIABLE} to the name \
         of an [[nf]] of its configuration"
    )]
    NoManager,
    /// [`SOCKET_VARIABLE`] names no open socket.
    #[error("{SOCKET_VARIABLE}={value} is not the number of an open socket")]
    BadSocket {
        /// Value of the variable.
        value: String,
    },
    /// The manager's socket did not answer.
    #[error("cannot connect to a manager at {}: {cause}; is it running (`headgate status`)?", path.display())]
    NotThere {
        /// The socket's path.
        path: PathBuf,
        /// Error from the kernel.
        cause: Errno,
    },
    /// The manager will not take the NF in.
    #[error("the manager refused: {reason}")]
    Refused {
        /// Its reason.
        reason: String,
    },
    /// A signal told the process to end before the manager answered.
    #[error("told to end before the manager answered")]
    Terminated,
    /// The connection broke.
    #[error("attaching to the manager: {0}")]
    Connection(#[from] MessageError),
    /// The memory handed over could not be mapped.
    #[error("attaching to the manager: {0}")]
    Memory(#[from] MemoryError),
    /// The manager announced something that cannot be.
    #[error("attaching to the manager: {0}; are manager and library of one version?")]
    Nonsense(String),
}

/// A connection to a manager, before the first word.
#[derive(Debug)]
pub struct Connection {
    socket: OwnedFd,
    name: String,
}

impl Connection {
    /// The connection a process was given in its environment: a socket, or a path and a name.
    ///
    /// Takes possession of the socket that [`SOCKET_VARIABLE`] names, so call it once in a process.
    ///
    /// # Errors
    /// [`AttachError`].
    pub fn from_environment() -> Result<Self, AttachError> {
        if let Ok(value) = std::env::var(SOCKET_VARIABLE) {
            let socket = inherited(&value).ok_or(AttachError::BadSocket { value })?;
            return Ok(Self::from_socket(socket));
        }
        let path = std::env::var_os(PATH_VARIABLE).ok_or(AttachError::NoManager)?;
        let name = std::env::var(NAME_VARIABLE).map_err(|_| AttachError::NoManager)?;
        Self::connect(Path::new(&path), name)
    }

    /// The connection of a launched process: its standard input.
    ///
    /// # Errors
    /// [`AttachError::BadSocket`].
    pub fn from_standard_input() -> Result<Self, AttachError> {
        let socket = inherited("0").ok_or_else(|| AttachError::BadSocket { value: "0".to_owned() })?;
        Ok(Self::from_socket(socket))
    }

    /// The launched end of a socket pair whose other end a manager holds.
    #[must_use]
    pub const fn from_socket(socket: OwnedFd) -> Self {
        Self { socket, name: String::new() }
    }

    /// Connects to the manager's socket as the configured NF `name`.
    ///
    /// # Errors
    /// [`AttachError::NotThere`].
    pub fn connect(path: &Path, name: String) -> Result<Self, AttachError> {
        let not_there = |cause| AttachError::NotThere { path: path.to_owned(), cause };
        let address = SocketAddrUnix::new(path).map_err(not_there)?;
        let (family, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
        let socket = rustix::net::socket_with(family, kind, SocketFlags::CLOEXEC, None).map_err(not_there)?;
        rustix::net::connect(&socket, &address).map_err(not_there)?;
        Ok(Self { socket, name })
    }

    /// Says goodbye without having attached: why the process could not become an NF.
    pub fn give_up(&self, reason: &str) {
        // A manager that is gone needs no reason.
        let goodbye = FromNf::Goodbye { reason: reason.to_owned(), refused: Vec::new() };
        let _ = message::send(&self.socket, &goodbye, &[]);
    }

    /// Says hello, and maps what the manager hands over. Waits for the manager's answer.
    ///
    /// # Errors
    /// [`AttachError`]; [`AttachError::Terminated`] once `ended` says that the process is to end.
    pub fn attach(self, ended: &AtomicBool) -> Result<Attached, AttachError> {
        self.say_hello()?;
        self.wait_for_answer(ended)?;
        self.take_welcome()
    }

    /// Says hello, and does not wait for the manager's answer.
    ///
    /// # Errors
    /// [`AttachError::Connection`].
    pub fn say_hello(&self) -> Result<(), AttachError> {
        let hello = FromNf::Hello { versions: Versions::OURS, name: self.name.clone() };
        match message::send(&self.socket, &hello, &[]) {
            // Refused before it was asked: the answer says why.
            Ok(()) | Err(MessageError::Socket(Errno::PIPE)) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Takes the manager's answer to a hello, which is there, and maps what it hands over.
    ///
    /// # Errors
    /// [`AttachError`].
    pub fn take_welcome(self) -> Result<Attached, AttachError> {
        let (answer, files) =
            message::receive::<ToNf>(&self.socket)?.ok_or(MessageError::Socket(Errno::AGAIN))?;
        let welcome = match answer {
            ToNf::Welcome(welcome) => welcome,
            ToNf::Refused { reason } => return Err(AttachError::Refused { reason }),
            ToNf::Message { .. } | ToNf::Go | ToNf::State => {
                return Err(AttachError::Nonsense("the first word was not a welcome".to_owned()));
            }
        };
        let mapped = Versions::OURS
            .check(welcome.abi)
            .map_err(AttachError::Nonsense)
            .and_then(|()| map(&welcome, files));
        if let Err(error) = &mapped {
            self.give_up(&error.to_string());
        }
        let Mapped { region, side, interfaces, state, times } = mapped?;
        rustix::io::ioctl_fionbio(&self.socket, true).map_err(MessageError::Socket)?;
        Ok(Attached {
            socket: Rc::new(self.socket),
            welcome,
            region,
            side: Rc::new(side),
            interfaces: Cell::new(interfaces),
            state: Cell::new(state),
            times: Cell::new(times),
        })
    }

    /// Waits as long as it takes, but not past a signal to end.
    fn wait_for_answer(&self, ended: &AtomicBool) -> Result<(), AttachError> {
        let mut polled = [PollFd::new(&self.socket, PollFlags::IN)];
        let patience = Timespec { tv_sec: 0, tv_nsec: i64::from(PATIENCE.subsec_nanos()) };
        while !ended.load(Ordering::Relaxed) {
            match rustix::event::poll(&mut polled, Some(&patience)) {
                Ok(0) | Err(Errno::INTR) => {}
                Ok(_) => return Ok(()),
                Err(error) => return Err(MessageError::Socket(error).into()),
            }
        }
        Err(AttachError::Terminated)
    }
}

/// Memory and doorbells that came with a welcome.
struct Mapped {
    region: Region,
    side: NfSide,
    interfaces: Option<[OwnedFd; 2]>,
    state: Option<Memory>,
    times: Option<TimesView>,
}

fn map(welcome: &Welcome, files: Vec<OwnedFd>) -> Result<Mapped, AttachError> {
    let sockets = if welcome.kernel.is_some() { 2 } else { 0 };
    let wanted =
        WELCOME_FILES + usize::from(welcome.state.is_some()) + usize::from(welcome.has_times) + sockets;
    let count = files.len();
    let mut files = files.into_iter();
    let (Some(packets), Some(control), Some(directives), true) =
        (files.next(), files.next(), files.next(), count == wanted)
    else {
        return Err(AttachError::Nonsense(format!("{count} files came, not {wanted}")));
    };
    let geometry = Geometry::announced(welcome.buffers, welcome.stride, welcome.long_buffers)
        .ok_or_else(|| AttachError::Nonsense("a packet region of an impossible shape".to_owned()))?;
    let layout = ControlLayout::new(welcome.ring).map_err(AttachError::Nonsense)?;
    let packets = Memory::attach("packet region", packets, geometry.bytes(), true)?;
    let control = Memory::attach("control region", control, layout.bytes(), true)?;
    let directives = Memory::attach("directives", directives, PAGE_BYTES, false)?;
    let state = welcome.state.as_ref().zip(welcome.state.as_ref().and_then(|_| files.next()));
    let state = state.map(|(told, file)| map_state(told, file)).transpose()?;
    let times = if welcome.has_times { files.next() } else { None };
    Ok(Mapped {
        state,
        times: times.map(|file| TimesView::attach(file, geometry)).transpose()?,
        region: Region::attach(packets, geometry)?,
        side: NfSide::attach(control, directives, layout)?,
        interfaces: files.next().zip(files.next()).map(|(towards_in, towards_out)| [towards_in, towards_out]),
    })
}

fn map_state(told: &KeptState, file: OwnedFd) -> Result<Memory, AttachError> {
    if !(STATE_BYTES_MIN..=STATE_BYTES_MAX).contains(&told.bytes) {
        return Err(AttachError::Nonsense("a state region of an impossible size".to_owned()));
    }
    Ok(Memory::attach("state region", file, region_bytes(told.bytes), true)?)
}

/// An NF's process that has its memory.
pub struct Attached {
    /// Socket.
    pub socket: Rc<OwnedFd>,
    /// Welcome from the manager.
    pub welcome: Welcome,
    /// Packet region.
    pub region: Region,
    /// Control region and directives.
    pub side: Rc<NfSide>,
    /// The sockets of its interfaces, until they are taken; none where it works on its rings.
    pub interfaces: Cell<Option<[OwnedFd; 2]>>,
    /// Its state region, until it is taken; none where no state is kept.
    pub state: Cell<Option<Memory>>,
    /// Times of its packets, until they are taken; none where they have none of their own.
    pub times: Cell<Option<TimesView>>,
}

impl Attached {
    /// Says something to the manager.
    ///
    /// # Errors
    /// [`MessageError`].
    pub fn say(&self, word: &FromNf) -> Result<(), MessageError> {
        message::send(&self.socket, word, &[])
    }

    /// The last word, with the arguments that are refused, if it is for them. The manager may be gone, or not
    /// reading; the process ends either way.
    pub fn say_goodbye(&self, reason: String, refused: &[ArgumentError]) {
        let _ = self.say(&FromNf::Goodbye { reason, refused: cut_all(refused) });
    }

    /// The next message of the manager, if one is there.
    ///
    /// # Errors
    /// [`MessageError`].
    pub fn hear(&self) -> Result<Option<ToNf>, MessageError> {
        Ok(message::receive(&self.socket)?.map(|(message, _)| message))
    }

    /// The next message of the manager with its files, if one is there.
    ///
    /// # Errors
    /// [`MessageError`].
    pub fn hear_with_files(&self) -> Result<Option<(ToNf, Vec<OwnedFd>)>, MessageError> {
        message::receive(&self.socket)
    }

    /// Maps the region that came with [`ToNf::State`].
    ///
    /// # Errors
    /// [`AttachError`]: none came, or none that could be, or no state is kept.
    pub fn map_other_state(&self, files: Vec<OwnedFd>) -> Result<Memory, AttachError> {
        let told = self.welcome.state.as_ref().zip(files.into_iter().next());
        let (told, file) = told.ok_or_else(|| {
            AttachError::Nonsense("other state without a file, or where none is kept".to_owned())
        })?;
        map_state(told, file)
    }

    /// Returns whether the manager closed the connection.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        let mut polled = [PollFd::new(&self.socket, PollFlags::empty())];
        let limit = Timespec::default();
        // An interrupted poll says nothing; the next one will.
        rustix::event::poll(&mut polled, Some(&limit)).is_ok()
            && polled[0].revents().intersects(PollFlags::HUP | PollFlags::ERR)
    }
}

/// Takes possession of the socket whose number is `value`. Standard input is given back as `/dev/null`, and
/// no child of this process inherits the socket.
fn inherited(value: &str) -> Option<OwnedFd> {
    let number: RawFd = value.parse().ok().filter(|number| *number >= 0)?;
    // SAFETY: borrowed only to ask whether it is open.
    let candidate = unsafe { rustix::fd::BorrowedFd::borrow_raw(number) };
    let flags = rustix::io::fcntl_getfd(candidate).ok()?;
    rustix::net::sockopt::socket_type(candidate).ok()?;
    if number > 2 {
        rustix::io::fcntl_setfd(candidate, flags | rustix::io::FdFlags::CLOEXEC).ok()?;
        // SAFETY: open, and ours by the convention of the variable.
        return Some(unsafe { OwnedFd::from_raw_fd(number) });
    }
    let socket = rustix::io::fcntl_dupfd_cloexec(candidate, 3).ok()?;
    if number == 0 {
        let null =
            rustix::fs::open("/dev/null", rustix::fs::OFlags::RDONLY, rustix::fs::Mode::empty()).ok()?;
        rustix::stdio::dup2_stdin(null.as_fd()).ok()?;
    }
    Some(socket)
}
