//! Tests of both ways of reading, with an attacker at the other end.

use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant as Clock};

use headgate_units::Span;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sockopt};

use super::*;
use crate::arguments::{ArgumentError, ArgumentErrorKind, PathStep, REFUSED_MAX};
use crate::text::TEXT_CHARS_MAX;

/// Long enough for a thread of a busy machine to do something; not a measurement.
const PATIENCE: Duration = Duration::from_secs(60);
/// Time for which an attacker makes the manager wait; the caller's thread must never wait that long.
const LINGER: Duration = Duration::from_secs(600);

const WAYS: [Reading; 2] = [Reading::InPlace, Reading::OnThread];

/// The two ends of a connection that is read like this, on this kernel if it can.
fn inbox(reading: Reading, budget: Budget) -> Option<(Inbox, OwnedFd)> {
    let (ours, theirs) = pair().unwrap();
    if reading == Reading::InPlace && !refuse_files(&ours) {
        eprintln!("skipped: this kernel refuses no files (before Linux 6.16)");
        return None;
    }
    Some((Inbox::with(ours, reading, budget).unwrap(), theirs))
}

fn inboxes() -> impl Iterator<Item = (Inbox, OwnedFd)> {
    WAYS.into_iter().filter_map(|way| inbox(way, Budget::default()))
}

fn said(body: &str) -> FromNf {
    FromNf::Message { body: body.to_owned() }
}

fn say(theirs: &OwnedFd, body: &str) {
    message::send(theirs, &said(body), &[]).unwrap();
}

/// The next thing, when it comes.
fn next(inbox: &mut Inbox, now: Instant) -> Received {
    let start = Clock::now();
    loop {
        match inbox.receive(now) {
            Some(received) => return received,
            None => assert!(start.elapsed() < PATIENCE, "nothing comes"),
        }
        thread::sleep(Duration::from_micros(100));
    }
}

#[test]
fn words_come_in_order_and_then_the_end() {
    for (mut inbox, theirs) in inboxes() {
        let now = Instant(0);
        assert_eq!(inbox.receive(now), None);
        for number in 0..100 {
            say(&theirs, &number.to_string());
        }
        for number in 0..100 {
            assert_eq!(next(&mut inbox, now), Received::Word(said(&number.to_string())));
        }
        drop(theirs);
        assert_eq!(next(&mut inbox, now), Received::Closed);
        assert!(inbox.is_closed() && inbox.ears(now).is_none() && inbox.receive(now).is_none());
        assert_eq!(inbox.counts().messages, 100);
    }
}

#[test]
fn whoever_waits_for_its_ears_misses_nothing() {
    for (mut inbox, theirs) in inboxes() {
        let speaker = thread::spawn(move || {
            for number in 0..2000 {
                say(&theirs, &number.to_string());
            }
        });
        let mut now = Instant(0);
        let mut seen = 0;
        while seen < 2000 {
            if let Some(ears) = inbox.ears(now) {
                let limit = rustix::time::Timespec { tv_sec: PATIENCE.as_secs() as i64, tv_nsec: 0 };
                let mut polled = [rustix::event::PollFd::new(&ears, rustix::event::PollFlags::IN)];
                assert_eq!(rustix::event::poll(&mut polled, Some(&limit)), Ok(1), "{seen} came");
            } else {
                now = inbox.poll_at().unwrap();
            }
            // The end, which follows the last one, is not read.
            while seen < 2000
                && let Some(received) = inbox.receive(now)
            {
                assert_eq!(received, Received::Word(said(&seen.to_string())));
                seen += 1;
            }
        }
        speaker.join().unwrap();
    }
}

