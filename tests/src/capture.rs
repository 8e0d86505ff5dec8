//! pcap and pcapng files, read and written.

use std::fs::File;
use std::path::Path;
use std::time::Duration;

use pcap_file::DataLink;
use pcap_file::pcap::{PcapHeader, PcapPacket, PcapReader, PcapWriter};
use pcap_file::pcapng::{Block, PcapNgReader};

/// Writes frames to a pcap file, a millisecond apart.
///
/// # Panics
/// Panics if the file cannot be written.
pub fn write<F: AsRef<[u8]>>(path: &Path, frames: &[F]) {
    let header = PcapHeader { datalink: DataLink::ETHERNET, ..PcapHeader::default() };
    let file = File::create(path).expect("a file can be made");
    let mut writer = PcapWriter::with_header(file, header).expect("a header can be written");
    for (number, frame) in frames.iter().enumerate() {
        let frame = frame.as_ref();
        let packet = PcapPacket::new(Duration::from_millis(number as u64), frame.len() as u32, frame);
        writer.write_packet(&packet).expect("a frame can be written");
    }
}

/// The frames of a pcapng file, in order.
///
/// # Panics
/// Panics if it cannot be read.
#[must_use]
pub fn read_pcapng(path: &Path) -> Vec<Vec<u8>> {
    let file = File::open(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut reader = PcapNgReader::new(file).expect("a pcapng file");
    let mut frames = Vec::new();
    while let Some(block) = reader.next_block() {
        match block.expect("a sound block") {
            Block::EnhancedPacket(packet) => frames.push(packet.data.into_owned()),
            Block::SimplePacket(packet) => frames.push(packet.data.into_owned()),
            _ => {}
        }
    }
    frames
}

/// The frames of a pcap file, in order.
///
/// # Panics
/// Panics if it cannot be read.
#[must_use]
pub fn read_pcap(path: &Path) -> Vec<Vec<u8>> {
    let file = File::open(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut reader = PcapReader::new(file).expect("a pcap file");
    let packets = std::iter::from_fn(|| {
        reader.next_packet().map(|packet| packet.expect("a sound frame").data.into_owned())
    });
    packets.collect()
}
