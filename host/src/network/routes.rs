//! Interfaces that default routes leave by.
//!
//! Taking such an interface away from the kernel cuts the machine off, so this errs on the side
//! of "carries": every routing table counts, the halves of the address space that VPNs route in
//! place of a default count, and so do the parts a bridge, bond or VLAN is made of.

use std::collections::BTreeSet;

use rustix::net::AddressFamily;

use super::Interface;
use super::netlink::{NetlinkError, Request, Socket, attribute, number, u16_at, u32_at};

// linux/rtnetlink.h
const GET_ROUTE: u16 = 26;
const ROUTE_OUTPUT: u16 = 4;
const ROUTE_MULTIPATH: u16 = 9;
const TYPE_UNICAST: u8 = 1;
const HEADER_BYTES: usize = 12;
const NEXT_HOP_BYTES: usize = 8;

/// IPv4: 0.0.0.0/1 with 128.0.0.0/1 is how OpenVPN (`redirect-gateway def1`) and others overlay a
/// default route. IPv6: 2000::/3 is all of today's global unicast (RFC 4291, 2.4).
fn is_default(family: AddressFamily, prefix_bits: u8) -> bool {
    match family {
        AddressFamily::INET6 => prefix_bits <= 3,
        _ => prefix_bits <= 1,
    }
}

/// Numbers of the interfaces that default routes name.
pub(super) fn default_outputs(socket: &mut Socket) -> Result<BTreeSet<u32>, NetlinkError> {
    let mut outputs = BTreeSet::new();
    for family in [AddressFamily::INET, AddressFamily::INET6] {
        let mut header = [0; HEADER_BYTES];
        header[0] = family.as_raw() as u8;
        let routes = socket.dump(Request::new(GET_ROUTE, 0, &header))?;
        for route in &routes {
            outputs.extend(outputs_of(family, route).unwrap_or_default());
        }
    }
    Ok(outputs)
}

/// The interfaces a route leaves by, if it is a default route.
fn outputs_of(family: AddressFamily, route: &[u8]) -> Option<Vec<u32>> {
    let (prefix_bits, kind) = (*route.get(1)?, *route.get(7)?);
    if kind != TYPE_UNICAST || !is_default(family, prefix_bits) {
        return None;
    }
    let attributes = route.get(HEADER_BYTES..)?;
    let single = number(attributes, ROUTE_OUTPUT);
    let several = attribute(attributes, ROUTE_MULTIPATH).map(next_hops);
    Some(single.into_iter().chain(several.into_iter().flatten()).collect())
}

/// A list of `struct rtnexthop`: length, flags, hops, interface, attributes.
fn next_hops(mut bytes: &[u8]) -> Vec<u32> {
    let mut outputs = Vec::new();
    while let (Some(length), Some(output)) = (u16_at(bytes, 0), u32_at(bytes, 4)) {
        outputs.push(output);
        let length = usize::from(length).next_multiple_of(4).max(NEXT_HOP_BYTES);
        bytes = bytes.get(length..).unwrap_or_default();
    }
    outputs
}

/// Marks the interfaces named by `outputs` and everything they lie on.
pub(super) fn mark_carrying(interfaces: &mut [Interface], outputs: &BTreeSet<u32>) {
    let mut carrying = outputs.clone();
    loop {
        let below: Vec<u32> = interfaces
            .iter()
            .flat_map(|interface| {
                let member = interface.master.filter(|master| carrying.contains(master));
                let lower = interface.lower.filter(|_| carrying.contains(&interface.index));
                [member.map(|_| interface.index), lower]
            })
            .flatten()
            .collect();
        let known = carrying.len();
        carrying.extend(below);
        if carrying.len() == known {
            break;
        }
    }
    for interface in interfaces {
        interface.carries_default_route = carrying.contains(&interface.index);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interface(index: u32, master: Option<u32>, lower: Option<u32>) -> Interface {
        Interface {
            name: format!("if{index}"),
            index,
            mtu: 1500,
            is_up: true,
            has_carrier: true,
            mac: None,
            kind: None,
            carries_default_route: false,
            master,
            lower,
        }
    }

    #[test]
    fn what_a_carrying_interface_lies_on_carries_too() {
        // A VLAN (4) on a bridge (3) with two members (1, 2); another interface (5) beside.
        let mut interfaces = [
            interface(1, Some(3), None),
            interface(2, Some(3), None),
            interface(3, None, None),
            interface(4, None, Some(3)),
            interface(5, None, None),
        ];
        mark_carrying(&mut interfaces, &BTreeSet::from([4]));
        let carrying = interfaces.iter().filter(|i| i.carries_default_route).map(|i| i.index);
        assert_eq!(carrying.collect::<Vec<_>>(), [1, 2, 3, 4]);
    }

    fn route(prefix_bits: u8, kind: u8) -> Request {
        let mut header = [0; HEADER_BYTES];
        (header[1], header[7]) = (prefix_bits, kind);
        Request::new(0, 0, &header)
    }

    #[test]
    fn default_routes_of_all_shapes_are_seen() {
        let of = |family, request: Request| outputs_of(family, request.body());
        let one = |bits, kind| route(bits, kind).number(ROUTE_OUTPUT, 7);
        assert_eq!(of(AddressFamily::INET, one(0, TYPE_UNICAST)), Some(vec![7]));
        assert_eq!(of(AddressFamily::INET, one(1, TYPE_UNICAST)), Some(vec![7]));
        assert_eq!(of(AddressFamily::INET, one(8, TYPE_UNICAST)), None);
        assert_eq!(of(AddressFamily::INET6, one(3, TYPE_UNICAST)), Some(vec![7]));
        assert_eq!(of(AddressFamily::INET6, one(64, TYPE_UNICAST)), None);
        let unreachable = 7;
        assert_eq!(of(AddressFamily::INET6, one(0, unreachable)), None);
    }

    #[test]
    fn every_next_hop_of_a_multipath_route_counts() {
        let hop = |output: u32| {
            let mut hop = [0; 16];
            hop[0..2].copy_from_slice(&16_u16.to_ne_bytes());
            hop[4..8].copy_from_slice(&output.to_ne_bytes());
            hop
        };
        let hops = [hop(3), hop(4)];
        let request = route(0, TYPE_UNICAST).attribute(ROUTE_MULTIPATH, hops.as_flattened());
        assert_eq!(outputs_of(AddressFamily::INET, request.body()), Some(vec![3, 4]));
        assert_eq!(next_hops(&[0; 11]), [0]);
    }
}
