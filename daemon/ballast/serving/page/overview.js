// The first screen: every node in its place; what was won since midnight, what needs somebody, what comes next.
import { $, ago, clock, count, element, known, nothing, number, percent, read, remember, route, say, state, to } from "./common.js";
import { fleet, levels } from "./fleet.js";
import { histogram, spark } from "./drawing.js";
import { Wall, colours, grouping } from "./wall.js";

let wall = null, seen = null, overview = null, history_ = null, taken = null;

const tile = (title, link, ...content) => element("div", { class: "tile" }, element("h3", {}, link ? element("a", { href: link }, title) : title), ...content);
const big = (text, kind = "") => element("p", { class: `big ${kind}` }, text);
const small = (...content) => element("p", { class: "small" }, ...content);
const hours = minutes => number(minutes / 60, 1);

/** Hot node-hours, with Ballast and without; the same measure where evictions act and where they would. */
function today() {
  const { today: done } = overview, mode = state.status.modes.eviction, { evicted = 0, failed = 0, refused = 0 } = done.evictions, day = done.would.day || {};
  const { hot_node_minutes: hot } = done, without = done.hot_node_minutes_without;
  const notes = [...(failed ? [`${count(failed, "eviction")} failed`] : []), ...(refused ? [`${number(refused)} refused by the API server`] : []),
    ...(done.replicas ? [`${count(done.replicas, "replica")} changed for power`] : [])];
  const moved = mode === "on" || evicted ? `${count(evicted, "pod")} moved` : "nothing moved";
  const would = known(day.evict) ? [small(`Switched on, evictions would move ${count(day.evict, "pod")}`, known(day.spare_hot_node_minutes) && known(day.hot_node_minutes) ? `: ${hours(Math.max(0, day.hot_node_minutes - day.spare_hot_node_minutes))} instead of ${hours(day.hot_node_minutes)} hot node-hours a day.` : ".")] : [];
  return tile("Since midnight (UTC)", mode === "on" ? "#evictions" : "#plans", big(known(hot) ? `${hours(hot)} hot node-hours` : "not known yet"),
    ...(known(without) && known(hot) ? [small(element("strong", { class: without > hot ? "good" : "" }, `${hours(without)} without the moves`))] : []),
    small([moved, ...notes].join("; "), "."), ...would);
}

/** What only a person can do; the incident above has each with its cause. */
function needed() {
  const found = state.status.wrong.filter(each => each.tense !== "recovering"), grave = found.filter(each => each.rank !== "tuning"), shown = grave.length ? grave : found;
  const { modes, paused } = state.status, mode = modes.eviction, still = mode !== "on" ? mode === "dry-run" ? "in dry-run" : "off" : overview?.held || paused.eviction ? "held" : "";
  if (!shown.length) return tile("Needs you", null, big("nothing", "good"), small(overview?.hot ? `${count(overview.hot, "node")} hot${still ? `, and evictions are ${still}` : ": Ballast is at it"}.` : "All that Ballast watches is as it should be."));
  return tile("Needs you", null, big(grave.length ? count(grave.length, "thing") : "could be better", grave.length ? "failed" : ""),
    element("ul", { class: "plain tight" }, ...shown.slice(0, 3).map(each => element("li", {}, element("strong", {}, each.title), element("br"), each.next))));
}

function next() {
  const { plan, held } = overview, mode = state.status.modes.eviction;
  if (held) return tile("Next", "#evictions", big("held", "failed"), small(`Nothing is evicted: ${held}.`));
  if (mode === "off") return tile("Next", null, big("off"), small("BALLAST_EVICTION__MODE=dry-run makes plans and evicts nothing."));
  if (!plan) return tile("Next", "#plans", big("nothing to move"), small(overview.today.plans ? "The newest plans have no step." : "The leader has made no plan yet."));
  const rows = plan.first.map(each => element("li", {}, each.pod, element("span", { class: "soft" }, ` ${each.from} → ${each.to ?? "elsewhere"}`)));
  return tile("Next", `#plans/${plan.id}`, big(`${plan.kind}: ${count(plan.steps, "pod")}`),
    small(`${plan.mode === "on" ? "planned" : "would move, planned"} ${ago(Math.max(0, state.status.time - plan.time))} ago`), element("ul", { class: "plain tight" }, ...rows));
}

