//! Cables of a lab's links.

use std::time::Duration;

use headgate_config::model::LabLink;
use headgate_host::cable::{Cable, Quality};
use headgate_host::namespace::Namespace;
use headgate_host::network::{Mac, VethEnd};

use crate::error::CommandError;

/// Lays a cable of a link between two places: one with a rate and a delay, where it is to have any. The
/// number is the link's, and the mark tells its addresses from those of other cables of the link.
pub fn lay(
    places: [&Namespace; 2],
    names: [&str; 2],
    mtu: u32,
    (number, mark): (u16, u8),
    lab: LabLink,
) -> Result<Option<Cable>, CommandError> {
    if !lab.is_plain() {
        let LabLink { rate, delay_ns } = lab;
        let quality = Quality { delay: Duration::from_nanos(delay_ns), rate, ..Quality::default() };
        return Ok(Some(Cable::lay(places, names, mtu, quality).map_err(CommandError::environment)?));
    }
    let [high, low] = number.to_be_bytes();
    // Locally administered, and unique in the lab.
    let end = |name, last| VethEnd { name, mac: Mac([2, b'H', mark, high, low, last]) };
    places[0].join(places[1], [end(names[0], 1), end(names[1], 2)], mtu)?;
    Ok(None)
}
