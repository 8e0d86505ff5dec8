use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use super::*;
use crate::testing::{pid_of_nobody, skip};

/// Long enough for any process here to end; waiting ends with the process, not with this.
const PATIENCE: Duration = Duration::from_secs(60);

fn shell(script: &str) -> Launch {
    Launch {
        program: "/bin/sh".into(),
        arguments: vec!["-c".into(), script.into()],
        environment: vec![("PATH".into(), "/usr/bin:/bin".into())],
        stdin: File::open("/dev/null").unwrap().into(),
        stdout: Output::Null,
        stderr: Output::Null,
    }
}

#[test]
fn the_exit_code_comes_back_and_stays() {
    let mut child = shell("exit 7").spawn().unwrap();
    assert_eq!(child.wait().unwrap(), Exit::Code(7));
    assert_eq!(child.try_wait().unwrap(), Some(Exit::Code(7)));
    assert_eq!(child.wait().unwrap().to_string(), "exited with code 7");
    assert!(!child.is_alive().unwrap());
    child.signal(Signal::KILL).unwrap();
}

#[test]
fn a_killed_process_names_its_signal() {
    let mut child = shell("kill -SEGV $$").spawn().unwrap();
    assert_eq!(child.wait().unwrap().to_string(), "killed by SIGSEGV");
    let mut child = shell("exec sleep 1000").spawn().unwrap();
    assert_eq!(child.try_wait().unwrap(), None);
    assert!(child.is_alive().unwrap());
    child.signal(Signal::KILL).unwrap();
    let exit = child.wait_for(PATIENCE).unwrap();
    assert_eq!(exit, Some(Exit::Signal(libc::SIGKILL)));
}

#[test]
fn a_zombie_is_not_alive() {
    let mut child = shell("exit 0").spawn().unwrap();
    poll_end(child.as_fd(), PATIENCE).unwrap();
    assert_eq!(observe(child.pid()).unwrap().state, 'Z');
    assert!(!is_alive(child.pid()).unwrap());
    assert!(!child.is_alive().unwrap());
    assert!(child.wait().unwrap().is_success());
}

#[test]
fn the_child_gets_the_socket_as_stdin_and_nothing_else_of_ours() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    // A descriptor that a careless library left open for children.
    let careless = File::open("/dev/null").unwrap();
    rustix::io::fcntl_setfd(&careless, rustix::io::FdFlags::empty()).unwrap();
    // Read back through the same socket, since standard input is one.
    let launch = Launch {
        stdin: theirs.into(),
        ..shell("echo secret=$SECRET >&0; cd /proc/self/fd; echo * >&0; cat >&0")
    };
    let mut child = launch.spawn().unwrap();
    let mut ours = ours;
    ours.write_all(b"hello\n").unwrap();
    ours.shutdown(std::net::Shutdown::Write).unwrap();
    let mut said = String::new();
    ours.read_to_string(&mut said).unwrap();
    assert!(child.wait().unwrap().is_success());
    // The shell expands `*` itself and has the directory open while it does: one more than 0 1 2.
    assert_eq!(said, "secret=\n0 1 2 3\nhello\n");
}

#[test]
fn children_left_behind_end_with_their_group() {
    let (mut ours, theirs) = UnixStream::pair().unwrap();
    let script = "exec setsid sh -c 'sleep 1000 & echo $! >&0; exit 3'";
    let mut child = Launch { stdin: theirs.into(), ..shell(script) }.spawn().unwrap();
    let mut line = [0; 32];
    let length = ours.read(&mut line).unwrap();
    let left = std::str::from_utf8(&line[..length]).unwrap().trim().parse().unwrap();
    let left = Pid::from_raw(left).unwrap();
    poll_end(child.as_fd(), PATIENCE).unwrap();
    assert!(is_alive(left).unwrap());
    child.end_group().unwrap();
    while is_alive(left).unwrap() {
        std::thread::yield_now();
    }
    assert_eq!(child.wait().unwrap(), Exit::Code(3));
    child.end_group().unwrap();
}

/// Least of all does it end the group that we are in.
#[test]
fn a_child_that_leads_no_group_takes_nobody_with_it() {
    let mut child = shell("exit 0").spawn().unwrap();
    poll_end(child.as_fd(), PATIENCE).unwrap();
    child.end_group().unwrap();
    assert!(child.wait().unwrap().is_success());
}

#[test]
fn a_program_that_is_not_there_says_so() {
    let launch = Launch { program: "/no/such/program".into(), ..shell("") };
    let text = launch.spawn().unwrap_err().to_string();
    assert!(text.starts_with("cannot run /no/such/program: "), "{text}");
    assert!(text.contains("name a program that exists"), "{text}");
}

#[test]
fn work_shows_as_cpu_time_and_stopping_as_a_state() {
    let child = shell("while :; do :; done").spawn().unwrap();
    while cpu_time_ns(child.pid()).unwrap() < 1_000_000 {
        std::thread::yield_now();
    }
    let observation = observe(child.pid()).unwrap();
    assert!(observation.on_core_ns > 0, "{observation:?}");
    assert!(waiting_ns(rustix::process::getpid()).unwrap() >= observation.waiting_ns);
    child.signal(Signal::STOP).unwrap();
    while observe(child.pid()).unwrap().state != 'T' {
        std::thread::yield_now();
    }
    assert!(is_alive(child.pid()).unwrap());
    let mut child = child;
    child.signal(Signal::KILL).unwrap();
    assert_eq!(child.wait().unwrap(), Exit::Signal(libc::SIGKILL));
}

