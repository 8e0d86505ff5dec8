//! Plan of what a configuration will do to this machine, as `headgate check` prints it.

mod nodes;
mod words;

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};

use headgate_decide::share::weight_over_programs;
use serde::Serialize;

use words::{bytes_text, io_text};

use super::machine::Machine;
use super::model::{
    Chain, ChainId, ChainIo, Config, Link, LongFrames, Nf, Node, Out, Port, Program, Rule, Service,
};
use super::resolve::{RegionPlan, control_bytes, record_bytes, regions};

/// Assignment of NFs to cores, of memory to domains, and of packets to paths.
///
/// `Display` is the text for people.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Plan {
    /// The manager's name.
    pub manager: String,
    /// The node whose manager it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<Node>,
    /// The cores in use, in rising order.
    pub cores: Vec<CorePlan>,
    /// Weight of each NF beside other programs of its core, as a multiple of theirs.
    pub nf_weight: u32,
    /// Packet memory.
    pub regions: Vec<RegionPlan>,
    /// Bytes of the manager's own records: who holds each buffer, and the flow tables.
    pub record_bytes: u64,
    /// Rings and orders, by NF.
    pub control: Vec<ControlPlan>,
    /// Treatment of frames that the kernel has not cut yet, by port.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub long_frames: BTreeMap<String, LongFrames>,
    /// Paths.
    pub chains: Vec<ChainPlan>,
}

/// Tasks of one core.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct CorePlan {
    /// The core.
    pub core: u32,
    /// The worker on it.
    pub worker: Option<usize>,
    /// The NF instances in the thread of its worker.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub residents: Vec<String>,
    /// The NF instances on it that have a process.
    pub nfs: Vec<String>,
}

impl CorePlan {
    /// Returns who works on it, in words.
    fn who(&self) -> Vec<String> {
        let worker = self.worker.map(|worker| format!("worker {worker}"));
        let residents = self.residents.iter().map(|name| format!("{name} in its thread"));
        worker.into_iter().chain(residents).chain(self.nfs.iter().cloned()).collect()
    }
}

/// The control memory of one NF.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ControlPlan {
    /// The NF.
    pub nf: String,
    /// Program that it runs.
    pub runs: String,
    /// Its instances.
    pub instances: usize,
    /// Descriptors in each of the two rings of an instance.
    pub ring: u32,
    /// Bytes of one instance; an external program shares none.
    pub bytes_each: u64,
    /// Permissions of its processes beyond those of any NF.
    pub rights: Vec<String>,
}

/// Plan of a chain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ChainPlan {
    /// Its name.
    pub name: String,
    /// Its NFs in order; none where others work on its packets.
    pub stages: Vec<String>,
    /// The nodes that do: the active one, and its standby.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<[String; 2]>,
    /// Its end: a port, or `nf` when the last NF names it.
    pub out: String,
    /// No packet shall take longer, in microseconds.
    pub delay_bound_us: Option<u32>,
    /// Packets per second that it is to have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_floor: Option<u64>,
    /// The service path that it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service: Option<Service>,
    /// The service path by which nodes hand its packets on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<u32>,
    /// Its interfaces, if it works on some.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub io: Option<ChainIo>,
    /// Number of copies of a packet because the path leaves a trust domain, by the port it came in by.
    pub copies: BTreeMap<String, usize>,
    /// The rules that lead to it.
    pub rules: Vec<RulePlan>,
}

/// Plan of a rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RulePlan {
    /// Its place in the file, from 1; lower places win.
    pub place: usize,
    /// Description of the packets that it matches.
    pub matches: String,
}

/// Describes what `config` will do to `machine`.
pub fn describe(config: &Config, machine: &Machine) -> Plan {
    let control = config.nfs.iter().map(|nf| ControlPlan {
        nf: nf.name.clone(),
        runs: runs(nf),
        instances: nf.cores.len(),
        ring: nf.ring,
        bytes_each: control_bytes(nf),
        rights: nf.confinement.rights(),
    });
    Plan {
        manager: config.manager.name.clone(),
        node: config.node.clone(),
        cores: cores(config),
        nf_weight: weight_over_programs(
            config.scheduler.nf_weight,
            &config.cores_of_nfs(),
            &config.manager.cores,
        ),
        regions: regions(&config.memory, &config.domains, machine),
        record_bytes: record_bytes(
            &config.memory,
            &config.flows,
            &config.domains,
            config.manager.cores.len(),
            config.has_service_headers(),
        ),
        control: control.collect(),
        long_frames: long_frames(config),
        chains: chain_plans(config),
    }
}

