//! Memory that packets lie in: the domain that a port receives into where the file leaves it open, and
//! warnings of packets that pass memory of NFs which their chain does not visit.
//!
//! A domain protects packets only from the port on: what is received elsewhere lies there until it was
//! copied.

use super::super::codes::Code;
use super::super::document::Document;
use super::super::model::{Chain, ChainId, Config, DomainId, Nf, Out, Port, PortId, Rule};
use super::super::rules;
use super::{Resolver, items};

/// Names in one message. Our choice: as many as are read; the others are counted.
const NAMES_MAX: usize = 4;

/// Chains that a port's rules lead to.
fn chains_of<'a>(port: PortId, all: impl Iterator<Item = &'a Rule>) -> impl Iterator<Item = &'a Rule> {
    all.filter(move |rule| rule.port.is_none_or(|id| id == port))
}

/// A port through whose memory packets of some chains pass.
struct Passing<'a> {
    /// What it does with these packets, and the preposition of the place: "receives", "into".
    does: (&'static str, &'static str),
    chains: Vec<&'a Chain>,
}

impl Resolver<'_> {
    /// Lets every port whose domain the file leaves open receive into that of its chains' first NFs, where
    /// all of its packets go to one. What no rule takes would lie there too, so some rule has to take
    /// whatever comes.
    pub(super) fn follow_rules(
        ports: &mut [Option<Port>],
        rules: &[Option<Rule>],
        chains: &[Option<Chain>],
        nfs: &[Option<Nf>],
    ) {
        let first = |chain: ChainId| {
            let stages = &chains.get(chain.index())?.as_ref()?.stages;
            Some(nfs.get(stages.first()?.index())?.as_ref()?.domain)
        };
        for (index, port) in ports.iter_mut().enumerate() {
            let Some(port) = port.as_mut().filter(|port| port.domain_is_open && port.backend.gives()) else {
                continue;
            };
            let id = PortId(index as u16);
            let all = || chains_of(id, rules.iter().flatten());
            let domain = all().next().and_then(|rule| first(rule.chain));
            if all().any(rules::takes_all) && all().all(|rule| first(rule.chain) == domain) {
                port.domain = domain.unwrap_or(port.domain);
            }
        }
    }

    /// Warns of packets that lie in memory of NFs which their chain does not visit.
    pub(super) fn warn_of_shared_memory(&mut self, document: &Document, config: &Config) {
        for (index, table) in items(&document.port).iter().enumerate() {
            let (id, port) = (PortId(index as u16), &config.ports[index]);
            let here = config.nfs.iter().filter(|nf| nf.domain == port.domain);
            let here: Vec<&str> = here.map(|nf| nf.name.as_str()).collect();
            let common = &table.value.common;
            let span = common.domain.key.as_ref().unwrap_or(&common.span);
            for Passing { does: (does, place), chains } in
                passing(config, id, port).into_iter().filter(|_| !here.is_empty())
            {
                let Some(first) = chains.first() else { continue };
                let domain = &config.domains[port.domain.index()].name;
                let names: Vec<&str> = chains.iter().map(|chain| chain.name.as_str()).collect();
                let message = format!(
                    "port `{}` {does} packets of {} {place} the memory of domain `{domain}`, where {} can read and \
                     change them without being visited",
                    port.name,
                    listed("chain", &names),
                    listed("NF", &here)
                );
                let at = config.chains.iter().position(|one| one.name == first.name);
                let help = cure(config, &chains);
                let finding = self.report.add(Code::MemoryShared, span, message);
                finding.help(help);
                if let Some(table) = at.and_then(|at| items(&document.chain).get(at)) {
                    finding.beside(table.span.clone(), "this chain");
                }
            }
        }
    }
}

/// Chains whose packets lie in a port's domain, which none of their NFs is in.
fn passing<'a>(config: &'a Config, id: PortId, port: &Port) -> Vec<Passing<'a>> {
    let visits = |chain: &Chain| chain.stages.iter().any(|nf| config.nfs[nf.index()].domain == port.domain);
    let ways = config.ways();
    let mut entering: Vec<usize> = chains_of(id, ways.iter()).map(|rule| rule.chain.index()).collect();
    entering.sort_unstable();
    entering.dedup();
    let entering = entering.into_iter().map(|chain| &config.chains[chain]).filter(|chain| !visits(chain));
    let leaving = config.chains.iter().filter(|chain| chain.out == Out::Port(id) && !visits(chain));
    let mut all = Vec::new();
    if port.backend.gives() {
        all.push(Passing { does: ("receives", "into"), chains: entering.collect() });
    }
    // Other ports send packets from where they are.
    if port.is_bound() {
        all.push(Passing { does: ("sends", "from"), chains: leaving.collect() });
    }
    all
}

fn cure(config: &Config, chains: &[&Chain]) -> String {
    let first = |chain: &&Chain| Some(config.nfs[chain.stages.first()?.index()].domain);
    let domain: Option<DomainId> = chains.first().and_then(first);
    match domain.filter(|_| chains.iter().all(|chain| first(chain) == domain)) {
        Some(domain) => format!(
            "set `domain = \"{}\"` at the port, or that of a domain without NFs, from which packets are copied",
            config.domains[domain.index()].name
        ),
        None => "give the port a domain without NFs, from which packets are copied: a [[domain]] with \
                 `name = \"ports\"`, and `domain = \"ports\"` at the port"
            .to_owned(),
    }
}

/// `chain `a``, `chains `a`, `b` and 3 more`.
fn listed(what: &str, names: &[&str]) -> String {
    let plural = if names.len() == 1 { "" } else { "s" };
    let shown: Vec<String> = names.iter().take(NAMES_MAX).map(|name| format!("`{name}`")).collect();
    let more = names.len().saturating_sub(NAMES_MAX);
    let more = if more == 0 { String::new() } else { format!(" and {more} more") };
    format!("{what}{plural} {}{more}", shown.join(", "))
}
