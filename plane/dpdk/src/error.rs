//! Errors of opening and closing devices.

use std::io;

use crate::log::Said;

/// Error of opening or closing a device.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DpdkError {
    /// DPDK's environment layer did not start.
    #[error("DPDK did not start: {cause}{said}; `headgate doctor` checks for the usual reasons")]
    NotStarted {
        /// Cause of the failure.
        cause: String,
        /// DPDK's messages.
        said: Said,
    },
    /// The environment layer runs without having scanned the PCI bus, and can scan it only once.
    #[error(
        "{device} is on the PCI bus and DPDK was started without it, because no port of the first \
         configuration was; restart the manager with this configuration"
    )]
    NoPci {
        /// The device.
        device: String,
    },
    /// A device description that is not one.
    #[error("{devargs:?} is not a DPDK device: {why}")]
    BadDevargs {
        /// The name that was given.
        devargs: String,
        /// The problem.
        why: &'static str,
    },
    /// No driver of this name is installed.
    #[error("{device}: there is no DPDK driver of this name; virtual devices are made by {}", drivers.join(", "))]
    NoDriver {
        /// The device.
        device: String,
        /// Drivers of virtual devices that are installed.
        drivers: Vec<String>,
    },
    /// The device is over a kernel interface that is not there.
    #[error(
        "{device}: there is no interface {interface:?} in this network namespace; there are {}",
        present.join(", ")
    )]
    NoInterface {
        /// The device.
        device: String,
        /// The interface.
        interface: String,
        /// The devices that are there.
        present: Vec<String>,
    },
    /// The device is open already.
    #[error("{device} is open already; a device belongs to one port")]
    OpenAlready {
        /// The device.
        device: String,
    },
    /// Fewer queues than asked for.
    #[error("{device} has {receive} receive and {send} send queues, and {wanted} of each were asked for")]
    TooFewQueues {
        /// The device.
        device: String,
        /// Receive queues it can have.
        receive: u16,
        /// Send queues it can have.
        send: u16,
        /// Queues asked for.
        wanted: u16,
    },
    /// Longer frames were asked for than the packet region's buffers hold.
    #[error(
        "{device}: frames of {frame_bytes} bytes (mtu {mtu}) do not fit buffers for {room} bytes; \
         raise memory.buffer_bytes to at least {frame_bytes}"
    )]
    BuffersTooSmall {
        /// The device.
        device: String,
        /// The MTU asked for, in bytes.
        mtu: u16,
        /// The longest frame of that MTU, in bytes.
        frame_bytes: u32,
        /// Room of a buffer, in bytes.
        room: u32,
    },
    /// Another MTU was asked for than the kernel interface has, which is not ours to change.
    #[error(
        "{device}: interface {interface:?} has mtu {is}; \
         change it with `ip link set dev {interface} mtu {wanted}`"
    )]
    OtherMtu {
        /// The device.
        device: String,
        /// The interface.
        interface: String,
        /// Its MTU in bytes.
        is: u32,
        /// The MTU asked for, in bytes.
        wanted: u16,
    },
    /// The driver or the kernel refused a step.
    #[error("{device}: {step} failed: {cause}{said}")]
    Refused {
        /// The device.
        device: String,
        /// Step that failed: "opening it".
        step: &'static str,
        /// The error returned.
        cause: io::Error,
        /// DPDK's messages.
        said: Said,
    },
    /// The device needs more buffers for its receive ring than it was given.
    #[error(
        "{device}: the driver wants more than the {given} free buffers it was offered; \
         raise memory.buffers{said}"
    )]
    NoBuffers {
        /// The device.
        device: String,
        /// Free buffers offered.
        given: usize,
        /// DPDK's messages.
        said: Said,
    },
    /// Memory for mbufs was refused.
    #[error("{bytes} bytes of memory for the mbufs of {what}: {cause}{said}")]
    NoMemory {
        /// Purpose of the memory.
        what: String,
        /// Size in bytes.
        bytes: usize,
        /// Error of the kernel or of DPDK.
        cause: io::Error,
        /// DPDK's messages.
        said: Said,
    },
}
