// One incident instead of a heap of banners: the cause, what follows from it, and what to do.
import { $, ago, clock, element, now, state } from "./common.js";

// These conditions are good when True: something is wrong while one is False.
const GOOD = new Set(["FeedAvailable", "ScheduleAvailable", "Active"]);

// Causes come before what follows from them. [condition, what it means, what to do, page of the docs]
const ORDER = [
  ["ClusterUnreachable", "The Kubernetes API cannot be read", "Look at the API server, the network and the ServiceAccount's rights: ballast doctor --only kubernetes-reachable,rbac", "doctor"],
  ["PodsUnreadable", "Pods cannot be read", "Grant list and watch on pods: ballast doctor --only rbac", "doctor"],
  ["LeaseFailing", "The Lease cannot be renewed", "Grant update on leases, and look at the API server's latency: ballast doctor --only lease,rbac", "doctor"],
  ["TelemetryDegraded", "Queries for loads fail", "Ask Prometheus the same: ballast doctor --only prometheus-reachable,preset-data", "telemetry"],
  ["PartialAnswers", "Prometheus answers with warnings, so data may be partial", "Look at the stores behind the query frontend", "telemetry"],
  ["SeriesDiffer", "Several things report under one node's name", "Choose one with BALLAST_PROMETHEUS__MATCHERS: ballast doctor --only clusters-mixed,duplicate-exporters", "telemetry"],
  ["UnmatchedSeries", "Series match no node", "Check the node label: ballast doctor --only node-label", "telemetry"],
  ["SourcesDisagree", "Two sources disagree about loads", "ballast doctor --only sources-disagree,units", "telemetry"],
  ["ScrapesSlow", "Samples are scraped more seldom than they are read", "Set BALLAST_TELEMETRY__INTERVAL as the message says", "telemetry"],
  ["FallbackInUse", "The fallback source is in use", "Look at the primary source: ballast doctor --only prometheus-reachable", "telemetry"],
  ["FallbackMissing", "metrics-server does not answer", "Install it, so that something steps in when Prometheus is silent: ballast doctor --only metrics-server", "telemetry"],
  ["NodesUnmeasured", "Some nodes have never been measured", "Run an exporter there, or exclude them: ballast doctor --only unmeasured-nodes", "telemetry"],
  ["NodesUnknown", "The load of some nodes is unknown", "See which, and what each lost: Nodes, show unknown", "telemetry"],
  ["Frozen", "Too many nodes are silent", "Bring exporters or Prometheus back; publishing goes on by itself once enough nodes are known", "telemetry"],
  ["PublishingFrozen", "Publishing is frozen", "It ends by itself once enough nodes are known", "telemetry"],
  ["PublishingFailing", "Labels cannot be written", "Grant patch on nodes: ballast doctor --only rbac", "pairing"],
  ["CraneFailing", "crane's annotations cannot be written", "Grant patch on nodes: ballast doctor --only rbac", "pairing"],
  ["Contended", "Something else writes the same fields", "Stop one of the two writers", "power"],
  ["SecondBallast", "Nodes carry scores of another Ballast", "Stop one of the two, or remove what it left: ballast doctor --only second-ballast", "doctor"],
  ["FeedAvailable", "The power feed is not available", "Ask the feed: ballast doctor --only power-feed", "power"],
  ["ScheduleAvailable", "The power schedule cannot be read", "Look at its source", "power"],
  ["ConsumptionUnknown", "What replicas draw cannot be read", "Ask the meter: ballast doctor --only power-consumption", "power"],
  ["EnergySpent", "The energy of the period is spent", "Wait for the next period, or raise energy.kWh", "power"],
  ["Active", "Power does not act", "See the reason in the message", "power"],
  ["OverBudget", "More power is drawn than is available", "Lower minimum replicas, or add targets to the policy", "power"],
  ["Rebaselined", "A policy waits for a new baseline", "Wait for one window", "power"],
  ["Degraded", "Power cannot act", "Look at the rights and the named object", "power"],
  ["Fallback", "The power feed is silent for long; the fallback applies", "Bring the feed back", "power"],
  ["Limited", "Replicas are at a bound", "Widen min and max, or accept it", "power"],
  ["Paused", "Power is paused", "ballast resume power", "power"],
  ["PodUsageUnknown", "The usage of pods is unknown, so requests count", "ballast doctor --only pod-usage", "evictions"],
  ["BudgetsUnsatisfiable", "Disruption budgets allow no eviction, ever", "Raise maxUnavailable: ballast doctor --only budgets-unsatisfiable", "evictions"],
  ["PlanningFailing", "No plan can be made", "Look at the planning process in the log", "evictions"],
  ["LandingNotSteered", "Ballast cannot choose where replacements land", "Let the scheduler ask the extender: ballast profile extender", "pairing"],
  ["ReservationsNotHeld", "Room is held, but the scheduler does not ask", "Let the scheduler ask the extender to filter too: ballast profile extender", "evictions"],
  ["EvictionsHalted", "Nothing is evicted", "It ends by itself when the reason is gone", "evictions"],
  ["BatchGatesHeld", "Pods wait behind a gate", "ballast release batch", "batch"],
  ["BatchNotSteered", "Batches land elsewhere", "Let the scheduler ask the extender: ballast profile extender", "batch"],
  ["BatchGivenUp", "A batch was given up", "Look at the message", "batch"],
  ["StateNotSaved", "ballast-state cannot be saved", "Grant update on configmaps: ballast doctor --only rbac", "doctor"],
  ["ObjectsTooLarge", "Some objects are too large to be kept whole", "They are left alone; nothing needs to be done", "architecture"],
];
const RANK = new Map(ORDER.map(([type], rank) => [type, rank]));
// What is only worth knowing, and makes nobody get up.
const MILD = new Set(["UnmatchedSeries", "ScrapesSlow", "FallbackInUse", "FallbackMissing", "NodesUnmeasured", "NodesUnknown", "SecondBallast", "ConsumptionUnknown", "BudgetsUnsatisfiable", "LandingNotSteered", "PodUsageUnknown", "ObjectsTooLarge", "Limited", "Rebaselined", "BatchNotSteered", "ReservationsNotHeld"]);

