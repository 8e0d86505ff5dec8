//! Tables of the status, one function for each.

use std::collections::BTreeSet;

use headgate_api::status::{
    DelayStatus, Event, ExternalStatus, FlowStatus, IoStatus, NfState, NfStatus, PortStatus, RefusedArgument,
    ServiceStatus, Snapshot, UNCLAIMED,
};
use headgate_units::text::{self as units, harmless};

use super::Interval;
use super::interval::{NfRates, lost};
use crate::output::{Ink, Paint};
use crate::table::Table;

/// An empty cell for zero: what never happens should not draw the eye.
fn if_any(count: u64) -> String {
    if count == 0 { String::new() } else { units::whole(count) }
}

fn rate(per_second: f64) -> String {
    if per_second == 0.0 { "0".into() } else { units::packet_rate(per_second) }
}

fn rate_if_any(per_second: f64) -> String {
    if per_second == 0.0 { String::new() } else { units::packet_rate(per_second) }
}

/// The manager, its age and its CPU time: one line.
pub fn headline(interval: Interval<'_>, paint: Paint) -> String {
    let manager = &interval.after.manager;
    let ended = if interval.after.finished { ", finished: no more packets will come" } else { "" };
    let socket = manager.nf_socket.iter().map(|path| format!("NFs attach at {}\n", harmless(path)));
    let socket: String = socket.collect();
    let scheduler = &interval.after.scheduler;
    let limitations = scheduler.limitations.iter().map(|why| {
        let mode = paint.ink(Ink::Yellow, &format!("scheduler {}", harmless(&scheduler.mode)));
        format!("{mode}: {}\n", harmless(why))
    });
    let limitations: String = limitations.collect();
    let reserved = scheduler.reserved.iter().map(|reserved| {
        let cores: Vec<String> = reserved.cores.iter().map(u32::to_string).collect();
        format!(
            "kept free of other programs: core {}; {} processes moved, {} kernel threads stay\n",
            cores.join(", "),
            units::whole(reserved.moved),
            units::whole(reserved.stuck)
        )
    });
    let reserved: String = reserved.collect();
    let taken =
        scheduler.taken.iter().map(|taken| format!("{}\n", paint.ink(Ink::Yellow, &harmless(&taken.what))));
    let taken: String = taken.collect();
    format!(
        "{} pid {}, version {}, up {}, CPU {}{ended}\n{socket}{reserved}{taken}{limitations}",
        paint.ink(Ink::Bold, &format!("manager {}", harmless(&manager.name))),
        manager.pid,
        harmless(&manager.version),
        units::time(interval.after.at_ns),
        units::percent(interval.manager_cpu()),
    )
}

/// Workers: how busy, how many flows.
pub fn workers(interval: Interval<'_>, paint: Paint) -> String {
    let mut table = Table::new(&["worker", ">core", ">busy", ">flows", ">learnt", ">given up"]);
    for (number, worker) in interval.after.workers.iter().enumerate() {
        table.row([
            number.to_string(),
            worker.core.to_string(),
            units::percent(interval.busy(number)),
            units::whole(worker.flows),
            units::whole(worker.flows_learnt),
            if_any(worker.flows_evicted),
        ]);
    }
    table.render(paint)
}

/// Ports: rates and totals.
pub fn ports(interval: Interval<'_>, paint: Paint) -> String {
    let headings = ["port", "kind", ">in", ">out", ">received", ">sent", ">lost", "why", "detail"];
    let mut table = Table::new(&headings);
    for port in &interval.after.ports {
        let rates = interval.port(port);
        let ink = (lost(port) > 0).then_some(Ink::Yellow);
        table.inked_row([
            (port.name.clone(), None),
            (port.kind.clone(), None),
            (rate(rates.received), None),
            (rate(rates.sent), None),
            (units::whole(port.received), None),
            (units::whole(port.sent), None),
            (if_any(lost(port)), ink),
            (why(port), None),
            (port.detail.clone(), None),
        ]);
    }
    table.render(paint)
}

