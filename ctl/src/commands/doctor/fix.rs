//! Reserving the hugepages of a default configuration.

use headgate_config::{self as config, Catalog, Machine, plan};
use headgate_host::hugepages::{self, HugepagesError, PAGE_BYTES};
use headgate_units::text as units;
use serde::Serialize;

use crate::error::CommandError;
use crate::output::Output;

const POOL_FILE: &str = "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages";

/// The smallest configuration that has packet memory.
const DEFAULT: &str = "\
[[port]]
name = \"sink\"
kind = \"null\"
";

/// Hugepages that a configuration takes which says nothing about memory.
pub fn default_hugepages() -> u64 {
    default_regions().iter().map(|region| region.huge_pages).sum()
}

/// Bytes of packet memory of the same.
pub fn default_region_bytes() -> u64 {
    default_regions().iter().map(|region| region.bytes).sum()
}

fn default_regions() -> Vec<config::RegionPlan> {
    // A machine in which everything fits: the question is what is wanted.
    let machine =
        Machine { cores: vec![0], memory_bytes: u64::MAX, hugepages_free: u64::MAX, ..Machine::default() };
    match config::parse("default", DEFAULT, &Catalog::default(), &machine) {
        Ok(loaded) => plan::describe(&loaded.config, &machine).regions,
        Err(mistakes) => unreachable!("the default configuration is right: {mistakes}"),
    }
}

/// Record of what was done.
#[derive(Clone, Debug, Serialize)]
pub struct Fixed {
    /// Pages of 2 MiB added to the pool.
    pub hugepages: u64,
    /// The command that gives them back.
    pub give_back: String,
}

/// Adds what is missing to the pool.
pub fn reserve_hugepages(out: &Output) -> Result<Fixed, CommandError> {
    let pool = hugepages::pool().map_err(CommandError::environment)?;
    let missing = default_hugepages().saturating_sub(pool.available());
    let fixed = Fixed { hugepages: missing, give_back: format!("echo {} > {POOL_FILE}", pool.total) };
    if missing == 0 {
        out.note("enough hugepages are available; nothing was changed");
        return Ok(fixed);
    }
    hugepages::reserve(missing).map_err(|error| match error {
        HugepagesError::File(error) => {
            CommandError::environment(format!("hugepages belong to the machine: {error}"))
        }
        error => CommandError::environment(error),
    })?;
    out.note(format!(
        "reserved {missing} hugepages ({}); give them back with: {}",
        units::bytes(missing * PAGE_BYTES),
        fixed.give_back
    ));
    Ok(fixed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_default_configuration_wants_what_its_packets_take() {
        let (pages, bytes) = (default_hugepages(), default_region_bytes());
        assert!(pages > 0);
        assert_eq!(bytes, pages * PAGE_BYTES);
    }
}
