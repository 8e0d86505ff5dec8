//! Version of this program and the libraries it is linked with, for `headgate doctor`; its manual page.

use std::fs;
use std::path::Path;
use std::process::ExitCode;

use headgate_api::Exit;
use serde_json::json;

use crate::messages;

/// Prints the version, and the path of the DPDK library that is loaded, as a JSON document.
pub fn print() -> ExitCode {
    let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let dpdk = mapped_file(&maps, "librte_eal.so");
    println!("{}", json!({ "version": env!("CARGO_PKG_VERSION"), "dpdk": dpdk }));
    Exit::Ok.into()
}

/// Writes the manual page of its command line into a folder.
pub fn manual(command: clap::Command, folder: &Path) -> ExitCode {
    // Section 8: for administrators, beside systemd's own daemons.
    match clap_mangen::Man::new(command).section("8").generate_to(folder) {
        Ok(_) => Exit::Ok.into(),
        Err(error) => {
            messages::tell(format!("cannot write a manual page to {}: {error}", folder.display()));
            Exit::Environment.into()
        }
    }
}

/// Returns the path of a mapping whose file name begins with `name` (proc_pid_maps(5): the path is the sixth
/// word).
fn mapped_file<'m>(maps: &'m str, name: &str) -> Option<&'m str> {
    let path_of = |line: &'m str| line.splitn(6, ' ').nth(5).map(str::trim);
    maps.lines()
        .filter_map(path_of)
        .find(|path| path.rsplit('/').next().is_some_and(|file| file.starts_with(name)))
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
}