fn chain_plans(config: &Config) -> Vec<ChainPlan> {
    let mut rules: Vec<Vec<usize>> = vec![Vec::new(); config.chains.len()];
    for (place, rule) in config.rules.iter().enumerate() {
        rules[rule.chain.index()].push(place);
    }
    let plans = config.chains.iter().zip(&rules).enumerate().map(|(place, (chain, rules))| ChainPlan {
        at: nodes_of(config, ChainId(place as u16)),
        ..chain_plan(config, chain, rules)
    });
    plans.collect()
}

fn nodes_of(config: &Config, chain: ChainId) -> Option<[String; 2]> {
    Some(config.node.as_ref()?.workers_of(chain)?.map(str::to_owned))
}

fn long_frames(config: &Config) -> BTreeMap<String, LongFrames> {
    let ports = config.ports.iter();
    ports.filter_map(|port| Some((port.name.clone(), port.long_frames.clone()?))).collect()
}

fn cores(config: &Config) -> Vec<CorePlan> {
    let mut cores: BTreeMap<u32, CorePlan> = BTreeMap::new();
    let empty = |core| CorePlan { core, ..CorePlan::default() };
    for (worker, core) in config.manager.cores.iter().enumerate() {
        cores.entry(*core).or_insert_with(|| empty(*core)).worker = Some(worker);
    }
    for nf in &config.nfs {
        let is_resident = nf.is_resident();
        for (instance, core) in nf.cores.iter().enumerate() {
            let name =
                if nf.cores.len() == 1 { nf.name.clone() } else { format!("{}.{}", nf.name, instance + 1) };
            let plan = cores.entry(*core).or_insert_with(|| empty(*core));
            if is_resident { plan.residents.push(name) } else { plan.nfs.push(name) }
        }
    }
    cores.into_values().collect()
}

/// Describes the program that an NF runs.
#[must_use]
pub fn runs(nf: &Nf) -> String {
    let told = |program: &Program| match (program, &nf.link) {
        (Program::Run(shipped), _) => shipped.run.clone(),
        // Its arguments may be long, and belong to nobody here.
        (Program::Exec { command, .. }, Link::External(kind)) => {
            format!("{}, an external program behind {}", command[0], kind.word())
        }
        (Program::Exec { command, .. }, _) => command.join(" "),
        (Program::Fuse(members), _) => {
            members.iter().map(|member| member.run.as_str()).collect::<Vec<_>>().join(" + ")
        }
    };
    nf.origin.describe(told)
}

/// `rules` are the places of those that lead to `chain`.
fn chain_plan(config: &Config, chain: &Chain, rules: &[usize]) -> ChainPlan {
    let mut copies = BTreeMap::new();
    for (index, port) in config.ports.iter().enumerate().filter(|(_, port)| port.backend.gives()) {
        let takes = |rule: &Rule| rule.port.is_none_or(|id| id.index() == index);
        let led = port.leads_by_path(chain);
        if led || rules.iter().any(|place| takes(&config.rules[*place])) {
            copies.insert(port.name.clone(), copies_from(config, chain, port));
        }
    }
    let rule = |place: &usize| RulePlan { place: place + 1, matches: matches(config, &config.rules[*place]) };
    ChainPlan {
        name: chain.name.clone(),
        stages: nodes::stage_names(config, chain),
        at: None,
        out: nodes::out_name(config, chain),
        delay_bound_us: chain.delay_bound_us,
        rate_floor: chain.rate_floor,
        service: chain.service,
        path: chain.across.as_ref().map(|across| across.path),
        io: chain.io.clone(),
        copies,
        rules: rules.iter().map(rule).collect(),
    }
}

/// A packet is copied wherever the next holder sees the memory of another domain. Ports without memory
/// of their own (null, captures, devices that are not `direct`) read it where it is, unless packets wait in
/// them.
fn copies_from(config: &Config, chain: &Chain, from: &Port) -> usize {
    let mut domains = vec![from.domain];
    domains.extend(chain.stages.iter().map(|id| config.nfs[id.index()].domain));
    if let Out::Port(id) = chain.out
        && config.ports[id.index()].is_bound()
    {
        domains.push(config.ports[id.index()].domain);
    }
    domains.windows(2).filter(|pair| pair[0] != pair[1]).count()
}

