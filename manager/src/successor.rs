//! Process of a manager that is to follow this one: started by it, so that it has the same surroundings (a
//! service's control group, its log, its network namespace), and left to itself.

use std::ffi::OsString;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};

use headgate_host::cores::{self, CoreList};
use headgate_host::process;

/// Words of this process's own command line that hold for the one that follows.
const INHERITED: [&str; 2] = ["--quiet", "--without-costs"];

/// A process that was started.
pub struct Successor(Child);

/// Starts a program as the manager that follows this one by the file, or by the part of a node in it.
///
/// # Errors
/// A sentence.
pub fn start(
    program: &Path,
    (file, node): (&Path, Option<&str>),
    cores: Option<&CoreList>,
) -> Result<Successor, String> {
    for (path, what) in [(program, "program"), (file, "configuration file")] {
        if !path.is_absolute() {
            return Err(format!("the {what} {} is no absolute path", path.display()));
        }
    }
    // What this process holds open is not for it.
    process::keep_descriptors_private().map_err(|error| error.to_string())?;
    let here = cores::affinity(None).ok();
    if let Some(cores) = cores {
        // This thread is off the cores of NFs and workers; the process needs them.
        cores::pin(None, cores).map_err(|error| error.to_string())?;
    }
    let own: Vec<OsString> = std::env::args_os().collect();
    let inherited = INHERITED.iter().filter(|flag| own.iter().any(|word| word == *flag));
    let spawned = Command::new(program)
        .args(inherited)
        .args(node.map(|name| format!("--node={name}")))
        .args(["--follow", "--"])
        .arg(file)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn();
    if let Some(here) = here {
        // It had them before.
        let _ = cores::pin(None, &here);
    }
    spawned.map(Successor).map_err(|error| error.to_string())
}

impl Successor {
    /// Returns its process number.
    pub fn pid(&self) -> u32 {
        self.0.id()
    }

    /// Waits for its end. `None` when it cannot be waited for.
    pub fn wait(mut self) -> Option<ExitStatus> {
        self.0.wait().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_started_is_said() {
        let start = |program: &str, file: &str| start(Path::new(program), (Path::new(file), None), None);
        let Err(why) = start("bin/true", "/etc/passwd") else { panic!("started") };
        assert!(why.contains("program bin/true"), "{why}");
        let Err(why) = start("/bin/true", "passwd") else { panic!("started") };
        assert!(why.contains("configuration file passwd"), "{why}");
        let Err(why) = start("/nowhere/true", "/etc/passwd") else { panic!("started") };
        assert!(why.contains("No such file"), "{why}");
        let ended = start("/bin/true", "/etc/passwd").ok().and_then(Successor::wait).unwrap();
        assert!(ended.success());
    }
}
