//! Attacks of a hostile network function. Each mode behaves at first, so that it meets a chain in service.

use std::fs::{File, OpenOptions};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::FileExt;
use std::process::{Command, ExitCode};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use headgate_session::message::{self, FromNf};
use headgate_session::version::Versions;
use headgate_shm::doorbell;
use headgate_shm::memory::HUGE_PAGE_BYTES;
use headgate_shm::{Descriptor, Verdict};
use headgate_tests::random::Random;
use rustix::fs::{FallocateFlags, MemfdFlags, fallocate, memfd_create};
use rustix::io::FdFlags;
use rustix::process::{Pid, Signal, kill_process};

use crate::foe::{Foe, offset};

/// Lifetime of a child that escaped into a session of its own. Our choice: longer than a restart takes,
/// shorter than the test that follows.
const ESCAPED_LIFE: Duration = Duration::from_millis(700);
/// Lifetime of a child that did not escape and that nobody waits for: longer than a test waits for it.
const FORGOTTEN_LIFE: Duration = Duration::from_secs(300);

type Attack = fn(Foe);

const MODES: &[(&str, Attack)] = &[
    ("random-descriptors", |foe| lie(foe, |foe, _| Descriptor(foe.random.word()))),
    ("no-such-buffer", |foe| {
        lie(foe, |foe, _| {
            Descriptor::new(foe.geometry.buffers() + foe.random.below(1 << 20) as u32, 128, 64, 0)
        })
    }),
    ("not-held", |foe| {
        lie(foe, |foe, own| {
            let buffers = u64::from(foe.geometry.buffers());
            let index = std::iter::repeat_with(|| foe.random.below(buffers) as u32);
            let mut index = index.filter(|index| own.iter().all(|packet| packet.index() != *index));
            Descriptor::new(index.next().unwrap_or(0), 128, 64, 0)
        })
    }),
    ("too-long", |foe| lie(foe, |foe, own| own[0].with_extent(foe.geometry.stride() - 32, 64))),
    ("too-short", |foe| lie(foe, |foe, own| own[0].with_extent(128, foe.random.below(14) as u32))),
    ("double-return", |foe| lie(foe, |_, own| own[0])),
    ("random-verdicts", random_verdicts),
    ("receive-index-back", |foe| {
        forge(foe, offset::RECEIVE_CONSUMED, |foe| foe.receive.consumed().wrapping_sub(1 << 20))
    }),
    ("receive-index-ahead", |foe| {
        forge(foe, offset::RECEIVE_CONSUMED, |foe| foe.receive.consumed().wrapping_add(1 << 20))
    }),
    ("transmit-index-back", |foe| {
        forge(foe, offset::TRANSMIT_PRODUCED, |foe| foe.transmit.produced().wrapping_sub(1 << 20))
    }),
    ("transmit-index-ahead", |foe| {
        forge(foe, offset::TRANSMIT_PRODUCED, |foe| foe.transmit.produced().wrapping_add(1 << 20))
    }),
    ("lent-twice", lent_twice),
    ("lent-and-kept", lent_and_kept),
    ("lent-and-random", lent_and_random),
    ("lend-index-back", |foe| forge_lend(foe, |foe| foe.lent.consumed().wrapping_sub(1 << 20))),
    ("lend-index-ahead", |foe| forge_lend(foe, |foe| foe.lent.consumed().wrapping_add(1 << 20))),
    ("punch-packets", |foe| punch(foe, |foe| vec![&foe.packets])),
    ("punch-control", |foe| punch(foe, |foe| vec![&foe.control])),
    ("punch-all", |foe| punch(foe, |foe| vec![&foe.packets, &foe.control])),
    ("punch-and-keep", punch_and_keep),
    ("scribble", scribble),
    ("let-go", let_go),
    ("doorbells", doorbells),
    ("claim-much", claim_much),
    ("garbage-messages", garbage_messages),
    ("many-messages", many_messages),
    ("many-hellos", many_hellos),
    ("keep", keep),
    ("keep-and-pretend", keep_and_pretend),
    ("endless-loop", endless_loop),
    ("children", children),
    ("kill-waiting", kill_waiting),
];

/// Returns the attack of a mode.
pub fn find(mode: &str) -> Option<Attack> {
    MODES.iter().find(|(name, _)| *name == mode).map(|(_, attack)| *attack)
}

/// The modes there are, beside `exit-at-once`.
pub fn names() -> String {
    MODES.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
}

/// Returns its packets, and among them again and again a descriptor that is a lie.
fn lie(mut foe: Foe, lie: impl Fn(&mut Foe, &[Descriptor]) -> Descriptor) {
    foe.behave_at_first();
    while foe.goes_on() {
        let mut burst = foe.some();
        if burst.is_empty() {
            return;
        }
        let forged = lie(&mut foe, &burst);
        let place = foe.random.below(burst.len() as u64 + 1) as usize;
        burst.insert(place, forged);
        foe.give(&burst);
    }
}

