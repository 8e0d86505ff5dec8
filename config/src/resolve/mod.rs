//! Resolution of a file into the model that the manager uses: names become indices, defaults that depend on
//! other values or on the machine are filled in, and everything is checked that needs more than one value to
//! be seen.
//!
//! Nothing here stops at a mistake. A table that cannot be resolved becomes `None` and keeps its place,
//! so that indices stay true and later tables can still be checked against it.

mod arguments;
mod compose;
mod confinement;
mod cores;
mod domains;
mod fit;
mod generator;
mod granted;
mod io;
mod long;
mod memory;
mod modelled;
mod names;
mod nfs;
pub mod nodes;
mod order;
mod paths;
mod ports;
mod resident;
mod scheduler;
mod service;
mod simulation;
mod state;

use std::collections::{HashMap, HashSet};
use std::path::{Component, Path, PathBuf};

pub use cores::core_list;
pub use fit::{RegionPlan, control_bytes, geometry, record_bytes, regions};
pub use simulation::cores_of_model;

use super::catalog::{Catalog, DefinedNames};
use super::codes::Code;
use super::document::{Document, FlowsTable, ManagerTable, MemoryTable};
use super::limits;
use super::machine::Machine;
use super::model::{Across, Config, Flows, Manager, Memory, NodeLink, Rule};
use super::read::{At, Field, Many};
use super::report::{Report, Span};
use super::rules;
use super::simulation::Simulation;
use super::values::Mode;
use names::Names;

/// Context that a configuration is resolved against, and findings so far.
pub struct Resolver<'a> {
    /// The shipped NFs.
    pub known: &'a Catalog,
    /// The machine.
    pub machine: &'a Machine,
    /// The folder of the configuration, from which its paths lead.
    pub folder: &'a Path,
    /// Destination of findings.
    pub report: &'a mut Report,
    /// Names that the arguments of NFs may hold.
    pub names: DefinedNames,
    /// Every file that the configuration names, in the order of the file.
    pub files: Vec<FileUse>,
    /// Programs that it takes without naming them.
    pub tools: Vec<ToolUse>,
    /// Names of the chains that packets enter here; `None`: all.
    pub entered: Option<HashSet<String>>,
    /// The node whose part it is.
    pub node: Option<String>,
    /// Chains over several nodes, by name.
    pub across: HashMap<String, Across>,
    /// The node's links.
    pub links: Vec<NodeLink>,
}

/// Programs that a part of the configuration takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolUse {
    /// Place of that part.
    pub span: Span,
    /// Their names.
    pub programs: &'static [&'static str],
    /// Whether one of them is enough.
    pub any: bool,
    /// Advice where they are missing.
    pub install: &'static str,
}

/// A file that the configuration names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileUse {
    /// Place where the configuration names it.
    pub span: Span,
    /// The file, its folder resolved.
    pub path: PathBuf,
    /// Purpose.
    pub purpose: Purpose,
}

/// Purpose of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// A capture to replay.
    Replay,
    /// A capture to write.
    Write,
    /// A program to run.
    Run,
    /// A folder to use.
    Folder,
    /// A file or folder that is there, to be written by an NF.
    Writable,
}

impl Purpose {
    /// Returns whether it is a capture, which one alone may write.
    pub const fn is_capture(self) -> bool {
        matches!(self, Self::Replay | Self::Write)
    }
}

/// The names that other tables may refer to.
struct Defined<'d> {
    domains: Names<'d>,
    ports: Names<'d>,
    nfs: Names<'d>,
    chains: Names<'d>,
}

/// The elements of a list that may be absent.
pub fn items<T>(list: &Field<Many<T>>) -> &[At<T>] {
    list.value().map_or(&[], |many| &many.items)
}

/// Returns whether every element of a list, if it is there, could be read.
fn is_whole<T>(list: &Field<Many<T>>) -> bool {
    !list.is_broken() && list.value().is_none_or(|many| many.complete)
}

