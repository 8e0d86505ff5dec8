// The page: what comes from the server, what of it is shown, and what was picked.

import { Refusal, forget, keep, takeFromLink, token, watch } from "./client.js";
import { frame } from "./frame.js";
import { fill, nodes, row } from "./map.js";
import { distribution, series, tag, timeline } from "./plot.js";
import { forgetTraces, trace } from "./trace.js";
import { percent, rate, scaled, time } from "./units.js";

const SECONDS_SHOWN = 300, CHAINS_SHOWN = 40, CHAINS_KEPT = 500, EVENTS_SHOWN = 200, LINES_SHOWN = 5, TIMELINE_NS = 600e9;
// Bounds of the buckets of histograms; a last bucket has none.
const BOUNDS_NS = [100, 250, 500, 1000, 2500, 5000, 10000, 25000, 50000, 100000, 250000, 500000, 1000000, 2500000, 10000000,
    50000000, 250000000, 1000000000];
const RETRY_MS = 2000;

const at = (id) => document.getElementById(id);
const rows = new Map();
let past = [], last = null, events = [], picked = null, ended = new AbortController();

function show({ snapshot, cpu, chains }) {
    const { manager, scheduler, at_ns } = snapshot;
    at("manager").textContent =
        `${manager.name} · version ${manager.version} · up ${time(at_ns)} · scheduler ${scheduler.mode} · manager CPU ${percent(cpu)}`;
    document.title = `${manager.name} – Headgate`;
    at("nodes").hidden = !snapshot.cluster;
    if (snapshot.cluster) at("nodes").replaceChildren(...nodes(snapshot.cluster));
    const found = chains.filter((chain) => chain.status.name.includes(at("find").value.trim()));
    const orders = {
        rate: (one, other) => other.entered - one.entered,
        dropped: (one, other) => other.dropped - one.dropped,
        delay: (one, other) => (other.status.delay?.p99_ns ?? 0) - (one.status.delay?.p99_ns ?? 0),
        name: (one, other) => one.status.name.localeCompare(other.status.name),
    };
    found.sort(orders[at("sort").value]);
    const shown = found.slice(0, CHAINS_SHOWN);
    if (!chains.some((chain) => chain.status.name === picked)) {
        forgetTraces();
        picked = shown[0]?.status.name ?? null;
    }
    at("more").textContent = found.length > shown.length ? `${shown.length} of ${found.length} shown` : "";
    place(shown);
    detail(chains.find((chain) => chain.status.name === picked));
}

function place(shown) {
    const elements = shown.map((chain) => {
        const name = chain.status.name;
        if (!rows.has(name)) rows.set(name, row(name, () => pick(name)));
        fill(rows.get(name), chain, name === picked);
        return rows.get(name);
    });
    for (const name of rows.keys()) if (!shown.some((chain) => chain.status.name === name)) rows.delete(name);
    const now = [...at("chains").children];
    if (!elements.length) at("chains").replaceChildren(tag("p", { className: "empty" }, "no chain"));
    else if (now.length !== elements.length || now.some((element, number) => element !== elements[number])) {
        at("chains").replaceChildren(...elements);
    }
}

function pick(name) {
    if (name !== picked) forgetTraces();
    picked = name;
    again();
}

// The plots of a chain.
function detail(chain) {
    at("detail").hidden = !chain;
    if (!chain) return forgetTraces();
    const name = chain.status.name;
    at("detail-heading").textContent = `Chain ${name}`;
    const now = last.at_ns;
    const line = (label, color, pick, format) => {
        const points = past.map((one) => [(now - one.at_ns) / 1e9, pick(one)]).filter(([, value]) => value !== undefined);
        return { name: label, color, points, now: points.length ? format(points.at(-1)[1]) : "" };
    };
    const of = (key) => (one) => one.chains.get(name)?.[key];
    at("throughput").replaceChildren(...series(`throughput of ${name}`, [
        line("in", "c0", of("entered"), rate), line("out", "c2", of("left"), rate), line("dropped", "c5", of("dropped"), rate),
    ], SECONDS_SHOWN, (value) => scaled(value, "")));

    const all = [...new Set(chain.stages.flat().map((stage) => stage.status.instance))].slice(0, LINES_SHOWN);
    const lines = all.flatMap((instance, number) => {
        const of = (key) => (one) => one.nfs.get(instance)?.[key] ?? undefined;
        const used = line(instance, `c${number}`, of("busy"), percent);
        const share = { ...line(instance, `c${number}`, of("share"), percent), isDashed: true };
        return [{ ...used, now: used.now + (share.now && ` / ${share.now}`) }, share];
    });
    at("cpu").replaceChildren(...series(`CPU of the NFs of ${name}`, lines, SECONDS_SHOWN, percent));
    delays(chain.status);
}

function delays(status) {
    const before = past[0]?.chains.get(status.name)?.counts;
    const after = status.delay_histogram?.counts ?? [];
    const since = before ? after.map((count, number) => count - before[number]) : after;
    const isNew = since.some((count) => count > 0) && since.every((count) => count >= 0);
    at("cdf-caption").textContent = `Delay of packets, part not above: ${isNew && before ? "while this page watches" : "since the start"}`;
    const marks = status.delay ? [
        { name: "p50 now", color: "c2", at: status.delay.p50_ns, now: time(status.delay.p50_ns) },
        { name: "p99 now", color: "c1", at: status.delay.p99_ns, now: time(status.delay.p99_ns) },
    ] : [];
    if (status.delay_bound_ns) marks.push({ name: "bound", color: "c5", at: status.delay_bound_ns, now: time(status.delay_bound_ns) });
    at("cdf").replaceChildren(...distribution(`delay of ${status.name}`, BOUNDS_NS, isNew ? since : after, marks, time));
}

