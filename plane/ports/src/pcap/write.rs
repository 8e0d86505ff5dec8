//! The bytes of a pcapng file: section header, interface description, enhanced packet.
//!
//! Little-endian (draft-ietf-opsawg-pcapng §4). Times in nanoseconds.

/// Bytes of a packet block beside the padded packet.
pub(super) const PACKET_OVERHEAD_BYTES: usize = PACKET_HEADER_BYTES + 4;
/// Type, length, interface, time (2), captured and original length.
const PACKET_HEADER_BYTES: usize = 28;

const SECTION: u32 = 0x0a0d_0d0a;
const BYTE_ORDER: u32 = 0x1a2b_3c4d;
const INTERFACE: u32 = 1;
const PACKET: u32 = 6;
const ETHERNET: u16 = 1;
const OPTION_SECTION_APPLICATION: u16 = 4;
const OPTION_INTERFACE_NAME: u16 = 2;
const OPTION_TIME_RESOLUTION: u16 = 9;
/// 10 to the power of minus this is the unit of time.
const NANOSECONDS: u8 = 9;

/// A section header of unknown length (§4.1).
pub(super) fn section(application: &str) -> Vec<u8> {
    let mut body = BYTE_ORDER.to_le_bytes().to_vec();
    body.extend(1u16.to_le_bytes());
    body.extend(0u16.to_le_bytes());
    body.extend(u64::MAX.to_le_bytes());
    option(&mut body, OPTION_SECTION_APPLICATION, application.as_bytes());
    option(&mut body, 0, &[]);
    block(SECTION, &body)
}

/// An Ethernet interface without limit on the captured length (§4.2).
pub(super) fn interface(name: &str) -> Vec<u8> {
    let mut body = ETHERNET.to_le_bytes().to_vec();
    body.extend(0u16.to_le_bytes());
    body.extend(0u32.to_le_bytes());
    option(&mut body, OPTION_INTERFACE_NAME, name.as_bytes());
    option(&mut body, OPTION_TIME_RESOLUTION, &[NANOSECONDS]);
    option(&mut body, 0, &[]);
    block(INTERFACE, &body)
}

/// Bytes of the block of a packet.
#[inline]
pub(super) const fn packet_bytes(length: usize) -> usize {
    PACKET_OVERHEAD_BYTES + length.next_multiple_of(4)
}

/// Writes the block of a packet (§4.3) to `out`, which has [`packet_bytes`]; `fill` writes the packet.
#[inline]
pub(super) fn packet(
    out: &mut [u8],
    interface: u32,
    time_ns: u64,
    length: usize,
    fill: impl FnOnce(&mut [u8]),
) {
    let total = (out.len() as u32).to_le_bytes();
    let fields = [
        PACKET,
        out.len() as u32,
        interface,
        (time_ns >> 32) as u32,
        time_ns as u32,
        length as u32,
        length as u32,
    ];
    let (header, rest) = out.split_at_mut(PACKET_HEADER_BYTES);
    for (bytes, field) in header.as_chunks_mut().0.iter_mut().zip(fields) {
        *bytes = field.to_le_bytes();
    }
    let (bytes, rest) = rest.split_at_mut(length);
    fill(bytes);
    let (padding, trailer) = rest.split_at_mut(rest.len() - 4);
    padding.fill(0);
    trailer.copy_from_slice(&total);
}

/// Values longer than 65,535 bytes are cut.
fn option(body: &mut Vec<u8>, code: u16, value: &[u8]) {
    let value = &value[..value.len().min(usize::from(u16::MAX))];
    body.extend(code.to_le_bytes());
    body.extend((value.len() as u16).to_le_bytes());
    body.extend(value);
    body.resize(body.len().next_multiple_of(4), 0);
}

fn block(kind: u32, body: &[u8]) -> Vec<u8> {
    let length = (body.len() as u32 + 12).to_le_bytes();
    [&kind.to_le_bytes(), &length, body, &length].concat()
}
