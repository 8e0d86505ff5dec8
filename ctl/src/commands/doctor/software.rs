//! The programs and libraries we need.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use headgate_config::Catalog;
use headgate_host::programs::Program;
use serde::Deserialize;

use super::check::Check;

/// Virtual drivers worth naming: those that reach interfaces, other processes and files.
const DRIVERS: [&str; 5] = ["af_packet", "af_xdp", "tap", "memif", "pcap"];

/// Runs all checks of software.
pub fn checks() -> Vec<Check> {
    let about = About::of_manager();
    vec![manager(&about), nf_program(), dpdk(&about), benchmarks(), tools()]
}

/// Answer of the daemon to `--about`.
#[derive(Debug, Deserialize)]
struct About {
    version: String,
    dpdk: Option<PathBuf>,
}

impl About {
    /// Asks the daemon. A library that is missing keeps it from answering, and is named.
    fn of_manager() -> Result<(PathBuf, Self), String> {
        let program = Program::Manager.find().map_err(|error| error.to_string())?;
        let strange = |why: &str| format!("{} does not run: {}", program.display(), why.trim());
        let output = Command::new(&program).arg("--about").output();
        let output = output.map_err(|error| strange(&error.to_string()))?;
        if !output.status.success() {
            return Err(strange(&String::from_utf8_lossy(&output.stderr)));
        }
        let about = serde_json::from_slice(&output.stdout).map_err(|error| strange(&error.to_string()))?;
        Ok((program, about))
    }
}

fn manager(about: &Result<(PathBuf, About), String>) -> Check {
    const NAME: &str = "manager";
    match about {
        Ok((program, about)) => of_version(NAME, program.display().to_string(), Some(&about.version)),
        Err(why) => Check::failed(NAME, why),
    }
}

fn nf_program() -> Check {
    const NAME: &str = "NFs";
    let program = match Program::Nfs.find() {
        Ok(program) => program,
        Err(error) => return Check::failed(NAME, error),
    };
    let catalog = match Catalog::of(&program) {
        Ok(catalog) => catalog,
        Err(error) => return Check::failed(NAME, error),
    };
    let names: Vec<&str> = catalog.names().collect();
    let found = format!("{} ships {}", program.display(), names.join(", "));
    of_version(NAME, found, version_of(&program).as_deref())
}

fn benchmarks() -> Check {
    const NAME: &str = "benchmarks";
    match Program::Bench.find() {
        Ok(program) => of_version(NAME, program.display().to_string(), version_of(&program).as_deref()),
        Err(error) => Check::warn(NAME, error.to_string(), "nothing but `headgate bench` needs it"),
    }
}

/// Checks that a program is of our own version.
fn of_version(name: &'static str, found: String, version: Option<&str>) -> Check {
    let ours = env!("CARGO_PKG_VERSION");
    match version {
        Some(theirs) if theirs == ours => Check::ok(name, found),
        theirs => Check::warn(
            name,
            format!("{found}; its version is {}, this is {ours}", theirs.unwrap_or("not told")),
            "build all of Headgate with `cargo build --release`",
        ),
    }
}

/// The last word of what `--version` prints.
fn version_of(program: &Path) -> Option<String> {
    let output = Command::new(program).arg("--version").output().ok()?;
    String::from_utf8_lossy(&output.stdout).split_whitespace().last().map(str::to_owned)
}

/// The library the daemon runs with, which need not be the one it was built with.
fn dpdk(about: &Result<(PathBuf, About), String>) -> Check {
    const NAME: &str = "DPDK";
    const CURE: &str = "install DPDK 22.11 or later with its drivers (Debian: apt install librte-meta-net \
                        librte-meta-bus librte-meta-mempool)";
    let Some(library) = about.as_ref().ok().and_then(|(_, about)| about.dpdk.as_deref()) else {
        return Check::fail(NAME, "the manager does not run with librte_eal", CURE);
    };
    let drivers = installed_drivers(library);
    let found = format!("{}, drivers: {}", library.display(), drivers.join(", "));
    match drivers.contains(&"af_packet") {
        true => Check::ok(NAME, found),
        false => Check::warn(NAME, format!("{} without drivers for interfaces", library.display()), CURE),
    }
}

/// Drivers lie in `dpdk/pmds-VERSION` beside the library, as Debian and DPDK's own build have it. Only a
/// package for developers has them without a version behind their name.
fn installed_drivers(library: &Path) -> Vec<&'static str> {
    let entries = |folder: PathBuf| fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    let folders = library.parent().map(|folder| entries(folder.join("dpdk"))).into_iter().flatten();
    let files: Vec<_> =
        folders.flat_map(|folder| entries(folder.path())).map(|file| file.file_name()).collect();
    let is_there = |driver: &&str| {
        let (name, of_version) = (format!("librte_net_{driver}.so"), format!("librte_net_{driver}.so."));
        files.iter().any(|file| *file == *name || file.to_string_lossy().starts_with(&of_version))
    };
    DRIVERS.into_iter().filter(is_there).collect()
}

/// Checks the tools that the demo uses where they are there.
fn tools() -> Check {
    const NAME: &str = "demo's tools";
    let (there, missing): (Vec<&str>, Vec<&str>) =
        ["iperf3", "curl", "python3"].into_iter().partition(|tool| crate::demo::is_installed(tool));
    match missing[..] {
        [] => Check::ok(NAME, there.join(", ")),
        _ => Check::warn(
            NAME,
            format!("missing: {}", missing.join(", ")),
            "the demo uses senders and servers of its own instead; apt install iperf3 curl python3",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::check::Verdict;
    use super::*;

    #[test]
    fn programs_of_another_version_are_told() {
        let verdict = |version| of_version("NFs", "there".to_owned(), version).verdict;
        assert_eq!(verdict(Some(env!("CARGO_PKG_VERSION"))), Verdict::Ok);
        assert_eq!([verdict(Some("0.0.7")), verdict(None)], [Verdict::Warn; 2]);
    }

    #[test]
    fn drivers_lie_beside_the_library() {
        let folder = tempfile::tempdir().unwrap();
        let drivers = folder.path().join("dpdk/pmds-23.0");
        fs::create_dir_all(&drivers).unwrap();
        // Of a package for developers, of one for everybody, and another driver.
        for file in ["librte_net_tap.so", "librte_net_af_packet.so.23", "librte_net_memif_more.so.23"] {
            fs::write(drivers.join(file), "").unwrap();
        }
        assert_eq!(installed_drivers(&folder.path().join("librte_eal.so.23.0")), ["af_packet", "tap"]);
    }
}
