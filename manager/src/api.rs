//! Server side of the API: carries clients' requests to the control loop.
//!
//! The same requests serve inside the process: [`Handle::ask`].

use std::io::{BufReader, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};

use serde::de::DeserializeOwned;

use crate::control::News;
use crate::output::Kept;
use crate::status::{EventCode, StoreStatus};
use crate::successor;
use crate::watch::{self, Session};
use headgate_api::request::{ANSWER_PATIENCE, CLIENT_PATIENCE, Upgrading, read_line, shaped, write_line};
pub use headgate_api::request::{Answer, Request, RequestError, answer};
use headgate_host::cores::{self, CoreList};

/// Clients served at the same time. Our choice: people and scrapers, not traffic.
const CLIENTS_MAX: usize = 16;

/// Something on its way to the control loop.
pub(crate) enum Asked {
    /// A request.
    Request {
        /// The request.
        request: Request,
        /// Where the answer goes.
        reply: Sender<Answer>,
    },
    /// A request whose answer is a stream.
    Watch {
        /// The request.
        request: Request,
        /// Where what was begun goes.
        reply: Sender<Result<Session, RequestError>>,
    },
    /// An event of the manager that did not happen in the control loop.
    Event {
        /// Its kind.
        code: EventCode,
        /// Whom it is about.
        who: String,
        /// Description, in a sentence.
        what: String,
    },
    /// The manager that this one followed has ended, and undone what it had changed on the machine.
    Alone,
    /// A group of this node has something to say.
    Group(u16, Box<News>),
    /// The store is as the node's agent saw it.
    Store(Box<StoreStatus>),
}

/// Receiving end of the control loop, on which requests arrive.
pub(crate) struct Inbox {
    pub(crate) asked: Receiver<Asked>,
    /// Socket that is readable when a request has arrived.
    pub(crate) poked: UnixStream,
}

/// Way to send requests to a manager in this process.
#[derive(Clone)]
pub struct Handle {
    asked: Sender<Asked>,
    kept: Arc<Kept>,
    poke: Arc<UnixStream>,
    /// Cores that this process was started with, for one that follows it.
    cores: Arc<Option<CoreList>>,
}

/// Returns a handle and the inbox it leads to. What NFs wrote is answered from `kept`.
pub(crate) fn inbox(kept: Arc<Kept>) -> std::io::Result<(Handle, Inbox)> {
    let (sender, asked) = mpsc::channel();
    let (poke, poked) = UnixStream::pair()?;
    poke.set_nonblocking(true)?;
    poked.set_nonblocking(true)?;
    // A machine that does not say gives a successor what the thread has that starts it.
    let cores = Arc::new(cores::affinity(None).ok());
    Ok((Handle { asked: sender, kept, poke: Arc::new(poke), cores }, Inbox { asked, poked }))
}

impl Handle {
    /// Sends a request and waits for its answer.
    ///
    /// # Errors
    /// The manager's refusal, or that it is gone.
    pub fn ask(&self, request: Request) -> Answer {
        if let Request::Logs { nf, most, from } = &request
            && let Some(logs) = self.kept.last(nf, *most, *from)
        {
            return answer(&logs);
        }
        if let Request::Upgrade { program, file, node } = &request {
            let (program, file, node) = (program.clone(), file.clone(), node.clone());
            self.ask_loop(request)?;
            return self.start_successor(&program, &file, node.as_deref());
        }
        self.ask_loop(request)
    }

    fn ask_loop(&self, request: Request) -> Answer {
        let gone = || RequestError::failed("the manager has ended".to_owned());
        let (reply, answer) = mpsc::channel();
        self.send(Asked::Request { request, reply }).map_err(|()| gone())?;
        match answer.recv_timeout(ANSWER_PATIENCE) {
            Ok(answer) => answer,
            Err(mpsc::RecvTimeoutError::Disconnected) => Err(gone()),
            Err(mpsc::RecvTimeoutError::Timeout) => Err(RequestError::failed(format!(
                "the manager gave no answer within {} s",
                ANSWER_PATIENCE.as_secs()
            ))),
        }
    }

    /// Begins a stream.
    fn watch(&self, request: &Request) -> Result<Session, RequestError> {
        let gone = || RequestError::failed("the manager has ended".to_owned());
        let (reply, answer) = mpsc::channel();
        self.send(Asked::Watch { request: request.clone(), reply }).map_err(|()| gone())?;
        answer.recv_timeout(ANSWER_PATIENCE).map_err(|_| gone())?
    }

