//! What a dry run goes by: packets that enter, and the time that they take.

use std::collections::BTreeMap;

use headgate_api::status::ClusterStatus;
use headgate_api::{self as api, Request};
use headgate_cluster::forecast;
use headgate_cluster::forecast::Demand;
use headgate_config::model::Across;
use headgate_config::{self as config, Config};

use crate::error::{CommandError, Exit};
use crate::output::Output;

/// Arguments of a dry run.
#[derive(Debug, clap::Args)]
pub struct Given {
    /// Packets per second that enter a chain, at one of its nodes or at each, like out=200k or out@a=1.2M;
    /// else what the manager of --name measures
    #[arg(long, value_name = "CHAIN[@NODE]=RATE", value_parser = of_demand, requires = "dry_run")]
    demand: Vec<(String, Option<String>, f64)>,
    /// Time that a packet takes at an NF, like fw=2us; else what the manager of --name measures
    #[arg(long, value_name = "NF=TIME", value_parser = of_service_time, requires = "dry_run")]
    service_time: Vec<(String, f64)>,
    /// Manager of a node that is asked for what it measures, and who serves
    #[arg(long, value_name = "MANAGER", requires = "dry_run")]
    name: Option<String>,
}

fn of_demand(text: &str) -> Result<(String, Option<String>, f64), String> {
    let (chain, rate) = text.split_once('=').ok_or("write it like out=200k, or out@a=200k")?;
    let (chain, node) = chain.split_once('@').map_or((chain, None), |(chain, node)| (chain, Some(node)));
    let rate = config::packets_per_second(rate)?;
    Ok((chain.to_owned(), node.map(str::to_owned), rate as f64))
}

fn of_service_time(text: &str) -> Result<(String, f64), String> {
    let (nf, time) = text.split_once('=').ok_or("write it like fw=2us")?;
    Ok((nf.to_owned(), config::nanoseconds(time)? as f64))
}

impl Given {
    /// Returns all that a forecast of these nodes takes.
    pub fn read(&self, parts: &[Config], out: &Output) -> Result<forecast::Given, CommandError> {
        let chains = parts.first().map(|config| config.chains.as_slice()).unwrap_or_default();
        let chains: Vec<(&str, &Across)> =
            chains.iter().filter_map(|chain| Some((chain.name.as_str(), chain.across.as_ref()?))).collect();
        self.refuse_unknown(&chains)?;
        let measured = self.name.as_deref().map(ask).transpose()?;
        let demand = self.demands(&chains, measured.as_ref())?;
        let service_ns = self.service_times(&chains, &demand, measured.as_ref(), out)?;
        let claims = measured.as_ref().and_then(|status| status.store.as_ref()).map(|store| &store.claims);
        let serve = claims.into_iter().flatten().filter(|claim| claim.state != "leaving");
        let serving = serve.map(|claim| (claim.nf.clone(), claim.node.clone())).collect();
        Ok(forecast::Given { demand, service_ns, serving })
    }

    /// Refuses names that the file does not have.
    fn refuse_unknown(&self, chains: &[(&str, &Across)]) -> Result<(), CommandError> {
        let mut wrong = Vec::new();
        for (name, node, _) in &self.demand {
            match chains.iter().find(|(chain, _)| chain == name) {
                None => wrong.push(format!("--demand: the file has no chain `{name}` over several nodes")),
                Some((_, across)) => {
                    let node = node.as_ref().filter(|node| !across.entries.contains(node));
                    wrong.extend(
                        node.map(|node| format!("--demand: no packets enter chain `{name}` at `{node}`")),
                    );
                }
            }
        }
        let stages = || chains.iter().flat_map(|(_, across)| &across.stages);
        for (nf, _) in &self.service_time {
            if !stages().any(|stage| stage.nf == *nf) {
                wrong.push(format!("--service-time: no chain over several nodes has an NF `{nf}`"));
            }
        }
        if wrong.is_empty() { Ok(()) } else { Err(CommandError::usage(wrong.join("\n"))) }
    }

    fn demands(
        &self,
        chains: &[(&str, &Across)],
        measured: Option<&ClusterStatus>,
    ) -> Result<Vec<Demand>, CommandError> {
        let (mut all, mut missing) = (Vec::new(), Vec::new());
        for (chain, across) in chains {
            for node in &across.entries {
                let is_meant = |(of, at, _): &&(String, Option<String>, f64)| {
                    of == chain && at.as_ref().is_none_or(|at| at == node)
                };
                // What is said of a node goes before what is said of all.
                let said = self.demand.iter().filter(is_meant).max_by_key(|(_, at, _)| at.is_some());
                let rate = said.map(|(_, _, rate)| *rate).or_else(|| rate_of(chain, node, measured?));
                match rate {
                    Some(rate) => all.push(Demand { chain: (*chain).to_owned(), node: node.clone(), rate }),
                    None => missing.push(format!("chain `{chain}` at node `{node}`")),
                }
            }
        }
        if missing.is_empty() {
            return Ok(all);
        }
        Err(CommandError::usage(format!(
            "it is not known how many packets enter {}: give it, like --demand {}=200k, or with --name the manager of \
             that node, which has measured it",
            missing.join(", "),
            chains.first().map_or("CHAIN", |(name, _)| name)
        )))
    }

    fn service_times(
        &self,
        chains: &[(&str, &Across)],
        demand: &[Demand],
        measured: Option<&ClusterStatus>,
        out: &Output,
    ) -> Result<BTreeMap<String, f64>, CommandError> {
        let (mut all, mut missing) = (BTreeMap::new(), Vec::new());
        for (chain, across) in chains {
            if !demand.iter().any(|one| one.chain == *chain && one.rate > 0.0) {
                continue;
            }
            for stage in &across.stages {
                let said = self.service_time.iter().find(|(nf, _)| *nf == stage.nf).map(|(_, ns)| *ns);
                match said.or_else(|| service_ns_of(&stage.nf, measured?)) {
                    Some(ns) => drop(all.insert(stage.nf.clone(), ns)),
                    None if stage.is_shared() => missing.push(stage.nf.clone()),
                    None => out.note(format_args!(
                        "the time that a packet takes at `{}` is not known: its core is counted as idle",
                        stage.nf
                    )),
                }
            }
        }
        missing.sort();
        missing.dedup();
        if missing.is_empty() {
            return Ok(all);
        }
        Err(CommandError::usage(format!(
            "it is not known how long a packet takes at {}: give it, like --service-time {}=2us, or with --name the \
             manager of a node that hears from one where it runs",
            missing.join(", "),
            missing[0]
        )))
    }
}

fn ask(name: &str) -> Result<ClusterStatus, CommandError> {
    let status: Option<ClusterStatus> = api::call(name, &Request::Cluster)?;
    status.ok_or_else(|| {
        CommandError::new(
            Exit::Failed,
            format!("manager {name} shares no NF with other nodes: it measures nothing"),
        )
    })
}

/// Returns the packets that a node has steered at the first stage that several serve.
fn rate_of(chain: &str, node: &str, measured: &ClusterStatus) -> Option<f64> {
    let of_chain = measured.stages.iter().filter(|stage| stage.chain == chain && measured.node == node);
    of_chain.min_by_key(|stage| stage.position).map(|stage| stage.steered_rate)
}

/// Returns the longest time that a packet takes at an NF at any node.
fn service_ns_of(nf: &str, measured: &ClusterStatus) -> Option<f64> {
    let offers = measured.nodes.iter().flat_map(|node| &node.nfs).filter(|offer| offer.nf == nf);
    offers.filter_map(|offer| offer.service_time_ns).max().map(|ns| ns as f64)
}
