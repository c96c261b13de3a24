// One node: a day of its loads, what its score is made of, why its label is so, and its pods.
import { $, ago, bytes, element, known, nothing, now, number, percent, read, route, table, to } from "./common.js";
import { levels } from "./fleet.js";
import { lines } from "./drawing.js";

const tried = path => read(path).then(({ body }) => body).catch(error => { if (error.lost) throw error; return null; });
let drawn = "";

function why(node) {
  const { high, low } = levels(), [primary] = Object.keys(node.windows);
  if (node.state !== "known") return `Its load is unknown (${node.state}${node.lost.length ? `, it lost ${node.lost.join(" and ")}` : ""}), so it has no score and its label load is unknown. docs/telemetry.md says what each state means.`;
  const loads = Object.entries(node.windows[primary]).filter(([name, each]) => known(each.mean) && known(high[name]));
  const most = loads.reduce((a, b) => (a && a[1].mean / high[a[0]] >= b[1].mean / high[b[0]] ? a : b), null);
  const limit = !most ? "no resource has a threshold" : `${most[0]} at ${percent(most[1].mean)} is ${most[1].mean >= high[most[0]] ? `at or above ${percent(high[most[0]])}` : most[1].mean < (low[most[0]] ?? 0) ? `below ${percent(low[most[0]])}` : `between ${percent(low[most[0]] ?? 0)} and ${percent(high[most[0]])}`}`;
  const target = Math.floor(node.score * 24 / 100 + 0.5), label = node.published.score;
  const match = label === null ? `its label will be ${target} of 24` : Number(label) === target ? `its label, ${label} of 24, says so` :
    `its label is still ${label} of 24 and not ${target}: it moves at once when the score is three steps of the 24 away, and after six minutes when it is one away`;
  return `Class ${node.class || node.published.load || "not known yet"}, because ${limit}. Its score is ${node.score} of 100, and ${match}.`;
}

function terms(score) {
  if (!score || !known(score.score)) return [nothing("no score while the load is unknown")];
  const rows = Object.entries(score.terms).map(([name, value]) => [name, number(value, 4)]);
  return [element("p", { class: "soft" }, `Strategy ${score.strategy}: of what each resource gives, the smallest counts. Higher is a better place for a pod.`), table("Terms of the score", [["Term"], ["Value", "number"]], rows, "this strategy names no terms")];
}

function windows(node) {
  const rows = Object.entries(node.windows).flatMap(([length, each]) => Object.entries(each).map(([name, one]) => [`${name}, ${length}`,
    ...["mean", "std", "p95"].map(kind => known(one[kind]) ? percent(one[kind]) : null), number(one.samples), known(one.coverage) ? percent(one.coverage) : null,
    known(node.newest[name]) ? `${ago(Math.max(0, now() - node.newest[name]))} ago` : null]));
  const sources = Object.entries(node.sources).map(([name, source]) => `${name} from ${source}`).join(", ");
  return [table("Windows", [["Window"], ["Mean", "number"], ["σ", "number"], ["p95", "number"], ["Samples", "number"], ["Coverage", "number"], ["Newest", "number"]], rows, "no resource is watched"), element("p", { class: "legend" }, sources ? `Samples: ${sources}.` : "")];
}

/** Points of the node's load, of the resource that falls most, that leave with a pod. */
function relief(pod, node) {
  const shares = ["cpu", "memory"].filter(name => known(pod.usage?.[name]) && node.allocatable[name]).map(name => [name, pod.usage[name] / node.allocatable[name] * 100]);
  const [name, most] = shares.sort((a, b) => b[1] - a[1])[0] || [];
  return name === undefined ? nothing("not known") : most < 0.1 ? "less than 0.1 point" : `${number(most, 1)} points of ${name}`;
}

const beside = (used, asked, words) => [known(used) ? words(used) : nothing("unknown"), known(asked) ? words(asked) : nothing("none")];

