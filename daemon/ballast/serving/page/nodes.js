// All nodes: the wall, the table, and any time of the last 24 hours.
import { $, MORE, PAGE, ago, clock, element, known, nothing, now, number, percent, read, remember, route, say, state, to, when } from "./common.js";
import { fleet, hot, levels } from "./fleet.js";
import { refreshNode } from "./node.js";
import { Wall, colours, grouping } from "./wall.js";

const view = { sort: "", down: true, limit: PAGE };
let seen = null, taken = "", wall = null, times = [], problem = "", missed = 0;

const chosen = () => { const { query } = route(); return { filter: (query.get("find") || "").toLowerCase(), show: query.get("show") || "", at: query.get("at") || "", window: query.get("window") || "" }; };
const KEYS = { name: node => node.name, score: node => node.score, published: node => node.published, class: node => ({ low: 0, normal: 1, high: 2 })[node.class] };
const key = name => KEYS[name] || (node => seen.resources.includes(name) ? node.load(name) : null);

function matches(node, { filter, show }) {
  if (filter && !node.name.toLowerCase().includes(filter)) return false;
  switch (show) {
    case "hot": return hot(node, seen.resources);
    case "known": return node.state === "known";
    case "unknown": return node.state !== "known";
    case "cordoned": return !node.schedulable;
    case "": return true;
    default: return node.class === show;
  }
}

function sorted(list) {
  const value = key(view.sort || seen.resources[0]), sign = view.down ? -1 : 1;
  return list.map(node => [value(node), node]).sort(([a, x], [b, y]) => {
    if (!known(a) || !known(b)) return known(b) - known(a) || x.row - y.row;
    return a === b ? x.row - y.row : (a < b ? -1 : 1) * sign;
  }).map(([, node]) => node);
}

export function meter(load, resource) {
  if (!known(load)) return nothing("unknown");
  const { high, over } = levels();
  const fill = element("span", { class: `fill${load >= (over[resource] ?? 9) ? " over" : load >= (high[resource] ?? 9) ? " high" : ""}` });
  fill.style.width = `${Math.min(100, Math.max(0, load * 100))}%`;
  return element("div", { class: "load" }, element("span", { class: "percent" }, percent(load)), element("div", { class: "meter", "aria-hidden": "true" }, fill));
}

export function label(node, without = "none") {
  if (node.state !== "known") return element("span", { class: `tag ${node.state}` }, `unknown: ${node.state}`);
  return node.class ? element("span", { class: `tag ${node.class}` }, node.class) : nothing(without);
}

function row(node) {
  const without = seen.past ? "not kept" : "none";
  return element("tr", node.state === "known" ? {} : { class: "unknown" },
    element("th", { scope: "row" }, to(node.name, "nodes", node.name), ...(node.schedulable ? [] : [" ", element("span", { class: "tag off" }, "not schedulable")])),
    element("td", { class: "number" }, known(node.score) ? String(node.score) : nothing("unknown")),
    element("td", { class: "number" }, known(node.published) ? String(node.published) : nothing(without)),
    element("td", {}, label(node, without)),
    ...seen.resources.map(name => element("td", {}, meter(node.load(name), name))),
    ...[node.pool, node.zone].filter((_, index) => seen.places[index]).map(text => element("td", { class: "soft" }, text)));
}

function heading(name, text, kind) {
  const by = view.sort || seen.resources[0], attributes = { scope: "col", class: kind };
  if (by === name) attributes["aria-sort"] = view.down ? "descending" : "ascending";
  const button = element("button", { type: "button", "data-sort": name }, text + (by === name ? (view.down ? " ▾" : " ▴") : ""));
  button.addEventListener("click", () => { view.down = by === name ? !view.down : name !== "name"; view.sort = name; drawTable(); });
  return element("th", attributes, button);
}

