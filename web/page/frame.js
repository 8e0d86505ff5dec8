// Rates of chains and NFs, from two snapshots: the same figures as in `headgate top`.

const byName = (list, key) => new Map(list.map((one) => [one[key], one]));

export function frame(before, after) {
    const seconds = (after.at_ns - before.at_ns) / 1e9;
    const perSecond = (was, is) => seconds > 0 ? Math.max(0, (is ?? 0) - (was ?? 0)) / seconds : 0;
    const chainsBefore = byName(before.chains, "name");
    const nfsBefore = byName(before.nfs, "instance");
    const dropsBefore = new Map(before.drops.map((drop) => [`${drop.chain}\n${drop.reason}`, drop.count]));
    const instances = Map.groupBy(after.nfs, (nf) => nf.nf);
    const drops = Map.groupBy(after.drops, (drop) => drop.chain);

    const stage = (nf) => {
        const was = nfsBefore.get(nf.instance) ?? { drops: {} };
        const returned = perSecond(was.returned, nf.returned);
        const cpu = perSecond(was.cpu_ns, nf.cpu_ns) / 1e9;
        const service = serviceTime(was, nf);
        const own = service === null ? null : Math.min(service * returned / 1e9, cpu);
        return {
            status: nf,
            state: state(nf),
            delivered: perSecond(was.delivered, nf.delivered),
            returned,
            service,
            busy: nf.service_time_overridden ? cpu : own,
            queue: queue(nf),
            drops: reasons(Object.entries(nf.drops).map(([reason, count]) => [reason, perSecond(was.drops[reason], count)])),
        };
    };
    const chain = (chain) => {
        const was = chainsBefore.get(chain.name) ?? {};
        const ended = drops.get(chain.name) ?? [];
        return {
            status: chain,
            entered: perSecond(was.entered, chain.entered),
            left: perSecond(was.left, chain.left),
            dropped: perSecond(was.dropped, chain.dropped),
            drops: reasons(ended.map((drop) => [drop.reason, perSecond(dropsBefore.get(`${drop.chain}\n${drop.reason}`), drop.count), drop.sentence])),
            stages: chain.stages.map((name) => (instances.get(name) ?? []).map(stage)),
            shared: (after.cluster?.stages ?? []).filter((stage) => stage.chain === chain.name),
        };
    };
    // Packets that no rule claims have a line once there are some.
    const shown = after.chains.filter((chain) => chain.name !== "-" || chain.entered + chain.made > 0);
    return { snapshot: after, cpu: perSecond(before.manager.cpu_ns, after.manager.cpu_ns) / 1e9, chains: shown.map(chain) };
}

// Mean time in the handler for one packet, in nanoseconds: of the interval, and where it had none, of the process's life.
function serviceTime(was, is) {
    const packets = is.service_time_packets - was.service_time_packets;
    const sum = is.service_time_sum_ns - was.service_time_sum_ns;
    return was.pid === is.pid && packets > 0 ? sum / packets : is.service_time_ns_mean;
}

// Reasons with their rates, the most frequent first; only those there were.
function reasons(list) {
    return list.filter(([, rate]) => rate > 0).sort((one, other) => other[1] - one[1]);
}

// Word and weight of what an instance does.
function state(nf) {
    if (nf.state === "running") {
        if (nf.throttled) return ["throttled", "warn"];
        if (nf.blocked) return ["blocked", "warn"];
        return [nf.asleep ? "asleep" : "running", ""];
    }
    const isBad = ["reclaiming", "waiting", "failed", "gone"].includes(nf.state);
    return [nf.state.replace("-", " "), isBad ? "bad" : "warn"];
}

// Packets in a queue, and those it has room for; null where that is not seen.
function queue(nf) {
    const [packets, room] = nf.box ? [nf.box.waiting, nf.box.ring] : nf.io ? [null, null] : [nf.held, nf.ring];
    return packets === null || !room ? null : { packets, room };
}
