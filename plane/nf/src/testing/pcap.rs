//! Captures in and out: an NF over a recorded file.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use headgate_shm::Verdict;
use headgate_shm::descriptor::LENGTH_MAX;
use headgate_shm::region::FRAME_BYTES_MIN;
use pcap_file::pcap::{PcapHeader, PcapPacket, PcapReader, PcapWriter};
use pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketBlock;
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption,
};
use pcap_file::pcapng::{Block, PcapNgReader, PcapNgWriter};
use pcap_file::{DataLink, Endianness, PcapError, TsResolution};

use super::{Arrival, Harness};

/// A pcapng file begins with the type of a section header block (draft-ietf-opsawg-pcapng §4.1).
const PCAPNG_MAGIC: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];
/// Digits of a second's fraction where an interface does not say (if_tsresol, ibid. §4.2).
const TIME_DIGITS_DEFAULT: u8 = 6;

/// Why a capture could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// The file system refused.
    #[error("{}: {cause}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        cause: std::io::Error,
    },
    /// The file is no capture, or a broken one.
    #[error("{}: packet {packet}: not a sound capture: {cause}", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// How many packets were sound before.
        packet: usize,
        /// What is wrong.
        cause: PcapError,
    },
    /// The capture is not of Ethernet.
    #[error("{}: frames of link type {link:?}, not Ethernet", path.display())]
    NotEthernet {
        /// The file.
        path: PathBuf,
        /// What they are.
        link: DataLink,
    },
}

/// The packets of a capture.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Capture {
    /// When the first packet came, since 1970.
    pub started: Duration,
    /// The packets that fit a buffer; times count from the first, and the port is the interface's number.
    pub arrivals: Vec<Arrival>,
    /// Packets left out because they are shorter than 14 or longer than 16383 bytes.
    pub unfit: usize,
}

impl Capture {
    /// Reads a pcap or pcapng file; which of them is seen from its first bytes.
    ///
    /// # Errors
    /// [`CaptureError`].
    pub fn read(path: &Path) -> Result<Self, CaptureError> {
        let file = |cause| CaptureError::File { path: path.to_owned(), cause };
        let mut bytes = Vec::new();
        File::open(path).and_then(|mut file| file.read_to_end(&mut bytes)).map_err(file)?;
        let mut capture = Self::default();
        let read = if bytes.starts_with(&PCAPNG_MAGIC) {
            capture.read_pcapng(&bytes)
        } else {
            capture.read_pcap(&bytes)
        };
        read.map_err(|broken| broken.at(path, &capture))?;
        Ok(capture)
    }

    fn read_pcap(&mut self, bytes: &[u8]) -> Result<(), Broken> {
        let mut reader = PcapReader::new(bytes)?;
        ethernet(reader.header().datalink)?;
        while let Some(packet) = reader.next_packet() {
            let packet = packet?;
            self.take(packet.timestamp, 0, packet.data.into_owned());
        }
        Ok(())
    }

