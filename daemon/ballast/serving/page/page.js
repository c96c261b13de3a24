"use strict";

// Values may be missing anywhere: null means unknown, and unknown is never shown as 0.
const PAGE = 100, PERIOD = 5000;
const $ = id => document.getElementById(id);
const view = { sort: "cpu", down: true, limit: PAGE, filter: "", show: "", window: "" };
let status = null, fetched = 0, nodes = [], resources = [], nodesTime = null, nodesWindow = null, nodesError = "";
let levels = { high: 0.8, over: 0.9 };

function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

async function read(path) {
  const response = await fetch(path, { cache: "no-cache" });
  const body = await response.json();
  if (!response.ok) throw Object.assign(new Error(body.error || response.statusText), { answered: true });
  return body;
}

const say = (where, text) => { if (where.textContent !== text) where.textContent = text; };
const count = (n, word) => `${n.toLocaleString("en")} ${word}${n === 1 ? "" : "s"}`;
const percent = value => `${(value * 100).toFixed(value < 0.0995 ? 1 : 0)} %`;
const clock = seconds => new Date(seconds * 1000).toLocaleTimeString([], { hour12: false });
const now = () => status ? status.time + (performance.now() - fetched) / 1000 : Date.now() / 1000;
function ago(seconds) {
  if (seconds < 90) return `${Math.max(0, Math.round(seconds))} s`;
  return seconds < 5400 ? `${Math.round(seconds / 60)} min` : `${(seconds / 3600).toFixed(1)} h`;
}
function duration(text) {
  const units = { ms: 0.001, s: 1, m: 60, h: 3600, d: 86400, "": 1 };
  const match = /^([\d.]+)(ms|s|m|h|d|)$/.exec(String(text ?? ""));
  return match ? Number(match[1]) * units[match[2]] : 30;
}

/* ---- the whole ---- */

function drawHeadline() {
  const line = $("headline"), snapshot = status && status.snapshot;
  line.className = "";
  if (!status) return;
  if (!snapshot) { line.textContent = "No data yet: the first cycle has not ended."; return; }
  const age = now() - snapshot.time, stale = age > 3 * duration(status.interval) + 30;
  const unknown = [snapshot.silent && `${snapshot.silent.toLocaleString("en")} silent`, snapshot.young && `${snapshot.young.toLocaleString("en")} young`].filter(Boolean);
  line.textContent = `${snapshot.known.toLocaleString("en")} of ${count(snapshot.nodes, "node")} known` +
    (unknown.length ? ` (${unknown.join(", ")})` : "") + `; data ${ago(age)} old${stale ? ", which is too old" : ""}`;
  line.classList.toggle("stale", stale);
}

function drawFacts() {
  const sources = [...new Set(Object.values(status.snapshot ? status.snapshot.sources : {}))];
  $("facts").replaceChildren(...[
    status.leader ? "Leader: this replica writes" : "Follower: another replica writes",
    status.ready ? "ready" : "not ready",
    ...sources.map(source => `source ${source}`),
  ].map(text => element("li", {}, text)));
  $("version").textContent = `Ballast ${status.version}`;
}

function banner(kind, title, text) {
  return element("p", { class: `banner ${kind}` }, element("strong", {}, title), text);
}

function drawBanners(lost) {
  const shown = [];
  if (lost) shown.push(banner("bad", "No contact with Ballast.", `Last answer ${status ? ago((performance.now() - fetched) / 1000) + " ago" : "never"}; what is shown below may be wrong.`));
  if (status && status.frozen) shown.push(banner("bad", "Frozen.", "So much of the cluster is silent that absence would make the others look better. Nothing is published, /watcher answers 500, nothing acts on loads until enough nodes are known again."));
  if (status && !status.snapshot) shown.push(banner("warn", "Dark.", "Nothing is known about any node yet."));
  else if (status && status.snapshot.nodes && !status.snapshot.known) shown.push(banner("bad", "Dark.", "No node is known: no fresh, sufficient window of cpu or memory anywhere."));
  if (status && status.snapshot && !status.current) shown.push(banner("bad", "Stale.", `No cycle brought data since ${clock(status.snapshot.time)}. The loads below are history, and /watcher answers 500.`));
  for (const condition of status ? status.conditions : []) {
    if (condition.status !== "True") continue;
    shown.push(banner("warn", `${condition.type}:`, [condition.message || condition.reason || "", condition.lastTransitionTime ? `(since ${condition.lastTransitionTime})` : ""].join(" ")));
  }
  const box = $("banners");
  if (box.textContent !== shown.map(p => p.textContent).join("")) box.replaceChildren(...shown);
}

