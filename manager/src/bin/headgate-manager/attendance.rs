//! Attendant: the process that started the daemon and holds the other end of its standard input.
//!
//! The socket is taken off standard input first of all, so that nothing the daemon starts can have it.

use std::fs::OpenOptions;
use std::io::{self, BufReader};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, PoisonError};

use headgate_api::attendance::{Failed, LEAVE, Said, Text};
use headgate_api::exit::Exit;
use headgate_api::request::{CLIENT_PATIENCE, answer, read_line, write_line};
use headgate_host::stop::Stop;
use headgate_manager::Handle;
use rustix::net::{AddressFamily, SocketType, sockopt};

/// First descriptor that is not a standard one.
const FIRST_OWN_DESCRIPTOR: i32 = 3;

/// The daemon's end of the socket.
pub struct Attendance {
    ear: BufReader<UnixStream>,
    /// Sending half of the socket.
    pub voice: Voice,
}

impl Attendance {
    /// Takes the socket off standard input, and leaves the session of the attendant, so that the signals of
    /// its terminal are for the attendant alone.
    ///
    /// # Errors
    /// A sentence when standard input is no such socket.
    pub fn take() -> Result<Self, String> {
        let stdin = io::stdin();
        let is_stream = sockopt::socket_domain(&stdin) == Ok(AddressFamily::UNIX)
            && sockopt::socket_type(&stdin) == Ok(SocketType::STREAM);
        if !is_stream {
            return Err("with --attended, standard input is a Unix stream socket, on which an attendant \
                        (`headgate up`) says what to do; this one is none"
                .to_owned());
        }
        let taken = || -> io::Result<Self> {
            let socket = rustix::io::fcntl_dupfd_cloexec(&stdin, FIRST_OWN_DESCRIPTOR)?;
            rustix::stdio::dup2_stdin(OpenOptions::new().read(true).open("/dev/null")?)?;
            let stream = UnixStream::from(socket);
            // An attendant that does not read must not keep us from ending.
            stream.set_write_timeout(Some(CLIENT_PATIENCE))?;
            let voice = Voice(Arc::new(Mutex::new(Some(stream.try_clone()?))));
            Ok(Self { ear: BufReader::new(stream), voice })
        };
        // It fails only for a process that leads one already.
        let _ = rustix::process::setsid();
        taken().map_err(|error| format!("cannot take standard input: {error}"))
    }

    /// Reads the configuration, which comes first.
    ///
    /// # Errors
    /// When there is no configuration, or the attendant has closed its end.
    pub fn text(&mut self) -> Result<Text, Failed> {
        let failed =
            |why: String| Failed::new(Exit::Failed, format!("the attendant sent no configuration: {why}"));
        let line = read_line(&mut self.ear).map_err(|error| failed(error.to_string()))?;
        let line = line.ok_or_else(|| failed("it has gone".to_owned()))?;
        serde_json::from_slice(&line).map_err(|error| failed(error.to_string()))
    }

    /// Answers requests on a thread of its own. When the attendant closes its end, the manager is asked to
    /// stop.
    ///
    /// # Errors
    /// When no thread can be started.
    pub fn serve(mut self, handle: Handle, stop: Stop, quiet: bool) -> io::Result<()> {
        let answer = move || {
            while let Ok(Some(line)) = read_line(&mut self.ear) {
                if line.trim_ascii() == LEAVE.as_bytes() {
                    return self.voice.leave(quiet);
                }
                self.voice.say(&handle.answer(&line).into());
            }
            stop.ask();
        };
        std::thread::Builder::new().name("hg-attendant".to_owned()).spawn(answer).map(drop)
    }
}

/// Messages to the attendant. Clones write to the same one.
#[derive(Clone)]
pub struct Voice(Arc<Mutex<Option<UnixStream>>>);

impl Voice {
    /// Sends a line. A failure is ignored: nobody is left to report it to.
    pub fn say(&self, said: &Said) {
        if let Some(mut stream) = self.stream().as_ref() {
            let _ = write_line(&mut stream, said);
        }
    }

    /// Sends the last line: nothing comes after it.
    pub fn say_last(&self, said: &Said) {
        if let Some(mut stream) = self.stream().take() {
            let _ = write_line(&mut stream, said);
        }
    }

    /// Goes on without the attendant, holding nothing of it: neither its folder nor, in quiet mode, its
    /// standard error.
    fn leave(&self, quiet: bool) {
        let _ = std::env::set_current_dir("/");
        if quiet && let Ok(null) = OpenOptions::new().write(true).open("/dev/null") {
            let _ = rustix::stdio::dup2_stderr(&null);
        }
        self.say_last(&Said::from(answer(&())));
    }

    fn stream(&self) -> std::sync::MutexGuard<'_, Option<UnixStream>> {
        // A panic of another thread lies between two lines.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
