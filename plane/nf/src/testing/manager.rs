//! A manager's part, played by a test: memory, rings and socket of one NF, seen from the other side.

mod kept;
mod words;

use std::collections::{HashSet, VecDeque};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use headgate_session::arguments::ArgumentError;
use headgate_session::message::{self, FromNf, StateSaid, ToNf, Welcome};
use headgate_session::version::Versions;
use headgate_shm::control::{Orders, Progress, lent_for};
use headgate_shm::descriptor::Descriptor;
use headgate_shm::geometry::HEADROOM_BYTES;
use headgate_shm::ring::{Consumer, Producer};
use headgate_shm::{
    ControlLayout, Geometry, ManagerSide, Memory, PagesWanted, Region, Times, Verdict, doorbell, state,
};
use rustix::event::{PollFd, PollFlags};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, socketpair};

/// Maximum time for which a test waits for an NF. Long, because machines that test are busy.
const PATIENCE: Duration = Duration::from_secs(20);

const FAMILY: AddressFamily = AddressFamily::UNIX;
const KIND: SocketType = SocketType::SEQPACKET;

/// One NF's manager. Every method that waits panics after 20 s, as a test should.
pub struct Manager {
    socket: OwnedFd,
    side: ManagerSide,
    region: Region,
    to_nf: Producer,
    from_nf: Consumer,
    lend: Producer,
    /// Empty buffers that the NF is to have, and those that it has.
    granted: usize,
    empty: HashSet<u32>,
    free: Vec<u32>,
    /// Packets as they were sent, of those that have not come back.
    sent: Vec<Descriptor>,
    welcome: Welcome,
    counters: Vec<String>,
    heard: VecDeque<String>,
    /// Number of the last message that is answered, and answers that nobody took.
    asked: u64,
    answers: VecDeque<(u64, Result<String, String>)>,
    goodbye: Option<String>,
    refused: Vec<ArgumentError>,
    /// The state that the NF keeps, if the welcome says so.
    state: Option<Memory>,
    /// What the NF said of it when it was ready.
    said: Option<StateSaid>,
    /// Times of packets, if the welcome says that they have some, and that of those sent next.
    times: Option<Arc<Times>>,
    time: Duration,
}

impl Manager {
    /// Makes the memory that `welcome` describes, and the socket whose other end goes to the NF. Numbers
    /// left at 0 are filled in: 1024 buffers for frames of 2048 bytes, rings of 256.
    ///
    /// # Panics
    /// When the kernel refuses, or the numbers are impossible.
    #[must_use]
    pub fn new(welcome: Welcome) -> (Self, OwnedFd) {
        let (socket, theirs) = socketpair(FAMILY, KIND, SocketFlags::CLOEXEC, None).expect("a socket pair");
        (Self::over(socket, welcome), theirs)
    }

    /// As [`Manager::new`], for an NF that `start` starts and that connects to `path` by itself.
    ///
    /// # Panics
    /// As [`Manager::new`].
    pub fn at<T>(path: &Path, welcome: Welcome, start: impl FnOnce() -> T) -> (Self, T) {
        let listener = rustix::net::socket_with(FAMILY, KIND, SocketFlags::CLOEXEC, None).expect("a socket");
        let address = SocketAddrUnix::new(path).expect("a path that is short enough");
        rustix::net::bind(&listener, &address).expect("a path that is free");
        rustix::net::listen(&listener, 1).expect("a bound socket");
        let started = start();
        wait_readable(&listener);
        let socket = rustix::net::accept_with(&listener, SocketFlags::CLOEXEC).expect("an NF");
        (Self::over(socket, welcome), started)
    }

    fn over(socket: OwnedFd, mut welcome: Welcome) -> Self {
        let or = |number: u32, otherwise| if number == 0 { otherwise } else { number };
        welcome.buffers = or(welcome.buffers, 1024);
        welcome.ring = or(welcome.ring, 256);
        let geometry = Geometry::new(welcome.buffers, 2048).expect("a possible region");
        welcome.stride = geometry.stride();
        let region = Region::create("packets", geometry, PagesWanted::Ordinary).expect("memory");
        let layout = ControlLayout::new(welcome.ring).expect("a possible ring");
        let side = ManagerSide::create("control", layout).expect("memory");
        let state = welcome.state.as_ref().map(|kept| state::create_for_standby("state", kept.bytes));
        Self {
            state: state.map(|made| made.expect("memory")),
            said: None,
            times: welcome.has_times.then(|| Arc::new(Times::create(geometry).expect("memory"))),
            time: Duration::ZERO,
            socket,
            to_nf: side.receive_producer(),
            from_nf: side.transmit_consumer(),
            lend: side.lend_producer(),
            granted: 0,
            empty: HashSet::new(),
            side,
            free: (0..welcome.buffers).collect(),
            sent: Vec::new(),
            region,
            welcome,
            counters: Vec::new(),
            heard: VecDeque::new(),
            asked: 0,
            answers: VecDeque::new(),
            goodbye: None,
            refused: Vec::new(),
        }
    }

