//! Ports: what each is, and that no two are the same.

use std::collections::HashMap;

use super::super::codes::Code;
use super::super::document::{DpdkKeys, FaultTable, InterfaceKeys, PcapKeys, PortKeys, PortTable, TapKeys};
use super::super::model::{
    Backend, DomainId, Dpdk, Faults, Interface, Memory, NodeLink, Pcap, Port, Replay, ServiceAddress, Tunnel,
};
use super::super::read::{At, Field};
use super::super::report::Span;
use super::super::values::{Carrier, Device, FaultDirection, Name, ReplayMode, Timing};
use super::domains::domain_of;
use super::names::Names;
use super::{Purpose, Resolver};

/// The word that a chain's `out` may say instead of a port.
pub const OUT_BY_NF: &str = "nf";

/// Frames that may wait at the end of a link: as many as at a port by default.
const LINK_QUEUE: u32 = 4096;

/// Devices and kernel interfaces already taken, and where.
type Taken = HashMap<String, Span>;

impl Resolver<'_> {
    pub(super) fn ports(
        &mut self,
        tables: &[At<PortTable>],
        domains: &Names<'_>,
        default_domain: usize,
        memory: Option<&Memory>,
    ) -> Vec<Option<Port>> {
        let mut taken_at: HashMap<&str, Taken> = HashMap::new();
        let mut ports = Vec::with_capacity(tables.len());
        for table in tables {
            let common = &table.value.common;
            let domain = self.domain_of_port(&table.value, domains, default_domain);
            let taken = taken_at.entry(common.node.value().map_or("", |node| &node.0)).or_default();
            let backend = table.value.kind.as_ref().and_then(|kind| match kind {
                PortKeys::Interface(keys) => self.interface(keys, taken),
                PortKeys::Tap(keys) => self.tap(keys, taken),
                PortKeys::Generator(keys) => self.generator(keys, memory),
                PortKeys::Pcap(keys) => self.pcap(keys),
                PortKeys::Dpdk(keys) => self.dpdk(keys, taken),
                PortKeys::Null => Some(Backend::Null),
                PortKeys::Elsewhere(node) => Some(Backend::Elsewhere { node: node.clone() }),
            });
            self.refuse_reserved(&common.name);
            let faults = self.faults(&common.faults, backend.as_ref());
            let service = self.service_address(common, backend.as_ref());
            ports.push(common.name.value().zip(domain).zip(backend).map(|((name, domain), backend)| Port {
                name: name.0.clone(),
                domain,
                domain_is_open: common.domain.key.is_none(),
                backend,
                faults,
                long_frames: None,
                service,
                link: None,
            }));
        }
        self.refuse_files_twice();
        ports
    }

    /// The ends of links, by which packets of chains over several nodes come and go. No file can name them.
    pub(super) fn link_ports(&self, default_domain: usize) -> Vec<Port> {
        let backend = |link: &NodeLink| match link.carrier {
            Carrier::Ethernet => {
                Backend::Interface(Interface { interface: link.interface.clone(), queue: LINK_QUEUE })
            }
            Carrier::VxlanGpe => Backend::VxlanGpe(Tunnel {
                interface: link.interface.clone(),
                address: link.address,
                peer_address: link.peer_address,
            }),
        };
        let port = |(place, link): (usize, &NodeLink)| Port {
            name: format!("link:{}", link.interface),
            domain: DomainId(default_domain as u16),
            domain_is_open: true,
            backend: backend(link),
            faults: None,
            long_frames: None,
            service: Some(ServiceAddress::Own),
            link: Some(place as u16),
        };
        self.links.iter().enumerate().map(port).collect()
    }

    fn domain_of_port(&mut self, table: &PortTable, domains: &Names<'_>, default: usize) -> Option<DomainId> {
        match &table.kind {
            // Nothing is received there.
            Some(PortKeys::Elsewhere(_)) => Some(DomainId(0)),
            _ => domain_of(&table.common.domain, domains, default, self.report),
        }
    }

    fn refuse_reserved(&mut self, name: &Field<Name>) {
        if let Some(name) = name.found.as_ref().filter(|name| name.value.0 == OUT_BY_NF) {
            self.report
                .add(Code::ReservedName, &name.span, "no port can be called `nf`")
                .help("`out = \"nf\"` says that the last NF names the port; choose another name");
        }
    }

    /// Resolves the faults that a port injects; refuses those that would do nothing.
    fn faults(&mut self, field: &Field<FaultTable>, backend: Option<&Backend>) -> Option<Faults> {
        let FaultTable { seed, loss, duplicate, reorder, corrupt, delay, jitter, direction, span } =
            field.value()?;
        let parts = [loss, duplicate, reorder, corrupt];
        let is_broken = parts.into_iter().any(Field::is_broken) || delay.is_broken() || jitter.is_broken();
        let [loss, duplicate, reorder, corrupt] = parts.map(|part| part.value().map_or(0.0, |part| part.0));
        let [delay_ns, jitter_ns] = [delay, jitter].map(|time| time.value().map_or(0, |time| time.0));
        let seed = seed.value()?.0;
        let at = direction.found.as_ref()?;
        let faults =
            Faults { seed, direction: at.value, loss, duplicate, reorder, corrupt, delay_ns, jitter_ns };
        if !is_broken && faults.to_string().is_empty() {
            self.report
                .add(Code::MissingKey, span, "`faults` asks for no fault")
                .help("give `loss`, `duplicate`, `reorder`, `corrupt`, `delay` or `jitter`, or leave it out");
        }
        let none = match (at.value, backend) {
            (FaultDirection::Receive, Some(backend)) if !backend.gives() => "no packets come from this port",
            (FaultDirection::Transmit, Some(backend)) if !backend.takes() => {
                "no packets are sent to this port"
            }
            _ => return Some(faults),
        };
        self.report
            .add(Code::KeyConflict, &at.span, format!("{none}, so `{}` has no effect", at.value.word()))
            .help("leave `direction` out");
        None
    }

    /// Warns of ports that inject faults, in case such a configuration is taken for another.
    pub(super) fn warn_faulty(&mut self, tables: &[At<PortTable>], ports: &[Port]) {
        for (table, port) in tables.iter().zip(ports) {
            let (Some(faults), Some(key)) = (&port.faults, &table.value.common.faults.key) else { continue };
            let message = format!("port `{}` injects faults on purpose: it {faults}", port.name);
            self.report
                .add(Code::PortFaulty, key, message)
                .help("leave `faults` out where packets are to arrive as they are");
        }
    }

    fn pcap(&mut self, keys: &PcapKeys) -> Option<Backend> {
        if keys.read.key.is_none() {
            for (key, name) in [(&keys.mode.key, "mode"), (&keys.timing.key, "timing")] {
                if let Some(span) = key {
                    self.report
                        .add(Code::KeyConflict, span, format!("`{name}` without `read` has no effect"))
                        .help("name the capture to replay with `read`");
                }
            }
        }
        if keys.read.key.is_none() && keys.write.key.is_none() {
            self.report
                .add(Code::MissingKey, &keys.span, "[[port]] of kind pcap needs `read`, `write` or both")
                .label("neither is here")
                .help("add `read = \"in.pcap\"` to replay a capture, `write = \"out.pcapng\"` to make one");
            return None;
        }
        let read = keys.read.found.as_ref().map(|at| self.file(&at.value.0, &at.span, Purpose::Replay));
        let write = keys.write.found.as_ref().map(|at| self.file(&at.value.0, &at.span, Purpose::Write));
        let broken =
            [keys.read.is_broken(), keys.write.is_broken(), keys.mode.is_broken(), keys.timing.is_broken()];
        if broken.contains(&true) {
            return None;
        }
        let mode = keys.mode.value().copied().unwrap_or(ReplayMode::Once);
        let timing = keys.timing.value().copied().unwrap_or(Timing::Fast);
        Some(Backend::Pcap(Pcap { replay: read.map(|file| Replay { file, mode, timing }), write }))
    }

    /// A capture may be replayed by many, and written by one that nobody reads.
    fn refuse_files_twice(&mut self) {
        let mut seen: HashMap<&std::path::Path, &super::FileUse> = HashMap::new();
        for file in self.files.iter().filter(|file| file.purpose.is_capture()) {
            let first = *seen.entry(&file.path).or_insert(file);
            if first.span == file.span || (first.purpose, file.purpose) == (Purpose::Replay, Purpose::Replay)
            {
                continue;
            }
            let what = if first.purpose == file.purpose { "written twice" } else { "written and read" };
            self.report
                .add(Code::FileTwice, &file.span, format!("`{}` is {what}", file.path.display()))
                .help("write to another file")
                .beside(first.span.clone(), "first");
        }
    }

    fn interface(&mut self, keys: &InterfaceKeys, taken: &mut Taken) -> Option<Backend> {
        let at = keys.interface.found.as_ref()?;
        let name = at.value.0.as_str();
        self.refuse_device_twice(&[name], &at.span, taken);
        if keys.allow_default_route.value() == Some(&false) {
            self.refuse_default_route(&[name], &at.span);
        }
        self.warn_missing(name, &at.span);
        Some(Backend::Interface(Interface {
            interface: name.to_owned(),
            queue: keys.queue.value()?.0 as u32,
        }))
    }

    fn tap(&mut self, keys: &TapKeys, taken: &mut Taken) -> Option<Backend> {
        let at = keys.tap.found.as_ref()?;
        let name = at.value.0.as_str();
        self.refuse_device_twice(&[name], &at.span, taken);
        Some(Backend::Tap { tap: name.to_owned() })
    }

    /// Warns of an interface that is not there: the file may be written before it is made.
    fn warn_missing(&mut self, name: &str, span: &Span) {
        let there = &self.machine.interfaces;
        if there.is_empty() || there.iter().any(|interface| interface == name) {
            return;
        }
        let known = there.join(", ");
        self.report
            .add(Code::InterfaceMissing, span, format!("this machine has no interface `{name}`"))
            .label("not there yet")
            .help(format!("make it before `headgate up`; there are: {known}"));
    }

    /// Warns of a DPDK driver that loses what the kernel leaves to a card.
    fn warn_offloads(&mut self, device: &At<Device>) {
        let Some(name) = device.value.interfaces().next() else { return };
        self.warn_missing(name, &device.span);
        let message = format!("DPDK's driver loses long TCP frames of the kernel on `{name}`");
        let short = format!("take it without DPDK, `interface = \"{name}\"`");
        self.report.add(Code::OffloadsLost, &device.span, message).help(format!(
            "{short}; or have the other end cut its frames: `ethtool -K NAME tso off gso off`"
        ));
    }

    fn dpdk(&mut self, keys: &DpdkKeys, taken: &mut Taken) -> Option<Backend> {
        let device = keys.device.found.as_ref()?;
        let names: Vec<&str> =
            std::iter::once(device.value.name.as_str()).chain(device.value.interfaces()).collect();
        self.refuse_device_twice(&names, &device.span, taken);
        if keys.allow_default_route.value() == Some(&false) {
            self.refuse_default_route(&names, &device.span);
        }
        let name = device.value.name.as_str();
        if name.starts_with("net_af_packet") || name.starts_with("net_af_xdp") {
            self.warn_offloads(device);
        }
        Some(Backend::Dpdk(Dpdk {
            devargs: device.value.devargs.clone(),
            pci: device.value.is_pci(),
            queues: keys.queues.value()?.0 as u16,
            direct: *keys.direct.value()?,
        }))
    }

    fn refuse_device_twice(&mut self, names: &[&str], span: &Span, taken: &mut Taken) {
        for &name in names {
            if let Some(first) = taken.get(name) {
                let next = "number virtual devices on, like net_af_packet0 and net_af_packet1";
                self.report
                    .add(Code::DeviceTwice, span, format!("`{name}` is opened by two ports"))
                    .label("again")
                    .help(format!("a device belongs to one port; {next}"))
                    .beside(first.clone(), "first");
                return;
            }
        }
        taken.extend(names.iter().map(|&name| (name.to_owned(), span.clone())));
    }

    fn refuse_default_route(&mut self, names: &[&str], span: &Span) {
        let is_default = |name: &&&str| self.machine.default_route.iter().any(|route| route == **name);
        if let Some(name) = names.iter().find(is_default) {
            self.report
                .add(Code::DefaultRoute, span, format!("the machine's default route leads through `{name}`"))
                .help("take another device, or cut this machine off with `allow_default_route = true`");
        }
    }
}
