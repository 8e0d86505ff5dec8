//! Network Service Header (RFC 8300): says of a packet which service function path it is on, and where.
//!
//! ```text
//! |Ver|O|U|    TTL    |  Length   |U|U|U|U|MD type| Next protocol |   base header
//! |         Service path identifier (24)          | Service index |   service path header
//! |  16 bytes of context (MD type 1), or options of any number (MD type 2)                ...
//! ```
//!
//! [`Header`] is the view, [`Base`], [`ServicePath`] and [`Context`] are the values of its parts.

mod context;
mod hash;

use core::fmt;

use crate::bytes::{get16, get32, put32};
use crate::{NoRoomError, split_room};

pub use context::{CONTEXT_LENGTH, Context, ContextWords, with_target};
pub use hash::{flow_hash, plain_flow_hash};

/// The base header and the service path header, in bytes: every header has them.
pub const FIXED_LENGTH: usize = 8;
/// A header of MD type 1, in bytes.
pub const LENGTH_OF_TYPE_1: usize = FIXED_LENGTH + CONTEXT_LENGTH;
/// The longest header, in bytes: the length field has 6 bits and counts words of 4 bytes.
pub const LENGTH_MAX: usize = 63 * 4;
/// The TTL to begin with (RFC 8300 §2.2).
pub const TTL_FIRST: u8 = 63;
/// The highest service path identifier: 24 bits.
pub const PATH_MAX: u32 = 0x00ff_ffff;

/// MD types (RFC 8300 §9.1.3).
pub mod md_type {
    /// Four words of context.
    pub const FIXED: u8 = 1;
    /// Options.
    pub const VARIABLE: u8 = 2;
}

/// Next protocols (RFC 8300 §9.1.6).
pub mod next_protocol {
    /// An IPv4 packet.
    pub const IPV4: u8 = 1;
    /// An IPv6 packet.
    pub const IPV6: u8 = 2;
    /// An Ethernet frame.
    pub const ETHERNET: u8 = 3;
}

/// Reason why bytes are no header that can be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderError {
    /// The frame ends inside the header.
    Truncated,
    /// The version is another than 0.
    Version(u8),
    /// The length field contradicts the MD type.
    Length(u8),
    /// The MD type is neither 1 nor 2 (RFC 8300 §2.2: such packets are discarded).
    MdType(u8),
    /// An option goes beyond the header.
    Option,
}

impl fmt::Display for HeaderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated => f.write_str("the frame ends inside the service header"),
            Self::Version(version) => write!(f, "the service header has version {version}, which is not 0"),
            Self::Length(words) => write!(f, "no service header of its MD type has {words} words"),
            Self::MdType(kind) => write!(f, "the service header has MD type {kind}, which is not 1 or 2"),
            Self::Option => f.write_str("an option goes beyond the service header"),
        }
    }
}

impl core::error::Error for HeaderError {}

const VERSION_SHIFT: u32 = 30;
const OAM_SHIFT: u32 = 29;
const TTL_SHIFT: u32 = 22;
const LENGTH_SHIFT: u32 = 16;
const MD_TYPE_SHIFT: u32 = 8;
/// TTL and length have 6 bits each.
const SIX_BITS: u32 = 0x3f;

/// The base header. Bits that are not assigned are kept as they came (RFC 8300 §2.2: they are ignored).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Base(u32);

impl Base {
    /// Returns that of a header of MD type 1 around an Ethernet frame, as a classifier sends it.
    pub const fn of_type_1() -> Self {
        let words = (LENGTH_OF_TYPE_1 / 4) as u32;
        let base = Self(words << LENGTH_SHIFT | (md_type::FIXED as u32) << MD_TYPE_SHIFT);
        base.with_ttl(TTL_FIRST).with_next_protocol(next_protocol::ETHERNET)
    }

    /// The header as [`Base::bits`] gave it.
    #[inline]
    pub const fn from_bits(bits: u32) -> Self {
        Self(bits)
    }

    /// Returns all fields in one integer, as on the wire.
    #[inline]
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// The version; 0 is the only one.
    #[inline]
    pub const fn version(self) -> u8 {
        (self.0 >> VERSION_SHIFT) as u8
    }

    /// Whether it is a packet for maintenance (the O bit).
    #[inline]
    pub const fn is_oam(self) -> bool {
        self.0 >> OAM_SHIFT & 1 != 0
    }