impl<'a> Resolver<'a> {
    /// One that has found nothing yet.
    pub fn new(known: &'a Catalog, machine: &'a Machine, folder: &'a Path, report: &'a mut Report) -> Self {
        Self {
            known,
            machine,
            folder,
            report,
            names: DefinedNames::default(),
            files: Vec::new(),
            tools: Vec::new(),
            entered: None,
            node: None,
            across: HashMap::new(),
            links: Vec::new(),
        }
    }
}

impl Resolver<'_> {
    /// The configuration and its `[sim]` table, unless there were errors.
    pub fn resolve(&mut self, document: &Document) -> Option<(Config, Simulation)> {
        let defined = self.define(document);
        // NFs on interfaces of the kernel have these as their ports.
        let on_interfaces = items(&document.chain).iter().any(|chain| chain.value.io.key.is_some());
        let ports = defined.ports.all().filter(|_| !on_interfaces);
        self.names = DefinedNames { ports, stages: defined.nfs.all() };
        self.limit_counts(document);
        let manager = document.manager.value().and_then(|table| self.manager(table));
        let memory = document.memory.value().and_then(Self::memory);
        let flows = document.flows.value().and_then(Self::flows);
        let scheduler = document.scheduler.value().and_then(|table| self.scheduler(table));
        let mut domains = self.domains(document, &defined.domains);
        let default_domain = domains.default;
        let workers = manager.as_ref().map_or(&[][..], |manager| &manager.cores);

        let mut ports = self.ports(items(&document.port), &defined.domains, default_domain, memory.as_ref());
        ports.extend(self.link_ports(default_domain).into_iter().map(Some));
        let mode = scheduler.as_ref().map_or(Mode::Os, |scheduler| scheduler.mode);
        let mut nfs = self.nfs(items(&document.nf), &defined.domains, default_domain, workers, mode);
        if let Some(scheduler) = &scheduler {
            self.check_turns(document, scheduler, &nfs, workers);
        }
        self.check_reserved(document.scheduler.value(), &nfs);
        self.check_quantum(document.scheduler.value(), document);
        let chains = self.chains(items(&document.chain), &defined, &ports, workers);
        self.check_floors(items(&document.chain), &chains, &nfs, mode);
        self.check_externals(&chains, &nfs, document);
        self.give_interfaces(&chains, &mut nfs, document);
        self.refuse_interfaces_twice(document);
        let rules = self.rules(items(&document.rule), &defined, &ports, &chains);
        self.check_services(document, &chains, &ports, &rules);
        let led = rules::ways(ports.iter().map(Option::as_ref), chains.iter().map(Option::as_ref));
        let ways: Vec<Option<Rule>> = rules.iter().cloned().chain(led.into_iter().map(Some)).collect();
        Self::follow_rules(&mut ports, &ways, &chains, &nfs);
        domains.leave_out_unused(document, &ports, &nfs);
        self.keep_long_frames(&mut ports, domains.list.as_mut(), &nfs, &chains, &ways);
        if let (Some(memory), Some(flows), Some(domains)) = (&memory, &flows, &domains.list) {
            let with_headers = ports.iter().flatten().any(|port| port.service.is_some());
            let records = record_bytes(memory, flows, domains, workers.len(), with_headers);
            self.fit(document, memory, records, domains, &nfs);
        }
        let simulation = self.simulation(document, &defined, &nfs);
        if self.report.has_errors() {
            return None;
        }
        let config = Config {
            manager: manager?,
            memory: memory?,
            flows: flows?,
            scheduler: scheduler?,
            domains: domains.list?,
            ports: ports.into_iter().collect::<Option<_>>()?,
            nfs: nfs.into_iter().collect::<Option<_>>()?,
            chains: chains.into_iter().collect::<Option<_>>()?,
            rules: rules.into_iter().collect::<Option<_>>()?,
            node: None,
        };
        self.warn_unused(document, &config);
        self.warn_of_shared_memory(document, &config);
        self.warn_faulty(items(&document.port), &config.ports);
        self.warn_not_granted(document, &config);
        self.warn_real_time_order(document, &config);
        self.warn_of_short_sleep(document, &config);
        Some((config, simulation?))
    }

    fn define<'d>(&mut self, document: &'d Document) -> Defined<'d> {
        let report = &mut *self.report;
        let Document { domain, port, nf, chain, .. } = document;
        let domains = items(domain).iter().map(|at| &at.value.name);
        let ports = items(port).iter().map(|at| &at.value.common.name);
        let nfs = items(nf).iter().map(|at| &at.value.name);
        let chains = items(chain).iter().map(|at| &at.value.name);
        Defined {
            domains: Names::collect("domain", Code::UndefinedDomain, domains, is_whole(domain), report),
            ports: Names::collect("port", Code::UndefinedPort, ports, is_whole(port), report),
            nfs: Names::collect("NF", Code::UndefinedNf, nfs, is_whole(nf), report),
            chains: Names::collect("chain", Code::UndefinedChain, chains, is_whole(chain), report),
        }
    }

    fn limit_counts(&mut self, document: &Document) {
        let counts = [
            ("ports", items(&document.port).len(), limits::PORTS_MAX),
            ("domains", items(&document.domain).len(), limits::DOMAINS_MAX),
            ("chains", items(&document.chain).len(), limits::CHAINS_MAX),
            ("rules", items(&document.rule).len(), limits::RULES_MAX),
        ];
        for (what, count, most) in counts {
            if count > most {
                self.report
                    .add_about_file(Code::TooMany, format!("{count} {what}; there can be {most}"))
                    .help(format!("leave some {what} out, or divide them between two managers"));
            }
        }
    }

    fn manager(&mut self, table: &ManagerTable) -> Option<Manager> {
        let name = table.name.value()?.0.clone();
        let idle = *table.idle.value()?;
        if table.cores.key.is_none() {
            let first = self.machine.preferred_cores().first().copied().unwrap_or(0);
            return Some(Manager { name, cores: vec![first], idle });
        }
        let field = table.cores.found.as_ref()?;
        if field.value.items.is_empty() && field.value.complete {
            self.report
                .add(Code::OutOfRange, &field.span, "a manager without cores moves no packet")
                .help("name at least one core, like [0]");
        }
        let mut cores: Vec<u32> = Vec::new();
        for at in &field.value.items {
            let core = at.value.0 as u32;
            if cores.contains(&core) {
                self.report
                    .add(Code::KeyConflict, &at.span, format!("core {core} is named twice"))
                    .help("a core has one worker; leave one of them out");
            } else if self.core_exists(core, &at.span) {
                cores.push(core);
            }
        }
        Some(Manager { name, cores, idle })
    }

    fn memory(table: &MemoryTable) -> Option<Memory> {
        Some(Memory {
            buffer_bytes: table.buffer_bytes.value()?.0 as u32,
            hugepages: *table.hugepages.value()?,
        })
    }

    fn flows(table: &FlowsTable) -> Option<Flows> {
        Some(Flows {
            capacity: table.capacity.value()?.0 as u32,
            idle_timeout_ns: table.idle_timeout.value()?.0,
        })
    }

    /// A path of the configuration, noted for later checks.
    fn file(&mut self, path: &str, span: &Span, purpose: Purpose) -> PathBuf {
        let mut path = self.path(path);
        if purpose == Purpose::Run && path.components().count() == 1 {
            // A bare word would be searched for in PATH.
            path = Path::new(".").join(path);
        }
        self.files.push(FileUse { span: span.clone(), path: path.clone(), purpose });
        path
    }

    /// A path of the configuration, without the `.` and the doubled slashes by which equal paths differ.
    fn path(&self, path: &str) -> PathBuf {
        self.folder.join(path).components().filter(|part| *part != Component::CurDir).collect()
    }

    /// Reports `second` as contradicting `first`.
    fn conflict(&mut self, first: (&Span, &str), second: &Span, message: &str, help: &str) {
        let (first, label) = first;
        let finding = self.report.add(Code::KeyConflict, second, message);
        finding.help(help).beside(first.clone(), label);
    }
}
