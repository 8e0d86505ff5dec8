//! Cache simulation of an NF's loads and stores, for machines without counters.
//!
//! The shipped NF runs over a capture under valgrind's callgrind, which simulates a first cache and a last
//! one; counted is what happens between call and return of the NF's `process`, so nothing of the harness
//! around it. It runs twice, with the machine's last cache and with its second cache as the last, which
//! together tell the four places apart. What is not simulated: the rings, the kernel, other cores, and a
//! packet that comes from a device (here it was written by the same core a moment ago).

use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::str::FromStr;

use headgate_decide::profile::{DataAccesses, Levels};
use headgate_host::perf::machine::Caches;
use headgate_wire::frame::{Frame, Network, Transport};
use headgate_wire::{MacAddress, NoRoomError, udp};
use serde::Serialize;
use serde_json::{Map, Value as Json};

use crate::error::{CommandError, Exit};

/// Function that is counted: the handler of each shipped NF, and none of the closures in it, whose names go
/// on.
const HANDLER: &str = "<headgate_nfs::*NetworkFunction>::process";
/// Packets that are made. Our choice: caches are warm after a tenth, and callgrind needs some seconds for
/// them.
const PACKETS: u32 = 20_000;
/// Flows of the packets that are made.
const FLOWS: u32 = 256;
/// Sizes that can be made: headers of UDP over IPv4, and the largest ordinary frame, without check sequences.
const SIZES: std::ops::RangeInclusive<usize> = 60..=1514;
/// Bytes of a check sequence.
const CHECK_BYTES: usize = 4;

/// Packets that the NF is fed with.
#[derive(Clone, Debug, PartialEq)]
pub enum Input {
    /// The packets of a capture.
    Capture(PathBuf),
    /// Packets of so many bytes, check sequence included.
    Made(usize),
}

impl FromStr for Input {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let Ok(bytes) = text.parse::<usize>() else { return Ok(Self::Capture(text.into())) };
        let sizes = SIZES.start() + CHECK_BYTES..=SIZES.end() + CHECK_BYTES;
        match sizes.contains(&bytes) {
            true => Ok(Self::Made(bytes)),
            false => Err(format!("frames have {} to {} bytes", sizes.start(), sizes.end())),
        }
    }
}

impl Input {
    /// Checks that the input and valgrind are there, before anything takes time.
    pub fn check(&self) -> Result<(), CommandError> {
        if let Self::Capture(path) = self
            && !path.is_file()
        {
            return Err(CommandError::usage(format!(
                "--simulate-cache {}: there is no such capture; name one, or a frame size such as 64",
                path.display()
            )));
        }
        let asked = Command::new("valgrind").arg("--version").stdin(Stdio::null()).output();
        asked.map(|_| ()).map_err(|error| no_valgrind(&error))
    }
}

fn no_valgrind(error: &io::Error) -> CommandError {
    match error.kind() {
        io::ErrorKind::NotFound => CommandError::environment(
            "--simulate-cache needs valgrind, which is not installed: apt-get install valgrind",
        ),
        _ => CommandError::environment(format!("valgrind does not start: {error}")),
    }
}

/// Result of the simulator.
#[derive(Clone, Debug, Serialize)]
pub struct Simulated {
    /// Packets it was fed with.
    pub packets: u64,
    /// Instructions of the NF for each packet.
    pub instructions: f64,
    /// Loads and stores for each packet that found their line in L1, L2, L3 and DRAM.
    pub per_packet: [f64; 4],
    /// Cost of these on this machine, in nanoseconds for each packet; absent where a level was not measured.
    pub data_ns: Option<f64>,
    /// The caches that were simulated.
    pub caches: Vec<String>,
}

/// Paths and costs for a simulation.
pub struct Bench<'a> {
    /// The program that hosts NFs.
    pub program: &'a Path,
    /// A folder for what comes and goes.
    pub folder: &'a Path,
    /// The machine's caches.
    pub caches: &'a Caches,
    /// Cost of a load from each level.
    pub levels: &'a Levels,
}

