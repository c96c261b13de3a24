// Evictions: what became of each, step by step, and whether it brought what was predicted.
import { $, MORE, ago, banner, bytes, clock, count, element, known, nothing, now, number, read, remember, route, say, signed, table, tag, to, when } from "./common.js";
import { pair } from "./drawing.js";

const STATUSES = {
  recorded: ["high", "recorded"], evicted: ["high", "evicted, no replacement yet"], landed: ["normal", "replacement bound, not ready yet"],
  ready: ["on", "replacement ready"], refused: ["off", "refused"], failed: ["bad-tag", "failed"], stopped: ["bad-tag", "stopped"],
};
const STEPS = ["recorded", "evicted", "landed", "ready", "measured"];
const PAGE = 30;
let limit = PAGE, document_ = null;

const points = change => `${signed(change * 100, 1)} %`;

/** The known effects: changes of load by node, the spread between nodes, waiting pods that start. */
function effect(value) {
  const found = value || {}, parts = [];
  for (const [name, changes] of Object.entries(found.load || {})) {
    const each = Object.entries(changes).filter(([, change]) => known(change)).map(([resource, change]) => `${resource} ${points(change)}`);
    if (each.length) parts.push(`${name}: ${each.join(", ")}`);
  }
  const spread = Object.entries(found.after || {}).filter(([name, after]) => known(after) && known((found.before || {})[name]));
  if (spread.length) parts.push(`σ ${spread.map(([name, after]) => `${name} ${number(found.before[name], 3)} → ${number(after, 3)}`).join(", ")}`);
  const starts = found.starts ?? found.started;
  if (known(starts)) parts.push(`${count(starts, "waiting pod")} started`);
  if (known(found.share)) parts.push(`${number(found.share * 100)} % of what was predicted`);
  return parts;
}

function landing(one) {
  if (!one.landed_on) return one.to ? `to ${one.to}` : "not steered";
  if (!one.to) return one.landed_on;
  return one.landed_on === one.to ? `${one.landed_on}, as planned` : `${one.landed_on}, planned was ${one.to}`;
}

/** Load that was to leave the source, and that left it, of the resource that was to fall most. */
function relief(one) {
  const predicted = one.predicted?.load?.[one.from] || {}, measured = one.measured?.load?.[one.from] || {};
  const [name] = Object.entries(predicted).filter(([, change]) => known(change)).sort(([, a], [, b]) => a - b)[0] || [];
  return name === undefined ? null : [name, predicted[name], measured[name] ?? null];
}

function timeline(one) {
  const bad = ["refused", "failed", "stopped"].includes(one.status), measured = known(one.measured?.share) || Object.keys(one.measured?.load || {}).length > 0;
  const reached = measured ? 4 : one.status === "ready" ? 3 : one.status === "landed" ? 2 : one.status === "evicted" ? 1 : 0;
  const notes = { recorded: clock(one.time), landed: one.landed_on || (one.to ? `to ${one.to}` : ""), ready: one.ready_at ? `after ${ago(one.ready_at - one.time)}` : "", measured: known(one.measured?.share) ? `${number(one.measured.share * 100)} %` : "" };
  return element("ol", { class: "timeline" }, ...STEPS.map((name, step) => element("li", { class: step <= reached && !(bad && step) ? "done" : bad && step === 1 ? "bad-step" : "" }, element("span", { class: "dot", "aria-hidden": "true" }),
    element("span", {}, bad && step === 1 ? one.status : name), element("span", { class: "hidden" }, step <= reached && !(bad && step) ? ": done" : bad && step === 1 ? "" : ": not yet"), element("span", { class: "soft small" }, notes[name] || ""))));
}

const chosen = () => { const { query } = route(); return { find: (query.get("find") || "").toLowerCase(), show: query.get("show") || "" }; };
const fits = (one, { find, show }) => (!find || [one.pod, one.workload, one.from, one.to, one.landed_on].some(text => text && text.toLowerCase().includes(find))) &&
  (!show || (show === "open" ? ["recorded", "evicted", "landed"].includes(one.status) : show === "done" ? one.status === "ready" : ["refused", "failed", "stopped"].includes(one.status)));

