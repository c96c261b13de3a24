// The first screen: is it balanced, what is hot, what was done today, what stands in the way.
import { $, ago, clock, count, element, known, nothing, now, number, percent, read, remember, route, state, to } from "./common.js";
import { fleet, levels } from "./fleet.js";
import { histogram, pair, spark } from "./drawing.js";
import { Wall, colours } from "./wall.js";

let wall = null, seen = null, overview = null, history_ = null, taken = null;

const tile = (title, link, ...content) => element("div", { class: "tile" }, element("h3", {}, link ? element("a", { href: link }, title) : title), ...content);
const big = (text, kind = "") => element("p", { class: `big ${kind}` }, text);
const small = (...content) => element("p", { class: "small" }, ...content);

function balance() {
  const { balance: all, since } = overview, names = Object.keys(all).filter(name => known(all[name].now));
  if (!names.length) return tile("Balance", "#nodes", big("unknown"), small("No node is known."));
  const watched = names.filter(name => known(all[name].threshold)), counted = watched.length ? watched : names;
  const main = counted.reduce((a, b) => (all[b].now > all[a].now ? b : a));
  const trend = name => {
    const { now: value, before } = all[name];
    if (!known(before) || !before || state.status.time - since < 900) return "";
    const change = (value - before) / before;
    return Math.abs(change) < 0.02 ? "steady" : `${change < 0 ? "▼" : "▲"} ${percent(Math.abs(change))}`;
  };
  const change = trend(main);
  return tile("Balance", "#nodes", big(`±${(all[main].now * 100).toFixed(1)} points`),
    small(`of ${main} between nodes `, element("strong", { class: change.startsWith("▲") ? "failed" : change.startsWith("▼") ? "good" : "" }, change),
      change ? ` since ${clock(since).slice(0, 5)}` : known(since) ? ` watched for ${ago(Math.max(0, state.status.time - since))}` : ""),
    spark(history_?.times || [], history_?.spread[main] || [], { title: `spread of ${main} over time` }),
    small(...counted.filter(name => name !== main).map(name => `${name} ±${(all[name].now * 100).toFixed(1)} ${trend(name)} `)));
}

function heat() {
  const { hot, hottest } = overview;
  const rows = hottest.map(each => element("li", {}, to(each.node, "nodes", each.node), ` ${each.resource} `, element("strong", {}, percent(each.load))));
  const highest = Object.entries(overview.balance).filter(([, each]) => known(each.threshold) && known(each.highest)).map(([name, each]) => `${name} at most ${percent(each.highest)}`);
  return tile("Hot", "#nodes?show=hot", big(hot ? count(hot, "node") : "none", hot ? "failed" : "good"),
    ...(hot ? [element("ul", { class: "plain tight" }, ...rows), ...(hot > rows.length ? [small(element("a", { href: "#nodes?show=hot" }, `all ${number(hot)}`))] : [])]
      : [small(highest.join(", ") || "no resource has a threshold")]));
}

/** What evictions would have brought: "4.2 of 5.4 hot node-hours fewer". */
function brought({ hot_node_minutes: hot, spare_hot_node_minutes: spared }) {
  if (!known(hot) || !known(spared)) return "its effect on hot nodes is not known";
  const [whole, part] = [number(hot / 60, 1), number(Math.abs(spared) / 60, 1)];
  return spared < 0 ? `${part} more hot node-hours than ${whole}` : `${part} of ${whole} hot node-hours fewer`;
}

function today() {
  const { today: done } = overview, mode = state.status.modes.eviction, moved = ["evicted", "landed", "ready"].reduce((sum, key) => sum + (done.evictions[key] || 0), 0);
  const bad = ["failed", "stopped"].reduce((sum, key) => sum + (done.evictions[key] || 0), 0), tries = done.evictions.refused || 0;
  const notes = [...(bad ? [`${count(bad, "eviction")} failed or stopped`] : []), ...(tries ? [`${number(tries)} refused at the last moment`] : []),
    ...(done.replicas ? [`${count(done.replicas, "replica")} changed for power`] : [])];
  if (mode !== "on") {
    const { day = {}, week = {} } = done.would, would = known(day.evict) ? day.evict : done.moves;
    return tile("Last 24 hours", "#plans", big(mode === "dry-run" ? `would move ${count(would, "pod")}` : "nothing moved"),
      small(mode === "dry-run" ? `${count(done.plans, "plan")} in dry-run; nothing is evicted.` : "Evictions are off."),
      ...(known(day.evict) ? [small(`Switched on: ${brought(day)}.`), small(`In 7 days: ${count(week.evict, "pod")}, ${brought(week)}.`)] : []),
      small(...(notes.length ? [notes.join("; ")] : [])));
  }
  return tile("Last 24 hours", "#evictions", big(`${count(moved, "pod")} moved`),
    ...(known(done.predicted) ? [pair(done.predicted, done.measured, value => `${number(value * 100, 1)} points`),
      small(`taken off hot nodes${done.predicted > 0 ? `: ${number(done.measured / done.predicted * 100)} % of what was predicted` : ""}`)] : [small(moved ? "The effect is not measured yet." : `${count(done.plans, "plan")} made.`)]),
    small(notes.join("; ")));
}

