//! TCP beside UDP that goes on to a slow NF (figure 5.12).
//!
//! On few cores the UDP packets also take CPU time that the hosts and their iperf3 would have. What that
//! takes is told apart by a case in which they go to the slow NF alone, past the NFs of TCP: what TCP reaches
//! beside them there, with the kernel sharing the core evenly, is its fair part.
//!
//! Two hosts, network namespaces, speak TCP by iperf3 through the first two NFs, which both directions
//! share. Both iperf3 run on the core of the manager's worker: where the kernel moves them about, what TCP
//! reaches alone varies twofold from one transfer to the next. The UDP flows are made by the manager's
//! generator: iperf3 could not offer more than packet sockets let through, and on few cores it would take the
//! NFs' core to make them.

use std::cell::OnceCell;
use std::fmt;
use std::fmt::Write as _;

use headgate_api::status::Snapshot;

use crate::lab::bed::{self, TestBed, Work};
use crate::lab::experiment::{Curve, Method};
use crate::lab::measure::Value;
use crate::lab::model::Model;
use crate::lab::runner::Runner;
use crate::tcp::beds::TestBed as Network;
use crate::tcp::transfer::{self, Times, TransferError};
use headgate_api::session::Session;
use headgate_decide::units::Span;
use headgate_sim::{self as sim, Resolution, World};

/// NFs that TCP passes.
const SHARED_NFS: usize = 2;
/// The model's sender: frames of a full Ethernet, what of them is payload (headers of 14, 20 and 32 bytes,
/// check sequence 4), and a window of 6 MiB, the most that Linux lets one grow to by itself (`tcp_rmem`).
const TCP_BYTES: u32 = 1_518;
const TCP_PAYLOAD_BITS: f64 = 1_448.0 * 8.0;
const TCP_WINDOW: u32 = 4_344;
/// Round trip outside of the chain. Our choice: two hosts of one rack.
const TCP_RTT: Span = Span::from_micros(100);
/// The default of `ecn_watermark`.
const ECN_WATERMARK: u32 = 40;

/// The bed with ports to both hosts and a chain each way.
#[must_use]
pub fn with_hosts(bed: &TestBed, network: &Network) -> TestBed {
    let mut text = String::new();
    for (name, host) in [("left", &network.client), ("right", &network.server)] {
        let _ = write!(text, "\n[[port]]\nname = \"{name}\"\ninterface = \"{}\"\n", host.port);
    }
    let stages: Vec<_> = (1..=SHARED_NFS).map(|nf| format!("\"nf{nf}\"")).collect();
    let stages = stages.join(", ");
    for (chain, from, to) in [("there", "left", "right"), ("back", "right", "left")] {
        let _ = write!(
            text,
            "\n[[chain]]\nname = \"{chain}\"\nstages = [{stages}]\nout = \"{to}\"\n\
             \n[[rule]]\nin = \"{from}\"\nchain = \"{chain}\"\n"
        );
    }
    TestBed { more: text, ..bed.clone() }
}

/// Load by a TCP transfer through the first two NFs between two hosts. The hosts are there for as long as
/// this.
#[derive(Default)]
pub struct Transfer {
    network: OnceCell<Network>,
}

impl fmt::Debug for Transfer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Transfer")
    }
}

impl Transfer {
    fn network(&self) -> anyhow::Result<&Network> {
        if let Some(network) = self.network.get() {
            return Ok(network);
        }
        let made = Network::ports(true)?;
        Ok(self.network.get_or_init(|| made))
    }
}

impl Method for Transfer {
    fn check(&self) -> anyhow::Result<()> {
        transfer::find_program()?;
        Ok(())
    }

    /// A manager where the cables of the hosts end.
    fn start(&self, runner: &Runner, name: &str, bed: &TestBed) -> anyhow::Result<Session> {
        let network = self.network()?;
        let text = with_hosts(bed, network).to_toml(&runner.cores);
        Ok(network.between[0].run(|| runner.launcher.start(name, &text))??)
    }

    fn measure(
        &self,
        runner: &Runner,
        session: &Session,
        bed: &TestBed,
    ) -> anyhow::Result<(Vec<Value>, Option<Curve>)> {
        let window_s = if runner.pace.quick { 1 } else { 4 };
        let times = Times { warm_up_s: 1, window_s, core: runner.cores.first().copied() };
        Ok((measure(session, self.network()?, bed, times, runner.cycles_per_second)?, None))
    }

