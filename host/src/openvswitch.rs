//! An Open vSwitch of our own in a network namespace.
//!
//! Two processes: `ovsdb-server` with an empty database, and `ovs-vswitchd`, which passes packets on. Both
//! are in the namespace, keep all their files in one folder, and are killed when the thread that started
//! them ends. An Open vSwitch that the machine runs is another one: its folders and its database are not
//! touched.
//!
//! The switch learns nothing. Ports come in pairs, and what comes in by one goes out by the other.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::namespace::{Namespace, NamespaceError};
use crate::process::{self, Child, Exit, ProcessError};

/// The programs it takes.
pub const PROGRAMS: [&str; 5] = ["ovsdb-tool", "ovsdb-server", "ovs-vswitchd", "ovs-vsctl", "ovs-ofctl"];
/// Advice where one of them is missing.
pub const INSTALL: &str = "install Open vSwitch (Debian: apt install openvswitch-switch)";

/// Paths at which packages have the schema of the database.
const SCHEMAS: [&str; 2] =
    ["/usr/share/openvswitch/vswitch.ovsschema", "/usr/local/share/openvswitch/vswitch.ovsschema"];
/// There while the kernel's datapath is loaded.
const KERNEL_MODULE: &str = "/sys/module/openvswitch";
const BRIDGE: &str = "switch";
/// Longest wait for each part to become ready. Our choice: a hundred times what they take.
const PATIENCE: Duration = Duration::from_secs(5);
const POLL_EVERY: Duration = Duration::from_millis(2);

/// Error of running a switch.
#[derive(Debug, thiserror::Error)]
pub enum SwitchError {
    /// A part of it is not on this machine.
    #[error("there is no {what} on this machine: {INSTALL}")]
    Missing {
        /// The program or file.
        what: &'static str,
    },
    /// One of its programs failed.
    #[error("{program} {how}{}", after_colon(said))]
    Failed {
        /// The program.
        program: &'static str,
        /// Description of the failure.
        how: String,
        /// The last line of what it said.
        said: String,
    },
    /// The folder cannot be used.
    #[error("{}: {source}", path.display())]
    Folder {
        /// The file.
        path: PathBuf,
        /// Cause.
        source: std::io::Error,
    },
    /// There is no folder for it.
    #[error("{0}")]
    NoFolder(String),
    /// The namespace cannot be entered.
    #[error(transparent)]
    Namespace(#[from] NamespaceError),
    /// A process of it cannot be watched.
    #[error(transparent)]
    Process(#[from] ProcessError),
}

fn after_colon(line: &str) -> String {
    if line.is_empty() { String::new() } else { format!(": {line}") }
}

/// Datapath that forwards the packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Datapath {
    /// The kernel's module.
    System,
    /// `ovs-vswitchd` itself, with packet sockets.
    Netdev,
}

impl Datapath {
    /// The kernel's where its module is loaded.
    pub fn of_this_machine() -> Self {
        if Path::new(KERNEL_MODULE).exists() { Self::System } else { Self::Netdev }
    }

    /// Returns Open vSwitch's word for it (`datapath_type`).
    pub const fn word(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::Netdev => "netdev",
        }
    }
}

/// A port of the switch: an interface of its namespace, and its number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Port {
    /// The interface's name.
    pub interface: String,
    /// Its number in the switch, from 1.
    pub number: u16,
}

/// A running switch. Dropping it ends its processes; its folder is its owner's.
#[derive(Debug)]
pub struct OpenVSwitch {
    folder: PathBuf,
    datapath: Datapath,
    switch: Running,
    server: Running,
}

impl OpenVSwitch {
    /// Starts one without ports and waits until it is ready. The folder is there, is empty, and is nobody
    /// else's; the processes have the cores of the calling thread.
    ///
    /// # Errors
    /// [`SwitchError`].
    pub fn start(namespace: &Namespace, folder: &Path, datapath: Datapath) -> Result<Self, SwitchError> {
        let place = SwitchPlace { namespace, folder };
        let database = folder.join("db");
        let schema = SCHEMAS.map(Path::new).into_iter().find(|path| path.exists());
        let schema = schema.ok_or(SwitchError::Missing { what: "vswitch.ovsschema" })?;
        place.run("ovsdb-tool", &["create", text(&database)?, text(schema)?])?;
        let socket = folder.join("db.sock");
        let remote = format!("--remote=punix:{}", text(&socket)?);
        let mut server = place.start("ovsdb-server", &["--no-chdir", &remote, text(&database)?])?;
        place.wait_for(&socket, "ovsdb-server", &mut server)?;
        let switch = place.start("ovs-vswitchd", &["--no-chdir", &database_socket(folder)])?;
        let mut made = Self { folder: folder.to_owned(), datapath, switch, server };
        made.add_bridge(&place)?;
        Ok(made)
    }

