//! Output of processes that behave and of some that do not, read by the real thread.

use std::fs::File;
use std::io::Write;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::*;

const PATIENCE: Duration = Duration::from_secs(60);

fn texts(kept: &Kept, name: &str) -> Vec<String> {
    let logs = kept.last(name, usize::MAX, 0).map(|logs| logs.lines).unwrap_or_default();
    logs.into_iter().map(|line| line.text).collect()
}

fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < PATIENCE, "not so: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn both_streams_of_a_process_become_lines_in_their_order() {
    let kept = Arc::<Kept>::default();
    let mut outputs = Outputs::start(kept.clone(), None).unwrap();
    let (tap, theirs) = outputs.open("fw", "fw.1").unwrap();
    let errors = theirs.try_clone().unwrap();
    let mut command = Command::new("/bin/sh");
    command.args(["-c", "echo one; echo two >&2; printf three"]).stdout(theirs).stderr(errors);
    assert!(command.status().unwrap().success());
    drop((command, tap));
    eventually("the last line is there", || texts(&kept, "fw").len() == 3);
    assert_eq!(texts(&kept, "fw.1"), ["one", "two", "three"]);
}

#[test]
fn a_flood_never_stops_and_is_left_out_but_for_its_budget() {
    let kept = Arc::<Kept>::default();
    let mut outputs = Outputs::start(kept.clone(), None).unwrap();
    let (tap, theirs) = outputs.open("flood", "flood").unwrap();
    let (quiet, words) = outputs.open("quiet", "quiet").unwrap();
    let mut flood = File::from(theirs);
    const LINES: usize = 200_000;
    for _ in 0..LINES {
        flood.write_all(b"wretched\n").unwrap();
    }
    File::from(words).write_all(b"heard\n").unwrap();
    drop((flood, tap, quiet));
    drop(outputs);
    assert_eq!(texts(&kept, "quiet"), ["heard"]);
    let lines = texts(&kept, "flood");
    let last = lines.last().unwrap();
    assert!(last.contains("lines left out"), "{last}");
    let is_note = |line: &&String| line.contains("left out");
    let counted: usize = kept_counts(&lines);
    assert!(lines.iter().filter(is_note).count() >= 1);
    assert!(counted <= LINES && counted > LINES / 2, "{counted}");
}

/// Returns the number of lines that the notes speak of.
fn kept_counts(lines: &[String]) -> usize {
    let count = |line: &String| line.strip_prefix('[')?.split(' ').next()?.parse::<usize>().ok();
    lines.iter().filter_map(count).sum()
}

#[test]
fn children_that_hold_a_pipe_keep_nobody_waiting() {
    let kept = Arc::<Kept>::default();
    let mut outputs = Outputs::start(kept.clone(), None).unwrap();
    let (tap, theirs) = outputs.open("fw", "fw").unwrap();
    let mut command = Command::new("/bin/sh");
    // The child lives until somebody closes its input.
    command.args(["-c", "echo parent; cat & exit 0"]).stdin(Stdio::piped());
    let errors = theirs.try_clone().unwrap();
    let mut parent = command.stdout(theirs).stderr(errors).spawn().unwrap();
    drop(command);
    // What keeps the child alive; the shell's end would be its own.
    let input = parent.stdin.take();
    parent.wait().unwrap();
    drop(tap);
    drop(outputs);
    assert_eq!(texts(&kept, "fw"), ["parent"]);
    drop(input);
}

#[test]
fn a_pipe_that_nobody_left_open_is_no_reason_to_spin_and_the_next_process_is_heard() {
    let kept = Arc::<Kept>::default();
    let mut outputs = Outputs::start(kept.clone(), None).unwrap();
    let (first, theirs) = outputs.open("fw", "fw").unwrap();
    drop(theirs);
    let (_second, theirs) = outputs.open("fw", "fw").unwrap();
    let mut file = File::from(theirs);
    file.write_all(b"\xff\x1b[2J\n").unwrap();
    eventually("it is heard", || texts(&kept, "fw") == ["\u{fffd}\u{fffd}[2J"]);
    drop(first);
    file.write_all(b"again\n").unwrap();
    eventually("it is still heard", || texts(&kept, "fw").len() == 2);
}
