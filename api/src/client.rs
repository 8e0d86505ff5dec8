//! Client of a manager that runs on this machine.

use std::io::{BufRead as _, BufReader, ErrorKind};
use std::os::unix::net::UnixStream;
use std::path::Path;

use serde::de::DeserializeOwned;

use crate::request::{ANSWER_PATIENCE, Answer, CLIENT_PATIENCE, Request, RequestError, shaped, write_line};

/// Reason why a manager could not be asked.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// There is no manager at the socket.
    #[error(
        "no manager named {name:?} is running (nobody listens at {socket}); start one with `headgate up FILE`"
    )]
    NotRunning {
        /// The manager's name.
        name: String,
        /// Its socket.
        socket: String,
    },
    /// The socket belongs to another user.
    #[error("not permitted to ask the manager at {socket}; ask as the user that started it, or as root")]
    NotPermitted {
        /// Its socket.
        socket: String,
    },
    /// The manager refused.
    #[error(transparent)]
    Refused(#[from] RequestError),
    /// The conversation broke.
    #[error("asking the manager at {socket}: {cause}")]
    Broken {
        /// Its socket.
        socket: String,
        /// Cause.
        cause: std::io::Error,
    },
}

/// Sends a request to the manager of this name that runs on this machine.
///
/// # Errors
/// [`CallError`].
pub fn call<T: DeserializeOwned>(name: &str, request: &Request) -> Result<T, CallError> {
    let path = crate::place::api_socket(name);
    let socket = path.display().to_string();
    let stream = connect(name, &path)?;
    let exchange = || -> std::io::Result<Answer> {
        stream.set_read_timeout(Some(ANSWER_PATIENCE + CLIENT_PATIENCE))?;
        write_line(&mut &stream, request)?;
        let mut line = String::new();
        if BufReader::new(&stream).read_line(&mut line)? == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        Ok(serde_json::from_str(&line)?)
    };
    let answer = exchange().map_err(|cause| CallError::Broken { socket, cause })?;
    Ok(shaped(answer?)?)
}

fn connect(name: &str, path: &Path) -> Result<UnixStream, CallError> {
    let socket = path.display().to_string();
    UnixStream::connect(path).map_err(|cause| match cause.kind() {
        ErrorKind::NotFound | ErrorKind::ConnectionRefused => {
            CallError::NotRunning { name: name.to_owned(), socket }
        }
        ErrorKind::PermissionDenied => CallError::NotPermitted { socket },
        _ => CallError::Broken { socket, cause },
    })
}
