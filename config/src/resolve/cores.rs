//! Cores that a file names: whether they are there, whether they may be used, and whether they were meant to
//! be.
//!
//! A cpuset is a limit, so a core outside of it is an error. An affinity mask is a wish, which the file
//! overrides: a core outside of it is used, and that is said.

use super::super::codes::Code;
use super::super::document::Document;
use super::super::model::{Backend, Config};
use super::super::report::Span;
use super::super::values::IdleWorker;
use super::Resolver;

impl Resolver<'_> {
    /// Returns whether a core may be used; reports one that may not, and one that was not meant to be.
    pub(super) fn core_exists(&mut self, core: u32, span: &Span) -> bool {
        if self.machine.cores.contains(&core) {
            self.warn_outside_mask(core, span);
            return true;
        }
        let (cores, limits) = (core_list(&self.machine.cores), &self.machine.limits);
        let (message, help) = match &limits.cpuset {
            _ if !limits.online.contains(&core) => (
                format!("there is no core {core} to use"),
                format!("Headgate may use {cores} of this machine"),
            ),
            Some((name, cure)) => (
                format!("core {core} is there, but {name} holds {cores} only"),
                format!("{cure}, or name one of its cores"),
            ),
            None => (
                format!("core {core} is there, but this process may use {cores} only"),
                "name one of these, or widen the cpuset of its container or control group".to_owned(),
            ),
        };
        self.report.add(Code::CoreMissing, span, message).help(help);
        false
    }

    /// Says why workers that are to sleep look often all the same.
    pub(super) fn warn_of_short_sleep(&mut self, document: &Document, config: &Config) {
        let Some(span) = document.manager.value().and_then(|table| table.idle.key.as_ref()) else { return };
        if config.manager.idle != IdleWorker::Sleep {
            return;
        }
        let why = if let Some(port) = config.ports.iter().find(|port| port.backend.is_silent()) {
            format!("port `{}` rings nothing when packets come", port.name)
        } else if config.manager.cores.len() > 1 {
            "workers do not ring each other".to_owned()
        } else {
            return;
        };
        self.report
            .add(Code::SleepShort, span, format!("workers cannot sleep for long: {why}"))
            .help("with one worker, and ports of kind `interface` or `tap`, an idle node takes some percent of a core");
    }

    fn warn_outside_mask(&mut self, core: u32, span: &Span) {
        let mask = &self.machine.limits.mask;
        if mask.is_empty() || mask.contains(&core) {
            return;
        }
        let message = format!(
            "core {core} is outside the affinity mask that this program was started with, which holds {}",
            core_list(mask)
        );
        let help = "it is used all the same, because the file names it; name a core of the mask, or start without \
                    the mask (`taskset`; `CPUAffinity=` of a unit)";
        self.report.add(Code::CoreOutsideMask, span, message).help(help);
    }
}

/// `cores 0, 1, 4-7`, `core 0`, `no core`.
pub fn core_list(cores: &[u32]) -> String {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for core in cores {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == *core => *last = *core,
            _ => ranges.push((*core, *core)),
        }
    }
    let text = |(first, last): &(u32, u32)| match last - first {
        0 => first.to_string(),
        1 => format!("{first}, {last}"),
        _ => format!("{first}-{last}"),
    };
    let list = ranges.iter().map(text).collect::<Vec<_>>().join(", ");
    match cores.len() {
        0 => "no core".to_owned(),
        1 => format!("core {list}"),
        _ => format!("cores {list}"),
    }
}

impl Backend {
    /// Returns whether nothing rings when packets come by it, so that a worker that rests has to look.
    #[must_use]
    pub const fn is_silent(&self) -> bool {
        matches!(self, Self::Dpdk(_) | Self::Generator(_) | Self::Pcap(_))
    }
}
