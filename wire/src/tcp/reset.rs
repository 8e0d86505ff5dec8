//! The reset that answers a segment as if its receiver had no such connection (RFC 9293 §3.5.2, group 1), in
//! the name of that receiver. To whom nothing is answered is what [`icmp`](crate::icmp) says of errors.

use super::{HEADER_LENGTH, Header, Segment, flag};
use crate::checksum::Sum;
use crate::ethernet::{self, ethertype};
use crate::icmp::{NoIcmpError, Problem, may_answer4, may_answer6};
use crate::ip::protocol;
use crate::vlan::Tags;
use crate::{NoRoomError, ipv4, ipv6};

/// Writes the frame that resets the connection which `frame` is a segment of: the same VLAN tags, to the MAC
/// address it came from, from where it was to go. Returns the length in bytes.
///
/// The offending segment's own checksum is not checked: between hosts of one machine it is often not filled
/// in yet.
///
/// # Errors
/// [`NoIcmpError`] when no reset may or can be sent.
pub fn reset_frame(frame: &[u8], out: &mut [u8]) -> Result<usize, NoIcmpError> {
    let tags = Tags::parse(frame)?;
    let offending = ethernet::Frame::new(frame)?;
    if offending.destination().is_multicast() {
        return Err(NoIcmpError::ManyReceivers);
    }
    let (link, packet) = frame.split_at(tags.payload_offset);
    let given = out.len();
    let (out_link, out_packet) =
        out.split_at_mut_checked(link.len()).ok_or(NoRoomError::Buffer { needed: link.len(), given })?;
    let length = match tags.ethertype {
        ethertype::IPV4 => reset4(packet, out_packet)?,
        ethertype::IPV6 => reset6(packet, out_packet)?,
        _ => return Err(NoIcmpError::NotIp),
    };
    out_link.copy_from_slice(link);
    ethernet::Frame::new(out_link)?.swap_addresses();
    Ok(link.len() + length)
}

fn reset4(packet: &[u8], out: &mut [u8]) -> Result<usize, NoIcmpError> {
    let offending = ipv4::Packet::new(packet)?;
    may_answer4(&offending)?;
    if offending.protocol() != protocol::TCP {
        return Err(NoIcmpError::NotTcp);
    }
    let reset = answer(&Segment::new(offending.payload())?)?;
    let header = ipv4::Header::new(offending.destination(), offending.source(), protocol::TCP);
    let answer = room(out, ipv4::HEADER_LENGTH)?;
    let segment = header.write(answer)?;
    let (from, to) = (offending.destination(), offending.source());
    reset.write(segment, Sum::pseudo_ipv4(from, to, protocol::TCP, HEADER_LENGTH as u16))?;
    Ok(answer.len())
}

fn reset6(packet: &[u8], out: &mut [u8]) -> Result<usize, NoIcmpError> {
    let offending = ipv6::Packet::new(packet)?;
    may_answer6(&offending, Problem::Prohibited)?;
    let upper = offending.upper_layer()?;
    if upper.protocol != protocol::TCP {
        return Err(NoIcmpError::NotTcp);
    }
    let reset = answer(&Segment::new(upper.payload)?)?;
    let (from, to) = (offending.destination(), offending.source());
    let answer = room(out, ipv6::HEADER_LENGTH)?;
    let segment = ipv6::Header::new(from, to, protocol::TCP).write(answer)?;
    reset.write(segment, Sum::pseudo_ipv6(from, to, protocol::TCP, HEADER_LENGTH as u32))?;
    Ok(answer.len())
}

fn room(out: &mut [u8], ip_header: usize) -> Result<&mut [u8], NoRoomError> {
    let (given, needed) = (out.len(), ip_header + HEADER_LENGTH);
    out.get_mut(..needed).ok_or(NoRoomError::Buffer { needed, given })
}

/// RFC 9293 §3.5.2: "If the incoming segment has an ACK field, the reset takes its sequence number from the
/// ACK field of the segment; otherwise, the reset has sequence number zero and the ACK field is set to the
/// sum of the sequence number and segment length of the incoming segment."
fn answer(segment: &Segment<&[u8]>) -> Result<Header, NoIcmpError> {
    let flags = segment.flags();
    if flags & flag::RST != 0 {
        return Err(NoIcmpError::Reset);
    }
    let ports = Header {
        source_port: segment.destination_port(),
        destination_port: segment.source_port(),
        ..Header::default()
    };
    if flags & flag::ACK != 0 {
        return Ok(Header { sequence: segment.acknowledgment(), flags: flag::RST, ..ports });
    }
    let controls = u32::from(flags & flag::SYN != 0) + u32::from(flags & flag::FIN != 0);
    let length = segment.payload().len() as u32 + controls;
    let acknowledgment = segment.sequence().wrapping_add(length);
    Ok(Header { acknowledgment, flags: flag::RST | flag::ACK, ..ports })
}

#[cfg(test)]
mod tests;