function card(one) {
  const bad = ["refused", "failed", "stopped"].includes(one.status), folds = matchMedia("(max-width: 40rem)").matches, opened = folds && $("evictions-recent").querySelector(`details[data-id="${CSS.escape(`${one.plan} ${one.pod}`)}"]`)?.open;
  const [kind, words] = STATUSES[one.status] || ["off", one.status], found = relief(one), [predicted, measured] = [effect(one.predicted), effect(one.measured)];
  const title = [tag(kind, words), element("span", { class: "soft" }, `${when(one.time)}, ${one.kind || ""}`)], body = [
    element("p", { class: "small" }, to(one.from, "nodes", one.from), " → ", landing(one), one.workload ? element("span", { class: "soft" }, ` · ${one.workload}`) : ""),
    timeline(one),
    ...(found ? [element("p", { class: "small soft" }, `${found[0]} of ${one.from}`), pair(found[1], found[2])] : []),
    ...(one.why ? [element("p", { class: bad ? "failed" : "small soft" }, one.why)] : []),
    element("details", {}, element("summary", {}, "All numbers"), element("p", { class: "small" }, `Predicted: ${predicted.join("; ") || "unknown"}`), element("p", { class: "small" }, `Measured: ${measured.join("; ") || "not yet"}`),
      element("p", { class: "small" }, "Plan ", to(one.plan, "plans", one.plan)))];
  const named = to(one.pod, "pods", ...one.pod.split("/"));
  if (folds) return element("li", { class: "eviction" }, element("details", { "data-id": `${one.plan} ${one.pod}`, open: opened ? "" : null }, element("summary", {}, element("strong", {}, one.pod), " ", ...title), element("p", {}, named), ...body));
  return element("li", { class: "eviction" }, element("div", { class: "title" }, element("strong", {}, named), ...title), ...body);
}

function drawRecent() {
  const shown = document_.recent.filter(one => fits(one, chosen())), kept = shown.slice(0, limit);
  const more = element("button", { type: "button", id: "evictions-more" }, "Show more");
  more.hidden = shown.length <= limit;
  more.addEventListener("click", () => { limit += MORE; drawRecent(); $("evictions-more")?.focus(); });
  say($("evictions-count"), document_.recent.length ? `${number(kept.length)} of ${number(shown.length)} shown` : "");
  $("evictions-recent").replaceChildren(kept.length ? element("ol", { class: "evictions" }, ...kept.map(card)) :
    element("p", {}, nothing(document_.recent.length ? "none matches the filter" : document_.mode === "on" ? "the leader remembers no eviction; Last 24 hours has the counts" : "no pod has been evicted: the mode is not on")), more);
}

function reservations() {
  const rows = document_.reservations.map(one => [one.node, one.for || "", one.kind === "waiting" ? "a waiting pod" : one.kind || "",
    known(one.until) ? (one.until > now() ? `${ago(one.until - now())} left` : "expired") : null, known(one.cpu) ? `${number(one.cpu, 3)} cores` : null, known(one.memory) ? bytes(one.memory) : null]);
  return table("Reserved room", [["Node"], ["For"], ["Purpose"], ["Expires in"], ["cpu", "number"], ["memory", "number"]], rows, "no room is reserved now");
}

const LIMITS = { total: "in one cycle", node: "from one node in a cycle", namespace: "from one namespace in a cycle", workload: "of one workload", rate: "over time" };

function head() {
  const shown = [], { mode, paused, breaker, limits } = document_;
  if (mode === "off") shown.push(banner("warn", "Off.", "No plan is made and no pod is evicted."));
  if (mode === "dry-run") shown.push(banner("warn", "Dry-run.", "Plans are made and checked; no pod is evicted."));
  if (paused) shown.push(banner("warn", "Paused.", paused));
  if (breaker) shown.push(banner("bad", "Stopped.", breaker));
  const facts = Object.entries(limits || {}).map(([name, value]) => [`At most ${LIMITS[name] || name}`, [value].flat().map(each => /^0(%|\/.*)?$/.test(each) || !known(each) ? "no limit" : String(each)).join(", ") || "no limit"]);
  if (facts.length) shown.push(element("dl", { class: "numbers" }, ...facts.flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, value)])));
  return shown;
}

export async function refreshEvictions() {
  const { body, changed } = await read("/api/v1/evictions"), first = !document_, { query } = route();
  document_ = body;
  for (const [id, name] of [["evictions-filter", "find"], ["evictions-show", "show"]]) if (document.activeElement !== $(id)) $(id).value = query.get(name) || "";
  const held = reservations();
  if (held.textContent !== $("evictions-held").textContent) $("evictions-held").replaceChildren(held);
  if (!changed && !first) return;
  $("evictions-head").replaceChildren(...head());
  drawRecent();
}

const change = options => { remember(options); limit = PAGE; if (document_) drawRecent(); };
$("evictions-filter").addEventListener("input", event => change({ find: event.target.value.trim() }));
$("evictions-show").addEventListener("change", event => change({ show: event.target.value }));