#[test]
fn what_is_no_message_is_told_and_cut() {
    for (mut inbox, theirs) in inboxes() {
        let long = format!("{{\"is\":\"{}\"}}", "x".repeat(30_000));
        for garbage in [&b"{}"[..], b"\xff\x00", long.as_bytes(), &[b'x'; MESSAGE_BYTES_MAX + 1]] {
            rustix::net::send(&theirs, garbage, SendFlags::empty()).unwrap();
            let Received::Garbled(why) = next(&mut inbox, Instant(0)) else { panic!("a message") };
            assert!(why.chars().count() <= TEXT_CHARS_MAX, "{}", why.len());
        }
        let (cut, long) = ("ü".repeat(TEXT_CHARS_MAX - 1) + "…", || "ü".repeat(1000));
        let error = ArgumentError {
            path: vec![PathStep::Key(long()); 20],
            kind: ArgumentErrorKind::UnknownWord,
            word: long(),
            known: vec![long()],
            message: long(),
        };
        let goodbye = FromNf::Goodbye { reason: long(), refused: vec![error; 1] };
        message::send(&theirs, &goodbye, &[]).unwrap();
        let Received::Word(FromNf::Goodbye { reason, refused }) = next(&mut inbox, Instant(0)) else {
            panic!("no goodbye")
        };
        assert_eq!(reason, cut);
        let [error] = &refused[..] else { panic!("{refused:?}") };
        assert_eq!((&error.word, &error.message, error.known.len()), (&cut, &cut, 0));
        assert_eq!((error.path.len(), &error.path[0]), (16, &PathStep::Key(cut)));
        let many = vec![ArgumentError { path: Vec::new(), ..error.clone() }; 40];
        message::send(&theirs, &FromNf::Goodbye { reason: String::new(), refused: many }, &[]).unwrap();
        let Received::Word(FromNf::Goodbye { refused, .. }) = next(&mut inbox, Instant(0)) else {
            panic!("no goodbye")
        };
        assert_eq!(refused.len(), REFUSED_MAX);
        let lacks = vec!["y".repeat(300); 100];
        message::send(&theirs, &FromNf::Seated { lacks }, &[]).unwrap();
        let Received::Word(FromNf::Seated { lacks }) = next(&mut inbox, Instant(0)) else {
            panic!("not seated")
        };
        assert_eq!((lacks.len(), lacks[0].chars().count()), (LACKS_MAX, TEXT_CHARS_MAX));
    }
}

#[test]
fn whoever_says_too_much_waits_and_loses_nothing() {
    let budget = Budget::new(1000, 1 << 30, Span::from_millis(10));
    let Some((mut inbox, theirs)) = inbox(Reading::InPlace, budget) else { return };
    for number in 0..100 {
        say(&theirs, &number.to_string());
    }
    let (mut now, mut seen) = (Instant(0) + Span::from_secs(1), 0);
    while let Some(received) = inbox.receive(now) {
        assert_eq!(received, Received::Word(said(&seen.to_string())));
        seen += 1;
    }
    assert_eq!(
        (seen, inbox.counts().pauses),
        (11, 1),
        "a burst of 10 ms at 1000 a second, and the one it began with"
    );
    assert!(inbox.ears(now).is_none(), "it would be readable all the time");
    now = inbox.poll_at().unwrap();
    assert_eq!(inbox.receive(now), Some(Received::Word(said("11"))));
    assert_eq!(inbox.receive(now), None);
    // Its process has ended: what is left are its last words.
    inbox.drain();
    for number in 12..100 {
        assert_eq!(inbox.receive(now), Some(Received::Word(said(&number.to_string()))));
    }
    assert_eq!((inbox.receive(now), inbox.counts().messages), (None, 100));
}

#[test]
fn a_thread_pauses_too_and_goes_on_for_last_words() {
    // After ten messages the next one is due in a quarter of an hour.
    let budget = Budget::new(1, 1 << 30, Span::from_secs(10));
    let (mut inbox, theirs) = inbox(Reading::OnThread, budget).unwrap();
    for number in 0..100 {
        say(&theirs, &number.to_string());
    }
    let now = Instant(0);
    for number in 0..10 {
        assert_eq!(next(&mut inbox, now), Received::Word(said(&number.to_string())));
    }
    while inbox.counts().pauses == 0 {
        thread::yield_now();
    }
    assert!(inbox.counts().messages < 100);
    drop(theirs);
    inbox.drain();
    for number in 10..100 {
        assert_eq!(next(&mut inbox, now), Received::Word(said(&number.to_string())));
    }
    assert_eq!(next(&mut inbox, now), Received::Closed);
}

/// A socket whose closer waits for as long as its maker wants: there is something to send, and nobody takes
/// it. The second is who does not.
fn trap(linger: Duration) -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut sender = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (taker, _) = listener.accept().unwrap();
    sender.set_nonblocking(true).unwrap();
    while sender.write(&[0; 64 << 10]).is_ok() {}
    sockopt::set_socket_linger(&sender, Some(linger)).unwrap();
    // Waiting is what is wanted of it.
    sender.set_nonblocking(false).unwrap();
    (sender, taker)
}

fn send_file(theirs: &OwnedFd, file: &TcpStream) -> Result<(), MessageError> {
    let files = [file.as_fd()];
    message::send(theirs, &said("have this"), &files)
}

/// Shows the attack that these tests are about.
#[test]
fn to_close_what_an_attacker_sent_takes_as_long_as_he_likes() {
    const SHORT: Duration = Duration::from_secs(1);
    let (ours, theirs) = pair().unwrap();
    let (file, _taker) = trap(SHORT);
    send_file(&theirs, &file).unwrap();
    drop(file);
    let start = Clock::now();
    drop(message::receive::<FromNf>(&ours).unwrap());
    assert!(start.elapsed() >= SHORT / 2, "{:?}", start.elapsed());
}

