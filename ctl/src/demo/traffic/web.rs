//! curl on the left host downloads this very program from a web server on the right.
//!
//! This program, because it is a file that is there, is megabytes long, and can be compared.

use std::fs::File;
use std::io::Read;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};

use super::tool::{End, Tool};
use super::{Stage, Transfer, address};

/// The usual port of a web server that is not the system's.
const PORT: u16 = 8080;
/// Shortest time limit of the download, however late it is.
const PATIENCE_MIN: Duration = Duration::from_secs(3);

/// Runs it within about that time.
pub fn run(stage: &Stage<'_>, time: Duration) -> Transfer {
    let mut transfer = Transfer {
        what: "curl from python3's web server (HTTP)".into(),
        way: "right to left".into(),
        ..Transfer::default()
    };
    if let Err(why) = download(stage, time.max(PATIENCE_MIN), &mut transfer) {
        transfer.interrupted = stage.is_over();
        transfer.failure = Some(why);
    }
    transfer
}

fn download(stage: &Stage<'_>, patience: Duration, transfer: &mut Transfer) -> Result<(), String> {
    let program = program()?;
    let (Some(folder), Some(name)) =
        (program.parent().and_then(|path| path.to_str()), program.file_name().and_then(|name| name.to_str()))
    else {
        return Err("this program's path is not text".into());
    };
    let mut compared = Compared::with(&program)?;
    let to = address(stage.right(), PORT);
    let (ip, port) = (to.ip().to_string(), PORT.to_string());
    let words = ["python3", "-m", "http.server", &port, "--bind", &ip, "--directory", folder];
    let mut server = Tool::start(stage.right(), &words, Stdio::null())?;
    server.until_listening(stage, stage.right(), PORT)?;
    let url = format!("http://{to}/{name}");
    let words = ["curl", "--silent", "--show-error", "--fail", "--noproxy", "*", &url];
    let began = Instant::now();
    let mut client = Tool::start(stage.left(), &words, Stdio::piped())?;
    let end = client.read(stage, patience, |bytes| compared.take(bytes))?;
    transfer.seconds = began.elapsed().as_secs_f64();
    transfer.bytes = compared.bytes;
    match end {
        // A slow machine gets as far as it gets; what came so far still counts.
        End::Killed => {
            transfer.interrupted = stage.is_over();
            transfer.cut_short = true;
            transfer.intact = Some(compared.is_same());
        }
        End::Itself(status) if status.success() => transfer.intact = Some(compared.is_complete()),
        End::Itself(status) => return Err(format!("curl: {status}: {}", client.complaint())),
    }
    Ok(())
}

/// The file of this program.
pub fn program() -> Result<PathBuf, String> {
    let program = std::env::current_exe().map_err(|error| format!("this program's file: {error}"))?;
    match program.is_file() {
        true => Ok(program),
        false => Err(format!("{} was replaced while it ran", program.display())),
    }
}

/// Comparison of the data that arrives with the file that it should be.
pub struct Compared {
    file: File,
    /// Number of bytes that arrived so far.
    pub bytes: u64,
    same: bool,
    expected: Vec<u8>,
}

impl Compared {
    /// Nothing has arrived yet.
    pub fn with(path: &std::path::Path) -> Result<Self, String> {
        let file = File::open(path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
        Ok(Self { file, bytes: 0, same: true, expected: Vec::new() })
    }

    /// More of it.
    pub fn take(&mut self, bytes: &[u8]) {
        self.expected.resize(bytes.len(), 0);
        self.bytes += bytes.len() as u64;
        self.same &= self.file.read_exact(&mut self.expected).is_ok() && self.expected == bytes;
    }

    /// Returns whether the data so far is the same.
    pub const fn is_same(&self) -> bool {
        self.same
    }

    /// Returns whether the data is complete, and the same.
    pub fn is_complete(&mut self) -> bool {
        self.same && matches!(self.file.read(&mut [0]), Ok(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_whole_file_is_complete() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, b"one two three").unwrap();
        let after = |parts: &[&[u8]]| {
            let mut compared = Compared::with(&path).unwrap();
            parts.iter().for_each(|part| compared.take(part));
            compared.is_complete()
        };
        assert!(after(&[b"one ", b"two ", b"three"]));
        assert!(!after(&[b"one ", b"two "]));
        assert!(!after(&[b"one ", b"TWO ", b"three"]));
        assert!(!after(&[b"one two three", b"four"]));
    }
}
