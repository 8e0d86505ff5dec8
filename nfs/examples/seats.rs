//! Measures the time that an NF takes to say hello: started when it is needed, and waiting in its place until
//! then.
//!
//! ```sh
//! cargo build --release -p headgate-nfs && cargo run --release -p headgate-nfs --example seats [ROUNDS]
//! ```
//!
//! As root the processes are in control groups, as a manager's are; otherwise the groups are left out.

use std::error::Error;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use headgate_host::cgroup::{GroupTree, Hierarchy, NfGroup, NfGroupPlan};
use headgate_session::launch::{LAUNCH_VARIABLE, Launch, Program, User};
use headgate_session::message::{self, FromNf, ToNf};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

const ROUNDS: usize = 50;
const NOBODY: User = User { uid: 65534, gid: 65534 };

/// Times of one round: until it is in its place, and until it says hello once it is needed.
struct Round {
    seated: Option<Duration>,
    hello: Duration,
}

fn main() -> Result<(), Box<dyn Error>> {
    let rounds = std::env::args().nth(1).map_or(Ok(ROUNDS), |text| text.parse())?;
    let is_root = rustix::process::geteuid().is_root();
    let tree = is_root.then(|| {
        let name = format!("headgate-seats-{}", std::process::id());
        GroupTree::make(&name, &Hierarchy::all(), &mut |_| {})
    });
    println!("{:34} {:>10} {:>10} {:>10}", "", "p50 us", "p99 us", "max us");
    for (what, grouped, waits) in [
        ("spawn to hello, no group", false, false),
        ("spawn to hello, in its groups", true, false),
        ("go to hello, no group", false, true),
        ("go to hello, in its groups", true, true),
    ] {
        if grouped && !is_root {
            continue;
        }
        let mut all = Vec::new();
        for number in 0..rounds {
            all.push(round(tree.as_ref().filter(|_| grouped), number, waits)?);
        }
        let seated = all.iter().filter_map(|round| round.seated).collect::<Vec<_>>();
        print_line(what, all.iter().map(|round| round.hello).collect());
        if waits {
            print_line("  (spawn to in its place)", seated);
        }
    }
    tree.map_or(Ok(()), |tree| tree.remove())?;
    Ok(())
}

fn round(tree: Option<&GroupTree>, number: usize, waits: bool) -> Result<Round, Box<dyn Error>> {
    let plan = NfGroupPlan { name: format!("{number}.nf"), ..NfGroupPlan::default() };
    let group = tree.map(|tree| NfGroup::make(&tree.domain(0, "domain")?, &plan)).transpose()?;
    let launch = Launch {
        user: rustix::process::geteuid().is_root().then_some(NOBODY),
        groups: group.as_ref().map(|group| group.entrances(false)).unwrap_or_default(),
        waits,
        ..Launch::new("nf".into(), Program::Run("forward".into()), std::process::id())
    };
    let mut start = Instant::now();
    let (socket, mut child) = spawn(&launch)?;
    let mut seated = None;
    if waits {
        expect(&socket, |word| matches!(word, FromNf::Seated { .. }))?;
        seated = Some(start.elapsed());
        start = Instant::now();
        message::send(&socket, &ToNf::Go, &[])?;
    }
    expect(&socket, |word| matches!(word, FromNf::Hello { .. }))?;
    let hello = start.elapsed();
    child.kill()?;
    child.wait()?;
    group.map_or(Ok(()), |group| group.remove())?;
    Ok(Round { seated, hello })
}

fn spawn(launch: &Launch) -> Result<(OwnedFd, Child), Box<dyn Error>> {
    let beside: PathBuf = std::env::current_exe()?.with_file_name("../headgate-nfs");
    let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
    let child = Command::new(beside)
        .args(["launched", &launch.name])
        .env(LAUNCH_VARIABLE, serde_json::to_string(launch)?)
        .stdin(Stdio::from(theirs))
        .spawn()?;
    Ok((ours, child))
}

fn expect(socket: &OwnedFd, is_it: impl Fn(&FromNf) -> bool) -> Result<(), Box<dyn Error>> {
    match message::receive::<FromNf>(socket)? {
        Some((word, _)) if is_it(&word) => Ok(()),
        other => Err(format!("not what was expected: {other:?}").into()),
    }
}

fn print_line(what: &str, mut times: Vec<Duration>) {
    times.sort_unstable();
    let at = |part: f64| times[((times.len() - 1) as f64 * part) as usize].as_micros();
    println!("{what:34} {:>10} {:>10} {:>10}", at(0.5), at(0.99), at(1.0));
}
