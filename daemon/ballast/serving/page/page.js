// The frame of the page: headline, incident, parts, keyboard; it opens views and refreshes the open one.
import { $, ago, clock, count, duration, element, known, nothing, now, number, read, route, say, since as sinceThen, state, tag } from "./common.js";
import { readLevels } from "./fleet.js";
import { drawIncident, troubles } from "./incident.js";
import { redrawOverview, refreshOverview } from "./overview.js";

const PERIOD = 5000;
const VIEWS = ["overview", "nodes", "pods", "plans", "evictions", "power", "cycles"];
/** Views come when they are opened: [module, its function]. */
const LATER = { nodes: ["./nodes.js", "refreshNodes"], pods: ["./pods.js", "refreshPods"], plans: ["./plans.js", "refreshPlans"], evictions: ["./evictions.js", "refreshEvictions"], power: ["./power.js", "refreshPower"] };
const LOST = { word: "No contact", kind: "bad", since: null };
let running = null, again = false, alarm = 0, lost = false;
const levels = readLevels().catch(() => {});

function drawHeadline() {
  const line = $("headline"), { status } = state, snapshot = status && status.snapshot;
  if (!status && !lost) return;
  const { word, kind, since } = lost ? LOST : status.headline;
  $("word").dataset.kind = kind;
  say($("word"), known(since) ? `${word} ${sinceThen(since)}` : word);
  if (lost) say($("doing"), "");
  line.className = "";
  $("clock").textContent = clock(now()).slice(0, 5);
  if (!status) return;
  if (!snapshot) { line.textContent = "No data yet: the first cycle has not ended."; return; }
  const age = now() - snapshot.time, stale = age > 3 * duration(status.interval) + 30;
  const unknown = ["disputed", "silent", "young", "down", "unmeasured"].filter(name => snapshot[name]).map(name => `${number(snapshot[name])} ${name}`);
  line.textContent = `${number(snapshot.known)} of ${count(snapshot.nodes, "node")} known${unknown.length ? ` (${unknown.join(", ")})` : ""}; data ${ago(age)} old${stale ? ", too old" : ""}`;
  line.classList.toggle("stale", stale);
}

function drawFacts() {
  const { status } = state, sources = [...new Set(Object.values(status.snapshot ? status.snapshot.sources : {}))];
  document.body.classList.toggle("standby", !status.leader);
  $("facts").replaceChildren(...[status.leader ? "Leader: this replica writes" : "Follower: another replica writes", status.ready ? "ready" : "not ready", ...sources.map(source => `source ${source}`)].map(text => element("li", {}, text)));
  $("version").textContent = `Ballast ${status.version}`;
}

const MEANINGS = {
  on: { publishing: "labels are written", power: "replicas and caps are changed", eviction: "pods are evicted", batch: "pods behind the gate are planned and released" },
  "dry-run": { publishing: "labels are computed, not written", power: "replicas are computed, not changed", eviction: "plans are made, no pod is evicted", batch: "plans are made, no gate is removed" },
};
function meaning(part, mode) {
  if (MEANINGS[mode] && state.status.paused[part]) return `${state.status.paused[part]}: nothing is changed`;
  if (state.status.frozen && mode === "on" && part !== "power" && part !== "batch") return "frozen: nothing is changed";
  const others = Object.entries(state.status.planners || {}).filter(([, own]) => part === "eviction" && own !== mode).map(([name, own]) => `; ${name} in ${own}`);
  return ((MEANINGS[mode] || {})[part] || "does nothing") + others.join("");
}

const VIEW_OF = { publishing: "nodes", power: "power", eviction: "evictions", batch: "cycles" };
function drawParts() {
  const { status } = state, held = part => status.paused[part] || (status.frozen && part !== "power" && part !== "batch");
  $("parts").replaceChildren(...Object.entries(status.modes).map(([part, mode]) => element("li", {},
    element("a", { class: "name", href: `#${VIEW_OF[part]}` }, part[0].toUpperCase() + part.slice(1)),
    tag(MEANINGS[mode] && held(part) ? "high" : mode || "off", MEANINGS[mode] && held(part) ? `${mode}, held` : mode || "not configured"), element("span", { class: "meaning" }, meaning(part, mode)))));
}

function drawJobs() {
  const { jobs } = state.status;
  $("jobs").replaceChildren(...(jobs.length ? jobs.flatMap(job => [element("dt", {}, job.job), element("dd", job.ok ? {} : { class: "failed" }, (job.ok ? "" : "Failed: ") + job.sentence),
    element("dd", { class: "when" }, `${ago(now() - job.started)} ago`)]) : [element("dt", {}, "none"), element("dd", { class: "nothing" }, "no job has run yet")]));
}

