//! Properties of a kernel interface that a device is laid over.
//!
//! Asked by `ioctl` in the network namespace of the calling thread, which is the driver's too.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// A kernel interface, found by name.
#[derive(Clone, Debug)]
pub(crate) struct Interface {
    name: CString,
    pub(crate) index: i32,
}

impl Interface {
    pub(crate) fn find(name: &str) -> Option<Self> {
        let name = CString::new(name).ok()?;
        // SAFETY: a terminated string.
        let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
        (index != 0).then_some(Self { name, index: index as i32 })
    }

    /// Returns the interface of this number.
    pub(crate) fn numbered(index: u32) -> Option<Self> {
        name_of(index).map(|name| Self { name, index: index as i32 })
    }

    /// Returns whether it is still there, under whatever name.
    pub(crate) fn is_there(&self) -> bool {
        name_of(self.index as u32).is_some()
    }

    /// Returns the interface that has its name now.
    pub(crate) fn next(&self) -> Option<Self> {
        self.name.to_str().ok().and_then(Self::find)
    }

    /// Returns the name that it was found by.
    pub(crate) fn name(&self) -> String {
        self.name.to_string_lossy().into_owned()
    }

    /// Interfaces of this namespace.
    pub(crate) fn present() -> Vec<String> {
        // SAFETY: returns an array to be freed below, or null.
        let array = unsafe { libc::if_nameindex() };
        let mut names = Vec::new();
        if array.is_null() {
            return names;
        }
        let mut entry = array;
        // SAFETY: the array ends with an entry of index 0; names before that are terminated strings.
        unsafe {
            while (*entry).if_index != 0 {
                names.push(CStr::from_ptr((*entry).if_name).to_string_lossy().into_owned());
                entry = entry.add(1);
            }
            libc::if_freenameindex(array);
        }
        names
    }

    /// The longest packet in bytes, without the link's header.
    pub(crate) fn mtu(&self) -> io::Result<u32> {
        let request = self.ask(libc::SIOCGIFMTU)?;
        // SAFETY: this request fills the union's MTU.
        Ok(unsafe { request.ifr_ifru.ifru_mtu } as u32)
    }

    /// Whether packets can pass: it is up and its peer or cable is there.
    pub(crate) fn is_running(&self) -> bool {
        let wanted = (libc::IFF_UP | libc::IFF_RUNNING) as i16;
        self.ask(libc::SIOCGIFFLAGS).is_ok_and(|request| {
            // SAFETY: this request fills the union's flags.
            unsafe { request.ifr_ifru.ifru_flags & wanted == wanted }
        })
    }

    fn ask(&self, what: libc::Ioctl) -> io::Result<libc::ifreq> {
        let socket = socket(libc::AF_INET, libc::SOCK_DGRAM)?;
        // SAFETY: all zeroes is a valid request.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        // It may have been renamed.
        let name = name_of(self.index as u32).ok_or_else(|| io::Error::from_raw_os_error(libc::ENODEV))?;
        for (to, from) in request.ifr_name.iter_mut().zip(name.to_bytes()) {
            *to = *from as libc::c_char;
        }
        // SAFETY: these requests read the name and write the union.
        let refused = unsafe { libc::ioctl(socket.as_raw_fd(), what, &raw mut request) };
        if refused == 0 { Ok(request) } else { Err(io::Error::last_os_error()) }
    }
}

/// Returns the name that the interface of this number has now.
fn name_of(index: u32) -> Option<CString> {
    let mut name = [0 as libc::c_char; libc::IF_NAMESIZE];
    // SAFETY: room for the longest name; returns null, or `name` with a terminated string in it.
    let found = unsafe { libc::if_indextoname(index, name.as_mut_ptr()) };
    // SAFETY: as above.
    (!found.is_null()).then(|| unsafe { CStr::from_ptr(name.as_ptr()) }.to_owned())
}

/// A socket of protocol 0, which for packet sockets means: receives nothing until it is bound.
pub(crate) fn socket(family: i32, kind: i32) -> io::Result<OwnedFd> {
    // SAFETY: a plain call; the descriptor is owned at once.
    let file = unsafe { libc::socket(family, kind | libc::SOCK_CLOEXEC, 0) };
    if file < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: just opened and owned by nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(file) })
}

/// Sets a socket option to the bytes of `value`.
pub(crate) fn set<T: Copy>(socket: &OwnedFd, level: i32, option: i32, value: T) -> io::Result<()> {
    // SAFETY: the kernel reads `size_of::<T>()` bytes of `value`.
    let refused = unsafe {
        let value = (&raw const value).cast();
        libc::setsockopt(socket.as_raw_fd(), level, option, value, size_of::<T>() as libc::socklen_t)
    };
    if refused == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Makes the interface take packets for all addresses for as long as the socket returned is open. The
/// kernel counts such wishes, so nothing has to be undone after a crash and nobody else's is undone.
pub(crate) fn promiscuous(interface: &Interface) -> io::Result<OwnedFd> {
    let socket = socket(libc::AF_PACKET, libc::SOCK_RAW)?;
    let wish = libc::packet_mreq {
        mr_ifindex: interface.index,
        mr_type: libc::PACKET_MR_PROMISC as u16,
        mr_alen: 0,
        mr_address: [0; 8],
    };
    set(&socket, libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, wish)?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_interface_is_there() {
        let loopback = Interface::find("lo").unwrap();
        assert!(loopback.mtu().unwrap() >= 1500);
        assert!(Interface::present().contains(&"lo".to_owned()));
        assert!(Interface::find("no-such-if").is_none());
        assert!(loopback.is_there() && loopback.next().unwrap().index == loopback.index);
        assert_eq!(Interface::numbered(loopback.index as u32).unwrap().name(), "lo");
        assert!(Interface::numbered(0).is_none());
    }
}
