//! Interfaces of the kernel that an NF serves itself: what it is given, and their status.
//!
//! It is launched, scheduled, watched and restarted as any other. Its packets bypass the workers, so to the
//! packet path it is an instance that no chain visits.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use headgate_kernel::Pool;
use headgate_path::drop::DropReason;
use headgate_session::inbox::Inbox;
use headgate_session::kernel_io::KernelIo;
use headgate_shm::control::InterfaceCounts;
use headgate_shm::{ManagerSide, Region};

use super::{Ground, Seat, rings};
use crate::config::model::Interfaces as Configured;
use crate::status::{InterfaceStatus, IoStatus};
use crate::wiring;

/// Names of an NF's ports on interfaces: the one towards the chain's entry, and the one towards its end.
const PORT_NAMES: [&str; 2] = ["in", "out"];

/// Interfaces and memory of one process.
pub struct Interfaces {
    /// Its orders and accounts.
    pub side: Arc<ManagerSide>,
    /// Files that are sent with its welcome, until then.
    given: Option<Given>,
    /// Descriptors that stay open here as long as it has them.
    _keeps: Vec<OwnedFd>,
    /// Whether each passes packets without a copy.
    zero_copy: [bool; 2],
    /// Time at which it was made.
    pub(super) made: Instant,
}

struct Given {
    told: KernelIo,
    /// Memory of its packets and of no others.
    memory: Region,
    /// Sockets, one on each interface.
    sockets: [OwnedFd; 2],
}

impl Interfaces {
    pub(super) fn make(seat: &Seat, wanted: &Configured, ground: &mut Ground<'_>) -> Result<Self, String> {
        let told = wiring::describe(&seat.nf, wanted, ground.config.memory.buffer_bytes);
        let memory = Pool::memory(&told, 0).map_err(|error| error.to_string())?;
        let [one, other] = ground.wiring.sockets(wanted, &told, &memory)?;
        let zero_copy = [one.is_zero_copy, other.is_zero_copy];
        let keeps = one.keeps.into_iter().chain(other.keeps).collect();
        let given = Some(Given { told, memory, sockets: [one.socket, other.socket] });
        Ok(Self { side: rings::make_side(seat)?, given, _keeps: keeps, zero_copy, made: Instant::now() })
    }

    pub(super) fn welcome(&mut self, seat: &Seat, inbox: &Inbox, _: &Ground<'_>) -> Result<(), String> {
        let Some(Given { told, memory, sockets }) = self.given.take() else { return Ok(()) };
        let mut welcome = rings::welcome(seat, &memory);
        welcome.ports = PORT_NAMES.map(str::to_owned).into();
        welcome.kernel = Some(told);
        let sockets: Vec<_> = sockets.iter().map(AsFd::as_fd).collect();
        rings::send(inbox, welcome, &memory, &self.side, &sockets)
    }
}

/// Returns the counters of an NF's processes on its interfaces: those of `before`, and the present one's if
/// there is one, as far as they are possible.
pub(super) fn status(wanted: &Configured, before: &IoStatus, now: Option<&super::Link>) -> IoStatus {
    let now = match now {
        Some(super::Link::Interfaces(now)) => Some(now),
        _ => None,
    };
    let counts = now.map(|now| now.side.kernel_counts());
    let most = now.map_or(0, |now| rings::count_max(now.made));
    let read = |value: &AtomicU64| value.load(Ordering::Relaxed).min(most);
    let interface = |at: usize| {
        let counts: Option<&InterfaceCounts> = counts.map(|counts| &counts.interfaces[at]);
        let count = |pick: fn(&InterfaceCounts) -> &AtomicU64| counts.map_or(0, |all| read(pick(all)));
        let before = &before.interfaces[at];
        InterfaceStatus {
            name: wanted.sides[at].to_string(),
            received: before.received + count(|all| &all.received),
            sent: before.sent + count(|all| &all.sent),
            calls: before.calls + count(|all| &all.calls),
            lost: before.lost + count(|all| &all.lost),
            unsent: before.unsent + count(|all| &all.unsent),
            too_long: before.too_long + count(|all| &all.too_long),
            zero_copy: now.is_some_and(|now| now.zero_copy[at]),
        }
    };
    IoStatus {
        driver: wanted.driver.name().to_owned(),
        batch: wanted.batch,
        waits: before.waits + counts.map_or(0, |counts| read(&counts.waits)),
        dropped: before.dropped + counts.map_or(0, |counts| read(&counts.dropped)),
        interfaces: [interface(0), interface(1)],
    }
}

/// Returns the number of packets that ended at an NF on interfaces, by reason.
pub fn drops(io: &IoStatus) -> [(DropReason, u64); 4] {
    let sum = |pick: fn(&InterfaceStatus) -> u64| io.interfaces.iter().map(pick).sum::<u64>();
    [
        (DropReason::NfVerdict, io.dropped),
        (DropReason::StageFull, sum(|interface| interface.lost)),
        (DropReason::PortFull, sum(|interface| interface.unsent)),
        (DropReason::TooLong, sum(|interface| interface.too_long)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{self, Catalog, Machine};
    use crate::control::link::Link;
    use headgate_shm::ControlLayout;

    fn configured() -> Configured {
        let text = "nf = [{ name = 'a', exec = ['/bin/true'] }]
                    chain = [{ name = 'c', stages = ['a'], io = { in = 'lan0', out = 'wan0' } }]";
        let loaded = config::parse("test.toml", text, &Catalog::default(), &Machine::observe()).unwrap();
        loaded.config.nfs[0].interfaces().unwrap().clone()
    }

    fn process() -> Interfaces {
        let side = ManagerSide::create("nf", ControlLayout::new(64).unwrap()).unwrap();
        let zero_copy = [false; 2];
        Interfaces { side: Arc::new(side), given: None, _keeps: Vec::new(), zero_copy, made: Instant::now() }
    }

    /// However large the numbers that an NF writes, they can be added up over its processes and with those of
    /// others, and it is found out.
    #[test]
    fn counters_beyond_every_number_are_cut_and_found_out() {
        let wanted = configured();
        let mut before = IoStatus::default();
        for _ in 0..10 {
            let process = process();
            assert!(rings::are_possible(&process.side, process.made));
            let counts = process.side.kernel_counts();
            let [one, other] = &counts.interfaces;
            let all = [&one.received, &one.lost, &one.too_long, &other.received, &other.lost, &other.unsent];
            for count in all.into_iter().chain([&counts.waits, &counts.dropped]) {
                count.store(u64::MAX, Ordering::Relaxed);
            }
            assert!(!rings::are_possible(&process.side, process.made));
            before = status(&wanted, &before, Some(&Link::Interfaces(process)));
        }
        let hour = 3600 * 1_000_000_000;
        assert!(before.interfaces.iter().all(|one| one.received + one.lost < hour), "{before:?}");
        assert!(
            drops(&before).into_iter().map(|(_, count)| count).sum::<u64>() < hour && before.calls() < hour
        );
    }
}
