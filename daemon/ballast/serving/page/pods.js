import { $, MORE, PAGE, banner, clock, element, known, nothing, number, read, say, table } from "./common.js";

let pod = null, limit = PAGE;

const terms = (strategy, node) => Object.entries(strategy.terms[node] || {}).filter(([, value]) => known(value)).map(([name, value]) => `${name} ${number(value, 4)}`).join(", ");

function sentence() {
  const where = pod.node ? `is on ${pod.node}, and counted there` : pod.decided ? `was sent to ${pod.decided}, which no watch has shown yet` : "is on no node yet";
  return `${pod.pod} ${where}.${known(pod.time) ? ` Loads until ${clock(pod.time)}.` : ""}`;
}

function drawPod() {
  const [first, ...others] = pod.strategies, shown = [element("p", { class: "waiting" }, sentence())];
  if (pod.neutral) shown.push(banner("warn", "Neutral.", `A scheduler that asks now finds all nodes equal (${pod.neutral}).`));
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
  const columns = [["Node"], [first.strategy, "number"], ...others.map(other => [other.strategy, "number"]), [`What ${first.strategy} is made of`]];
  $("pod-body").replaceChildren(...shown, table(`Scores of the nodes for ${pod.pod}`, columns, rows, "no node is selected"), more);
}

async function look() {
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

/** `#pods/namespace/name` shows that pod. */
function follow() {
  const [, path] = /^#pods\/([^/]+\/[^/]+)$/.exec(location.hash) || [];
  if (!path || decodeURIComponent(path) === $("pod-name").value) return;
  $("pod-name").value = decodeURIComponent(path);
  look();
}

$("pod-form").addEventListener("submit", event => {
  event.preventDefault();
  history.replaceState(null, "", `#pods/${$("pod-name").value.trim()}`);
  look();
});
addEventListener("hashchange", follow);
follow();
