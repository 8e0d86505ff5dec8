//! `headgate-manager`: the daemon, one manager in a process of its own.
//!
//! It reads and checks its configuration, starts the manager, reports when NFs are in service and what
//! happens, reads its file again at SIGHUP, and stops in order when it is asked to: by a signal, by `headgate
//! down`, or by the end of its attendant or its terminal.
//!
//! - [`cluster`]: the agent that agrees with other nodes in a store;
//! - [`attendance`]: the process that started it and holds its standard input, if it is attended;
//! - [`messages`]: its messages on standard error;
//! - [`reload`]: reading its file again;
//! - [`warnings`]: power that will be lost, told by a signal or a file;
//! - [`about`]: its version, libraries and manual page.

mod about;
mod attendance;
mod cluster;
mod messages;
mod reload;
mod warnings;

use std::fmt::Display;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::{CommandFactory as _, Parser};
use headgate_api::attendance::{Failed, Ready, Said, Text};
use headgate_api::status::Snapshot;
use headgate_api::{Exit, Request, RequestError, place, progress};
use headgate_cluster::Agent;
use headgate_config::{self as config, Catalog, Config, Diagnostics, Loaded, Machine};
use headgate_host::cores;
use headgate_host::notify::Notifier;
use headgate_host::perf::kept;
use headgate_host::programs::Program;
use headgate_host::signals::{self, Hangups, Wish};
use headgate_host::stop::Stop;
use headgate_host::undo::{Action, Janitor};
use headgate_manager::log::Log;
use headgate_manager::record::{self, RecordStop, Recording};
use headgate_manager::{Handle, Manager, Options};
use headgate_units::text;

use attendance::{Attendance, Voice};
use messages::Messages;
use reload::{Reloads, Source};
use warnings::Power;

/// Time between two checks whether the manager has ended by itself.
const END_CHECK_EVERY: Duration = Duration::from_millis(50);
/// Time between two reports of events.
const EVENTS_EVERY: Duration = Duration::from_secs(1);
/// Name of standard input as a file.
const STANDARD_INPUT: &str = "-";

/// Run chains of network functions by one configuration until stopped
///
/// SIGTERM and SIGINT stop it in order: packets inside leave, no new ones are taken in, NFs end. The second
/// signal ends it at once. Every end, `kill -9` included, undoes all changes to the machine. SIGHUP has it
/// read its file again and apply it as `headgate apply` does; a file that cannot be applied changes nothing
/// and is an event. Started in a terminal that is then closed, it stops. `headgate up` runs it for a
/// person; as a service it runs by itself.
#[derive(Debug, Parser)]
#[command(name = "headgate-manager", version, max_term_width = 100)]
struct Args {
    /// Configuration file; `-` is standard input
    #[arg(required_unless_present_any = ["about", "man"])]
    file: Option<PathBuf>,
    /// Run the part of this node of a configuration for several
    #[arg(long, value_name = "NAME")]
    node: Option<String>,
    /// Take requests from standard input, a Unix stream socket, and stop in order at its end
    #[arg(long)]
    attended: bool,
    /// Take no place in /run/headgate, so that no command finds this manager
    #[arg(long)]
    unlisted: bool,
    /// End when all ports have delivered their last packet and all packets have left, as after a replay
    #[arg(long)]
    once: bool,
    /// Tell errors only, and keep NFs from writing to standard error
    #[arg(long)]
    quiet: bool,
    /// Write what policies saw and did to this new file, at most 1 GiB of JSON lines
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Begin time slices without the costs of NFs that `headgate profile nf` measured
    #[arg(long)]
    without_costs: bool,
    /// Follow the manager of this name that runs: prepare everything, take over its interfaces and what its
    /// NFs keep, and serve in its place (`headgate upgrade`)
    #[arg(long, conflicts_with_all = ["unlisted", "once"])]
    follow: bool,
    /// Print version and libraries as a JSON document, and do nothing else
    #[arg(long)]
    about: bool,
    /// Write the manual page into this folder, for packages
    #[arg(long, hide = true, value_name = "FOLDER")]
    man: Option<PathBuf>,
}

