//! Capture files: the packets of pcap and pcapng files, and the headers of pcap files that are written.
//!
//! [`Records`] walks a file that lies in memory and names places in it; nothing is copied. [`classic`] is the
//! older format; the newer one, pcapng, is written by [`crate::pcapng`]. Formats: draft-ietf-opsawg-pcap and
//! draft-ietf-opsawg-pcapng.
//!
//! Both formats come in both byte orders; times come in the resolution and with the offset that the file
//! states. Whatever the bytes are, reading them neither panics nor allocates more than one entry for each
//! interface that a section declares.

pub mod classic;
mod error;
mod order;

use core::ops::Range;

pub(crate) use error::Fault;
pub use error::ReadError;
pub(crate) use order::Order;

use crate::pcapng::read::Sections;

/// The link type of Ethernet (LINKTYPE_ETHERNET of the tcpdump group's registry).
pub const ETHERNET: u16 = 1;

const GZIP: [u8; 2] = [0x1f, 0x8b];
const ZSTANDARD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// One packet of a capture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The number of its interface in the section; 0 in a pcap file.
    pub interface: u32,
    /// Nanoseconds since 1970, from 1970 to 2554; `None` where the capture states no time.
    pub time_ns: Option<u64>,
    /// Range of its bytes in the file; without check sequence.
    pub bytes: Range<usize>,
    /// Bytes the packet had on the wire that the capture does not have.
    pub cut: u32,
}

/// Lengths of a packet on the wire, in bytes.
#[derive(Clone, Copy)]
pub(crate) struct Lengths {
    /// Length of all of it.
    pub(crate) original: u32,
    /// Length of the check sequence at its end.
    pub(crate) check_sequence: u32,
}

impl Lengths {
    /// The packet itself without its check sequence, of which the captured bytes lie at `bytes` of the file.
    pub(crate) fn record(self, interface: u32, time_ns: Option<u64>, bytes: Range<usize>) -> Record {
        let captured = bytes.len() as u32;
        let length = self.original.max(captured).saturating_sub(self.check_sequence);
        let kept = captured.min(length);
        let bytes = bytes.start..bytes.start + kept as usize;
        Record { interface, time_ns, bytes, cut: length - kept }
    }
}

/// The packets of a capture, in the order of the file. Ends after the first error.
#[derive(Clone, Debug)]
pub struct Records<'a> {
    bytes: &'a [u8],
    at: usize,
    packets: u64,
    format: Format,
    is_ended: bool,
}

#[derive(Clone, Debug)]
enum Format {
    Classic(classic::Header),
    Newer(Sections),
}

impl<'a> Records<'a> {
    /// Starts to read a whole file; the format is known by its first bytes.
    ///
    /// # Errors
    /// [`ReadError`] when it is not a capture, or one of another link type.
    pub fn new(bytes: &'a [u8]) -> Result<Self, ReadError> {
        if bytes.is_empty() {
            return Err(ReadError::Empty);
        }
        for (start, by) in [(&GZIP[..], "gzip"), (&ZSTANDARD[..], "zstd")] {
            if bytes.starts_with(start) {
                return Err(ReadError::Compressed { by });
            }
        }
        let (format, at) = if Sections::starts(bytes) {
            (Format::Newer(Sections::default()), 0)
        } else {
            let header = classic::Header::read(bytes).map_err(|fault| fault.at(0, 0))?;
            (Format::Classic(header.ok_or(ReadError::NotACapture)?), classic::HEADER_BYTES)
        };
        Ok(Self { bytes, at, packets: 0, format, is_ended: false })
    }
}

impl Iterator for Records<'_> {
    type Item = Result<Record, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_ended {
            return None;
        }
        // Each reader leaves `at` at the block or packet that it did not get past.
        let next = match &mut self.format {
            Format::Classic(header) => header.record(self.bytes, &mut self.at),
            Format::Newer(sections) => sections.record(self.bytes, &mut self.at),
        };
        let next = next.map_err(|fault| fault.at(self.at, self.packets));
        self.packets += 1;
        self.is_ended = !matches!(next, Ok(Some(_)));
        next.transpose()
    }
}

#[cfg(test)]
mod tests;
