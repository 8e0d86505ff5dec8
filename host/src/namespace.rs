//! Network namespaces without a name.
//!
//! A namespace lives while a descriptor or a process holds it. Ours are held by a descriptor that
//! no child inherits and by processes that die with us, so whatever ends us, `kill -9` included,
//! the kernel takes the namespace, its interfaces and the far ends of its veth pairs away. There
//! is nothing to clean up and nothing that can be forgotten.

pub mod named;

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::thread;

use rustix::io::Errno;
use rustix::process::{Pid, Signal, getpid, getppid, set_parent_process_death_signal};
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space, unshare_unsafe};

use crate::files::{self, FileError};
use crate::network::{Links, Mac, NetworkError, Offload, VethEnd};

const OWN_NAMESPACE: &str = "/proc/thread-self/ns/net";
/// Whether a host passes on packets that are not for it (ip-sysctl); each namespace has its own.
const FORWARDING: &str = "/proc/sys/net/ipv4/ip_forward";
/// TCP sockets of the calling thread's namespace (proc_net_tcp).
const TCP_SOCKETS: &str = "/proc/thread-self/net/tcp";

/// Reason why a namespace could not be made or entered.
#[derive(Debug, thiserror::Error)]
pub enum NamespaceError {
    /// The right is missing.
    #[error("not permitted to {doing} a network namespace: this takes CAP_SYS_ADMIN; run as root")]
    NotPermitted {
        /// "make" or "enter".
        doing: &'static str,
    },
    /// The kernel refused for another reason.
    #[error("cannot {doing} a network namespace: {source}")]
    System {
        /// "make", "enter" or "name".
        doing: &'static str,
        /// Cause.
        source: io::Error,
    },
    /// The interfaces could not be set up.
    #[error(transparent)]
    Network(#[from] NetworkError),
    /// A file of its could not be read or written.
    #[error(transparent)]
    File(#[from] FileError),
}

/// A network namespace, held by a descriptor.
#[derive(Debug)]
pub struct Namespace {
    descriptor: OwnedFd,
}

impl Namespace {
    /// Makes an empty one with its loopback switched on.
    pub fn new() -> Result<Self, NamespaceError> {
        let make = || {
            // SAFETY: a network namespace is the thread's own and shares no descriptors.
            unsafe { unshare_unsafe(UnshareFlags::NEWNET) }.map_err(refused("make"))?;
            let namespace = Self::current()?;
            Links::here()?.set_up("lo")?;
            Ok(namespace)
        };
        on_own_thread(make)
    }

    /// The one the calling thread is in.
    pub fn current() -> Result<Self, NamespaceError> {
        let file =
            File::open(OWN_NAMESPACE).map_err(|source| NamespaceError::System { doing: "make", source })?;
        Ok(Self { descriptor: file.into() })
    }

    /// Moves the calling thread, and the threads and processes it starts later, into it for good.
    pub fn enter(&self) -> Result<(), NamespaceError> {
        enter(self.descriptor.as_fd()).map_err(refused("enter"))
    }

    /// Runs a function inside, on a thread of its own, and waits for it.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T, NamespaceError> {
        on_own_thread(|| self.enter().map(|()| work()))
    }

    /// A conversation about its interfaces.
    pub fn links(&self) -> Result<Links, NamespaceError> {
        Ok(self.run(Links::here)??)
    }

    /// Lays a cable from here to another one: a veth pair, both ends switched on, which say nothing by
    /// themselves.
    pub fn join(&self, other: &Self, ends: [VethEnd<'_>; 2], mtu: u32) -> Result<(), NamespaceError> {
        let names = ends.each_ref().map(|end| end.name);
        let [near, far] = ends;
        self.links()?.add_veth(near, far, other.as_fd(), mtu)?;
        for (place, name) in [self, other].into_iter().zip(names) {
            let mut links = place.links()?;
            links.set_no_own_ipv6_address(name)?;
            links.set_up(name)?;
        }
        Ok(())
    }

    /// Makes it an IPv4 router: packets for others are passed on.
    pub fn forward_ipv4(&self) -> Result<(), NamespaceError> {
        Ok(self.run(|| files::write(FORWARDING, "1"))??)
    }

    /// Returns whether a process inside listens at a TCP port, over IPv4.
    pub fn has_tcp_listener(&self, port: u16) -> Result<bool, NamespaceError> {
        Ok(listens(&self.run(|| files::read(TCP_SOCKETS))??, port))
    }

    /// A command that will run inside, and be killed when the thread that starts it ends.
    ///
    /// A program that itself starts others must take them along when it is killed, or they hold
    /// the namespace: run servers in the foreground and in one process. Starting it forks, as
    /// every hook before `exec` does, so this is for tests and demos and not for NFs.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Result<Command, NamespaceError> {
        let descriptor = self
            .descriptor
            .try_clone()
            .map_err(|source| NamespaceError::System { doing: "enter", source })?;
        let parent = getpid();
        let mut command = Command::new(program);
        let enter_and_bind = move || {
            enter(descriptor.as_fd())?;
            die_with(parent)
        };
        // SAFETY: between fork and exec the hook makes four system calls and nothing else: it
        // takes no lock and allocates nothing.
        unsafe { command.pre_exec(enter_and_bind) };
        Ok(command)
    }
}

impl AsFd for Namespace {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

fn enter(descriptor: BorrowedFd<'_>) -> Result<(), Errno> {
    move_into_link_name_space(descriptor, Some(LinkNameSpaceType::Network))
}

fn die_with(parent: Pid) -> io::Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    match getppid() == Some(parent) {
        true => Ok(()),
        false => Err(Errno::SRCH.into()),
    }
}

/// The second word of a line ends in the local port, the fourth is the state, of which 0A is "listening".
fn listens(table: &str, port: u16) -> bool {
    let suffix = format!(":{port:04X}");
    table.lines().any(|line| {
        let mut words = line.split_whitespace().skip(1);
        let (local, state) = (words.next(), words.nth(1));
        local.is_some_and(|local| local.ends_with(&suffix)) && state == Some("0A")
    })
}

/// A thread's namespace is its own, so a passing thread can change it without harm to ours.
fn on_own_thread<T: Send>(
    work: impl FnOnce() -> Result<T, NamespaceError> + Send,
) -> Result<T, NamespaceError> {
    thread::scope(|scope| match scope.spawn(work).join() {
        Ok(result) => result,
        Err(panic) => std::panic::resume_unwind(panic),
    })
}

fn refused(doing: &'static str) -> impl FnOnce(Errno) -> NamespaceError {
    move |errno| match errno {
        Errno::PERM => NamespaceError::NotPermitted { doing },
        _ => NamespaceError::System { doing, source: errno.into() },
    }
}

/// Description of one side of [`Namespaces`].
#[derive(Clone, Debug)]
pub struct EndpointPlan {
    /// Name of the interface in the middle.
    pub port: String,
    /// Ethernet address of the interface inside.
    pub mac: Mac,
    /// Ethernet address of the interface in the middle.
    pub port_mac: Mac,
    /// Addresses of the interface inside, each with the bits of its network.
    pub addresses: Vec<(IpAddr, u8)>,
    /// Gateways of its default routes.
    pub gateways: Vec<IpAddr>,
}

/// Description of [`Namespaces`].
#[derive(Clone, Debug)]
pub struct Plan {
    /// The left side.
    pub left: EndpointPlan,
    /// The right side.
    pub right: EndpointPlan,
    /// Largest payload of a frame on all four interfaces, in bytes.
    pub mtu: u32,
    /// Whether hosts leave checksums and cutting to the other end, as Linux does by default.
    pub offloads: bool,
}

impl Default for Plan {
    /// Two hosts of one network, as if the chain between them were a cable: 192.0.2.1 and
    /// 2001:db8::1 to the left, …2 to the right, from the blocks reserved for documentation
    /// (RFC 5737, RFC 3849), which no real route of the machine names.
    fn default() -> Self {
        let side = |port: &str, number: u8| EndpointPlan {
            port: port.into(),
            mac: Mac([0x02, 0, 0, 0, 0, number]),
            port_mac: Mac([0x02, 0, 0, 0, 1, number]),
            addresses: vec![
                (IpAddr::from([192, 0, 2, number]), 24),
                (IpAddr::from([0x2001, 0xdb8, 0, 0, 0, 0, 0, u16::from(number)]), 64),
            ],
            gateways: Vec::new(),
        };
        Self { left: side("hg-left", 1), right: side("hg-right", 2), mtu: ETHERNET_MTU, offloads: false }
    }
}

/// IEEE 802.3, 3.2.7: the largest payload of an ordinary frame, in bytes.
pub const ETHERNET_MTU: u32 = 1500;

/// Name of the interface inside each endpoint.
pub const INSIDE: &str = "eth0";

/// One side: a host of its own whose only cable ends in the middle.
#[derive(Debug)]
pub struct Endpoint {
    /// The host.
    pub namespace: Namespace,
    /// Name of its interface.
    pub interface: &'static str,
    /// Name of the other end of the cable, in the middle.
    pub port: String,
    /// Addresses of its interface.
    pub addresses: Vec<IpAddr>,
}

/// Two hosts whose cables end in a third place, where something may join them.
#[derive(Debug)]
pub struct Namespaces {
    /// The left host.
    pub left: Endpoint,
    /// The right host.
    pub right: Endpoint,
}

impl Namespaces {
    /// Makes both hosts as the default [`Plan`] has it, with their cables ending in `middle`.
    pub fn new(middle: &Namespace) -> Result<Self, NamespaceError> {
        Self::planned(middle, &Plan::default())
    }