    /// The sender of the model is one of TCP with SACK; its acknowledgements take no way and cost nothing.
    fn simulate(&self, model: &Model, bed: &TestBed) -> Result<(Vec<Value>, Option<Curve>), String> {
        let mut scene = model.scene(bed)?;
        let udp = scene.chains.len();
        let (name, stages) = ("tcp".to_owned(), (0..SHARED_NFS as u16).collect());
        scene.chains.push(sim::Chain { name, stages, exit: None, floor: None, bound: None, from: 0 });
        let rate = bed::line_rate(TCP_BYTES) as u64;
        scene.flows.push(sim::Flow {
            chain: udp as u16,
            worker: 0,
            bytes: TCP_BYTES,
            arrivals: sim::Arrivals::Tcp { rate, rtt: TCP_RTT, window: TCP_WINDOW, ecn: true },
            flows: 1,
            silent: false,
        });
        scene.scheduler.ecn_mark = ECN_WATERMARK;
        scene.horizon = Span::from_secs(4);
        let report = World::new(scene, Resolution::default()).run();
        let tcp = &report.chains[udp];
        let lost = tcp.throttled.per_second() + tcp.stage_full.per_second() + tcp.missed.per_second();
        let mut all = vec![
            Value::new("", "Gbit/s", tcp.left.per_second() * TCP_PAYLOAD_BITS),
            Value::new("resent", "segs", lost * 4.0),
        ];
        if udp > 0 {
            let sum = |of: fn(&sim::ChainReport) -> f64| report.chains[..udp].iter().map(of).sum::<f64>();
            let left = sum(|chain| chain.left.per_second());
            all.push(Value::new("udp", "Mpps", left));
            all.push(Value::new("udp_wasted", "Mpps", sum(|chain| chain.wasted.per_second())));
            if let (Some(Work::Cycles(cycles)), Some(slow)) =
                (bed.nfs.get(SHARED_NFS), report.nfs.get(SHARED_NFS))
            {
                let most = slow.cpu_percent / 100.0 * model.cycles_per_second() / f64::from(*cycles);
                all.push(Value::new("udp_over_bottleneck", "", left / most));
            }
        }
        Ok((all, None))
    }
}

/// Measures one transfer.
fn measure(
    session: &Session,
    network: &Network,
    bed: &TestBed,
    times: Times,
    cycles_per_second: f64,
) -> anyhow::Result<Vec<Value>> {
    let transfer = match transfer::run(network, times, Some(session)) {
        // Beside UDP that no connection comes through is a result.
        Err(error) if !bed.chains.is_empty() && error.is::<TransferError>() => {
            eprintln!("headgate: {error:#}; counted as no goodput");
            return Ok(vec![Value::new("", "Gbit/s", 0.0)]);
        }
        transfer => transfer?,
    };
    let mut all =
        vec![Value::new("", "Gbit/s", transfer.goodput), Value::new("resent", "segs", transfer.resent)];
    let (Some(before), Some(after)) = (&transfer.before.snapshot, &transfer.after.snapshot) else {
        return Ok(all);
    };
    if !bed.chains.is_empty() {
        let seconds = after.at_ns.saturating_sub(before.at_ns).max(1) as f64 / 1e9;
        let grown = |of: fn(&Snapshot) -> u64| of(after).saturating_sub(of(before)) as f64;
        let udp = grown(udp_left);
        all.push(Value::new("udp", "Mpps", udp / seconds));
        all.push(Value::new("udp_wasted", "Mpps", grown(wasted) / seconds));
        let slow_ns = grown(|snapshot| snapshot.nfs.get(SHARED_NFS).map_or(0, |nf| nf.cpu_ns));
        if let Some(Work::Cycles(cycles)) = bed.nfs.get(SHARED_NFS)
            && slow_ns > 0.0
        {
            let most = slow_ns / 1e9 * cycles_per_second / f64::from(*cycles);
            all.push(Value::new("udp_over_bottleneck", "", udp / most));
        }
    }
    Ok(all)
}

/// Chains of UDP end at the null port, those of TCP at a host.
fn udp_left(snapshot: &Snapshot) -> u64 {
    snapshot.chains.iter().filter(|chain| chain.out == "sink").map(|chain| chain.left).sum()
}

fn wasted(snapshot: &Snapshot) -> u64 {
    snapshot.chains.iter().map(|chain| chain.wasted).sum()
}