    /// Adds a bridge with one handler and one revalidator instead of one for each core: what they do is set
    /// up the few flows.
    fn add_bridge(&mut self, place: &SwitchPlace<'_>) -> Result<(), SwitchError> {
        let database = format!("--db={}", database_socket(&self.folder));
        let datapath = format!("datapath_type={}", self.datapath.word());
        let words = [
            &*database,
            "--no-wait",
            "--",
            "set",
            "Open_vSwitch",
            ".",
            "other_config:n-handler-threads=1",
            "other_config:n-revalidator-threads=1",
            "--",
            "add-br",
            BRIDGE,
            "--",
            "set",
            "bridge",
            BRIDGE,
            &datapath,
            // Without a controller it does what its flows say, and without flows nothing.
            "fail-mode=secure",
        ];
        place.run("ovs-vsctl", &words)?;
        let management = self.folder.join(format!("{BRIDGE}.mgmt"));
        place.wait_for(&management, "ovs-vswitchd", &mut self.switch)
    }

    /// Joins two interfaces as a cable would. To join them again does no harm.
    ///
    /// # Errors
    /// [`SwitchError`].
    pub fn join(&self, namespace: &Namespace, ends: &[Port; 2]) -> Result<(), SwitchError> {
        let place = SwitchPlace { namespace, folder: &self.folder };
        let mut words = vec![format!("--db={}", database_socket(&self.folder)), "--timeout=5".to_owned()];
        for Port { interface, number } in ends {
            let number = format!("ofport_request={number}");
            let add = ["--", "--may-exist", "add-port", BRIDGE, interface];
            let ask = ["--", "set", "interface", interface, &number];
            words.extend(add.into_iter().chain(ask).map(str::to_owned));
        }
        place.run("ovs-vsctl", &words.iter().map(String::as_str).collect::<Vec<_>>())?;
        for [from, to] in [[&ends[0], &ends[1]], [&ends[1], &ends[0]]] {
            let flow = format!("in_port={},actions=output:{}", from.number, to.number);
            place.run("ovs-ofctl", &["add-flow", BRIDGE, &flow])?;
        }
        Ok(())
    }

    /// The process that passes packets on.
    pub const fn process(&self) -> &Child {
        &self.switch.0
    }

    /// Returns the datapath that forwards the packets.
    pub const fn datapath(&self) -> Datapath {
        self.datapath
    }

    /// Returns which of its programs has ended, and how; `None` while both run.
    ///
    /// # Errors
    /// [`ProcessError`].
    pub fn ended(&mut self) -> Result<Option<SwitchError>, ProcessError> {
        for (program, child) in [("ovs-vswitchd", &mut self.switch), ("ovsdb-server", &mut self.server)] {
            if let Some(exit) = child.0.try_wait()? {
                return Ok(Some(failed(program, exit, &self.folder)));
            }
        }
        Ok(None)
    }
}

/// A process that ends when it is dropped.
#[derive(Debug)]
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // One that has ended is as good.
        let _ = self.0.signal(Signal::KILL);
        let _ = self.0.wait();
    }
}

/// Folder and namespace in which its programs run.
struct SwitchPlace<'a> {
    namespace: &'a Namespace,
    folder: &'a Path,
}

