//! Service headers (RFC 8300): which ports take them, and which chains are service paths.
//!
//! A packet with a service header enters the chain of its service path, at the position of its service index.
//! Behind the last stage it goes to the next hop, if the chain has one, by a port that takes service headers
//! too: its address is the sender's.

use std::collections::HashMap;

use super::super::codes::Code;
use super::super::document::{ChainTable, Document, NshTable, PortCommon};
use super::super::model::{Backend, Chain, Out, Port, PortId, Rule, SERVICE_BYTES, Service, ServiceAddress};
use super::super::read::{At, Field};
use super::super::report::Span;
use super::super::values::{Mac, NshAddress};
use super::{Resolver, items};

impl Resolver<'_> {
    /// Resolves whether a port takes service headers.
    pub(super) fn service_address(
        &mut self,
        common: &PortCommon,
        backend: Option<&Backend>,
    ) -> Option<ServiceAddress> {
        let at = common.nsh.found.as_ref()?;
        let given = match at.value {
            NshAddress::Off => return None,
            NshAddress::Own => None,
            NshAddress::Given(mac) => Some(mac),
        };
        match (backend?, given) {
            (Backend::Generator(_), _) => {
                self.report
                    .add(Code::KeyConflict, &at.span, "a generator's packets have no service header")
                    .help(
                        "leave `nsh` out: a chain with `nsh` and `next` gives its packets one as they leave",
                    );
                None
            }
            (Backend::Interface(_), None) => Some(ServiceAddress::Own),
            (_, None) => {
                self.report
                    .add(
                        Code::BadValue,
                        &at.span,
                        "the port is no interface, so it has no address of its own",
                    )
                    .help(
                        "write the address to which service headers come, like `nsh = \"02:00:00:00:00:01\"`",
                    );
                None
            }
            (_, Some(mac)) if mac.0.is_multicast() => {
                self.refuse_group(&at.span);
                None
            }
            (_, Some(mac)) => Some(ServiceAddress::Given(mac)),
        }
    }

    fn refuse_group(&mut self, span: &Span) {
        self.report
            .add(Code::BadValue, span, "the address is that of a group, not of one machine")
            .help("write a unicast address: its first byte is even");
    }

    /// Resolves the service path of a chain with so many stages.
    pub(super) fn service(&mut self, table: &ChainTable, stages: usize, out: Option<Out>) -> Option<Service> {
        let NshTable { path, index, next, .. } = table.nsh.value()?;
        if let Some(at) = &index.found
            && (at.value.0 as usize) < stages
        {
            let message = format!("`index` {} is smaller than the number of stages, {stages}", at.value.0);
            self.report
                .add(Code::OutOfRange, &at.span, message)
                .help(format!("each stage lowers it by one: write {stages} or more, or leave it out"));
        }
        if let Some(at) = &next.found {
            if at.value.0.is_multicast() {
                self.refuse_group(&at.span);
            }
            if out == Some(Out::Nf) {
                let message = "the last NF names the port, and `next` lies behind one port";
                self.conflict(
                    (&at.span, "next hop"),
                    out_of(table),
                    message,
                    "name a port in `out`, or leave `next` out",
                );
            }
        }
        if let Some((io, key)) = table.io.key.as_ref().zip(table.nsh.key.as_ref()) {
            let message =
                "no worker sees the packets of a chain on interfaces, so it cannot be a service path";
            self.conflict((io, "on interfaces"), key, message, "leave `nsh` out");
        }
        Some(Service {
            path: path.value()?.0 as u32,
            index: index.value()?.0 as u8,
            next: if next.is_broken() { return None } else { next.value().copied() },
        })
    }

    /// Checks chains with service paths against each other, and against ports and rules.
    pub(super) fn check_services(
        &mut self,
        document: &Document,
        chains: &[Option<Chain>],
        ports: &[Option<Port>],
        rules: &[Option<Rule>],
    ) {
        let mut taken: HashMap<u32, &Span> = HashMap::new();
        let tables = items(&document.chain);
        for (number, (at, chain)) in tables.iter().zip(chains).enumerate() {
            let Some(path) = at.value.nsh.value().and_then(|table| table.path.found.as_ref()) else {
                continue;
            };
            if let Some(first) = taken.insert(path.value.0 as u32, &path.span) {
                self.report
                    .add(
                        Code::PathTwice,
                        &path.span,
                        format!("two chains have the service path {:#x}", path.value.0),
                    )
                    .help("give each its own: the service path of a packet says which chain it takes")
                    .beside(first.clone(), "first");
            }
            if let Some(chain) = chain {
                self.check_ends(document, (number, at), chain, ports, rules);
            }
        }
    }

    /// Checks that packets with the service path of a chain come or leave by a port that takes service
    /// headers.
    fn check_ends(
        &mut self,
        document: &Document,
        (number, at): (usize, &At<ChainTable>),
        chain: &Chain,
        ports: &[Option<Port>],
        rules: &[Option<Rule>],
    ) {
        let Some((table, service)) = at.value.nsh.value().zip(chain.service) else { return };
        // One that is broken could take some.
        let takes = |port: &Option<Port>| port.as_ref().is_none_or(|port| port.service.is_some());
        match (service.next, chain.out) {
            (Some(_), Out::Port(id)) => {
                let Some(port) = ports.get(id.index()).and_then(Option::as_ref) else { return };
                if port.service.is_none() {
                    self.refuse_exit(&table.next, &items(&document.port)[id.index()].value.common, port);
                }
                self.check_mtu(document, (number, at), id, ports, rules);
            }
            (None, _) if !ports.iter().any(takes) => {
                let key = at.value.nsh.key.as_ref().unwrap_or(&at.span);
                let message = "`nsh` has no effect: no packet comes or leaves with a service header";
                self.report.add(Code::KeyConflict, key, message).help(
                    "add `nsh = true` to the port where they come, or `next` for packets that leave with one",
                );
            }
            _ => {}
        }
    }

    fn refuse_exit(&mut self, next: &Field<Mac>, table: &PortCommon, port: &Port) {
        let Some(key) = &next.key else { return };
        let message =
            format!("packets leave with a service header by port `{}`, which has no `nsh`", port.name);
        self.report
            .add(Code::KeyConflict, key, message)
            .help("add `nsh = true` to that port: its address is the sender's")
            .beside(table.span.clone(), "this port");
    }

    /// Refuses a chain whose packets could come too long to leave with a service header, as far as the MTUs
    /// of interfaces tell. A packet that comes with one leaves no longer than it came.
    fn check_mtu(
        &mut self,
        document: &Document,
        (number, at): (usize, &At<ChainTable>),
        exit: PortId,
        ports: &[Option<Port>],
        rules: &[Option<Rule>],
    ) {
        let mtu = |port: &Option<Port>| match &port.as_ref()?.backend {
            Backend::Interface(interface) => self.machine.mtus.get(&interface.interface).copied(),
            _ => None,
        };
        let Some(room) = ports.get(exit.index()).and_then(mtu) else { return };
        let leads = |port: usize| {
            let here = |rule: &&Rule| rule.port.is_none_or(|id| id.index() == port);
            rules.iter().flatten().filter(here).any(|rule| rule.chain.index() == number)
        };
        let comes =
            (0..ports.len()).filter(|&port| leads(port)).filter_map(|port| Some((port, mtu(&ports[port])?)));
        let Some((longest, needed)) = comes.max_by_key(|(_, mtu)| *mtu) else { return };
        if needed + SERVICE_BYTES > room {
            let names =
                [longest, exit.index()].map(|port| ports[port].as_ref().map_or("", |port| &port.name));
            let message = format!(
                "packets of up to {needed} bytes come by port `{}`, and port `{}` has an MTU of {room}: with a service \
                 header they would not fit",
                names[0], names[1]
            );
            let span = at.value.nsh.key.as_ref().unwrap_or(&at.span).clone();
            let help = format!(
                "raise that MTU to {}, or lower the other to {}",
                needed + SERVICE_BYTES,
                room.saturating_sub(SERVICE_BYTES)
            );
            self.report
                .add(Code::MtuShort, &span, message)
                .help(help)
                .beside(items(&document.port)[exit.index()].value.common.span.clone(), "this port");
        }
    }
}

/// The span of a chain's `out`, which is there.
fn out_of(table: &ChainTable) -> &Span {
    table.out.found.as_ref().map_or(&table.span, |at| &at.span)
}
