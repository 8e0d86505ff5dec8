//! Rights: what needs root, why, and whether we have it.

use headgate_api::place;
use headgate_host::credentials::{Capability, has_capability, is_root};
use headgate_host::namespace::{Namespace, NamespaceError, Namespaces};
use headgate_host::network;
use headgate_session::kernel_io::Driver;
use serde::Serialize;

use super::check::Check;

/// Something the kernel keeps for root.
#[derive(Clone, Debug, Serialize)]
pub struct Right {
    /// Purpose of the right.
    pub what: &'static str,
    /// Capabilities that the kernel asks for, capabilities(7).
    pub needs: Vec<&'static str>,
    /// Reason for that.
    pub why: &'static str,
    /// Whether this process has it.
    pub granted: bool,
}

/// Returns all rights.
pub fn all() -> Vec<Right> {
    use Capability::{Bpf, IpcLock, NetAdmin, NetRaw, SetGid, SetUid, SysAdmin, SysNice};
    let right = |what, capabilities: &[Capability], why| Right {
        what,
        needs: capabilities.iter().map(|capability| capability.name()).collect(),
        why,
        granted: capabilities.iter().all(|&capability| has_capability(capability)),
    };
    vec![
        right("af_packet ports", &[NetRaw, NetAdmin], "they see every frame of an interface"),
        right(
            "chains with `io`",
            &[NetRaw, NetAdmin, SysAdmin],
            "they see every frame, and lie in a namespace",
        ),
        right("AF_XDP ports and drivers", &[NetAdmin, NetRaw, Bpf], "they load a program into the kernel"),
        right("tap ports", &[NetAdmin], "they make an interface"),
        right("network cards", &[SysAdmin, IpcLock], "they write to memory by themselves"),
        right("network namespaces", &[SysAdmin, NetAdmin], "`demo` makes two hosts and their cables"),
        right(
            "NFs as users of their own",
            &[SetUid, SetGid],
            "an NF of the manager's user could signal and trace its neighbours",
        ),
        right("real-time classes", &[SysNice], "they can keep a core from everybody else"),
        Right {
            what: "reserving hugepages",
            needs: vec!["root"],
            why: "the pool is the whole machine's",
            granted: is_root(),
        },
    ]
}

/// Checks of what we may do and of the places we need.
pub fn checks() -> Vec<Check> {
    vec![user(), namespaces(), drivers(), default_route(), socket_folder()]
}

/// Checks the drivers that chains on interfaces may choose from.
fn drivers() -> Check {
    const NAME: &str = "drivers of `io`";
    let missing: Vec<String> = [Driver::Uring, Driver::Xdp]
        .into_iter()
        .filter_map(|driver| Some(format!("{}: {}", driver.name(), headgate_kernel::missing(driver)?)))
        .collect();
    match missing.is_empty() {
        true => Check::ok(NAME, "packet, mapped, uring, xdp"),
        false => Check::warn(NAME, missing.join("; "), "the others work: packet and mapped need neither"),
    }
}

fn user() -> Check {
    match is_root() {
        true => Check::ok("user", "root"),
        false => Check::warn(
            "user",
            "not root: some of what is listed below cannot be done",
            "run as root where you need it (`sudo headgate …`), or with ambient capabilities (setpriv(1)), which the \
             manager inherits",
        ),
    }
}

/// Makes what the demo is made of; the kernel takes it away when the descriptors are closed.
fn namespaces() -> Check {
    const NAME: &str = "namespaces, veth";
    let make = || -> Result<(), NamespaceError> {
        let middle = Namespace::new()?;
        Namespaces::new(&middle).map(|_| ())
    };
    match make() {
        Ok(()) => Check::ok(NAME, "two hosts with cables between them can be made"),
        Err(error) => Check::warn(NAME, error.to_string(), "`headgate demo --pcap` needs none"),
    }
}

fn default_route() -> Check {
    const NAME: &str = "default route";
    match network::default_route_interfaces() {
        Ok(names) if names.is_empty() => Check::ok(NAME, "no interface carries it"),
        Ok(names) => {
            Check::ok(NAME, format!("carried by {}, which no port takes unless forced", names.join(", ")))
        }
        Err(error) => Check::warn(NAME, error.to_string(), "ports on interfaces cannot be checked"),
    }
}

/// Checks the folder in which managers leave their sockets.
fn socket_folder() -> Check {
    const NAME: &str = "socket folder";
    let folder = place::folder();
    // The folder is made when it is needed; until then its parent must allow that.
    let existing = folder.ancestors().find(|path| path.is_dir());
    let writable =
        existing.is_some_and(|path| rustix::fs::access(path, rustix::fs::Access::WRITE_OK).is_ok());
    match writable {
        true => Check::ok(NAME, folder.display().to_string()),
        false => Check::fail(
            NAME,
            format!("{} cannot be written", folder.display()),
            "make it writable for this user, or set XDG_RUNTIME_DIR to a folder that is",
        ),
    }
}