/// Describes what is wrong with a port: the state of its interface, and packets lost.
fn why(port: &PortStatus) -> String {
    let state = port.state.as_deref().filter(|state| *state != "up");
    let state = state.map(|state| format!("interface {}", harmless(state)));
    let losses = port_losses(port).into_iter().filter(|loss| loss.1 > 0);
    let losses = losses.map(|(word, count, _)| format!("{word} {}", units::whole(count)));
    state.into_iter().chain(losses).collect::<Vec<_>>().join(", ")
}

/// Packets lost before they entered a chain or after they left it: word, count, meaning.
const fn port_losses(port: &PortStatus) -> [(&'static str, u64, &'static str); 4] {
    [
        ("too-long", port.too_long, "the frame is longer than the port's buffers or its interface's mtu"),
        (
            "bad-offload",
            port.bad_offload,
            "a size to cut it by, or a checksum's place, that cannot be its own",
        ),
        ("missed", port.missed, "no buffer was free, or the device's queue was full"),
        ("failed", port.failed, "the device or file failed"),
    ]
}

/// Faults that a port injected as its key `faults` asks for: word, count, meaning.
fn port_faults(port: &PortStatus) -> Vec<(&'static str, u64, &'static str)> {
    let Some(faults) = &port.faults else { return Vec::new() };
    let (received, sent) = (faults.received, faults.sent);
    vec![
        ("fault-lost", received.lost + sent.lost, "lost on purpose, by the port's `faults`"),
        ("fault-duplicated", received.duplicated + sent.duplicated, "duplicated on purpose, not dropped"),
        ("fault-reordered", received.reordered + sent.reordered, "delayed on purpose, not dropped"),
        ("fault-corrupted", received.corrupted + sent.corrupted, "one bit flipped on purpose, not dropped"),
    ]
}

/// Latencies of the ports that measure one.
pub fn latencies(snapshot: &Snapshot, paint: Paint) -> String {
    // Not the least: a packet that comes and goes in one pass of its worker, which reads the clock once, took
    // no time at all.
    let headings = ["latency at", ">packets", ">median", ">90 %", ">99 %", ">99.9 %", ">max"];
    let mut table = Table::new(&headings);
    for port in &snapshot.ports {
        let Some(latency) = &port.latency else { continue };
        let times = [latency.p50_ns, latency.p90_ns, latency.p99_ns, latency.p999_ns, latency.max_ns];
        let first = [port.name.clone(), units::whole(latency.count)];
        table.row(first.into_iter().chain(times.map(units::time)));
    }
    if table.is_empty() { String::new() } else { table.render(paint) }
}

/// Returns the word for a state, and its colour where an operator should act.
pub fn state(nf: &NfStatus) -> (&'static str, Option<Ink>) {
    match nf.state {
        NfState::Running if nf.throttled => ("throttled", Some(Ink::Yellow)),
        NfState::Starting => ("starting", Some(Ink::Yellow)),
        NfState::Running => ("running", None),
        NfState::Stopping => ("stopping", Some(Ink::Yellow)),
        NfState::TakingOver => ("taking over", Some(Ink::Yellow)),
        NfState::Reclaiming => ("reclaiming", Some(Ink::Red)),
        NfState::Waiting => ("waiting", Some(Ink::Red)),
        NfState::Awaited => ("awaited", Some(Ink::Yellow)),
        NfState::Failed => ("failed", Some(Ink::Red)),
        NfState::Gone => ("gone", Some(Ink::Red)),
    }
}

/// NF instances: what each does now.
pub fn nfs(interval: Interval<'_>, paint: Paint) -> String {
    let headings = [
        "nf",
        "runs",
        ">core",
        "state",
        ">in",
        ">out",
        ">queue",
        ">CPU",
        ">share",
        ">service",
        ">failures",
        "drops",
    ];
    let mut table = Table::new(&headings);
    for nf in &interval.after.nfs {
        let rates = interval.nf(nf);
        let (word, ink) = state(nf);
        table.inked_row([
            (nf.instance.clone(), None),
            (nf.runs.clone(), None),
            (nf.core.to_string(), None),
            (word.into(), ink),
            (rate(rates.delivered), None),
            (rate(rates.returned), None),
            (queue(nf), None),
            (units::percent(rates.cpu), None),
            (share(nf), None),
            (work(&rates), nf.service_time_overridden.then_some(Ink::Red)),
            (if_any(nf.failures.into()), Some(Ink::Yellow)),
            (drop_rates(&rates), None),
        ]);
    }
    table.render(paint)
}

