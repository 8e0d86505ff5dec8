//! Offloads: work that an interface does for the kernel, and that hinders a program that reads raw frames.
//!
//! Between two namespaces a veth pair hands over packets of 64 KiB whose checksum nobody wrote,
//! for it trusts the other end to be a kernel too. A port that takes frames from it sees them as
//! they are, so the *sender's* end has to finish them: [`Offload::TransmitChecksum`] off, from
//! which the kernel switches segmentation off by itself. An interface that receives from a wire
//! glues packets together: [`Offload::GenericReceive`] off on the port itself.

use rustix::fd::{AsFd, AsRawFd};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::{Links, NetworkError, refused, request_for};

/// Something an interface does with packets beyond sending and receiving them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Offload {
    /// Checksums of sent packets are left to the hardware.
    TransmitChecksum,
    /// Checksums of received packets were looked at by the hardware.
    ReceiveChecksum,
    /// Sent TCP segments are cut by the hardware.
    TransmitSegmentation,
    /// Sent packets of any kind are cut as late as possible.
    GenericSegmentation,
    /// Received packets of one flow are glued together.
    GenericReceive,
    /// VLAN tags of sent packets are put into them by the hardware.
    TransmitVlan,
}

impl Offload {
    /// The name `ethtool -K` has for it.
    pub fn name(self) -> &'static str {
        self.entry().0
    }

    /// Name, the commands that read and write it, and its bit of what they read and write (linux/ethtool.h).
    fn entry(self) -> (&'static str, u32, u32, u32) {
        match self {
            Offload::TransmitChecksum => ("tx", 0x16, 0x17, 1),
            Offload::ReceiveChecksum => ("rx", 0x14, 0x15, 1),
            Offload::TransmitSegmentation => ("tso", 0x1e, 0x1f, 1),
            Offload::GenericSegmentation => ("gso", 0x23, 0x24, 1),
            Offload::GenericReceive => ("gro", 0x2b, 0x2c, 1),
            Offload::TransmitVlan => ("txvlan", 0x25, 0x26, 1 << 7),
        }
    }
}

/// `struct ethtool_value` (linux/ethtool.h).
#[repr(C)]
struct Value {
    command: u32,
    data: u32,
}

impl Links {
    /// Returns whether an interface has an offload switched on.
    pub fn offload(&mut self, interface: &str, offload: Offload) -> Result<bool, NetworkError> {
        let (name, get, _, bit) = offload.entry();
        let doing = format!("read the offload {name} of {interface}");
        Ok(self.ethtool(interface, Value { command: get, data: 0 }, doing)? & bit != 0)
    }

    /// Switches an offload on or off.
    pub fn set_offload(&mut self, interface: &str, offload: Offload, on: bool) -> Result<(), NetworkError> {
        let (name, get, set, bit) = offload.entry();
        let word = if on { "on" } else { "off" };
        let doing = || format!("switch the offload {name} of {interface} {word}");
        // Others share the word with it.
        let others = match bit {
            1 => 0,
            _ => self.ethtool(interface, Value { command: get, data: 0 }, doing())? & !bit,
        };
        let value = Value { command: set, data: others | if on { bit } else { 0 } };
        self.ethtool(interface, value, doing()).map(|_| ())
    }

    fn ethtool(&mut self, interface: &str, mut value: Value, doing: String) -> Result<u32, NetworkError> {
        let mut request = request_for(interface)?;
        request.ifr_ifru.ifru_data = (&raw mut value).cast();
        let socket = self.socket.as_fd().as_raw_fd();
        // SAFETY: `request` names an interface, with a terminating zero behind it, and
        // points to an `ethtool_value`, which is what the commands of `Offload` read and write.
        // Both live through the call.
        let result = unsafe { libc::ioctl(socket, SIOCETHTOOL, &raw mut request) };
        if result == 0 {
            return Ok(value.data);
        }
        let errno = Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::INVAL);
        match errno {
            Errno::NODEV => self.find(interface).and(Err(refused(doing)(errno.into()))),
            _ => Err(refused(doing)(errno.into())),
        }
    }
}

/// linux/sockios.h
const SIOCETHTOOL: libc::Ioctl = 0x8946;
