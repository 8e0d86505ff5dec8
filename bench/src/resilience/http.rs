//! Downloads by HTTP through the nodes, while what works for them dies, and without.
//!
//! - `http`: requests one after another, and one long download, while an NF or the whole active node is
//!   killed, beside the same undisturbed;
//! - `web`: requests through a group beside the same nodes without one;
//! - [`server`], [`client`]: both ends, over the kernel's TCP in namespaces of their own.
//!
//! Source: the dissertation, table 14.2 and figure 14.6 (626 of 652 requests); table 15.2.

mod client;
mod server;

use std::thread;
use std::time::Duration;

use anyhow::Context as _;
use headgate_api::status::{NfState, NfStatus};
use rustix::process::Signal;

use super::bench::{Bench, Outcome, insert_quantiles, progress, ratio, row};
use super::chain::{Death, are_ready, kill};
use super::nodes::{Nodes, Pair, Plan, Traffic};
use crate::report::Section;
use crate::statistics::Round;
use client::{Client, Done};
use server::Server;

/// Bytes of a request's answer. Our choice: some dozen packets, a small page.
const PAGE: u64 = 64 << 10;
/// Part of a window, or of a download, after which something is killed.
const KILLED_AFTER: u32 = 3;
const NS_PER_MS: f64 = 1e6;

/// What is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Victim {
    Nobody,
    /// The first NF of the active node.
    Nf,
    /// The active node.
    Node,
}

/// Nodes, and both ends of what passes them.
struct Bed {
    nodes: Nodes,
    client: Client,
    /// Ends with the bed.
    _server: Server,
    /// The active node, and the other one.
    active: [&'static str; 2],
}

impl Bed {
    fn start(plan: &Plan) -> anyhow::Result<Self> {
        let nodes = Nodes::start(plan)?;
        let hosts = nodes.hosts()?;
        let server = Server::start(&hosts.left)?;
        let client = Client::of(&hosts.right, &hosts.left)?;
        let bed = Self { nodes, client, _server: server, active: ["left", "right"] };
        // Neighbours are found out, and paths are warm.
        bed.client.download(PAGE)?;
        Ok(bed)
    }