/// Honest buffers, and verdicts that name anything: no offence, but every packet must end somewhere.
fn random_verdicts(mut foe: Foe) {
    while foe.goes_on() {
        let mut burst = foe.take();
        for packet in &mut burst {
            let (kind, argument) = (foe.random.below(4), foe.random.below(4096) as u16);
            *packet = packet.with_verdict(match kind {
                0 => Verdict::Next,
                1 => Verdict::Drop,
                2 => Verdict::Port(argument),
                _ => Verdict::Stage(argument),
            });
        }
        foe.give(&burst);
    }
}

/// Returns each packet it makes twice.
fn lent_twice(mut foe: Foe) {
    foe.behave_at_first();
    while foe.goes_on() {
        foe.behave();
        if let Some(made) = foe.make() {
            foe.give(&[made, made]);
        }
    }
}

/// Takes every empty buffer and returns none: no offence, and it gets no more.
fn lent_and_kept(mut foe: Foe) {
    while foe.goes_on() {
        foe.behave();
        foe.make();
    }
}

/// Packets of its own with tags that mean anything, chains it has nothing to do with among them.
fn lent_and_random(mut foe: Foe) {
    while foe.goes_on() {
        foe.behave();
        if let Some(made) = foe.make() {
            let tag = foe.random.below(1 << 14) as u32;
            // Half of them name one of the first chains.
            let tag = if foe.random.below(2) == 0 { tag & 7 } else { tag };
            foe.give(&[made.with_tag(tag)]);
        }
    }
}

/// Makes packets, and lies about how many buffers it took.
fn forge_lend(mut foe: Foe, index: impl Fn(&Foe) -> u32) {
    foe.behave_at_first();
    while foe.goes_on() {
        foe.behave();
        if let Some(made) = foe.make() {
            foe.forge(offset::LEND_CONSUMED, index(&foe));
            foe.give(&[made.with_verdict(Verdict::Drop)]);
        }
    }
}

fn forge(mut foe: Foe, offset: u64, index: impl Fn(&Foe) -> u32) {
    foe.behave_at_first();
    while foe.goes_on() {
        foe.behave();
        foe.forge(offset, index(&foe));
    }
}

/// Takes pages away, from one end to the other and all at once, while packets pass.
fn punch(mut foe: Foe, files: impl Fn(&Foe) -> Vec<&File>) {
    foe.behave_at_first();
    while foe.goes_on() {
        foe.behave();
        let at = foe.random.word();
        files(&foe).into_iter().for_each(|file| punch_file(file, at));
    }
}

fn punch_file(file: &File, at: u64) {
    let Ok(bytes) = file.metadata().map(|file| file.len()) else { return };
    let (start, length) = match at % 4 {
        0 => (0, bytes),
        _ => (at / 4 % bytes, bytes),
    };
    // Refused only where the kernel has no holes to give.
    let _ = fallocate(file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, start, length);
}

/// Takes huge pages out of the packet region and keeps them, so that the machine has none to make up for
/// them.
fn punch_and_keep(mut foe: Foe) {
    foe.behave_at_first();
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::HUGETLB | MemfdFlags::HUGE_2MB;
    let Ok(hoard) = memfd_create("hoard", flags).map(File::from) else { return };
    let mut kept = 0;
    while foe.goes_on() {
        foe.behave();
        punch_file(&foe.packets, 0);
        let next = HUGE_PAGE_BYTES as u64;
        while fallocate(&hoard, FallocateFlags::empty(), kept, next).is_ok() {
            kept += next;
        }
    }
}

/// Fills everything it can write with noise: packets, rings, indices, doorbell, counters.
fn scribble(mut foe: Foe) {
    foe.behave_at_first();
    while foe.goes_on() {
        foe.behave();
        let buffer = foe.random.below(u64::from(foe.geometry.buffers())) as u32;
        foe.region.write(buffer, 0, &[foe.random.word() as u8; 512]);
        scribble_files(&[&foe.packets, &foe.control], &mut foe.random);
    }
}

fn scribble_files(files: &[&File], random: &mut Random) {
    let noise: Vec<u8> = (0..512).flat_map(|_| random.word().to_ne_bytes()).collect();
    for file in files {
        let Ok(bytes) = file.metadata().map(|file| file.len()) else { return };
        // Past the end nothing is written: the memory is sealed.
        let _ = file.write_at(&noise, random.below(bytes));
    }
}

/// Gives up all its memory, mappings and files, and lives on without a word.
fn let_go(mut foe: Foe) {
    foe.behave_at_first();
    foe.some();
    drop(foe);
    loop {
        std::hint::spin_loop();
    }
}