    /// Waits until a process that is to wait has taken its place. Returns what this kernel cannot hold of it.
    ///
    /// # Errors
    /// The reason of its goodbye, when it could not take its place.
    ///
    /// # Panics
    /// When it breaks the protocol.
    pub fn await_seated(&mut self) -> Result<Vec<String>, String> {
        match self.hear_one() {
            Some(FromNf::Seated { lacks }) => Ok(lacks),
            Some(FromNf::Goodbye { reason, .. }) => Err(reason),
            other => panic!("neither in its place nor gone: {other:?}"),
        }
    }

    /// Tells a process that waits in its place to go.
    ///
    /// # Panics
    /// When its socket is gone.
    pub fn go(&self) {
        message::send(&self.socket, &ToNf::Go, &[]).expect("the process waits");
    }

    /// Takes the NF in and waits until it is ready. Returns the name it gave, empty for a launched one.
    ///
    /// # Errors
    /// The reason of its goodbye, when it would not start.
    ///
    /// # Panics
    /// When it breaks the protocol.
    pub fn admit(&mut self) -> Result<String, String> {
        let name = match self.hear_one() {
            Some(FromNf::Hello { versions: Versions::OURS, name }) => name,
            Some(FromNf::Goodbye { reason, .. }) => return Err(reason),
            other => panic!("not a hello of this version: {other:?}"),
        };
        let control = self.side.control().file();
        let mut files = vec![self.region.file(), control, self.side.directives().file()];
        files.extend(self.state.as_ref().map(|state| state.file()));
        files.extend(self.times.as_ref().map(|times| times.file()));
        message::send(&self.socket, &ToNf::Welcome(self.welcome.clone()), &files).expect("the NF listens");
        loop {
            match self.hear_one() {
                Some(FromNf::Ready { lend, state, .. }) => {
                    self.said = state;
                    self.granted = lent_for(lend, self.welcome.ring) as usize;
                    self.lend_more();
                    return Ok(name);
                }
                Some(word) => self.note(word),
                None => return Err("the connection closed".to_owned()),
            }
            if let Some(reason) = &self.goodbye {
                return Err(reason.clone());
            }
        }
    }

    /// The arguments that the NF refused when it said goodbye.
    #[must_use]
    pub fn refused(&self) -> &[ArgumentError] {
        &self.refused
    }

    /// Lends the NF empty buffers in place of those it used.
    fn lend_more(&mut self) {
        while self.empty.len() < self.granted {
            let index = self.free.pop().expect("there are more buffers than an NF is lent");
            let empty = Descriptor::new(index, HEADROOM_BYTES, 0, 0);
            assert_eq!(self.lend.push(&[empty]), Ok(1), "the lend ring has room for all that is lent");
            self.empty.insert(index);
        }
    }

    /// Sends frames that entered by port `ingress`, as many as there is room for, and rings the doorbell.
    ///
    /// # Panics
    /// When the NF broke its rings.
    pub fn send(&mut self, frames: &[impl AsRef<[u8]>], ingress: u16) -> usize {
        let held = self.welcome.buffers as usize - self.free.len();
        let window = (self.welcome.ring as usize).saturating_sub(held).min(self.free.len());
        let frames = &frames[..frames.len().min(window)];
        let descriptors: Vec<_> = frames.iter().map(|frame| self.put(frame.as_ref(), ingress)).collect();
        assert_eq!(self.to_nf.push(&descriptors), Ok(descriptors.len()), "the window keeps room");
        self.ring_bell();
        self.sent.extend(&descriptors);
        descriptors.len()
    }

    fn put(&mut self, frame: &[u8], ingress: u16) -> Descriptor {
        let index = self.free.pop().expect("the window keeps buffers");
        if let Some(times) = &self.times {
            times.set(index, self.time.as_micros() as u64);
        }
        self.region.write(index, HEADROOM_BYTES, frame);
        Descriptor::new(index, HEADROOM_BYTES, frame.len() as u32, u32::from(ingress))
    }

    /// Wakes the NF if it sleeps.
    pub fn ring_bell(&self) {
        doorbell::published();
        if doorbell::take(self.side.doorbell()) {
            doorbell::wake(self.side.doorbell());
        }
    }

