//! Chains on interfaces of the kernel: which interfaces each of their NFs works on.

use std::collections::HashMap;

use headgate_host::openvswitch;
use headgate_kernel::XDP_FRAME_BYTES_MAX;

use super::super::codes::Code;
use super::super::document::{ChainTable, Document, IoTable, PortKeys};
use super::super::model::{Chain, ChainIo, Interfaces, Link, Nf, Side};
use super::super::read::At;
use super::super::report::Span;
use super::super::values::{InterfaceName, IoDriver, Wiring};
use super::{Resolver, ToolUse, items};

impl Resolver<'_> {
    /// The I/O of a chain that has some; `None` when it is broken.
    pub(super) fn io(&mut self, table: &IoTable, workers: &[u32]) -> Option<ChainIo> {
        let (entry, end) = (table.r#in.found.as_ref()?, table.out.found.as_ref()?);
        if entry.value == end.value {
            let message = format!("the chain would end at its entry, `{}`", end.value.0);
            self.conflict((&entry.span, "entry"), &end.span, &message, "name another interface");
        }
        if table.allow_default_route.value() == Some(&false) {
            self.refuse_routed(entry);
            self.refuse_routed(end);
        }
        Some(ChainIo {
            entry: entry.value.0.clone(),
            end: end.value.0.clone(),
            driver: *table.driver.value()?,
            batch: table.batch.value()?.0 as u32,
            wiring: *table.wiring.value()?,
            switch_core: self.switch_core(table, workers)?,
        })
    }

    /// The core of an Open vSwitch where one is wanted; the outer `None` when it is broken.
    fn switch_core(&mut self, table: &IoTable, workers: &[u32]) -> Option<Option<u32>> {
        let is_switched = *table.wiring.value()? == Wiring::Ovs;
        if let (Some(key), false) = (&table.switch_core.key, is_switched) {
            let message = "`switch_core` has no effect without an Open vSwitch";
            let help = "set `wiring = \"ovs\"`, or leave `switch_core` out";
            self.report.add(Code::KeyConflict, key, message).help(help);
        }
        if !is_switched {
            return Some(None);
        }
        if let Some(at) = &table.wiring.found {
            let (programs, install) = (&openvswitch::PROGRAMS, openvswitch::INSTALL);
            self.tools.push(ToolUse { span: at.span.clone(), programs, any: false, install });
        }
        if table.switch_core.key.is_none() {
            return Some(workers.first().copied());
        }
        let core = table.switch_core.found.as_ref()?;
        let number = core.value.0 as u32;
        self.core_exists(number, &core.span).then_some(Some(number))
    }

    fn refuse_routed(&mut self, at: &At<InterfaceName>) {
        let name = &at.value.0;
        if self.machine.default_route.contains(name) {
            let message = format!("the machine's default route leads through `{name}`");
            self.report
                .add(Code::DefaultRoute, &at.span, message)
                .help("take another interface, or go on at your own risk with `allow_default_route = true`");
        }
    }

    /// An interface belongs to one chain or one port.
    pub(super) fn refuse_interfaces_twice(&mut self, document: &Document) {
        let mut taken: HashMap<String, Span> = HashMap::new();
        for port in items(&document.port) {
            if let Some(PortKeys::Dpdk(keys)) = &port.value.kind
                && let Some(device) = &keys.device.found
            {
                let names = device.value.interfaces().map(|name| (name.to_owned(), device.span.clone()));
                taken.extend(names);
            }
        }
        for io in items(&document.chain).iter().filter_map(|chain| chain.value.io.value()) {
            for at in [&io.r#in.found, &io.out.found].into_iter().flatten() {
                let name = &at.value.0;
                // Both ends of one chain are told of elsewhere.
                let own = |first: &Span| io.r#in.found.as_ref().is_some_and(|entry| entry.span == *first);
                match taken.get(name) {
                    Some(first) if !own(first) => {
                        self.report
                            .add(Code::DeviceTwice, &at.span, format!("`{name}` is taken twice"))
                            .label("again")
                            .help("an interface belongs to one port, or to one end of one chain")
                            .beside(first.clone(), "first");
                    }
                    Some(_) => {}
                    None => {
                        taken.insert(name.clone(), at.span.clone());
                    }
                }
            }
        }
    }

    /// Gives the NFs of chains on interfaces theirs, and reports those that cannot have any.
    pub(super) fn give_interfaces(
        &mut self,
        chains: &[Option<Chain>],
        nfs: &mut [Option<Nf>],
        document: &Document,
    ) {
        let tables = items(&document.chain);
        for (at, chain) in chains.iter().enumerate() {
            let Some((chain, io)) = chain.as_ref().and_then(|chain| Some((chain, chain.io.as_ref()?))) else {
                continue;
            };
            self.refuse_long_frames(document, &tables[at].value);
            for (stage, id) in chain.stages.iter().enumerate() {
                self.refuse_another_chain(tables, at, stage, chains, *id);
                self.check_io_nf(&items(&document.nf)[id.index()].value, &tables[at].value);
                self.check_io_state(&items(&document.nf)[id.index()].value, &tables[at].value);
                if let Some(nf) = &mut nfs[id.index()] {
                    nf.link = Link::Interfaces(interfaces(chain, io, stage));
                }
            }
        }
    }

    fn refuse_long_frames(&mut self, document: &Document, chain: &ChainTable) {
        let Some(driver) = chain.io.value().and_then(|io| io.driver.found.as_ref()) else { return };
        let bytes = document.memory.value().and_then(|memory| memory.buffer_bytes.found.as_ref());
        if let Some(bytes) = bytes
            && driver.value == IoDriver::Xdp
            && bytes.value.0 > XDP_FRAME_BYTES_MAX.into()
        {
            let message =
                format!("packets of AF_XDP lie in a page each, at most {XDP_FRAME_BYTES_MAX} bytes");
            let help = "lower `buffer_bytes`, or take `driver = \"mapped\"`";
            self.conflict((&driver.span, "a socket of AF_XDP"), &bytes.span, &message, help);
        }
    }

    fn refuse_another_chain(
        &mut self,
        tables: &[At<ChainTable>],
        at: usize,
        stage: usize,
        chains: &[Option<Chain>],
        id: super::super::model::NfId,
    ) {
        let elsewhere = |(other, chain): &(usize, &Option<Chain>)| {
            let visits = chain.as_ref().is_some_and(|chain| chain.stages.contains(&id));
            let told = *other < at && chain.as_ref().is_some_and(|chain| chain.io.is_some());
            *other != at && visits && !told
        };
        let Some((other, _)) = chains.iter().enumerate().find(elsewhere) else { return };
        let stages = tables[at].value.stages.found.as_ref();
        let Some(name) = stages.and_then(|list| list.value.items.get(stage)) else { return };
        let message = format!("`{}` works on interfaces here and is in another chain too", name.value.0);
        let help = "an NF has two interfaces; define a second [[nf]] with the same `run` for the other chain";
        let span = name.span.clone();
        self.report
            .add(Code::KeyConflict, &span, message)
            .help(help)
            .beside(tables[other].value.span.clone(), "the other chain");
    }
}

fn interfaces(chain: &Chain, io: &ChainIo, stage: usize) -> Interfaces {
    let last = chain.stages.len() - 1;
    let hop = |number: usize, after: bool| Side::Hop {
        chain: chain.name.clone(),
        number: number as u16,
        after,
        wiring: io.wiring,
        switch_core: io.switch_core,
    };
    let towards_entry = match stage {
        0 => Side::Interface(io.entry.clone()),
        _ => hop(stage - 1, true),
    };
    let towards_end = if stage == last { Side::Interface(io.end.clone()) } else { hop(stage, false) };
    Interfaces { driver: io.driver.driver(), batch: io.batch, sides: [towards_entry, towards_end] }
}