/// Works, and claims to sleep all the while.
fn doorbells(mut foe: Foe) {
    while foe.goes_on() {
        for _ in 0..100 {
            foe.side.doorbell().store(doorbell::SLEEPING, Ordering::Relaxed);
        }
        foe.behave();
    }
}

/// Works, and says that each packet takes it longer than any core has time for, to be given one.
fn claim_much(mut foe: Foe) {
    const CYCLES_CLAIMED: u64 = 1 << 24;
    while foe.goes_on() {
        foe.behave();
        foe.side.count_service(CYCLES_CLAIMED);
    }
}

fn garbage_messages(mut foe: Foe) {
    foe.behave_at_first();
    while foe.goes_on() {
        foe.behave();
        let length = foe.random.below(2 * message::MESSAGE_BYTES_MAX as u64);
        let noise: Vec<u8> = (0..length).map(|_| foe.random.word() as u8).collect();
        let _ = rustix::net::send(&foe.socket, &noise, rustix::net::SendFlags::NOSIGNAL);
    }
}

/// Sound messages, with files nobody asked for, as fast as the socket takes them.
fn many_messages(mut foe: Foe) {
    let body = "x".repeat(1000);
    let counters = (0..1000).map(|number| format!("counter {number}")).collect();
    let words = [
        FromNf::Message { body },
        FromNf::Ready { lend: u32::MAX },
        FromNf::Counters { names: counters },
        FromNf::Goodbye { reason: "not yet".to_owned() },
    ];
    while foe.goes_on() {
        foe.behave();
        for word in &words {
            let files = [foe.packets.as_fd(), foe.control.as_fd(), foe.socket.as_fd()];
            let _ = message::send(&foe.socket, word, &files);
        }
    }
}

/// Sends hellos again and again and never reads an answer.
fn many_hellos(mut foe: Foe) {
    foe.behave_at_first();
    while foe.goes_on() && foe.say(&FromNf::Hello { versions: Versions::OURS, name: "me".to_owned() }) {
        foe.behave();
    }
    spin(&foe);
}

/// Takes packets and never returns one.
fn keep(mut foe: Foe) {
    foe.behave_at_first();
    while foe.goes_on() {
        foe.take();
    }
}

/// The same, and seems busy: its receive index runs to and fro.
fn keep_and_pretend(mut foe: Foe) {
    foe.behave_at_first();
    while foe.goes_on() {
        foe.take();
        let index = foe.receive.consumed().wrapping_sub(foe.random.below(2) as u32);
        foe.forge(offset::RECEIVE_CONSUMED, index);
    }
}

/// Takes packets and never comes back from its handler.
fn endless_loop(mut foe: Foe) {
    foe.behave_at_first();
    foe.some();
    loop {
        std::hint::spin_loop();
    }
}

/// Leaves two children behind that have its files, one of them in a session of its own, and goes.
fn children(mut foe: Foe) {
    foe.behave_at_first();
    let Ok(program) = std::env::current_exe() else { return };
    for file in [&foe.packets, &foe.control] {
        let _ = rustix::io::fcntl_setfd(file, FdFlags::empty());
    }
    let files = [foe.packets.as_raw_fd().to_string(), foe.control.as_raw_fd().to_string()];
    for kind in ["child", "escaped-child"] {
        let _ = Command::new(&program).arg(kind).args(&files).spawn();
    }
    std::process::exit(9);
}

/// A child that writes into what its parent's incarnation left behind.
pub fn child(escapes: bool, files: impl Iterator<Item = String>) -> ExitCode {
    let life = if escapes { ESCAPED_LIFE } else { FORGOTTEN_LIFE };
    if escapes {
        // A process that its parent did not make the leader of a group may have a session.
        let _ = rustix::process::setsid();
    }
    let open =
        |number: String| OpenOptions::new().read(true).write(true).open(format!("/proc/self/fd/{number}"));
    let files: Vec<File> = files.filter_map(|number| open(number).ok()).collect();
    let mut random = Random::new(u64::from(std::process::id()));
    let started = Instant::now();
    while started.elapsed() < life {
        scribble_files(&files.iter().collect::<Vec<_>>(), &mut random);
        std::thread::yield_now();
    }
    ExitCode::SUCCESS
}

fn spin(foe: &Foe) {
    while foe.goes_on() {
        std::hint::spin_loop();
    }
}

/// Works, and kills every process that waits to be an NF, if it may: its own successor is of its user.
fn kill_waiting(mut foe: Foe) {
    while foe.goes_on() {
        foe.behave();
        for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
            let name = std::fs::read_to_string(entry.path().join("comm")).unwrap_or_default();
            let number = entry.file_name().to_str().and_then(|number| number.parse().ok());
            if let (true, Some(pid)) = (name.trim() == "headgate-nfs", number.and_then(Pid::from_raw)) {
                // Refused, where the kernel can.
                let _ = kill_process(pid, Signal::KILL);
            }
        }
    }
}
