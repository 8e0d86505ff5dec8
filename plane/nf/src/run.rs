//! From `main` to the burst loop and back: attach, make the NF, work, say goodbye.

use std::cell::{Cell, OnceCell, RefCell};
use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::rc::Rc;
use std::sync::Arc;

use headgate_session::arguments::ArgumentError;
use headgate_session::kernel_io::KernelIo;
use headgate_session::message::FromNf;
use headgate_shm::MemoryError;

use crate::arguments::refused;
use crate::burst_loop::{BurstLoop, End, LoopError, TERMINATED};
use crate::clock::Clock;
use crate::context::{Context, Environment, Names, Outbox};
use crate::counter::Board;
use crate::disk::engine::{Bell, EngineChoice};
use crate::disk::requests::DiskAccess;
use crate::fuse::{Fused, Member};
#[cfg(feature = "kernel-io")]
use crate::kernel_loop::KernelLoop;
use crate::maker::{Lent, Made};
use crate::robust::Robust;
use crate::standby::{self, Waited};
use crate::state::StateAccess;
use crate::state::core::Core;
use crate::{NetworkFunction, NfError};
use headgate_session::attach::{AttachError, Attached, Connection};

/// Error that ends a process of NFs.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// It did not get its memory.
    #[error("{0}")]
    Attach(#[from] AttachError),
    /// The NF would not start: mostly for its arguments.
    #[error("{name} cannot start: {reason}")]
    Start {
        /// The instance's name.
        name: String,
        /// The NF's error.
        reason: String,
        /// The arguments that it refuses; empty when it could not start for something else.
        refused: Vec<ArgumentError>,
    },
    /// The NF panicked. Its panic message went to standard error and to the manager.
    #[error("{name} panicked: {message}")]
    Panic {
        /// The instance's name.
        name: String,
        /// The panic's message and place.
        message: String,
    },
    /// The manager went away or broke the rules.
    #[error("{name} ends: {reason}")]
    Manager {
        /// The instance's name.
        name: String,
        /// The error.
        reason: String,
    },
}

impl RunError {
    /// The process's exit code: 1 failed, 3 environment, 4 configuration.
    #[must_use]
    pub const fn exit_code(&self) -> u8 {
        match self {
            Self::Attach(AttachError::Refused { .. }) | Self::Start { .. } => 4,
            Self::Attach(AttachError::Terminated) => 1,
            Self::Attach(_) => 3,
            Self::Panic { .. } | Self::Manager { .. } => 1,
        }
    }
}

/// Attaches several NFs in one process, as the environment says.
pub fn run_fused(members: Vec<Member>) -> ExitCode {
    heed_signals();
    conclude(
        Connection::from_environment()
            .map_err(RunError::from)
            .and_then(|connection| serve_fused(connection, members)),
    )
}

/// A process's last step: says on standard error what went wrong, if anything did.
pub fn conclude(ended: Result<End, RunError>) -> ExitCode {
    match ended {
        Ok(_) => ExitCode::SUCCESS,
        Err(trouble) => {
            eprintln!("{trouble}");
            ExitCode::from(trouble.exit_code())
        }
    }
}

/// Runs an NF over a connection until it is stopped. For programs that are more than an NF; [`crate::run`] is
/// the usual way. Signals are left as they are: see [`heed_signals`].
///
/// # Errors
/// [`RunError`]; the manager was told the reason where it still listens.
pub fn serve<N: NetworkFunction + 'static>(
    connection: Connection,
    build: impl FnOnce(&mut Context) -> Result<N, NfError>,
) -> Result<End, RunError> {
    serve_nfs(connection, |environment, arguments| Fused::alone(environment, arguments, build))
}

/// As [`serve`], for several NFs in one process.
///
/// # Errors
/// As [`serve`].
pub fn serve_fused(connection: Connection, members: Vec<Member>) -> Result<End, RunError> {
    serve_nfs(connection, |environment, arguments| Fused::together(environment, arguments, members))
}

