//! Headers of a frame for a network function in C: what `headgate_wire.h` declares and does not do inline.

use std::ffi::c_int;

use headgate_nf::FRAME_BYTES_MAX;
use headgate_nf::wire::ethernet::ethertype;
use headgate_nf::wire::ip::protocol;
use headgate_nf::wire::vlan::{Tag, Tags};
use headgate_nf::wire::{MalformedError, ipv4, ipv6, tcp, udp};

/// `struct hg_headers`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HgHeaders {
    pub ethertype: u16,
    pub vlan_count: u16,
    pub vlan: [u16; 2],
    pub network: u16,
    pub transport: u16,
    pub payload: u16,
    pub end: u16,
    pub source_port: u16,
    pub destination_port: u16,
    pub version: u8,
    pub protocol: u8,
    pub fragment: u8,
    pub tcp_flags: u8,
    pub source: [u8; 16],
    pub destination: [u8; 16],
}

const _: () = assert!(size_of::<HgHeaders>() == 56);

/// Place of an IP payload in the packet that was fragmented, as `fragment` says it.
const WHOLE: u8 = 0;
const FIRST: u8 = 1;
const LATER: u8 = 2;

const fn fragment_of(more: bool, offset: u16) -> u8 {
    match (offset, more) {
        (0, false) => WHOLE,
        (0, true) => FIRST,
        _ => LATER,
    }
}

/// Checks that a fragment does not reach beyond the longest packet that fragments may be put together to.
fn check_reassembled(offset: u16, bytes: usize) -> Result<(), MalformedError> {
    let fits = usize::from(offset) + bytes <= usize::from(u16::MAX);
    if fits { Ok(()) } else { Err(MalformedError::FragmentOverflow) }
}

impl HgHeaders {
    /// Finds the headers of a frame. Offsets of headers fit 16 bits; an end behind them is said to be the
    /// last.
    fn of(frame: &[u8]) -> Result<Self, MalformedError> {
        let tags = Tags::parse(frame)?;
        let mut found =
            Self { ethertype: tags.ethertype, network: tags.payload_offset as u16, ..Self::default() };
        for (tag, control) in [tags.outer, tags.inner].into_iter().flatten().zip(&mut found.vlan) {
            *control = control_word(tag);
            found.vlan_count += 1;
        }
        let packet = &frame[tags.payload_offset..];
        match tags.ethertype {
            ethertype::IPV4 => found.add_ipv4(packet)?,
            ethertype::IPV6 => found.add_ipv6(packet)?,
            _ => {}
        }
        Ok(found)
    }

    fn add_ipv4(&mut self, packet: &[u8]) -> Result<(), MalformedError> {
        let ip = ipv4::Packet::new(packet)?;
        let fragment = ip.fragment();
        check_reassembled(fragment.offset, ip.total_length())?;
        self.version = 4;
        self.source[..4].copy_from_slice(&ip.source().octets());
        self.destination[..4].copy_from_slice(&ip.destination().octets());
        self.fragment = fragment_of(fragment.more, fragment.offset);
        self.end = self.end_of(ip.total_length());
        self.protocol = ip.protocol();
        self.transport = self.network + ip.header_length() as u16;
        self.add_transport(ip.payload())
    }

    fn add_ipv6(&mut self, packet: &[u8]) -> Result<(), MalformedError> {
        let ip = ipv6::Packet::new(packet)?;
        let upper = ip.upper_layer()?;
        if let Some(part) = upper.fragment {
            let headers = ipv6::HEADER_LENGTH + ipv6::EXTENSION_HEAD_LENGTH;
            check_reassembled(part.offset, ip.total_length() - headers)?;
        }
        self.version = 6;
        self.source = ip.source().octets();
        self.destination = ip.destination().octets();
        self.fragment = upper.fragment.map_or(WHOLE, |part| fragment_of(part.more, part.offset));
        self.end = self.end_of(ip.total_length());
        self.protocol = upper.protocol;
        self.transport = self.network + upper.offset as u16;
        self.add_transport(upper.payload)
    }

    fn end_of(&self, bytes: usize) -> u16 {
        u16::try_from(usize::from(self.network) + bytes).unwrap_or(u16::MAX)
    }

    fn add_transport(&mut self, payload: &[u8]) -> Result<(), MalformedError> {
        match (self.protocol, self.fragment) {
            (protocol::TCP, WHOLE) => {
                let segment = tcp::Segment::new(payload)?;
                self.tcp_flags = segment.flags();
                self.payload = self.transport + segment.header_length() as u16;
                self.add_ports(payload);
            }
            (protocol::UDP, WHOLE) => {
                udp::Datagram::new(payload)?;
                self.payload = self.transport + udp::HEADER_LENGTH as u16;
                self.add_ports(payload);
            }
            // The rest of the header may be in a later part; the ports are in the first eight bytes, which
            // every part but the last has (RFC 791 §3.2).
            (protocol::TCP | protocol::UDP, FIRST) if payload.len() < udp::HEADER_LENGTH => {
                return Err(MalformedError::TruncatedTransport);
            }
            (protocol::TCP | protocol::UDP, FIRST) => self.add_ports(payload),
            _ => {}
        }
        Ok(())
    }

    fn add_ports(&mut self, header: &[u8]) {
        if let Some([a, b, c, d]) = header.first_chunk() {
            self.source_port = u16::from_be_bytes([*a, *b]);
            self.destination_port = u16::from_be_bytes([*c, *d]);
        }
    }
}

fn control_word(tag: Tag) -> u16 {
    let [.., high, low] = tag.to_bytes();
    u16::from_be_bytes([high, low])
}

#[unsafe(no_mangle)]
unsafe extern "C" fn hg_parse(frame: *const u8, length: u32, headers: *mut HgHeaders) -> c_int {
    let bytes: &[u8] = if frame.is_null() || length > FRAME_BYTES_MAX {
        &[]
    } else {
        // SAFETY: the header's contract: `length` bytes are at `frame`.
        unsafe { std::slice::from_raw_parts(frame, length as usize) }
    };
    let found = HgHeaders::of(bytes);
    // SAFETY: the header's contract: `headers` is there to be written.
    unsafe { headers.write(found.unwrap_or_default()) };
    if found.is_ok() { 0 } else { -1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_frame_is_that_of_the_header() {
        let header = include_str!("../headgate_nf.h");
        assert!(header.contains(&format!("#define HG_LENGTH_MAX {FRAME_BYTES_MAX}u\n")));
    }
}
