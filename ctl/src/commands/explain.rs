//! `headgate explain`: what would become of a packet, and why.

use std::path::Path;

use headgate_api::explanation::{EndExplanation, Explanation, RuleExplanation, StageExplanation};
use headgate_api::{self as api, Request};
use headgate_config::model::{Across, Chain, Config, Nf, Out, StageAt};
use headgate_config::{PacketDescription, plan};

use super::Name;
use crate::error::{CommandError, Exit};
use crate::output::Output;
use crate::view;

/// Explain what would become of a packet now: rule, chain, instances, and what would end it
///
/// Nothing is sent, and no flow is learnt. The packet is described as
/// `tcp 10.0.0.1:1234 > 10.0.1.1:80 vlan 7 in west`: protocol, source, destination, and where needed the
/// outer VLAN tag and the port that it comes by. Protocols without ports have addresses alone, other frames
/// their EtherType: `icmp 10.0.0.1 > 10.0.0.2`, `arp in west`.
///
/// `headgate check FILE --packet PACKET` explains by a configuration alone.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Packet, as one argument or as several
    #[arg(required = true, num_args = 1.., value_name = "PACKET")]
    packet: Vec<String>,
    #[command(flatten)]
    name: Name,
}

/// Runs it.
pub fn run(args: &Args, out: &Output) -> Result<Exit, CommandError> {
    // What cannot be read is told without a manager.
    let packet = read(&args.packet.join(" "))?;
    let told: Explanation = api::call(&args.name.name, &Request::Explain { packet: packet.to_string() })?;
    show(&told, out)
}

/// Reads a description.
pub fn read(text: &str) -> Result<PacketDescription, CommandError> {
    PacketDescription::parse(text)
        .map_err(|error| CommandError::usage(format!("`{text}` describes no packet: {error}")))
}

/// Prints an explanation.
pub fn show(told: &Explanation, out: &Output) -> Result<Exit, CommandError> {
    out.document(told)?;
    out.text(view::explanation(told, out.data_paint))?;
    Ok(Exit::Ok)
}

/// Explains by a configuration alone what would become of a packet: everything runs, and no flow is known.
///
/// # Errors
/// A packet of which the file does not tell by which port it comes.
pub fn by_file(file: &Path, config: &Config, packet: PacketDescription) -> Result<Explanation, CommandError> {
    let ingress =
        packet.ingress(config).map_err(|why| CommandError::usage(format!("{}: {why}", file.display())))?;
    let port = Some(config.ports[usize::from(ingress.0)].name.clone());
    let packet = PacketDescription { port, ..packet };
    let mut told = Explanation { packet: packet.to_string(), ..Explanation::default() };
    let Some(place) = packet.first_match(config, ingress) else {
        told.end = Some(EndExplanation {
            reason: "no-rule".to_owned(),
            sentence: "no rule sends it to a chain".to_owned(),
        });
        return Ok(told);
    };
    let rule = &config.rules[place];
    let chain = &config.chains[rule.chain.index()];
    told.rule = Some(RuleExplanation {
        place: place + 1,
        matches: plan::matches(config, rule),
        chain: chain.name.clone(),
    });
    told.chain = Some(chain.name.clone());
    told.stages = stages_of(config, chain);
    told.out = Some(match chain.out {
        Out::Port(port) => config.ports[port.index()].name.clone(),
        Out::Nf => "nf".to_owned(),
        Out::Node => chain.across.as_ref().map_or_else(String::new, Across::exit_name),
        Out::Interface => unreachable!("no rule leads to a chain on interfaces"),
    });
    Ok(told)
}

/// Returns the stages of a chain; of those that other nodes run there are the names alone.
fn stages_of(config: &Config, chain: &Chain) -> Vec<StageExplanation> {
    let here = |nf: &Nf| StageExplanation {
        nf: nf.name.clone(),
        runs: plan::runs(nf),
        instances: nf.cores.len(),
        ..StageExplanation::default()
    };
    let Some((across, node)) = chain.across.as_ref().zip(config.node.as_ref()) else {
        return chain.stages.iter().map(|nf| here(&config.nfs[nf.index()])).collect();
    };
    let stage = |at: &StageAt| {
        let nf = config.nfs.iter().find(|nf| at.is_at(&node.name) && nf.name == at.nf);
        let there = || StageExplanation { nf: at.name_at(&node.name), ..StageExplanation::default() };
        nf.map_or_else(there, here)
    };
    across.stages.iter().map(stage).collect()
}