impl SwitchPlace<'_> {
    fn command(&self, program: &'static str, words: &[&str]) -> Result<Command, SwitchError> {
        let path = process::find_program(program).ok_or(SwitchError::Missing { what: program })?;
        process::keep_descriptors_private()?;
        let mut command = self.namespace.command(path)?;
        command.args(words).env_clear();
        // All that it would put or look for elsewhere (ovs-vswitchd(8), "FILES").
        for folder in ["OVS_RUNDIR", "OVS_LOGDIR", "OVS_DBDIR", "OVS_SYSCONFDIR"] {
            command.env(folder, self.folder);
        }
        Ok(command)
    }

    /// Runs a program to its end.
    fn run(&self, program: &'static str, words: &[&str]) -> Result<(), SwitchError> {
        let output = self.command(program, words)?.output();
        let output = output.map_err(|source| ProcessError::Spawn { program: program.into(), source })?;
        if output.status.success() {
            return Ok(());
        }
        let said = last_line(&String::from_utf8_lossy(&output.stderr));
        Err(SwitchError::Failed { program, how: format!("failed ({})", output.status), said })
    }

    /// Starts a program that stays.
    fn start(&self, program: &'static str, words: &[&str]) -> Result<Running, SwitchError> {
        let log = log_of(self.folder, program);
        let file = File::create(&log).map_err(|source| SwitchError::Folder { path: log, source })?;
        let mut command = self.command(program, words)?;
        let control = format!("--unixctl={}", text(&self.folder.join(format!("{program}.ctl")))?);
        command.args([&*control, "-vconsole:warn", "-vsyslog:off", "-vfile:off"]);
        command.stdin(std::process::Stdio::null()).stdout(std::process::Stdio::null()).stderr(file);
        let spawned = command.spawn();
        let spawned = spawned.map_err(|source| ProcessError::Spawn { program: program.into(), source })?;
        Ok(Running(Child::of(spawned)?))
    }

    /// Waits for a socket of a program that was started.
    fn wait_for(
        &self,
        socket: &Path,
        program: &'static str,
        process: &mut Running,
    ) -> Result<(), SwitchError> {
        let began = Instant::now();
        while !socket.exists() {
            if let Some(exit) = process.0.try_wait()? {
                return Err(failed(program, exit, self.folder));
            }
            if began.elapsed() >= PATIENCE {
                let said = last_line(&fs::read_to_string(log_of(self.folder, program)).unwrap_or_default());
                let how = format!("was not ready within {} s", PATIENCE.as_secs());
                return Err(SwitchError::Failed { program, how, said });
            }
            thread::sleep(POLL_EVERY);
        }
        Ok(())
    }
}

fn failed(program: &'static str, exit: Exit, folder: &Path) -> SwitchError {
    let said = last_line(&fs::read_to_string(log_of(folder, program)).unwrap_or_default());
    SwitchError::Failed { program, how: exit.to_string(), said }
}

fn log_of(folder: &Path, program: &str) -> PathBuf {
    folder.join(format!("{program}.log"))
}

fn database_socket(folder: &Path) -> String {
    format!("unix:{}", folder.join("db.sock").display())
}

fn last_line(said: &str) -> String {
    said.lines().next_back().unwrap_or_default().trim().to_owned()
}

fn text(path: &Path) -> Result<&str, SwitchError> {
    path.to_str().ok_or_else(|| SwitchError::Folder {
        path: path.to_owned(),
        source: std::io::Error::other("its name is not text"),
    })
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;
    use crate::network::{Mac, VethEnd};
    use crate::testing::skip;

    fn is_root() -> bool {
        rustix::process::geteuid().is_root()
    }

    #[test]
    fn a_switch_comes_tells_of_its_death_and_goes() {
        if !is_root() {
            return skip("namespaces take root");
        }
        if PROGRAMS.iter().any(|program| process::find_program(program).is_none()) {
            return skip(INSTALL);
        }
        let (namespace, folder) = (Namespace::new().unwrap(), tempfile::tempdir().unwrap());
        let mut links = namespace.links().unwrap();
        let end = |name, last| VethEnd { name, mac: Mac([2, 0, 0, 0, 0, last]) };
        links.add_veth(end("a", 1), end("b", 2), namespace.as_fd(), 1500).unwrap();
        let datapath = Datapath::of_this_machine();
        let mut switch = OpenVSwitch::start(&namespace, folder.path(), datapath).unwrap();
        let port = |name: &str, number| Port { interface: name.to_owned(), number };
        for _ in 0..2 {
            switch.join(&namespace, &[port("a", 1), port("b", 2)]).unwrap();
        }
        assert!(switch.ended().unwrap().is_none());
        switch.process().signal(Signal::KILL).unwrap();
        switch.switch.0.wait().unwrap();
        let told = switch.ended().unwrap().unwrap().to_string();
        assert!(told.starts_with("ovs-vswitchd killed by SIGKILL"), "{told}");
        let server = switch.server.0.pid();
        drop(switch);
        assert!(!process::is_alive(server).unwrap());
    }
}
