// Figures as people read them, as the command prints them: three digits and a unit.

export function digits(value) {
    if (value >= 100 || Number.isInteger(value)) return value.toFixed(0);
    return value.toFixed(value >= 10 ? 1 : 2);
}

export function scaled(value, unit) {
    for (const [factor, prefix] of [[1e9, "G"], [1e6, "M"], [1e3, "k"]]) {
        if (value >= factor) return `${digits(value / factor)} ${prefix}${unit}`;
    }
    return `${value.toFixed(0)} ${unit}`.trimEnd();
}

export const rate = (value) => scaled(value, "pps");

export function time(ns) {
    const seconds = ns / 1e9;
    if (ns < 1e3) return `${ns.toFixed(0)} ns`;
    if (ns < 1e6) return `${digits(ns / 1e3)} us`;
    if (ns < 1e9) return `${digits(ns / 1e6)} ms`;
    if (seconds < 60) return `${digits(seconds)} s`;
    if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${Math.floor(seconds % 60)} s`;
    return `${Math.floor(seconds / 3600)} h ${Math.floor(seconds % 3600 / 60)} min`;
}

export function percent(part) {
    const value = part * 100;
    return `${value >= 0.05 && value < 0.95 ? value.toFixed(1) : value.toFixed(0)} %`;
}
