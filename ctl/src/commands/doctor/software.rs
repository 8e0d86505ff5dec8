//! The programs and libraries we need.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use headgate_manager::programs;

use super::check::Check;

/// Virtual drivers worth naming: those that reach interfaces, other processes and files.
const DRIVERS: [&str; 5] = ["af_packet", "af_xdp", "tap", "memif", "pcap"];

/// All checks of software.
pub fn checks() -> Vec<Check> {
    vec![nf_program(), dpdk(), tools()]
}

fn nf_program() -> Check {
    const NAME: &str = "NFs";
    let program = match programs::nf_program() {
        Ok(program) => program,
        Err(error) => return Check::failed(NAME, error),
    };
    let catalog = match programs::catalog(&program) {
        Ok(catalog) => catalog,
        Err(error) => return Check::failed(NAME, error),
    };
    let ours = format!("headgate-nfs {}", env!("CARGO_PKG_VERSION"));
    let theirs = version_of(&program).unwrap_or_else(|| "no version".into());
    let names: Vec<&str> = catalog.names().collect();
    let found = format!("{} ships {}", program.display(), names.join(", "));
    match theirs == ours {
        true => Check::ok(NAME, found),
        false => Check::warn(
            NAME,
            format!("{found}; it is {theirs}, this is {ours}"),
            "build all of Headgate with `cargo build --release`",
        ),
    }
}

fn version_of(program: &Path) -> Option<String> {
    let output = Command::new(program).arg("--version").output().ok()?;
    Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// The library this process runs with, which need not be the one it was built with.
fn dpdk() -> Check {
    const NAME: &str = "DPDK";
    const CURE: &str = "install DPDK 22.11 (Debian: apt install dpdk libdpdk-dev)";
    let Some(library) = loaded_library("librte_eal.so") else {
        return Check::fail(NAME, "librte_eal is not loaded", CURE);
    };
    let drivers = installed_drivers(&library);
    let found = format!("{}, drivers: {}", library.display(), drivers.join(", "));
    match drivers.contains(&"af_packet") {
        true => Check::ok(NAME, found),
        false => Check::warn(NAME, format!("{} without drivers for interfaces", library.display()), CURE),
    }
}

/// The file of a library that this process has mapped, symbolic links followed.
fn loaded_library(name: &str) -> Option<PathBuf> {
    let maps = fs::read_to_string("/proc/self/maps").ok()?;
    mapped_file(&maps, name).map(PathBuf::from)
}

/// The path of a mapping whose file name begins so (proc_pid_maps(5): the path is the sixth word).
fn mapped_file<'m>(maps: &'m str, name: &str) -> Option<&'m str> {
    let path_of = |line: &'m str| line.splitn(6, ' ').nth(5).map(str::trim);
    maps.lines()
        .filter_map(path_of)
        .find(|path| path.rsplit('/').next().is_some_and(|file| file.starts_with(name)))
}

/// Drivers lie in `dpdk/pmds-VERSION` beside the library, as Debian and DPDK's own build have it.
fn installed_drivers(library: &Path) -> Vec<&'static str> {
    let folder = library.parent().map(|folder| folder.join("dpdk"));
    let folders = folder.and_then(|folder| fs::read_dir(folder).ok()).into_iter().flatten();
    let folders: Vec<PathBuf> = folders.filter_map(Result::ok).map(|entry| entry.path()).collect();
    let is_there =
        |driver: &&str| folders.iter().any(|folder| folder.join(format!("librte_net_{driver}.so")).exists());
    DRIVERS.into_iter().filter(is_there).collect()
}

/// What the demo uses where it is there.
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
    use super::*;

    #[test]
    fn the_file_behind_a_mapping_is_found() {
        let maps = "\
7f0000000000-7f0000001000 r--p 00000000 fe:00 1234                       /usr/lib/libc.so.6
7f0000002000-7f0000003000 r-xp 00001000 fe:00 1235                       /usr/lib/librte_eal.so.23.0
7f0000004000-7f0000005000 rw-p 00000000 00:00 0
";
        assert_eq!(mapped_file(maps, "librte_eal.so"), Some("/usr/lib/librte_eal.so.23.0"));
        assert_eq!(mapped_file(maps, "librte_mbuf.so"), None);
    }

    #[test]
    fn drivers_lie_beside_the_library() {
        let folder = tempfile::tempdir().unwrap();
        let drivers = folder.path().join("dpdk/pmds-23.0");
        fs::create_dir_all(&drivers).unwrap();
        fs::write(drivers.join("librte_net_tap.so"), "").unwrap();
        assert_eq!(installed_drivers(&folder.path().join("librte_eal.so.23.0")), ["tap"]);
    }
}