/// Arguments that NFs refused, for which they are not started.
pub fn refusals(now: &Snapshot, paint: Paint) -> String {
    let failed = now.nfs.iter().filter(|nf| nf.state == NfState::Failed);
    let refused = failed.flat_map(|nf| nf.refused.iter().map(move |refused| (&nf.instance, refused)));
    let line = |(nf, refused): (&String, &RefusedArgument)| {
        let of = if refused.path.is_empty() { "its arguments" } else { &format!("`{}`", refused.path) };
        let text = harmless(&format!("nf {nf} refuses {of}: {}", refused.message));
        format!("{}\n", paint.ink(Ink::Red, &text))
    };
    let lines: String = refused.map(line).collect();
    if lines.is_empty() {
        return lines;
    }
    lines + "change them and `headgate apply` the file, or replace the program\n"
}

/// Standbys of NFs that have one: whether they are ready, and how often one took over.
pub fn standbys(now: &Snapshot, paint: Paint) -> String {
    let line = |nf: &NfStatus| {
        let took_over = match nf.takeovers {
            0 => String::new(),
            1 => ", took over once".to_owned(),
            often => format!(", took over {often} times"),
        };
        let ink = if nf.spare == "ready" { Ink::Green } else { Ink::Yellow };
        let word = paint.ink(ink, &harmless(&nf.spare));
        format!("nf {}: standby {word}{took_over}\n", harmless(&nf.instance))
    };
    now.nfs.iter().filter(|nf| nf.has_standby).map(line).collect()
}

/// NF instances in a terminal of 80 columns: what each does now.
pub fn nfs_brief(interval: Interval<'_>, paint: Paint) -> String {
    let headings = ["nf", "state", ">packets in", ">queue", ">busy", ">waited", ">service", ">dropped"];
    let mut table = Table::new(&headings);
    let part = |part: Option<f64>| part.map_or(String::new(), units::percent);
    for nf in &interval.after.nfs {
        let rates = interval.nf(nf);
        let (word, ink) = state(nf);
        table.inked_row([
            (nf.instance.clone(), None),
            (word.into(), ink),
            (rate(rates.delivered), None),
            (queue(nf), None),
            (part(rates.busy), None),
            (part(rates.waited), None),
            (work(&rates), None),
            (rate_if_any(rates.drops.values().sum()), None),
        ]);
    }
    table.render(paint)
}

/// Part of a core's time from which on it is said that others have it. Our choice: less is what any machine
/// does beside, and an NF that is as good as alone does not feel it.
pub const HELD_BY_OTHERS_MIN: f64 = 0.1;

/// Returns a line for each core that others had while packets of its NFs were shed.
pub fn held_by_others(interval: Interval<'_>) -> String {
    let is_short = |nf: &&NfStatus| nf.throttled || interval.nf(nf).drops.contains_key("throttled");
    let cores: BTreeSet<u32> = interval.after.nfs.iter().filter(is_short).map(|nf| nf.core).collect();
    let held = cores.into_iter().map(|core| (core, interval.held_by_others(core)));
    let line = |(core, part): (u32, f64)| {
        format!(
            "core {core}: others (programs, hypervisor) had it for {} or more: packets are shed\n",
            units::percent(part)
        )
    };
    held.filter(|(_, part)| *part >= HELD_BY_OTHERS_MIN).map(line).collect()
}

/// The part of its core it may have; empty where the kernel shares evenly.
fn share(nf: &NfStatus) -> String {
    nf.share.map_or(String::new(), units::percent)
}

/// Mean time in its handler.
fn work(rates: &NfRates) -> String {
    rates.service_time_ns.map_or(String::new(), |ns| format!("{ns:.0} ns"))
}

