// The map of chains: stages from left to right, each with its queue, rates and drops.

import { svg, tag } from "./plot.js";
import { percent, rate, time } from "./units.js";

// Slots of a table by which new flows are divided.
const SLOTS = 128;

const figure = (name, value, isBad) =>
    tag("span", { className: isBad ? "figure bad" : "figure" }, `${name} `, tag("b", {}, value));

function bar({ queue, status }) {
    const full = queue ? Math.min(1, queue.packets / queue.room) : 0;
    const marks = queue ? [status.low_watermark, status.high_watermark].filter((mark) => mark !== null) : [];
    const title = svg("title", {}, queue ? `${queue.packets} of ${queue.room} packets; marks at ${marks.join(" and ")}` : "not seen");
    const color = marks.length > 1 && queue.packets >= marks[1] ? "c5" : "c0";
    const lines = marks.map((mark) =>
        svg("line", { class: "cq", x1: mark / queue.room * 100, x2: mark / queue.room * 100, y1: 0, y2: 10, stroke: "currentColor",
            "stroke-width": 2, "vector-effect": "non-scaling-stroke" }));
    return svg("svg", { viewBox: "0 0 100 10", preserveAspectRatio: "none", role: "img" }, title,
        svg("rect", { x: 0, y: 1, width: 100, height: 8, fill: "var(--fill)" }),
        svg("rect", { class: color, x: 0, y: 1, width: full * 100, height: 8, fill: "currentColor" }), ...lines);
}

function instance(stage) {
    const { status, state: [word, weight] } = stage;
    const share = status.share === null ? "" : ` / ${percent(status.share)}`;
    const rows = [
        ["in", rate(stage.delivered)],
        ["out", rate(stage.returned)],
        ["queue", stage.queue ? percent(stage.queue.packets / stage.queue.room) : "not seen"],
        ["service", stage.service === null ? "–" : time(stage.service)],
        ["busy / share", stage.busy === null ? "–" : percent(stage.busy) + share],
        ...stage.drops.slice(0, 3).map(([reason, drops]) => [reason, rate(drops)]),
    ];
    const title = tag("div", { className: "title" }, tag("span", { title: `runs ${status.runs} on core ${status.core}` }, status.instance),
        tag("span", { className: "state" }, word));
    const list = tag("dl", {}, ...rows.flatMap(([name, value]) => [tag("dt", {}, name), tag("dd", {}, value)]));
    return tag("div", { className: `nf ${weight}` }, title, bar(stage), list);
}

// Nodes that share NFs with this one, each with the prices of its cores.
export function nodes({ node: own, nodes }) {
    const offer = ({ nf, instances, price }) => figure(nf, instances ? `at ${price.toFixed(2)}` : "down", !instances);
    return nodes.map(({ name, alive, nfs }) => {
        const word = name === own ? "this one" : alive ? "alive" : "lost";
        return tag("span", { className: alive ? "node" : "node bad" }, tag("b", {}, name), ` ${word} `, ...nfs.map(offer));
    });
}

// Where flows of a stage go that several nodes serve, and what a packet costs there.
function sharing({ nf, servers, steered_rate, moved }) {
    const part = ({ node, alive, slots, cost }) =>
        `${node} ${alive ? percent(slots / SLOTS) : "gone"}${cost === null ? "" : ` at ${cost.toFixed(2)}`}`;
    const title = `new flows by node, with the cost of a packet there; ${moved} of its slots have changed their node so far`;
    return tag("span", { title }, `${nf}: ${servers.map(part).join(", ")}; ${rate(steered_rate)} steered`);
}

// Fills the element of a chain. Its name is a button that stays, so that it keeps the focus.
export function fill(element, chain, isPicked) {
    const { status, entered, left, dropped, drops, stages, shared } = chain;
    const delay = status.delay ? [figure("delay p50", time(status.delay.p50_ns)), figure("p99", time(status.delay.p99_ns),
        status.delay_bound_ns !== null && status.delay.p99_ns > status.delay_bound_ns)] : [];
    const head = [figure("in", rate(entered)), figure("out", rate(left)), figure("dropped", rate(dropped), dropped > 0), ...delay];
    const stop = (...inside) => tag("div", { className: "stop" }, ...inside);
    // A stage of another node is named with it.
    const empty = (name) => tag("div", { className: "port" }, name.includes("@") ? name.replace("@", " at ") : `${name}: no instance`);
    const way = [
        stop(tag("div", { className: "port" }, status.entry ?? "in")),
        ...stages.map((all, number) => stop(...(all.length ? all.map(instance) : [empty(status.stages[number])]))),
        stop(tag("div", { className: "port" }, status.out)),
    ];
    const chips = drops.map(([reason, drops, sentence]) => tag("span", { title: sentence }, `${reason} ${rate(drops)}`));
    element.className = isPicked ? "chain picked" : "chain";
    element.querySelector(".name").setAttribute("aria-pressed", isPicked);
    element.querySelector(".figures").replaceChildren(...head);
    // A way that is wider than the screen stays where it was moved to.
    const place = element.querySelector(".way");
    const moved = place.scrollLeft;
    place.replaceChildren(...way);
    place.scrollLeft = moved;
    element.querySelector(".shared").replaceChildren(...shared.map(sharing));
    element.querySelector(".drops").replaceChildren(...chips);
}

export function row(name, pick) {
    const button = tag("button", { className: "name", type: "button", onclick: pick }, name === "-" ? "packets that no rule claims" : name);
    const figures = tag("div", { className: "figures head" });
    return tag("article", { className: "chain" }, tag("div", { className: "head" }, button, figures), tag("div", { className: "way" }),
        tag("div", { className: "shared" }), tag("div", { className: "drops" }));
}