impl Bench<'_> {
    /// The capture to be read: that of the input, or one that is made.
    pub fn capture(&self, input: &Input) -> Result<PathBuf, CommandError> {
        match input {
            Input::Capture(path) => Ok(path.clone()),
            Input::Made(bytes) => {
                let path = self.folder.join("made.pcap");
                let written = made(bytes - CHECK_BYTES).map_err(io::Error::other);
                super::text::written(&path, written.and_then(|bytes| fs::write(&path, bytes)))?;
                Ok(path)
            }
        }
    }

    /// Simulates one shipped NF.
    pub fn simulate(
        &self,
        run: &str,
        args: &Map<String, Json>,
        capture: &Path,
    ) -> Result<Simulated, CommandError> {
        let last = self.run(run, args, capture, &[])?;
        let second = match second_as_last(self.caches) {
            Some(option) => self.run(run, args, capture, &[option])?,
            // Without a third cache the last is the second.
            None => Run { misses_last: last.misses_last, ..last.clone() },
        };
        if last.packets == 0 {
            return Err(CommandError::new(Exit::Failed, format!("{} has no packets", capture.display())));
        }
        let accesses =
            DataAccesses::of_misses(last.accesses, last.misses_l1, second.misses_last, last.misses_last);
        let counts = [accesses.l1, accesses.l2, accesses.l3, accesses.dram];
        let per_packet = counts.map(|count| count as f64 / last.packets as f64);
        let costs = [self.levels.l1_ns, self.levels.l2_ns, self.levels.l3_ns, self.levels.dram_ns];
        let each = per_packet.iter().zip(costs).map(|(count, cost)| match *count {
            0.0 => Some(0.0),
            count => Some(count * cost?),
        });
        Ok(Simulated {
            packets: last.packets,
            instructions: last.instructions as f64 / last.packets as f64,
            per_packet,
            data_ns: each.sum(),
            caches: last
                .caches
                .into_iter()
                .chain(second.caches.into_iter().filter(|c| c.starts_with("LL")))
                .collect(),
        })
    }

    fn run(
        &self,
        run: &str,
        args: &Map<String, Json>,
        capture: &Path,
        more: &[String],
    ) -> Result<Run, CommandError> {
        let counts = self.folder.join("callgrind.out");
        let mut valgrind = Command::new("valgrind");
        valgrind.args(["--tool=callgrind", "--cache-sim=yes"]).arg(format!("--toggle-collect={HANDLER}"));
        valgrind.arg(format!("--callgrind-out-file={}", counts.display())).args(more);
        valgrind.arg(self.program).args([
            "pcap",
            "--json",
            "--args",
            &Json::Object(args.clone()).to_string(),
        ]);
        valgrind.arg(run).arg(capture).arg(self.folder.join("out.pcapng"));
        let output = valgrind.stdin(Stdio::null()).output().map_err(|error| no_valgrind(&error))?;
        if !output.status.success() {
            return Err(refused(run, &output));
        }
        let text = fs::read_to_string(&counts)
            .map_err(|error| CommandError::new(Exit::Failed, format!("valgrind left no counts: {error}")))?;
        let told: Json = serde_json::from_slice(&output.stdout).unwrap_or_default();
        let packets = told["packets"]["in"].as_u64().unwrap_or(0);
        Run::read(&text, packets).ok_or_else(|| {
            CommandError::new(
                Exit::Failed,
                format!("callgrind counted nothing in {HANDLER}: was headgate-nfs stripped of its symbols?"),
            )
        })
    }
}

fn refused(run: &str, output: &Output) -> CommandError {
    let said = String::from_utf8_lossy(&output.stderr);
    // What valgrind itself says begins with its process id between equal signs.
    let why: Vec<&str> =
        said.lines().filter(|line| !line.starts_with("==") && !line.starts_with("--")).collect();
    let exit = if output.status.code() == Some(4) { Exit::Configuration } else { Exit::Failed };
    CommandError::new(exit, format!("{run} under valgrind: {} ({})", why.join("; "), output.status))
}

/// The second cache in the place of the last, as the option says it. The number of sets must be a power of
/// two.
fn second_as_last(caches: &Caches) -> Option<String> {
    if caches.l3_bytes == 0 || caches.l2_bytes == 0 || caches.l2_ways == 0 {
        return None;
    }
    let sets = caches.l2_bytes / caches.l2_ways / 64;
    let sets = 1 << sets.max(1).ilog2();
    Some(format!("--LL={},{},64", sets * caches.l2_ways * 64, caches.l2_ways))
}

/// Counts of one run.
#[derive(Clone, Debug, Default, PartialEq)]
struct Run {
    packets: u64,
    instructions: u64,
    accesses: u64,
    misses_l1: u64,
    misses_last: u64,
    caches: Vec<String>,
}

