//! One case: a neighbour, with a foe or without.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use headgate_api::session::Session;
use headgate_api::status::Snapshot;
use headgate_shm::control::ABI_VERSION;

use crate::lab::bed::TestBed;
use crate::lab::experiment::{Curve, Method};
use crate::lab::measure::Value;
use crate::lab::runner::Runner;

/// The hostile NF.
const SOURCES: [(&str, &str); 6] = [
    ("foe.h", include_str!("../../../tests/hostile/foe.h")),
    ("foe.c", include_str!("../../../tests/hostile/foe.c")),
    ("memory.c", include_str!("../../../tests/hostile/memory.c")),
    ("machine.c", include_str!("../../../tests/hostile/machine.c")),
    ("processes.c", include_str!("../../../tests/hostile/processes.c")),
    ("main.c", include_str!("../../../tests/hostile/main.c")),
];
/// Cycles of the neighbour's NF for each packet. Our choice: enough for its core to be what limits it.
const CYCLES: u32 = 2000;
/// Packets for the foe in a second. Our choice: enough for it to be at work at all times.
const FOES_RATE: &str = "200K";

/// Longest wait for the neighbour's first packet. Our choice: thousand times what it takes.
const START_PATIENCE: Duration = Duration::from_secs(10);
/// Time between two samples meanwhile.
const SAMPLE_EVERY: Duration = Duration::from_millis(1);

/// Reason why the hostile NF could not be compiled.
#[derive(Debug, thiserror::Error)]
#[error("the hostile NF cannot be compiled: {0}; install a C compiler (Debian: apt install gcc libc6-dev)")]
pub(crate) struct CompilerError(String);

/// A neighbour of a foe that attacks in this way; alone without one.
#[derive(Clone, Debug)]
pub struct Attack {
    /// Name of the attack, as the program has it.
    pub mode: Option<&'static str>,
    /// Whether it has a core of its own.
    pub elsewhere: bool,
    /// Folder in which the program is compiled.
    pub folder: PathBuf,
}

impl Attack {
    fn program(&self) -> PathBuf {
        self.folder.join("hostile-nf")
    }

    /// Returns the configuration. The worker has the first of `cores`, the neighbour the second, and the foe
    /// the same or the third.
    #[must_use]
    pub fn to_toml(&self, cores: &[u32]) -> String {
        let core = |place: usize| cores.get(place).or(cores.last()).copied().unwrap_or(0);
        let text = format!(
            r#"[manager]
name = "bench"
cores = [{worker}]

[[port]]
name = "ours"
kind = "generator"

[[port]]
name = "sink"
kind = "null"

[[nf]]
name = "neighbour"
run = "synthetic"
args = {{ cycles = {CYCLES} }}
core = {core}

[[chain]]
name = "ours"
stages = ["neighbour"]
out = "sink"

[[rule]]
in = "ours"
chain = "ours"
"#,
            worker = core(0),
            core = core(1)
        );
        let foe = self.mode.map(|mode| self.foe(mode, core(if self.elsewhere { 2 } else { 1 })));
        text + &foe.unwrap_or_default()
    }

    fn foe(&self, mode: &str, core: u32) -> String {
        let program = self.program();
        let program = program.display();
        format!(
            r#"
[[domain]]
name = "theirs"

[[port]]
name = "theirs"
kind = "generator"
rate = "{FOES_RATE}"

[[nf]]
name = "foe"
exec = ["{program}", "{mode}"]
domain = "theirs"
core = {core}
processes = 64
memory_mib = 256
restart = {{ first = "5ms", longest = "20ms" }}

[[chain]]
name = "theirs"
stages = ["foe"]
out = "sink"

[[rule]]
in = "theirs"
chain = "theirs"
"#
        )
    }
}

/// Compiles the hostile NF in a folder, if it is not there yet.
fn compile(folder: &Path, program: &Path) -> anyhow::Result<()> {
    if program.is_file() {
        return Ok(());
    }
    for (name, text) in SOURCES {
        let path = folder.join(name);
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    let sources = SOURCES.iter().map(|(name, _)| *name).filter(|name| name.ends_with(".c"));
    let interface = format!("-DABI_VERSION={ABI_VERSION}");
    let mut command = Command::new("cc");
    command.current_dir(folder).args(["-std=c11", "-O2", &interface]).args(sources).arg("-o").arg(program);
    let made = command.output().map_err(|error| CompilerError(format!("cc: {error}")))?;
    if !made.status.success() {
        return Err(CompilerError(String::from_utf8_lossy(&made.stderr).into_owned()).into());
    }
    Ok(())
}

impl Method for Attack {
    fn check(&self) -> anyhow::Result<()> {
        compile(&self.folder, &self.program())
    }

    fn start(&self, runner: &Runner, name: &str, _: &TestBed) -> anyhow::Result<Session> {
        let session = runner.launcher.launch(name, &self.to_toml(&runner.cores))?;
        // The foe may have failed by then, and is started again.
        let began = Instant::now();
        while left(&session.handle().sample()?) == 0 {
            anyhow::ensure!(began.elapsed() < START_PATIENCE, "no packet leaves the neighbour's chain");
            sleep(SAMPLE_EVERY);
        }
        Ok(session)
    }

    /// Measures how many packets leave the neighbour's chain in a second.
    fn measure(
        &self,
        runner: &Runner,
        session: &Session,
        _: &TestBed,
    ) -> anyhow::Result<(Vec<Value>, Option<Curve>)> {
        sleep(runner.pace.warm_up);
        let before = session.handle().sample()?;
        sleep(runner.pace.window);
        let after = session.handle().sample()?;
        let seconds = after.at_ns.saturating_sub(before.at_ns).max(1) as f64 / 1e9;
        let rate = left(&after).saturating_sub(left(&before)) as f64 / seconds;
        Ok((vec![Value::new("", "Mpps", rate)], None))
    }
}

fn left(snapshot: &Snapshot) -> u64 {
    snapshot.chains.iter().filter(|chain| chain.name == "ours").map(|chain| chain.left).sum()
}