fn main() -> ExitCode {
    let args = Args::parse();
    if let Some(folder) = &args.man {
        return about::manual(Args::command(), folder);
    }
    let Some(file) = args.file.as_deref().filter(|_| !args.about) else { return about::print() };
    let attendance = match args.attended.then(Attendance::take).transpose() {
        Ok(attendance) => attendance,
        Err(why) => {
            messages::tell(why);
            return Exit::Usage.into();
        }
    };
    let voice = attendance.as_ref().map(|attendance| attendance.voice.clone());
    run(&args, file, attendance).map_or_else(|failed| tell_failure(failed, voice.as_ref()), ExitCode::from)
}

/// Reports a failure to the attendant, which shows it to people.
fn tell_failure(failed: Failed, voice: Option<&Voice>) -> ExitCode {
    let code = ExitCode::from(failed.code);
    match voice {
        Some(voice) => voice.say_last(&Said::Failed(failed)),
        None if failed.diagnostics.is_some() => messages::print(failed),
        None => messages::tell(failed),
    }
    code
}

fn run(args: &Args, file: &Path, mut attendance: Option<Attendance>) -> Result<Exit, Failed> {
    let began = Instant::now();
    let wish = signals::catch().map_err(Failed::environment)?;
    let hangups = Hangups::take_apart();
    // Before anything that has threads.
    let janitor = Arc::new(Janitor::start().map_err(Failed::environment)?);
    let notifier = Notifier::from_environment().map_err(Failed::environment)?;
    let nf_program = Program::Nfs.find().map_err(Failed::environment)?;
    let catalog = Catalog::of(&nf_program).map_err(Failed::environment)?;
    let (named, loaded) = configuration(file, args.node.as_deref(), attendance.as_mut(), &catalog)?;
    let Loaded { config, warnings, text } = loaded;
    let log = (!args.quiet).then(Log::to_stderr).transpose().map_err(no_thread)?;
    let messages = Messages::new(log.clone());
    messages.warn(&warnings);
    let stop = Stop::watch(wish, end_at_once).map_err(no_thread)?;
    let source = Source {
        // An attendant that goes takes its folder with it.
        file: (file != Path::new(STANDARD_INPUT)).then(|| std::path::absolute(file).unwrap_or(file.into())),
        node: args.node.clone(),
        catalog: catalog.clone(),
        log: log.clone(),
    };
    let power = Power::watch(&config)?;
    let record = args.record.as_deref().map(|path| Recording::create(path, &record::header(&config)));
    let record = record.transpose().map_err(Failed::environment)?;
    let options = Options {
        source: headgate_manager::Source { name: named, text, edited: false },
        nf_program,
        catalog,
        listen: !args.unlisted,
        log,
        once: args.once,
        costs: (!args.without_costs).then(kept::folder),
        janitor: Some(janitor.clone()),
        recorder: record.as_ref().map(Recording::recorder).unwrap_or_default(),
        follows: args.follow,
    };
    let (name, to_leave) = (config.manager.name.clone(), config.cores_of_nfs());
    let traces = Traces::register(&janitor, (!args.unlisted).then_some(&*name))?;
    let (manager, agent) = start(config, options).inspect_err(|failed| {
        traces.withdraw(&janitor);
        if args.follow {
            tell_not_followed(&name, failed);
        }
    })?;
    if !to_leave.is_empty() {
        // The control loop runs on these cores already, or the manager would not have started.
        let _ = cores::keep_current_thread_off(&to_leave);
    }
    let voice = attendance.as_ref().map(|attendance| attendance.voice.clone());
    if let Some(attendance) = attendance {
        attendance.serve(manager.handle(), stop.clone(), args.quiet).map_err(no_thread)?;
    }
    let reloads = Reloads::new(source, manager.handle());
    let mut daemon =
        Daemon { stop, wish, hangups, power, reloads, notifier, messages, record, is_record_whole: true };
    daemon.tell_of_start(&manager.handle(), &name, began)?;
    if let Some(voice) = &voice {
        voice.say(&Said::Ready(Ready { name, warnings: warnings.to_string() }));
    }
    daemon.serve(&manager);
    let (last, exit) = daemon.end(manager, agent)?;
    traces.withdraw(&janitor);
    if let Some(voice) = &voice {
        voice.say_last(&Said::Ended(Box::new(last)));
    }
    // The manager has ended and released it.
    Arc::into_inner(janitor).map_or(Ok(()), Janitor::finish).map_err(Failed::environment)?;
    Ok(exit)
}