fn drop_rates(rates: &NfRates) -> String {
    let drops = rates.drops.iter().map(|(reason, rate)| format!("{reason} {}", units::packet_rate(*rate)));
    drops.collect::<Vec<_>>().join(", ")
}

/// Describes how full its ring is.
fn queue(nf: &NfStatus) -> String {
    queue_of(nf).map_or(String::new(), |(packets, room)| units::percent(packets as f64 / f64::from(room)))
}

/// Returns the packets in its queue and in its hands, and how many there is room for; `None` where that is
/// not seen.
pub fn queue_of(nf: &NfStatus) -> Option<(u64, u32)> {
    let queue = match &nf.external {
        Some(external) => external.waiting.map(u64::from).zip(external.ring),
        None => nf.io.is_none().then_some((nf.held, nf.ring)),
    };
    queue.filter(|(_, room)| *room > 0)
}

/// NF instances, with everything that is known of each.
pub fn nf_details(interval: Interval<'_>, paint: Paint) -> String {
    let mut text = nfs(interval, paint);
    for nf in &interval.after.nfs {
        text += &format!("\n{}\n", paint.ink(Ink::Bold, &harmless(&nf.instance)));
        for (name, value) in details(nf) {
            text += &format!("  {name:<14} {}\n", harmless(&value));
        }
    }
    text
}

fn details(nf: &NfStatus) -> Vec<(&'static str, String)> {
    let mut facts = vec![("domain", nf.domain.clone())];
    if let Some(pid) = nf.pid {
        let place = if nf.container { ", in a container" } else { "" };
        facts.push(("process", format!("{pid}{place}")));
    }
    if let Some(ns) = nf.start_ns {
        facts.push(("ready after", units::time(ns)));
    }
    facts.push(("packets", format!("{} in, {} out", units::whole(nf.delivered), units::whole(nf.returned))));
    match (&nf.io, &nf.external) {
        (Some(io), _) => facts.extend(interfaces(io)),
        (None, Some(external)) => facts.extend(outside(nf, external)),
        (None, None) => {
            facts.push(("holds", format!("{} of {}", units::whole(nf.held), units::whole(nf.ring.into()))));
        }
    }
    facts.push(("CPU time", units::time(nf.cpu_ns)));
    facts.extend(nf.core_wait_ns.map(|ns| ("waited", format!("{} for its core", units::time(ns)))));
    facts.extend(scheduling(nf));
    let calls = [("bursts", nf.bursts), ("sleeps", nf.sleeps), ("wake-ups", nf.wakeups)];
    facts.extend(calls.map(|(name, count)| (name, units::whole(count))));
    let listed = |(name, count): (&String, &u64)| format!("{name} {}", units::whole(*count));
    let ended: Vec<_> = nf.drops.iter().filter(|(_, count)| **count > 0).map(listed).collect();
    let counted: Vec<_> = nf.counters.iter().map(listed).collect();
    for (name, list) in [("drops", ended), ("counters", counted)] {
        if !list.is_empty() {
            facts.push((name, list.join(", ")));
        }
    }
    if let Some(failure) = &nf.last_failure {
        facts.push(("failed", format!("{} times, last: {failure}", nf.failures)));
    }
    if let Some(message) = &nf.message {
        facts.push(("last message", message.clone()));
    }
    facts
}

/// Describes an external program.
fn outside(nf: &NfStatus, external: &ExternalStatus) -> Vec<(&'static str, String)> {
    let waiting = external.waiting.zip(external.ring).map(|(waiting, ring)| {
        format!(", {} of {} places taken", units::whole(waiting.into()), units::whole(ring.into()))
    });
    vec![
        ("external", format!("program behind {}{}", external.ports, waiting.unwrap_or_default())),
        ("outstanding", units::whole(nf.held)),
    ]
}

