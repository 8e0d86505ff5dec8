//! The part of a hostile NF: a program that tries what an NF may not do and says what came of it, a line
//! each.

use std::ffi::CString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::net::{TcpListener, TcpStream};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::process::{Child, Command, Stdio};
use std::ptr;
use std::thread;
use std::time::Duration;

/// Plays a part. Ends with it.
pub fn play(part: &[&str]) {
    match part {
        ["calls"] => calls(),
        ["files", folder] => files(folder),
        ["network", socket] => network(socket),
        ["sibling", pid] => sibling(pid.parse().unwrap()),
        ["runtime"] => runtime(),
        ["children"] => children(),
        ["victim"] => victim(),
        other => panic!("no such part: {other:?}"),
    }
}

/// Says what came of an attempt: `NAME ok`, or the number of its error.
fn tell(name: &str, result: io::Result<()>) {
    match result {
        Ok(()) => println!("{name} ok"),
        Err(error) => println!("{name} {}", error.raw_os_error().unwrap_or(-1)),
    }
    io::stdout().flush().unwrap();
}

fn result(returned: libc::c_long) -> io::Result<()> {
    if returned < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Makes a system call by its number, with up to four arguments.
fn call(number: libc::c_long, arguments: [usize; 4]) -> io::Result<()> {
    let [a, b, c, d] = arguments;
    // SAFETY: every pointer among the arguments used here is null, and the kernel checks each.
    result(unsafe { libc::syscall(number, a, b, c, d, 0, 0) })
}

/// Every denied call, with arguments that would not do any harm if it were not. What is denied is denied
/// before its arguments are read.
fn calls() {
    const NOWHERE: usize = usize::MAX;
    let all: [(&str, libc::c_long, [usize; 4]); 33] = [
        ("unshare-user", libc::SYS_unshare, [libc::CLONE_NEWUSER as usize, 0, 0, 0]),
        ("unshare-net", libc::SYS_unshare, [libc::CLONE_NEWNET as usize, 0, 0, 0]),
        ("unshare-time", libc::SYS_unshare, [0x80, 0, 0, 0]),
        ("unshare-files", libc::SYS_unshare, [libc::CLONE_FILES as usize, 0, 0, 0]),
        ("setns", libc::SYS_setns, [NOWHERE, 0, 0, 0]),
        ("clone3", libc::SYS_clone3, [0, 0, 0, 0]),
        ("ptrace", libc::SYS_ptrace, [NOWHERE, NOWHERE, 0, 0]),
        ("process_vm_readv", libc::SYS_process_vm_readv, [NOWHERE, 0, 0, 0]),
        ("process_vm_writev", libc::SYS_process_vm_writev, [NOWHERE, 0, 0, 0]),
        ("pidfd_getfd", libc::SYS_pidfd_getfd, [NOWHERE, 0, 0, 0]),
        ("bpf", libc::SYS_bpf, [NOWHERE, 0, 0, 0]),
        ("perf_event_open", libc::SYS_perf_event_open, [0, 0, 0, NOWHERE]),
        ("add_key", libc::SYS_add_key, [0, 0, 0, 0]),
        ("request_key", libc::SYS_request_key, [0, 0, 0, 0]),
        ("keyctl", libc::SYS_keyctl, [NOWHERE, 0, 0, 0]),
        ("userfaultfd", libc::SYS_userfaultfd, [NOWHERE, 0, 0, 0]),
        ("sched_setaffinity", libc::SYS_sched_setaffinity, [0, 0, 0, 0]),
        ("sched_setscheduler", libc::SYS_sched_setscheduler, [0, NOWHERE, 0, 0]),
        ("sched_setattr", libc::SYS_sched_setattr, [0, 0, 0, 0]),
        ("setpriority", libc::SYS_setpriority, [NOWHERE, 0, 0, 0]),
        ("ioprio_set", libc::SYS_ioprio_set, [NOWHERE, 0, 0, 0]),
        ("io_uring_setup", libc::SYS_io_uring_setup, [0, 0, 0, 0]),
        ("io_uring_enter", libc::SYS_io_uring_enter, [NOWHERE, 0, 0, 0]),
        ("mount", libc::SYS_mount, [0, 0, 0, 0]),
        ("umount2", libc::SYS_umount2, [0, NOWHERE, 0, 0]),
        ("open_tree", libc::SYS_open_tree, [NOWHERE, 0, NOWHERE, 0]),
        ("fsopen", libc::SYS_fsopen, [0, NOWHERE, 0, 0]),
        ("kexec_load", libc::SYS_kexec_load, [0, 0, 0, NOWHERE]),
        ("finit_module", libc::SYS_finit_module, [NOWHERE, 0, 0, 0]),
        ("sethostname", libc::SYS_sethostname, [0, NOWHERE, 0, 0]),
        ("open_by_handle_at", libc::SYS_open_by_handle_at, [NOWHERE, 0, 0, 0]),
        ("x32-getpid", 0x4000_0000 | libc::SYS_getpid, [0, 0, 0, 0]),
        ("getpid", libc::SYS_getpid, [0, 0, 0, 0]),
    ];
    for (name, number, arguments) in all {
        tell(name, call(number, arguments));
    }
    // SAFETY: without a stack the child is a copy of this process; it ends at once.
    let pid = unsafe { libc::syscall(libc::SYS_clone, libc::CLONE_NEWUSER | libc::SIGCHLD, 0, 0, 0, 0) };
    if pid == 0 {
        // SAFETY: ends the copy.
        unsafe { libc::_exit(0) };
    }
    tell("clone-user", result(pid));
    // SAFETY: plain integers in; this process's own limits and rights.
    tell("setuid", result(unsafe { libc::setresuid(0, 0, 0) }.into()));
    tell("oom-score", fs::write("/proc/self/oom_score_adj", "-1000"));
}

fn files(folder: &str) {
    let new = |path: &str| OpenOptions::new().write(true).create(true).truncate(true).open(path).map(drop);
    // What could be made outside is not left there.
    let new_outside = |path: &str| new(path).and_then(|()| fs::remove_file(path));
    tell("read-etc", File::open("/etc/passwd").map(drop));
    tell("list-etc", fs::read_dir("/etc").map(drop));
    tell("write-etc", OpenOptions::new().append(true).open("/etc/hostname").map(drop));
    for (name, path) in [
        ("new-etc", "/etc/headgate-held"),
        ("new-tmp", "/tmp/headgate-held"),
        ("new-shm", "/dev/shm/headgate-held"),
    ] {
        tell(name, new_outside(path));
    }
    tell("write-null", new("/dev/null"));
    let beside = format!("{folder}-beside");
    let path = |name: &str| format!("{folder}/{name}");
    tell(
        "truncate-beside",
        CString::new(beside.as_str()).map_err(io::Error::from).and_then(|path| {
            // SAFETY: a string that ends.
            result(unsafe { libc::truncate(path.as_ptr(), 0) }.into())
        }),
    );
    tell("remove-beside", fs::remove_file(&beside));
    tell("new-there", new(&path("a")));
    tell("rename-there", fs::rename(path("a"), path("b")));
    tell("folder-there", fs::create_dir(path("c")));
    tell("move-out", fs::rename(path("b"), format!("{folder}-out")));
    tell("remove-there", fs::remove_file(path("b")));
}

fn network(socket: &str) {
    tell("tcp-bind", TcpListener::bind("127.0.0.1:0").map(drop));
    let connected = TcpStream::connect("127.0.0.1:9");
    // Refused by nobody listening is not refused by a rule.
    tell("tcp-connect", connected.map(drop));
    let sent = UnixDatagram::unbound().and_then(|datagram| {
        datagram.send_to_addr(b"hello", &SocketAddr::from_abstract_name(socket)?)?;
        Ok(())
    });
    tell("abstract", sent);
    let own = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(format!("{socket}-own")).unwrap());
    let own = own.and_then(|own| UnixDatagram::unbound()?.send_to_addr(b"me", &own.local_addr()?));
    tell("abstract-own", own.map(drop));
}

