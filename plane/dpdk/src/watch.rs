//! The kernel interface below a device: whether it works, and what becomes of the device when it is gone.
//!
//! DPDK's drivers of kernel interfaces find theirs once, by its number, and report "up" from start to stop.
//! When the interface is deleted, the kernel takes the number back and lets go of their sockets; one that is
//! made anew under the old name has another number, and the driver never hears of it.
//!
//! af_packet's sockets are ours (see [`crate::packet_socket`]), and a packet socket whose interface is gone
//! can be bound to another while its rings stay where they are: the driver, and the worker in it, notice
//! nothing. That does not hold for sockets in a fanout group (the kernel refuses), for AF_XDP sockets (bound
//! once), and for tap devices (the interface was the device): these stay dead, and the status says so.

use crate::device::Device;
use crate::driver::Treatment;
use crate::interface::Interface;

/// State of a kernel interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InterfaceState {
    /// It carries packets.
    Up,
    /// It is switched off, or what it is joined to is.
    Down,
    /// It is gone.
    Gone,
}

/// Way in which a device comes back after its interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Return {
    /// It takes up the next interface of the name by itself.
    ByItself,
    /// It takes up the next interface of the name when it is opened anew.
    WhenOpened,
    /// It makes its interface again when it is opened anew.
    MakesIt,
}

/// Watch over the interface of a device.
pub(crate) struct Watch {
    interface: Interface,
    state: InterfaceState,
    returns: Return,
}

impl Watch {
    /// Returns a watch over the interface that a device is laid over, or that it has made; `None` when there
    /// is none.
    pub(crate) fn of(device: &Device, over: Option<&Interface>, treatment: &Treatment) -> Option<Self> {
        let made = || Interface::numbered(device.info()?.if_index);
        let interface = if treatment.makes_interface { made() } else { over.cloned() }?;
        let returns = match device.resources().sockets.as_ref() {
            _ if treatment.makes_interface => Return::MakesIt,
            Some(sockets) if sockets.can_move() => Return::ByItself,
            Some(_) | None => Return::WhenOpened,
        };
        let state = running(&interface);
        Some(Self { interface, state, returns })
    }

    pub(crate) const fn state(&self) -> InterfaceState {
        self.state
    }

    /// Returns whether packets can pass at this moment.
    pub(crate) fn is_running(&self) -> bool {
        self.state != InterfaceState::Gone && self.interface.is_running()
    }

    pub(crate) const fn returns(&self) -> Return {
        self.returns
    }

    pub(crate) fn name(&self) -> String {
        self.interface.name()
    }

    /// Polls the interface, and takes up another of its name. Returns its state when that has changed.
    pub(crate) fn poll(&mut self, device: &Device) -> Option<InterfaceState> {
        let before = self.state;
        self.state = match self.returns {
            Return::ByItself => self.follow(device),
            // What was lost stays lost.
            _ if before == InterfaceState::Gone || !self.interface.is_there() => InterfaceState::Gone,
            _ => running(&self.interface),
        };
        (self.state != before).then_some(self.state)
    }

    fn follow(&mut self, device: &Device) -> InterfaceState {
        let mut resources = device.resources();
        let Some(sockets) = &resources.sockets else { return InterfaceState::Gone };
        if sockets.are_bound_to(&self.interface) {
            return running(&self.interface);
        }
        let Some(fresh) = self.interface.next() else { return InterfaceState::Gone };
        let Ok(membership) = sockets.move_to(&fresh) else { return InterfaceState::Gone };
        resources.promiscuous = Some(membership);
        self.interface = fresh;
        running(&self.interface)
    }
}

fn running(interface: &Interface) -> InterfaceState {
    if interface.is_running() { InterfaceState::Up } else { InterfaceState::Down }
}
