//! Identity of a measured machine: what two measurements must share to be compared.

use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::environment::Environment;

const CACHES: &str = "/sys/devices/system/cpu/cpu0/cache";

/// Sizes of the data caches of a core, in bytes; 0 where there is none, or where the kernel does not say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Caches {
    /// The first.
    pub l1_bytes: u64,
    /// The second.
    pub l2_bytes: u64,
    /// The third.
    pub l3_bytes: u64,
    /// Ways of the second; 0 where the kernel does not say.
    pub l2_ways: u64,
}

/// A machine, as far as costs depend on it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// The processor.
    pub cpu_model: String,
    /// The hypervisor; empty on bare metal.
    pub hypervisor: String,
    /// The kernel's release and version: another kernel switches and calls at other costs.
    pub kernel: String,
    /// Cores that are online.
    pub cores: String,
    /// Its caches.
    pub caches: Caches,
}

impl Identity {
    /// Returns the identity of this machine.
    #[must_use]
    pub fn observe() -> Self {
        let environment = Environment::observe();
        let or_unknown = |fact: Option<String>| fact.unwrap_or_else(|| "unknown".to_owned());
        Self {
            cpu_model: or_unknown(environment.cpu_model),
            hypervisor: environment.hypervisor.unwrap_or_default(),
            kernel: or_unknown(environment.kernel),
            cores: or_unknown(environment.cores_online),
            caches: caches_in(Path::new(CACHES)),
        }
    }

    /// Returns what differs from another, in words; empty when they are one machine.
    #[must_use]
    pub fn differences(&self, other: &Self) -> Vec<String> {
        let facts = [
            ("processor", &self.cpu_model, &other.cpu_model),
            ("hypervisor", &self.hypervisor, &other.hypervisor),
            ("kernel", &self.kernel, &other.kernel),
            ("cores", &self.cores, &other.cores),
        ];
        let mut all: Vec<String> = facts
            .into_iter()
            .filter(|(_, one, two)| one != two)
            .map(|(what, one, two)| format!("{what} {one:?} instead of {two:?}"))
            .collect();
        if self.caches != other.caches {
            all.push("other caches".to_owned());
        }
        all
    }
}

fn caches_in(folder: &Path) -> Caches {
    let mut caches = Caches::default();
    let entries = fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    for cache in entries.map(|entry| entry.path()) {
        let word = |name| fs::read_to_string(cache.join(name)).unwrap_or_default().trim().to_owned();
        if word("type") == "Instruction" {
            continue;
        }
        let bytes = bytes_in(&word("size")).unwrap_or(0);
        match word("level").as_str() {
            "1" => caches.l1_bytes = bytes,
            "2" => {
                caches.l2_bytes = bytes;
                caches.l2_ways = word("ways_of_associativity").parse().unwrap_or(0);
            }
            "3" => caches.l3_bytes = bytes,
            _ => {}
        }
    }
    caches
}

/// `48K`, `2M`.
fn bytes_in(size: &str) -> Option<u64> {
    let digits = size.trim_end_matches(|unit: char| unit.is_ascii_alphabetic());
    let factor = match &size[digits.len()..] {
        "" => 1,
        "K" => 1 << 10,
        "M" => 1 << 20,
        "G" => 1 << 30,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_the_kernel_writes_them() {
        let read = ["48K", "2M", "307200K", "64", "1G", "1T", ""].map(bytes_in);
        assert_eq!(
            read,
            [Some(49152), Some(2 << 20), Some(314_572_800), Some(64), Some(1 << 30), None, None]
        );
    }

    #[test]
    fn instruction_caches_are_none_of_data() {
        let folder = tempfile::tempdir().unwrap();
        let caches =
            [("0", "1", "Data", "48K"), ("1", "1", "Instruction", "32K"), ("2", "2", "Unified", "2048K")];
        for (index, level, kind, size) in caches {
            let cache = folder.path().join(format!("index{index}"));
            fs::create_dir(&cache).unwrap();
            for (name, word) in
                [("level", level), ("type", kind), ("size", size), ("ways_of_associativity", "16")]
            {
                fs::write(cache.join(name), format!("{word}\n")).unwrap();
            }
        }
        let expected = Caches { l1_bytes: 49152, l2_bytes: 2 << 20, l3_bytes: 0, l2_ways: 16 };
        assert_eq!(caches_in(folder.path()), expected);
        assert_eq!(caches_in(&folder.path().join("none")), Caches::default());
    }

    #[test]
    fn a_machine_is_itself_and_another_kernel_is_another() {
        let here = Identity::observe();
        assert_eq!(here.differences(&Identity::observe()), Vec::<String>::new());
        let other = Identity { kernel: "1.0".to_owned(), ..here.clone() };
        let found = here.differences(&other);
        assert!(found.len() == 1 && found[0].starts_with("kernel"), "{found:?}");
    }
}
