//! Checks of combinations: how an NF is reached, where its processes come from, and what its chain needs.
//!
//! A [`Link`](super::super::model::Link) and an [`Origin`](super::super::model::Origin) compose freely, and
//! so do both with the objectives of chains. The pairs that do not are refused here and nowhere else, each
//! with its reason:
//!
//! | what | beside | why not |
//! |---|---|---|
//! | external program | `run`, `fuse`, `attach`, `args`, `loop = "cooperative"` | it knows nothing of us |
//! | external program on memif | container | its sockets have names of a network namespace, and a container has its own |
//! | external program | chain on interfaces | nobody would pass packets between the chain's interfaces and its own |
//! | external program | `delay_bound_us` | what leaves it does not say when it arrived |
//! | external program | two chains | what it sends does not say which chain it is of |
//! | external program at the end | `out = "nf"` | it cannot name a port |
//! | external program | `state` | nothing of its state is seen (`state.rs`) |
//! | kept state | `instances` | flows of one that restarts go to the others (`state.rs`) |
//! | kept state | chain on interfaces | what the kernel has taken cannot be undone (`state.rs`) |
//! | NF in its worker (`fused`) | `exec`, `attach`, `box`, and what is said of processes | no process (`resident.rs`) |
//! | NF in its worker | chain on interfaces | no worker sees its packets |
//! | NF on interfaces | `instances`, `on_failure = "bypass"` | it alone has its interfaces |
//! | chain on interfaces | `delay_bound_us` | no worker sees its packets, so nobody can hold them back |
//! | chain on interfaces | `nsh` | no worker sees its packets (`service.rs`) |
//! | `nsh` with `next` | `out = "nf"`, an exit without `nsh` | the next hop lies behind one port, whose address is the sender's (`service.rs`) |
//! | chain on interfaces | `rate_floor` without time slices | as for any chain: see `scheduler.rs` |
//!
//! Files (`disk`) of NFs on interfaces are refused by the NF library when they are asked for: their loop
//! holds packets in the kernel's queues and has none of its own to park. So are those of NFs whose state is
//! kept: packets that wait for a disk are in no burst that could be undone.

use super::super::codes::Code;
use super::super::document::{ChainTable, Document, NfTable};
use super::super::model::{Chain, Nf, NfId, Out};
use super::super::read::At;
use super::super::values::{BoxPorts, Environment, FusedInto, LoopKind, OnFailure};
use super::{Resolver, items};