/// Describes its work on interfaces of the kernel.
fn interfaces(io: &IoStatus) -> Vec<(&'static str, String)> {
    let packets: u64 = io.interfaces.iter().map(|interface| interface.received).sum();
    let each = if packets == 0 { 0.0 } else { io.calls() as f64 / packets as f64 };
    let batch = if io.batch == 1 { "1 packet".to_owned() } else { format!("up to {} packets", io.batch) };
    let calls = format!("{} made, {each:.2} for a packet, {batch} in one", units::whole(io.calls()));
    let mut facts = vec![("driver", io.driver.clone()), ("system calls", calls)];
    for interface in &io.interfaces {
        let (came, went) = (units::whole(interface.received), units::whole(interface.sent));
        let lost = [
            ("lost in its socket", interface.lost),
            ("not sent", interface.unsent),
            ("too long", interface.too_long),
        ];
        let lost = lost.iter().filter(|(_, count)| *count > 0);
        let lost: String = lost.map(|(what, count)| format!(", {} {what}", units::whole(*count))).collect();
        let copies = if interface.zero_copy { ", without a copy" } else { "" };
        facts.push(("interface", format!("{}: {came} in, {went} out{lost}{copies}", interface.name)));
    }
    facts
}

/// Describes how it is scheduled, and the figures that decide it.
fn scheduling(nf: &NfStatus) -> Vec<(&'static str, String)> {
    let mut facts = Vec::new();
    if !nf.policy.is_empty() {
        let share =
            nf.share.map_or(String::new(), |share| format!(", {} of its core", units::percent(share)));
        facts.push(("scheduled", format!("{}, priority {}{share}", nf.policy, nf.priority)));
        if let Some(why) = &nf.policy_refused {
            facts.push(("not granted", why.clone()));
        }
        facts.push(("arrivals", units::packet_rate(nf.arrivals_per_second)));
    }
    if let (Some(median), Some(tail)) = (nf.service_time_ns_p50, nf.service_time_ns_p99) {
        let overridden = if nf.service_time_overridden { ", overridden by CPU accounting" } else { "" };
        let times = (units::time(median), units::time(tail));
        facts.push(("service time", format!("{} (99 %: {}){overridden}", times.0, times.1)));
    }
    if let Some(ns) = nf.cpu_time_per_packet_ns {
        facts.push(("CPU a packet", format!("{} by the kernel's accounting", units::time(ns))));
    }
    if let Some(ns) = nf.slice_cost_ns {
        let by = if nf.slice_cost_measured { "as measured before" } else { "learnt from its slices" };
        facts.push(("time slices", format!("{}, a packet costs {ns:.1} ns, {by}", units::whole(nf.slices))));
    }
    for (name, delay) in [("queueing", nf.queueing), ("processing", nf.processing)] {
        if let Some(DelayStatus { p50_ns, p99_ns }) = delay {
            facts.push((name, format!("{} (99 %: {})", units::time(p50_ns), units::time(p99_ns))));
        }
    }
    facts
}

/// Chains: rates and totals. The one of unclaimed packets only when there were some.
pub fn chains(interval: Interval<'_>, paint: Paint) -> String {
    let headings = [
        "chain", "path", ">in", ">out", ">dropped", ">delay", ">99 %", ">entered", ">made", ">left",
        ">ended", ">missing",
    ];
    let mut table = Table::new(&headings);
    for chain in &interval.after.chains {
        let unclaimed = chain.name == UNCLAIMED;
        if unclaimed && chain.entered + chain.made == 0 {
            continue;
        }
        let rates = interval.chain(chain);
        let path = match unclaimed {
            true => "(no rule claims them)".into(),
            false => {
                let all = [chain.entry.as_slice(), &chain.stages, std::slice::from_ref(&chain.out)].concat();
                format!("{}{}", all.join(" -> "), chain.service.as_ref().map_or(String::new(), service_path))
            }
        };
        table.inked_row([
            (chain.name.clone(), None),
            (path, None),
            (rate(rates.entered), None),
            (rate(rates.left), None),
            (rate_if_any(rates.dropped), None),
            (chain.delay.map_or(String::new(), |delay| units::time(delay.p50_ns)), None),
            (chain.delay.map_or(String::new(), |delay| units::time(delay.p99_ns)), None),
            (units::whole(chain.entered), None),
            (if_any(chain.made), None),
            (units::whole(chain.left), None),
            (if_any(chain.dropped), None),
            (
                chain.missing.filter(|&missing| missing != 0).map_or(String::new(), |m| m.to_string()),
                Some(Ink::Red),
            ),
        ]);
    }
    table.render(paint)
}

