//! FRR's daemons in a namespace: routers and neighbours that are not ours.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use headgate_host::namespace::Namespace;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value as Json;
use tempfile::TempDir;

/// Folder of FRR's daemons.
const DAEMONS: &str = "/usr/lib/frr";
/// Longest wait for one of them.
const PATIENCE: Duration = Duration::from_secs(60);

/// `zebra`, which routes, and another daemon, until dropped.
pub struct Frr {
    daemons: Vec<Child>,
    folder: TempDir,
}

impl Frr {
    /// Starts them with the other daemon's configuration. `None` where FRR is not installed, which is said.
    ///
    /// # Panics
    /// Panics if it is installed and does not start.
    #[must_use]
    pub fn start(place: &Namespace, daemon: &str, configuration: &str) -> Option<Self> {
        if !Path::new(DAEMONS).join(daemon).exists() {
            eprintln!("skipped: there is no FRR (`setup.sh` installs it)");
            return None;
        }
        let folder = tempfile::tempdir().expect("a folder can be made");
        let write = |name: &str, text| std::fs::write(folder.path().join(name), text).expect("it is written");
        write("zebra.conf", "");
        write(&format!("{daemon}.conf"), configuration);
        // They give their rights up, and write into it.
        let mut chown = Command::new("chown");
        let given = chown.args(["-R", "frr:frr"]).arg(folder.path()).status().expect("chown runs");
        assert!(given.success(), "FRR has a user `frr`");
        let mut frr = Self { daemons: Vec::new(), folder };
        frr.run(place, "zebra");
        frr.until("zebra listens", || frr.path("zserv").exists());
        frr.run(place, daemon);
        let socket = frr.path(&format!("{daemon}.vty"));
        frr.until("the daemon listens", || socket.exists());
        Some(frr)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn run(&mut self, place: &Namespace, daemon: &str) {
        let path = |name: &str| self.path(name).display().to_string();
        let mut command = Command::new(Path::new(DAEMONS).join(daemon));
        command.args(["-f", &path(&format!("{daemon}.conf")), "-z", &path("zserv"), "-i", &path(daemon)]);
        command.args(["--vty_socket", &path(""), "-u", "frr", "-g", "frr", "-P", "0"]);
        if daemon == "bfdd" {
            command.args(["--bfdctl", &path("bfdd.sock")]);
        }
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let child = place.run(move || command.spawn()).expect("the namespace is there");
        self.daemons.push(child.expect("the daemon starts"));
    }

    /// Gives it commands, and returns what it says.
    ///
    /// # Panics
    /// Panics if `vtysh` does not run.
    #[must_use]
    pub fn vtysh(&self, lines: &[&str]) -> String {
        let mut command = Command::new("vtysh");
        command.arg("--vty_socket").arg(self.folder.path());
        command.args(lines.iter().flat_map(|line| ["-c", line]));
        let output = command.output().expect("vtysh runs");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Returns what it says to one command, where that is JSON.
    #[must_use]
    pub fn json(&self, line: &str) -> Option<Json> {
        serde_json::from_str(&self.vtysh(&[line])).ok()
    }

    /// Waits until something is so.
    ///
    /// # Panics
    /// Panics if it is not so in time.
    pub fn until(&self, what: &str, mut is_so: impl FnMut() -> bool) {
        let began = Instant::now();
        while !is_so() {
            assert!(began.elapsed() < PATIENCE, "waited in vain until {what}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Sends the other daemon a signal.
    ///
    /// # Panics
    /// Panics if it has ended.
    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.daemons[1]), signal).expect("it runs");
    }
}

impl Drop for Frr {
    fn drop(&mut self) {
        for daemon in &mut self.daemons {
            // One that is stopped ends too.
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
    }
}
