//! Words for what becomes of the kernel's interfaces below ports.

use headgate_dpdk::{InterfaceState, Return};
use headgate_kernel::interface::State;

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
