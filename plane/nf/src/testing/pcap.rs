//! Captures in and out: an NF over a recorded file.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::Duration;

use headgate_shm::Verdict;
use headgate_shm::geometry::{FRAME_BYTES_MAX, FRAME_BYTES_MIN};
use headgate_wire::pcap::{ReadError, Record, Records, classic};
use headgate_wire::pcapng;

use super::{Arrival, Harness, MadeFrame, Setup};
use crate::maker::Way;
use crate::{Context, NetworkFunction, NfError};

/// Error in reading or writing a capture.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// The file system refused.
    #[error("{}: {cause}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The system's error.
        cause: std::io::Error,
    },
    /// The file is no capture of Ethernet frames, or a broken one.
    #[error("{}: not a sound capture: {error}; {}", path.display(), error.mend())]
    Read {
        /// The file.
        path: PathBuf,
        /// The problem, and its place.
        error: ReadError,
    },
}

/// The packets of a capture.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Capture {
    /// Time of the first packet, since 1970.
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
        let bytes = std::fs::read(path);
        let bytes = bytes.map_err(|cause| CaptureError::File { path: path.to_owned(), cause })?;
        let mut capture = Self::default();
        let broken = |error| CaptureError::Read { path: path.to_owned(), error };
        for record in Records::new(&bytes).map_err(broken)? {
            capture.take(&bytes, &record.map_err(broken)?);
        }
        Ok(capture)
    }

    /// Returns one of frames that come by the first port, a microsecond apart.
    #[must_use]
    pub fn of(frames: &[Vec<u8>]) -> Self {
        let arrival = |(micros, frame): (u64, &Vec<u8>)| Arrival {
            at: Duration::from_micros(micros),
            ingress: 0,
            frame: frame.clone(),
        };
        Self { arrivals: (0..).zip(frames).map(arrival).collect(), ..Self::default() }
    }

    /// Writes it to a pcapng file if the name ends so, and to a pcap file otherwise, which says of no packet
    /// by which port it came.
    ///
    /// # Errors
    /// [`CaptureError`].
    pub fn write(&self, path: &Path) -> Result<(), CaptureError> {
        let mut output = Output::create(path)?;
        for arrival in &self.arrivals {
            output.write(self.started + arrival.at, arrival.ingress.to_string(), &arrival.frame)?;
        }
        output.finish()
    }

    fn take(&mut self, bytes: &[u8], record: &Record) {
        let frame = &bytes[record.bytes.clone()];
        if !(FRAME_BYTES_MIN as usize..=FRAME_BYTES_MAX as usize).contains(&frame.len()) {
            self.unfit += 1;
            return;
        }
        // A packet without a time came with the one before it.
        let last = self.arrivals.last().map_or(Duration::ZERO, |last| last.at);
        let time = record.time_ns.map_or(self.started + last, Duration::from_nanos);
        if self.arrivals.is_empty() {
            self.started = time;
        }
        let at = time.saturating_sub(self.started);
        self.arrivals.push(Arrival { at, ingress: record.interface as u16, frame: frame.to_vec() });
    }
}

/// Outcomes of the packets of a capture.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Packets the NF was given.
    pub packets: usize,
    /// Packets sent on to the next stage.
    pub next: usize,
    /// Packets dropped.
    pub dropped: usize,
    /// Packets sent out of a port, by the port's name.
    pub ports: BTreeMap<String, usize>,
    /// Packets sent to a stage, by the stage's number.
    pub stages: BTreeMap<u16, usize>,
    /// Packets that the NF made and that went on; they are in none of the counts above.
    pub made: usize,
    /// Packets of the capture that fit no buffer and were left out.
    pub unfit: usize,
}

impl Setup {
    /// Surroundings as a command line names them: arguments, and names of ports joined by commas.
    #[must_use]
    pub fn of_words(arguments: Option<String>, ports: Option<&str>) -> Self {
        let setup = arguments.map_or_else(Self::default, Self::with);
        let ports = ports.map(|ports| ports.split(',').map(str::to_owned).collect());
        Self { ports: ports.unwrap_or(setup.ports), ..setup }
    }
}

/// Error of a whole run over a capture.
#[derive(Debug, thiserror::Error)]
pub enum RunOnceError {
    /// The NF would not start: mostly for its arguments.
    #[error("{0}")]
    Start(NfError),
    /// The capture could not be read, or the output not written.
    #[error(transparent)]
    Capture(#[from] CaptureError),
    /// The NF panicked. Its message went to standard error.
    #[error("the network function panicked")]
    Panic,
}

impl RunOnceError {
    /// The process's exit code: 1 failed, 4 configuration.
    #[must_use]
    pub const fn exit_code(&self) -> u8 {
        match self {
            Self::Start(_) => 4,
            Self::Capture(_) | Self::Panic => 1,
        }
    }
}

/// Makes an NF, runs it over a capture as [`run`] does, and stops it.
///
/// # Errors
/// [`RunOnceError`].
pub fn run_once<N: NetworkFunction + 'static>(
    setup: Setup,
    input: &Path,
    output: Option<&Path>,
    build: impl FnOnce(&mut Context) -> Result<N, NfError>,
) -> Result<Tally, RunOnceError> {
    let whole = AssertUnwindSafe(|| {
        let mut harness = Harness::new(setup, build).map_err(RunOnceError::Start)?;
        let tally = run(&mut harness, input, output);
        harness.stop();
        Ok(tally?)
    });
    catch_unwind(whole).unwrap_or(Err(RunOnceError::Panic))
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
    let made = harness.made();
    tally.made = made.iter().filter(|one| one.way.is_some()).count();
    let mut alone = made.iter().filter(|one| one.follows.is_none()).peekable();
    for (number, (arrival, (verdict, frame))) in capture.arrivals.iter().zip(&outcomes).enumerate() {
        while let Some(one) = alone.next_if(|one| one.at <= arrival.at) {
            write_made(harness, one, capture.started + one.at, &mut writer)?;
        }
        let (way, time) = (tally.count(harness, *verdict), capture.started + arrival.at);
        if let (Some(way), Some(writer)) = (way, &mut writer) {
            writer.write(time, way, frame)?;
        }
        for one in made.iter().filter(|one| one.follows == Some(number)) {
            write_made(harness, one, time, &mut writer)?;
        }
    }
    for one in alone {
        write_made(harness, one, capture.started + one.at, &mut writer)?;
    }
    writer.map_or(Ok(()), Output::finish)?;
    Ok(tally)
}

