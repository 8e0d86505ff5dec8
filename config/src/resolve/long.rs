//! Long frames: ports whose frames may pass uncut, and the memory for that.
//!
//! Linux exchanges frames of up to 64 KiB between interfaces of one machine, with checksums that are only
//! begun. They pass whole where every NF that could be given one takes such frames, and every port that it
//! could leave by sends them; anywhere else the port cuts them as they come. Shipped NFs are known to take
//! them or not; others say so when they are ready, and until all have said it frames are cut.

use super::super::limits::LONG_BUFFERS_MAX;
use super::super::model::{
    Backend, Chain, Domain, Link, LongFrames, Nf, Out, Port, PortId, Program, Rule, Shipped,
};
use super::Resolver;

/// Long buffers that a port adds to each domain its packets pass. Our choice: as many frames of 64 KiB as its
/// socket lets wait (16 MiB); where they are all in use, frames are cut.
const LONG_BUFFERS: u32 = 256;

impl Resolver<'_> {
    /// Decides for each interface whether long frames may pass whole, and adds buffers for them to the
    /// domains that they pass.
    pub(super) fn keep_long_frames(
        &self,
        ports: &mut [Option<Port>],
        domains: Option<&mut Vec<Domain>>,
        nfs: &[Option<Nf>],
        chains: &[Option<Chain>],
        rules: &[Option<Rule>],
    ) {
        let Some(domains) = domains else { return };
        for index in 0..ports.len() {
            let id = PortId(index as u16);
            let Some(port) = ports[index].as_ref().filter(|port| port.may_have_long()) else {
                continue;
            };
            let leads = |rule: &&Rule| rule.port.is_none_or(|port| port == id);
            let led = rules.iter().flatten().filter(leads).filter_map(|rule| chains.get(rule.chain.index()));
            let led: Vec<&Chain> = led.flatten().collect();
            if led.is_empty() {
                continue;
            }
            let treatment = match self.why_cut(port, &led, ports, nfs) {
                Some(because) => LongFrames::Cut { because },
                None => LongFrames::Whole { asked: self.asked(&led, nfs) },
            };
            if matches!(treatment, LongFrames::Whole { .. }) {
                let stages = led.iter().flat_map(|chain| &chain.stages);
                let passed = stages.filter_map(|nf| Some(nfs.get(nf.index())?.as_ref()?.domain));
                let mut passed: Vec<_> = passed.chain([port.domain]).collect();
                passed.sort_unstable();
                passed.dedup();
                for domain in passed {
                    let Some(domain) = domains.get_mut(domain.index()) else { continue };
                    domain.long_buffers = (domain.long_buffers + LONG_BUFFERS).min(LONG_BUFFERS_MAX);
                }
            }
            if let Some(port) = &mut ports[index] {
                port.long_frames = Some(treatment);
            }
        }
    }

    /// Returns the reason why a port cuts long frames of these chains; `None` when as far as is known they
    /// may pass.
    fn why_cut(
        &self,
        port: &Port,
        led: &[&Chain],
        ports: &[Option<Port>],
        nfs: &[Option<Nf>],
    ) -> Option<String> {
        if port.faults.is_some() {
            return Some(format!("port `{}` injects faults", port.name));
        }
        if port.service.is_some() {
            return Some(format!("port `{}` takes service headers", port.name));
        }
        for chain in led {
            if chain.stages.is_empty() || chain.across.is_some() {
                return Some(format!("packets of chain `{}` are carried to another node", chain.name));
            }
            let stops = |port: &&Port| port.faults.is_some() || !port.backend.is_interface();
            let exit = match chain.out {
                Out::Port(id) => ports.get(id.index()).and_then(Option::as_ref).filter(stops),
                Out::Nf => ports.iter().flatten().filter(|port| port.backend.takes()).find(stops),
                Out::Node | Out::Interface => None,
            };
            if let Some(exit) = exit {
                let why = if exit.faults.is_some() { "injects faults" } else { "is no interface" };
                return Some(format!(
                    "chain `{}` can leave by port `{}`, which {why}",
                    chain.name, exit.name
                ));
            }
            if chain.service.is_some_and(|service| service.next.is_some()) {
                return Some(format!("packets of chain `{}` leave with a service header", chain.name));
            }
            let mut stages = chain.stages.iter().filter_map(|nf| nfs.get(nf.index())?.as_ref());
            if let Some(nf) = stages.find(|nf| self.takes(nf) == Some(false)) {
                return Some(format!("NF `{}` of chain `{}` takes none", nf.name, chain.name));
            }
        }
        None
    }

    /// Returns the NFs of these chains that are asked when they are ready.
    fn asked(&self, led: &[&Chain], nfs: &[Option<Nf>]) -> Vec<String> {
        let stages = led.iter().flat_map(|chain| &chain.stages);
        let all = stages.filter_map(|nf| nfs.get(nf.index())?.as_ref());
        let mut asked: Vec<String> =
            all.filter(|nf| self.takes(nf).is_none()).map(|nf| nf.name.clone()).collect();
        asked.sort_unstable();
        asked.dedup();
        asked
    }

    /// Whether an NF takes long frames; `None` when only its process can tell.
    fn takes(&self, nf: &Nf) -> Option<bool> {
        let shipped =
            |shipped: &Shipped| self.known.get(&shipped.run).is_some_and(|entry| entry.takes_long_frames);
        match (&nf.link, nf.origin.program()) {
            (Link::External(_) | Link::Interfaces(_), _) => Some(false),
            (Link::Rings, Some(Program::Run(one))) => Some(shipped(one)),
            (Link::Rings, Some(Program::Fuse(all))) => Some(all.iter().all(shipped)),
            (Link::Rings, Some(Program::Exec { .. }) | None) => None,
        }
    }
}

impl Port {
    /// Returns whether frames that the kernel has not cut may come by it: not by links between nodes.
    const fn may_have_long(&self) -> bool {
        self.backend.is_interface() && self.link.is_none()
    }
}

impl Backend {
    const fn is_interface(&self) -> bool {
        matches!(self, Self::Interface(_) | Self::Tap { .. })
    }
}