/// What a chain is besides its stages: `, nsh 0x123 to 02:00:00:00:00:01`.
fn service_path(service: &ServiceStatus) -> String {
    let next = service.next.as_ref().map_or(String::new(), |next| format!(" to {next}"));
    format!(", nsh {:#x}{next}", service.path)
}

/// Objectives of chains, and whether they are kept; empty when no chain has one.
pub fn objectives(snapshot: &Snapshot, paint: Paint) -> String {
    let mut table = Table::new(&["objective of", ">rate floor", ">rate", "", ">delay bound", ">99 %", ""]);
    let kept = |kept: Option<bool>| match kept {
        Some(true) => ("kept".to_owned(), Some(Ink::Green)),
        Some(false) => ("not kept".to_owned(), Some(Ink::Yellow)),
        None => (String::new(), None),
    };
    let asked = snapshot.chains.iter().filter_map(|chain| Some((chain, chain.objective.as_ref()?)));
    for (chain, asked) in asked {
        let tail = chain.delay.filter(|_| asked.delay_bound_ns.is_some());
        table.inked_row([
            (chain.name.clone(), None),
            (asked.rate_floor.map_or(String::new(), |rate| units::packet_rate(rate as f64)), None),
            (asked.rate.map_or(String::new(), units::packet_rate), None),
            kept(asked.floor_kept),
            (asked.delay_bound_ns.map_or(String::new(), units::time), None),
            (tail.map_or(String::new(), |delay| units::time(delay.p99_ns)), None),
            kept(asked.bound_kept),
        ]);
    }
    if table.is_empty() { String::new() } else { table.render(paint) }
}

/// Delays of packets: each chain as a whole, then its stages.
pub fn delays(snapshot: &Snapshot, paint: Paint) -> String {
    let headings = [
        "chain",
        "stage",
        ">queueing",
        ">99 %",
        ">processing",
        ">99 %",
        ">in all",
        ">99 %",
        ">bound",
        ">window",
    ];
    let mut table = Table::new(&headings);
    let cells = |delay: Option<DelayStatus>| match delay {
        Some(DelayStatus { p50_ns, p99_ns }) => [units::time(p50_ns), units::time(p99_ns)],
        None => [String::new(), String::new()],
    };
    for chain in snapshot.chains.iter().filter(|chain| chain.name != UNCLAIMED || chain.delay.is_some()) {
        let of = |name: &str, stage: &str, times: [Option<DelayStatus>; 3], limits: [String; 2]| {
            let names = [name.to_owned(), stage.to_owned()];
            names.into_iter().chain(times.into_iter().flat_map(cells)).chain(limits)
        };
        let bound = chain.delay_bound_ns.map_or(String::new(), units::time);
        let window = chain.window.map_or(String::new(), |window| units::whole(window.into()));
        table.row(of(&chain.name, "", [None, None, chain.delay], [bound, window]));
        for stage in &chain.stage_delays {
            let times = [stage.queueing, stage.processing, None];
            table.row(of("", &stage.stage, times, [String::new(), String::new()]));
        }
    }
    if table.is_empty() { "there is no chain\n".into() } else { table.render(paint) }
}

/// Dropped packets by chain and reason, most first; then what ports lost, and the faults that they injected.
pub fn drops(snapshot: &Snapshot, paint: Paint) -> String {
    let mut all: Vec<_> = snapshot.drops.iter().collect();
    all.sort_by_key(|drop| std::cmp::Reverse(drop.count));
    let mut table = Table::new(&["chain", "reason", ">packets", "meaning"]);
    for drop in all {
        let cells = [&drop.chain, &drop.reason, &units::whole(drop.count), &drop.sentence];
        table.row(cells.map(String::clone));
    }
    for port in &snapshot.ports {
        let losses = port_losses(port).into_iter().chain(port_faults(port));
        for (reason, count, meaning) in losses.filter(|loss| loss.1 > 0) {
            let cells = [format!("port {}", port.name), reason.into(), units::whole(count), meaning.into()];
            table.row(cells);
        }
    }
    if table.is_empty() { "no packet was dropped\n".into() } else { table.render(paint) }
}