function drawTable() {
  const table = $("nodes"), shown = sorted(seen.nodes.filter(node => matches(node, chosen()))), held = document.activeElement?.dataset.sort;
  seen.places = [seen.nodes.some(node => node.pool), seen.nodes.some(node => node.zone)];
  table.tHead.replaceChildren(element("tr", {}, heading("name", "Node"), heading("score", "Score", "number"), heading("published", "Label", "number"), heading("class", "Class"),
    ...seen.resources.map(name => heading(name, name)), ...["Pool", "Zone"].filter((_, index) => seen.places[index]).map(text => element("th", { scope: "col" }, text))));
  if (held) table.tHead.querySelector(`[data-sort="${CSS.escape(held)}"]`)?.focus();
  table.tBodies[0].replaceChildren(...shown.slice(0, view.limit).map(row));
  say($("count"), problem || (seen.nodes.length ? `${number(Math.min(shown.length, view.limit))} of ${number(shown.length)} shown` : "no node is selected"));
  $("more").hidden = shown.length <= view.limit;
}

function drawTime() {
  const { at } = chosen(), slider = $("time"), last = times.length;
  slider.max = String(last);
  slider.disabled = !last;
  const place = at ? times.indexOf(Number(at)) : -1;
  slider.value = String(place < 0 ? last : place);
  const text = place < 0 ? missed ? `${when(missed)} is not kept; this is now` : "now" : `${clock(times[place]).slice(0, 5)}, ${ago(now() - times[place])} ago`;
  slider.setAttribute("aria-valuetext", text);
  say($("time-text"), last || missed ? text : "now; nothing older is kept yet");
}

function draw() {
  if (!seen) return;
  const { query } = route();
  for (const [id, name] of [["filter", "find"], ["show", "show"]]) if (document.activeElement !== $(id)) $(id).value = query.get(name) || "";
  const colour = colours($("nodes-colour"), seen.resources, query.get("colour")), group = query.get("group") || "";
  wall ??= new Wall($("nodes-wall"), node => { location.hash = `#nodes/${encodeURIComponent(node.name)}`; }, 260);
  $("nodes-group").value = grouping(seen.nodes, group) || "none";
  wall.show(seen.nodes.filter(node => matches(node, chosen())), colour, group, seen.resources);
  drawTime();
  drawTable();
}

async function refreshList() {
  const { snapshot } = state.status, wanted = chosen();
  if (!snapshot) { say($("count"), "no data yet"); return; }
  if (!$("window").options.length) $("window").replaceChildren(...snapshot.windows.map(name => element("option", { value: name }, name)));
  const window = snapshot.windows.includes(wanted.window) ? wanted.window : snapshot.windows[0];
  $("window").value = window;
  const asked = wanted.at ? `at ${wanted.at}` : `${window} ${snapshot.time}`;
  if (asked === taken) return;
  try {
    times = (await read("/api/v1/history")).body.times.slice(0, -1);
    if (wanted.at && !(Number(wanted.at) >= times[0])) return forget(wanted.at);
    seen = await fleet({ window, at: wanted.at });
    [taken, problem] = [asked, ""];
  } catch (error) {
    if (!error.answered) throw error;
    if (wanted.at) return forget(wanted.at);
    problem = error.message;
  }
  draw();
}

function forget(at) {
  missed = Number(at) || 0;
  remember({ at: "" });
  return refreshList();
}

/** The list, or one node. */
export async function refreshNodes() {
  const [name] = route().rest;
  $("nodes-list").hidden = Boolean(name);
  $("node-page").hidden = !name;
  if (name) return refreshNode(name);
  await refreshList();
}

export const redrawNodes = () => { if (seen && !route().rest.length) draw(); };

const change = options => { remember(options); view.limit = PAGE; draw(); };
$("filter").addEventListener("input", event => change({ find: event.target.value.trim() }));
$("show").addEventListener("change", event => change({ show: event.target.value }));
$("nodes-colour").addEventListener("change", event => change({ colour: event.target.value }));
$("nodes-group").addEventListener("change", event => change({ group: event.target.value }));
$("window").addEventListener("change", event => { remember({ window: event.target.value }); refreshList().catch(() => {}); });
$("time").addEventListener("input", event => { missed = 0; remember({ at: String(times[Number(event.target.value)] ?? "") }); drawTime(); refreshList().catch(() => {}); });
$("more").addEventListener("click", () => { view.limit += MORE; drawTable(); });
