//! A program on one of the hosts.

use std::env;
use std::io::Read;
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use headgate_host::namespace::Endpoint;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::Stage;

/// Time between two checks whether the demo is over.
const CHECK_EVERY: Duration = Duration::from_millis(20);
/// Longest wait until a server listens. Our choice: an interpreter on a busy core takes a second.
const LISTEN_PATIENCE: Duration = Duration::from_secs(4);

/// Returns whether a program of this name can be run.
pub fn is_installed(program: &str) -> bool {
    let is_executable = |path: std::path::PathBuf| {
        path.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
    };
    env::var_os("PATH")
        .is_some_and(|path| env::split_paths(&path).any(|folder| is_executable(folder.join(program))))
}

/// End of a program.
pub enum End {
    /// The program ended by itself.
    Itself(ExitStatus),
    /// The program was killed, because the demo is over or it took too long.
    Killed,
}

/// A running program. Dropping it kills it.
pub struct Tool {
    name: String,
    child: Child,
}

impl Tool {
    /// Starts a program on a host. It dies with the thread that calls this.
    pub fn start(host: &Endpoint, words: &[&str], output: Stdio) -> Result<Self, String> {
        let name = words[0].to_owned();
        let failed = |error: &dyn std::fmt::Display| format!("{name} cannot be started: {error}");
        let mut command = host.namespace.command(words[0]).map_err(|error| failed(&error))?;
        command.args(&words[1..]).stdin(Stdio::null()).stdout(output).stderr(Stdio::piped());
        let child = command.spawn().map_err(|error| failed(&error))?;
        Ok(Self { name, child })
    }

    /// Waits until it listens at a TCP port.
    pub fn until_listening(&mut self, stage: &Stage<'_>, host: &Endpoint, port: u16) -> Result<(), String> {
        let began = Instant::now();
        while !stage.is_listening(host, port) {
            if let Ok(Some(status)) = self.child.try_wait() {
                let complaint = self.complaint();
                return Err(format!("{} ended: {status}: {complaint}", self.name));
            }
            if began.elapsed() > LISTEN_PATIENCE || stage.is_over() {
                return Err(format!("{} did not listen at port {port}", self.name));
            }
            thread::sleep(CHECK_EVERY);
        }
        Ok(())
    }

    /// Reads what it prints until it ends, or time is up.
    pub fn read(
        &mut self,
        stage: &Stage<'_>,
        patience: Duration,
        mut take: impl FnMut(&[u8]),
    ) -> Result<End, String> {
        let Some(mut stdout) = self.child.stdout.take() else { return Ok(End::Killed) };
        let began = Instant::now();
        let mut buffer = vec![0; 1 << 16];
        while !stage.is_over() && began.elapsed() < patience {
            let timeout = Timespec { tv_sec: 0, tv_nsec: i64::from(CHECK_EVERY.subsec_nanos()) };
            match poll(&mut [PollFd::new(&stdout.as_fd(), PollFlags::IN)], Some(&timeout)) {
                Ok(0) | Err(_) => continue,
                Ok(_) => {}
            }
            match stdout.read(&mut buffer) {
                Ok(0) => return self.child.wait().map(End::Itself).map_err(|error| error.to_string()),
                Ok(count) => take(&buffer[..count]),
                Err(error) => return Err(format!("{}: {error}", self.name)),
            }
        }
        Ok(End::Killed)
    }

    /// The last line it said on standard error; it must have ended.
    pub fn complaint(&mut self) -> String {
        let mut said = String::new();
        if let Some(mut stderr) = self.child.stderr.take() {
            // What cannot be read was not said.
            let _ = stderr.read_to_string(&mut said);
        }
        said.lines().last().unwrap_or_default().trim().to_owned()
    }
}

impl Drop for Tool {
    fn drop(&mut self) {
        // It may have ended already, which is as good.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