impl Resolver<'_> {
    /// Refuses keys that an external program cannot have, and a command without its interfaces.
    pub(super) fn check_external(&mut self, table: &NfTable) {
        let Some(key) = &table.r#box.key else { return };
        let beside = (key, "an external program");
        let others =
            [(&table.run.key, "`run`"), (&table.fuse.key, "`fuse`"), (&table.attach.key, "`attach`")];
        for (other, name) in others {
            if let Some(other) = other {
                let message = format!("{name} and `box` exclude each other");
                self.conflict(beside, other, &message, "an external program is what `exec` names");
            }
        }
        if let Some(args) = &table.args.key {
            let help = "write what it is to know into `exec`";
            self.conflict(beside, args, "an external program does not read `args`", help);
        }
        if let Some(at) = &table.r#loop.found
            && at.value == LoopKind::Cooperative
        {
            let message = "an external program does not yield its core for us";
            let help = "write \"polling\" if it never sleeps, else \"notified\"";
            self.conflict(beside, &at.span, message, help);
        }
        if let Some(at) = &table.environment.found
            && at.value == Environment::Container
            && table.r#box.value() == Some(&BoxPorts::Memif)
        {
            let help = "write `box = \"veth\"`, or leave `environment` out";
            let message = "an external program in a container cannot be reached over memif: its sockets have names of our \
                           network namespace, and a container has its own";
            self.conflict(beside, &at.span, message, help);
        }
        self.check_command_of_external(table);
    }

    /// Refuses a command that does not say where the external program finds its interfaces.
    fn check_command_of_external(&mut self, table: &NfTable) {
        let Some(words) = &table.exec.found else { return };
        let names = |place: &str| words.value.items.iter().any(|word| word.value.0.contains(place));
        if table.r#box.value() == Some(&BoxPorts::Memif) && !(names("{in}") && names("{out}")) {
            let help = "write `{in}` and `{out}` where it takes the names of its two memif sockets, like \
                        \"--vdev=net_memif0,role=client,socket={in}\"";
            self.report
                .add(Code::BadValue, &words.span, "the command does not say where its interfaces are")
                .help(help);
        }
    }

    /// An external program has one chain: what it sends is not classified again, but goes on behind it.
    pub(super) fn check_externals(
        &mut self,
        chains: &[Option<Chain>],
        nfs: &[Option<Nf>],
        document: &Document,
    ) {
        let tables = items(&document.chain);
        let is_external = |id: &NfId| nfs[id.index()].as_ref().is_some_and(|nf| nf.is_external());
        for (at, chain) in chains.iter().enumerate() {
            let Some(chain) = chain else { continue };
            for (stage, id) in chain.stages.iter().enumerate().filter(|(_, id)| is_external(id)) {
                let first = chains.iter().flatten().position(|other| other.stages.contains(id));
                self.check_place(&tables[at], chain, stage);
                if let Some(first) = first.filter(|&first| first < at) {
                    self.refuse_second_chain(&tables[at], &tables[first], stage);
                }
            }
        }
    }

    fn check_place(&mut self, at: &At<ChainTable>, chain: &Chain, stage: usize) {
        let table = &at.value;
        let Some(name) = table.stages.found.as_ref().and_then(|list| list.value.items.get(stage)) else {
            return;
        };
        let beside = (&name.span, "an external program");
        if let Some(io) = &table.io.key {
            let help = "leave `io` out: an external program (`box`) has interfaces of its own, which the workers serve";
            self.conflict(beside, io, "an external program cannot stand in a chain on interfaces", help);
        }
        if let Some(bound) = &table.delay_bound_us.key {
            let message =
                "a chain with an external program has no delay bound: how long packets are in it is not seen";
            self.conflict(beside, bound, message, "leave `delay_bound_us` out");
        }
        if chain.out == Out::Nf
            && stage + 1 == chain.stages.len()
            && let Some(out) = &table.out.key
        {
            let help = "name a port in `out`";
            self.conflict(
                beside,
                out,
                "an external program at the end of a chain cannot name the port",
                help,
            );
        }
    }

    fn refuse_second_chain(&mut self, at: &At<ChainTable>, first: &At<ChainTable>, stage: usize) {
        let Some(name) = at.value.stages.found.as_ref().and_then(|list| list.value.items.get(stage)) else {
            return;
        };
        let message = format!("`{}` is an external program and in another chain too", name.value.0);
        let help =
            "what it sends does not say which chain it is of; define a second [[nf]] with the same `exec`";
        let span = name.span.clone();
        self.report
            .add(Code::KeyConflict, &span, message)
            .help(help)
            .beside(first.span.clone(), "the other chain");
    }

    /// Keys that an NF of a chain on interfaces cannot have.
    pub(super) fn check_io_nf(&mut self, nf: &NfTable, chain: &ChainTable) {
        let Some(io) = chain.io.key.clone() else { return };
        if let Some(at) = nf.fused.found.as_ref().filter(|at| at.value == FusedInto::Worker) {
            let message = "an NF on interfaces needs a process: no worker sees its packets";
            self.conflict((&io, "on interfaces"), &at.span, message, "leave `fused` out");
        }
        if let Some(at) = &nf.instances.found
            && at.value.0 > 1
        {
            let help = "leave `instances` out";
            self.conflict((&io, "on interfaces"), &at.span, "an NF on interfaces has one instance", help);
        }
        if let Some(at) = &nf.on_failure.found
            && at.value == OnFailure::Bypass
        {
            let message = "an NF on interfaces cannot be bypassed: nobody else has its interfaces";
            self.conflict((&io, "on interfaces"), &at.span, message, "leave `on_failure` out");
        }
    }

    /// A delay bound of a chain on interfaces.
    pub(super) fn check_io_bound(&mut self, chain: &ChainTable) {
        if let (Some(io), Some(bound)) = (&chain.io.key, &chain.delay_bound_us.key) {
            let message = "a delay bound has no effect on interfaces, where no worker sheds";
            self.conflict((io, "on interfaces"), bound, message, "leave `delay_bound_us` out");
        }
    }
}
