import { $, MORE, PAGE, element, nothing, percent, read, say, state } from "./common.js";

const view = { sort: "cpu", down: true, limit: PAGE, filter: "", show: "", window: "" };
let nodes = [], resources = [], time = null, shownWindow = null, problem = "";
let levels = { high: 0.8, over: 0.9 };

const classOf = node => node.class || (node.state === "known" ? node.published.load : null);
const KEYS = {
  name: node => node.name,
  score: node => node.score,
  class: node => ({ low: 0, normal: 1, high: 2 })[classOf(node)],
};
const key = name => KEYS[name] || (node => node.load[name] && node.load[name].mean);

function matches(node) {
  if (view.filter && !node.name.toLowerCase().includes(view.filter)) return false;
  switch (view.show) {
    case "known": return node.state === "known";
    case "unknown": return node.state !== "known";
    case "cordoned": return !node.schedulable;
    case "": return true;
    default: return classOf(node) === view.show;
  }
}

function sorted(list) {
  const value = key(view.sort), sign = view.down ? -1 : 1;
  return list.map(node => [value(node), node]).sort(([a, x], [b, y]) => {
    const noA = a === null || a === undefined, noB = b === null || b === undefined;
    if (noA || noB) return noA - noB || (x.name < y.name ? -1 : 1);
    if (a === b) return x.name < y.name ? -1 : 1;
    return (a < b ? -1 : 1) * sign;
  }).map(([, node]) => node);
}

function meter(load) {
  if (!load || load.mean === null) return nothing("unknown");
  const at = value => `${Math.min(100, Math.max(0, value * 100))}%`;
  const fill = element("span", { class: `fill${load.mean >= levels.over ? " over" : load.mean >= levels.high ? " high" : ""}` });
  fill.style.width = at(load.mean);
  const bar = element("div", { class: "meter", "aria-hidden": "true" }, fill);
  if (load.std) {
    const spread = element("span", { class: "spread" });
    spread.style.left = at(load.mean - load.std);
    spread.style.right = `${100 - parseFloat(at(load.mean + load.std))}%`;
    bar.append(spread);
  }
  if (load.p95 !== null) {
    const tick = element("span", { class: "tick" });
    tick.style.left = `min(${at(load.p95)}, calc(100% - 2px))`;
    bar.append(tick);
  }
  return element("div", { class: "load" }, bar,
    element("span", { class: "percent" }, percent(load.mean)),
    element("span", { class: "soft" }, load.std === null ? "" : `±${(load.std * 100).toFixed(1)}`),
    element("span", { class: "soft" }, load.p95 === null ? "" : `p95 ${(load.p95 * 100).toFixed(0)}`));
}

function label(node) {
  if (node.state !== "known") {
    const lost = node.lost.length ? `, lost ${node.lost.join(" and ")}` : "";
    return element("span", { class: `tag ${node.state}` }, `unknown: ${node.state}${lost}`);
  }
  const load = classOf(node);
  return load ? element("span", { class: `tag ${load}` }, load) : nothing("none");
}

function row(node) {
  const cells = [element("th", { scope: "row" },
    element("a", { href: `/api/v1/nodes/${encodeURIComponent(node.name)}` }, node.name), ...(node.schedulable ? [] : [" ", element("span", { class: "tag off" }, "not schedulable")]))];
  cells.push(element("td", {}, label(node)));
  for (const resource of resources) cells.push(element("td", {}, meter(node.load[resource])));
  cells.push(element("td", { class: "number" }, node.score === null ? nothing("unknown") : String(node.score)));
  cells.push(element("td", { class: "number" }, node.published.score === null ? nothing("none") : node.published.score));
  return element("tr", node.state === "known" ? {} : { class: "unknown" }, ...cells);
}

function heading(name, text, sortable = true, number = false) {
  const attributes = { scope: "col" };
  if (number) attributes.class = "number";
  if (!sortable) return element("th", attributes, text);
  if (view.sort === name) attributes["aria-sort"] = view.down ? "descending" : "ascending";
  const button = element("button", { type: "button", "data-sort": name }, text + (view.sort === name ? (view.down ? " ▾" : " ▴") : ""));
  button.addEventListener("click", () => {
    view.down = view.sort === name ? !view.down : name !== "name";
    view.sort = name;
    drawNodes();
  });
  return element("th", attributes, button);
}

function drawNodes() {
  const table = $("nodes"), shown = sorted(nodes.filter(matches)), held = document.activeElement.dataset.sort;
  table.tHead.replaceChildren(element("tr", {},
    heading("name", "Node"), heading("class", "Class"), ...resources.map(resource => heading(resource, resource)),
    heading("score", "Score", true, true), heading("published", "Published", false, true)));
  if (held) table.tHead.querySelector(`[data-sort="${CSS.escape(held)}"]`)?.focus();
  table.tBodies[0].replaceChildren(...shown.slice(0, view.limit).map(row));
  say($("count"), problem || (nodes.length ? `${Math.min(shown.length, view.limit).toLocaleString("en")} of ${shown.length.toLocaleString("en")} shown` : "no node is selected"));
  $("more").hidden = shown.length <= view.limit;
}

/** Reads the nodes of the chosen window, unless this snapshot is already shown. */
export async function refreshNodes() {
  const snapshot = state.status.snapshot;
  if (!snapshot) { nodes = []; problem = "no data yet"; return drawNodes(); }
  if (!snapshot.windows.includes(view.window)) {
    view.window = snapshot.windows[0];
    $("window").replaceChildren(...snapshot.windows.map(name => element("option", { value: name }, name)));
  }
  if (snapshot.time === time && view.window === shownWindow) return;
  try {
    const { body } = await read(`/api/v1/nodes?window=${encodeURIComponent(view.window)}`);
    ({ nodes, resources } = body);
    [time, shownWindow, problem] = [body.time, body.window, ""];
  } catch (error) {
    if (!error.answered) throw error;
    problem = error.message;
  }
  drawNodes();
}

export async function readLevels() {
  const settings = Object.fromEntries((await read("/api/v1/config")).body.map(entry => [entry.name, Number(entry.value)]));
  levels = { high: settings.BALLAST_PUBLISHING__HIGH || levels.high, over: settings.BALLAST_PUBLISHING__OVERLOADED || levels.over };
}

$("filter").addEventListener("input", event => { view.filter = event.target.value.trim().toLowerCase(); view.limit = PAGE; drawNodes(); });
$("show").addEventListener("change", event => { view.show = event.target.value; view.limit = PAGE; drawNodes(); });
$("window").addEventListener("change", event => { view.window = event.target.value; refreshNodes().catch(() => {}); });
$("more").addEventListener("click", () => { view.limit += MORE; drawNodes(); });
