//! Rings shared with a worker: the link of an NF written against the library.

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use headgate_decide::units::{CoreId, RegionId};
use headgate_decide::wake::{CallMarks, SLICE};
use headgate_path::board::InstanceCounts;
use headgate_path::link::{LinkEnds, RingEnds};
use headgate_path::stages::InstanceEnds;
use headgate_session::inbox::Inbox;
use headgate_session::message::{Loop, Part, ToNf, Welcome};
use headgate_shm::control::TIMES_VERSION;
use headgate_shm::{ControlLayout, ManagerSide, Region, Times};

use super::{Ground, Progress, Seat, Work, handling};
use crate::control::state::StateHome;

/// Memory of one process.
pub struct Rings {
    /// Its rings, orders and accounts.
    pub side: Arc<ManagerSide>,
    /// Number of empty buffers to lend it.
    pub lend: u32,
    /// Whether it takes frames that are not cut yet.
    pub takes_long: bool,
    /// Time at which it was made.
    pub(super) made: Instant,
}

impl Rings {
    pub(super) fn make(seat: &Seat) -> Result<Self, String> {
        Ok(Self { side: make_side(seat)?, lend: 0, takes_long: false, made: Instant::now() })
    }

    pub(super) fn welcome(
        &self,
        seat: &Seat,
        (state, part): (Option<&mut StateHome>, Part),
        inbox: &Inbox,
        ground: &Ground<'_>,
    ) -> Result<(), String> {
        let region = &ground.fabric.regions[seat.nf.domain.index()].region;
        let mut welcome = welcome(seat, region);
        // Links come last, and are not for NFs.
        let ports = ground.config.ports.iter().filter(|port| port.link.is_none());
        welcome.ports = ports.map(|port| port.name.clone()).collect();
        welcome.stages = ground.fabric.stage_names();
        welcome.chains = ground.fabric.chains_of(seat.stage);
        let handed = state.map(|state| match part {
            Part::Standby => state.share(&seat.name),
            Part::Alone | Part::Active => state.hand_over(&seat.name),
        });
        let handed = handed.transpose()?;
        let (told, file) = handed.unzip();
        welcome.state = told;
        let times = ground.config.is_in_group(&seat.nf.name).then(|| times_of(seat, inbox, ground));
        let times = times.transpose()?;
        welcome.has_times = times.is_some();
        let files: Vec<BorrowedFd<'_>> = file.into_iter().chain(times).collect();
        send(inbox, welcome, region, &self.side, &files)
    }
}

/// Returns the times of the packets of an NF in a group.
fn times_of<'a>(seat: &Seat, inbox: &Inbox, ground: &'a Ground<'_>) -> Result<BorrowedFd<'a>, String> {
    let version = inbox.version();
    if version < TIMES_VERSION {
        return Err(format!(
            "in a group time is that of the gate, and it speaks version {version} of the interface, which \
             knows of none before {TIMES_VERSION}: build it again with the library of this release"
        ));
    }
    let times = ground.fabric.regions[seat.nf.domain.index()].holders.extras.times.as_ref();
    times.map(Times::file).ok_or_else(|| "its packets have no times".to_owned())
}

/// Makes new memory for a process of an instance.
pub(super) fn make_side(seat: &Seat) -> Result<Arc<ManagerSide>, String> {
    let layout = ControlLayout::new(seat.nf.ring)?;
    ManagerSide::create(&seat.name, layout).map(Arc::new).map_err(|error| error.to_string())
}

/// Returns the part of a welcome that every NF gets.
pub(super) fn welcome(seat: &Seat, region: &Region) -> Welcome {
    Welcome {
        name: seat.name.clone(),
        buffers: region.geometry().plain_buffers(),
        stride: region.geometry().stride(),
        long_buffers: region.geometry().long_buffers(),
        ring: seat.nf.ring,
        waits: seat.nf.waits,
        arguments: seat.nf.origin.arguments().to_string(),
        ..Welcome::default()
    }
}

/// Sends a welcome with its files.
pub(super) fn send(
    inbox: &Inbox,
    welcome: Welcome,
    region: &Region,
    side: &ManagerSide,
    more: &[BorrowedFd<'_>],
) -> Result<(), String> {
    let welcome = Welcome { abi: inbox.version(), ..welcome };
    let (control, directives) = (side.control(), side.directives());
    let mut files: Vec<BorrowedFd<'_>> = vec![region.file(), control.file(), directives.file()];
    files.extend(more);
    inbox.send(&ToNf::Welcome(welcome), &files).map_err(|error| format!("could not be welcomed: {error}"))
}

/// Returns the ends of the rings of a ready process, for its worker. `protected` has the packets that all
/// before it returned, if it has a standby.
pub(super) fn ends(
    side: &Arc<ManagerSide>,
    (lend, takes_long): (u32, bool),
    protected: Option<u32>,
    seat: &Seat,
    ground: &Ground<'_>,
) -> Box<InstanceEnds> {
    let cycles_per_micro = ground.cycles_per_micro();
    let marks = CallMarks::new(seat.nf.ring, cycles_per_micro);
    side.orders().batch.store(marks.backlog, Ordering::Relaxed);
    side.orders().slice_micros.store(SLICE.as_micros() as u32, Ordering::Relaxed);
    Box::new(InstanceEnds {
        number: seat.number,
        region: RegionId(seat.nf.domain.index() as u8),
        link: LinkEnds::Rings(Box::new(RingEnds {
            core: CoreId(seat.core as u16),
            sleeps: seat.nf.waits == Loop::Notified,
            marks,
            handling: handling(&ground.config.scheduler, &seat.nf, seat.nf.ring - lend, cycles_per_micro),
            lend,
            takes_long,
            protected,
            side: side.clone(),
        })),
    })
}

pub(super) fn work(side: &ManagerSide, counts: &InstanceCounts) -> Work {
    let said = side.progress();
    Work {
        held: counts.held.get() as u32,
        // The NF's own count of packets taken proves nothing.
        progress: counts.returned.get(),
        disk_beat: (said.disk_waits.load(Ordering::Relaxed) != 0)
            .then(|| said.disk_beats.load(Ordering::Relaxed)),
    }
}

/// Returns the most that a counter of a process can have reached whose memory was made then: one each
/// nanosecond, which nothing does that takes an instruction. So whatever an NF writes, its counters can be
/// added up.
pub(super) fn count_max(made: Instant) -> u64 {
    u64::try_from(made.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

/// Returns whether the library's counters are ones that can be.
pub(super) fn are_possible(side: &ManagerSide, made: Instant) -> bool {
    let (said, kernel) = (side.progress(), side.kernel_counts());
    let [one, other] = kernel
        .interfaces
        .each_ref()
        .map(|all| [&all.received, &all.sent, &all.calls, &all.lost, &all.unsent, &all.too_long]);
    let loops = [&said.packets, &said.bursts, &said.sleeps, &said.handler_packets];
    let all = loops.into_iter().chain(one).chain(other).chain([&kernel.waits, &kernel.dropped]);
    // They are read before the clock: what was counted meanwhile is no offence.
    let largest = all.map(|count| count.load(Ordering::Relaxed)).max().unwrap_or(0);
    largest <= count_max(made)
}

pub(super) fn progress(side: &ManagerSide) -> Progress {
    let said = side.progress();
    let read = |value: &AtomicU64| value.load(Ordering::Relaxed);
    Progress {
        sleeps: read(&said.sleeps),
        bursts: read(&said.bursts),
        handler_packets: read(&said.handler_packets),
        handler_cycles: read(&said.handler_cycles),
    }
}