/** Each watched resource, in the same order for ever. */
function drawBalance() {
  const { balance: all, since } = overview, names = Object.keys(all).filter(name => known(all[name].threshold)).sort();
  const rows = names.map(name => {
    const { now, before, mean, highest } = all[name], old = known(before) && before && state.status.time - since >= 900, change = old && known(now) ? (now - before) / before : 0;
    return element("li", {}, element("strong", {}, `${name} `), known(now) ? `±${(now * 100).toFixed(1)} points ` : nothing("unknown "),
      element("span", { class: change < -0.02 ? "good" : change > 0.02 ? "failed" : "soft" }, old ? (Math.abs(change) < 0.02 ? `steady since ${clock(since).slice(0, 5)}` : `${change < 0 ? "▼" : "▲"} ${percent(Math.abs(change))} since ${clock(since).slice(0, 5)}`) : ""),
      element("span", { class: "soft" }, known(mean) ? ` mean ${percent(mean)}, highest ${percent(highest)}` : ""), spark(history_?.times || [], history_?.spread[name] || [], { title: `spread of ${name} over time` }));
  });
  const hottest = overview.hottest.map(each => element("li", {}, to(each.node, "nodes", each.node), ` ${each.resource} `, element("strong", {}, percent(each.load))));
  $("balance").replaceChildren(rows.length ? element("ul", { class: "plain" }, ...rows) : nothing("no resource has a threshold"),
    ...(overview.hot ? [small(element("a", { href: "#nodes?show=hot" }, `${count(overview.hot, "node")} hot`), ", the hottest:"), element("ul", { class: "plain tight" }, ...hottest)] : []));
}

function drawObstacles() {
  const summed = new Map();
  for (const each of overview.obstacles) summed.set(each.plain, (summed.get(each.plain) || 0) + each.pods);
  const list = [...summed].sort((a, b) => b[1] - a[1]), most = Math.max(1, ...list.map(([, pods]) => pods));
  if (!list.length) return $("obstacles").replaceChildren(nothing(overview.considered ? "No pod was refused." : "No pod had to be considered."));
  $("obstacles").replaceChildren(small(`${count(overview.considered, "pod")} looked at in the newest plans`), element("ul", { class: "funnel tight" }, ...list.slice(0, 6).map(([plain, pods]) => {
    const fill = element("span", { class: "soft-fill" });
    fill.style.width = `${pods / most * 100}%`;
    return element("li", {}, element("span", { class: "name" }, plain), element("span", { class: "track", "aria-hidden": "true" }, fill), element("span", { class: "percent" }, number(pods)));
  })));
}

function drawBars(colour) {
  const one = overview.balance[colour], box = $("overview-bars");
  if (!one) return box.replaceChildren(nothing(colour === "score" ? "Choose a resource to see its distribution." : "no data"));
  const at = name => levels()[name][colour], marks = [[at("low"), "low"], [at("high"), "high", "hot"], [at("over"), "taint"]].filter(([value]) => known(value));
  const past = known(overview.since) && state.status.time - overview.since >= 900;
  box.replaceChildren(histogram(one.bars, past ? one.bars_before : [], marks, colour),
    element("p", { class: "legend" }, element("span", { class: "key fill-key" }), `${colour} now: mean ${known(one.mean) ? percent(one.mean) : "unknown"}, highest ${known(one.highest) ? percent(one.highest) : "unknown"} `,
      ...(past ? [element("span", { class: "key outline-key" }), `at ${clock(overview.since).slice(0, 5)}`] : [])));
}

/** On a screen on the wall all the room below the head, else a third of the window. */
const tallest = () => document.body.classList.contains("wall") ? Math.max(200, innerHeight - $("overview-wall").getBoundingClientRect().top - 80) : Math.max(240, Math.min(420, innerHeight * 0.4));

function draw() {
  if (!overview || !seen) return;
  $("wall-waits").textContent = seen.nodes.length ? "" : "No node is selected.";
  $("tiles").replaceChildren(today(), needed(), next());
  say($("doing"), overview.doing ?? "");
  const { query } = route(), colour = colours($("wall-colour"), seen.resources, query.get("colour")), group = query.get("group") || "";
  wall ??= new Wall($("overview-wall"), node => { location.hash = `#nodes/${encodeURIComponent(node.name)}`; }, tallest);
  if (seen.nodes.length) $("wall-group").value = grouping(seen.nodes, group) || "none";
  wall.show(seen.nodes, colour, group, seen.resources);
  wall.spark(overview.moves);
  for (const part of [drawBalance, drawObstacles]) part();
  drawBars(colour);
}

/** Reads and draws what has changed. */
export async function refreshOverview() {
  if (!state.status.snapshot) {
    for (const id of ["wall-waits", "balance", "overview-bars", "obstacles"]) $(id).replaceChildren(nothing("No node is known yet: the first cycle has not ended."));
    return $("tiles").replaceChildren(needed());
  }
  const same = taken === state.status.snapshot.time;
  const [found, past, all] = await Promise.all([read("/api/v1/overview"), read("/api/v1/history").catch(error => { if (error.lost) throw error; return { body: null }; }), same ? seen : fleet()]);
  const told = JSON.stringify(state.status.wrong.map(each => [each.type, each.tense]));
  if (same && !found.changed && overview && told === refreshOverview.told) return;
  [overview, history_, seen, taken, refreshOverview.told] = [found.body, past.body, all, all.time, told];
  draw();
}

export const redrawOverview = draw;
$("wall-colour").addEventListener("change", event => { remember({ colour: event.target.value }); draw(); });
$("wall-group").addEventListener("change", event => { remember({ group: event.target.value }); draw(); });
addEventListener("resize", () => { if (document.body.classList.contains("wall")) draw(); });