/** What holds now: [type, message, since], causes first. */
export function troubles(lost) {
  const { status } = state, found = [];
  if (lost) found.push({ type: "Lost", text: `No contact with Ballast. Last answer ${status ? `${ago((performance.now() - state.fetched) / 1000)} ago` : "never"}; what is shown may be outdated.`, bad: true });
  if (!status) return found;
  if (!status.snapshot) found.push({ type: "Dark", text: "Nothing is known about any node yet: the first cycle has not ended." });
  else if (status.snapshot.nodes && !status.snapshot.known) found.push({ type: "Dark", text: "No node is known: no node has enough fresh samples of cpu or memory.", bad: true });
  if (status.snapshot && !status.current) found.push({ type: "Stale", text: `No cycle brought data since ${clock(status.snapshot.time)}. The loads are history, and /watcher answers 500.`, bad: true });
  const held = status.conditions.filter(each => (each.status === "True") !== GOOD.has(each.type) && !(each.type === "Active" && !status.leader));
  if (status.frozen && !held.some(each => each.type === "PublishingFrozen")) held.push({ type: "Frozen", message: "Nothing is published, /watcher answers 500 and no action depends on loads." });
  held.sort((a, b) => (RANK.get(a.type) ?? 99) - (RANK.get(b.type) ?? 99));
  held.sort((a, b) => MILD.has(a.type) - MILD.has(b.type));
  return [...found, ...held.map(each => ({ type: each.type, text: each.message || each.reason || "", since: Date.parse(each.lastTransitionTime || "") / 1000, bad: !MILD.has(each.type) }))];
}

const words = ({ type }) => ORDER[RANK.get(type)]?.[1] || { Lost: "No contact with Ballast", Dark: "No data", Stale: "Data is old" }[type] || `${GOOD.has(type) ? "Not " : ""}${type}`;
const aged = each => each.since > 0 ? element("span", { class: "soft" }, ` (${ago(now() - each.since)})`) : "";

/** `ok`, `warn` or `bad`. */
export const severity = found => found.some(each => each.bad) ? "bad" : found.length ? "warn" : "ok";

let shown = "";
export function drawIncident(found) {
  const text = JSON.stringify(found.map(each => [each.type, each.text]));
  const box = $("incident"), open = box.querySelector("details")?.open;
  if (text === shown && !found.some(each => each.type === "Lost")) return;
  shown = text;
  if (!found.length) return box.replaceChildren();
  const [cause, ...others] = found, [, , advice, docs] = ORDER[RANK.get(cause.type)] || [];
  const list = others.map(each => element("li", {}, element("strong", {}, words(each)), aged(each), each.text ? `: ${each.text}` : "", ...(ORDER[RANK.get(each.type)] ? [element("span", { class: "do" }, ` → ${ORDER[RANK.get(each.type)][2]}`)] : [])));
  const more = element("details", {}, element("summary", {}, `${others.length} more ${others.length === 1 ? "finding" : "findings"}: ${others.slice(0, 3).map(words).join("; ")}${others.length > 3 ? "…" : ""}`), element("ul", { class: "plain findings" }, ...list));
  more.open = Boolean(open);
  box.replaceChildren(element("div", { class: `banner ${severity(found)}` },
    element("p", {}, element("strong", {}, words(cause)), aged(cause), `: ${cause.text} `, element("code", { class: "type" }, cause.type)),
    ...(advice ? [element("p", { class: "do" }, element("strong", {}, "What to do: "), advice, `. Docs: docs/${docs}.md`)] : []),
    ...(others.length ? [more] : [])));
}
