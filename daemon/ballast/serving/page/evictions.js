import { $, MORE, PAGE, ago, banner, bytes, count, element, known, nothing, now, number, read, say, signed, table, tag, when } from "./common.js";

const STATUSES = {
  recorded: ["high", "eviction recorded"], evicted: ["high", "evicted, no replacement yet"], landed: ["normal", "replacement bound, not ready yet"],
  ready: ["on", "replacement ready"], refused: ["off", "refused"], failed: ["bad-tag", "failed"], stopped: ["bad-tag", "stopped"],
};
const view = { filter: "", show: "", limit: PAGE };
let document_ = null;

const points = change => `${signed(change * 100, 1)} %`;

/** The known effects: changes of load by node, the spread between nodes, waiting pods that start. */
function effect(value) {
  const found = value || {}, parts = [];
  for (const [node, changes] of Object.entries(found.load || {})) {
    const each = Object.entries(changes).filter(([, change]) => known(change)).map(([name, change]) => `${name} ${points(change)}`);
    if (each.length) parts.push(`${node}: ${each.join(", ")}`);
  }
  const spread = Object.entries(found.after || {}).filter(([name, after]) => known(after) && known((found.before || {})[name]));
  if (spread.length) parts.push(`σ ${spread.map(([name, after]) => `${name} ${number(found.before[name], 3)} → ${number(after, 3)}`).join(", ")}`);
  const starts = found.starts ?? found.started;
  if (known(starts)) parts.push(`${count(starts, "waiting pod")} started`);
  if (known(found.share)) parts.push(`${number(found.share * 100)} % of what was predicted`);
  return parts.length ? element("ul", { class: "plain" }, ...parts.map(part => element("li", {}, part))) : nothing("unknown");
}

function landing(one) {
  if (!one.landed_on) return one.to ? `to ${one.to}` : nothing("not steered");
  if (!one.to) return one.landed_on;
  return one.landed_on === one.to ? `${one.landed_on}, as planned` : `${one.landed_on}, planned was ${one.to}`;
}

const fits = one => (!view.filter || [one.pod, one.workload, one.from, one.to, one.landed_on].some(text => text && text.toLowerCase().includes(view.filter))) &&
  (!view.show || (view.show === "open" ? ["recorded", "evicted", "landed"].includes(one.status) : view.show === "done" ? one.status === "ready" : ["refused", "failed", "stopped"].includes(one.status)));

function recent() {
  const shown = document_.recent.filter(fits), kept = shown.slice(0, view.limit);
  const rows = kept.map(one => {
    const [kind, words] = STATUSES[one.status] || ["off", one.status];
    const ready = one.ready_at ? ` after ${ago(one.ready_at - one.time)}` : "";
    return [element("span", {}, one.pod, element("span", { class: "soft" }, one.workload ? ` ${one.workload}` : "")), when(one.time), one.kind || "",
      one.from || "", landing(one), element("span", {}, tag(kind, words), ready), effect(one.predicted), effect(one.measured), one.why || ""];
  });
  const more = element("button", { type: "button", id: "evictions-more" }, "Show more");
  more.hidden = shown.length <= view.limit;
  more.addEventListener("click", () => { view.limit += MORE; drawRecent(); $("evictions-more")?.focus(); });
  say($("evictions-count"), document_.recent.length ? `${number(kept.length)} of ${number(shown.length)} shown` : "");
  return [table("Recent evictions", [["Pod"], ["When"], ["Plan"], ["From"], ["Landed"], ["Status"], ["Predicted"], ["Measured"], ["Why"]], rows,
    document_.recent.length ? "none matches the filter" : document_.mode === "on" ? "no pod has been evicted yet" : "no pod has been evicted: the mode is not on"), more];
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
  const facts = Object.entries(limits || {}).map(([name, value]) => [`At most ${LIMITS[name] || name}`, [value].flat().map(each => each === "0" || !known(each) ? "no limit" : String(each)).join(", ") || "no limit"]);
  if (facts.length) shown.push(element("dl", { class: "numbers" }, ...facts.flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, value)])));
  return shown;
}

function drawRecent() { $("evictions-recent").replaceChildren(...recent()); }

export async function refreshEvictions() {
  const { body, changed } = await read("/api/v1/evictions");
  document_ = body;
  const held = reservations();
  if (held.textContent !== $("evictions-held").textContent) $("evictions-held").replaceChildren(held);
  if (!changed) return;
  $("evictions-head").replaceChildren(...head());
  drawRecent();
}

$("evictions-filter").addEventListener("input", event => { view.filter = event.target.value.trim().toLowerCase(); view.limit = PAGE; if (document_) drawRecent(); });
$("evictions-show").addEventListener("change", event => { view.show = event.target.value; view.limit = PAGE; if (document_) drawRecent(); });
