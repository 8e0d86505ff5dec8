// Ways of the next packets of a chain: each station, the time there, the verdict, and what was rewritten.

import { Refusal, watch } from "./client.js";
import { svg, tag } from "./plot.js";
import { time } from "./units.js";

// Our choice: as many as are read, and a time after which nobody thinks that some will come.
const PACKETS = 5, SECONDS = 10;

const at = (id) => document.getElementById(id);
let running = new AbortController();

// A step as a row: when in the packet's time, and how long.
function row(step, whole) {
    const start = (step.at_ns - step.took_ns) / whole * 100;
    const title = svg("title", {}, `${time(step.at_ns)} after its arrival`);
    const bar = svg("svg", { viewBox: "0 0 100 10", preserveAspectRatio: "none", role: "img" }, title,
        svg("rect", { x: 0, y: 4.5, width: 100, height: 1, fill: "var(--fill)" }),
        svg("rect", { class: "c0", x: Math.min(start, 99.5), y: 1, width: Math.max(step.took_ns / whole * 100, .5), height: 8,
            fill: "currentColor" }));
    const cells = [
        tag("td", {}, step.station),
        tag("td", {}, step.at ?? ""),
        tag("td", { className: "time" }, time(step.took_ns)),
        tag("td", { className: "when" }, bar),
        tag("td", {}, step.verdict ? `verdict ${step.verdict}` : ""),
        tag("td", { title: "worker" }, `${step.worker}`),
    ];
    const changes = step.changes.map(({ field, before, after }) =>
        tag("tr", {}, tag("td"), tag("td", { className: "change", colSpan: 5 }, `${field}: ${before ?? "none"} → ${after ?? "none"}`)));
    return [tag("tr", {}, ...cells), ...changes];
}

function way({ packet, bytes, port, node, steps, end, sentence }) {
    const whole = Math.max(steps.at(-1)?.at_ns ?? 0, 1);
    const names = ["station", "at", "took", "when", "", "worker"]
        .map((name) => tag("th", { className: name === "took" ? "time" : "" }, name));
    return tag("article", { className: `trace ${end}` },
        tag("p", {}, tag("b", {}, packet), ` · ${bytes} bytes by ${port} on ${node} · ${time(whole)} in all`),
        tag("table", {}, tag("thead", {}, tag("tr", {}, ...names)), tag("tbody", {}, ...steps.flatMap((step) => row(step, whole)))),
        tag("p", { className: "end" }, sentence));
}

function say(text, isRefused) {
    at("traced").className = isRefused ? "refused" : "";
    at("traced").textContent = text;
}

export function forgetTraces() {
    running.abort();
    at("traces").replaceChildren();
    say("");
}

// Asks for the next packets of a chain, and shows each as it comes to its end.
export async function trace(chain, filter) {
    forgetTraces();
    running = new AbortController();
    const { signal } = running;
    const query = new URLSearchParams({ chain, packets: PACKETS, seconds: SECONDS });
    if (filter) query.set("filter", filter);
    say(`waiting for ${PACKETS} packets, ${SECONDS} s at most`);
    let end = null;
    const hear = (name, data) => {
        if (signal.aborted) return;
        if (name === "trace") at("traces").append(way(data));
        if (name === "end") end = data;
        if (name === "problem") throw new Refusal(0, data);
    };
    try {
        await watch(`/v1/trace?${query}`, signal, hear);
        if (!end) throw new Error("The server ended the trace before its end.");
        const few = end.packets < PACKETS ? ", as many as came" : "";
        if (!signal.aborted) say(`${end.packets} ${end.packets === 1 ? "packet" : "packets"}${few}`);
    } catch (error) {
        if (!signal.aborted) say(error instanceof Refusal ? error.message : "The trace broke off.", true);
    }
}
