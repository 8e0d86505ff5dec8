//! Hand-over of this manager's work to the one that follows it, and the other side of that.
//! [`headgate_decide::handover`] decides the steps; this file and its parts carry them out.
//!
//! - [`message`]: what both say to each other, with open files;
//! - [`leaving`]: a manager that is followed;
//! - [`coming`]: a manager that follows.

pub mod coming;
pub mod leaving;
pub mod message;

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use headgate_api::status::Followed;
use headgate_decide::units::Instant as Moment;

use super::{link, origin};
use crate::config::Config;
use crate::config::model::{Backend, Nf};

/// Outcome of hand-overs, for the process around the control loop.
#[derive(Clone, Default)]
pub struct Fate(Arc<Inner>);

#[derive(Default)]
struct Inner {
    /// Number of the process that serves now; 0: there is none.
    successor: AtomicU32,
    /// Reason why this manager does not follow the one that it was to follow.
    failure: Mutex<Option<String>>,
}

impl Fate {
    /// Returns the process that serves now in place of this one.
    #[must_use]
    pub fn successor(&self) -> Option<u32> {
        // A number alone: it announces nothing.
        Some(self.0.successor.load(Ordering::Relaxed)).filter(|pid| *pid != 0)
    }

    /// Returns why this manager does not follow the one that it was to follow.
    #[must_use]
    pub fn failure(&self) -> Option<String> {
        self.0.failure.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn note_successor(&self, pid: u32) {
        self.0.successor.store(pid, Ordering::Relaxed);
    }

    fn note_failure(&self, why: String) {
        *self.0.failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(why);
    }
}

/// Parts of a control loop that a hand-over concerns.
#[derive(Default)]
pub struct HandOver {
    /// This manager is followed.
    leaving: Option<leaving::Leaving>,
    /// This manager follows another one, and is not alone yet.
    coming: Option<coming::Coming>,
    /// The manager that it followed, if it did.
    followed: Option<Followed>,
    /// Time since which only NFs are waited for, and silence before that, in nanoseconds.
    opening: Option<(Moment, u64)>,
    fate: Fate,
}

impl HandOver {
    /// Returns that of a manager that follows another one, or of one that does not.
    pub fn new(coming: Option<coming::Coming>, fate: Fate) -> Self {
        Self { coming, fate, ..Self::default() }
    }

    /// Returns whether a step is under way that others wait for.
    pub fn is_hurried(&self) -> bool {
        self.leaving.as_ref().is_some_and(leaving::Leaving::is_hurried)
            || self.coming.as_ref().is_some_and(coming::Coming::is_hurried)
    }

    /// Returns whether packets may be taken in, as far as a hand-over is concerned.
    pub fn may_serve(&self) -> bool {
        self.coming.as_ref().is_none_or(coming::Coming::may_serve)
            && self.leaving.as_ref().is_none_or(|leaving| !leaving.is_hurried())
    }

    /// Returns whether this manager still prepares to follow another one.
    pub fn is_preparing(&self) -> bool {
        self.coming.as_ref().is_some_and(coming::Coming::is_preparing)
    }

    /// Notes an instance that begins when the one of the manager before has ended.
    pub fn note_late(&mut self, at: usize) {
        if let Some(coming) = &mut self.coming {
            coming.note_late(at);
        }
    }

    /// Returns the manager that it followed, if it did.
    pub fn followed(&self) -> Option<Followed> {
        self.followed.clone()
    }
}

/// Returns whether a process of this NF is to begin only after its predecessor's has ended: both would write
/// to the same state or files.
pub fn begins_late(nf: &Nf) -> bool {
    nf.state.is_some() || !nf.confinement.write.is_empty()
}

/// Returns the reasons, in sentences, why the work by a configuration cannot be handed over.
pub fn obstacles(config: &Config) -> Vec<String> {
    let of_port = |port: &crate::config::model::Port| match &port.backend {
        Backend::Dpdk(_) => {
            Some(format!("port \"{}\" is a DPDK device, which one process alone can have", port.name))
        }
        Backend::Pcap(_) => Some(format!("port \"{}\" is a capture, which would be begun anew", port.name)),
        Backend::Interface(_)
        | Backend::Tap { .. }
        | Backend::Generator(_)
        | Backend::Null
        | Backend::VxlanGpe(_)
        | Backend::Elsewhere { .. } => None,
    };
    let of_state = |nf: &Nf| {
        (nf.state.is_some() && nf.cores.len() > 1)
            .then_some("keeps state in several instances, and its flows would not find that of theirs again")
    };
    let of_nf = |nf: &Nf| {
        let why = origin::obstacle(nf).or_else(|| link::obstacle(nf)).or_else(|| of_state(nf))?;
        Some(format!("NF \"{}\" {why}", nf.name))
    };
    let of_group = config.node.as_ref().and_then(|node| node.groups.first());
    let of_group = of_group.map(|group| {
        format!(
            "this node works for group `{}`: hand it over (`headgate migrate {} --to NODE`), and start this manager \
             anew",
            group.name, group.name
        )
    });
    let reserves = config
        .scheduler
        .reserve_cores
        .then(|| "`reserve_cores` keeps NFs of another manager off their cores".to_owned());
    let has_links = config.node.as_ref().is_some_and(|node| !node.links.is_empty());
    let of_links = has_links
        .then(|| "it has links to other nodes, and one process alone can have their BFD sessions".to_owned());
    config
        .ports
        .iter()
        .filter_map(of_port)
        .chain(config.nfs.iter().filter_map(of_nf))
        .chain(reserves)
        .chain(of_links)
        .chain(of_group)
        .collect()
}