const MEANINGS = {
  on: { publishing: "labels are written" },
  "dry-run": { publishing: "labels are computed, not written" },
};
function drawParts() {
  $("parts").replaceChildren(...Object.entries(status.modes).map(([part, mode]) => element("li", {},
    element("span", { class: "name" }, part[0].toUpperCase() + part.slice(1)),
    element("span", { class: `tag ${mode || "off"}` }, mode || "not configured"),
    element("span", { class: "meaning" }, status.frozen && mode === "on" ? "frozen: nothing is changed" : (MEANINGS[mode] || {})[part] || (part === "publishing" ? "does nothing" : "not in this version yet: does nothing")))));
}

function drawJobs() {
  $("jobs").replaceChildren(...(status.jobs.length ? status.jobs.flatMap(job => [
    element("dt", {}, job.job),
    element("dd", job.ok ? {} : { class: "failed" }, (job.ok ? "" : "Failed: ") + job.sentence),
    element("dd", { class: "when" }, `${ago(now() - job.started)} ago`),
  ]) : [element("dt", { class: "nothing" }, "no job has run yet")]));
}

/* ---- nodes ---- */

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

const nothing = text => element("span", { class: "nothing" }, text);

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
  if (node.state === "silent") return element("span", { class: "tag silent" }, "unknown: silent");
  if (node.state === "young") return element("span", { class: "tag young" }, "unknown: young");
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
  say($("count"), nodesError || (nodes.length ? `${Math.min(shown.length, view.limit).toLocaleString("en")} of ${shown.length.toLocaleString("en")} shown` : "no nodes selected"));
  $("more").hidden = shown.length <= view.limit;
}

async function refreshNodes() {
  const snapshot = status.snapshot;
  if (!snapshot) { nodes = []; nodesError = "no data yet"; return drawNodes(); }
  if (!snapshot.windows.includes(view.window)) {
    view.window = snapshot.windows[0];
    $("window").replaceChildren(...snapshot.windows.map(name => element("option", { value: name }, name)));
  }
  if (snapshot.time === nodesTime && view.window === nodesWindow) return;
  const answer = await read(`/api/v1/nodes?window=${encodeURIComponent(view.window)}`);
  ({ nodes, resources } = answer);
  [nodesTime, nodesWindow, nodesError] = [answer.time, answer.window, ""];
  drawNodes();
}

/* ---- cycles ---- */

function drawCycles(cycles) {
  $("cycles").tBodies[0].replaceChildren(...(cycles.length ? cycles.slice(0, 30).map(cycle => element("tr", {},
    element("td", {}, clock(cycle.started)), element("td", {}, cycle.job),
    element("td", { class: "number" }, cycle.seconds < 1 ? `${Math.round(cycle.seconds * 1000)} ms` : `${cycle.seconds.toFixed(1)} s`),
    element("td", cycle.ok ? {} : { class: "failed" }, (cycle.ok ? "" : "Failed: ") + cycle.sentence))) :
    [element("tr", {}, element("td", { colspan: "4" }, nothing("no cycle has ended yet")))]));
}

/* ---- running ---- */

async function readLevels() {
  const settings = Object.fromEntries((await read("/api/v1/config")).map(entry => [entry.name, Number(entry.value)]));
  levels = { high: settings.BALLAST_PUBLISHING__HIGH || levels.high, over: settings.BALLAST_PUBLISHING__OVERLOADED || levels.over };
}

async function refresh() {
  let lost = false;
  try {
    status = await read("/api/v1/status");
    fetched = performance.now();
    drawFacts(); drawParts(); drawJobs(); drawHeadline();
    await refreshNodes();
    drawCycles(await read("/api/v1/cycles"));
  } catch (error) {
    lost = !error.answered;
    if (error.answered) { nodesError = error.message; drawNodes(); }
    else if (!(error instanceof TypeError || error instanceof SyntaxError)) throw error;
  } finally {
    drawBanners(lost);
    document.body.classList.toggle("lost", lost || Boolean(status && status.snapshot && !status.current));
    setTimeout(refresh, PERIOD);
  }
}

$("filter").addEventListener("input", event => { view.filter = event.target.value.trim().toLowerCase(); view.limit = PAGE; drawNodes(); });
$("show").addEventListener("change", event => { view.show = event.target.value; view.limit = PAGE; drawNodes(); });
$("window").addEventListener("change", event => { view.window = event.target.value; refreshNodes().catch(() => {}); });
$("more").addEventListener("click", () => { view.limit += 400; drawNodes(); });
setInterval(drawHeadline, 1000);
readLevels().catch(() => {}).finally(refresh);