fn write_made(
    harness: &Harness,
    made: &MadeFrame,
    time: Duration,
    writer: &mut Option<Output>,
) -> Result<(), CaptureError> {
    let name =
        |numbered: Option<String>, what, number: u16| numbered.unwrap_or_else(|| format!("{what} {number}"));
    let way = match made.way {
        None => return Ok(()),
        Some(Way::Next) => "next".to_owned(),
        Some(Way::Port(port)) => name(harness.environment.ports.name(port.number()), "port", port.number()),
        Some(Way::Stage(stage)) => format!("stage {}", stage.number()),
        Some(Way::Chain(chain)) => format!("chain {}", chain.number()),
    };
    writer.as_mut().map_or(Ok(()), |writer| writer.write(time, way, &made.frame))
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
    file: BufWriter<File>,
    format: Format,
}

enum Format {
    Pcap,
    /// Each way out is an interface, described when the first packet leaves by it.
    Pcapng {
        ways: Vec<String>,
    },
}

impl Output {
    fn create(path: &Path) -> Result<Self, CaptureError> {
        let refused = |cause| CaptureError::File { path: path.to_owned(), cause };
        let mut file = BufWriter::new(File::create(path).map_err(refused)?);
        let (format, head) = if path.extension().is_some_and(|extension| extension == "pcapng") {
            let application = concat!("Headgate ", env!("CARGO_PKG_VERSION"));
            let mut head = vec![0; pcapng::section_bytes(application)];
            pcapng::section(&mut head, application);
            (Format::Pcapng { ways: Vec::new() }, head)
        } else {
            (Format::Pcap, classic::header(FRAME_BYTES_MAX).to_vec())
        };
        file.write_all(&head).map_err(refused)?;
        Ok(Self { path: path.to_owned(), file, format })
    }

    fn write(&mut self, time: Duration, way: String, frame: &[u8]) -> Result<(), CaptureError> {
        let time_ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let length = frame.len();
        let written = match &mut self.format {
            Format::Pcap => {
                let header = classic::record_header(time_ns, length as u32, length as u32);
                self.file.write_all(&header).and_then(|()| self.file.write_all(frame))
            }
            Format::Pcapng { ways } => {
                let mut blocks = Vec::new();
                let interface = interface_of(ways, way, &mut blocks);
                let start = blocks.len();
                blocks.resize(start + pcapng::packet_bytes(length), 0);
                let about = pcapng::Packet { interface, time_ns, length, kept: length };
                pcapng::packet(&mut blocks[start..], about, |bytes| bytes.copy_from_slice(frame));
                self.file.write_all(&blocks)
            }
        };
        written.map_err(|cause| CaptureError::File { path: self.path.clone(), cause })
    }

    fn finish(mut self) -> Result<(), CaptureError> {
        self.file.flush().map_err(|cause| CaptureError::File { path: self.path, cause })
    }
}

/// Returns the number of the interface a way out has; describes it before its first packet.
fn interface_of(ways: &mut Vec<String>, way: String, blocks: &mut Vec<u8>) -> u32 {
    if let Some(place) = ways.iter().position(|known| *known == way) {
        return place as u32;
    }
    blocks.resize(pcapng::interface_bytes(&way), 0);
    pcapng::interface(blocks, &way, 0);
    ways.push(way);
    ways.len() as u32 - 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Burst, Port};

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
    fn a_capture_is_read_as_it_was_written() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["a.pcap", "a.pcapng"] {
            let (path, capture) = (folder.path().join(name), Capture::of(&[vec![1; 60], vec![2; 600]]));
            capture.write(&path).unwrap();
            assert_eq!(Capture::read(&path).unwrap(), capture);
        }
    }

    #[test]
    fn what_is_no_capture_is_an_error_with_its_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.pcap");
        assert!(matches!(Capture::read(&path), Err(CaptureError::File { .. })));
        std::fs::write(&path, b"hello, world: this is no capture at all").unwrap();
        let error = Capture::read(&path).unwrap_err().to_string();
        assert!(error.contains("x.pcap: not a sound capture: it is neither pcap nor pcapng"), "{error}");
    }

    #[test]
    fn a_frame_that_fits_no_buffer_is_counted_and_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.pcapng");
        capture(&path, &[vec![0; 13], vec![0; 14], vec![0; 16_384]]);
        let capture = Capture::read(&path).unwrap();
        assert_eq!((capture.arrivals.len(), capture.unfit), (1, 2));
    }
}
