// Plots as SVG: quiet grid, both axes named by their ticks' units, current values in the legend.

const NS = "http://www.w3.org/2000/svg";
const WIDTH = 520, HEIGHT = 210, LEFT = 62, RIGHT = 12, TOP = 10, BOTTOM = 26;

export function svg(name, attributes, ...children) {
    const element = document.createElementNS(NS, name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    element.append(...children);
    return element;
}

export function tag(name, attributes, ...children) {
    const element = document.createElement(name);
    Object.assign(element, attributes);
    element.append(...children);
    return element;
}

// Round numbers from 0 to at least `most`.
function ticks(most) {
    const step = [1, 2, 5, 10].map((part) => part * 10 ** Math.floor(Math.log10(most / 4 || 1)))
        .find((step) => step * 4 >= most * 0.999) ?? 1;
    return Array.from({ length: 5 }, (_, count) => count * step);
}

function frame(label, xs, ys, x, y) {
    const plot = svg("svg", { class: "plot", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": label });
    for (const [at, text] of ys) {
        plot.append(svg("line", { class: "grid", x1: LEFT, x2: WIDTH - RIGHT, y1: y(at), y2: y(at) }),
            svg("text", { x: LEFT - 6, y: y(at) + 4, "text-anchor": "end" }, text));
    }
    for (const [at, text] of xs) {
        plot.append(svg("line", { class: "grid", x1: x(at), x2: x(at), y1: HEIGHT - BOTTOM, y2: HEIGHT - BOTTOM + 4 }),
            svg("text", { x: x(at), y: HEIGHT - 8, "text-anchor": "middle" }, text));
    }
    plot.append(svg("line", { class: "axis", x1: LEFT, x2: WIDTH - RIGHT, y1: HEIGHT - BOTTOM, y2: HEIGHT - BOTTOM }));
    return plot;
}

function legend(lines) {
    const entry = ({ name, color, now }) =>
        tag("span", {}, tag("i", { className: color }), `${name} `, tag("b", {}, now ?? ""));
    return tag("div", { className: "legend" }, ...lines.map(entry));
}

const vertical = (most) => (value) => HEIGHT - BOTTOM - Math.min(1, value / most) * (HEIGHT - TOP - BOTTOM);

// Lines over the last `span` seconds. A line is { name, color, now, points: [[age, value]…], isDashed }.
export function series(label, lines, span, format) {
    const values = lines.flatMap((line) => line.points.map(([, value]) => value));
    const marks = ticks(Math.max(...values, 1e-9));
    const x = (age) => WIDTH - RIGHT - age / span * (WIDTH - LEFT - RIGHT);
    const y = vertical(marks.at(-1));
    const ages = [1, 0.75, 0.5, 0.25].map((part) => [part * span, `-${part * span} s`]).concat([[0, "now"]]);
    const plot = frame(label, ages, marks.map((mark) => [mark, format(mark)]), x, y);
    for (const { points, color, isDashed } of lines) {
        const path = points.map(([age, value]) => `${x(age).toFixed(1)},${y(value).toFixed(1)}`).join(" ");
        plot.append(svg("polyline", { class: color, points: path, fill: "none", stroke: "currentColor",
            "stroke-width": isDashed ? 1.2 : 1.8, "stroke-dasharray": isDashed ? "5 4" : "none" }));
    }
    return [plot, legend(lines.filter((line) => !line.isDashed))];
}

// Distribution function of a histogram. Marks are { name, color, at, now }.
export function distribution(label, bounds, counts, marks, format) {
    const total = counts.reduce((sum, count) => sum + count, 0);
    if (total === 0) return [tag("p", { className: "empty" }, "no packet was measured yet")];
    const [low, high] = [Math.log10(bounds[0]), Math.log10(bounds.at(-1))];
    const x = (ns) => LEFT + Math.min(1, Math.max(0, (Math.log10(ns) - low) / (high - low))) * (WIDTH - LEFT - RIGHT);
    const y = vertical(1);
    const powers = [100, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9].map((ns) => [ns, format(ns)]);
    const plot = frame(label, powers, [0, 0.25, 0.5, 0.75, 1].map((part) => [part, `${part * 100} %`]), x, y);
    let sum = 0;
    const points = bounds.map((bound, number) => [bound, (sum += counts[number]) / total]);
    const path = points.map(([ns, part]) => `${x(ns).toFixed(1)},${y(part).toFixed(1)}`).join(" ");
    plot.append(svg("polyline", { class: "c0", points: path, fill: "none", stroke: "currentColor", "stroke-width": 1.8 }));
    for (const { at, color } of marks) {
        plot.append(svg("line", { class: color, x1: x(at), x2: x(at), y1: TOP, y2: HEIGHT - BOTTOM, stroke: "currentColor",
            "stroke-dasharray": "3 3" }));
    }
    return [plot, legend(marks)];
}

// A tick for each event of the last `span_ns`, a lane for each severity.
export function timeline(label, events, now_ns, span_ns, format) {
    const width = 1200, lanes = ["error", "warning", "info"], colors = { error: "c5", warning: "c1", info: "cq" };
    const x = (at) => 60 + Math.max(0, 1 - (now_ns - at) / span_ns) * (width - 75);
    const plot = svg("svg", { class: "plot", viewBox: `0 0 ${width} 74`, role: "img", "aria-label": label });
    lanes.forEach((lane, number) => {
        const y = 14 + number * 18;
        plot.append(svg("line", { class: "grid", x1: 60, x2: width - 15, y1: y, y2: y }),
            svg("text", { x: 54, y: y + 4, "text-anchor": "end" }, lane));
        for (const event of events) {
            if (event.severity !== lane || now_ns - event.at_ns > span_ns) continue;
            const title = svg("title", {}, `${format(now_ns - event.at_ns)} ago: ${event.who}: ${event.what}`);
            plot.append(svg("circle", { class: colors[lane], cx: x(event.at_ns), cy: y, r: 4, fill: "currentColor" }, title));
        }
    });
    for (const part of [1, 0.75, 0.5, 0.25, 0]) {
        const text = part === 0 ? "now" : `-${format(part * span_ns)}`;
        const anchor = part === 0 ? "end" : part === 1 ? "start" : "middle";
        plot.append(svg("text", { x: x(now_ns - part * span_ns), y: 70, "text-anchor": anchor }, text));
    }
    return plot;
}
