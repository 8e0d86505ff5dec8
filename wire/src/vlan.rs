//! VLAN tags: IEEE 802.1Q and, stacked, 802.1ad. At most two are skipped.

use crate::bytes::{array, get16, put16};
use crate::ethernet::{HEADER_LENGTH, ethertype};
use crate::{MalformedError, NoRoomError, split_room};

/// Bytes of one tag.
pub const TAG_LENGTH: usize = 4;

/// Maximum number of tags skipped; a third one counts as the payload's EtherType. 802.1ad stacks two.
pub const TAGS_MAX: usize = 2;

/// Both MAC addresses: what stands in front of the first tag.
const ADDRESSES_LENGTH: usize = 12;

/// Whether an EtherType announces a VLAN tag.
#[inline]
pub const fn is_tag(value: u16) -> bool {
    matches!(value, ethertype::VLAN | ethertype::SERVICE_VLAN)
}

/// One tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tag {
    /// EtherType that announces the tag: [`ethertype::VLAN`] or [`ethertype::SERVICE_VLAN`].
    pub ethertype: u16,
    /// Priority code point, 0-7.
    pub priority: u8,
    /// Drop eligible indicator.
    pub drop_eligible: bool,
    /// VLAN identifier, 0-4095; 0 means "no VLAN, only a priority", 4095 is reserved.
    pub id: u16,
}

impl Tag {
    /// A customer tag of priority 0.
    pub const fn customer(id: u16) -> Self {
        Self { ethertype: ethertype::VLAN, priority: 0, drop_eligible: false, id }
    }

    /// A service tag of priority 0.
    pub const fn service(id: u16) -> Self {
        Self { ethertype: ethertype::SERVICE_VLAN, ..Self::customer(id) }
    }

    /// A tag from its four bytes in a frame.
    #[inline]
    pub fn from_bytes(bytes: [u8; TAG_LENGTH]) -> Self {
        let control = get16(&bytes, 2);
        Self {
            ethertype: get16(&bytes, 0),
            priority: (control >> 13) as u8,
            drop_eligible: control & 0x1000 != 0,
            id: control & 0x0fff,
        }
    }

    /// The four bytes of the tag in a frame. Bits of `priority` and `id` beyond their fields are cut.
    #[inline]
    pub fn to_bytes(self) -> [u8; TAG_LENGTH] {
        let control =
            u16::from(self.priority & 7) << 13 | u16::from(self.drop_eligible) << 12 | self.id & 0x0fff;
        let mut bytes = [0; TAG_LENGTH];
        put16(&mut bytes, 0, self.ethertype);
        put16(&mut bytes, 2, control);
        bytes
    }
}

/// The tags of a frame and what is behind them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tags {
    /// The tag next to the MAC addresses.
    pub outer: Option<Tag>,
    /// The second tag.
    pub inner: Option<Tag>,
    /// EtherType of what follows the tags.
    pub ethertype: u16,
    /// Offset of the bytes behind the tags: 14, 18 or 22 bytes into the frame.
    pub payload_offset: usize,
}

impl Tags {
    /// Reads up to [`TAGS_MAX`] tags.
    ///
    /// # Errors
    /// [`MalformedError::TruncatedEthernet`], [`MalformedError::TruncatedVlan`].
    pub fn parse(frame: &[u8]) -> Result<Self, MalformedError> {
        if frame.len() < HEADER_LENGTH {
            return Err(MalformedError::TruncatedEthernet);
        }
        let mut tags = [None; TAGS_MAX];
        let mut at = ADDRESSES_LENGTH;
        for tag in &mut tags {
            if !is_tag(get16(frame, at)) {
                break;
            }
            if frame.len() < at + TAG_LENGTH + 2 {
                return Err(MalformedError::TruncatedVlan);
            }
            *tag = Some(Tag::from_bytes(array(frame, at)));
            at += TAG_LENGTH;
        }
        let [outer, inner] = tags;
        Ok(Self { outer, inner, ethertype: get16(frame, at), payload_offset: at + 2 })
    }
}