fn serve_nfs(
    connection: Connection,
    make: impl FnOnce(&Rc<Environment>, &str) -> Result<Fused, NfError>,
) -> Result<End, RunError> {
    let attached = Rc::new(connection.attach(&TERMINATED)?);
    remember_panics();
    let lived =
        catch_unwind(AssertUnwindSafe(|| live(&attached, make))).unwrap_or_else(|_| Err(panicked(&attached)));
    say_goodbye(&attached, lived.as_ref().err());
    lived
}

/// Says goodbye, with the error that ends the process, if one does.
pub(crate) fn say_goodbye(attached: &Attached, error: Option<&RunError>) {
    let refused = match error {
        Some(RunError::Start { refused, .. }) => &refused[..],
        _ => &[],
    };
    attached.say_goodbye(error.map(ToString::to_string).unwrap_or_default(), refused);
}

/// Returns the error of NFs that have just panicked.
pub(crate) fn panicked(attached: &Attached) -> RunError {
    let message = LAST_PANIC.take();
    RunError::Panic { name: attached.welcome.name.clone(), message }
}

fn live(
    attached: &Rc<Attached>,
    make: impl FnOnce(&Rc<Environment>, &str) -> Result<Fused, NfError>,
) -> Result<End, RunError> {
    let ended = |error: LoopError| lost_manager(attached.welcome.name.clone(), &error);
    let (environment, mut nfs) = settle(attached, false, make)?;
    let Some((io, sockets)) = attached.welcome.kernel.as_ref().zip(attached.interfaces.take()) else {
        say_ready(attached, &environment, &nfs).map_err(ended)?;
        return on_rings(attached, &environment, nfs).map_err(ended);
    };
    on_interfaces(attached, &environment, &mut nfs, io, sockets)
}

/// Makes the NFs and their surroundings.
pub(crate) fn settle(
    attached: &Attached,
    is_resident: bool,
    make: impl FnOnce(&Rc<Environment>, &str) -> Result<Fused, NfError>,
) -> Result<(Rc<Environment>, Fused), RunError> {
    let name = || attached.welcome.name.clone();
    let environment = environment(attached).map_err(|error| RunError::Attach(error.into()))?;
    if is_resident {
        environment.disk.refuse();
    }
    let environment = Rc::new(environment);
    let nfs = make(&environment, &attached.welcome.arguments).map_err(|error| start_error(name(), &error))?;
    // An NF that did not ask by now never will be lent any.
    environment.making.take();
    environment.tell_counters().map_err(|error| lost_manager(name(), &error.into()))?;
    Ok((environment, nfs))
}

/// Says that NFs on rings are ready.
pub(crate) fn say_ready(
    attached: &Attached,
    environment: &Environment,
    nfs: &Fused,
) -> Result<(), LoopError> {
    let lend = environment.made.get().map_or(0, |made| made.borrow().asked());
    let state = environment.state.get().and_then(|state| state.start());
    let ready = FromNf::Ready { lend, answers: true, state, takes_long: nfs.takes_long_frames() };
    Ok(attached.say(&ready)?)
}

/// Returns the error of NFs whose manager is gone or broke the rules.
pub(crate) fn lost_manager(name: String, error: &LoopError) -> RunError {
    RunError::Manager { name, reason: error.to_string() }
}

/// Works on its rings; where it has a standby or is one, its end is seen at once.
fn on_rings(attached: &Rc<Attached>, environment: &Rc<Environment>, nfs: Fused) -> Result<End, LoopError> {
    let is_one_of_two = environment.state.get().is_some_and(|state| state.saves_packets());
    let robust = if is_one_of_two { Robust::of_this_thread(&attached.side) } else { None };
    let end = work_on_rings(attached, environment, nfs)?;
    if let Some(robust) = robust {
        robust.release();
    }
    Ok(end)
}

/// Works on its rings; a standby waits before.
fn work_on_rings(
    attached: &Rc<Attached>,
    environment: &Rc<Environment>,
    nfs: Fused,
) -> Result<End, LoopError> {
    let (mut first_alone, mut early) = (0, Vec::new());
    if let Some(state) = environment.state.get().filter(|state| state.is_standby()) {
        match standby::wait(attached, state)? {
            Waited::Goes { alone, messages } => (first_alone, early) = (alone, messages),
            Waited::Ended(end) => return Ok(end),
        }
    }
    let mut work = BurstLoop::new(attached, environment, nfs);
    work.work_alone(first_alone)?;
    work.hear_early(&early)?;
    work.run()
}

