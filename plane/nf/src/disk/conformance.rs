//! One suite for both engines: whatever carries a request out, it answers the same.

use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::Rotation;
use super::engine::{Action, Bell, Engine, Finished, Outcome, Request};
use super::threads::Threads;
use super::uring::Uring;

const PATIENCE: Duration = Duration::from_secs(20);

fn bell() -> Bell {
    let test = std::thread::current();
    Arc::new(move || test.unpark())
}

/// Every engine that can be had here.
fn each(test: impl Fn(&mut dyn Engine)) {
    test(&mut Threads::new(&bell(), super::threads::WORKERS).unwrap());
    match Uring::new(&bell()) {
        Ok(mut uring) => test(&mut uring),
        Err(error) => eprintln!("skipped: no io_uring here: {error}"),
    }
}

/// Sleeps until the bell rings, as an NF does, so a bell that does not ring is a test that fails.
fn next(engine: &mut dyn Engine) -> Finished {
    let started = Instant::now();
    loop {
        engine.start();
        if let Some(finished) = engine.take_finished() {
            return finished;
        }
        if !engine.has_finished() {
            std::thread::park_timeout(PATIENCE);
            assert!(started.elapsed() < PATIENCE, "{}: the bell did not ring", engine.name());
        }
    }
}

fn ask(engine: &mut dyn Engine, action: Action, buffer: Vec<u8>) -> Finished {
    engine.submit(Request { ticket: 7, action, buffer });
    let finished = next(engine);
    assert_eq!(finished.request.ticket, 7);
    finished
}

fn bytes(finished: &Finished, engine: &dyn Engine) -> usize {
    match &finished.result {
        Ok(Outcome::Bytes(bytes)) => *bytes,
        Ok(Outcome::File(_)) => panic!("{}: a file came", engine.name()),
        Err(error) => panic!("{}: {error}", engine.name()),
    }
}

fn error(finished: Finished, engine: &dyn Engine) -> std::io::Error {
    finished.result.err().unwrap_or_else(|| panic!("{}: no error", engine.name()))
}

fn write(file: &Arc<File>, offset: u64, range: std::ops::Range<usize>) -> Action {
    Action::Write { file: file.clone(), offset, range }
}

fn read(file: &Arc<File>, offset: u64) -> Action {
    Action::Read { file: file.clone(), offset }
}

#[test]
fn what_is_written_is_read_again() {
    each(|engine| {
        let file = Arc::new(tempfile::tempfile().unwrap());
        let done = ask(engine, write(&file, 3, 2..6), b"..abcd..".to_vec());
        assert_eq!(bytes(&done, engine), 4);
        let done = ask(engine, read(&file, 4), vec![9; 2]);
        assert_eq!((bytes(&done, engine), &done.request.buffer[..]), (2, &b"bc"[..]));
        // Beyond the end less is there, and then nothing.
        let done = ask(engine, read(&file, 5), vec![9; 100]);
        assert_eq!((bytes(&done, engine), &done.request.buffer[..3]), (2, &b"cd\x09"[..]));
        let done = ask(engine, read(&file, 50), vec![9; 100]);
        assert_eq!(bytes(&done, engine), 0);
    });
}

#[test]
fn many_are_under_way_and_each_comes_back_once() {
    each(|engine| {
        let file = Arc::new(tempfile::tempfile().unwrap());
        let numbers: Vec<u8> = (0..=255).collect();
        file.write_all_at(&numbers, 0).unwrap();
        for number in 0..=255u64 {
            engine.submit(Request { ticket: number, action: read(&file, number), buffer: vec![0] });
        }
        let mut seen = [false; 256];
        for _ in 0..=255 {
            let finished = next(engine);
            let ticket = finished.request.ticket as usize;
            assert_eq!((bytes(&finished, engine), finished.request.buffer[0] as usize), (1, ticket));
            assert!(!std::mem::replace(&mut seen[ticket], true), "{}: {ticket} twice", engine.name());
        }
        assert!(!engine.has_finished());
    });
}

#[test]
fn a_disk_s_errors_are_answers() {
    each(|engine| {
        let full = Arc::new(File::options().write(true).open("/dev/full").unwrap());
        let failed = ask(engine, write(&full, 0, 0..5), b"bytes".to_vec());
        assert_eq!(error(failed, engine).kind(), ErrorKind::StorageFull);
        // No page of a process is at its address 0, which this file reports as a failure of the device.
        let broken = Arc::new(File::open("/proc/self/mem").unwrap());
        let failed = ask(engine, read(&broken, 0), vec![0; 5]);
        assert_eq!(error(failed, engine).raw_os_error(), Some(libc::EIO));
        let folder = Arc::new(File::open("/tmp").unwrap());
        let failed = ask(engine, read(&folder, 0), vec![0; 5]);
        assert_eq!(error(failed, engine).kind(), ErrorKind::IsADirectory);
        let failed = ask(engine, write(&folder, 0, 0..5), vec![0; 5]);
        assert_eq!(error(failed, engine).raw_os_error(), Some(libc::EBADF));
    });
}

#[test]
fn a_turn_makes_a_file_cuts_one_and_removes_another() {
    each(|engine| {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        std::fs::write(path("oldest"), "x").unwrap();
        std::fs::write(path("next"), "what an earlier run left").unwrap();
        let torn = Arc::new(File::create(path("torn")).unwrap());
        torn.write_all_at(b"whole and ha", 0).unwrap();
        let rotation = |remove: &Path, make: &Path| Action::Rotation {
            rotation: Rotation {
                make: make.to_owned(),
                head: b"head ".to_vec(),
                remove: Some(remove.to_owned()),
            },
            cut: Some((torn.clone(), 5)),
        };
        let done = ask(engine, rotation(&path("oldest"), &path("next")), Vec::new());
        let Ok(Outcome::File(file)) = done.result else { panic!("{}: no file", engine.name()) };
        file.write_all_at(b"new", 5).unwrap();
        assert!(!path("oldest").exists());
        assert_eq!(std::fs::read(path("next")).unwrap(), b"head new");
        assert_eq!(std::fs::read(path("torn")).unwrap(), b"whole");
        let failed = ask(engine, rotation(&path("not there"), Path::new("/dev/full")), Vec::new());
        assert_eq!(error(failed, engine).kind(), ErrorKind::StorageFull);
        let failed = ask(engine, rotation(&path("not there"), &path("no/such/folder")), Vec::new());
        assert_eq!(error(failed, engine).kind(), ErrorKind::NotFound);
    });
}

/// Requests that nobody waits for any more end without harm to whoever made them.
#[test]
fn an_engine_may_end_in_the_middle() {
    each(|engine| {
        let file = Arc::new(tempfile::tempfile().unwrap());
        for _ in 0..16 {
            let buffer = vec![1; 1 << 20];
            engine.submit(Request { ticket: 1, action: write(&file, 0, 0..1 << 20), buffer });
        }
        engine.start();
    });
}
