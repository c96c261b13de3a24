// The frame of the page: headline, banners, parts and jobs; it opens views and refreshes them.
import { $, ago, banner, clock, count, duration, element, now, nothing, read, state, tag } from "./common.js";
import { readLevels, refreshNodes } from "./nodes.js";
import { idle, refreshPower } from "./power.js";
import { refreshPlans } from "./plans.js";
import { refreshEvictions } from "./evictions.js";
import "./pods.js";

const PERIOD = 5000;
const VIEWS = ["nodes", "power", "plans", "evictions", "pods", "cycles"];

function drawHeadline() {
  const line = $("headline"), { status } = state, snapshot = status && status.snapshot;
  line.className = "";
  if (!status) return;
  if (!snapshot) { line.textContent = "No data yet: the first cycle has not ended."; return; }
  const age = now() - snapshot.time, stale = age > 3 * duration(status.interval) + 30;
  const unknown = ["silent", "young", "down", "unmeasured"].filter((state) => snapshot[state]).map((state) => `${snapshot[state].toLocaleString("en")} ${state}`);
  line.textContent = `${snapshot.known.toLocaleString("en")} of ${count(snapshot.nodes, "node")} known` +
    (unknown.length ? ` (${unknown.join(", ")})` : "") + `; data ${ago(age)} old${stale ? ", too old" : ""}`;
  line.classList.toggle("stale", stale);
}

function drawFacts() {
  const { status } = state, sources = [...new Set(Object.values(status.snapshot ? status.snapshot.sources : {}))];
  $("facts").replaceChildren(...[
    status.leader ? "Leader: this replica writes" : "Follower: another replica writes",
    status.ready ? "ready" : "not ready",
    ...sources.map(source => `source ${source}`),
  ].map(text => element("li", {}, text)));
  $("version").textContent = `Ballast ${status.version}`;
}

// These conditions are good when True: a banner appears while one is False.
const GOOD = new Set(["FeedAvailable", "Active"]);
function drawBanners(lost) {
  const { status } = state, shown = [];
  if (lost) shown.push(banner("bad", "No contact with Ballast.", `Last answer ${status ? ago((performance.now() - state.fetched) / 1000) + " ago" : "never"}; the data below may be outdated.`));
  if (status && status.frozen) shown.push(banner("bad", "Frozen.", "Too many nodes are silent, so the loads of the others would mislead. Until enough nodes are known again, nothing is published, /watcher answers 500 and no action depends on loads."));
  if (status && !status.snapshot) shown.push(banner("warn", "Dark.", "Nothing is known about any node yet."));
  else if (status && status.snapshot.nodes && !status.snapshot.known) shown.push(banner("bad", "Dark.", "No node is known: no node has enough fresh samples of cpu or memory."));
  if (status && status.snapshot && !status.current) shown.push(banner("bad", "Stale.", `No cycle brought data since ${clock(status.snapshot.time)}. The loads below are history, and /watcher answers 500.`));
  for (const condition of status ? status.conditions : []) {
    if ((condition.status === "True") === GOOD.has(condition.type)) continue;
    if (condition.type === "Active" && !status.leader) continue; // a follower never acts
    shown.push(banner("warn", `${GOOD.has(condition.type) ? "Not " : ""}${condition.type}:`, [condition.message || condition.reason || "", condition.lastTransitionTime ? `(since ${condition.lastTransitionTime})` : ""].join(" ")));
  }
  const box = $("banners");
  if (box.textContent !== shown.map(p => p.textContent).join("")) box.replaceChildren(...shown);
}

const MEANINGS = {
  on: { publishing: "labels are written", power: "replicas and caps are changed", eviction: "pods are evicted", batch: "pods behind the gate are planned and let go" },
  "dry-run": {
    publishing: "labels are computed, not written",
    power: "replicas are computed, not changed",
    eviction: "plans are made, no pod is evicted",
    batch: "plans are made, no gate is removed",
  },
};
function meaning(part, mode) {
  if (MEANINGS[mode] && state.status.paused[part]) return `${state.status.paused[part]}: nothing is changed`;
  if (state.status.frozen && mode === "on" && part !== "power" && part !== "batch") return "frozen: nothing is changed";
  if (part === "power" && MEANINGS[mode] && idle()) return "no policy is set: nothing is computed";
  return (MEANINGS[mode] || {})[part] || "does nothing";
}

const VIEW_OF = { publishing: "nodes", power: "power", eviction: "evictions", batch: "cycles" };
function drawParts() {
  const { status } = state;
  $("parts").replaceChildren(...Object.entries(status.modes).map(([part, mode]) => element("li", {},
    element("a", { class: "name", href: `#${VIEW_OF[part]}` }, part[0].toUpperCase() + part.slice(1)),
    tag(mode || "off", mode || "not configured"),
    element("span", { class: "meaning" }, meaning(part, mode)))));
}

function drawJobs() {
  const { jobs } = state.status;
  $("jobs").replaceChildren(...(jobs.length ? jobs.flatMap(job => [
    element("dt", {}, job.job),
    element("dd", job.ok ? {} : { class: "failed" }, (job.ok ? "" : "Failed: ") + job.sentence),
    element("dd", { class: "when" }, `${ago(now() - job.started)} ago`),
  ]) : [element("dt", { class: "nothing" }, "no job has run yet")]));
}

async function refreshCycles() {
  const { body: cycles, changed } = await read("/api/v1/cycles");
  if (!changed) return;
  $("cycles").tBodies[0].replaceChildren(...(cycles.length ? cycles.slice(0, 30).map(cycle => element("tr", {},
    element("td", {}, clock(cycle.started)), element("td", {}, cycle.job),
    element("td", { class: "number" }, cycle.seconds < 1 ? `${Math.round(cycle.seconds * 1000)} ms` : `${cycle.seconds.toFixed(1)} s`),
    element("td", cycle.ok ? {} : { class: "failed" }, (cycle.ok ? "" : "Failed: ") + cycle.sentence))) :
    [element("tr", {}, element("td", { colspan: "4" }, nothing("no cycle has ended yet")))]));
}

/* ---- views ---- */

function open(moved) {
  const [wanted] = location.hash.slice(1).split("/"), view = VIEWS.includes(wanted) ? wanted : VIEWS[0];
  for (const name of VIEWS) $(`view-${name}`).hidden = name !== view;
  for (const link of document.querySelectorAll("nav a")) {
    if (link.hash === `#${view}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.dispatchEvent(new Event("view"));
  if (moved && wanted === view) $(`${view}-title`).focus();
}

async function refresh() {
  let lost = false;
  try {
    state.status = (await read("/api/v1/status")).body;
    state.fetched = performance.now();
    for (const draw of [drawFacts, drawJobs, drawHeadline]) draw();
    for (const view of [refreshNodes, refreshCycles, refreshPower, refreshPlans, refreshEvictions]) {
      await view().catch(error => { if (error.lost) throw error; console.error(error); });
    }
    drawParts();
  } catch (error) {
    lost = Boolean(error.lost);
    if (!lost) console.error(error);
  } finally {
    drawBanners(lost);
    document.body.classList.toggle("lost", lost || Boolean(state.status && state.status.snapshot && !state.status.current));
    setTimeout(refresh, PERIOD);
  }
}

addEventListener("hashchange", () => open(true));
open(false);
setInterval(drawHeadline, 1000);
readLevels().catch(() => {}).finally(refresh);
