//! Watchers: programs of this build, and clients of its API.

use std::io::{self, ErrorKind, Read, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use headgate_host::programs::Program;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use super::case::Case;

/// Time between two scrapes, that of Prometheus where it is impatient.
const SCRAPE_EVERY: Duration = Duration::from_secs(1);
/// Milliseconds between two frames of `headgate top`.
const FRAME_EVERY_MS: &str = "100";
/// Longest time for a watcher to begin, and to end. Our choice: they take some 10 ms, and a machine so busy
/// that they take seconds measures nothing.
const PATIENCE: Duration = Duration::from_secs(10);
/// Time between two samples while waiting.
const SAMPLE_EVERY: Duration = Duration::from_millis(5);

/// Watchers that run. Dropping them ends them.
pub struct Watchers {
    programs: Vec<Watching>,
    clients: Vec<JoinHandle<io::Result<()>>>,
    enough: Arc<AtomicBool>,
    folder: TempDir,
}

/// A program that watches.
struct Watching {
    what: String,
    child: Child,
}

/// Returns whether there is a program that gives others a terminal.
pub fn has_terminals() -> bool {
    Command::new("script")
        .arg("--version")
        .stdout(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

impl Watchers {
    /// Starts those of a case, for the manager of this name.
    pub fn start(case: Case, name: &str) -> anyhow::Result<Self> {
        let serves = matches!(case, Case::Scrape | Case::Page | Case::Views);
        let mut watchers = if serves { Self::server(name)? } else { Self::none()? };
        let path = watchers.socket().to_owned();
        if matches!(case, Case::Scrape | Case::Views) {
            let (path, enough) = (path.clone(), watchers.enough.clone());
            watchers.clients.push(thread::spawn(move || scrape(&path, &enough)));
        }
        if matches!(case, Case::Page | Case::Views) {
            let (path, enough) = (path.clone(), watchers.enough.clone());
            watchers.clients.push(thread::spawn(move || follow(&path, &enough)));
        }
        if case.draws() {
            watchers.draw(name)?;
        }
        match case {
            Case::Capture => watchers.run(&["capture", "any", "-w", "/dev/null", "--name", name])?,
            Case::Log => watchers.run(&["observe", "-f", "--name", name])?,
            _ => {}
        }
        Ok(watchers)
    }

    /// Starts a server of the API, and waits until it answers.
    pub fn server(name: &str) -> anyhow::Result<Self> {
        let mut watchers = Self::none()?;
        let socket = watchers.socket().display().to_string();
        watchers.run(&["serve", "--socket", &socket, "--name", name])?;
        let started = Instant::now();
        while let Err(error) = get(watchers.socket(), "/metrics") {
            watchers.check()?;
            if started.elapsed() > PATIENCE {
                return Err(error).context("`headgate serve` gives no metrics");
            }
            thread::sleep(SAMPLE_EVERY);
        }
        Ok(watchers)
    }

    fn none() -> anyhow::Result<Self> {
        let folder = tempfile::tempdir().context("no folder for a socket")?;
        Ok(Self { programs: Vec::new(), clients: Vec::new(), enough: Arc::default(), folder })
    }

    /// Socket of the server.
    pub fn socket(&self) -> PathBuf {
        self.folder.path().join("http.sock")
    }

    fn run(&mut self, words: &[&str]) -> anyhow::Result<()> {
        let mut command = Command::new(Program::Command.find()?);
        command.args(words);
        self.spawn(command, format!("headgate {}", words[0]))
    }

    /// Runs `headgate top` on a terminal of its own.
    fn draw(&mut self, name: &str) -> anyhow::Result<()> {
        let program = Program::Command.find()?;
        let line =
            format!("stty rows 40 cols 120; exec \"$TOP\" top --interval {FRAME_EVERY_MS} --name {name}");
        let mut command = Command::new("script");
        command.args(["--quiet", "--flush", "--return", "--command", &line, "/dev/null"]);
        command.env("TOP", program).env("TERM", "xterm-256color").env("SHELL", "/bin/sh");
        self.spawn(command, "headgate top".to_owned())
    }

    fn spawn(&mut self, mut command: Command, what: String) -> anyhow::Result<()> {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let child = command.spawn().with_context(|| format!("cannot run {what}"))?;
        self.programs.push(Watching { what, child });
        Ok(())
    }

    /// Fails when one has ended by itself.
    fn check(&mut self) -> anyhow::Result<()> {
        for Watching { what, child } in &mut self.programs {
            if let Some(status) = child.try_wait()? {
                let mut said = String::new();
                let _ = child.stderr.take().map(|mut stderr| stderr.read_to_string(&mut said));
                bail!("{what} ended in the middle ({status}): {}", said.trim());
            }
        }
        Ok(())
    }

    /// Ends them.
    ///
    /// # Errors
    /// One has ended before, so that nothing was measured.
    pub fn end(mut self) -> anyhow::Result<()> {
        self.check()?;
        self.enough.store(true, Ordering::Relaxed);
        for client in self.clients.drain(..) {
            client.join().unwrap_or_else(|_| Err(io::Error::other("it panicked")))?;
        }
        Ok(())
    }
}

impl Drop for Watchers {
    fn drop(&mut self) {
        self.enough.store(true, Ordering::Relaxed);
        for Watching { child, .. } in &mut self.programs {
            end(child);
        }
        for client in self.clients.drain(..) {
            // One that failed has been told of, or something else has failed.
            let _ = client.join();
        }
    }
}

/// Asks a program to end, and makes it.
pub(crate) fn end(child: &mut Child) {
    if let Some(pid) = Pid::from_raw(child.id() as i32) {
        let _ = kill_process(pid, Signal::TERM);
    }
    let started = Instant::now();
    while matches!(child.try_wait(), Ok(None)) && started.elapsed() < PATIENCE {
        thread::sleep(SAMPLE_EVERY);
    }
    let _ = child.kill();
    let _ = child.wait();
}

fn ask(socket: &Path, path: &str) -> io::Result<UnixStream> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    // At once: a server that refuses it may end while the rest is written.
    stream.write_all(request.as_bytes())?;
    Ok(stream)
}

/// Returns the length of an answer that the server has for a path.
pub fn get(socket: impl AsRef<Path>, path: &str) -> io::Result<usize> {
    let mut answer = Vec::new();
    ask(socket.as_ref(), path)?.read_to_end(&mut answer)?;
    if !answer.starts_with(b"HTTP/1.1 200 ") {
        let line = answer.split(|byte| *byte == b'\r').next().unwrap_or_default();
        return Err(io::Error::other(format!("{path}: {}", String::from_utf8_lossy(line))));
    }
    Ok(answer.len())
}

fn scrape(socket: &Path, enough: &AtomicBool) -> io::Result<()> {
    let mut next = Instant::now();
    while !enough.load(Ordering::Relaxed) {
        if Instant::now() >= next {
            get(socket, "/metrics")?;
            next += SCRAPE_EVERY;
        }
        thread::sleep(SAMPLE_EVERY);
    }
    Ok(())
}

/// Takes every snapshot, as the page does.
fn follow(socket: &Path, enough: &AtomicBool) -> io::Result<()> {
    let mut stream = ask(socket, "/v1/watch/snapshots")?;
    stream.set_read_timeout(Some(SCRAPE_EVERY / 10))?;
    let mut bytes = vec![0; 1 << 16];
    while !enough.load(Ordering::Relaxed) {
        match stream.read(&mut bytes) {
            Ok(0) => return Err(io::Error::new(ErrorKind::UnexpectedEof, "the server ended a stream")),
            Ok(_) => {}
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watcher_that_ends_by_itself_is_told_of_with_what_it_said() {
        let mut watchers = Watchers::none().unwrap();
        let mut command = Command::new("/bin/sh");
        command.args(["-c", "echo no manager >&2; exit 3"]);
        watchers.spawn(command, "headgate capture".to_owned()).unwrap();
        watchers.programs[0].child.wait().unwrap();
        let error = watchers.end().unwrap_err().to_string();
        assert!(
            error.contains("headgate capture ended in the middle") && error.contains("no manager"),
            "{error}"
        );
    }

    #[test]
    fn an_answer_that_is_none_is_no_scrape() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("s");
        let listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        let answers = thread::spawn(move || {
            for answer in ["HTTP/1.1 503 no\r\n\r\n", "HTTP/1.1 200 OK\r\n\r\nabc"] {
                let (mut client, _) = listener.accept().unwrap();
                let mut request = [0; 256];
                let _ = client.read(&mut request).unwrap();
                client.write_all(answer.as_bytes()).unwrap();
            }
        });
        let error = get(&socket, "/metrics").unwrap_err().to_string();
        assert!(error.contains("503"), "{error}");
        assert_eq!(get(&socket, "/metrics").unwrap(), 22);
        answers.join().unwrap();
    }
}
