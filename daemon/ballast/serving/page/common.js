// Helpers of all views. Any value may be null, which means unknown; unknown is never shown as 0.

export const PAGE = 100, MORE = 400;
/** Milliseconds after which a request without an answer has lost contact. */
export const PATIENCE = 15000;
export const $ = id => document.getElementById(id);
export const state = { status: null, fetched: 0 };

export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) if (value !== null && value !== undefined) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

const texts = new Map(), early = globalThis.early ??= new Map();
/** The parsed answer, and whether it has changed. An error is `lost` without an answer, else `answered`. */
export async function read(path) {
  let response, text, body;
  const asked = early.get(path);
  early.delete(path);
  try {
    response = await (asked ?? fetch(path, { cache: "no-cache", signal: AbortSignal.timeout(PATIENCE) }));
    text = await response.text();
    body = JSON.parse(text);  // What is none comes from a proxy before a Ballast that is gone.
  } catch (error) { throw Object.assign(error, { lost: true }); }
  if (!response.ok) throw Object.assign(new Error(body.error || response.statusText), { answered: true });
  const changed = texts.get(path) !== text;
  texts.set(path, text);
  return { body, changed };
}

const SVG = "http://www.w3.org/2000/svg";
/** An element of a drawing. */
export function shape(tag, attributes = {}, ...children) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) if (value !== null && value !== undefined) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

/** A part of the address as it was written; one that no page wrote is taken as it is. */
function decoded(text) {
  try { return decodeURIComponent(text); } catch { return text; }
}

/** The view, what it is about, and its options: `#nodes/node-1?colour=cpu`. */
export function route() {
  const [path, query] = location.hash.slice(1).split("?"), [view, ...rest] = path.split("/").map(decoded);
  return { view, rest, query: new URLSearchParams(query || "") };
}

/** Writes options into the address without a step in the history; empty ones are left out. */
export function remember(options) {
  const { view, rest, query } = route();
  for (const [name, value] of Object.entries(options)) if (value) query.set(name, value); else query.delete(name);
  const text = query.toString();
  history.replaceState(null, "", `#${[view || "overview", ...rest.map(encodeURIComponent)].join("/")}${text ? `?${text}` : ""}`);
}

export const to = (text, ...path) => element("a", { href: `#${path.map(encodeURIComponent).join("/")}` }, text);
export const style = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
export const say = (where, text) => { if (where.textContent !== text) where.textContent = text; };
export const nothing = text => element("span", { class: "nothing" }, text);
export const known = value => value !== null && value !== undefined;
const formats = new Map();
export function number(value, digits = 0) {
  if (!formats.has(digits)) formats.set(digits, new Intl.NumberFormat("en", { maximumFractionDigits: digits }));
  return formats.get(digits).format(value);
}
export const count = (n, word) => `${number(n)} ${word}${n === 1 ? "" : "s"}`;
export const percent = value => `${(value * 100).toFixed(Math.abs(value) < 0.0995 ? 1 : 0)} %`;
export const signed = (value, digits = 0) => (value > 0 ? "+" : value < 0 ? "−" : "±") + number(Math.abs(value), digits);
/** "09:03:00" everywhere: languages differ in the digits of hours, and in what midnight is. */
export const clock = seconds => new Date(seconds * 1000).toLocaleTimeString("en-GB");
export const now = () => state.status ? state.status.time + (performance.now() - state.fetched) / 1000 : Date.now() / 1000;

/** The time of day, with the date unless it is today. */
export function when(seconds, time = clock(seconds)) {
  const then = new Date(seconds * 1000), today = new Date(now() * 1000).toDateString() === then.toDateString();
  return today ? time : `${then.toLocaleDateString("en-GB", { day: "numeric", month: "short" })} ${time}`;
}

/** "since 14:03": to the minute, with the date unless it is today. */
export const since = seconds => `since ${when(seconds, clock(seconds).slice(0, 5))}`;

export function ago(seconds) {
  if (seconds < 90) return `${Math.max(0, Math.round(seconds))} s`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min`;
  return seconds < 172800 ? `${(seconds / 3600).toFixed(1)} h` : `${Math.round(seconds / 86400)} d`;
}

export function duration(text) {
  const units = { ms: 0.001, s: 1, m: 60, h: 3600, d: 86400, "": 1 };
  const match = /^([\d.]+)(ms|s|m|h|d|)$/.exec(String(text ?? ""));
  return match ? Number(match[1]) * units[match[2]] : 30;
}

export function bytes(value) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let rank = 0;
  while (value >= 1024 && rank < units.length - 1) { value /= 1024; rank++; }
  return `${number(value, 1)} ${units[rank]}`;
}

export const banner = (kind, title, text) => element("p", { class: `banner ${kind}` }, element("strong", {}, title), " ", text);
export const tag = (kind, text) => element("span", { class: `tag ${kind}` }, text);

/** A table that scrolls sideways; `columns` are [heading, kind]. A cell that is null reads "unknown". */
export function table(title, columns, rows, empty) {
  const head = element("tr", {}, ...columns.map(([text, kind]) => element("th", { scope: "col", class: kind }, text)));
  const body = rows.map(row => element("tr", {}, ...row.map((cell, index) =>
    element(index ? "td" : "th", index ? { class: columns[index][1] } : { scope: "row" }, known(cell) ? cell : nothing("unknown")))));
  if (!body.length) body.push(element("tr", {}, element("td", { colspan: columns.length }, nothing(empty))));
  return element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": title },
    element("table", {}, element("caption", { class: "hidden" }, title), element("thead", {}, head), element("tbody", {}, ...body)));
}