    /// The packets the NF has returned or made since the last call, in their order.
    ///
    /// # Panics
    /// When the NF broke its rings.
    pub fn collect(&mut self) -> Vec<(Verdict, Vec<u8>)> {
        let mut outcomes = Vec::new();
        let mut descriptors = [Descriptor::default(); 64];
        loop {
            let count = self.from_nf.pop(&mut descriptors).expect("sound indices");
            if count == 0 {
                self.lend_more();
                return outcomes;
            }
            for packet in &descriptors[..count] {
                outcomes.push((packet.verdict(), super::get(&self.region, *packet)));
                assert!(!self.free.contains(&packet.index()), "buffer {} came twice", packet.index());
                self.empty.remove(&packet.index());
                self.sent.retain(|sent| sent.index() != packet.index());
                self.free.push(packet.index());
            }
        }
    }

    /// Sends all frames by port 0 and waits until all are back.
    ///
    /// # Panics
    /// When they are not back in time.
    pub fn exchange(&mut self, frames: &[impl AsRef<[u8]>]) -> Vec<(Verdict, Vec<u8>)> {
        let mut outcomes = Vec::new();
        let mut sent = 0;
        let started = Instant::now();
        while outcomes.len() < frames.len() {
            assert!(started.elapsed() < PATIENCE, "{} of {} came back", outcomes.len(), frames.len());
            sent += self.send(&frames[sent..], 0);
            outcomes.extend(self.collect());
            std::thread::yield_now();
        }
        outcomes
    }

    /// Returns the number of packets in the rings or in the NF's hands.
    #[must_use]
    pub fn lent(&self) -> usize {
        self.welcome.buffers as usize - self.free.len() - self.empty.len()
    }

    /// Sends the NF a message.
    ///
    /// # Panics
    /// When the NF's socket is gone.
    pub fn tell(&self, body: &str) {
        self.send_message(body, None);
    }

    /// Sends the NF a message, and waits for its answer.
    ///
    /// # Errors
    /// The reason why it refuses.
    ///
    /// # Panics
    /// When the NF's socket is gone.
    pub fn ask(&mut self, body: &str) -> Result<String, String> {
        self.asked += 1;
        self.send_message(body, Some(self.asked));
        loop {
            if let Some((number, answer)) = self.answers.pop_front() {
                assert_eq!(number, self.asked, "the answer is to another question");
                return answer;
            }
            let word = self.hear_one().expect("an answer and not the end");
            self.note(word);
        }
    }

    fn send_message(&self, body: &str, number: Option<u64>) {
        let message = ToNf::Message { body: body.to_owned(), number };
        message::send(&self.socket, &message, &[]).expect("the NF listens");
        self.orders().mail.fetch_add(1, std::sync::atomic::Ordering::Release);
        self.ring_bell();
    }

    /// Waits for the NF's next message.
    ///
    /// # Panics
    /// When none comes.
    pub fn listen(&mut self) -> String {
        while self.heard.is_empty() {
            let word = self.hear_one().expect("a message and not the end");
            self.note(word);
        }
        self.heard.pop_front().expect("just looked")
    }

    /// Orders the NF to stop and waits for its goodbye; returns the reason, empty for a clean end.
    pub fn stop(&mut self) -> String {
        self.orders().stop.store(1, std::sync::atomic::Ordering::Release);
        self.ring_bell();
        self.wait_for_goodbye()
    }

    /// Waits until the NF says goodbye or its connection ends.
    pub fn wait_for_goodbye(&mut self) -> String {
        while self.goodbye.is_none() {
            match self.hear_one() {
                Some(word) => self.note(word),
                None => return "the connection closed".to_owned(),
            }
        }
        self.goodbye.clone().unwrap_or_default()
    }

    /// The value of one of the NF's counters; `None` before it was named.
    #[must_use]
    pub fn counter(&self, name: &str) -> Option<u64> {
        let place = self.counters.iter().position(|known| known == name)?;
        Some(self.side.counter(place))
    }

    /// The value in a place for a counter, named or not.
    #[cfg(test)]
    pub(crate) fn read_counter(&self, place: usize) -> u64 {
        self.side.counter(place)
    }

    /// The orders the NF reads.
    #[must_use]
    pub fn orders(&self) -> &Orders {
        self.side.orders()
    }

    /// Returns the NF's own counters of its work.
    #[must_use]
    pub fn progress(&self) -> &Progress {
        self.side.progress()
    }

    /// Whether the NF announced that it sleeps.
    #[must_use]
    pub fn is_asleep(&self) -> bool {
        doorbell::is_sleeping(self.side.doorbell())
    }

    /// The socket, for tests that speak for themselves.
    #[must_use]
    pub fn socket(&self) -> std::os::fd::BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn wait_readable(socket: impl AsFd) {
    let mut polled = [PollFd::new(&socket, PollFlags::IN)];
    let limit = rustix::time::Timespec { tv_sec: PATIENCE.as_secs() as i64, tv_nsec: 0 };
    let ready = rustix::event::poll(&mut polled, Some(&limit)).expect("poll");
    assert!(ready > 0, "the NF said nothing for {PATIENCE:?}");
}
