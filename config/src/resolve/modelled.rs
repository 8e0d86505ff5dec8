//! What a configuration asks for and the simulator does not model: refused, each at its place, with what to
//! do instead. What it models as better than it may be is warned of.

use super::super::codes::Code;
use super::super::document::{ChainTable, Document, NfTable, PortTable};
use super::super::model::{Backend, Chain, Config, Generator, Load, Nf, Policy, Port, PortId};
use super::super::read::{At, Field};
use super::super::report::Span;
use super::super::rules;
use super::super::simulation::Simulation;
use super::super::values::Rate;
use super::{Resolver, items};

/// Packets that a port holds for its worker, as the model has it.
const PORT_RING: u64 = 4096;

/// Returns the span of a key, or that of its table.
fn place<'s, T>(field: &'s Field<T>, table: &'s Span) -> &'s Span {
    field.key.as_ref().unwrap_or(table)
}

impl Resolver<'_> {
    /// Reports everything of a configuration that the simulator does not model.
    pub fn refuse_unmodelled(&mut self, document: &Document, config: &Config, simulation: &Simulation) {
        self.refuse_of_manager(document, config);
        for (at, nf) in items(&document.nf).iter().zip(&config.nfs) {
            self.refuse_of_nf(at, nf, config);
        }
        self.refuse_costless(document, config, simulation);
        for (at, chain) in items(&document.chain).iter().zip(&config.chains) {
            self.refuse_of_chain(at, chain);
        }
        for (number, (at, port)) in items(&document.port).iter().zip(&config.ports).enumerate() {
            let port_id = PortId(number as u16);
            let is_given = simulation.traffic.iter().any(|traffic| traffic.port == port_id);
            self.refuse_of_port(at, port, is_given);
            let chain_is_given = simulation
                .traffic
                .iter()
                .filter(|traffic| traffic.port == port_id)
                .all(|one| one.chain.is_some());
            if is_given || port.backend.gives() {
                self.refuse_chain_of(port_id, at, config, is_given && chain_is_given);
            }
        }
        self.warn_of_buffers(document, config);
    }

    /// Reports that the simulator does not model what stands at `span`.
    fn unmodelled(&mut self, span: &Span, what: &str, instead: &str) {
        self.report
            .add(Code::NotModelled, span, format!("the simulator does not model {what}"))
            .help(instead);
    }

    /// Reports that the simulator models one machine.
    pub fn refuse_nodes(&mut self, document: &Document) {
        let keys = [
            (&document.node.key, "nodes"),
            (&document.link.key, "links between nodes"),
            (&document.group.key, "groups of nodes"),
        ];
        for (key, what) in keys {
            if let Some(key) = key {
                self.unmodelled(key, what, "give it the file of one machine");
            }
        }
    }

    fn refuse_of_manager(&mut self, document: &Document, config: &Config) {
        if let Some(table) = document.scheduler.value()
            && config.scheduler.unis.core.is_some()
        {
            let span = place(&table.unis_core, &table.span);
            self.unmodelled(span, "a scheduler of slices on a core of its own", "leave `unis_core` out");
        }
        if config.domains.len() > 1 {
            let message = "copies of packets between trust domains cost nothing in the model";
            let help = "give `worker_hop_ps` of [sim.costs] what such a hop costs here";
            match items(&document.domain).iter().map(|at| &at.span).next_back() {
                Some(span) => self.report.add(Code::ModelledIdeal, span, message).help(help),
                None => self.report.add_about_file(Code::ModelledIdeal, message).help(help),
            };
        }
    }

    fn refuse_of_nf(&mut self, at: &At<NfTable>, nf: &Nf, config: &Config) {
        let table = &at.value;
        if nf.is_external() {
            let help = "put an NF of the same cost in its place, with [[sim.nf]]";
            self.unmodelled(place(&table.r#box, &at.span), "external programs", help);
        }
        if nf.is_resident() {
            let help = "leave `fused` out, and give the NF a core of its own";
            return self.unmodelled(place(&table.fused, &at.span), "NFs in the thread of a worker", help);
        }
        if nf.cores.iter().any(|core| config.manager.cores.contains(core)) {
            let help = "give the NF a core of its own, and `[sim] cores` if this takes more";
            self.unmodelled(place(&table.core, &at.span), "NFs on the core of a worker", help);
        }
        if let Policy::Normal { nice, .. } | Policy::Batch { nice, .. } = nf.policy
            && nice != 0
        {
            let message = "`nice` has no effect in the model: it counts within the NF's own group";
            let help = "use `priority`, which counts between NFs";
            self.report.add(Code::ModelledIdeal, place(&table.nice, &at.span), message).help(help);
        }
    }

    /// An NF whose cost nobody knows cannot be modelled.
    fn refuse_costless(&mut self, document: &Document, config: &Config, simulation: &Simulation) {
        let visited = |number: usize| {
            config.chains.iter().any(|chain| chain.stages.iter().any(|nf| nf.index() == number))
        };
        for (number, (at, cost)) in items(&document.nf).iter().zip(&simulation.nfs).enumerate() {
            if cost.is_none() && visited(number) {
                let name = &config.nfs[number].name;
                let message = format!("the simulator does not know what a packet costs the NF `{name}`");
                let help = format!(
                    "add `[[sim.nf]]` with `name = \"{name}\"` and `cycles = …`; `headgate profile` measures them"
                );
                self.report.add(Code::NotModelled, place(&at.value.name, &at.span), message).help(help);
            }
        }
    }

    fn refuse_of_chain(&mut self, at: &At<ChainTable>, chain: &Chain) {
        let table = &at.value;
        if chain.service.is_some() {
            let help = "leave `nsh` out, and give the chain a rule";
            self.unmodelled(place(&table.nsh, &at.span), "service headers", help);
        }
        if chain.io.is_some() {
            let help = "give the chain `out` and a rule: it is then modelled on the packet path";
            self.unmodelled(place(&table.io, &at.span), "chains on interfaces of the kernel", help);
        }
    }

    fn refuse_of_port(&mut self, at: &At<PortTable>, port: &Port, is_given: bool) {
        let table = &at.value;
        if port.faults.is_some() {
            let help = "leave `faults` out";
            self.unmodelled(place(&table.common.faults, &at.span), "faults of ports", help);
        }
        match &port.backend {
            Backend::Generator(generator) if !is_given => self.refuse_of_generator(at, port, generator),
            Backend::Generator(_) | Backend::Null => {}
            _ if port.backend.gives() && !is_given => {
                let message = format!("the simulator does not know what comes by the port `{}`", port.name);
                self.report.add(Code::NotModelled, &at.span, message).help(traffic_for(port));
            }
            _ => {
                let message = format!(
                    "the port `{}` costs the worker as little as a generator does in the model",
                    port.name
                );
                let help = "give `worker_enter_ps` and `worker_leave_ps` of [sim.costs] what it costs here";
                self.report.add(Code::ModelledIdeal, &at.span, message).help(help);
            }
        }
    }

    fn refuse_of_generator(&mut self, at: &At<PortTable>, port: &Port, generator: &Generator) {
        let is_silent = matches!(generator.load, Load::Even { rate: Rate::PacketsPerSecond(0), .. });
        let lacking = [
            (matches!(generator.load, Load::Even { rate: Rate::Max, .. }), "generators without a `rate`"),
            (generator.steps.iter().any(|step| step.rate == Rate::Max), "rates as high as they can be"),
            (is_silent && !generator.steps.is_empty(), "generators that begin with silence"),
        ];
        for (_, what) in lacking.into_iter().filter(|(asked, _)| *asked) {
            self.unmodelled(&at.span, what, &traffic_for(port));
        }
    }

    /// The chain of a port's packets must be known without looking into them.
    fn refuse_chain_of(&mut self, port: PortId, at: &At<PortTable>, config: &Config, is_given: bool) {
        let mut of_port = config.rules.iter().filter(|rule| rule.port.is_none_or(|one| one == port));
        if is_given || of_port.next().is_none_or(rules::takes_all) {
            return;
        }
        let what = format!(
            "the conditions of rules, by which packets of `{}` take different chains",
            config.ports[port.index()].name
        );
        self.unmodelled(
            &at.span,
            &what,
            "add `[[sim.traffic]]` with `port`, `chain` and `rate` for each of them",
        );
    }

    fn warn_of_buffers(&mut self, document: &Document, config: &Config) {
        let [domain] = config.domains.as_slice() else { return };
        let of_nfs: u64 = config.nfs.iter().map(|nf| u64::from(nf.ring + config.scheduler.pending)).sum();
        let needed = of_nfs + config.ports.len() as u64 * PORT_RING;
        if needed <= u64::from(domain.buffers) {
            return;
        }
        let message = format!(
            "{} buffers may run out: full rings hold {needed}; the model has as many as it takes",
            domain.buffers
        );
        let help = "give `buffers` of [memory] as many, or smaller rings, where that must not be";
        match document.memory.value().and_then(|table| table.buffers.key.as_ref()) {
            Some(span) => self.report.add(Code::ModelledIdeal, span, message).help(help),
            None => self.report.add_about_file(Code::ModelledIdeal, message).help(help),
        };
    }
}

fn traffic_for(port: &Port) -> String {
    format!(
        "add `[[sim.traffic]]` with `port = \"{}\"` and a `rate`: it takes the place of its own",
        port.name
    )
}
