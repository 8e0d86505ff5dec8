//! `headgate capture`: packets at the stations of a chain, as a pcapng file.

use std::fs::File;
use std::io::{self, ErrorKind, IsTerminal as _, Write as _};
use std::path::PathBuf;
use std::time::Duration;

use headgate_api::Request;
use headgate_api::watch::{CaptureRequest, SNAP_BYTES_DEFAULT, Said};

use super::{Name, watch};
use crate::error::{CommandError, Exit};
use crate::output::Output;

const EXAMPLES: &str = "\
Examples:
  headgate capture web -w web.pcapng -c 1000
  headgate capture web:firewall -w - tcp port 80 | tshark -r -
  headgate capture any -w all.pcapng --seconds 10 host 10.0.0.1";

/// All chains, as tcpdump has a word for all interfaces.
const ANY: &str = "any";

/// Capture packets at the stations of a chain, for Wireshark
///
/// The file is pcapng, with an interface for each station: CHAIN/admit, CHAIN/INSTANCE/deliver,
/// CHAIN/INSTANCE/hop, CHAIN/PORT/emit, CHAIN/drop. A packet that ends has the reason as its comment.
/// Looking at packets may take a small part of a worker's time only: what there is no time for is counted.
/// Needs the right to ask the manager, because payloads are captured. Ctrl-C ends it in order.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Chain, or one stage of it; `any` is all chains and what arrives, `-` what comes to none
    #[arg(value_name = "CHAIN[:STAGE]")]
    chain: String,
    /// Filter expression of pcap-filter(7), for frames as they are at each station
    #[arg(value_name = "FILTER")]
    filter: Vec<String>,
    /// File to write, `-` for standard output
    #[arg(short, long, value_name = "FILE")]
    write: PathBuf,
    /// End after this many packets
    #[arg(short, long, value_name = "PACKETS", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// End after this time
    #[arg(long, value_name = "SECONDS", value_parser = watch::seconds)]
    seconds: Option<Duration>,
    /// Maximum number of bytes to keep of each packet
    #[arg(
        short, long, value_name = "BYTES", default_value_t = SNAP_BYTES_DEFAULT,
        value_parser = clap::value_parser!(u32).range(1..),
    )]
    snaplen: u32,
    #[command(flatten)]
    name: Name,
}

/// Runs it.
pub fn run(args: &Args, out: &Output) -> Result<Exit, CommandError> {
    if args.write.as_os_str() == "-" && (out.json || io::stdout().is_terminal()) {
        return Err(CommandError::usage("packets are no text: write to a file or a pipe"));
    }
    let (chain, stage) = args.chain.split_once(':').unwrap_or((&args.chain, ""));
    let named = |name: &str, nothing: &str| (name != nothing).then(|| name.to_owned());
    let (chain, stage) = (named(chain, ANY), named(stage, ""));
    let request = Request::Capture(CaptureRequest {
        chain,
        stage,
        filter: watch::filter(&args.filter)?,
        snap_bytes: args.snaplen,
        packets: args.count,
        milliseconds: watch::milliseconds(args.seconds),
    });
    // The stream first: a request that is refused leaves an older file as it is.
    let mut watched = watch::begin(&args.name.name, &request)?;
    let mut target = Target::open(args)?;
    loop {
        let (said, bytes) = watched.wait()?.ok_or_else(watch::gone)?;
        match said {
            Said::Bytes { .. } => target.write(&bytes)?,
            Said::End(end) => {
                out.document(&end)?;
                watch::tell_end(&end, "packets captured", out);
                return Ok(Exit::Ok);
            }
            _ => {}
        }
    }
}

/// Where a capture goes.
struct Target {
    path: PathBuf,
    file: Option<File>,
    /// Bytes of whole blocks in it.
    whole: u64,
}

impl Target {
    fn open(args: &Args) -> Result<Self, CommandError> {
        let path = args.write.clone();
        if path.as_os_str() == "-" {
            return Ok(Self { path, file: None, whole: 0 });
        }
        let file = File::create(&path).map_err(|error| {
            CommandError::environment(format!("cannot write {}: {error}", path.display()))
        })?;
        Ok(Self { path, file: Some(file), whole: 0 })
    }

    /// Writes whole blocks. Where that fails, what is in the file is a file still.
    fn write(&mut self, blocks: &[u8]) -> Result<(), CommandError> {
        let Some(file) = &mut self.file else {
            let mut stdout = io::stdout().lock();
            return Ok(stdout.write_all(blocks).and_then(|()| stdout.flush())?);
        };
        let mut done = 0;
        let error = loop {
            match file.write(&blocks[done..]) {
                Ok(0) => break ErrorKind::WriteZero.into(),
                Ok(count) => done += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => break error,
            }
            if done == blocks.len() {
                self.whole += done as u64;
                return Ok(());
            }
        };
        self.whole += whole(&blocks[..done]) as u64;
        let cut = match file.set_len(self.whole) {
            Ok(()) => format!("the capture ends there: its first {} bytes are whole", self.whole),
            Err(_) => "its last block is not whole".to_owned(),
        };
        let mend = match error.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => "; make room, or write elsewhere",
            _ => "",
        };
        let message = format!("cannot write {}: {error}; {cut}{mend}", self.path.display());
        Err(CommandError::environment(message))
    }
}

/// Returns the bytes of the blocks that are whole (draft-ietf-opsawg-pcapng §3.1: the length is the second
/// word).
fn whole(bytes: &[u8]) -> usize {
    let mut at = 0;
    while let Some(length) = bytes.get(at + 4..).and_then(<[u8]>::first_chunk) {
        let next = at + u32::from_le_bytes(*length) as usize;
        if next == at || next > bytes.len() {
            break;
        }
        at = next;
    }
    at
}

#[cfg(test)]
mod tests {
    use super::whole;

    #[test]
    fn only_whole_blocks_are_counted() {
        let block = |length: u32| {
            let mut block = vec![0; length as usize];
            block[4..8].copy_from_slice(&length.to_le_bytes());
            block
        };
        let all = [block(12), block(32), block(16)].concat();
        for (have, expected) in [(0, 0), (11, 0), (12, 12), (18, 12), (43, 12), (44, 44), (59, 44), (60, 60)]
        {
            assert_eq!(whole(&all[..have]), expected, "{have}");
        }
        assert_eq!(whole(&[0; 40]), 0, "no block has no length");
    }
}
