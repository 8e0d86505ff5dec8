//! Blocks read: sections, interfaces, and packets in their three kinds of block.

use alloc::vec::Vec;
use core::ops::Range;

use super::{
    BLOCK_BYTES, BYTE_ORDER, INTERFACE, OPTION_CHECK_SEQUENCE, OPTION_TIME_OFFSET, OPTION_TIME_RESOLUTION,
    PACKET_ENHANCED, PACKET_OBSOLETE, PACKET_SIMPLE, SECTION,
};
use crate::pcap::{ETHERNET, Fault, Lengths, Order, Record};

/// A file of sections, as far as it was read.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sections {
    order: Order,
    /// Interfaces of the section that is being read.
    interfaces: Vec<Interface>,
}

/// Description of an interface: the format of its packets.
#[derive(Clone, Copy, Debug)]
struct Interface {
    link_type: u16,
    /// Bytes kept of a packet; 0 is no limit.
    snap_bytes: u32,
    /// As in the option `if_tsresol`.
    resolution: u8,
    offset_seconds: i64,
    check_sequence: u32,
}

impl Sections {
    /// Whether a file starts as one of this format does; the type of a section reads the same both ways.
    pub(crate) fn starts(file: &[u8]) -> bool {
        Order::Little.word(file, 0) == Some(SECTION)
    }