#[test]
fn a_process_that_is_gone_is_named() {
    let gone = pid_of_nobody();
    assert!(!is_alive(gone).unwrap());
    let errors = [cpu_time_ns(gone).unwrap_err(), observe(gone).unwrap_err(), open(gone).unwrap_err()];
    for error in errors {
        assert!(matches!(error, ProcessError::NoSuchProcess { .. }), "{error}");
    }
}

#[test]
fn a_name_with_brackets_and_newlines_does_not_confuse() {
    let status = "Name:\tState:\\nZ (x)\nUmask:\t0022\nState:\tS (sleeping)\n\
        voluntary_ctxt_switches:\t5\nnonvoluntary_ctxt_switches:\t6\n";
    assert_eq!(parse_status(status), Some(('S', 5, 6)));
    assert_eq!(parse_schedstat("12 34 5\n"), Some((12, 34)));
    assert_eq!(parse_schedstat(""), None);
}

/// A group of version 2 of one test; `None` where there can be none.
struct V2Group(PathBuf);

impl V2Group {
    fn new(test: &str) -> Option<(Self, File)> {
        use crate::cgroup::{Hierarchy, Version};
        let Some(found) = Hierarchy::all().into_iter().find(|one| one.version == Version::V2) else {
            skip("no control groups of version 2 here");
            return None;
        };
        let path = found.own.join(format!("headgate-{test}-{}", std::process::id()));
        if let Err(error) = std::fs::create_dir(&path) {
            skip(&format!("cannot make {}: {error}", path.display()));
            return None;
        }
        let opened = File::open(&path).unwrap();
        Some((Self(path), opened))
    }
}

impl Drop for V2Group {
    fn drop(&mut self) {
        let action = crate::undo::Action::RemoveGroupTree { path: self.0.clone() };
        action.perform_patiently().unwrap();
    }
}

#[test]
fn a_process_is_born_inside_a_group_and_is_else_as_any_other() {
    let Some((group, opened)) = V2Group::new("born") else { return };
    let said_by = |inside: bool| {
        let (mut ours, theirs) = UnixStream::pair().unwrap();
        let script = "grep ^0: /proc/self/cgroup >&0; grep SigBlk /proc/self/status >&0; \
                      echo $VALUE $0 $1 >&0; cd /proc/self/fd; echo * >&0; \
                      sed -n 's/SigIgn:\\t//p' /proc/self/status >&0; exit 7";
        let mut launch = Launch { stdin: theirs.into(), ..shell(script) };
        launch.arguments.extend(["name".into(), "two words".into()]);
        launch.environment.push(("VALUE".into(), "a=b".into()));
        let child = if inside { launch.spawn_inside(opened.as_fd()) } else { launch.spawn() };
        assert_eq!(child.unwrap().wait().unwrap(), Exit::Code(7));
        let mut said = String::new();
        ours.read_to_string(&mut said).unwrap();
        said.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let (inside, outside) = (said_by(true), said_by(false));
    assert!(inside[0].ends_with(group.0.file_name().unwrap().to_str().unwrap()), "{inside:?}");
    assert_eq!(inside[1..4], outside[1..4]);
    assert_eq!(inside[2..4], ["a=b name two words", "0 1 2 3"]);
    // Signals 32 and 33 are the C library's own.
    let ignored = |said: &[String]| u64::from_str_radix(&said[4], 16).unwrap() & 0x7fff_ffff;
    assert_eq!(ignored(&inside), ignored(&outside), "no more is ignored than what this process was told to");
}

#[test]
fn what_cannot_be_run_inside_a_group_is_told_and_leaves_nothing() {
    let Some((group, opened)) = V2Group::new("unborn") else { return };
    let launch = Launch { program: "/no/such/program".into(), ..shell("") };
    let error = launch.spawn_inside(opened.as_fd()).unwrap_err().to_string();
    assert!(error.starts_with("cannot run /no/such/program: No such file"), "{error}");
    let nowhere = File::open("/").unwrap();
    assert!(shell("").spawn_inside(nowhere.as_fd()).is_err(), "a folder is no group");
    assert_eq!(std::fs::read_to_string(group.0.join("cgroup.procs")).unwrap(), "");
}

/// The child borrows our memory: what other threads do to it meanwhile must not matter to either.
#[test]
fn threads_start_processes_inside_groups_at_the_same_time() {
    let Some((_group, opened)) = V2Group::new("many") else { return };
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let opened = &opened;
            scope.spawn(move || {
                for round in 0..25 {
                    let kept: Vec<String> =
                        (0..100).map(|number| format!("{thread} {round} {number}")).collect();
                    let code = (thread * 25 + round) % 120;
                    let mut child = shell(&format!("exit {code}")).spawn_inside(opened.as_fd()).unwrap();
                    assert_eq!(child.wait().unwrap(), Exit::Code(code));
                    assert!(kept.iter().enumerate().all(|(at, text)| text.ends_with(&format!(" {at}"))));
                }
            });
        }
    });
}
