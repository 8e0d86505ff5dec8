// Asks the server this page came from. The token is kept for this tab, and sent nowhere else.

const KEY = "headgate.token";

// A link to this page may carry the token behind `#token=`, which no browser sends to a server, and what to
// show.
export function takeFromLink() {
    const link = new URLSearchParams(location.hash.slice(1));
    // A token has no spaces: one that is read as such was a plus, as in base64.
    if (link.get("token")) sessionStorage.setItem(KEY, link.get("token").replaceAll(" ", "+"));
    if (link.get("theme")) document.documentElement.dataset.theme = link.get("theme") === "dark" ? "dark" : "light";
    if (location.hash) history.replaceState(null, "", location.pathname);
    return link;
}

export const token = () => sessionStorage.getItem(KEY);
export const keep = (token) => sessionStorage.setItem(KEY, token);
export const forget = () => sessionStorage.removeItem(KEY);

// What the server, or the way to it, has against a request.
export class Refusal extends Error {
    constructor(status, problem) {
        super([problem.title, problem.detail, problem.cure].filter(Boolean).join(" · "));
        this.status = status;
    }
}

async function open(path, signal) {
    const headers = token() ? { Authorization: `Bearer ${token()}` } : {};
    const answer = await fetch(path, { headers, signal, cache: "no-store" });
    if (answer.ok) return answer;
    const problem = await answer.json().catch(() => ({ title: `The server answers with ${answer.status}.` }));
    throw new Refusal(answer.status, problem);
}

// Passes each event of a stream to `hear(name, data, id)`, until it ends.
export async function watch(path, signal, hear) {
    const reader = (await open(path, signal)).body.pipeThrough(new TextDecoderStream()).getReader();
    // What came of an event so far: a snapshot of ten thousand chains comes in hundreds of parts.
    let begun = [];
    for (;;) {
        const { done, value } = await reader.read();
        if (done) return;
        const before = begun.at(-1) ?? "";
        begun.push(value);
        if (!(before.slice(-1) + value).includes("\n\n")) continue;
        const parts = begun.join("").split("\n\n");
        begun = [parts.pop()];
        for (const part of parts) {
            const fields = {};
            for (const line of part.split("\n")) {
                const colon = line.indexOf(":");
                if (colon > 0) fields[line.slice(0, colon)] = line.slice(colon + 2);
            }
            if (fields.data !== undefined) hear(fields.event, JSON.parse(fields.data), fields.id);
        }
    }
}
