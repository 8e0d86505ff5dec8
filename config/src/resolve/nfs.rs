//! NFs: what each runs, and where.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use headgate_host::container;
use headgate_session::message::Loop;
use serde_json::{Map, Value as Json};

use super::super::codes::Code;
use super::super::document::{MemberTable, NfTable, RangeTable};
use super::super::limits::INSTANCES_MAX;
use super::super::model::{
    Confinement, Link, Nf, NodeRange, Origin, Policy, Program, Restart, Shipped, State,
};
use super::super::read::{At, Field};
use super::super::report::{Span, counted};
use super::super::suggest;
use super::super::values::{Args, Environment, LoopKind, Mode, Text, User};
use super::domains::domain_of;
use super::names::Names;
use super::resident::is_resident;
use super::{Purpose, Resolver, ToolUse};

/// Bursts between two yields when the file names none. Our choice: at 32 packets a burst and 50 ns a
/// packet a pass is 26 us, of which a yield of 1.25 us (`headgate profile machine`) is a twentieth.
const YIELD_AFTER_DEFAULT: u32 = 16;

/// Places of a ring when the file names none. Our choice: a quarter of it, the batch that is worth a wake-up
/// call, takes an NF of 120 cycles 50 us, some twenty times what a switch of the core costs.
const RING_DEFAULT: u32 = 4096;
/// The same where "unis" gives time slices. A switch there costs 10 us in a virtual machine, whose timer
/// interrupts leave it: three quarters of this ring take the lightest NFs (50 cycles) 370 us, so that 3
/// percent go to switching (`headgate bench unis gap`).
const RING_OF_SLICES: u32 = 16_384;

/// An instance's core and where the file chose it.
type Placed = (u32, Span);