const PLAIN = {
  "limit-total": "limit of a cycle", "limit-node": "limit of a node", "limit-namespace": "limit of a namespace", "limit-workload": "limit of a workload", pdb: "disruption budget",
  "single-replica": "single replica", "min-age": "too young", debounce: "not hot for long enough", cooldown: "node just relieved", relieved: "no longer needed", stale: "usage unknown", "node-fit": "no other node has room",
  reservation: "landing not steered", replacement: "rollout or replacement under way", daemonset: "DaemonSet", critical: "critical", "local-storage": "local storage", rate: "rate limit", gain: "does not pay", bare: "no controller", job: "a job",
};
export const plainly = check => PLAIN[check] ? `${check}: ${PLAIN[check]}` : check;

function obstacles() {
  const { held, obstacles: all, considered, today: done } = overview, summed = new Map();
  for (const each of all) summed.set(each.check, (summed.get(each.check) || 0) + each.pods);
  const list = [...summed].map(([check, pods]) => ({ check, pods })).sort((a, b) => b.pods - a.pods), most = Math.max(1, ...list.map(each => each.pods));
  if (held) return tile("What holds it back", "#evictions", big("held", "failed"), small(held));
  if (state.status.modes.eviction === "off") return tile("What holds it back", null, big("off"), small("BALLAST_EVICTION__MODE=dry-run makes plans and evicts nothing."));
  if (!list.length) return tile("What holds it back", "#plans", big("nothing"), small(considered ? "No pod was refused." : done.plans ? "No pod had to be considered." : "The leader has made no plan yet."));
  const rows = list.slice(0, 5).map(each => {
    const fill = element("span", { class: "soft-fill" });
    fill.style.width = `${each.pods / most * 100}%`;
    return element("li", {}, element("span", { class: "name", title: PLAIN[each.check] }, each.check), element("span", { class: "track", "aria-hidden": "true" }, fill), element("span", { class: "percent" }, number(each.pods)));
  });
  return tile("What holds it back", "#plans", small(`${count(considered, "pod")} looked at in the newest plans; refused by`), element("ul", { class: "funnel tight" }, ...rows));
}

function drawBars(colour) {
  const one = overview.balance[colour], box = $("overview-bars");
  if (!one) return box.replaceChildren(nothing(colour === "score" ? "Choose a resource to see its distribution." : "no data"));
  const at = name => levels()[name][colour], marks = [[at("low"), "low"], [at("high"), "high", "hot"], [at("over"), "taint"]].filter(([value]) => known(value));
  const past = known(overview.since) && state.status.time - overview.since >= 900;
  box.replaceChildren(histogram(one.bars, past ? one.bars_before : [], marks, colour),
    element("p", { class: "legend" }, element("span", { class: "key fill-key" }), `${colour} now `, ...(past ? [element("span", { class: "key outline-key" }), `at ${clock(overview.since).slice(0, 5)} `] : []),
      `mean ${known(one.mean) ? percent(one.mean) : "unknown"}, highest ${known(one.highest) ? percent(one.highest) : "unknown"}`));
}

function draw() {
  if (!overview || !seen) return;
  $("tiles").replaceChildren(balance(), heat(), today(), obstacles());
  const { query } = route(), colour = colours($("wall-colour"), seen.resources, query.get("colour")), group = $("wall-group").value = query.get("group") || "";
  wall ??= new Wall($("overview-wall"), node => { location.hash = `#nodes/${encodeURIComponent(node.name)}`; }, 330);
  wall.show(seen.nodes, colour, group, seen.resources);
  drawBars(colour);
}

/** Reads and draws what has changed. */
export async function refreshOverview() {
  if (!state.status.snapshot) return $("tiles").replaceChildren(tile("Balance", null, big("unknown"), small("The first cycle has not ended yet.")));
  const same = taken === state.status.snapshot.time;
  const [found, past, all] = await Promise.all([read("/api/v1/overview"), read("/api/v1/history"), same ? seen : fleet()]);
  if (same && !found.changed && overview) return;
  [overview, history_, seen, taken] = [found.body, past.body, all, all.time];
  draw();
}

export const redrawOverview = draw;
/** How many nodes were hot when this view was read last; null before. */
export const lastHot = () => overview?.hot ?? null;
$("wall-colour").addEventListener("change", event => { remember({ colour: event.target.value }); draw(); });
$("wall-group").addEventListener("change", event => { remember({ group: event.target.value }); draw(); });
export const since = () => now() - (overview?.since ?? now());
