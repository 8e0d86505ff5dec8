//! Time of processes by function, measured by the program `perf`.
//!
//! `perf record` samples the clock a thousand times a second, so a PMU is not needed; `perf report` sums up.
//! Unlike counters this is sampling: parts of a percent mean nothing.

use std::io;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::Pid;

/// Samples a second and process; a prime, so that nothing that happens each millisecond is always met.
const SAMPLES_PER_SECOND: u32 = 997;

/// A function, and its part in the time.
#[derive(Clone, Debug, PartialEq)]
pub struct Function {
    /// Its name, or its address where the program has no symbols.
    pub name: String,
    /// The program or library it is in; `[kernel.kallsyms]` for the kernel.
    pub object: String,
    /// Its part of all samples, 0 to 1.
    pub part: f64,
}

/// Reason why there are no samples.
#[derive(Debug, thiserror::Error)]
pub enum FunctionsError {
    /// There is no such program.
    #[error("the program perf is not installed (Debian: linux-perf)")]
    NotInstalled,
    /// The program `perf` failed.
    #[error("perf {step}: {why}")]
    Failed {
        /// Step that failed.
        step: &'static str,
        /// Error output.
        why: String,
    },
}

/// Samples processes for a while; the functions with the most samples first. `folder` holds the samples.
///
/// # Errors
/// [`FunctionsError`].
pub fn sample(
    processes: &[Pid],
    time: Duration,
    folder: &Path,
    most: usize,
) -> Result<Vec<Function>, FunctionsError> {
    let file = folder.join("perf.data");
    let pids: Vec<String> = processes.iter().map(|pid| pid.as_raw_pid().to_string()).collect();
    let mut record = Command::new("perf");
    record.args(["record", "--quiet", "-e", "cpu-clock", "-F", &SAMPLES_PER_SECOND.to_string(), "-p"]);
    record.arg(pids.join(",")).arg("-o").arg(&file);
    record.args(["--", "sleep", &time.as_secs_f64().to_string()]);
    run("record", record)?;
    let mut report = Command::new("perf");
    report.arg("report").arg("-i").arg(&file);
    report.args(["--stdio", "--quiet", "-F", "overhead,dso,symbol", "-t", "|"]);
    let mut all = functions_in(&run("report", report)?);
    all.truncate(most);
    Ok(all)
}

fn run(step: &'static str, mut command: Command) -> Result<String, FunctionsError> {
    let output = command.stdin(Stdio::null()).output().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => FunctionsError::NotInstalled,
        _ => FunctionsError::Failed { step, why: error.to_string() },
    })?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        // It begins with a heading of its own, and ends with pages of advice.
        let heading = |line: &&str| line.is_empty() || *line == "Error:";
        let why = said.lines().map(str::trim).find(|line| !heading(line)).unwrap_or("it did not say why");
        return Err(FunctionsError::Failed { step, why: why.to_owned() });
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Lines like ` 2.32%  |sha256sum  |[.] transform`.
fn functions_in(report: &str) -> Vec<Function> {
    let of_line = |line: &str| {
        let mut fields = line.splitn(3, '|').map(str::trim);
        let part = fields.next()?.strip_suffix('%')?.parse::<f64>().ok()? / 100.0;
        let (object, symbol) = (fields.next()?, fields.next()?);
        let name = symbol.split_once("] ").map_or(symbol, |(_, name)| name).trim();
        Some(Function { name: name.to_owned(), object: object.to_owned(), part })
    };
    report.lines().filter_map(of_line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_read() {
        let report = "\n# Overhead|Shared Object|Symbol\n\
            62.50%  |headgate-nfs     |[.] <headgate_nfs::firewall::Firewall as X>::process\n \
            2.32%  |[kernel.kallsyms]|[k] futex_wait  \nnoise\n";
        let found = functions_in(report);
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].name, "<headgate_nfs::firewall::Firewall as X>::process");
        assert!((found[0].part - 0.625).abs() < 1e-9);
        assert_eq!((&*found[1].object, &*found[1].name), ("[kernel.kallsyms]", "futex_wait"));
    }
}
