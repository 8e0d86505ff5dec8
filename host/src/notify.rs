//! Notification of the service manager (sd_notify(3)): a datagram to the socket that systemd names in the
//! environment of a unit with `Type=notify`.

use std::env;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

const VARIABLE: &str = "NOTIFY_SOCKET";

/// Reason why the service manager could not be told.
#[derive(Debug, thiserror::Error)]
pub enum NotifyError {
    /// The variable holds something that is no socket's address.
    #[error(
        "{VARIABLE} is {value:?}, which is no address of a socket: start as a unit of systemd, or unset it"
    )]
    BadAddress {
        /// Its value.
        value: OsString,
    },
    /// The message cannot be delivered.
    #[error("cannot notify the service manager at {value:?}: {source}; unset {VARIABLE} to run without")]
    Send {
        /// The address.
        value: OsString,
        /// Cause.
        source: io::Error,
    },
}

/// The way to the service manager. Where there is none, telling it is no error.
#[derive(Debug)]
pub struct Notifier {
    manager: Option<Manager>,
}

#[derive(Debug)]
struct Manager {
    socket: UnixDatagram,
    address: SocketAddr,
    value: OsString,
}

impl Notifier {
    /// Reads the environment.
    pub fn from_environment() -> Result<Self, NotifyError> {
        match env::var_os(VARIABLE).filter(|value| !value.is_empty()) {
            Some(value) => Self::to(&value),
            None => Ok(Self { manager: None }),
        }
    }

    /// Connects to a path, or to the abstract name behind an `@`.
    fn to(value: &OsStr) -> Result<Self, NotifyError> {
        let address = match value.as_bytes() {
            [b'@', name @ ..] => SocketAddr::from_abstract_name(name),
            [b'/', ..] => SocketAddr::from_pathname(value),
            _ => Err(io::ErrorKind::InvalidInput.into()),
        };
        let address = address.map_err(|_| NotifyError::BadAddress { value: value.into() })?;
        let socket =
            UnixDatagram::unbound().map_err(|source| NotifyError::Send { value: value.into(), source })?;
        Ok(Self { manager: Some(Manager { socket, address, value: value.into() }) })
    }

    /// Returns whether there is a service manager to notify.
    pub fn is_listened_to(&self) -> bool {
        self.manager.is_some()
    }

    /// Traffic can come.
    pub fn ready(&self) -> Result<(), NotifyError> {
        self.send("READY=1")
    }

    /// Another process is the service's main one from now on.
    pub fn main_process(&self, pid: u32) -> Result<(), NotifyError> {
        self.send(&format!("MAINPID={pid}"))
    }

    /// An orderly end has begun.
    pub fn stopping(&self) -> Result<(), NotifyError> {
        self.send("STOPPING=1")
    }

    /// Sends one line for people
    pub fn status(&self, line: &str) -> Result<(), NotifyError> {
        // A line's end would begin another assignment.
        self.send(&format!("STATUS={}", line.replace('\n', " ")))
    }

    fn send(&self, message: &str) -> Result<(), NotifyError> {
        let Some(Manager { socket, address, value }) = &self.manager else { return Ok(()) };
        match socket.send_to_addr(message.as_bytes(), address) {
            Ok(_) => Ok(()),
            Err(source) => Err(NotifyError::Send { value: value.clone(), source }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hear(manager: &UnixDatagram) -> String {
        let mut buffer = [0; 128];
        let length = manager.recv(&mut buffer).unwrap();
        String::from_utf8(buffer[..length].into()).unwrap()
    }

    fn converse(manager: &UnixDatagram, value: &OsStr) {
        let notifier = Notifier::to(value).unwrap();
        notifier.ready().unwrap();
        notifier.status("two\nlines").unwrap();
        notifier.stopping().unwrap();
        assert_eq!(hear(manager), "READY=1");
        assert_eq!(hear(manager), "STATUS=two lines");
        assert_eq!(hear(manager), "STOPPING=1");
    }

    #[test]
    fn a_manager_behind_a_path_hears() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("notify");
        converse(&UnixDatagram::bind(&path).unwrap(), path.as_os_str());
    }

    #[test]
    fn a_manager_behind_an_abstract_name_hears() {
        let name = format!("headgate-test-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let manager = UnixDatagram::bind_addr(&address).unwrap();
        converse(&manager, OsStr::new(&format!("@{name}")));
    }

    #[test]
    fn without_a_manager_nothing_is_said_and_nothing_fails() {
        let notifier = Notifier { manager: None };
        assert!(!notifier.is_listened_to());
        notifier.ready().unwrap();
    }

    #[test]
    fn an_address_that_is_none_and_a_manager_that_is_gone_are_told_apart() {
        let bad = Notifier::to(OsStr::new("relative")).unwrap_err();
        assert!(matches!(bad, NotifyError::BadAddress { .. }), "{bad}");
        let gone = Notifier::to(OsStr::new("/nonexistent/notify")).unwrap().ready().unwrap_err();
        assert!(matches!(gone, NotifyError::Send { .. }), "{gone}");
    }
}