let cycles = [];
function drawCycles() {
  const jobs = [...new Set(cycles.map(cycle => cycle.job))].sort(), select = $("cycles-job"), held = select.value;
  if (select.options.length !== jobs.length + 1) { select.replaceChildren(element("option", { value: "" }, "all"), ...jobs.map(job => element("option", {}, job))); select.value = held; }
  const shown = cycles.filter(cycle => (!select.value || cycle.job === select.value) && (!$("cycles-show").value || !cycle.ok)).slice(0, 60);
  $("cycles").tBodies[0].replaceChildren(...(shown.length ? shown.map(cycle => element("tr", {}, element("td", {}, clock(cycle.started)), element("td", {}, cycle.job),
    element("td", { class: "number" }, cycle.seconds < 1 ? `${Math.round(cycle.seconds * 1000)} ms` : `${cycle.seconds.toFixed(1)} s`),
    element("td", cycle.ok ? {} : { class: "failed" }, (cycle.ok ? "" : "Failed: ") + cycle.sentence))) : [element("tr", {}, element("td", { colspan: "4" }, nothing("no cycle yet")))]));
}

async function refreshCycles() {
  const { body, changed } = await read("/api/v1/cycles");
  if (changed) { cycles = body; drawCycles(); }
}

/** The title and the icon of the tab tell the state. */
function drawTab() {
  const { word, kind } = lost ? LOST : state.status?.headline ?? { word: "no data", kind: "warn" };
  document.title = kind === "ok" ? "Ballast" : `● ${word} · Ballast`;
  document.body.dataset.state = kind;
  const icon = `/page/icon${{ bad: "-bad", warn: "-warn", ok: "" }[kind]}.svg`;
  if ($("icon").getAttribute("href") !== icon) $("icon").setAttribute("href", icon);
}

const WALL = "wall";
/** `#wall` is the first view with nothing but the nodes. */
const current = () => VIEWS.includes(route().view) ? route().view : VIEWS[0];

async function refreshView() {
  const view = current();
  if (view === "overview") return refreshOverview();
  if (view === "cycles") return refreshCycles();
  const [path, name] = LATER[view];
  return (await import(path))[name]();
}

function open(moved) {
  const view = current(), wall = route().view === WALL;
  document.body.classList.toggle(WALL, wall);
  $("dark").media = wall && !route().query.has("light") ? "all" : "(prefers-color-scheme: dark)";
  $("clock").hidden = !wall;
  for (const name of VIEWS) $(`view-${name}`).hidden = name !== view;
  for (const link of document.querySelectorAll("nav a")) {
    if (link.hash === `#${view}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.dispatchEvent(new Event("view"));
  if (moved) $(`${view}-title`).focus({ preventScroll: true });
}

async function round() {
  const asked = location.hash, before = lost;
  try {
    [state.status] = await Promise.all([read("/api/v1/status").then(({ body }) => body), levels]);
    state.fetched = performance.now();
    lost = false;
    for (const draw of [drawFacts, drawJobs, drawHeadline, drawParts]) draw();
    await refreshView().catch(error => { if (error.lost) throw error; console.error(error); });
  } catch (error) {
    lost = Boolean(error.lost);
    if (!lost) console.error(error);
  }
  if (lost) drawHeadline();
  else if (before) redrawOverview();
  drawIncident(troubles(lost));
  document.body.classList.toggle("lost", lost || Boolean(state.status && state.status.snapshot && !state.status.current));
  drawTab();
  document.body.dataset.shown = asked;
  document.body.dataset.rounds = String(Number(document.body.dataset.rounds || 0) + 1);
}

/** One round at a time; a wish for one in the middle of another makes one more. */
async function refresh() {
  if (running) { again = true; return; }
  clearTimeout(alarm);
  do { again = false; running = round(); await running; } while (again);
  running = null;
  alarm = setTimeout(refresh, PERIOD);
}

const FIND = { nodes: "filter", pods: "pod-name", evictions: "evictions-filter", power: "power-filter" };
addEventListener("keydown", event => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest?.("input, select, textarea, dialog")) return;
  if (event.key === "?") $("keys").showModal();
  else if (event.key === "/" && FIND[current()]) { event.preventDefault(); $(FIND[current()]).focus(); }
  else if (event.key === "Escape" && route().rest.length) location.hash = `#${current()}`;
  else if (event.key === "w" || (event.key === "Escape" && route().view === WALL)) location.hash = route().view === WALL ? "#overview" : `#${WALL}`;
  else if (VIEWS[Number(event.key) - 1]) location.hash = `#${VIEWS[Number(event.key) - 1]}`;
});
addEventListener("hashchange", () => { open(true); if (state.status) { redrawOverview(); refresh(); } });
$("help").addEventListener("click", () => $("keys").showModal());
for (const id of ["cycles-job", "cycles-show"]) $(id).addEventListener("change", drawCycles);
open(false);
$("dark").addEventListener("load", redrawOverview);
setInterval(drawHeadline, 1000);
refresh();
