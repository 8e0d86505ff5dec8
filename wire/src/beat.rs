//! Beats: what nodes of a network say of themselves, and pass on of others.
//!
//! ```text
//! datagram   magic "HGB2" (32) | number of records (8) | records
//! record     node (name) | incarnation (64) | sequence (32) | number of offers (8) | offers
//! offer      NF (name) | flags (8) | instances (16) | kappa (32, IEEE 754) | service time, ns (32)
//! flags      1: leaving
//! name       length (8), 1 to 63 | bytes: letters, digits, `_`, `.`, `-`
//! ```
//!
//! Big endian, behind UDP. [`Datagram`] is the view: its constructor has checked everything, so its records
//! and offers are simply there. [`Writer`] makes one.
//!
//! Nothing here keeps state: whether a node is known, and a number is new, its receiver knows.

#[cfg(test)]
mod tests;

use core::fmt;

use crate::NoRoomError;

/// UDP port of beats. Our choice: not assigned, and below the ports that kernels give away.
pub const PORT: u16 = 7784;
/// Longest datagram. Our choice: it fits a link of the least MTU that chains between nodes have, 1318, whole.
pub const BYTES_MAX: usize = 1280;
/// Longest name.
pub const NAME_BYTES_MAX: usize = 63;
/// Highest price: above it nothing is told apart any more.
pub const KAPPA_MAX: f32 = 1e6;
const MAGIC: [u8; 4] = *b"HGB2";
/// Flag of an offer: the node leaves.
const LEAVING: u8 = 1;
const HEADER_BYTES: usize = MAGIC.len() + 1;

/// Reason why bytes are no beats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BeatError {
    /// They begin otherwise: another program's, or another version's.
    Magic,
    /// They end inside a record.
    Truncated,
    /// They go on behind the last record.
    Trailing,
    /// A name is none.
    Name,
    /// A price is no number, below 0, or too high.
    Price,
    /// The datagram is longer than any.
    Oversized,
}

impl fmt::Display for BeatError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Magic => "it does not begin as beats of this version do",
            Self::Truncated => "it ends inside a record",
            Self::Trailing => "something follows the last record",
            Self::Name => "a name in it is none",
            Self::Price => "a price in it is none",
            Self::Oversized => "it is longer than any",
        })
    }
}

impl core::error::Error for BeatError {}

/// What a node says of one of its NFs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Offer<'b> {
    /// The NF.
    pub nf: &'b str,
    /// Instances of it that run.
    pub instances: u16,
    /// Price of their core without a scale, 0 to [`KAPPA_MAX`].
    pub kappa: f32,
    /// Time that a packet takes there, in nanoseconds; 0: not known.
    pub service_ns: u32,
    /// Whether it keeps the flows that it has and gets no others.
    pub leaving: bool,
}

/// What a node says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'b> {
    /// The node.
    pub node: &'b str,
    /// When its process began.
    pub incarnation: u64,
    /// Number of the beat since then.
    pub sequence: u32,
    /// The record as it came, to be passed on.
    pub bytes: &'b [u8],
    count: u8,
    offers: &'b [u8],
}

impl<'b> Record<'b> {
    /// Returns what it says of its NFs.
    pub fn offers(&self) -> impl Iterator<Item = Offer<'b>> + use<'b> {
        let mut rest = Cursor(self.offers);
        (0..self.count).map_while(move |_| rest.offer().ok())
    }
}

/// Records in a datagram: a view that was checked.
#[derive(Clone, Copy, Debug)]
pub struct Datagram<'b> {
    count: u8,
    records: &'b [u8],
}

impl<'b> Datagram<'b> {
    /// Returns the view of bytes that are a whole datagram.
    ///
    /// # Errors
    /// [`BeatError`].
    pub fn new(bytes: &'b [u8]) -> Result<Self, BeatError> {
        if bytes.len() > BYTES_MAX {
            return Err(BeatError::Oversized);
        }
        let (magic, rest) = bytes.split_at_checked(MAGIC.len()).ok_or(BeatError::Truncated)?;
        if magic != MAGIC {
            return Err(BeatError::Magic);
        }
        let (&count, records) = rest.split_first().ok_or(BeatError::Truncated)?;
        let mut cursor = Cursor(records);
        for _ in 0..count {
            cursor.record()?;
        }
        if cursor.0.is_empty() { Ok(Self { count, records }) } else { Err(BeatError::Trailing) }
    }

    /// Returns its records.
    pub fn records(&self) -> impl Iterator<Item = Record<'b>> + use<'b> {
        let mut rest = Cursor(self.records);
        (0..self.count).map_while(move |_| rest.record().ok())
    }
}

/// Bytes that are not read yet.
struct Cursor<'b>(&'b [u8]);

