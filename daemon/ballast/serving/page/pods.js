import { $, MORE, PAGE, banner, clock, element, known, nothing, number, read, say, table } from "./common.js";

let pod = null, limit = PAGE;

const terms = (strategy, node) => Object.entries(strategy.terms[node] || {}).filter(([, value]) => known(value)).map(([name, value]) => `${name} ${number(value, 4)}`).join(", ");

function sentence() {
  const where = pod.node ? `runs on ${pod.node} and is counted there` : pod.decided ? `was assigned to ${pod.decided}; the binding has not been seen yet` : "is not on a node yet";
  return `${pod.pod} ${where}.${known(pod.time) ? ` Loads up to ${clock(pod.time)}.` : ""}`;
}

function drawPod() {
  const [first, ...others] = pod.strategies, shown = [element("p", { class: "waiting" }, sentence())];
  if (pod.neutral) shown.push(banner("warn", "Neutral.", `The extender would now give all nodes the same score (${pod.neutral}).`));
  if (!first) return $("pod-body").replaceChildren(...shown, element("p", {}, nothing("No node is known yet.")));
  const blind = new Set(first.unknown);
  const nodes = Object.keys(first.scores).sort((a, b) => first.scores[b] - first.scores[a] || (a < b ? -1 : 1));
  const rows = nodes.slice(0, limit).map(node => [
    node + (node === pod.node ? " (here)" : ""), String(first.scores[node]), ...others.map(other => known(other.scores[node]) ? String(other.scores[node]) : null),
    blind.has(node) ? nothing("unknown") : terms(first, node),
  ]);
  const more = element("button", { type: "button", id: "pod-more" }, "Show more");
  more.hidden = nodes.length <= limit;
  more.addEventListener("click", () => { limit += MORE; drawPod(); $("pod-more")?.focus(); });
  const columns = [["Node"], [first.strategy, "number"], ...others.map(other => [other.strategy, "number"]), [`Terms of ${first.strategy}`]];
  $("pod-body").replaceChildren(...shown, table(`Scores of the nodes for ${pod.pod}`, columns, rows, "no node is selected"), more);
}

async function show() {
  const [namespace, name, ...rest] = $("pod-name").value.trim().split("/");
  if (!name || rest.length) return say($("pod-count"), "expected namespace/name");
  say($("pod-count"), "asking…");
  try {
    pod = (await read(`/api/v1/pods/${encodeURIComponent(namespace)}/${encodeURIComponent(name)}/scores`)).body;
    limit = PAGE;
    say($("pod-count"), "");
    drawPod();
  } catch (error) {
    if (!error.answered && !error.lost) throw error;
    $("pod-body").replaceChildren();
    say($("pod-count"), error.answered ? error.message : "no contact with Ballast");
  }
}

/** The address `#pods/namespace/name` shows that pod. */
function follow() {
  const [, path] = /^#pods\/([^/]+\/[^/]+)$/.exec(location.hash) || [];
  if (!path || decodeURIComponent(path) === $("pod-name").value) return;
  $("pod-name").value = decodeURIComponent(path);
  show();
}

$("pod-form").addEventListener("submit", event => {
  event.preventDefault();
  history.replaceState(null, "", `#pods/${$("pod-name").value.trim()}`);
  show();
});
addEventListener("hashchange", follow);
follow();
