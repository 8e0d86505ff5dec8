//! Commands of the control loop to a worker, and their mailbox.

use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::Sender;

use headgate_shm::ManagerSide;
use headgate_units::{InstanceId, PortId};
use headgate_wire::MalformedError;

use crate::audit::Pause;
use crate::classify::LookedUp;
use crate::intake::FlowList;
use crate::plan::Plan;
use crate::replica;
use crate::resident::Settle;
use crate::stages::InstanceEnds;
use crate::sync::{self, AtomicU32, Ordering};
use crate::trace::Tap;

/// Request of the control loop to a worker.
pub enum Command {
    /// Work by this plan from now on.
    Plan(Arc<Plan>),
    /// Take an instance into service. The one that had its number before was reclaimed.
    Attach(Box<InstanceEnds>),
    /// Make an NF that lives in the worker's thread, which is attached like any other once it is ready.
    Settle {
        /// The instance.
        number: InstanceId,
        /// Makes it.
        settle: Settle,
    },
    /// Take an instance out of service: its process is gone. Answered by
    /// [`Event::Reclaimed`](super::Event::Reclaimed), or, where a standby has taken over meanwhile, which
    /// lives, by [`Event::Promoted`](super::Event::Promoted) before.
    Reclaim {
        /// The instance.
        number: InstanceId,
        /// Memory of the process that is gone; `None` where it shares none with us.
        dead: Option<Arc<ManagerSide>>,
    },
    /// Take a process that is ready as the standby of an instance that is protected. It takes over at once
    /// where the process of the instance has died. Without effect when there is no such instance.
    StandBy(Box<InstanceEnds>),
    /// Forget the standby of an instance. Answered by [`Event::Dismissed`](super::Event::Dismissed).
    Dismiss {
        /// The instance.
        number: InstanceId,
    },
    /// The process of an instance is gone: its standby takes over, now or as soon as there is one, which is
    /// told by [`Event::Promoted`](super::Event::Promoted). An instance that has no use for one is taken out
    /// of service, as by [`Command::Reclaim`]. Without effect where its standby has taken over already.
    TakeOver {
        /// The instance.
        number: InstanceId,
        /// Memory of the process that is gone.
        dead: Arc<ManagerSide>,
    },
    /// Stand still while somebody counts.
    Pause(Arc<Pause>),
    /// List known flows.
    Flows {
        /// Most flows of each kind.
        most: usize,
        /// Channel to send them to.
        reply: Sender<FlowList>,
    },
    /// Tell what would become of a packet that comes by a port now.
    LookUp {
        /// The port.
        port: PortId,
        /// The frame, whole.
        frame: Vec<u8>,
        /// Channel to send it to.
        reply: Sender<Result<LookedUp, MalformedError>>,
    },
    /// Measure the cost of each station, or stop.
    Measure(bool),
    /// Serve a tap.
    Tap {
        /// Number to take it away by.
        number: u32,
        /// The tap.
        tap: Box<Tap>,
    },
    /// Serve a tap no longer.
    Untap {
        /// Its number.
        number: u32,
    },
    /// Take in packets from ports, or no more; packets on their way go on. A worker begins with it.
    Receive(bool),
    /// For the group of that number, or to take part in it.
    Group(u16, Box<replica::Command>),
    /// Give everything back and end.
    Stop,
}

/// Box of commands for a worker, which costs it a load in each pass while it is empty.
#[derive(Default)]
pub struct Mailbox {
    waiting: AtomicU32,
    commands: sync::Mutex<Vec<Command>>,
    /// Where it rings for a worker that rests: an event counter of the kernel.
    bell: Option<OwnedFd>,
}

impl Mailbox {
    /// Returns one that rings this file, an eventfd(2) that does not block, at each command.
    #[must_use]
    pub fn with_bell(bell: OwnedFd) -> Self {
        Self { bell: Some(bell), ..Self::default() }
    }

    /// Returns the file that can be read from once there are commands.
    pub(crate) fn bell(&self) -> Option<BorrowedFd<'_>> {
        self.bell.as_ref().map(|bell| bell.as_fd())
    }

    /// Posts a command.
    ///
    /// # Panics
    /// When the worker has panicked while it held the box.
    pub fn post(&self, command: Command) {
        let mut commands =
            self.commands.lock().expect("a worker does not panic while it empties its mailbox");
        commands.push(command);
        self.waiting.store(commands.len() as u32, Ordering::Release); // M-release, with M-acquire
        if let Some(bell) = &self.bell {
            // It fails only when it has rung so often that it can be heard.
            let _ = rustix::io::write(bell, &1_u64.to_ne_bytes());
        }
    }

    pub(crate) fn take(&self) -> Vec<Command> {
        let mut commands = self.commands.lock().expect("nobody panics while posting");
        self.waiting.store(0, Ordering::Relaxed);
        if let Some(bell) = &self.bell {
            // Silent again: commands are posted with the lock held.
            let _ = rustix::io::read(bell, &mut [0; 8]);
        }
        std::mem::take(&mut commands)
    }

    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.load(Ordering::Acquire) == 0 // M-acquire, with M-release
    }
}