/// Puts a tag in front of those the frame has. The frame begins [`TAG_LENGTH`] bytes into `bytes`
/// (the headroom) before, and at the start of `bytes` afterwards.
///
/// # Errors
/// [`NoRoomError::Buffer`] when `bytes` does not hold the headroom and an Ethernet header.
pub fn push(bytes: &mut [u8], tag: Tag) -> Result<(), NoRoomError> {
    let (front, _) = split_room::<{ TAG_LENGTH + HEADER_LENGTH }>(bytes)?;
    front.copy_within(TAG_LENGTH..TAG_LENGTH + ADDRESSES_LENGTH, 0);
    front[ADDRESSES_LENGTH..ADDRESSES_LENGTH + TAG_LENGTH].copy_from_slice(&tag.to_bytes());
    Ok(())
}

/// Takes the outer tag off. Afterwards the frame begins [`TAG_LENGTH`] bytes into `frame`.
/// `Ok(None)`: there was no tag, and nothing was changed.
///
/// # Errors
/// [`MalformedError::TruncatedEthernet`], [`MalformedError::TruncatedVlan`].
pub fn pop(frame: &mut [u8]) -> Result<Option<Tag>, MalformedError> {
    let header = frame.first_chunk::<HEADER_LENGTH>().ok_or(MalformedError::TruncatedEthernet)?;
    if !is_tag(get16(header, ADDRESSES_LENGTH)) {
        return Ok(None);
    }
    let front = frame.first_chunk_mut::<{ HEADER_LENGTH + TAG_LENGTH }>();
    let front = front.ok_or(MalformedError::TruncatedVlan)?;
    let tag = Tag::from_bytes(array(front, ADDRESSES_LENGTH));
    front.copy_within(..ADDRESSES_LENGTH, TAG_LENGTH);
    Ok(Some(tag))
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNTAGGED: [u8; 16] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 0x08, 0x00, 0x45, 0x00];

    #[test]
    fn tag_bits() {
        let tag = Tag { ethertype: 0x88a8, priority: 5, drop_eligible: true, id: 0x123 };
        assert_eq!(tag.to_bytes(), [0x88, 0xa8, 0xb1, 0x23]);
        assert_eq!(Tag::from_bytes(tag.to_bytes()), tag);
    }

    #[test]
    fn push_twice_parse_pop_twice() {
        let mut bytes = [0; 24];
        bytes[8..].copy_from_slice(&UNTAGGED);
        push(&mut bytes[4..], Tag::customer(10)).unwrap();
        push(&mut bytes, Tag::service(20)).unwrap();
        let tags = Tags::parse(&bytes).unwrap();
        assert_eq!(tags.outer, Some(Tag::service(20)));
        assert_eq!(tags.inner, Some(Tag::customer(10)));
        assert_eq!((tags.ethertype, tags.payload_offset), (0x0800, 22));
        assert_eq!(bytes[..12], UNTAGGED[..12]);

        assert_eq!(pop(&mut bytes), Ok(Some(Tag::service(20))));
        assert_eq!(pop(&mut bytes[4..]), Ok(Some(Tag::customer(10))));
        assert_eq!(pop(&mut bytes[8..]), Ok(None));
        assert_eq!(bytes[8..], UNTAGGED);
    }

    #[test]
    fn a_third_tag_is_payload() {
        let mut bytes = [0; 28];
        for at in [12, 16, 20] {
            bytes[at..at + 4].copy_from_slice(&Tag::customer(7).to_bytes());
        }
        let tags = Tags::parse(&bytes).unwrap();
        assert_eq!((tags.ethertype, tags.payload_offset), (ethertype::VLAN, 22));
    }

    #[test]
    fn pop_looks_at_the_outer_tag_only() {
        let mut frame = [0; 18];
        frame[12..16].copy_from_slice(&Tag::service(20).to_bytes());
        frame[16..18].copy_from_slice(&ethertype::VLAN.to_be_bytes());
        assert_eq!(Tags::parse(&frame), Err(MalformedError::TruncatedVlan));
        assert_eq!(pop(&mut frame[..17]), Err(MalformedError::TruncatedVlan));
        assert_eq!(pop(&mut frame), Ok(Some(Tag::service(20))));
    }

    #[test]
    fn cut_tags_are_named() {
        let mut bytes = [0; 17];
        bytes[12..16].copy_from_slice(&Tag::customer(7).to_bytes());
        assert_eq!(Tags::parse(&bytes), Err(MalformedError::TruncatedVlan));
        assert_eq!(Tags::parse(&bytes[..13]), Err(MalformedError::TruncatedEthernet));
    }
}
