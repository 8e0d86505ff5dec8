//! Client of a manager that runs on this machine.

use std::io::{BufRead as _, BufReader, ErrorKind, Read as _};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::Path;

use serde::de::DeserializeOwned;

use crate::request::{
    ANSWER_PATIENCE, Answer, CLIENT_PATIENCE, REQUEST_BYTES_MAX, Request, RequestError, read_line, shaped,
    write_line,
};
use crate::watch::Said;

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
    let exchange = || -> std::io::Result<String> {
        stream.set_read_timeout(Some(ANSWER_PATIENCE + CLIENT_PATIENCE))?;
        write_line(&mut &stream, request)?;
        let mut line = String::new();
        if BufReader::new(&stream).read_line(&mut line)? == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        Ok(line)
    };
    let broken = |cause| CallError::Broken { socket: socket.clone(), cause };
    let line = exchange().map_err(broken)?;
    // At once into what is wanted: no tree of the snapshot of ten thousand chains is made first.
    if let Ok(answer) = serde_json::from_str::<Result<T, RequestError>>(&line) {
        return Ok(answer?);
    }
    // It is a refusal, or has another shape, and then the error says where.
    let answer: Answer = serde_json::from_str(&line).map_err(|error| broken(error.into()))?;
    Ok(shaped(&answer?)?)
}

/// A stream that a manager was asked for ([`crate::watch`]).
#[derive(Debug)]
pub struct Watched {
    socket: String,
    stream: BufReader<UnixStream>,
}

/// Way to say that no more of a stream is wanted, from another thread.
#[derive(Debug)]
pub struct Enough(UnixStream);

impl Enough {
    /// Says so. What is on its way still comes, and the end of the stream.
    pub fn say(&self) {
        // A manager that is gone needs not be told.
        let _ = self.0.shutdown(Shutdown::Write);
    }
}

/// Asks a manager for a stream.
///
/// # Errors
/// [`CallError`].
pub fn watch(name: &str, request: &Request) -> Result<Watched, CallError> {
    let path = crate::place::api_socket(name);
    let socket = path.display().to_string();
    let stream = connect(name, &path)?;
    let begin = || -> std::io::Result<(Answer, BufReader<UnixStream>)> {
        stream.set_read_timeout(Some(ANSWER_PATIENCE + CLIENT_PATIENCE))?;
        write_line(&mut &stream, request)?;
        let mut reader = BufReader::new(stream.try_clone()?);
        let line = read_line(&mut reader)?.ok_or(ErrorKind::UnexpectedEof)?;
        // From here on it says something when there is something to say.
        stream.set_read_timeout(None)?;
        Ok((serde_json::from_slice(&line)?, reader))
    };
    let (answer, stream) = begin().map_err(|cause| CallError::Broken { socket: socket.clone(), cause })?;
    answer.map_err(|refusal| of_another_version(refusal, request))?;
    Ok(Watched { socket, stream })
}

/// Says plainly that a manager does not know a request because it is older than we are.
fn of_another_version(refusal: RequestError, request: &Request) -> RequestError {
    if refusal.code != 2 || !refusal.message.contains("unknown variant") {
        return refusal;
    }
    let what = serde_json::to_value(request).ok();
    let what = what.as_ref().and_then(|it| it["ask"].as_str()).unwrap_or("this");
    RequestError {
        code: 3,
        message: format!(
            "the manager is of an earlier version, which knows no {what:?}; restart it with version {}",
            env!("CARGO_PKG_VERSION")
        ),
    }
}

impl Watched {
    /// Returns a way to end it.
    ///
    /// # Errors
    /// When there is no descriptor left.
    pub fn enough(&self) -> Result<Enough, CallError> {
        let clone = self.stream.get_ref().try_clone();
        clone.map(Enough).map_err(|cause| CallError::Broken { socket: self.socket.clone(), cause })
    }

    /// Waits for the next line, and the bytes that follow it. `None` when the manager is gone without an end.
    ///
    /// # Errors
    /// [`CallError`].
    pub fn wait(&mut self) -> Result<Option<(Said, Vec<u8>)>, CallError> {
        self.read().map_err(|cause| CallError::Broken { socket: self.socket.clone(), cause })
    }

    fn read(&mut self) -> std::io::Result<Option<(Said, Vec<u8>)>> {
        let Some(line) = read_line(&mut self.stream)? else { return Ok(None) };
        let said: Said = serde_json::from_slice(&line)?;
        let count = if let Said::Bytes { count } = said { count } else { 0 };
        if count as u64 > REQUEST_BYTES_MAX {
            return Err(std::io::Error::new(ErrorKind::InvalidData, "the manager is of another version"));
        }
        let mut bytes = vec![0; count];
        self.stream.read_exact(&mut bytes)?;
        Ok(Some((said, bytes)))
    }
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