    /// Reads blocks from `at` until one holds a packet, and moves behind it; `None` at the end of the file.
    pub(crate) fn record(&mut self, file: &[u8], at: &mut usize) -> Result<Option<Record>, Fault> {
        while *at < file.len() {
            let block = self.block(file, *at)?;
            let found = self.read(file, block.clone())?;
            *at = block.end;
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    /// The block at `at`, after checking its length; takes the byte order of a new section.
    fn block(&mut self, file: &[u8], at: usize) -> Result<Range<usize>, Fault> {
        let left = &file[at..];
        if self.order.word(left, 0).ok_or(Fault::Truncated)? == SECTION {
            let magic = Order::Little.word(left, 8).ok_or(Fault::Truncated)?;
            self.order = match magic {
                BYTE_ORDER => Order::Little,
                _ if magic.swap_bytes() == BYTE_ORDER => Order::Big,
                _ => return Err(Fault::BadField("no byte-order magic")),
            };
        }
        let length = self.order.word(left, 4).ok_or(Fault::Truncated)? as usize;
        if length < BLOCK_BYTES || !length.is_multiple_of(4) {
            return Err(Fault::BadField("a block length below 12 or not a multiple of 4"));
        }
        if length > left.len() {
            return Err(Fault::Truncated);
        }
        if self.order.word(left, length - 4) != Some(length as u32) {
            return Err(Fault::BadField("two block lengths that differ"));
        }
        Ok(at..at + length)
    }

    fn read(&mut self, file: &[u8], block: Range<usize>) -> Result<Option<Record>, Fault> {
        let kind = self.order.word(file, block.start);
        let body = block.start + 8..block.end - 4;
        match kind {
            Some(SECTION) => {
                let version = self.order.half(&file[body], 4).ok_or(Fault::Truncated)?;
                if version != 1 {
                    return Err(Fault::BadField("a major version other than 1"));
                }
                self.interfaces.clear();
                Ok(None)
            }
            Some(INTERFACE) => {
                let interface = Interface::read(self.order, &file[body]);
                let missing = Fault::BadField("an interface description that is too short");
                self.interfaces.push(interface.ok_or(missing)?);
                Ok(None)
            }
            Some(PACKET_ENHANCED) => self.packet(file, body, Order::word).map(Some),
            Some(PACKET_OBSOLETE) => {
                let half = |order: Order, bytes: &[u8], at| order.half(bytes, at).map(u32::from);
                self.packet(file, body, half).map(Some)
            }
            Some(PACKET_SIMPLE) => self.simple_packet(file, body).map(Some),
            _ => Ok(None),
        }
    }

    fn interface(&self, number: u32) -> Result<Interface, Fault> {
        let interface = self.interfaces.get(number as usize).copied();
        let interface = interface.ok_or(Fault::BadField("an interface never described"))?;
        if interface.link_type != ETHERNET {
            return Err(Fault::NotEthernet(interface.link_type));
        }
        Ok(interface)
    }

    /// Enhanced packet block, or the packet block it replaced, which differs in the interface's width.
    fn packet(
        &self,
        file: &[u8],
        body: Range<usize>,
        number: impl Fn(Order, &[u8], usize) -> Option<u32>,
    ) -> Result<Record, Fault> {
        const FIELDS_BYTES: usize = 20;
        const TOO_SHORT: Fault = Fault::BadField("a packet block that is too short");
        let bytes = &file[body.clone()];
        let field = |at| self.order.word(bytes, at).ok_or(TOO_SHORT);
        let number = number(self.order, bytes, 0).ok_or(TOO_SHORT)?;
        let interface = self.interface(number)?;
        let time = u64::from(field(4)?) << 32 | u64::from(field(8)?);
        let (captured, original) = (field(12)? as usize, field(16)?);
        let lengths = Lengths { original, check_sequence: interface.check_sequence };
        let bytes = within(&body, FIELDS_BYTES, captured)?;
        Ok(lengths.record(number, Some(interface.time_ns(time)), bytes))
    }

    /// Simple packet block: the first interface, no time, no captured length.
    fn simple_packet(&self, file: &[u8], body: Range<usize>) -> Result<Record, Fault> {
        const FIELDS_BYTES: usize = 4;
        let interface = self.interface(0)?;
        let original = self.order.word(&file[body.clone()], 0);
        let original = original.ok_or(Fault::BadField("a packet block that is too short"))?;
        let kept = if interface.snap_bytes == 0 { u32::MAX } else { interface.snap_bytes };
        let lengths = Lengths { original, check_sequence: interface.check_sequence };
        let bytes = within(&body, FIELDS_BYTES, original.min(kept) as usize)?;
        Ok(lengths.record(0, None, bytes))
    }
}

/// Returns the range of so many captured bytes behind the fields of a block.
fn within(body: &Range<usize>, fields: usize, captured: usize) -> Result<Range<usize>, Fault> {
    let start = body.start + fields;
    if captured > body.end - start {
        return Err(Fault::BadField("a packet longer than its block"));
    }
    Ok(start..start + captured)
}

impl Interface {
    fn read(order: Order, body: &[u8]) -> Option<Self> {
        let mut interface = Self {
            link_type: order.half(body, 0)?,
            snap_bytes: order.word(body, 4)?,
            resolution: 6,
            offset_seconds: 0,
            check_sequence: 0,
        };
        let mut at = 8;
        // Options that break off are no reason to lose the packets.
        while let (Some(code), Some(length)) = (order.half(body, at), order.half(body, at + 2)) {
            let Some(value) = body.get(at + 4..at + 4 + usize::from(length)) else { break };
            match (code, value) {
                (0, _) => break,
                (OPTION_TIME_RESOLUTION, &[resolution]) => interface.resolution = resolution,
                (OPTION_CHECK_SEQUENCE, &[bytes]) => interface.check_sequence = u32::from(bytes),
                (OPTION_TIME_OFFSET, value) => {
                    interface.offset_seconds = order.double(value, 0).unwrap_or(0) as i64;
                }
                _ => {}
            }
            at += 4 + usize::from(length).next_multiple_of(4);
        }
        Some(interface)
    }

    /// Units of this interface since its offset, as nanoseconds since 1970. What is before 1970 is 0.
    fn time_ns(&self, units: u64) -> u64 {
        const DECIMALS: u32 = 9;
        let units = u128::from(units);
        let exponent = u32::from(self.resolution & 0x7f);
        let ns = if self.resolution & 0x80 != 0 {
            (units * 1_000_000_000) >> exponent
        } else if exponent <= DECIMALS {
            units * 10u128.pow(DECIMALS - exponent)
        } else {
            10u128.checked_pow(exponent - DECIMALS).map_or(0, |divisor| units / divisor)
        };
        let offset = i128::from(self.offset_seconds) * 1_000_000_000;
        u64::try_from((ns as i128 + offset).max(0)).unwrap_or(u64::MAX)
    }
}