impl Run {
    /// Reads callgrind's file (valgrind manual, 6: lines `desc:`, `events:` and `totals:`).
    fn read(text: &str, packets: u64) -> Option<Self> {
        let line = |key: &str| text.lines().find_map(|line| line.strip_prefix(key));
        let names = line("events:")?.split_whitespace();
        let counts = line("totals:")?.split_whitespace().map(|count| count.parse::<u64>().ok());
        let all: Vec<(&str, Option<u64>)> = names.zip(counts).collect();
        // Events at the end of the line that never happened are left out.
        let of =
            |name: &str| all.iter().find(|(event, _)| *event == name).map_or(Some(0), |(_, count)| *count);
        let cache = |line: &str| {
            line.strip_prefix("desc: ").filter(|desc| desc.contains(" cache: ")).map(str::to_owned)
        };
        let run = Self {
            packets,
            instructions: of("Ir")?,
            accesses: of("Dr")? + of("Dw")?,
            misses_l1: of("D1mr")? + of("D1mw")?,
            misses_last: of("DLmr")? + of("DLmw")?,
            caches: text.lines().filter_map(cache).collect(),
        };
        (run.instructions > 0).then_some(run)
    }
}

/// A capture of packets of one size.
fn made(bytes: usize) -> Result<Vec<u8>, NoRoomError> {
    // draft-ietf-opsawg-pcap: magic, version 2.4, zone, accuracy, longest frame, Ethernet.
    let mut file = Vec::new();
    for word in [0xa1b2_c3d4_u32, (4 << 16) | 2, 0, 0, u16::MAX.into(), 1] {
        file.extend(word.to_le_bytes());
    }
    let mut buffer = [0; *SIZES.end()];
    for number in 0..PACKETS {
        let source = Ipv4Addr::from_bits(Ipv4Addr::new(10, 0, 0, 1).to_bits() + number % FLOWS);
        let destination = IpAddr::from(Ipv4Addr::new(198, 18, 0, 1));
        let frame = Frame {
            destination: MacAddress([2, 0, 0, 0, 0, 2]),
            source: MacAddress([2, 0, 0, 0, 0, 1]),
            tags: [None, None],
            network: Network::between(source.into(), destination)
                .unwrap_or_else(|| unreachable!("both of one version")),
            transport: Transport::Udp(udp::Header { source_port: 1024, destination_port: 9 }),
        };
        let payload = bytes - frame.headers_length();
        let length = frame.write(&mut buffer, payload, |payload| payload.fill(b'.'))? as u32;
        for word in [number / 1_000_000, number % 1_000_000, length, length] {
            file.extend(word.to_le_bytes());
        }
        file.extend(&buffer[..length as usize]);
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_input_is_a_size_or_a_file() {
        assert_eq!("64".parse(), Ok(Input::Made(64)));
        assert_eq!("in.pcap".parse(), Ok(Input::Capture("in.pcap".into())));
        assert_eq!("63".parse::<Input>(), Err("frames have 64 to 1518 bytes".to_owned()));
    }

    #[test]
    fn callgrinds_counts_are_read_by_name() {
        let text = "desc: I1 cache: 32768 B, 64 B, 8-way associative\ndesc: LL cache: 2097152 B\ndesc: Trigger: end\n\
            events: Ir Dr Dw I1mr D1mr D1mw ILmr DLmr DLmw\ntotals: 1500 270 150 25 20 3 25 1\n";
        let run = Run::read(text, 10).unwrap();
        assert_eq!((run.instructions, run.accesses, run.misses_l1, run.misses_last), (1500, 420, 23, 1));
        assert_eq!(run.caches.len(), 2);
        assert_eq!(Run::read("events: Ir\ntotals: 0\n", 10), None);
        assert_eq!(Run::read("nothing", 10), None);
    }

    #[test]
    fn sets_are_a_power_of_two() {
        let of = |l2_bytes, l2_ways, l3_bytes| {
            second_as_last(&Caches { l1_bytes: 49152, l2_bytes, l2_ways, l3_bytes })
        };
        assert_eq!(of(2 << 20, 16, 1 << 25), Some("--LL=2097152,16,64".to_owned()));
        assert_eq!(of(1_310_720, 10, 1 << 25), Some("--LL=1310720,10,64".to_owned()));
        assert_eq!(of(3 << 20, 16, 1 << 25), Some("--LL=2097152,16,64".to_owned()));
        assert_eq!(of(2 << 20, 16, 0), None);
    }

    #[test]
    fn packets_are_of_the_size_that_was_asked_for() {
        let file = made(60).unwrap();
        assert_eq!(file.len(), 24 + PACKETS as usize * 76);
        assert_eq!(u32::from_le_bytes(file[32..36].try_into().unwrap()), 60);
    }
}