function remember({ snapshot, chains }) {
    const nfs = new Map();
    for (const chain of chains.slice(0, CHAINS_KEPT)) for (const stage of chain.stages.flat()) {
        nfs.set(stage.status.instance, { busy: stage.busy, share: stage.status.share });
    }
    const figures = ({ entered, left, dropped, status }) => ({ entered, left, dropped, counts: status.delay_histogram?.counts });
    // Of very many, those on the screen.
    const kept = chains.length > CHAINS_KEPT ? chains.filter((chain) => rows.has(chain.status.name)) : chains;
    past.push({ at_ns: snapshot.at_ns, nfs, chains: new Map(kept.map((chain) => [chain.status.name, figures(chain)])) });
    const oldest = snapshot.at_ns - SECONDS_SHOWN * 1e9;
    past = past.filter((one) => one.at_ns >= oldest);
}

function showEvents() {
    const order = ["info", "warning", "error"];
    const least = order.indexOf(at("severity").value);
    const shown = events.filter((event) => order.indexOf(event.severity) >= least);
    const now = Math.max(last?.at_ns ?? 0, ...shown.slice(-1).map((event) => event.at_ns));
    const span = Math.min(TIMELINE_NS, Math.max(now, 60e9));
    at("timeline").replaceChildren(timeline("events", shown, now, span, time));
    const line = ({ at_ns, severity, who, what }) => tag("li", {}, tag("time", {}, `${(at_ns / 1e9).toFixed(3)} s`),
        tag("span", { className: severity }, severity), tag("span", {}, who), tag("span", {}, what));
    const newest = shown.slice(-EVENTS_SHOWN).reverse();
    at("events").replaceChildren(...(newest.length ? newest.map(line) : [tag("li", {}, "none")]));
}

let current = null;
const again = () => { if (current) show(current); };

function hearSnapshot(snapshot) {
    // Another manager, whose counters began anew.
    if (last && last.manager.pid !== snapshot.manager.pid) [past, events, last] = [[], [], null];
    if (last && snapshot.at_ns === last.at_ns) return;
    current = frame(last ?? snapshot, snapshot);
    if (last) remember(current);
    last = snapshot;
    at("view").hidden = false;
    show(current);
    showEvents();
    if (wish.has("trace") && picked) {
        wish.delete("trace");
        at("trace").click();
    }
}

function say(text) {
    at("notice").hidden = !text;
    at("notice").textContent = text ?? "";
}

function link(word, kind) {
    at("link").textContent = word;
    at("link").className = kind;
}

function hear(name, data, id) {
    if (name === "problem") {
        say([data.title, data.detail, data.cure].join(" · "));
        return link("no manager", "lost");
    }
    say(null);
    link("live", "live");
    if (name === "snapshot") hearSnapshot(data);
    if (name === "event") {
        events.push(data);
        events = events.slice(-256);
        hear.after = id;
        showEvents();
    }
}

function lost(error) {
    link("not connected", "lost");
    if (error instanceof Refusal && [401, 403].includes(error.status)) {
        if (token()) say(error.message);
        forget();
        return ask();
    }
    say(error instanceof Refusal ? error.message : "The server does not answer. · Is `headgate serve` running?");
    setTimeout(start, RETRY_MS);
}

function ask() {
    ended.abort();
    [at("enter").hidden, at("view").hidden, at("leave").hidden] = [false, true, true];
    link("token needed", "");
    at("token").focus();
}

async function start() {
    ended.abort();
    ended = new AbortController();
    const { signal } = ended;
    [at("enter").hidden, at("leave").hidden] = [true, !token()];
    const after = hear.after === undefined ? "" : `?after=${hear.after}`;
    const both = [watch("/v1/watch/snapshots", signal, hear), watch(`/v1/watch/events${after}`, signal, hear)];
    try {
        await Promise.race(both.map((one) => one.then(() => { throw new Error("ended"); })));
    } catch (error) {
        if (!signal.aborted) {
            ended.abort();
            lost(error);
        }
    }
    await Promise.allSettled(both);
}

const wish = takeFromLink();
picked = wish.get("chain");
const dark = matchMedia("(prefers-color-scheme: dark)");
const root = document.documentElement;
root.dataset.theme ??= sessionStorage.getItem("headgate.theme") ?? (dark.matches ? "dark" : "light");
at("theme").onclick = () => {
    root.dataset.theme = root.dataset.theme === "dark" ? "light" : "dark";
    sessionStorage.setItem("headgate.theme", root.dataset.theme);
};
at("leave").onclick = () => { forget(); forgetTraces(); say(null); ask(); };
at("tracing").onsubmit = (event) => {
    event.preventDefault();
    trace(picked, at("filter").value.trim());
};
at("enter").onsubmit = (event) => {
    event.preventDefault();
    keep(at("token").value.trim());
    at("token").value = "";
    say(null);
    start();
};
at("find").oninput = again;
at("sort").onchange = again;
at("severity").onchange = showEvents;
if (token()) start(); else ask();
