//! Senders and receivers of our own, for machines without iperf3, curl or python3.

use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use headgate_host::namespace::Endpoint;

use super::web::{Compared, program};
use super::{Stage, Transfer, address};

/// Port at which the receiver or server listens: iperf3's, for the same purpose.
const PORT: u16 = 5201;
/// Bytes written and read at a time.
const PIECE_BYTES: usize = 64 << 10;
/// Time after which a socket checks whether the demo is over.
const CHECK_EVERY: Duration = Duration::from_millis(100);
const CONNECT_PATIENCE: Duration = Duration::from_secs(3);
/// Shortest time limit of the download, however late it is.
const PATIENCE_MIN: Duration = Duration::from_secs(3);

/// Sends as much as gets through in that time, from left to right.
pub fn push(stage: &Stage<'_>, time: Duration) -> Transfer {
    let begun = Transfer { what: "TCP".into(), way: "left to right".into(), ..Transfer::default() };
    let deadline = Instant::now() + time;
    let send = |mut stream: TcpStream| -> io::Result<()> {
        let piece = vec![b'.'; PIECE_BYTES];
        while Instant::now() < deadline && !stage.is_over() {
            write_some(&mut stream, &piece)?;
        }
        stream.shutdown(Shutdown::Write)
    };
    let receive = |stream: TcpStream| receive(stage, stream, deadline + CONNECT_PATIENCE, |_| ());
    finish(stage, begun, between(stage.left(), stage.right(), send, receive))
}

/// Downloads this program, from right to left.
pub fn pull(stage: &Stage<'_>, time: Duration) -> Transfer {
    let begun =
        Transfer { what: "a download (TCP)".into(), way: "right to left".into(), ..Transfer::default() };
    let file = program()
        .and_then(|path| Ok((File::open(&path).map_err(|error| error.to_string())?, Compared::with(&path)?)));
    let (mut file, mut compared) = match file {
        Ok(both) => both,
        Err(why) => return Transfer { failure: Some(why), ..begun },
    };
    let deadline = Instant::now() + time.max(PATIENCE_MIN);
    let send = |mut stream: TcpStream| -> io::Result<()> {
        let mut piece = vec![0; PIECE_BYTES];
        loop {
            let count = file.read(&mut piece)?;
            if count == 0 {
                return stream.shutdown(Shutdown::Write);
            }
            let mut rest = &piece[..count];
            while !rest.is_empty() {
                if stage.is_over() || Instant::now() > deadline {
                    return Err(ErrorKind::TimedOut.into());
                }
                rest = &rest[write_some(&mut stream, rest)?..];
            }
        }
    };
    let receive = |stream: TcpStream| receive(stage, stream, deadline, |bytes| compared.take(bytes));
    let result = between(stage.right(), stage.left(), send, receive);
    let arrived = result.is_ok();
    let mut transfer = finish(stage, begun, result);
    transfer.intact = arrived.then(|| compared.is_complete());
    transfer
}

fn finish(stage: &Stage<'_>, begun: Transfer, result: Result<(u64, Duration), String>) -> Transfer {
    match result {
        Ok((bytes, time)) => Transfer { bytes, seconds: time.as_secs_f64(), ..begun },
        Err(why) => Transfer { failure: Some(why), interrupted: stage.is_over(), ..begun },
    }
}

/// Connects a sender on one host to a receiver on the other and lets both do their work.
fn between(
    from: &Endpoint,
    to: &Endpoint,
    send: impl FnOnce(TcpStream) -> io::Result<()> + Send,
    receive: impl FnOnce(TcpStream) -> io::Result<(u64, Duration)>,
) -> Result<(u64, Duration), String> {
    let at = address(to, PORT);
    let listen = || TcpListener::bind(at);
    let listener = to.namespace.run(listen).map_err(|e| e.to_string())?.map_err(|e| e.to_string())?;
    let connect = || TcpStream::connect_timeout(&at, CONNECT_PATIENCE);
    let sender = from.namespace.run(connect).map_err(|e| e.to_string())?;
    let sender = sender.map_err(|error| format!("connecting to {at}: {error}"))?;
    let (receiver, _) = listener.accept().map_err(|error| error.to_string())?;
    thread::scope(|scope| {
        let sending = scope.spawn(move || {
            sender.set_write_timeout(Some(CHECK_EVERY))?;
            send(sender)
        });
        let received = receive(receiver).map_err(|error| format!("receiving: {error}"));
        match sending.join() {
            Ok(Ok(())) => received,
            Ok(Err(error)) => Err(format!("sending: {error}")),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

/// Bytes written; none when the socket had no room for a while.
fn write_some(stream: &mut TcpStream, bytes: &[u8]) -> io::Result<usize> {
    match stream.write(bytes) {
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(0),
        written => written,
    }
}

/// Reads to the end: how many bytes, and how long from the first to the last.
fn receive(
    stage: &Stage<'_>,
    mut stream: TcpStream,
    deadline: Instant,
    mut take: impl FnMut(&[u8]),
) -> io::Result<(u64, Duration)> {
    stream.set_read_timeout(Some(CHECK_EVERY))?;
    let mut piece = vec![0; PIECE_BYTES];
    let (mut bytes, began) = (0, Instant::now());
    loop {
        if stage.is_over() || Instant::now() > deadline {
            return Err(ErrorKind::TimedOut.into());
        }
        match stream.read(&mut piece) {
            Ok(0) => return Ok((bytes, began.elapsed())),
            Ok(count) => {
                take(&piece[..count]);
                bytes += count as u64;
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(error) => return Err(error),
        }
    }
}
