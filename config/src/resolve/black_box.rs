//! Black boxes: what a program that knows nothing of us can be, and where in a chain it can stand.

use super::super::codes::Code;
use super::super::document::{ChainTable, Document, NfTable};
use super::super::model::{Chain, Nf, NfId, Out};
use super::super::read::At;
use super::super::values::{BoxPorts, Environment, LoopKind};
use super::{Resolver, items};

impl Resolver<'_> {
    /// Keys that a box cannot have, and a command that says nothing of its interfaces.
    pub(super) fn check_box(&mut self, table: &NfTable) {
        let Some(key) = &table.r#box.key else { return };
        let beside = (key, "a black box");
        let others =
            [(&table.run.key, "`run`"), (&table.fuse.key, "`fuse`"), (&table.attach.key, "`attach`")];
        for (other, name) in others {
            if let Some(other) = other {
                let message = format!("{name} and `box` exclude each other");
                self.conflict(beside, other, &message, "a black box is a program that `exec` names");
            }
        }
        if let Some(args) = &table.args.key {
            let help = "write what it is to know into `exec`";
            self.conflict(beside, args, "a black box does not read `args`", help);
        }
        if let Some(at) = &table.r#loop.found
            && at.value == LoopKind::Cooperative
        {
            let message = "a black box does not give its core up for us";
            let help = "write \"polling\" if it never sleeps, else \"notified\"";
            self.conflict(beside, &at.span, message, help);
        }
        if let Some(at) = &table.environment.found
            && at.value == Environment::Container
        {
            let help = "leave `environment` out: a box has interfaces of its own, which no runtime gives it";
            self.conflict(beside, &at.span, "a black box cannot be in a container", help);
        }
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

    /// A box has one chain: what it sends is not classified again, but goes on behind it.
    pub(super) fn check_boxes(&mut self, chains: &[Option<Chain>], nfs: &[Option<Nf>], document: &Document) {
        let tables = items(&document.chain);
        let is_box = |id: &NfId| nfs[id.index()].as_ref().is_some_and(|nf| nf.black_box.is_some());
        for (at, chain) in chains.iter().enumerate() {
            let Some(chain) = chain else { continue };
            for (stage, id) in chain.stages.iter().enumerate().filter(|(_, id)| is_box(id)) {
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
        let beside = (&name.span, "a black box");
        if let Some(io) = &table.io.key {
            let help = "leave `io` out: the box has interfaces of its own, and the workers bring its packets";
            self.conflict(beside, io, "a black box cannot stand in a chain on interfaces", help);
        }
        if let Some(bound) = &table.delay_bound_us.key {
            let message =
                "a chain with a black box has no delay bound: how long packets are in it is not seen";
            self.conflict(beside, bound, message, "leave `delay_bound_us` out");
        }
        if chain.out == Out::Nf
            && stage + 1 == chain.stages.len()
            && let Some(out) = &table.out.key
        {
            let help = "name a port in `out`";
            self.conflict(beside, out, "a black box at the end of a chain cannot name the port", help);
        }
    }

    fn refuse_second_chain(&mut self, at: &At<ChainTable>, first: &At<ChainTable>, stage: usize) {
        let Some(name) = at.value.stages.found.as_ref().and_then(|list| list.value.items.get(stage)) else {
            return;
        };
        let message = format!("`{}` is a black box and in another chain too", name.value.0);
        let help =
            "what a box sends does not say which chain it is of; define a second [[nf]] with the same `exec`";
        let span = name.span.clone();
        self.report
            .add(Code::KeyConflict, &span, message)
            .help(help)
            .beside(first.span.clone(), "the other chain");
    }
}