    /// Works while something is killed in the midst of it. Afterwards all is as it was.
    fn disturbed<T: Send>(
        &mut self,
        victim: Victim,
        after: Duration,
        work: impl FnOnce(&Client) -> T + Send,
    ) -> anyhow::Result<T> {
        let (client, nodes, [active, _]) = (&self.client, &mut self.nodes, self.active);
        let (done, killed) = thread::scope(|scope| {
            let working = scope.spawn(move || work(client));
            thread::sleep(after);
            let killed = strike(nodes, active, victim);
            (working.join(), killed)
        });
        killed?;
        if victim == Victim::Node {
            self.nodes.up(active)?;
            let Pair { active, standby, .. } = self.nodes.await_protected()?;
            self.active = [active, standby];
        }
        done.map_err(|_| anyhow::anyhow!("a client panicked"))
    }
}

fn strike(nodes: &mut Nodes, active: &'static str, victim: Victim) -> anyhow::Result<()> {
    match victim {
        Victim::Nobody => Ok(()),
        Victim::Nf => {
            let is_ready = |nf: &NfStatus| nf.state == NfState::Running && nf.spare == "ready";
            let now = nodes.sample(active)?;
            let nf = now.nfs.iter().find(|nf| is_ready(nf)).context("no NF has a standby that is ready")?;
            kill(nf, Death::By(Signal::KILL))
        }
        Victim::Node => nodes.kill(active).map(drop),
    }
}

pub(crate) fn run(bench: &Bench) -> anyhow::Result<Outcome> {
    let (rounds, conserved) = bench.measure("http", |round| one_round(bench, round))?;
    let rows = [
        row(&rounds, "http.unfailed", "1/s", "requests of 64 KiB, one after another, through the group"),
        row(&rounds, "http.nf_killed", "1/s", "an NF with a local standby is killed meanwhile"),
        row(&rounds, "http.node_killed", "1/s", "the active node is killed meanwhile"),
        row(&rounds, "http.failed", "", "requests that failed; aim: none"),
        row(&rounds, "http.differing", "", "answers that were not what was asked for; aim: none"),
        row(&rounds, "http.longest_ms", "ms", "longest request, the active node killed"),
        row(&rounds, "http.download", "ms", "one long download, undisturbed"),
        row(&rounds, "http.download_killed", "ms", "the same, the active node killed meanwhile"),
    ];
    let ratios = [
        ratio(
            &rounds,
            "requests_over_unfailed_local",
            ["http.nf_killed", "http.unfailed"],
            "at least 0.96; REINFORCE 626 of 652",
        ),
        ratio(&rounds, "requests_over_unfailed", ["http.node_killed", "http.unfailed"], "at least 0.94"),
        ratio(&rounds, "download_killed_over_undisturbed", ["http.download_killed", "http.download"], ""),
    ];
    let section = Section { title: "http", note: "", rows: rows.into_iter().flatten().collect() };
    let ratios = ratios.into_iter().flatten().collect();
    Ok(Outcome { section, rounds, ratios, conserved, notes: Vec::new() })
}

/// Returns whether every answer came, and was what was asked for.
fn one_round(bench: &Bench, round: &mut Round) -> anyhow::Result<bool> {
    let mut bed = Bed::start(&Plan { has_spares: true, ..Plan::new(bench.placement, Traffic::Hosts) })?;
    let window = Duration::from_secs(if bench.quick { 4 } else { 15 });
    let (mut failed, mut differing) = (0, 0);
    for (name, victim) in [
        ("http.unfailed", Victim::Nobody),
        ("http.nf_killed", Victim::Nf),
        ("http.node_killed", Victim::Node),
    ] {
        await_spares(&bed)?;
        let done = bed.disturbed(victim, window / KILLED_AFTER, |client| client.requests(PAGE, window))?;
        round.insert(name, done.times_ns.len() as f64 / window.as_secs_f64());
        (failed, differing) = (failed + done.failed, differing + done.differing);
        if victim == Victim::Node {
            let longest = done.times_ns.iter().max().copied().unwrap_or(0);
            round.insert("http.longest_ms", longest as f64 / NS_PER_MS);
        }
    }
    let (undisturbed, killed) = downloads(bench, &mut bed)?;
    round.insert("http.download", undisturbed.as_secs_f64() * 1e3);
    round.insert("http.download_killed", killed.as_secs_f64() * 1e3);
    round.insert("http.failed", f64::from(failed));
    round.insert("http.differing", f64::from(differing));
    let (_, conserved) = bed.nodes.stop()?;
    Ok(conserved && failed + differing == 0)
}

/// Returns the time of a download undisturbed, and of the same while the active node is killed.
fn downloads(bench: &Bench, bed: &mut Bed) -> anyhow::Result<(Duration, Duration)> {
    let bytes: u64 = if bench.quick { 16 << 20 } else { 128 << 20 };
    let undisturbed = bed.client.download(bytes)?;
    let after = undisturbed / KILLED_AFTER;
    let killed = bed.disturbed(Victim::Node, after, |client| client.download(bytes))??;
    Ok((undisturbed, killed))
}

fn await_spares(bed: &Bed) -> anyhow::Result<()> {
    bed.nodes.await_at(bed.active[0], "standbys of NFs are ready", are_ready).map(drop)
}

pub(crate) fn web(bench: &Bench) -> anyhow::Result<Outcome> {
    let (rounds, conserved) = bench.measure("web", |round| one_round_of_web(bench, round))?;
    let value = |name, unit, note| row(&rounds, name, unit, note);
    let rows = [
        value("web.base_rate", "1/s", "requests of 64 KiB, one after another, no group"),
        value("web.rate", "1/s", "a group"),
        value("web.base_p50", "ms", "time of a request, no group"),
        value("web.base_p90", "ms", ""),
        value("web.base_p99", "ms", ""),
        value("web.p50", "ms", "a group"),
        value("web.p90", "ms", ""),
        value("web.p99", "ms", ""),
    ];
    let over = |name: &'static str, pair, aim| ratio(&rounds, name, pair, aim);
    let ratios = [
        over("web_rate_over_base", ["web.rate", "web.base_rate"], "at least 0.952, REARM's"),
        over("web_p50_over_base", ["web.p50", "web.base_p50"], "at most 1.05, REARM's"),
        over("web_p90_over_base", ["web.p90", "web.base_p90"], "at most 1.05"),
        over("web_p99_over_base", ["web.p99", "web.base_p99"], "at most 1.05"),
    ];
    let section = Section { title: "web", note: "", rows: rows.into_iter().flatten().collect() };
    let ratios = ratios.into_iter().flatten().collect();
    Ok(Outcome { section, rounds, ratios, conserved, notes: Vec::new() })
}

fn one_round_of_web(bench: &Bench, round: &mut Round) -> anyhow::Result<bool> {
    let window = Duration::from_secs(if bench.quick { 3 } else { 15 });
    let mut conserved = true;
    for (is_protected, [rate, p50, p90, p99]) in [
        (false, ["web.base_rate", "web.base_p50", "web.base_p90", "web.base_p99"]),
        (true, ["web.rate", "web.p50", "web.p90", "web.p99"]),
    ] {
        let mut bed = Bed::start(&Plan { is_protected, ..Plan::new(bench.placement, Traffic::Hosts) })?;
        let Done { mut times_ns, failed, differing } = bed.client.requests(PAGE, window);
        round.insert(rate, times_ns.len() as f64 / window.as_secs_f64());
        if let Some(ns) = crate::statistics::quantile(&mut times_ns, 0.9) {
            round.insert(p90, ns as f64 / NS_PER_MS);
        }
        insert_quantiles(round, [p50, p99], times_ns, NS_PER_MS);
        if failed + differing > 0 {
            progress(&format!("web: {failed} requests failed, {differing} answers differ"));
        }
        conserved &= bed.nodes.stop()?.1 && failed + differing == 0;
    }
    Ok(conserved)
}