/// Opens the memory of a process, as a debugger does.
fn open_memory(pid: u32) -> io::Result<()> {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps"))?;
    let first = maps.lines().next().and_then(|line| line.split('-').next()).unwrap_or_default();
    let at = u64::from_str_radix(first, 16).map_err(io::Error::other)?;
    let mut memory = File::open(format!("/proc/{pid}/mem"))?;
    memory.seek(SeekFrom::Start(at))?;
    memory.read_exact(&mut [0; 4])
}

/// Attempts on another process of the same user.
fn sibling(pid: u32) {
    tell("sibling-memory", open_memory(pid));
    tell("sibling-files", OpenOptions::new().write(true).open(format!("/proc/{pid}/fd/1")).map(drop));
    // SAFETY: plain integers in; signal 0 only asks.
    tell("sibling-signal", result(unsafe { libc::kill(pid as i32, libc::SIGWINCH) }.into()));
    let mut child = sleeper();
    tell("child-memory", open_memory(child.id()));
    tell("child-signal", child.kill());
    child.wait().unwrap();
}

fn sleeper() -> Child {
    let child = Command::new("/bin/sleep").arg("1000").stdin(Stdio::null()).spawn().unwrap();
    // It is another program, dumpable again, before it is inspected.
    while fs::read_to_string(format!("/proc/{}/comm", child.id())).unwrap().trim() != "sleep" {
        thread::yield_now();
    }
    child
}

/// System calls of ordinary programs.
fn runtime() {
    let sum: u32 =
        (0..4).map(|number| thread::spawn(move || number)).map(|thread| thread.join().unwrap()).sum();
    tell("threads", if sum == 6 { Ok(()) } else { Err(io::ErrorKind::Other.into()) });
    tell("processes", Command::new("/bin/true").status().map(drop));
    tell("sleep", {
        thread::sleep(Duration::from_millis(1));
        Ok(())
    });
    // SAFETY: anonymous memory at an address that the kernel chooses, given back at once.
    let mapped = unsafe {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let at = libc::mmap(ptr::null_mut(), 4096, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0);
        libc::munmap(at, 4096)
    };
    tell("memory", result(mapped.into()));
}

/// Leaves processes behind: a child, one in a session of its own whose parent is gone, and one that forks on.
fn children() {
    let script = "sleep 1000 & setsid sh -c 'sleep 1000 & exit' & setsid setsid sleep 1000 & wait";
    Command::new("/bin/sh").args(["-c", script]).stdin(Stdio::null()).spawn().unwrap().wait().unwrap();
}

/// Holds still to be attacked.
fn victim() {
    println!("here");
    io::stdout().flush().unwrap();
    loop {
        thread::park();
    }
}