    /// Most service function forwarders that it may still come to, 0 to 63.
    #[inline]
    pub const fn ttl(self) -> u8 {
        (self.0 >> TTL_SHIFT & SIX_BITS) as u8
    }

    /// Returns the same header with another TTL, of which 6 bits count.
    #[inline]
    #[must_use]
    pub const fn with_ttl(self, ttl: u8) -> Self {
        Self(self.0 & !(SIX_BITS << TTL_SHIFT) | (ttl as u32 & SIX_BITS) << TTL_SHIFT)
    }

    /// Returns the header behind a forwarder: its TTL is lower by one, and 63 behind 0. `None` when it is 0
    /// then, and the packet must not go on (RFC 8300 §2.2).
    #[inline]
    #[must_use]
    pub const fn forwarded(self) -> Option<Self> {
        match self.ttl() {
            0 => Some(self.with_ttl(TTL_FIRST)),
            1 => None,
            ttl => Some(self.with_ttl(ttl - 1)),
        }
    }

    /// The whole header in bytes, as its length field says.
    #[inline]
    pub const fn length(self) -> usize {
        (self.0 >> LENGTH_SHIFT & SIX_BITS) as usize * 4
    }

    /// Kind of what stands behind the service path header: see [`md_type`].
    #[inline]
    pub const fn md_type(self) -> u8 {
        (self.0 >> MD_TYPE_SHIFT & 0xf) as u8
    }

    /// Protocol of the payload: see [`next_protocol`].
    #[inline]
    pub const fn next_protocol(self) -> u8 {
        self.0 as u8
    }

    /// Returns the same header around another payload.
    #[inline]
    #[must_use]
    pub const fn with_next_protocol(self, protocol: u8) -> Self {
        Self(self.0 & !0xff | protocol as u32)
    }

    /// Checks version, MD type, and that the length is one of the type's.
    const fn check(self) -> Result<(), HeaderError> {
        let words = (self.length() / 4) as u8;
        match (self.version(), self.md_type(), self.length()) {
            (0, md_type::FIXED, LENGTH_OF_TYPE_1) | (0, md_type::VARIABLE, FIXED_LENGTH..) => Ok(()),
            (0, md_type::FIXED | md_type::VARIABLE, _) => Err(HeaderError::Length(words)),
            (0, kind, _) => Err(HeaderError::MdType(kind)),
            (version, ..) => Err(HeaderError::Version(version)),
        }
    }
}

/// The service path header: the path, and how far the packet is on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServicePath {
    /// Service path identifier, up to [`PATH_MAX`].
    pub path: u32,
    /// Service index: lower by one behind each service function.
    pub index: u8,
}

impl ServicePath {
    /// The header as [`ServicePath::bits`] gave it.
    #[inline]
    pub const fn from_bits(bits: u32) -> Self {
        Self { path: bits >> 8, index: bits as u8 }
    }

    /// Returns both in one integer, as on the wire.
    #[inline]
    pub const fn bits(self) -> u32 {
        self.path << 8 | self.index as u32
    }
}

/// Fields of a base header that are the same in all plain ones: not its TTL, and no bit that is not assigned.
const PLAIN_MASK: u32 =
    0x3 << VERSION_SHIFT | 1 << OAM_SHIFT | SIX_BITS << LENGTH_SHIFT | 0xf << MD_TYPE_SHIFT | 0xff;

/// Returns the parts of a header of MD type 1 around an Ethernet frame, not for maintenance, by its first 8
/// bytes, the first the highest; `None` for every other header. The context stands behind it, and the frame
/// behind that.
#[inline(always)]
pub const fn plain(word: u64) -> Option<(Base, ServicePath)> {
    let base = Base((word >> 32) as u32);
    if base.0 & PLAIN_MASK == Base::of_type_1().0 & PLAIN_MASK {
        Some((base, ServicePath::from_bits(word as u32)))
    } else {
        None
    }
}

/// An option of MD type 2 (RFC 8300 §2.5.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metadata<'a> {
    /// Scope of the type.
    pub class: u16,
    /// Type within the class.
    pub kind: u8,
    /// Its bytes, without padding.
    pub data: &'a [u8],
}

/// Class, type and length, in bytes.
const OPTION_HEADER_LENGTH: usize = 4;

