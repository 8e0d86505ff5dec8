//! DPDK's environment layer (EAL), started once, when the first device is opened.
//!
//! Its start, and the reasons:
//! - without huge pages (`--no-huge`): packets live in the packet region, which has its own, and mbufs
//!   in memory of ours; the layer's heap only holds what drivers keep beside;
//! - without files shared with other DPDK processes (`--no-shconf`) and without telemetry: nothing to
//!   leave behind and nobody to attach;
//! - with addresses for devices equal to ours (`--iova-mode=va`): the region is not contiguous in
//!   physical memory;
//! - without the PCI bus, unless a port is on it, and then with that device only: a driver takes
//!   every device it knows that is bound to vfio;
//! - on all processors the caller may run on: the layer pins the thread that starts it and the threads
//!   it makes, and threads made by a pinned thread are pinned too. A thread of its own takes all that.

use std::ffi::{CStr, CString, c_char, c_int};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use rustix::thread::CpuSet;

use crate::error::DpdkError;
use crate::log::{self, Said};
use crate::{ffi, files};

/// Memory of the environment layer's heap in MiB. Our choice: an af_packet queue takes 0.2 MiB of it,
/// a device's rings up to 1 MiB; what is not used is never touched.
const HEAP_MIB: u32 = 128;

enum State {
    Never,
    Running { pci: bool },
    Failed { cause: String, said: Said },
}

static STATE: Mutex<State> = Mutex::new(State::Never);

/// Whether the environment layer runs.
#[must_use]
pub fn is_running() -> bool {
    matches!(*STATE.lock().unwrap_or_else(PoisonError::into_inner), State::Running { .. })
}

/// Starts the environment layer unless it runs. `pci` holds the description of the first device when
/// that is on the PCI bus.
pub(crate) fn ensure(pci: Option<&str>) -> Result<(), DpdkError> {
    let mut state = STATE.lock().unwrap_or_else(PoisonError::into_inner);
    if matches!(*state, State::Never) {
        *state = start(pci);
    }
    match (&*state, pci) {
        (State::Running { pci: false }, Some(device)) => Err(DpdkError::NoPci { device: device.to_owned() }),
        (State::Failed { cause, said }, _) => {
            Err(DpdkError::NotStarted { cause: cause.clone(), said: said.clone() })
        }
        _ => Ok(()),
    }
}

fn start(pci: Option<&str>) -> State {
    log::catch();
    let arguments = arguments(pci);
    let thread = std::thread::Builder::new().name("dpdk-start".to_owned());
    let ((outcome, _), said) = log::during(|| {
        files::opened_during(|| match thread.spawn(move || initialise(arguments)).map(|it| it.join()) {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(_)) => Err("the thread that starts it panicked".to_owned()),
            Err(cause) => Err(format!("no thread to start it in: {cause}")),
        })
    });
    remove_runtime_folder();
    match outcome {
        Ok(()) => State::Running { pci: pci.is_some() },
        Err(cause) => State::Failed { cause, said },
    }
}

fn arguments(pci: Option<&str>) -> Vec<CString> {
    let process = std::process::id();
    let mut arguments: Vec<String> =
        ["headgate", "--no-huge", "--no-shconf", "--no-telemetry", "--iova-mode=va"]
            .map(str::to_owned)
            .to_vec();
    arguments.push(format!("--file-prefix=headgate-{process}"));
    arguments.push(format!("-m{HEAP_MIB}"));
    arguments.push(format!("--lcores=0@({})", processors()));
    arguments.push(pci.map_or_else(|| "--no-pci".to_owned(), |device| format!("--allow={device}")));
    arguments.into_iter().filter_map(|argument| CString::new(argument).ok()).collect()
}

/// The processors this thread may run on, as EAL lists them.
fn processors() -> String {
    let allowed = rustix::thread::sched_getaffinity(None).unwrap_or_else(|_| {
        let mut first = CpuSet::new();
        first.set(0);
        first
    });
    let list: Vec<String> =
        (0..CpuSet::MAX_CPU).filter(|&cpu| allowed.is_set(cpu)).map(|cpu| cpu.to_string()).collect();
    list.join(",")
}

fn initialise(arguments: Vec<CString>) -> Result<(), String> {
    block_ordinary_signals();
    // EAL keeps pointers into its arguments for as long as the process lives.
    let arguments: &'static mut [*mut c_char] =
        Box::leak(arguments.into_iter().map(CString::into_raw).chain([std::ptr::null_mut()]).collect());
    let count = arguments.len() as c_int - 1;
    // SAFETY: `count` strings that are never freed, ended by a null pointer as `main`'s are.
    let taken = unsafe { ffi::rte_eal_init(count, arguments.as_mut_ptr()) };
    if taken >= 0 {
        // SAFETY: drivers are loaded by now; sets function pointers of their libraries.
        unsafe { ffi::hg_log_bpf() };
        return Ok(());
    }
    // SAFETY: reads this thread's error number.
    let error = unsafe { ffi::hg_errno() };
    // SAFETY: returns a string that stays valid until this thread's next call.
    Err(unsafe { CStr::from_ptr(ffi::rte_strerror(error)) }.to_string_lossy().into_owned())
}

/// EAL's threads inherit this, so that SIGTERM and its like reach the threads of ours that expect them.
/// Real-time signals stay open: the tap driver sends itself one for each packet that waits. So do those
/// that tell of a fault in the thread itself.
fn block_ordinary_signals() {
    const FAULTS: [i32; 5] = [libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGSEGV, libc::SIGTRAP];
    // SAFETY: fills and installs a signal mask of this thread, which ends soon.
    unsafe {
        let mut mask: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut mask);
        for signal in (1..libc::SIGRTMIN()).filter(|signal| !FAULTS.contains(signal)) {
            libc::sigaddset(&raw mut mask, signal);
        }
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const mask, std::ptr::null_mut());
    }
}

/// The folder that EAL makes in this process when it starts (`eal_create_runtime_dir` of DPDK 22.11).
/// It is removed again at once; a process that is killed in between leaves it, empty, and whoever tidies
/// up after it has to know.
#[must_use]
pub fn runtime_folder() -> PathBuf {
    let named = |name| std::env::var_os(name).map(PathBuf::from);
    let base = named("RUNTIME_DIRECTORY").unwrap_or_else(|| match rustix::process::getuid().is_root() {
        true => PathBuf::from("/var/run"),
        false => named("XDG_RUNTIME_DIR").unwrap_or_else(|| PathBuf::from("/tmp")),
    });
    base.join("dpdk").join(format!("headgate-{}", std::process::id()))
}

/// EAL makes a folder for files it shares with other processes even when told to share none.
fn remove_runtime_folder() {
    // SAFETY: returns a string of EAL's configuration, empty before the folder was chosen.
    let folder = unsafe { CStr::from_ptr(ffi::rte_eal_get_runtime_dir()) };
    let folder = PathBuf::from(folder.to_string_lossy().into_owned());
    debug_assert!(folder.as_os_str().is_empty() || folder == runtime_folder());
    let ours = |path: &Path| path.ends_with(format!("headgate-{}", std::process::id()));
    if ours(&folder) && std::fs::remove_dir(&folder).is_ok() {
        // Only goes when no other DPDK process has a folder there.
        if let Some(all) = folder.parent() {
            let _ = std::fs::remove_dir(all);
        }
    }
}