/// Tells the manager that goes on why this one does not follow it.
fn tell_not_followed(name: &str, failed: &Failed) {
    let request = Request::NotFollowed { why: failed.message.clone() };
    // One that has ended has nobody to tell.
    let _ = headgate_api::call::<serde_json::Value>(name, &request);
}

/// Starts the manager, and the agent where nodes have a store.
fn start(config: Config, options: Options) -> Result<(Manager, Option<Agent>), Failed> {
    let (of_node, catalog) = (config.clone(), options.catalog.clone());
    let manager = Manager::start(config, options)
        .map_err(|error| Failed::new(Exit::from_code(error.exit_code()), error.to_string()))?;
    let agent = cluster::start(&of_node, catalog, manager.handle()).map_err(Failed::environment)?;
    Ok((manager, agent))
}

fn no_thread(error: impl Display) -> Failed {
    Failed::environment(format!("no thread could be started: {error}"))
}

/// Ends the process at once, on the second signal.
fn end_at_once() {
    messages::tell("asked twice: ending at once; packets on their way are lost");
    signals::exit_at_once(Exit::Failed as i32);
}

/// Reads and checks the configuration. Returns the name of its file with it.
fn configuration(
    file: &Path,
    node: Option<&str>,
    attendance: Option<&mut Attendance>,
    catalog: &Catalog,
) -> Result<(String, Loaded), Failed> {
    let machine = Machine::observe();
    if file != Path::new(STANDARD_INPUT) {
        let loaded = config::load(file, catalog, &machine, node).map_err(refused)?;
        let path = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
        return Ok((path.display().to_string(), loaded));
    }
    let Text { name, text } = match attendance {
        Some(attendance) => attendance.text()?,
        None => {
            let mut text = String::new();
            let read = std::io::stdin().read_to_string(&mut text);
            read.map_err(|error| Failed::environment(format!("cannot read standard input: {error}")))?;
            Text { name: "standard input".to_owned(), text }
        }
    };
    let loaded = config::parse_part(&name, &text, catalog, &machine, node).map_err(refused)?;
    Ok((name, loaded))
}

fn refused(mistakes: Diagnostics) -> Failed {
    let diagnostics = serde_json::to_value(&mistakes).ok();
    Failed { diagnostics, ..Failed::new(Exit::Configuration, mistakes.to_string()) }
}

/// Changes that a killed process leaves on the machine, which the janitor removes.
struct Traces {
    /// Files of its place, if it has one. In an orderly end the manager removes them itself; afterwards they
    /// may be those of the next manager.
    files: Option<headgate_host::undo::Ticket>,
}

impl Traces {
    /// Registers the files before there are any. Files of another manager of this name are not ours, as its
    /// lock shows.
    fn register(janitor: &Janitor, name: Option<&str>) -> Result<Self, Failed> {
        let (devices, places) = (headgate_dpdk::eal::runtime_folder(), place::folder());
        // Folders that others use too are not empty, and stay.
        for path in devices.parent().into_iter().chain([&*devices, &*places]) {
            let action = Action::RemoveDirectory { path: path.to_owned() };
            janitor.register(action).map_err(Failed::environment)?;
        }
        let register = |name: &str| {
            let files = vec![place::api_socket(name), place::nf_socket(name)];
            janitor.register(Action::RemoveUnlocked { lock: place::lock_file(name), files })
        };
        Ok(Self { files: name.map(register).transpose().map_err(Failed::environment)? })
    }