/// The options of a header of MD type 2. Ends after the first malformed one.
#[derive(Clone, Debug)]
pub struct Options<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Options<'a> {
    type Item = Result<Metadata<'a>, HeaderError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let Some((metadata, rest)) = split_option(self.rest) else {
            self.rest = &[];
            return Some(Err(HeaderError::Option));
        };
        self.rest = rest;
        Some(Ok(metadata))
    }
}

fn split_option(bytes: &[u8]) -> Option<(Metadata<'_>, &[u8])> {
    let (header, behind) = bytes.split_first_chunk::<OPTION_HEADER_LENGTH>()?;
    // The length leaves padding to whole words out; its highest bit is not assigned.
    let length = usize::from(header[3] & 0x7f);
    let (padded, rest) = behind.split_at_checked(length.next_multiple_of(4))?;
    Some((Metadata { class: get16(header, 0), kind: header[2], data: &padded[..length] }, rest))
}

/// A view over a service header and what stands behind it.
#[derive(Clone, Copy, Debug)]
pub struct Header<B> {
    bytes: B,
    base: Base,
}

impl<B: AsRef<[u8]>> Header<B> {
    /// Checks that the header is there as a whole, of version 0, of MD type 1 or 2, and with options that lie
    /// in it.
    ///
    /// # Errors
    /// [`HeaderError`].
    #[inline]
    pub fn new(bytes: B) -> Result<Self, HeaderError> {
        let available = bytes.as_ref();
        if available.len() < FIXED_LENGTH {
            return Err(HeaderError::Truncated);
        }
        let base = Base(get32(available, 0));
        base.check()?;
        if available.len() < base.length() {
            return Err(HeaderError::Truncated);
        }
        let header = Self { bytes, base };
        header.options().try_for_each(|option| option.map(|_| ()))?;
        Ok(header)
    }

    /// The base header.
    #[inline]
    pub const fn base(&self) -> Base {
        self.base
    }

    /// The service path header.
    #[inline]
    pub fn service_path(&self) -> ServicePath {
        ServicePath::from_bits(get32(self.bytes.as_ref(), 4))
    }

    /// Returns what stands between the service path header and the payload, whatever the MD type.
    #[inline]
    pub fn metadata(&self) -> &[u8] {
        &self.bytes.as_ref()[FIXED_LENGTH..self.base.length()]
    }

    /// The context; `None` in a header of MD type 2.
    #[inline]
    pub fn context(&self) -> Option<Context> {
        let is_fixed = self.base.md_type() == md_type::FIXED;
        self.metadata().first_chunk().filter(|_| is_fixed).map(Context::from_bytes)
    }

    /// The options; none in a header of MD type 1.
    #[inline]
    pub fn options(&self) -> Options<'_> {
        let rest = if self.base.md_type() == md_type::VARIABLE { self.metadata() } else { &[] };
        Options { rest }
    }

    /// Returns the bytes behind the header.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        &self.bytes.as_ref()[self.base.length()..]
    }
}

/// Writes a header with what `metadata` has behind the service path header, and returns the bytes behind it.
/// The length field becomes that of the whole.
///
/// # Errors
/// [`NoRoomError`] when `bytes` is shorter than the header, or the header longer than [`LENGTH_MAX`] or not
/// of whole words.
pub fn write<'a>(
    base: Base,
    path: ServicePath,
    metadata: &[u8],
    bytes: &'a mut [u8],
) -> Result<&'a mut [u8], NoRoomError> {
    let (length, given) = (FIXED_LENGTH + metadata.len(), bytes.len());
    if length > LENGTH_MAX || !length.is_multiple_of(4) {
        return Err(NoRoomError::LengthField { length, max: LENGTH_MAX });
    }
    let (fixed, behind) = split_room::<FIXED_LENGTH>(bytes)?;
    let room = behind.split_at_mut_checked(metadata.len());
    let (place, rest) = room.ok_or(NoRoomError::Buffer { needed: length, given })?;
    put32(fixed, 0, base.0 & !(SIX_BITS << LENGTH_SHIFT) | (length as u32 / 4) << LENGTH_SHIFT);
    put32(fixed, 4, path.bits());
    place.copy_from_slice(metadata);
    Ok(rest)
}

#[cfg(test)]
mod tests;
