//! Ethernet addresses of neighbours, as the kernel has found them out.

use std::net::IpAddr;

use super::netlink::{Request, attribute, u16_at, u32_at};
use super::{Links, Mac, NEIGHBOUR_ADDRESS, NEIGHBOUR_MAC, NetworkError, family_and_bytes, refused};

// linux/rtnetlink.h
const GET_NEIGHBOUR: u16 = 30;
/// `struct ndmsg`: family, padding, interface, state, flags, type.
const HEADER_BYTES: usize = 12;
/// States in which the kernel does not use the address (linux/neighbour.h): INCOMPLETE and FAILED.
const UNUSABLE: u16 = 0x01 | 0x20;

impl Links {
    /// Returns the Ethernet address of a neighbour of an interface; `None` while the kernel knows none. It
    /// asks for it when something is sent there.
    pub fn neighbour(&mut self, interface: &str, address: IpAddr) -> Result<Option<Mac>, NetworkError> {
        let index = self.find(interface)?.index;
        let (family, bytes) = family_and_bytes(address);
        let mut header = [0; HEADER_BYTES];
        header[0] = family;
        header[4..8].copy_from_slice(&index.to_ne_bytes());
        let bodies = self.socket.dump(Request::new(GET_NEIGHBOUR, 0, &header));
        let bodies = bodies.map_err(refused(format!("list the neighbours of {interface}")))?;
        Ok(bodies.iter().find_map(|body| mac_of(body, index, &bytes)))
    }
}

/// Returns the Ethernet address in an entry, if it is that of an address of an interface.
fn mac_of(entry: &[u8], index: u32, address: &[u8]) -> Option<Mac> {
    let attributes = entry.get(HEADER_BYTES..)?;
    let is_it = u32_at(entry, 4)? == index && attribute(attributes, NEIGHBOUR_ADDRESS)? == address;
    let is_usable = u16_at(entry, 8)? & UNUSABLE == 0;
    let mac = attribute(attributes, NEIGHBOUR_MAC)?.try_into().ok()?;
    (is_it && is_usable).then_some(Mac(mac))
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd as _;

    use super::*;
    use crate::namespace::{Namespace, NamespaceError};
    use crate::network::VethEnd;

    #[test]
    fn a_neighbour_is_found_when_the_kernel_knows_it() {
        let namespaces = match [Namespace::new(), Namespace::new()] {
            [Ok(one), Ok(other)] => [one, other],
            [Err(NamespaceError::NotPermitted { .. }), _] => return eprintln!("skipped: not root"),
            [one, other] => panic!("{:?} {:?}", one.err(), other.err()),
        };
        let mut links = namespaces[0].links().unwrap();
        let (near, far) = (Mac([2, 0, 0, 0, 0, 1]), Mac([2, 0, 0, 0, 0, 2]));
        let ends = (VethEnd { name: "near", mac: near }, VethEnd { name: "far", mac: far });
        links.add_veth(ends.0, ends.1, namespaces[1].as_fd(), 1500).unwrap();
        let address = IpAddr::from([10, 9, 0, 2]);
        assert_eq!(links.neighbour("near", address).unwrap(), None);
        links.set_up("near").unwrap();
        links.add_neighbour("near", address, far).unwrap();
        assert_eq!(links.neighbour("near", address).unwrap(), Some(far));
        assert_eq!(links.neighbour("near", IpAddr::from([10, 9, 0, 3])).unwrap(), None);
        assert!(links.neighbour("none", address).is_err());
    }

    #[test]
    fn an_entry_that_is_cut_short_is_none() {
        let mut entry = vec![0; HEADER_BYTES];
        for length in 0..=HEADER_BYTES {
            assert_eq!(mac_of(&entry[..length], 0, &[10, 9, 0, 2]), None);
        }
        entry.extend([8, 0, 1, 0, 10, 9, 0, 2, 9, 0, 2, 0, 2, 0, 0, 0, 0]);
        assert_eq!(mac_of(&entry, 0, &[10, 9, 0, 2]), None, "five bytes are no address");
    }
}
