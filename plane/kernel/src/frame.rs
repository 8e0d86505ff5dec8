//! Repairs of frames that come from the kernel without a VLAN tag or a checksum.
//!
//! The kernel takes the outer VLAN tag out of every frame, and leaves the checksum of a packet that never
//! left the machine to a network card that there is not (`CHECKSUM_PARTIAL`). Both are said beside the
//! frame; neither is in it.

use headgate_wire::offload::Partial;

// linux/if_packet.h
/// The checksum is still to be computed.
pub const CHECKSUM_NOT_READY: u32 = 1 << 3;
/// The tag's value is valid.
pub const VLAN_VALID: u32 = 1 << 4;
/// The tag's EtherType is valid.
pub const VLAN_TYPE_VALID: u32 = 1 << 6;

/// Bytes of a VLAN tag.
pub const TAG_BYTES: usize = 4;
/// Where the outer tag is: behind both addresses.
pub const TAG_AT: usize = 12;
/// EtherType of a customer's VLAN tag (IEEE 802.1Q).
const TYPE_VLAN: u16 = 0x8100;

/// The kernel's information beside a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Aside {
    /// The flags above, among others.
    pub status: u32,
    /// The tag's value.
    pub tag: u16,
    /// The tag's EtherType.
    pub tag_type: u16,
}

impl Aside {
    /// The tag that was taken out, as it stands in a frame.
    #[must_use]
    pub fn tag_bytes(self) -> Option<[u8; TAG_BYTES]> {
        if self.status & VLAN_VALID == 0 {
            return None;
        }
        let kind = if self.status & VLAN_TYPE_VALID == 0 { TYPE_VLAN } else { self.tag_type };
        let ([a, b], [c, d]) = (kind.to_be_bytes(), self.tag.to_be_bytes());
        Some([a, b, c, d])
    }

    /// Whether the frame's checksum is to be computed.
    #[must_use]
    pub const fn lacks_checksum(self) -> bool {
        self.status & CHECKSUM_NOT_READY != 0
    }
}

/// Whether a frame that starts so has a customer's tag.
#[cfg(feature = "port")]
pub(crate) fn is_tagged(head: &[u8]) -> bool {
    head.get(TAG_AT..TAG_AT + 2) == Some(&TYPE_VLAN.to_be_bytes())
}

/// Puts a tag back. The frame starts `TAG_BYTES` into `room`, and at its start afterwards.
pub fn insert_tag(room: &mut [u8], tag: [u8; TAG_BYTES]) {
    if room.len() >= TAG_AT + TAG_BYTES {
        room.copy_within(TAG_BYTES..TAG_BYTES + TAG_AT, 0);
        room[TAG_AT..TAG_AT + TAG_BYTES].copy_from_slice(&tag);
    }
}

/// Computes a checksum of TCP, UDP or SCTP that the kernel left out ([`Partial::find`]).
pub fn complete_checksum(frame: &mut [u8]) {
    if let Some(partial) = Partial::find(frame, frame.len()) {
        partial.fill(frame);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use headgate_wire::checksum::Sum;

    const UDP: u8 = 17;

    #[test]
    fn a_tag_returns_to_where_it_was() {
        let aside = Aside { status: VLAN_VALID, tag: 0x6007, tag_type: 0 };
        let mut room: Vec<u8> = (0..4).chain(0..20).collect();
        insert_tag(&mut room, aside.tag_bytes().unwrap());
        let wanted: Vec<u8> = (0..12).chain([0x81, 0, 0x60, 7]).chain(12..20).collect();
        assert_eq!(room, wanted);
        let service = Aside { status: VLAN_VALID | VLAN_TYPE_VALID, tag: 1, tag_type: 0x88a8 };
        assert_eq!(service.tag_bytes(), Some([0x88, 0xa8, 0, 1]));
        assert_eq!(Aside::default().tag_bytes(), None);
    }

    /// IPv4 + UDP, 4 bytes of payload, behind any tags.
    fn datagram(tags: &[u8]) -> Vec<u8> {
        let mut frame = vec![2; TAG_AT];
        frame.extend(tags);
        frame.extend([8, 0]);
        frame.extend([0x45, 0, 0, 32, 0, 0, 0, 0, 64, UDP, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        frame.extend([4, 0, 0, 9, 0, 12, 0xde, 0xad, 1, 2, 3, 4]);
        frame
    }

    /// What the kernel leaves in the place of a checksum.
    fn leave_out(frame: &mut [u8], tags: usize) {
        let begun = !Sum::pseudo_ipv4([10, 0, 0, 1].into(), [10, 0, 0, 2].into(), UDP, 12).finish();
        frame[40 + tags..42 + tags].copy_from_slice(&begun.to_be_bytes());
    }

    #[test]
    fn a_checksum_is_completed_behind_tags_and_padding_is_left_out() {
        for tags in [&[][..], &[0x81, 0, 0, 7], &[0x88, 0xa8, 0, 1, 0x81, 0, 0, 7]] {
            let mut frame = datagram(tags);
            frame.extend([0xff; 6]);
            leave_out(&mut frame, tags.len());
            complete_checksum(&mut frame);
            let udp = &frame[TAG_AT + tags.len() + 2 + 20..][..12];
            let pseudo = Sum::pseudo_ipv4([10, 0, 0, 1].into(), [10, 0, 0, 2].into(), UDP, 12);
            assert_eq!(pseudo.bytes(udp).finish(), 0, "{tags:?}");
        }
    }

    #[test]
    fn a_checksum_that_was_computed_is_left_as_it_is() {
        let mut whole = datagram(&[]);
        leave_out(&mut whole, 0);
        complete_checksum(&mut whole);
        let mut same = whole.clone();
        complete_checksum(&mut same);
        assert_eq!(same, whole);
        let mut wrong = whole.clone();
        wrong[45] ^= 1;
        let mut kept = wrong.clone();
        complete_checksum(&mut kept);
        assert_eq!(kept, wrong, "what is wrong stays so");
    }

    #[test]
    fn frames_cut_anywhere_are_left_alone() {
        let mut frame = datagram(&[]);
        leave_out(&mut frame, 0);
        for length in 0..frame.len() {
            let mut cut = frame[..length].to_vec();
            complete_checksum(&mut cut);
            assert_eq!(cut, frame[..length], "{length}");
            insert_tag(&mut cut, [0; TAG_BYTES]);
        }
    }
}
