//! Cables of a lab's links.

use std::time::Duration;

use headgate_config::model::{LabLink, NodeLink};
use headgate_host::cable::{Cable, Quality};
use headgate_host::namespace::Namespace;
use headgate_host::network::{Mac, VethEnd};

use crate::error::CommandError;

/// Lays a cable of a link between two places: one with the link's rate and delay, where it has any. `mark`
/// tells its addresses from those of other cables of the link.
pub fn lay(
    places: [&Namespace; 2],
    names: [&str; 2],
    mtu: u32,
    (link, mark): (&NodeLink, u8),
) -> Result<Option<Cable>, CommandError> {
    if !link.lab.is_plain() {
        let LabLink { rate, delay_ns } = link.lab;
        let quality = Quality { delay: Duration::from_nanos(delay_ns), rate, ..Quality::default() };
        return Ok(Some(Cable::lay(places, names, mtu, quality).map_err(CommandError::environment)?));
    }
    let [high, low] = link.number.to_be_bytes();
    // Locally administered, and unique in the lab.
    let end = |name, last| VethEnd { name, mac: Mac([2, b'H', mark, high, low, last]) };
    places[0].join(places[1], [end(names[0], 1), end(names[1], 2)], mtu)?;
    Ok(None)
}