    /// Starts a manager that is to follow this one, and tells of its end if that comes first.
    fn start_successor(&self, program: &Path, file: &Path, node: Option<&str>) -> Answer {
        let started = successor::start(program, (file, node), (*self.cores).as_ref()).map_err(|why| {
            let message = format!("cannot start {}: {why}; this manager goes on", program.display());
            RequestError { code: 3, message }
        })?;
        let (pid, handle) = (started.pid(), self.clone());
        let wait = move || {
            if let Some(ended) = started.wait() {
                let what = format!("process {pid}, which was to follow this manager, has ended ({ended})");
                handle.tell(EventCode::HandOverFailed, "manager", what);
            }
        };
        // Without the thread its end is seen by whoever asked.
        let _ = std::thread::Builder::new().name("hg-successor".to_owned()).spawn(wait);
        answer(&Upgrading { pid })
    }

    /// Tells the loop that the manager before has ended.
    pub(crate) fn tell_alone(&self) {
        // One that has ended itself has nothing to set up.
        let _ = self.send(Asked::Alone);
    }

    /// Tells the loop what the group of this number has to say.
    pub(crate) fn tell_group(&self, group: u16, news: News) {
        // One that has ended takes part no longer.
        let _ = self.send(Asked::Group(group, Box::new(news)));
    }

    /// Sets what is said of the store.
    pub fn tell_store(&self, store: StoreStatus) {
        // A control loop that has ended says nothing any more.
        let _ = self.send(Asked::Store(Box::new(store)));
    }

    /// Adds an event of the manager's own. One that has ended has no events any more.
    pub fn tell(&self, code: EventCode, who: &str, what: String) {
        let _ = self.send(Asked::Event { code, who: who.to_owned(), what });
    }

    fn send(&self, asked: Asked) -> Result<(), ()> {
        self.asked.send(asked).map_err(drop)?;
        // A full pipe means the loop has been woken already.
        let _ = (&*self.poke).write(&[1]);
        Ok(())
    }

    /// Answers a request as it came, a line of JSON.
    ///
    /// # Errors
    /// As [`Handle::ask`], or that it is no request.
    pub fn answer(&self, line: &[u8]) -> Answer {
        match serde_json::from_slice(line) {
            Ok(request) => self.ask(request),
            Err(error) => {
                Err(RequestError { code: 2, message: format!("not a request of this API: {error}") })
            }
        }
    }

    /// Sends a request and returns its answer as a value of a known shape.
    ///
    /// # Errors
    /// As [`Handle::ask`].
    pub fn get<T: DeserializeOwned>(&self, request: Request) -> Result<T, RequestError> {
        shaped(&self.ask(request)?)
    }
}

/// Serves clients until the listener's socket is gone. Each has a thread: they are few and slow.
pub(crate) fn serve(listener: UnixListener, handle: Handle) {
    let clients = Arc::new(AtomicUsize::new(0));
    for client in listener.incoming() {
        let Ok(client) = client else { return };
        if clients.fetch_add(1, Ordering::Relaxed) >= CLIENTS_MAX {
            clients.fetch_sub(1, Ordering::Relaxed);
            let refusal: Answer =
                Err(RequestError::failed(format!("{CLIENTS_MAX} clients are being served; ask again")));
            let _ = write_line(&mut &client, &refusal);
            continue;
        }
        let (handle, clients) = (handle.clone(), clients.clone());
        std::thread::spawn(move || {
            let _ = converse(&client, &handle);
            clients.fetch_sub(1, Ordering::Relaxed);
        });
    }
}

fn converse(client: &UnixStream, handle: &Handle) -> std::io::Result<()> {
    client.set_read_timeout(Some(CLIENT_PATIENCE))?;
    client.set_write_timeout(Some(CLIENT_PATIENCE))?;
    let mut reader = BufReader::new(client);
    while let Some(line) = read_line(&mut reader)? {
        match serde_json::from_slice::<Request>(&line) {
            Ok(request) if request.is_stream() => {
                return watch::serve(client, &request, handle.watch(&request));
            }
            _ => write_line(&mut &*client, &handle.answer(&line))?,
        }
    }
    Ok(())
}