/// Describes the packets that a rule matches.
#[must_use]
pub fn matches(config: &Config, rule: &Rule) -> String {
    let mut conditions = Vec::new();
    if let Some(port) = rule.port {
        conditions.push(format!("from port {}", config.ports[port.index()].name));
    }
    if let Some(vlan) = rule.vlan {
        conditions.push(vlan.to_string());
    }
    if let Some(ethertype) = rule.ethertype {
        conditions.push(ethertype.to_string());
    }
    if let Some(protocol) = rule.protocol {
        conditions.push(protocol.to_string());
    }
    if let Some(prefix) = rule.source {
        conditions.push(format!("source {prefix}"));
    }
    if let Some(ports) = rule.source_port {
        conditions.push(format!("source port {ports}"));
    }
    if let Some(prefix) = rule.destination {
        conditions.push(format!("destination {prefix}"));
    }
    if let Some(ports) = rule.destination_port {
        conditions.push(format!("destination port {ports}"));
    }
    if conditions.is_empty() { "every packet".to_owned() } else { conditions.join(", ") }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "Manager {}\n\nCores", self.manager)?;
        for core in &self.cores {
            writeln!(f, "  {:<4} {}", core.core, core.who().join(", "))?;
        }
        if self.cores.iter().any(|core| !core.nfs.is_empty()) {
            let because = match self.cores.iter().find(|core| core.worker.is_some() && !core.nfs.is_empty()) {
                Some(shared) => format!(", because a worker has core {} too", shared.core),
                None => String::new(),
            };
            writeln!(
                f,
                "  each NF weighs as much as {} programs that are not ours{because}",
                self.nf_weight
            )?;
        }
        self.write_memory(f)?;
        self.write_interfaces(f)?;
        for chain in &self.chains {
            let bound = chain.delay_bound_us.map_or(String::new(), |us| format!(", within {us} us"));
            let floor = chain.rate_floor.map_or(String::new(), |rate| format!(", at least {rate} packets/s"));
            writeln!(f, "\nChain {}: {}{bound}{floor}", chain.name, chain.path())?;
            if let Some(io) = &chain.io {
                writeln!(f, "  {}", io_text(io, chain.stages.len() - 1))?;
            }
            if let Some(service) = &chain.service {
                writeln!(f, "  {service}")?;
            }
            chain.path.map_or(Ok(()), |path| nodes::write_path(f, path))?;
            for rule in &chain.rules {
                writeln!(f, "  rule {:<4} {}", rule.place, rule.matches)?;
            }
            for (port, copies) in chain.copies.iter().filter(|(_, copies)| **copies > 0) {
                let times = if *copies == 1 { "once".to_owned() } else { format!("{copies} times") };
                writeln!(f, "  from {port}: copied {times} between trust domains")?;
            }
        }
        writeln!(f, "\nA packet that no rule matches is dropped.")
    }
}

impl Plan {
    fn write_interfaces(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.long_frames.is_empty() {
            writeln!(f, "\nInterfaces")?;
        }
        let width = self.long_frames.keys().map(String::len).max().unwrap_or(0);
        for (port, treatment) in &self.long_frames {
            writeln!(f, "  port {port:<width$}  {treatment}")?;
        }
        self.node.as_ref().map_or(Ok(()), |node| write!(f, "{node}"))
    }

    fn write_memory(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "\nMemory")?;
        let domain_width = self.regions.iter().map(|region| region.domain.len()).max().unwrap_or(0);
        for region in &self.regions {
            let pages = match region.huge_pages {
                0 => "4 KiB pages".to_owned(),
                pages => format!("{pages} pages of 2 MiB"),
            };
            writeln!(
                f,
                "  domain {:<domain_width$}  {} buffers of {} B{}, {} on {pages}",
                region.domain,
                region.buffers,
                region.stride_bytes,
                match region.long_buffers {
                    0 => String::new(),
                    count => format!(" and {count} of 64 KiB"),
                },
                bytes_text(region.bytes)
            )?;
        }
        writeln!(f, "  manager  buffer records and flow tables, {}", bytes_text(self.record_bytes))?;
        let nf_width = self.control.iter().map(|nf| nf.nf.len()).max().unwrap_or(0);
        for nf in &self.control {
            let mut line = format!("  nf {:<nf_width$}  {}: ", nf.nf, nf.runs);
            if nf.bytes_each == 0 {
                line.push_str("memory of its own");
            } else {
                if nf.instances > 1 {
                    write!(line, "{} instances, each ", nf.instances)?;
                }
                write!(line, "2 rings of {}, {}", nf.ring, bytes_text(nf.bytes_each))?;
            }
            if !nf.rights.is_empty() {
                write!(line, "; may {}", nf.rights.join(", "))?;
            }
            writeln!(f, "{line}")?;
        }
        Ok(())
    }
}

impl ChainPlan {
    fn path(&self) -> String {
        let end = if self.out == "nf" { "where the last NF says" } else { self.out.as_str() };
        let entry = self.io.as_ref().map(|io| io.entry.as_str());
        let stages = self.stages.iter().map(String::as_str);
        let at = self.at.as_ref().map(|[active, standby]| format!("{active} (or {standby})"));
        entry
            .into_iter()
            .chain(at.as_deref())
            .chain(stages)
            .chain(std::iter::once(end))
            .collect::<Vec<_>>()
            .join(" -> ")
    }
}