    fn read_pcapng(&mut self, bytes: &[u8]) -> Result<(), Broken> {
        let mut reader = PcapNgReader::new(bytes)?;
        let mut units = Vec::new();
        while let Some(block) = reader.next_block() {
            match block? {
                Block::SectionHeader(_) => units.clear(),
                Block::InterfaceDescription(interface) => {
                    ethernet(interface.linktype)?;
                    units.push(time_digits(&interface));
                }
                Block::EnhancedPacket(packet) => {
                    let number = packet.interface_id;
                    let digits = *units.get(number as usize).ok_or(PcapError::InvalidInterfaceId(number))?;
                    // The reader takes every time for nanoseconds, whatever the interface says.
                    let time = in_units(packet.timestamp.as_nanos() as u64, digits);
                    self.take(time, number as u16, packet.data.into_owned());
                }
                Block::SimplePacket(packet) => {
                    let last = self.arrivals.last().map_or(Duration::ZERO, |last| last.at);
                    self.take(self.started + last, 0, packet.data.into_owned());
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn take(&mut self, time: Duration, ingress: u16, frame: Vec<u8>) {
        if !(FRAME_BYTES_MIN as usize..=LENGTH_MAX as usize).contains(&frame.len()) {
            self.unfit += 1;
            return;
        }
        if self.arrivals.is_empty() {
            self.started = time;
        }
        self.arrivals.push(Arrival { at: time.saturating_sub(self.started), ingress, frame });
    }
}

enum Broken {
    Format(PcapError),
    Link(DataLink),
}

impl From<PcapError> for Broken {
    fn from(cause: PcapError) -> Self {
        Self::Format(cause)
    }
}

impl Broken {
    fn at(self, path: &Path, capture: &Capture) -> CaptureError {
        let path = path.to_owned();
        let packet = capture.arrivals.len() + capture.unfit;
        match self {
            Self::Format(cause) => CaptureError::Format { path, packet, cause },
            Self::Link(link) => CaptureError::NotEthernet { path, link },
        }
    }
}

fn ethernet(link: DataLink) -> Result<(), Broken> {
    if link == DataLink::ETHERNET { Ok(()) } else { Err(Broken::Link(link)) }
}

fn time_digits(interface: &InterfaceDescriptionBlock<'_>) -> u8 {
    let said = interface.options.iter().find_map(|option| match option {
        InterfaceDescriptionOption::IfTsResol(digits) => Some(*digits),
        _ => None,
    });
    said.unwrap_or(TIME_DIGITS_DEFAULT)
}

/// A time in units of 10^-digits s, or of 2^-digits s where the high bit of `digits` is set.
fn in_units(time: u64, digits: u8) -> Duration {
    const NS: u128 = 1_000_000_000;
    let unit = match digits {
        0x80.. => 1u128.checked_shl(u32::from(digits & 0x7f)),
        _ => 10u128.checked_pow(u32::from(digits)),
    };
    let ns = unit.and_then(|unit| (u128::from(time) * NS).checked_div(unit)).unwrap_or(0);
    Duration::new((ns / NS) as u64, (ns % NS) as u32)
}

/// What became of the packets of a capture.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Packets the NF was given.
    pub packets: usize,
    /// Those it sent on to the next stage.
    pub next: usize,
    /// Those it dropped.
    pub dropped: usize,
    /// Those it sent out of a port, by the port's name.
    pub ports: BTreeMap<String, usize>,
    /// Those it sent to a stage, by the stage's number.
    pub stages: BTreeMap<u16, usize>,
    /// Packets of the capture that fit no buffer and were left out.
    pub unfit: usize,
}

/// Runs the NF over a capture and writes what it did not drop, if anywhere, with the times of the input. Into
/// a file named `*.pcapng`, each way out is an interface: `next`, the ports by name, `stage 3`. Into any
/// other, pcap, the ways are not told apart.
///
/// # Errors
/// [`CaptureError`].
pub fn run(harness: &mut Harness, input: &Path, output: Option<&Path>) -> Result<Tally, CaptureError> {
    let capture = Capture::read(input)?;
    let outcomes = harness.run_arrivals(&capture.arrivals);
    let mut writer = output.map(Output::create).transpose()?;
    let mut tally = Tally { packets: outcomes.len(), unfit: capture.unfit, ..Tally::default() };
    for (arrival, (verdict, frame)) in capture.arrivals.iter().zip(&outcomes) {
        let way = tally.count(harness, *verdict);
        if let (Some(way), Some(writer)) = (way, &mut writer) {
            writer.write(capture.started + arrival.at, way, frame)?;
        }
    }
    writer.map_or(Ok(()), Output::finish)?;
    Ok(tally)
}

impl Tally {
    /// Counts a verdict; returns the name of the way out.
    fn count(&mut self, harness: &Harness, verdict: Verdict) -> Option<String> {
        match verdict {
            Verdict::Drop => {
                self.dropped += 1;
                None
            }
            Verdict::Next => {
                self.next += 1;
                Some("next".to_owned())
            }
            Verdict::Port(number) => {
                let name = harness.environment.ports.name(number);
                let name = name.unwrap_or_else(|| format!("port {number}"));
                *self.ports.entry(name.clone()).or_default() += 1;
                Some(name)
            }
            Verdict::Stage(number) => {
                *self.stages.entry(number).or_default() += 1;
                Some(format!("stage {number}"))
            }
        }
    }
}

struct Output {
    path: PathBuf,
    format: Format,
}

enum Format {
    Pcap(PcapWriter<BufWriter<File>>),
    Pcapng { writer: PcapNgWriter<BufWriter<File>>, ways: Vec<String> },
}

impl Output {
    fn create(path: &Path) -> Result<Self, CaptureError> {
        let format = Format::create(path).map_err(|error| refused(path, error))?;
        Ok(Self { path: path.to_owned(), format })
    }

    fn write(&mut self, time: Duration, way: String, frame: &[u8]) -> Result<(), CaptureError> {
        self.format.write(time, way, frame).map_err(|error| refused(&self.path, error))
    }

    fn finish(self) -> Result<(), CaptureError> {
        let mut file = match self.format {
            Format::Pcap(writer) => writer.into_writer(),
            Format::Pcapng { writer, .. } => writer.into_inner(),
        };
        file.flush().map_err(|cause| CaptureError::File { path: self.path, cause })
    }
}

fn refused(path: &Path, error: PcapError) -> CaptureError {
    match error {
        PcapError::IoError(cause) => CaptureError::File { path: path.to_owned(), cause },
        cause => CaptureError::Format { path: path.to_owned(), packet: 0, cause },
    }
}

impl Format {
    fn create(path: &Path) -> Result<Self, PcapError> {
        let file = BufWriter::new(File::create(path).map_err(PcapError::IoError)?);
        if path.extension().is_some_and(|extension| extension == "pcapng") {
            return Ok(Self::Pcapng { writer: PcapNgWriter::new(file)?, ways: Vec::new() });
        }
        let header = PcapHeader {
            ts_resolution: TsResolution::NanoSecond,
            endianness: Endianness::native(),
            datalink: DataLink::ETHERNET,
            ..PcapHeader::default()
        };
        Ok(Self::Pcap(PcapWriter::with_header(file, header)?))
    }

    fn write(&mut self, time: Duration, way: String, frame: &[u8]) -> Result<(), PcapError> {
        let length = frame.len() as u32;
        match self {
            Self::Pcap(writer) => writer.write_packet(&PcapPacket::new(time, length, frame))?,
            Self::Pcapng { writer, ways } => {
                let interface_id = interface_of(writer, ways, way)?;
                writer.write_block(&Block::EnhancedPacket(EnhancedPacketBlock {
                    interface_id,
                    timestamp: time,
                    original_len: length,
                    data: frame.into(),
                    options: Vec::new(),
                }))?
            }
        };
        Ok(())
    }
}

/// The number of the interface a way out has; made on first use.
fn interface_of(
    writer: &mut PcapNgWriter<BufWriter<File>>,
    ways: &mut Vec<String>,
    way: String,
) -> Result<u32, PcapError> {
    if let Some(place) = ways.iter().position(|known| *known == way) {
        return Ok(place as u32);
    }
    writer.write_block(&Block::InterfaceDescription(interface(way.clone())))?;
    ways.push(way);
    Ok(ways.len() as u32 - 1)
}

fn interface(name: String) -> InterfaceDescriptionBlock<'static> {
    InterfaceDescriptionBlock {
        linktype: DataLink::ETHERNET,
        snaplen: 0,
        options: vec![
            InterfaceDescriptionOption::IfName(name.into()),
            InterfaceDescriptionOption::IfTsResol(9),
        ],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Setup;
    use crate::{Burst, Context, NetworkFunction, Port};

    /// By the first byte: drop, next, out of that port.
    struct Sorter;

    impl NetworkFunction for Sorter {
        fn process(&mut self, burst: &mut Burst, _: &mut Context) {
            for mut packet in burst.packets() {
                match packet.data()[0] {
                    0 => packet.discard(),
                    1 => {}
                    port => packet.send_to(Port(u16::from(port) - 2)),
                }
            }
        }
    }

    fn capture(path: &Path, frames: &[Vec<u8>]) {
        let mut output = Output::create(path).unwrap();
        for (frame, number) in frames.iter().zip(0u32..) {
            output.write(Duration::new(1_700_000_000, number * 1_000_001), "in".into(), frame).unwrap();
        }
        output.finish().unwrap();
    }

    #[test]
    fn a_capture_goes_through_an_nf_in_both_formats() {
        let folder = tempfile::tempdir().unwrap();
        let frames: Vec<_> = [0u8, 1, 2, 3, 1].map(|byte| vec![byte; 60]).into();
        for (input, output) in [("a.pcap", "a.out.pcapng"), ("b.pcapng", "b.out.pcap")] {
            let (input, output) = (folder.path().join(input), folder.path().join(output));
            capture(&input, &frames);
            let mut harness = Harness::new(Setup::default(), |_| Ok(Sorter)).unwrap();
            let tally = run(&mut harness, &input, Some(&output)).unwrap();
            assert_eq!((tally.packets, tally.next, tally.dropped), (5, 2, 1));
            assert_eq!(tally.ports, [("east".to_owned(), 1), ("west".to_owned(), 1)].into());
            let written = Capture::read(&output).unwrap();
            let sent: Vec<_> = written.arrivals.iter().map(|arrival| arrival.frame.clone()).collect();
            assert_eq!(sent, frames[1..]);
            assert_eq!(written.started, Duration::new(1_700_000_000, 1_000_001));
        }
    }

    #[test]
    fn what_is_no_capture_is_an_error_with_its_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.pcap");
        assert!(matches!(Capture::read(&path), Err(CaptureError::File { .. })));
        std::fs::write(&path, b"hello, world: this is no capture at all").unwrap();
        let error = Capture::read(&path).unwrap_err().to_string();
        assert!(error.contains("x.pcap: packet 0: not a sound capture"), "{error}");
    }

    #[test]
    fn a_frame_that_fits_no_buffer_is_counted_and_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.pcapng");
        capture(&path, &[vec![0; 13], vec![0; 14], vec![0; 16_384]]);
        let capture = Capture::read(&path).unwrap();
        assert_eq!((capture.arrivals.len(), capture.unfit), (1, 2));
    }

    #[test]
    fn times_are_read_in_the_interface_s_units() {
        assert_eq!(in_units(1_500_000, 6), Duration::from_millis(1500));
        assert_eq!(in_units(1_500_000_000, 9), Duration::from_millis(1500));
        assert_eq!(in_units(3, 0x81), Duration::from_millis(1500));
        assert_eq!(in_units(1, 200), Duration::ZERO);
    }
}