fn start_error(name: String, error: &NfError) -> RunError {
    RunError::Start { name, reason: error.to_string(), refused: refused(&**error) }
}

/// Works on interfaces of the kernel in place of rings.
#[cfg(feature = "kernel-io")]
fn on_interfaces(
    attached: &Attached,
    environment: &Environment,
    nfs: &mut Fused,
    io: &KernelIo,
    sockets: [OwnedFd; 2],
) -> Result<End, RunError> {
    let name = || attached.welcome.name.clone();
    let ended = |reason: String| RunError::Manager { name: name(), reason };
    let failed = |reason: String| RunError::Start { name: name(), reason, refused: Vec::new() };
    let mut work = KernelLoop::new(attached, environment, nfs, io, sockets).map_err(failed)?;
    attached
        .say(&FromNf::Ready { lend: 0, answers: true, state: None, takes_long: false })
        .map_err(|error| ended(LoopError::from(error).to_string()))?;
    work.run().map_err(|error| ended(error.to_string()))
}

/// The same where the program cannot.
#[cfg(not(feature = "kernel-io"))]
fn on_interfaces(
    attached: &Attached,
    _: &Environment,
    _: &mut Fused,
    _: &KernelIo,
    _: [OwnedFd; 2],
) -> Result<End, RunError> {
    let reason = "it stands in a chain with `io`, and was built without the feature `kernel-io` of headgate-nf; \
                  build it with that feature, or take it out of the chain";
    let name = attached.welcome.name.clone();
    Err(RunError::Start { name, reason: reason.to_owned(), refused: Vec::new() })
}

pub(crate) fn environment(attached: &Attached) -> Result<Environment, MemoryError> {
    let state = match (attached.state.take(), &attached.welcome.state) {
        (Some(memory), Some(told)) => StateAccess::kept(Core::kept(memory, told)?),
        _ => StateAccess::default(),
    };
    let doorbell = attached.side.bell();
    let bell: Bell = Arc::new(move || doorbell.ring());
    let lent = match &attached.welcome.kernel {
        Some(_) => Lent::Own(Vec::new()),
        None => Lent::Ring(attached.side.lend_consumer()),
    };
    Ok(Environment {
        state,
        chains: Some(attached.welcome.chains.clone()),
        made: OnceCell::new(),
        making: RefCell::new(Some(Made::new(Some(attached.region.clone()), lent))),
        name: attached.welcome.name.clone(),
        ports: Names::known("port", attached.welcome.ports.clone()),
        stages: Names::known("stage", attached.welcome.stages.clone()),
        clock: Clock::machine(),
        board: Rc::new(Board::shared(attached.side.clone())),
        outbox: Outbox::Manager(attached.socket.clone()),
        counters_told: Cell::new(0),
        answer: RefCell::new(None),
        disk: DiskAccess::new(Some(bell), EngineChoice::Best),
        window: attached.welcome.ring as usize,
        frame_bytes_max: match &attached.welcome.kernel {
            Some(io) => io.frame_bytes as usize,
            None => attached.region.geometry().stride() as usize,
        },
    })
}

thread_local! {
    /// Message and place of the last panic of this thread.
    static LAST_PANIC: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Keeps a panic's message for the goodbye; printing it stays with the hook that is there.
pub(crate) fn remember_panics() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        let print = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            let place = panic.location().map(|place| format!(" at {place}")).unwrap_or_default();
            LAST_PANIC.set(format!("{}{place}", panic.payload_as_str().unwrap_or("without a message")));
            print(panic);
        }));
    });
}

/// Makes SIGTERM and SIGINT end every burst loop of this process as an order to stop does. [`crate::run`]
/// does so.
pub fn heed_signals() {
    extern "C" fn note(_: libc::c_int) {
        TERMINATED.store(true, std::sync::atomic::Ordering::Relaxed);
    }
    for signal in [libc::SIGTERM, libc::SIGINT] {
        // SAFETY: zeroed is a valid `sigaction`; the handler only stores to an atomic.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = note as *const () as usize;
            libc::sigaction(signal, &raw const action, std::ptr::null_mut());
        }
    }
}