impl Resolver<'_> {
    pub(super) fn nfs(
        &mut self,
        tables: &[At<NfTable>],
        domains: &Names<'_>,
        default_domain: usize,
        workers: &[u32],
        mode: Mode,
    ) -> Vec<Option<Nf>> {
        let preferred = self.machine.preferred_cores();
        let free: Vec<u32> = preferred.into_iter().filter(|core| !workers.contains(core)).collect();
        let mut in_turn = if free.is_empty() { workers.to_vec() } else { free.clone() }.into_iter().cycle();
        let mut nfs = Vec::with_capacity(tables.len());
        let mut on_core: BTreeMap<u32, Vec<(usize, Span)>> = BTreeMap::new();
        let mut instances = 0;
        for (index, at) in tables.iter().enumerate() {
            let table = &at.value;
            let origin = self.origin(table);
            let waits = self.waits(table);
            let restart = self.restart(table);
            let policy = self.policy(table);
            let domain = domain_of(&table.domain, domains, default_domain, self.report);
            self.check_ring(table);
            self.check_user(table);
            self.check_external(table);
            self.check_resident(table, origin.as_ref().and_then(Origin::program), workers);
            let placed = match is_resident(table) {
                true => self.place(table, &mut workers.iter().copied().cycle()),
                false => self.place(table, &mut in_turn),
            };
            instances += placed.len();
            if !is_resident(table) {
                self.check_workers(table, &placed, workers, !free.is_empty());
            }
            for (core, span) in &placed {
                on_core.entry(*core).or_default().push((index, span.clone()));
            }
            let cores = placed.into_iter().map(|(core, _)| core).collect();
            let program = origin.as_ref().and_then(Origin::program);
            let confinement = self.confinement(table, program);
            let state = self.state(table, program);
            nfs.push(origin.and_then(|origin| {
                let (confinement, state) = (confinement?, state?);
                let shared = Resolved { restart: restart?, domain: domain?, cores, confinement, state };
                resolved(table, origin, (waits?, policy?), shared, mode)
            }));
        }
        if instances > INSTANCES_MAX {
            let message = format!("{instances} NF instances; there can be {INSTANCES_MAX}");
            self.report.add_about_file(Code::TooMany, message).help("lower `instances`");
        }
        on_core.retain(|core, _| !workers.contains(core));
        if mode != Mode::Unis {
            self.warn_pollers(tables, &on_core);
        }
        nfs
    }

    /// Returns the origin of an NF's processes, and the program that they run.
    fn origin(&mut self, table: &NfTable) -> Option<Origin> {
        let ran = self.program(table);
        let rootfs = self.container(table);
        match ran? {
            Ran::Attach(args) => Some(Origin::Attached { args }),
            Ran::Program(program) => Some(match rootfs? {
                Some(Container { rootfs }) => Origin::Contained { program, rootfs },
                None if is_resident(table) => Origin::Worker(program),
                None => Origin::Launched(program),
            }),
        }
    }

    fn program(&mut self, table: &NfTable) -> Option<Ran> {
        // `attach = false` says what is so anyway.
        let attach = table.attach.key.as_ref().filter(|_| table.attach.value() != Some(&false));
        let (run, exec, fuse) = (table.run.key.as_ref(), table.exec.key.as_ref(), table.fuse.key.as_ref());
        let keys = [(run, "run"), (exec, "exec"), (fuse, "fuse"), (attach, "attach")];
        let mut given = keys.into_iter().filter_map(|(key, name)| Some((key?, name)));
        let Some((first, first_name)) = given.next() else {
            self.report
                .add(Code::MissingKey, &table.span, "[[nf]] needs `run`, `exec`, `fuse` or `attach`")
                .label("none of them is here")
                .help("add `run = \"…\"` for a shipped NF, `exec = [\"/path/program\"]` for your own");
            return None;
        };
        if let Some((second, second_name)) = given.next() {
            let message = format!("`{first_name}` and `{second_name}` exclude each other");
            self.conflict((first, "first"), second, &message, "an NF is one of them; leave the other out");
            return None;
        }
        match first_name {
            "run" => self.shipped(&table.run, &table.args).map(Program::Run).map(Ran::Program),
            "exec" => self.command(table).map(Ran::Program),
            "attach" => self.attached(table).map(Ran::Attach),
            _ => self.fused(table).map(Ran::Program),
        }
    }

    fn shipped(&mut self, run: &Field<Text>, args: &Field<Args>) -> Option<Shipped> {
        let at = run.found.as_ref()?;
        let name = at.value.0.as_str();
        let known = self.known;
        let Some(nf) = known.get(name) else {
            self.report
                .add(Code::UnknownNf, &at.span, format!("no NF `{name}` is shipped"))
                .label("not shipped")
                .help(suggest::help("shipped NFs", name, known.names()));
            return None;
        };
        let table = args_table(args)?;
        self.check_arguments(at, nf, args, &table);
        Some(Shipped { run: name.to_owned(), args: table })
    }

    fn command(&mut self, table: &NfTable) -> Option<Program> {
        let words = table.exec.found.as_ref()?;
        let Some(program) = words.value.items.first() else {
            if words.value.complete {
                let help = "name the program and its arguments, like [\"./my-nf\", \"--verbose\"]";
                self.report.add(Code::BadValue, &words.span, "a command of no words").help(help);
            }
            return None;
        };
        let path = program.value.0.as_str();
        if !path.contains('/') {
            let message = format!("`{path}` does not say where the program is");
            let help = format!("write its path, like \"./{path}\" or \"/usr/local/bin/{path}\"");
            self.report.add(Code::BadValue, &program.span, message).help(help);
            return None;
        }
        let path = match &table.rootfs.found {
            Some(rootfs) => self.program_inside(&rootfs.value.0, path, &program.span)?,
            None => self.file(path, &program.span, Purpose::Run),
        };
        let arguments = words.value.items[1..].iter().map(|word| word.value.0.clone());
        let command = std::iter::once(path.to_string_lossy().into_owned()).chain(arguments).collect();
        let args = args_table(&table.args)?;
        words.value.complete.then_some(Program::Exec { command, args })
    }

    /// A program in a container's own file system.
    fn program_inside(&mut self, rootfs: &str, path: &str, span: &Span) -> Option<PathBuf> {
        let Some(inside) = path.strip_prefix('/') else {
            let message = format!("`{path}` does not say where in `rootfs` the program is");
            let help = format!(
                "write its path as the container sees it, like \"/bin/{}\"",
                path.trim_start_matches("./")
            );
            self.report.add(Code::BadValue, span, message).help(help);
            return None;
        };
        let outside = Path::new(rootfs).join(inside);
        self.file(&outside.to_string_lossy(), span, Purpose::Run);
        Some(PathBuf::from(path))
    }

    /// The container of an NF; the outer `None` when it is broken.
    fn container(&mut self, table: &NfTable) -> Option<Option<Container>> {
        if *table.environment.value()? == Environment::Process {
            if let Some(key) = &table.rootfs.key {
                let message = "`rootfs` has no effect without a container";
                let help = "set `environment = \"container\"`, or leave `rootfs` out";
                self.report.add(Code::KeyConflict, key, message).help(help);
            }
            return Some(None);
        }
        let at = table.environment.found.as_ref()?;
        if let Some(attach) = table.attach.key.as_ref().filter(|_| table.attach.value() == Some(&true)) {
            let help = "leave `environment` out; the service that starts the process says what it runs in";
            let word = at.value.word();
            let message = format!("`{word}` has no effect on an NF that the manager does not start");
            self.conflict((attach, "attaches"), &at.span, &message, help);
        }
        let (programs, install) = (&container::RUNTIMES, container::INSTALL);
        self.tools.push(ToolUse { span: at.span.clone(), programs, any: true, install });
        if table.rootfs.is_broken() {
            return None;
        }
        let rootfs = table.rootfs.found.as_ref();
        let rootfs = rootfs.map(|at| self.file(&at.value.0, &at.span, Purpose::Folder));
        Some(Some(Container { rootfs }))
    }

    fn attached(&mut self, table: &NfTable) -> Option<Map<String, Json>> {
        if let (Some(attach), Some(restart)) = (&table.attach.key, &table.restart.key) {
            let help =
                "leave `restart` out; the service that started the process may start it again at any time";
            let message = "`restart` has no effect on an NF that the manager does not start";
            self.conflict((attach, "attaches"), restart, message, help);
        }
        let args = args_table(&table.args)?;
        table.attach.found.is_some().then_some(args)
    }

    fn fused(&mut self, table: &NfTable) -> Option<Program> {
        if let (Some(fuse), Some(args)) = (&table.fuse.key, &table.args.key) {
            let help = "write `args` into the members: fuse = [{ run = \"…\", args = { … } }]";
            self.conflict((fuse, "fused"), args, "`args` of a fused NF belong to its members", help);
        }
        let list = table.fuse.found.as_ref()?;
        if list.value.items.is_empty() && list.value.complete {
            let help = "name its members, like fuse = [{ run = \"firewall\" }, { run = \"monitor\" }]";
            self.report.add(Code::BadValue, &list.span, "a fused NF without members").help(help);
            return None;
        }
        let member = |at: &At<MemberTable>| self.shipped(&at.value.run, &at.value.args);
        let members: Vec<Option<Shipped>> = list.value.items.iter().map(member).collect();
        let members = members.into_iter().collect::<Option<_>>()?;
        list.value.complete.then_some(Program::Fuse(members))
    }

    fn waits(&mut self, table: &NfTable) -> Option<Loop> {
        let kind = *table.r#loop.value()?;
        if is_resident(table) {
            // Its worker calls it; it never sleeps.
            return Some(Loop::Polling);
        }
        if let Some(key) = &table.yield_after.key
            && kind != LoopKind::Cooperative
        {
            let message = format!("`yield_after` has no effect on a {} NF", kind.word());
            let help = "set `loop = \"cooperative\"`, or leave `yield_after` out";
            self.report.add(Code::KeyConflict, key, message).help(help);
        }
        Some(match kind {
            LoopKind::Notified => Loop::Notified,
            LoopKind::Polling => Loop::Polling,
            LoopKind::Cooperative => {
                let bursts = table.yield_after.value().map_or(YIELD_AFTER_DEFAULT, |bursts| bursts.0 as u32);
                Loop::Cooperative { yield_after: bursts }
            }
        })
    }

    fn restart(&mut self, table: &NfTable) -> Option<Restart> {
        let bounds = table.restart.value()?;
        let (first, longest) = (bounds.first.found.as_ref()?, bounds.longest.found.as_ref()?);
        if first.value > longest.value {
            let help = "raise `longest` or lower `first`";
            self.report
                .add(Code::KeyConflict, &first.span, "the first pause is longer than the longest")
                .help(help);
        }
        Some(Restart { first_ns: first.value.0, longest_ns: longest.value.0 })
    }

    fn check_ring(&mut self, table: &NfTable) {
        let Some(at) = &table.ring.found else { return };
        let ring = at.value.0;
        if !ring.is_power_of_two() {
            let above = ring.next_power_of_two();
            self.report
                .add(Code::OutOfRange, &at.span, format!("a ring of {ring} is no power of two"))
                .help(format!("the nearest are {} and {above}", above / 2));
        }
    }

    fn check_user(&mut self, table: &NfTable) {
        let Some(at) = &table.user.found else { return };
        if matches!(&at.value, User::Id(0)) || at.value == User::Name("root".to_owned()) {
            let help = match table.attach.value() {
                Some(true) => "start the process as another user, and name that one here",
                _ => "leave `user` out, and the NF runs as a user of its domain's own",
            };
            let message = "root can reach every process and every domain's memory";
            self.report.add(Code::NfAsRoot, &at.span, message).help(help);
        }
    }

    /// The core of each instance: by the file, else the free cores in turn.
    fn place(&mut self, table: &NfTable, in_turn: &mut impl Iterator<Item = u32>) -> Vec<Placed> {
        let Some(instances) = table.instances.value().map(|instances| instances.0 as usize) else {
            return Vec::new();
        };
        if table.core.key.is_none() {
            return in_turn.take(instances).map(|core| (core, table.span.clone())).collect();
        }
        let Some(at) = &table.core.found else { return Vec::new() };
        let chosen = &at.value.0;
        if chosen.complete && chosen.items.is_empty() {
            let help = "name a core, or leave `core` out";
            self.report.add(Code::OutOfRange, &at.span, "an NF without a core").help(help);
        } else if chosen.items.len() > instances {
            let message =
                format!("{} for {}", counted(chosen.items.len(), "core"), counted(instances, "instance"));
            let help = "raise `instances`, or name as many cores as instances";
            self.report.add(Code::KeyConflict, &at.span, message).help(help);
        }
        let mut placed = Vec::with_capacity(chosen.items.len());
        for core in &chosen.items {
            let number = core.value.0 as u32;
            if self.core_exists(number, &core.span) {
                placed.push((number, core.span.clone()));
            }
        }
        if placed.is_empty() { placed } else { placed.into_iter().cycle().take(instances).collect() }
    }

    /// A worker that shares its core gives it up after every pass; an NF that polls does not give it
    /// back before the kernel takes it, milliseconds later.
    fn check_workers(&mut self, table: &NfTable, placed: &[Placed], workers: &[u32], others: bool) {
        let Some((core, span)) = placed.iter().find(|(core, _)| workers.contains(core)) else { return };
        if table.r#loop.value() == Some(&LoopKind::Polling) {
            self.report
                .add(
                    Code::CorePolled,
                    span,
                    format!("core {core} belongs to a worker, and this NF never gives it up"),
                )
                .help("set `loop = \"notified\"`, or give the NF a core without a worker");
        } else if others {
            self.report
                .add(Code::CoreShared, span, format!("core {core} belongs to a worker: the two share it"))
                .help("give the NF a core without a worker");
        }
    }

    fn warn_pollers(&mut self, tables: &[At<NfTable>], on_core: &BTreeMap<u32, Vec<(usize, Span)>>) {
        let name = |index: usize| tables[index].value.name.value().map_or("?", |name| name.0.as_str());
        for (core, there) in on_core {
            let mut said = None;
            for (place, (index, span)) in there.iter().enumerate() {
                let polls = tables[*index].value.r#loop.value() == Some(&LoopKind::Polling);
                if there.len() < 2 || !polls || said == Some(index) {
                    continue;
                }
                said = Some(index);
                let mut others: Vec<&str> = there
                    .iter()
                    .enumerate()
                    .filter(|(at, _)| *at != place)
                    .map(|(_, (i, _))| name(*i))
                    .collect();
                others.dedup();
                let message = format!(
                    "`{}` never sleeps and shares core {core} with `{}`",
                    name(*index),
                    others.join("`, `")
                );
                self.report
                    .add(Code::PollersShare, span, message)
                    .help("set `loop = \"notified\"`, or give it a core of its own");
            }
        }
    }
}