/// Packet memory.
pub fn memory(snapshot: &Snapshot, paint: Paint) -> String {
    let headings = ["memory", ">buffers", ">each", ">size", "pages", ">free", ">in devices", ">missing"];
    let mut table = Table::new(&headings);
    for region in &snapshot.memory {
        let optional = |count: Option<u64>| count.map_or(String::new(), units::whole);
        table.inked_row([
            (region.domain.clone(), None),
            (units::whole(region.buffers.into()), None),
            (format!("{} B", region.stride_bytes), None),
            (units::bytes(region.bytes), None),
            (region.pages.clone(), None),
            (optional(region.free), None),
            (optional(region.in_devices), None),
            (region.missing.filter(|&m| m != 0).map_or(String::new(), |m| m.to_string()), Some(Ink::Red)),
        ]);
    }
    table.render(paint)
}

/// Describes what a manager did in its life, when that is over.
pub fn totals(last: &Snapshot, paint: Paint) -> String {
    let mut chains = Table::new(&["chain", ">entered", ">made", ">left", ">dropped", ">missing"]);
    for chain in last.chains.iter().filter(|chain| chain.name != UNCLAIMED || chain.entered + chain.made > 0)
    {
        chains.inked_row([
            (chain.name.clone(), None),
            (units::whole(chain.entered), None),
            (if_any(chain.made), None),
            (units::whole(chain.left), None),
            (if_any(chain.dropped), None),
            (chain.missing.filter(|&m| m != 0).map_or(String::new(), |m| m.to_string()), Some(Ink::Red)),
        ]);
    }
    let mut nfs = Table::new(&["nf", ">packets", ">CPU time", ">failures", "last failure"]);
    for nf in &last.nfs {
        nfs.inked_row([
            (nf.instance.clone(), None),
            (units::whole(nf.returned), None),
            (units::time(nf.cpu_ns), None),
            (if_any(nf.failures.into()), Some(Ink::Yellow)),
            (nf.last_failure.clone().unwrap_or_default(), None),
        ]);
    }
    let rendered = |table: Table| if table.is_empty() { String::new() } else { table.render(paint) + "\n" };
    [
        format!("ran for {}\n\n", units::time(last.at_ns)),
        rendered(chains),
        rendered(nfs),
        drops(last, paint),
        "\n".into(),
        accounts(last, paint),
    ]
    .concat()
}

/// Returns a line on whether the accounts add up.
pub fn accounts(snapshot: &Snapshot, paint: Paint) -> String {
    match snapshot.conserved {
        Some(true) => {
            format!(
                "accounts {}: every packet and every buffer is in one place\n",
                paint.ink(Ink::Green, "hold")
            )
        }
        Some(false) => format!(
            "accounts {}: packets or buffers are missing (see the column); this is a bug of Headgate\n",
            paint.ink(Ink::Red, "do not hold")
        ),
        None => "accounts were not taken: a worker did not stand still; ask again\n".into(),
    }
}

/// Known flows.
pub fn flows(flows: &[FlowStatus], paint: Paint) -> String {
    let mut table = Table::new(&["flow", "chain", ">idle"]);
    for flow in flows {
        table.row([flow.flow.clone(), flow.chain.clone(), units::time(flow.idle_ns)]);
    }
    if table.is_empty() { "no flow is known\n".into() } else { table.render(paint) }
}

/// Returns the events, oldest first.
pub fn events(events: &[Event], paint: Paint) -> String {
    let mut table = Table::new(&[">at", "who", "what"]);
    for event in events {
        table.row([format!("{:.6} s", event.at_ns as f64 / 1e9), event.who.clone(), event.what.clone()]);
    }
    if table.is_empty() { "nothing has happened yet\n".into() } else { table.render(paint) }
}