function pods(list, node) {
  const rows = list.map(each => [to(each.pod, "pods", ...each.pod.split("/")), each.owner || "", `${each.phase}${each.ready ? "" : ", not ready"}`,
    ...beside(each.usage?.cpu, each.requests.cpu, value => number(value, 3)), ...beside(each.usage?.memory, each.requests.memory, bytes), relief(each, node), ago(Math.max(0, now() - each.created))]);
  const asked = name => list.reduce((sum, each) => sum + (each.requests[name] || 0), 0), room = node.allocatable;
  const shares = ["cpu", "memory"].filter(name => room[name]).map(name => `${name} ${percent(asked(name) / room[name])}`).join(", ");
  return [element("p", { class: "soft" }, `${list.length} pods request ${shares || "nothing that is known"} of what is allocatable. Those that use most cpu come first.`),
    table("Pods", [["Pod"], ["Owner"], ["State"], ["cpu used", "number"], ["cpu asked", "number"], ["memory used", "number"], ["memory asked", "number"], ["Moving it relieves"], ["Age"]], rows, "no pod runs here")];
}

const SPANS = [["24 hours", ""], ["7 days", "7"], ["30 days", "30"]];
/** The day that the daemon remembers, or more from Prometheus. */
async function past(path, days) {
  try {
    return { ...(await read(`${path}/history${days ? `?days=${days}` : ""}`)).body, problem: "" };
  } catch (error) {
    if (error.lost) throw error;
    return { times: [], problem: error.message };
  }
}

function span(name, days) {
  return element("p", { class: "soft" }, ...SPANS.flatMap(([text, value]) => [value === days ? element("strong", {}, text) : element("a", { href: `#nodes/${encodeURIComponent(name)}${value ? `?days=${value}` : ""}` }, text), " "]), days ? "from Prometheus" : "");
}

export async function refreshNode(name) {
  const days = route().query.get("days") || "", path = `/api/v1/nodes/${encodeURIComponent(name)}`, [node, before, score, running] = await Promise.all([tried(path), past(path, days), tried(`${path}/score`), tried(`${path}/pods`)]);
  const box = $("node-page"), text = JSON.stringify([node, before, running?.map(each => [each.pod, each.usage])]);
  if (text === drawn && box.dataset.node === name) return;
  drawn = text;
  const back = element("p", {}, element("a", { href: "#nodes", class: "back" }, "← all nodes"));
  if (!node) { box.dataset.node = name; return box.replaceChildren(back, element("div", { class: "card" }, element("h2", {}, name), nothing("No such node among the selected ones."))); }
  const held = box.dataset.node === name ? box.contains(document.activeElement) && document.activeElement.getAttribute("aria-label") : null, scroll = scrollY;
  box.dataset.node = name;
  const state = node.state === "known" ? node.class || node.published.load || "none" : node.state;
  box.replaceChildren(back, element("div", { class: "card" },
    element("div", { class: "title" }, element("h2", { id: "node-title", tabindex: "-1" }, name), element("span", { class: `tag ${state}` }, node.state === "known" ? `class ${state}` : `unknown: ${state}`),
      element("span", { class: "tag" }, `score ${node.score ?? "unknown"}`), element("span", { class: "tag" }, `label ${node.published.score ?? "none"}`), ...(node.pool ? [element("span", { class: "tag" }, `pool ${node.pool}`)] : []), ...(node.schedulable ? [] : [element("span", { class: "tag off" }, "not schedulable")])),
    element("p", { class: "waiting" }, why(node)), element("p", { class: "copy" }, element("code", {}, `kubectl describe node ${name}`))),
  element("div", { class: "card" }, element("h3", {}, "Over time"), span(name, days), before.times.length > 1 ? lines(before.times, [...Object.entries(before.load), ["score / 100", before.score.map(value => known(value) ? value / 100 : null)]]) : nothing(days ? before.problem : "Not enough history yet: one value is kept every five minutes.")),
  element("div", { class: "split late" }, element("div", { class: "card" }, element("h3", {}, "What its score is made of"), ...terms(score)), element("div", { class: "card" }, element("h3", {}, "Windows"), ...windows(node))),
  element("div", { class: "card" }, element("h3", {}, "Its pods"), ...pods(running || [], node)));
  if (held) box.querySelector(`[aria-label="${CSS.escape(held)}"]`)?.focus();
  scrollTo(0, scroll);
}
