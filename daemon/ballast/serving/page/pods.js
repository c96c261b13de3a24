// One pod: where it would go, and whether it may be moved, check by check.
import { $, MORE, banner, clock, element, known, nothing, number, read, route, say, table, to } from "./common.js";

const FIRST = 20;
let pod = null, said = null, limit = FIRST, shown = "", asked = 0;

const terms = (strategy, node) => Object.entries(strategy.terms[node] || {}).filter(([, value]) => known(value)).map(([name, value]) => `${name} ${number(value, 4)}`).join(", ");

function sentence() {
  const where = pod.node ? ["runs on ", to(pod.node, "nodes", pod.node), " and is counted there"] : [pod.decided ? `was assigned to ${pod.decided}; the binding has not been seen yet` : "is not on a node yet"];
  return element("p", { class: "waiting" }, `${pod.pod} `, ...where, `.${known(pod.time) ? ` Loads up to ${clock(pod.time)}.` : ""}`);
}

function drawScores() {
  const [first, ...others] = pod.strategies, found = [];
  if (pod.neutral) found.push(banner("warn", "Neutral.", `The extender would now give all nodes the same score (${pod.neutral}).`));
  if (!first) return [...found, element("p", {}, nothing("No node is known yet."))];
  const blind = new Set(first.unknown), nodes = Object.keys(first.scores).sort((a, b) => first.scores[b] - first.scores[a] || (a < b ? -1 : 1));
  const rows = nodes.slice(0, limit).map(node => [element("span", {}, to(node, "nodes", node), node === pod.node ? " (here)" : ""), String(first.scores[node]),
    ...others.map(other => known(other.scores[node]) ? String(other.scores[node]) : null), blind.has(node) ? nothing("unknown") : terms(first, node)]);
  const more = element("button", { type: "button", id: "pod-more" }, "Show more");
  more.hidden = nodes.length <= limit;
  more.addEventListener("click", () => { limit += MORE; draw(); $("pod-more")?.focus(); });
  return [...found, table(`Scores of the nodes for ${pod.pod}`, [["Node"], [first.strategy, "number"], ...others.map(other => [other.strategy, "number"]), [`Terms of ${first.strategy}`]], rows, "no node is selected"), more];
}

function figures(numbers) {
  return Object.entries(numbers).map(([name, value]) => `${name.replaceAll("_", " ")} ${number(value, 3)}`).join(", ");
}

function drawChecks() {
  if (!said) return [nothing("asking every check…")];
  if (said.error) return [nothing(said.error)];
  const bad = said.checks.filter(each => each.verdict === "refused");
  const line = each => element("li", { class: each.verdict }, element("span", { class: "glyph", "aria-hidden": "true" }, each.verdict === "allowed" ? "✔" : "✘"), element("span", { class: "hidden" }, each.verdict),
    element("strong", {}, each.check), element("span", {}, ` ${each.reason}`, ...(Object.keys(each.numbers).length ? [element("span", { class: "soft" }, ` (${figures(each.numbers)})`)] : [])));
  return [element("p", { class: said.allowed ? "big good" : "big failed" }, said.allowed ? "✔ may be moved" : `✘ may not be moved`),
    element("p", { class: "soft" }, bad.length ? `${bad.length} of ${said.checks.length} checks refuse: ${bad.map(each => each.check).join(", ")}.` : `All ${said.checks.length} checks pass.`),
    ...said.notes.map(note => element("p", {}, note)), ...(bad.length ? [element("ul", { class: "checks" }, ...bad.map(line))] : []),
    element("ul", { class: "checks two" }, ...said.checks.filter(each => each.verdict === "allowed").map(line)),
    element("p", { class: "copy" }, element("code", {}, `ballast explain ${said.pod} --url ${location.origin}`))];
}

function draw() {
  $("pod-hint").hidden = true;
  $("pod-body").replaceChildren(element("div", { class: "card" }, sentence(), ...(said?.workload ? [element("p", { class: "soft" }, said.workload)] : [])),
    element("div", { class: "card" }, element("h3", {}, "May it be moved?"), ...drawChecks()), element("div", { class: "card" }, element("h3", {}, "Where would it go?"), ...drawScores()));
}

async function show(name) {
  const [namespace, short, ...rest] = name.split("/"), turn = ++asked;
  if (!short || rest.length) { say($("pod-count"), "expected namespace/name"); return; }
  say($("pod-count"), "asking…");
  const path = `/api/v1/pods/${encodeURIComponent(namespace)}/${encodeURIComponent(short)}`;
  try {
    const found = (await read(`${path}/scores`)).body;
    if (turn !== asked) return;
    [pod, said, limit] = [found, null, FIRST];
    say($("pod-count"), "");
    draw();
    const verdicts = await read(`${path}/explain`).then(({ body }) => body).catch(error => { if (error.lost) throw error; return { error: error.message }; });
    if (turn !== asked) return;
    said = verdicts;
    draw();
  } catch (error) {
    if (!error.answered && !error.lost) throw error;
    $("pod-body").replaceChildren();
    say($("pod-count"), error.answered ? error.message : "no contact with Ballast");
  }
}

/** The address `#pods/namespace/name` shows that pod. */
export async function refreshPods() {
  const name = route().rest.join("/");
  if (name === shown) return;
  shown = name;
  if (!name) { $("pod-body").replaceChildren(); $("pod-hint").hidden = false; return; }
  $("pod-name").value = name;
  await show(name);
}

const find = async text => (await read(`/api/v1/pods?find=${encodeURIComponent(text)}`).catch(() => ({ body: [] }))).body;

/** The pods that part of a name may mean. */
function choose(text, pods) {
  history.replaceState(null, "", "#pods");
  [shown, asked] = ["", asked + 1];
  $("pod-hint").hidden = true;
  say($("pod-count"), `${number(pods.length)} pods with ${text} in their names`);
  $("pod-body").replaceChildren(element("div", { class: "card" }, element("ul", { class: "columns" },
    ...pods.map(each => element("li", {}, to(each.pod, "pods", ...each.pod.split("/")))))));
}

let wait = 0;
$("pod-name").addEventListener("input", event => {
  clearTimeout(wait);
  const text = event.target.value.trim();
  wait = setTimeout(async () => {
    if (text.length < 2) return;
    const body = await find(text);
    $("pod-names").replaceChildren(...body.map(each => element("option", { value: each.pod }, each.node || "not on a node")));
    if (body.some(each => each.pod === text)) location.hash = `#pods/${text}`;
  }, 150);
});
$("pod-form").addEventListener("submit", async event => {
  event.preventDefault();
  clearTimeout(wait);
  const text = $("pod-name").value.trim(), pods = text.length < 2 ? [] : await find(text), exact = pods.some(each => each.pod === text);
  if (pods.length > 1 && !exact) return choose(text, pods);
  const name = pods.length && !exact ? pods[0].pod : text;
  if (`#pods/${name}` === location.hash) { shown = ""; refreshPods(); } else location.hash = `#pods/${name}`;
});
