//! Ways to other nodes: by which link packets leave that others work on ([`headgate_decide::routes`]).
//!
//! A link is used while BFD says that it is up, and the kernel knows the neighbour's Ethernet address, which
//! it asks for because BFD's packets go there.

use headgate_decide::units::{Instant as Moment, PortId, Span};
use headgate_host::network::Mac;
use headgate_kernel::vxlan_gpe;

use crate::config::Config;
use crate::config::model::Backend;

/// Time between two questions for the address of a neighbour whose link is up. Our choice: one costs some
/// microseconds, and the kernel mostly knows it at the first.
pub(super) const ASK_EVERY: Span = Span::from_millis(20);
/// Questions after which it is told that there is no answer. Our choice: longer than the kernel tries.
pub(super) const ASKED_OFTEN: u32 = 250;

/// End of a link that packets of chains over several nodes go by.
#[derive(Clone, Debug)]
pub(super) struct End {
    pub(super) port: PortId,
    pub(super) interface: String,
    /// The neighbour's address where nobody has to be asked for it, as there is none on the wire.
    pub(super) known: Option<Mac>,
    pub(super) is_up: bool,
    /// The neighbour's address, once it is known.
    pub(super) neighbour: Option<Mac>,
    /// Questions without an answer.
    pub(super) asked: u32,
}

/// Ends of all links; none where no chain is over several nodes.
#[derive(Default)]
pub struct Ways {
    /// In the order of the node's links.
    pub(super) ends: Vec<End>,
    /// When neighbours are asked for again.
    pub(super) due: Moment,
}

impl Ways {
    /// Returns the ends of a node's links, all of them down.
    pub fn new(config: &Config) -> Self {
        let end = |(number, port): (usize, &crate::config::model::Port)| {
            let (interface, known) = match (&port.backend, port.link?) {
                (Backend::Interface(one), _) => (&one.interface, None),
                (Backend::VxlanGpe(one), _) => (&one.interface, Some(Mac(vxlan_gpe::PEER))),
                _ => return None,
            };
            let (port, interface) = (PortId(number as u16), interface.clone());
            Some(End { port, interface, known, is_up: false, neighbour: None, asked: 0 })
        };
        let ends = config.ports.iter().enumerate().filter_map(end).collect();
        Self { ends, due: Moment::default() }
    }
}
