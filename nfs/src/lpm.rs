//! Longest prefix match: the table behind a router.
//!
//! A trie with a stride of 8 bits: one array of 256 entries a level, so an IPv4 address takes at most four
//! dependent loads and an IPv6 address sixteen, a table of /24s three. Prefixes that end inside a level are
//! spread over its entries. One node is 1 KiB: a full table of the Internet (a million prefixes) takes about
//! 50 MiB for IPv4. A table is built once and then only read, which keeps the insertion simple: shorter
//! prefixes first, so a longer one never has to respect what is already below it.

/// Bits of an address one level decides.
const STRIDE: usize = 8;
/// Entries of a node.
const FANOUT: usize = 1 << STRIDE;

/// Nothing here.
const NONE: u32 = 0;
/// Set where an entry leads to another node; otherwise it is a value plus one.
const NODE: u32 = 1 << 31;

/// A table from prefixes to numbers.
pub struct Table {
    nodes: Vec<[u32; FANOUT]>,
}

/// A prefix to put in.
#[derive(Clone, Copy, Debug)]
pub struct Route<const BYTES: usize> {
    /// The address, in network byte order; bits behind the length are ignored.
    pub address: [u8; BYTES],
    /// Leading bits that count.
    pub length: u8,
    /// Result of a lookup, below 2^31 - 1.
    pub value: u32,
}

impl Table {
    /// Builds a table. Of two routes with the same prefix the later one counts.
    ///
    /// # Panics
    /// When a length is longer than an address or a value out of range.
    #[must_use]
    pub fn build<const BYTES: usize>(mut routes: Vec<Route<BYTES>>) -> Self {
        let mut table = Self { nodes: vec![[NONE; FANOUT]] };
        routes.sort_by_key(|route| route.length);
        for route in routes {
            assert!(usize::from(route.length) <= BYTES * STRIDE && route.value < NODE - 1);
            table.insert(&route.address, usize::from(route.length), route.value + 1);
        }
        table
    }

    fn insert(&mut self, address: &[u8], length: usize, entry: u32) {
        let mut node = 0;
        let mut level = 0;
        while length > (level + 1) * STRIDE {
            node = self.child(node, usize::from(address[level]));
            level += 1;
        }
        let free_bits = (level + 1) * STRIDE - length;
        let byte = if free_bits == STRIDE { 0 } else { usize::from(address[level]) };
        let first = byte >> free_bits << free_bits;
        self.nodes[node][first..first + (1 << free_bits)].fill(entry);
    }

    /// The node below an entry; made on demand, inheriting what the entry said.
    fn child(&mut self, node: usize, byte: usize) -> usize {
        let entry = self.nodes[node][byte];
        if entry & NODE != 0 {
            return (entry & !NODE) as usize;
        }
        let child = self.nodes.len();
        self.nodes.push([entry; FANOUT]);
        self.nodes[node][byte] = NODE | child as u32;
        child
    }

    /// The value of the longest prefix that holds this address.
    #[inline]
    #[must_use]
    pub fn lookup<const BYTES: usize>(&self, address: [u8; BYTES]) -> Option<u32> {
        let mut node = 0;
        for byte in address {
            let entry = self.nodes[node][usize::from(byte)];
            if entry & NODE == 0 {
                return entry.checked_sub(1);
            }
            node = (entry & !NODE) as usize;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn matches<const BYTES: usize>(route: &Route<BYTES>, address: &[u8; BYTES]) -> bool {
        (0..usize::from(route.length)).all(|bit| {
            let of = |bytes: &[u8]| bytes[bit / 8] >> (7 - bit % 8) & 1;
            of(&route.address) == of(address)
        })
    }

    /// The definition: of all prefixes that hold the address, the longest; of two equal ones, the later.
    fn slow<const BYTES: usize>(routes: &[Route<BYTES>], address: &[u8; BYTES]) -> Option<u32> {
        let holding = routes.iter().filter(|route| matches(route, address));
        holding.max_by_key(|route| route.length).map(|route| route.value)
    }

    /// Addresses of few different bytes, so that prefixes nest and lookups hit.
    fn address<const BYTES: usize>() -> impl Strategy<Value = [u8; BYTES]> {
        prop::array::uniform(prop::sample::select(vec![0u8, 1, 0x80, 0xff]))
    }

    fn routes<const BYTES: usize>() -> impl Strategy<Value = Vec<Route<BYTES>>> {
        let one = (address::<BYTES>(), 0..=(BYTES * 8) as u8);
        prop::collection::vec(one, 0..40).prop_map(|all| {
            let numbered = all.into_iter().zip(0..);
            numbered.map(|((address, length), value)| Route { address, length, value }).collect()
        })
    }

    proptest! {
        #[test]
        fn agrees_with_the_definition_for_ipv4(
            routes in routes::<4>(), addresses in prop::collection::vec(address::<4>(), 50)
        ) {
            let table = Table::build(routes.clone());
            for address in addresses {
                prop_assert_eq!(table.lookup(address), slow(&routes, &address));
            }
        }

        #[test]
        fn agrees_with_the_definition_for_ipv6(
            routes in routes::<16>(), addresses in prop::collection::vec(address::<16>(), 50)
        ) {
            let table = Table::build(routes.clone());
            for address in addresses {
                prop_assert_eq!(table.lookup(address), slow(&routes, &address));
            }
        }
    }

    #[test]
    fn an_empty_table_and_a_default_route() {
        assert_eq!(Table::build::<4>(Vec::new()).lookup([10, 0, 0, 1]), None);
        let all = Route { address: [9; 4], length: 0, value: 7 };
        assert_eq!(Table::build(vec![all]).lookup([10, 0, 0, 1]), Some(7));
    }
}
