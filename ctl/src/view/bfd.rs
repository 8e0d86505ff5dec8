//! Table of links to other nodes.

use headgate_api::status::BfdStatus;
use headgate_units::text as units;

use crate::output::Paint;
use crate::table::Table;

/// Returns the links, in the order of the configuration.
pub fn bfd(links: &[BfdStatus], paint: Paint) -> String {
    let mut table = Table::new(&[
        "node",
        "interface",
        "address",
        "state",
        ">every",
        ">down after",
        ">sent",
        ">received",
        ">refused",
        ">changes",
        "went down because",
    ]);
    for link in links {
        let ever = if link.diagnostic == "none" { String::new() } else { link.diagnostic.clone() };
        table.row([
            link.peer.clone(),
            link.interface.clone(),
            format!("{} > {}", link.address, link.peer_address),
            link.state.clone(),
            units::time(link.transmit_interval_ns),
            link.detection_time_ns.map_or(String::new(), units::time),
            units::whole(link.sent),
            units::whole(link.received),
            units::whole(link.refused),
            units::whole(link.changes),
            ever,
        ]);
    }
    if table.is_empty() {
        "no links: the configuration is for one machine\n".into()
    } else {
        table.render(paint)
    }
}