#[test]
fn files_are_an_offence_and_nobody_waits_for_their_end() {
    for (mut inbox, theirs) in inboxes() {
        let (file, _taker) = trap(LINGER);
        let sent = send_file(&theirs, &file);
        if sent.is_err() {
            // It is nobody's but ours then, and not meant for us.
            sockopt::set_socket_linger(&file, None).unwrap();
        }
        // On a thread of its own: the process that closes it last waits, and that may be us.
        thread::spawn(move || drop(file));
        if inbox.reading() == Reading::InPlace {
            assert!(matches!(sent, Err(MessageError::Socket(rustix::io::Errno::PERM))), "{sent:?}");
            say(&theirs, "nothing happened");
            assert_eq!(next(&mut inbox, Instant(0)), Received::Word(said("nothing happened")));
        } else {
            sent.unwrap();
            assert_eq!(next(&mut inbox, Instant(0)), Received::Offence(Offence::SentFiles));
        }
        let start = Clock::now();
        drop(inbox);
        assert!(start.elapsed() < LINGER / 2);
    }
}

/// Files are closed with the queue that they are in.
#[test]
fn files_that_nobody_received_do_not_hold_who_closes() {
    let budget = Budget::new(1, 1 << 30, Span::from_secs(1));
    let (inbox, theirs) = inbox(Reading::OnThread, budget).unwrap();
    for _ in 0..3 {
        say(&theirs, "first");
    }
    while inbox.counts().pauses == 0 {
        thread::yield_now();
    }
    let (file, _taker) = trap(LINGER);
    send_file(&theirs, &file).unwrap();
    thread::spawn(move || drop(file));
    let start = Clock::now();
    drop(inbox);
    assert!(start.elapsed() < LINGER / 2);
}

/// A message of nothing looks like the end, and is none.
#[test]
fn an_end_that_is_none_holds_nobody_either() {
    let (mut inbox, theirs) = inbox(Reading::OnThread, Budget::default()).unwrap();
    rustix::net::send(&theirs, &[], SendFlags::empty()).unwrap();
    let (file, _taker) = trap(LINGER);
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let files = [file.as_fd()];
    assert!(ancillary.push(SendAncillaryMessage::ScmRights(&files)));
    let nothing = [std::io::IoSlice::new(b"")];
    rustix::net::sendmsg(&theirs, &nothing, &mut ancillary, SendFlags::empty()).unwrap();
    thread::spawn(move || drop(file));
    assert_eq!(next(&mut inbox, Instant(0)), Received::Closed);
    let start = Clock::now();
    drop(inbox);
    assert!(start.elapsed() < LINGER / 2);
}

#[test]
fn whoever_is_refused_reads_why() {
    for (inbox, theirs) in inboxes() {
        say(&theirs, "let me in");
        say(&theirs, "please");
        inbox.refuse("no".to_owned());
        let limit = Clock::now();
        let answer = loop {
            match message::receive::<ToNf>(&theirs) {
                Ok(Some((answer, _))) => break answer,
                other => assert!(limit.elapsed() < PATIENCE, "{other:?}"),
            }
        };
        assert_eq!(answer, ToNf::Refused { reason: "no".to_owned() });
        assert!(matches!(message::receive::<ToNf>(&theirs), Err(MessageError::Closed)));
    }
}

/// A connection is read as the listener was when it was made.
#[test]
fn what_a_listener_refuses_its_connections_refuse() {
    use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
    let socket = || {
        rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
            .unwrap()
    };
    for refuses in [false, true] {
        let name = format!("headgate-inbox-{}-{refuses}", std::process::id());
        let address = SocketAddrUnix::new_abstract_name(name.as_bytes()).unwrap();
        let listener = socket();
        rustix::net::bind(&listener, &address).unwrap();
        rustix::net::listen(&listener, 1).unwrap();
        let can = refuses && refuse_files(&listener);
        let theirs = socket();
        rustix::net::connect(&theirs, &address).unwrap();
        let (file, _taker) = trap(Duration::ZERO);
        // Before it is accepted.
        assert_eq!(send_file(&theirs, &file).is_err(), can);
        let ours = rustix::net::accept_with(&listener, SocketFlags::CLOEXEC).unwrap();
        let expected = if can { Reading::InPlace } else { Reading::OnThread };
        assert_eq!(Inbox::new(ours).unwrap().reading(), expected);
    }
}
