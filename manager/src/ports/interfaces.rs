//! The kernel's interfaces below ports: words for what becomes of them, and their addresses.

use headgate_dpdk::{InterfaceState, Return};
use headgate_host::network::{self, Links, Offload};
use headgate_kernel::interface::{Frames, Kind, State};
use headgate_kernel::vxlan_gpe;
use headgate_wire::ethernet::ethertype;

use crate::config::model::{Backend, Port, ServiceAddress};

/// Returns how a port reaches its interface: of a link it takes service headers alone, and BFD, ARP and
/// addresses stay with the kernel.
pub const fn kind_of(port: &Port) -> Kind {
    let headers = Frames { ethertype: ethertype::NSH, word: None };
    if port.link.is_some() { Kind::SocketsFor(headers) } else { Kind::Sockets }
}

/// Returns the word for it in the status of ports.
pub const fn word(kind: Kind) -> &'static str {
    match kind {
        Kind::Sockets => "interface",
        Kind::SocketsFor(_) => "link",
        Kind::Tap => "tap",
    }
}

/// Returns the same state of an interface below a DPDK device.
pub const fn state_of(state: InterfaceState) -> State {
    match state {
        InterfaceState::Up => State::Up,
        InterfaceState::Down => State::Down,
        InterfaceState::Gone => State::Gone,
    }
}

/// Returns the report on an interface, with what is to be done.
pub fn sentence(name: &str, state: State, returns: Return) -> String {
    match (state, returns) {
        (State::Up, _) => format!("interface {name} is up"),
        (State::Away, _) => {
            format!("interface {name} is with another manager, which this one follows or that follows it")
        }
        (State::Down, _) => format!(
            "interface {name} is down, or its other end: `ip link set dev {name} up`; it is used again then"
        ),
        (State::Gone, Return::ByItself) => {
            format!("interface {name} is gone; one of this name is used as soon as it is there")
        }
        (State::Gone, Return::WhenOpened) => format!(
            "interface {name} is gone, and this port stays dead, because its DPDK driver cannot take up another: make \
             one of this name and restart the manager; a port with `interface = \"{name}\"` needs no restart"
        ),
        (State::Gone, Return::MakesIt) => format!(
            "interface {name} is gone, which its DPDK driver had made, and this port stays dead: restart the manager, \
             which makes it again; a port with `interface =` over one that you make needs no restart"
        ),
    }
}

/// Returns whether an interface is up, and the sentence on its state, where it comes back by itself.
pub fn interface_sentence(name: &str, state: State) -> (bool, String) {
    (state == State::Up, sentence(name, state, Return::ByItself))
}

/// Returns what it means for long frames that an interface has no segmentation offload; `None` where it has,
/// or cannot be asked. Of a TAP it is the kernel's end that cuts then, of any other our own.
pub fn without_offload(name: &str, kind: &str) -> Option<String> {
    let is_on = Links::here().ok()?.offload(name, Offload::TransmitSegmentation).ok()?;
    let meaning = if kind == "tap" {
        format!("the kernel cuts them before they come (`ethtool -K {name} tx on tso on`)")
    } else {
        "the kernel cuts them as they leave".to_owned()
    };
    (!is_on).then(|| format!("; tso is off on {name}: {meaning}"))
}

/// Returns the address to which service headers come by a port that is open; `None` where it takes none.
///
/// # Errors
/// A sentence, where its interface has no address.
pub fn service_address(port: &Port) -> Result<Option<[u8; 6]>, String> {
    let interface = match (port.service, &port.backend) {
        (None, _) => return Ok(None),
        (Some(ServiceAddress::Given(mac)), _) => return Ok(Some(mac.0.0)),
        (Some(ServiceAddress::Own), Backend::VxlanGpe(_)) => return Ok(Some(vxlan_gpe::OWN)),
        (Some(ServiceAddress::Own), Backend::Interface(one)) => network::find(&one.interface),
        (Some(ServiceAddress::Own), _) => unreachable!("only an interface has an address of its own"),
    };
    let interface = interface.map_err(|error| format!("port \"{}\": {error}", port.name))?;
    let address = interface.mac.filter(|mac| mac.0 != [0; 6]).ok_or_else(|| {
        format!(
            "port \"{}\": interface {} has no Ethernet address, to which packets with a service header could come: \
             leave `nsh` out, or write an address in its place",
            port.name, interface.name
        )
    })?;
    Ok(Some(address.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_come_back_by_itself_is_said_with_its_cure() {
        let gone = |returns| sentence("eth7", State::Gone, returns);
        assert!(gone(Return::ByItself).contains("as soon as it is there"));
        for returns in [Return::WhenOpened, Return::MakesIt] {
            let said = gone(returns);
            assert!(said.contains("stays dead") && said.contains("restart the manager"), "{said}");
            assert!(said.contains("`interface ="), "{said}");
        }
    }
}
