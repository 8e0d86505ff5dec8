//! Namespaces of tests, and cables in them.
#![allow(dead_code, reason = "each test file uses a part")]

use std::io::Write as _;
use std::os::fd::AsFd;

use headgate_host::namespace::Namespace;
use headgate_host::network::{Links, Mac, VethEnd};

/// Returns whether namespaces may be made; says so when they may not.
pub fn is_root(test: &str) -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        let _ = writeln!(std::io::stderr(), "{test}: skipped: packet sockets take root");
    }
    is_root
}

/// Does some work in a network namespace of its own.
pub fn in_namespace(work: impl Fn(&Namespace) + Sync) {
    let namespace = Namespace::new().expect("root makes namespaces");
    namespace.run(|| work(&namespace)).expect("root enters namespaces");
}

/// Does some work in a network namespace of its own, if that may be.
pub fn inside(test: &str, work: impl Fn(&Namespace) + Sync) {
    if is_root(test) {
        in_namespace(work);
    }
}

/// Lays a cable between two new interfaces of this thread's namespace.
pub fn cable(namespace: &Namespace, near: &str, far: &str, mtu: u32) {
    let mut links = Links::here().unwrap();
    let ends = [(near, 1), (far, 2)].map(|(name, last)| VethEnd { name, mac: Mac([2, 0, 0, 0, 0, last]) });
    let [one, other] = ends;
    links.add_veth(one, other, namespace.as_fd(), mtu).unwrap();
    for name in [near, far] {
        links.set_no_own_ipv6_address(name).unwrap();
        links.set_up(name).unwrap();
    }
}
