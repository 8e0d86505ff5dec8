//! Connections and admissions over real sockets.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use headgate_decide::units::{InstanceId, NfId, WorkerId};
use headgate_session::message::{self, ToNf};
use headgate_session::version::Versions;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketType};

use super::*;
use crate::config::{Catalog, Machine};
use crate::control::instance::Seat;

/// A reception in a folder of its own, a configuration with one NF that attaches and one that does not, and
/// the instance of the first.
struct Desk {
    _folder: tempfile::TempDir,
    path: PathBuf,
    reception: Reception,
    config: Config,
    instances: Vec<Instance>,
}

impl Desk {
    fn new(user: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("nf.sock");
        let text = format!(
            "[[port]]\nname = \"in\"\nkind = \"null\"\n[[nf]]\nname = \"own\"\nattach = true\n{user}\n\
             [[nf]]\nname = \"ours\"\nexec = [\"/bin/true\"]\n"
        );
        let machine = Machine { cores: vec![0, 1], memory_bytes: 1 << 34, ..Machine::default() };
        let config = crate::config::parse("test.toml", &text, &Catalog::default(), &machine).unwrap().config;
        let instance = |at: usize| {
            let nf = config.nfs[at].clone();
            let seat = Seat {
                number: InstanceId(at as u16),
                stage: NfId(at as u16),
                name: nf.name.clone(),
                core: 0,
                worker: WorkerId(0),
                nf,
            };
            let mut instance = Instance::new(seat, &crate::record::Recorder::default());
            instance.life.on(Moment(0), headgate_decide::lifecycle::Event::Added, &mut Vec::new());
            instance
        };
        let instances = vec![instance(0), instance(1)];
        let reception = Reception::at(NfPlace::listen(&path, false).unwrap());
        Self { _folder: folder, path, reception, config, instances }
    }

    /// Returns the next arrival among the connections made by then.
    fn pass(&mut self, now: Moment) -> Option<Arrival> {
        self.reception.accept(now);
        let guests = Guests { config: &self.config, instances: &self.instances, serving: true };
        self.reception.next_arrival(now, &guests)
    }

    /// Returns the refusal of a process that connects and sends this, if it is not let in.
    fn refusal(&mut self, word: &FromNf) -> String {
        let caller = connect(&self.path);
        message::send(&caller, word, &[]).unwrap();
        assert!(self.pass(Moment(0)).is_none());
        match message::receive::<ToNf>(&caller) {
            Ok(Some((ToNf::Refused { reason }, _))) => reason,
            other => panic!("{other:?}"),
        }
    }
}

fn connect(path: &Path) -> OwnedFd {
    let flags = SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap();
    rustix::net::connect(&socket, &SocketAddrUnix::new(path).unwrap()).unwrap();
    socket
}

fn hello(name: &str) -> FromNf {
    FromNf::Hello { versions: Versions::OURS, name: name.to_owned() }
}

#[test]
fn one_that_says_who_it_is_is_let_in() {
    let mut desk = Desk::new("");
    let caller = connect(&desk.path);
    assert!(desk.pass(Moment(0)).is_none());
    message::send(&caller, &hello("own"), &[]).unwrap();
    let arrival = desk.pass(Moment(1)).unwrap();
    assert_eq!((arrival.at, arrival.peer.pid()), (0, rustix::process::getpid()));
    assert_eq!(desk.reception.report(Moment(1)), None);
}

#[test]
fn others_are_told_why_not() {
    let mut desk = Desk::new("");
    assert!(desk.refusal(&hello("ours")).contains("is started by the manager"));
    assert!(desk.refusal(&hello("nobody")).contains("there is no nf \"nobody\"; user"));
    assert!(
        desk.refusal(&FromNf::Ready { lend: 0, answers: false, state: None, takes_long: false })
            .contains("first word")
    );
    // One report of all of them.
    let report = desk.reception.report(Moment(0)).unwrap();
    assert!(report.contains("first word") && report.ends_with("and 2 more before"), "{report}");
    assert_eq!(desk.reception.report(Moment(0)), None);
}

/// A hello of a library that speaks these versions.
fn speaking(min: u32, max: u32) -> FromNf {
    FromNf::Hello { versions: Versions { min, max }, name: "own".to_owned() }
}

#[test]
fn a_newer_library_that_speaks_our_version_too_is_let_in() {
    let mut desk = Desk::new("");
    let caller = connect(&desk.path);
    let Versions { max: ours, .. } = Versions::OURS;
    message::send(&caller, &speaking(ours, ours + 3), &[]).unwrap();
    let arrival = desk.pass(Moment(0)).unwrap();
    assert_eq!(arrival.inbox.version(), ours);
}

#[test]
fn without_a_common_version_both_sides_are_told() {
    let Versions { min, max } = Versions::OURS;
    for (word, older) in
        [(speaking(max + 1, max + 2), "the manager is the older"), (speaking(1, min - 1), "build it again")]
    {
        let mut desk = Desk::new("");
        let told = desk.refusal(&word);
        assert!(told.contains(older), "{told}");
        let report = desk.reception.report(Moment(0)).unwrap();
        assert!(report.ends_with(&told), "{report}");
    }
}

#[test]
fn another_user_is_not_let_in() {
    let other = if rustix::process::geteuid().is_root() { 65_000 } else { 1 };
    let mut desk = Desk::new(&format!("user = {other}"));
    assert!(desk.refusal(&hello("own")).contains(&format!("is for a process of user {other}")));
}

#[test]
fn silence_and_crowds_end() {
    let mut desk = Desk::new("");
    let callers: Vec<OwnedFd> = (0..CALLERS_OF_USER_MAX + 2).map(|_| connect(&desk.path)).collect();
    assert!(desk.pass(Moment(0)).is_none());
    let refused = callers.iter().filter(|one| matches!(message::receive::<ToNf>(one), Ok(Some(_)))).count();
    assert_eq!((desk.reception.callers.len(), refused), (CALLERS_OF_USER_MAX, 2));
    // The remaining ones have their time, and no more.
    let late = Moment(0) + HELLO_PATIENCE;
    assert!(desk.pass(late).is_none());
    assert!(desk.reception.callers.is_empty());
}

#[test]
fn two_at_once_are_one_after_the_other() {
    let mut desk = Desk::new("");
    let callers = [connect(&desk.path), connect(&desk.path)];
    for caller in &callers {
        message::send(caller, &hello("own"), &[]).unwrap();
    }
    assert!(desk.pass(Moment(0)).is_some());
    // The instance has a process by now.
    desk.instances[0].life.on(Moment(0), headgate_decide::lifecycle::Event::Process, &mut Vec::new());
    assert!(desk.pass(Moment(0)).is_none());
    let Ok(Some((ToNf::Refused { reason }, _))) = message::receive::<ToNf>(&callers[1]) else { panic!() };
    assert!(reason.contains("try again") || reason.contains("attached already"), "{reason}");
}