impl<'b> Cursor<'b> {
    fn take(&mut self, count: usize) -> Result<&'b [u8], BeatError> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(BeatError::Truncated)?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const LENGTH: usize>(&mut self) -> Result<[u8; LENGTH], BeatError> {
        self.take(LENGTH)?.try_into().map_err(|_| BeatError::Truncated)
    }

    fn name(&mut self) -> Result<&'b str, BeatError> {
        let [length] = self.array()?;
        let bytes = self.take(length.into())?;
        let is_good = |byte: &u8| byte.is_ascii_alphanumeric() || b"_.-".contains(byte);
        let is_name = (1..=NAME_BYTES_MAX).contains(&bytes.len()) && bytes.iter().all(is_good);
        core::str::from_utf8(bytes).ok().filter(|_| is_name).ok_or(BeatError::Name)
    }

    fn offer(&mut self) -> Result<Offer<'b>, BeatError> {
        let nf = self.name()?;
        // Other flags are of later versions, and mean nothing here.
        let [flags] = self.array()?;
        let instances = u16::from_be_bytes(self.array()?);
        let kappa = f32::from_bits(u32::from_be_bytes(self.array()?));
        let service_ns = u32::from_be_bytes(self.array()?);
        if !(0.0..=KAPPA_MAX).contains(&kappa) {
            return Err(BeatError::Price);
        }
        Ok(Offer { nf, instances, kappa, service_ns, leaving: flags & LEAVING != 0 })
    }

    fn record(&mut self) -> Result<Record<'b>, BeatError> {
        let before = self.0;
        let node = self.name()?;
        let incarnation = u64::from_be_bytes(self.array()?);
        let sequence = u32::from_be_bytes(self.array()?);
        let [count] = self.array()?;
        let offers = self.0;
        for _ in 0..count {
            self.offer()?;
        }
        let bytes = &before[..before.len() - self.0.len()];
        Ok(Record {
            node,
            incarnation,
            sequence,
            bytes,
            count,
            offers: &offers[..offers.len() - self.0.len()],
        })
    }
}

/// A datagram that is being written.
#[derive(Clone, Copy, Debug)]
pub struct Writer {
    bytes: [u8; BYTES_MAX],
    length: usize,
}

impl Default for Writer {
    fn default() -> Self {
        let mut bytes = [0; BYTES_MAX];
        bytes[..MAGIC.len()].copy_from_slice(&MAGIC);
        Self { bytes, length: HEADER_BYTES }
    }
}

impl Writer {
    /// Returns the datagram.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    /// Whether it has no record.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.bytes[MAGIC.len()] == 0
    }

    /// Adds a record.
    ///
    /// # Errors
    /// It does not fit, and nothing was added.
    pub fn record<'o>(
        &mut self,
        node: &str,
        (incarnation, sequence): (u64, u32),
        offers: impl IntoIterator<Item = Offer<'o>>,
    ) -> Result<(), NoRoomError> {
        let mut next = *self;
        next.name(node)?;
        next.put(&incarnation.to_be_bytes())?;
        next.put(&sequence.to_be_bytes())?;
        let count_at = next.length;
        next.put(&[0])?;
        for offer in offers {
            next.name(offer.nf)?;
            next.put(&[if offer.leaving { LEAVING } else { 0 }])?;
            next.put(&offer.instances.to_be_bytes())?;
            next.put(&offer.kappa.to_bits().to_be_bytes())?;
            next.put(&offer.service_ns.to_be_bytes())?;
            next.bytes[count_at] = counted(next.bytes[count_at])?;
        }
        next.end()?;
        *self = next;
        Ok(())
    }

    /// Adds a record as it came.
    ///
    /// # Errors
    /// It does not fit, and nothing was added.
    pub fn pass_on(&mut self, record: &[u8]) -> Result<(), NoRoomError> {
        let mut next = *self;
        next.put(record)?;
        next.end()?;
        *self = next;
        Ok(())
    }

    fn end(&mut self) -> Result<(), NoRoomError> {
        self.bytes[MAGIC.len()] = counted(self.bytes[MAGIC.len()])?;
        Ok(())
    }

    fn name(&mut self, name: &str) -> Result<(), NoRoomError> {
        if name.len() > NAME_BYTES_MAX {
            return Err(NoRoomError::LengthField { length: name.len(), max: NAME_BYTES_MAX });
        }
        self.put(&[name.len() as u8])?;
        self.put(name.as_bytes())
    }

    fn put(&mut self, bytes: &[u8]) -> Result<(), NoRoomError> {
        let end = self.length + bytes.len();
        let room = self.bytes.get_mut(self.length..end);
        room.ok_or(NoRoomError::Buffer { needed: end, given: BYTES_MAX })?.copy_from_slice(bytes);
        self.length = end;
        Ok(())
    }
}

fn counted(count: u8) -> Result<u8, NoRoomError> {
    let max = usize::from(u8::MAX);
    count.checked_add(1).ok_or(NoRoomError::LengthField { length: max + 1, max })
}