    /// Makes both hosts, with their cables ending in `middle`.
    pub fn planned(middle: &Namespace, plan: &Plan) -> Result<Self, NamespaceError> {
        Ok(Self {
            left: Endpoint::new(middle, &plan.left, plan)?,
            right: Endpoint::new(middle, &plan.right, plan)?,
        })
    }
}

impl Endpoint {
    fn new(middle: &Namespace, plan: &EndpointPlan, both: &Plan) -> Result<Self, NamespaceError> {
        let namespace = Namespace::new()?;
        let mut inside = namespace.links()?;
        let near = VethEnd { name: INSIDE, mac: plan.mac };
        let far = VethEnd { name: &plan.port, mac: plan.port_mac };
        inside.add_veth(near, far, middle.as_fd(), both.mtu)?;

        // The port is a socket on a wall: frames pass, the kernel of the middle stays silent.
        let mut outside = middle.links()?;
        outside.set_no_own_ipv6_address(&plan.port)?;
        outside.set_up(&plan.port)?;

        if !both.offloads {
            inside.set_offload(INSIDE, Offload::TransmitChecksum, false)?;
        }
        inside.set_no_own_ipv6_address(INSIDE)?;
        inside.set_up(INSIDE)?;
        for &(address, prefix_bits) in &plan.addresses {
            inside.add_address(INSIDE, address, prefix_bits)?;
        }
        for &gateway in &plan.gateways {
            let everywhere = match gateway {
                IpAddr::V4(_) => IpAddr::from([0; 4]),
                IpAddr::V6(_) => IpAddr::from([0; 16]),
            };
            inside.add_route(everywhere, 0, gateway)?;
        }
        Ok(Self {
            namespace,
            interface: INSIDE,
            port: plan.port.clone(),
            addresses: plan.addresses.iter().map(|&(address, _)| address).collect(),
        })
    }
}

#[cfg(test)]
mod tests;