    fn withdraw(&self, janitor: &Janitor) {
        if let Some(files) = self.files {
            // A janitor that has ended removes nothing.
            let _ = janitor.withdraw(files);
        }
    }
}

/// Running daemon of a manager.
struct Daemon {
    stop: Stop,
    wish: &'static Wish,
    hangups: Hangups,
    power: Power,
    reloads: Reloads,
    notifier: Notifier,
    messages: Messages,
    record: Option<Recording>,
    is_record_whole: bool,
}

impl Daemon {
    /// Waits for the NFs, and reports which were started.
    fn tell_of_start(&mut self, handle: &Handle, name: &str, began: Instant) -> Result<(), Failed> {
        // A manager that has ended already has only its last snapshot to report.
        let is_asked = || self.stop.is_asked() || self.hangups.are_of_terminal();
        let Ok(now) = progress::settled(|| sample(handle), is_asked) else { return Ok(()) };
        let readiness = progress::readiness(&now);
        self.messages.started(&now);
        let took = text::time(began.elapsed().as_nanos() as u64);
        self.messages.tell(format!("manager {name}: {readiness} after {took}"));
        self.notifier.status(&readiness).and_then(|()| self.notifier.ready()).map_err(Failed::environment)
    }

    /// Reports what happens until it is time to stop.
    fn serve(&mut self, manager: &Manager) {
        let handle = manager.handle();
        let is_watched = self.messages.are_told() || self.notifier.is_listened_to() || self.record.is_some();
        let mut told = Instant::now();
        while !manager.has_ended() && !self.stop.wait(END_CHECK_EVERY) && !self.hangups.are_of_terminal() {
            let is_wanted = self.hangups.take();
            self.reloads.tend(is_wanted);
            self.power.tend(&handle);
            if !is_watched || told.elapsed() < EVENTS_EVERY {
                continue;
            }
            told = Instant::now();
            let stopped = self.record.as_ref().and_then(Recording::stopped);
            self.tell_of_record(stopped);
            // A manager that ends just now is noticed in the next round.
            let Ok(now) = sample(&handle) else { continue };
            if self.messages.events(&now) {
                // A service manager that has ended is no reason to end.
                let _ = self.notifier.status(&progress::readiness(&now));
            }
        }
    }

    /// Reports that nothing more is written to the record.
    fn tell_of_record(&mut self, stopped: Option<RecordStop>) {
        let Some(why) = stopped else { return };
        self.is_record_whole &= matches!(why, RecordStop::Full);
        messages::tell(format!("the record of decisions has stopped: {why}"));
    }

    /// Stops in order; other nodes hear of it first.
    fn end(mut self, manager: Manager, agent: Option<Agent>) -> Result<(Snapshot, Exit), Failed> {
        drop(agent);
        let fate = manager.fate();
        // As above.
        let _ = match fate.successor() {
            Some(pid) => self.notifier.main_process(pid),
            None => self.notifier.stopping(),
        };
        if self.wish.count() > 0 {
            self.messages.tell("stopping; asked once more it ends at once");
        }
        let last = manager.stop()?;
        self.messages.events(&last);
        let unwritten = progress::unwritten(&last);
        for line in &unwritten {
            self.messages.tell(line);
        }
        let stopped = self.record.take().and_then(Recording::finish);
        self.tell_of_record(stopped);
        self.messages.flush();
        if let Some(why) = fate.failure() {
            return Err(Failed::new(Exit::Failed, why));
        }
        let exit = match Exit::of_accounts(&last) {
            Exit::Ok if !unwritten.is_empty() || !self.is_record_whole => Exit::Failed,
            exit => exit,
        };
        Ok((last, exit))
    }
}

fn sample(handle: &Handle) -> Result<Snapshot, RequestError> {
    handle.get(Request::Snapshot { audit: false })
}
