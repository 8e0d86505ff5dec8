//! A TAP: an interface whose cable ends in this process.
//!
//! Each read takes a frame that the kernel sent on the interface, each write is one that it receives; both
//! behind a virtio header (`IFF_VNET_HDR`). What the kernel may leave undone it is told with `TUNSETOFFLOAD`:
//! checksums and cutting, so that frames of up to 64 KiB come.
//!
//! A TAP that is not there yet is made, switched on, and gone when this process is. One that is there, made
//! with `ip tuntap add`, is taken as it is and stays.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt as _;
use std::sync::Arc;

use headgate_shm::Region;
use headgate_wire::offload::{self, Header};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::entrance::{Loss, Source, WHOLE_BYTES_MAX};
use super::terms::{State, Terms};
use crate::frame::Aside;
use crate::mapped::Incoming;
use crate::open::{OpenError, call, frame_bytes_max_of, index_of, named, switch_on};

const DEVICE: &str = "/dev/net/tun";
/// Work that the kernel may leave to us, the most first. Linux 6.2 came to know long frames of UDP.
const OFFLOADS: [libc::c_uint; 2] = {
    let tcp = libc::TUN_F_CSUM | libc::TUN_F_TSO4 | libc::TUN_F_TSO6 | libc::TUN_F_TSO_ECN;
    [tcp | libc::TUN_F_USO4 | libc::TUN_F_USO6, tcp]
};

/// A TAP that is open, and its next frame.
pub(super) struct Tap {
    pub(super) file: Arc<OwnedFd>,
    /// The longest frame, without VLAN tag, that the interface carried when it was opened.
    pub(super) sent_bytes_max: u32,
    /// Virtio header and frame.
    private: Box<[u8]>,
    /// Bytes of the frame that was read and not taken yet.
    filled: Option<usize>,
}

impl Tap {
    /// Opens it in the calling thread's namespace, and makes it where it is not there.
    ///
    /// # Errors
    /// [`OpenError`].
    pub(super) fn open(terms: &Terms) -> Result<Self, OpenError> {
        let name = || terms.name.clone();
        let is_ours = index_of(&terms.name).is_none();
        let file = tun_device().map_err(|cause| OpenError::NoTunDevice { name: name(), cause })?;
        take(&file, &terms.name).map_err(|cause| match cause.raw_os_error() {
            Some(libc::EBUSY) => OpenError::TapTaken { name: name() },
            Some(libc::EINVAL) if !is_ours => OpenError::NoTap { name: name() },
            Some(libc::EPERM | libc::EACCES) => OpenError::TapNotPermitted { name: name() },
            _ => OpenError::Refused { name: name(), step: "take it as a TAP", cause },
        })?;
        let refused = |step| move |cause| OpenError::Refused { name: name(), step, cause };
        let header_bytes = offload::HEADER_LENGTH as libc::c_int;
        // SAFETY: reads one integer.
        let set = unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETVNETHDRSZ, &raw const header_bytes) };
        if set < 0 {
            return Err(refused("ask what frames lack")(io::Error::last_os_error()));
        }
        // Of a kernel that leaves nothing undone frames come as on a wire.
        let leave = |offloads: &libc::c_uint| {
            // SAFETY: the argument is a number.
            unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETOFFLOAD, libc::c_ulong::from(*offloads)) == 0 }
        };
        let _ = OFFLOADS.iter().any(leave);
        if is_ours {
            switch_on(&terms.name).map_err(refused("switch it on"))?;
        }
        let sent_bytes_max = frame_bytes_max_of(&terms.name).map_err(refused("read its MTU"))?;
        let private = vec![0; offload::HEADER_LENGTH + WHOLE_BYTES_MAX].into_boxed_slice();
        Ok(Self { file: Arc::new(file), sent_bytes_max, private, filled: None })
    }

    /// Goes on with the TAP of another process, which has stopped to use it.
    pub(super) fn adopt(file: OwnedFd, sent_bytes_max: u32) -> Self {
        let private = vec![0; offload::HEADER_LENGTH + WHOLE_BYTES_MAX].into_boxed_slice();
        Self { file: Arc::new(file), sent_bytes_max, private, filled: None }
    }

    fn frame(&self) -> &[u8] {
        let bytes = self.filled.unwrap_or_default();
        &self.private[offload::HEADER_LENGTH..][..bytes]
    }
}

impl Source for Tap {
    fn is_filled(&mut self) -> bool {
        if self.filled.is_none() {
            let read = rustix::io::read(&*self.file, &mut self.private[..]);
            self.filled = read.ok().and_then(|bytes| bytes.checked_sub(offload::HEADER_LENGTH));
        }
        self.filled.is_some()
    }

    fn incoming(&self) -> Option<Incoming<'_>> {
        let virtio = *self.private.first_chunk()?;
        let bytes = self.frame();
        Some(Incoming { bytes, length: bytes.len() as u32, aside: Aside::default(), virtio })
    }

    fn take(&self, incoming: &Incoming<'_>, into: &mut [u8]) -> Result<Header, Loss> {
        let into = into.get_mut(..incoming.bytes.len()).ok_or(Loss::TooLong)?;
        into.copy_from_slice(incoming.bytes);
        Ok(Header::from_bytes(incoming.virtio))
    }

    fn take_into(&self, incoming: &Incoming<'_>, region: &Region, index: u32, offset: u32) -> bool {
        region.write(index, offset, incoming.bytes);
        true
    }

    fn release(&mut self) {
        self.filled = None;
    }
}

/// Returns the state of a TAP, wherever its interface lives now.
pub(super) fn state_of(file: &OwnedFd) -> State {
    let mut asked = [PollFd::from_borrowed_fd(file.as_fd(), PollFlags::OUT)];
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    if poll(&mut asked, Some(&at_once)).is_err() {
        return State::Down;
    }
    // It can be written to while its interface is switched on, and has an error once that is gone.
    let told = asked[0].revents();
    match told {
        _ if told.contains(PollFlags::ERR) => State::Gone,
        _ if told.contains(PollFlags::OUT) => State::Up,
        _ => State::Down,
    }
}

fn tun_device() -> io::Result<OwnedFd> {
    let options = std::fs::OpenOptions::new().read(true).write(true).custom_flags(libc::O_NONBLOCK).clone();
    options.open(DEVICE).map(OwnedFd::from)
}

/// Makes an open file the cable of a TAP.
fn take(file: &OwnedFd, name: &str) -> io::Result<()> {
    let mut request = named(name);
    request.ifr_ifru.ifru_flags = (libc::IFF_TAP | libc::IFF_NO_PI | libc::IFF_VNET_HDR) as libc::c_short;
    call(file.as_fd(), libc::TUNSETIFF, &mut request)
}
