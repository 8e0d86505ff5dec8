//! The journal of systemd: entries with fields, by its native protocol (systemd.io, "Native Journal
//! Protocol").
//!
//! A service whose standard error goes to the journal may send it entries with fields of their own instead of
//! lines. systemd says so in `JOURNAL_STREAM`, with the device and inode of that stream, so that a program
//! whose standard error was turned elsewhere is not misled (systemd.exec(5)).

use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixDatagram;
use std::path::Path;

/// Variable that names the stream to the journal.
const STREAM: &str = "JOURNAL_STREAM";
/// Socket of the journal.
const SOCKET: &str = "/run/systemd/journal/socket";
/// Most bytes of a value. Our choice: a datagram of all fields is below the 208 KiB that sockets of Linux
/// take by default (`net.core.wmem_default`).
const VALUE_BYTES_MAX: usize = 32 << 10;

/// Way to the journal.
#[derive(Debug)]
pub struct Journal(UnixDatagram);

impl Journal {
    /// Returns the journal, where standard error goes to it.
    #[must_use]
    pub fn of_stderr() -> Option<Self> {
        let stream = std::env::var(STREAM).ok()?;
        leads_to(&stream, io::stderr()).then(|| Self::at(Path::new(SOCKET)).ok())?
    }

    /// Returns the journal at a socket.
    ///
    /// # Errors
    /// The kernel's.
    pub fn at(socket: &Path) -> io::Result<Self> {
        let ours = UnixDatagram::unbound()?;
        ours.connect(socket)?;
        // Its reader may be stopped: an entry that finds no room is written as a line.
        ours.set_nonblocking(true)?;
        Ok(Self(ours))
    }

    /// Sends an entry. Names of fields are capital letters, digits and underscores.
    ///
    /// # Errors
    /// The kernel's: it is gone, or takes no more now.
    pub fn send(&self, fields: &[(&str, &str)]) -> io::Result<()> {
        self.0.send(&entry(fields)).map(drop)
    }
}

/// Returns whether a stream is the one of this device and inode.
fn leads_to(named: &str, stream: impl AsFd) -> bool {
    let Some((device, inode)) = named.split_once(':') else { return false };
    let (Ok(device), Ok(inode)) = (device.parse::<u64>(), inode.parse::<u64>()) else { return false };
    rustix::fs::fstat(stream).is_ok_and(|found| (found.st_dev, found.st_ino) == (device, inode))
}

/// Returns an entry as the journal reads it: a value with a line break has its length before it.
fn entry(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (name, value) in fields {
        let value = &value[..value.floor_char_boundary(VALUE_BYTES_MAX)];
        bytes.extend_from_slice(name.as_bytes());
        if value.contains('\n') {
            bytes.push(b'\n');
            bytes.extend_from_slice(&(value.len() as u64).to_le_bytes());
        } else {
            bytes.push(b'=');
        }
        bytes.extend_from_slice(value.as_bytes());
        bytes.push(b'\n');
    }
    bytes
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn an_entry_arrives_with_its_fields_and_no_value_makes_another_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        assert!(Journal::at(&path).is_err(), "nobody listens");
        let listener = UnixDatagram::bind(&path).unwrap();
        let journal = Journal::at(&path).unwrap();
        journal
            .send(&[("MESSAGE", "fw: ready"), ("HEADGATE_WHO", "a\nPRIORITY=0"), ("PRIORITY", "6")])
            .unwrap();
        let mut bytes = [0; 256];
        let count = listener.recv(&mut bytes).unwrap();
        let expected = b"MESSAGE=fw: ready\nHEADGATE_WHO\n\x0c\0\0\0\0\0\0\0a\nPRIORITY=0\nPRIORITY=6\n";
        assert_eq!(bytes[..count], expected[..]);
        journal.send(&[("MESSAGE", &"\u{e9}".repeat(1 << 20))]).unwrap();
        drop(listener);
        assert!(journal.send(&[("MESSAGE", "gone")]).is_err());
    }

    #[test]
    fn a_journal_that_is_not_read_makes_nobody_wait() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let _listener = UnixDatagram::bind(&path).unwrap();
        let journal = Journal::at(&path).unwrap();
        let full = (0..1 << 20).find_map(|_| journal.send(&[("MESSAGE", "again")]).err());
        assert_eq!(full.map(|error| error.kind()), Some(io::ErrorKind::WouldBlock));
    }

    #[test]
    fn the_stream_is_known_by_device_and_inode() {
        let (stream, _other) = UnixStream::pair().unwrap();
        let found = rustix::fs::fstat(&stream).unwrap();
        assert!(leads_to(&format!("{}:{}", found.st_dev, found.st_ino), &stream));
        for wrong in [format!("{}:{}", found.st_dev, found.st_ino + 1), "8".to_owned(), "a:b".to_owned()] {
            assert!(!leads_to(&wrong, &stream), "{wrong}");
        }
    }
}