/// Returns the value of `args`, `{}` when it is absent, `None` when it is broken.
fn args_table(args: &Field<Args>) -> Option<Map<String, serde_json::Value>> {
    match args.value() {
        Some(args) => Some(args.table.clone()),
        None => args.key.is_none().then(Map::new),
    }
}

/// Program that an `[[nf]]` names.
enum Ran {
    Program(Program),
    /// A process that attaches by itself, with the arguments that it is sent.
    Attach(Map<String, Json>),
}

/// A container, and the folder with its file system unless it is the machine's.
struct Container {
    rootfs: Option<PathBuf>,
}

/// Findings for an NF from its tables and those of others.
struct Resolved {
    restart: Restart,
    domain: super::super::model::DomainId,
    cores: Vec<u32>,
    confinement: Confinement,
    state: Option<State>,
}

fn resolved(
    table: &NfTable,
    origin: Origin,
    (waits, policy): (Loop, Policy),
    found: Resolved,
    mode: Mode,
) -> Option<Nf> {
    let Resolved { restart, domain, cores, confinement, state } = found;
    if table.user.is_broken() || table.ring.is_broken() {
        return None;
    }
    let has_slices = mode == Mode::Unis && waits == Loop::Polling;
    let ring_default = if has_slices { RING_OF_SLICES } else { RING_DEFAULT };
    Some(Nf {
        name: table.name.value()?.0.clone(),
        // A chain on interfaces says so later.
        link: table.r#box.value().map_or(Link::Rings, |kind| Link::External(*kind)),
        origin,
        cores,
        waits,
        domain,
        on_failure: *table.on_failure.value()?,
        restart,
        ring: table.ring.value().map_or(ring_default, |ring| ring.0 as u32),
        user: table.user.value().cloned().unwrap_or(User::OfDomain),
        priority: table.priority.value()?.0 as u32,
        policy,
        policy_is_open: table.policy.key.is_none(),
        confinement,
        state,
        range: table.instances.value().and_then(|instances| instances.1.as_ref()).and_then(range_of),
    })
}

pub(super) fn range_of(table: &RangeTable) -> Option<NodeRange> {
    Some(NodeRange { min: table.min.value()?.0 as u32, max: table.max.value()?.0 as u32 })
}
