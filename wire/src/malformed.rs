//! Every way a packet can be malformed: one line each.

use core::fmt;

macro_rules! reasons {
    ($($variant:ident $name:literal $sentence:literal;)*) => {
        /// Reason for which bytes are not the packet they claim to be.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum MalformedError {
            $(#[doc = $sentence] $variant,)*
        }

        impl MalformedError {
            /// All reasons, in the order of [`MalformedError::index`].
            pub const ALL: &'static [MalformedError] = &[$(MalformedError::$variant,)*];

            /// A stable name for counters, metrics and JSON.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// Returns the reason as a sentence for the operator.
            pub const fn sentence(self) -> &'static str {
                match self { $(Self::$variant => $sentence,)* }
            }
        }
    };
}

reasons! {
    TruncatedEthernet    "truncated_ethernet"     "the frame is shorter than an Ethernet header (14 bytes)";
    TruncatedVlan        "truncated_vlan"         "the frame ends inside a VLAN tag";
    TruncatedIpv4        "truncated_ipv4"         "the frame ends inside the IPv4 header";
    Ipv4Version          "ipv4_version"           "the EtherType says IPv4 but the version field is not 4";
    Ipv4HeaderLength     "ipv4_header_length"     "the IPv4 header length (IHL) is below 20 bytes or beyond the total length";
    Ipv4TotalLength      "ipv4_total_length"      "the IPv4 total length goes beyond the end of the frame";
    TruncatedIpv6        "truncated_ipv6"         "the frame ends inside the IPv6 header";
    Ipv6Version          "ipv6_version"           "the EtherType says IPv6 but the version field is not 6";
    Ipv6PayloadLength    "ipv6_payload_length"    "the IPv6 payload length goes beyond the end of the frame";
    TruncatedExtension   "truncated_extension"    "an IPv6 extension header goes beyond the payload length";
    TooManyExtensions    "too_many_extensions"    "the IPv6 header is followed by more extension headers than are walked";
    NestedFragment       "nested_fragment"        "the packet has more than one IPv6 fragment header";
    FragmentOverflow     "fragment_overflow"      "the fragment reaches beyond 65535 bytes of the reassembled packet";
    TruncatedTransport   "truncated_transport"    "the IP payload is shorter than the transport header";
    UdpLength            "udp_length"             "the UDP length is below 8 or beyond the IP payload";
    TcpDataOffset        "tcp_data_offset"        "the TCP data offset is below 20 bytes or beyond the IP payload";
    TruncatedIcmp        "truncated_icmp"         "the IP payload is shorter than an ICMP header (8 bytes)";
    OptionLength         "option_length"          "an IPv4 or TCP option is shorter than 2 bytes or goes beyond the header";
}

impl MalformedError {
    /// Number of reasons: the length of an array of counters.
    pub const COUNT: usize = Self::ALL.len();

    /// Position in [`MalformedError::ALL`], below [`MalformedError::COUNT`].
    #[inline]
    pub const fn index(self) -> usize {
        self as usize
    }
}

impl fmt::Display for MalformedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.sentence())
    }
}

impl core::error::Error for MalformedError {}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_are_unique_and_indices_dense() {
        let names: BTreeSet<_> = MalformedError::ALL.iter().map(|reason| reason.name()).collect();
        assert_eq!(names.len(), MalformedError::COUNT);
        for (index, reason) in MalformedError::ALL.iter().enumerate() {
            assert_eq!(reason.index(), index);
        }
    }
}
