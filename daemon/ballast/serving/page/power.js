import { $, MORE, PAGE, ago, banner, clock, count, element, known, nothing, now, number, percent, read, route, say, shape, signed, table, tag, when } from "./common.js";
import { draw, load } from "./chart.js";

const STATES = { STABLE: "stable", PENDING_INCREASE: "more power, being confirmed", PENDING_DECREASE: "less power, being confirmed" };
const ACTUATORS = {
  "scale": "replicas", "hpa-cap": "maximum of its HorizontalPodAutoscaler",
  "scaledobject-cap": "maximum of its ScaledObject", "observe": "observed only",
};
const REASONS = {
  ScaledUp: "more power", ScaledDown: "less power", EmergencyDrop: "sudden fall of power", RateLimited: "the next step of a change",
  Fallback: "the feed was silent for too long", ForeignChange: "a change by someone else was undone", PlanResumed: "an unfinished plan was completed",
};
const NAMED = 3, SPARK = { width: 88, height: 22 };
const SPANS = [["1 h", 3600], ["6 h", 21600], ["24 h", 86400]];
const PLAIN = new Set(["Deployment", "deployments.apps"]);
const view = {  span: 21600, filter: "", show: "", limit: PAGE };
let power = null, drawn = "";

const watts = value => known(value) ? `${number(value, Math.abs(value) < 100 ? 1 : 0)} W` : nothing("unknown");
const capital = words => words[0].toUpperCase() + words.slice(1);
const text = value => known(value) ? String(value) : nothing("unknown");
const policies = () => power.policies;
const chosen = () => policies().find(policy => policy.name === route().rest[0]) || policies()[0];

function overview() {
  if (policies().length < 2) return [];
  return [element("div", { class: "choices", role: "group", "aria-label": "Policy" }, ...policies().map(policy => {
    const feed = policy.feed || {}, button = element("button", { type: "button", "aria-pressed": String(policy === chosen()), "data-policy": policy.name },
      element("strong", {}, policy.name), ` ${feed.problem ? "feed silent" : known(feed.watts) ? `${number(feed.watts)} W` : "unknown"}, ${STATES[policy.state] || "not started"}`);
    button.addEventListener("click", () => { location.hash = `#power/${encodeURIComponent(policy.name)}`; view.limit = PAGE; drawPower(); $("power-body").querySelector(`[data-policy="${CSS.escape(policy.name)}"]`)?.focus(); });
    return button;
  }))];
}

function banners(policy) {
  const shown = [], feed = policy.feed || {};
  if (power.mode === "off") shown.push(banner("warn", "Off.", "Replicas are neither computed nor changed."));
  if (policy.shadow || power.mode === "dry-run") shown.push(banner("warn", "Dry-run.", "The replicas shown are computed. Nothing is changed."));
  if (power.paused) shown.push(banner("warn", "Paused.", power.paused));
  if (feed.problem) shown.push(banner("bad", "Feed.", `${feed.problem}. Without a valid sample nothing is scaled${known(feed.time) ? `; the last one is ${ago(now() - feed.time)} old` : ""}.`));
  if (known(policy.over)) shown.push(banner("bad", "Over budget.", `${number(policy.over)} W more than is available are drawn.`));
  if (policy.missing_effect) shown.push(banner("bad", "Effect missing.", policy.missing_effect));
  if (policy.schedule_problem) shown.push(banner("warn", "Schedule.", policy.schedule_problem));
  if (policy.unmet_demand) shown.push(banner("warn", "Demand not met.", `${count(policy.unmet_demand, "replica")} that autoscalers want are held back by their caps.`));
  if (policy.unmet) shown.push(banner("warn", "Not met.", `${count(policy.unmet, "replica")} cannot be added or removed: every target is at its bound.`));
  return shown;
}

/** The next bounds of a schedule, such as "500 W from 14:00:00". */
function planned(schedule) {
  const next = schedule.filter(([time]) => time > now()), more = next.length - NAMED;
  return next.slice(0, NAMED).map(([time, bound]) => `${number(bound)} W from ${clock(time)}`).join(", ") + (more > 0 ? ` and ${more} more` : "") || nothing("no change known");
}

function numbers(policy) {
  const feed = policy.feed || {}, [low, high] = policy.deadband || [null, null], last = (policy.history || []).at(-1);
  const replicas = last ? last[5] : null;
  const off = known(feed.watts) && policy.reference ? ` (${signed((feed.watts - policy.reference) / policy.reference * 100, 1)} % of the reference)` : "";
  const entries = [
    ["Available now", [watts(feed.watts), off, known(feed.time) ? `, ${ago(now() - feed.time)} ago` : ""]],
    ["Reference", [known(policy.reference) ? watts(policy.reference) : nothing("none yet: the first window has not ended")]],
    ["Dead band", known(low) ? [`${number(low)} to ${number(high)} W: no change in between`] : [nothing("none yet")]],
    ...(known(feed.bound) ? [["Schedule allows", [watts(feed.bound)]]] : []),
    ...(policy.schedule?.length ? [["Schedule ahead", [planned(policy.schedule)]]] : []),
    ...(policy.energy ? [["Energy", [`${number(policy.energy.used_kwh, 2)} of ${number(policy.energy.kwh, 2)} kWh used, the rest is for ${ago(policy.energy.ends_in)}`]]] : []),
    ...(known(policy.load) ? [["Drawn as declared", [watts(policy.load), known(policy.over) ? `, ${number(policy.over)} W over` : known(feed.watts) ? `, ${number(feed.watts - policy.load)} W left` : ""]]] : []),
    ...(known(feed.consumed) ? [["Drawn as measured", [watts(feed.consumed)]]] : []),
    ["Replicas", [text(replicas), policy.shadow ? ", computed" : ""]],
    ["Feed", [feed.semantics || nothing("unknown")]],
  ];
  if (policy.window) {
    const left = policy.window.since + policy.window.length - now();
    entries.push(["Window", [`since ${clock(policy.window.since)}, ${left > 0 ? `${ago(left)} of ${ago(policy.window.length)} left` : "full"}`]]);
  }
  return element("dl", { class: "numbers" }, ...entries.flatMap(([name, parts]) => [element("dt", {}, name), element("dd", {}, ...parts)]));
}

/** The history in the chosen span; behind each row watts drawn, measured and over, and unmet demand. */
function span(policy) {
  const history = policy.history || [], end = history.length ? history.at(-1)[0] : 0;
  const draws = new Map((policy.draws || []).map(row => [row[0], row.slice(1)]));
  return history.filter(row => row[0] >= end - view.span).map(row => [...row, ...(draws.get(row[0]) || [])]);
}

/** The schedule from the last reading on, as far ahead as the span reaches back. */
function ahead(policy, rows) {
  const end = rows.length ? rows.at(-1)[0] : 0, next = (policy.schedule || []).filter(([time]) => time > end && time <= end + view.span);
  return next.length ? [[end, policy.feed?.bound ?? null], ...next] : [];
}

/** Replicas of one target since its first change, as a small stepped line. */
function spark(target) {
  const past = target.history || [];
  if (past.length < 2) return "";
  const from = past[0][0], until = Math.max(now(), past.at(-1)[0] + 1), most = Math.max(1, ...past.map(([, count]) => count));
  const x = time => ((time - from) / (until - from) * SPARK.width).toFixed(1), y = count => (SPARK.height - 1 - count / most * (SPARK.height - 2)).toFixed(1);
  const path = past.map(([time, count], index) => `${index ? `H${x(time)}V` : `M${x(time)} `}${y(count)}`).join("") + `H${SPARK.width}`;
  const words = `${past.slice(-NAMED).map(([time, count]) => `${count} since ${clock(time)}`).join(", ")}; between ${Math.min(...past.map(([, count]) => count))} and ${most}`;
  return shape("svg", { class: "spark", ...SPARK, role: "img", "aria-label": words }, shape("title", {}, words), shape("path", { d: path }));
}

function described(rows) {
  const seen = rows.map(row => row[1]).filter(known), gaps = rows.length - seen.length;
  if (!seen.length) return "No valid sample in this time.";
  const replicas = rows.map(row => row[5]).filter(known);
  return `In this time ${number(Math.min(...seen))} to ${number(Math.max(...seen))} W` +
    (replicas.length ? `, ${Math.min(...replicas)} to ${Math.max(...replicas)} replicas` : "") +
    (gaps ? `; ${percent(gaps / rows.length)} of the samples missing or invalid` : "") + ".";
}

function charts(policy) {
  const rows = span(policy);
  const buttons = SPANS.map(([name, seconds]) => {
    const button = element("button", { type: "button", "aria-pressed": String(view.span === seconds), "data-span": seconds }, name);
    button.addEventListener("click", () => { view.span = seconds; drawPower(); $("power-body").querySelector(`[data-span="${seconds}"]`)?.focus(); });
    return button;
  });
  const box = element("div", { class: "chart", id: "power-chart", role: "img", "aria-label": `Watts, reference, dead band and replicas over time. ${described(rows)}` });
  box.rows = rows;
  box.ahead = ahead(policy, rows);
  const readings = table("Readings", [["Time"], ["Watts", "number"], ["Reference", "number"], ["Replicas", "number"], ["State"]],
    changes(rows).map(row => [when(row[0]), known(row[1]) ? number(row[1]) : nothing("none"), known(row[2]) ? number(row[2]) : null, text(row[5]), STATES[row[6]] || row[6] || ""]), "none yet");
  return [
    element("div", { class: "bar" }, element("h3", {}, "Over time"), element("div", { class: "choices", role: "group", "aria-label": "Time span" }, ...buttons)),
    ...(rows.length < 2 ? [element("p", {}, nothing("Not enough readings for a chart yet."))] : [box,
      element("p", { class: "legend" }, element("span", { class: "key window" }), "being confirmed ", element("span", { class: "key gap" }), "no valid sample. ", described(rows), " Drag to zoom, double-click to see all."),
      element("details", {}, element("summary", {}, "Changes as a table"), readings)]),
  ];
}

/** The rows in which replicas, reference or state changed, newest first. */
function changes(rows) {
  return rows.filter((row, index) => !index || [2, 5, 6].some(column => row[column] !== rows[index - 1][column])).reverse().slice(0, 60);
}

function actions(policy) {
  const rows = (policy.actions || []).slice(0, 30).map(action => {
    const moved = Object.entries(action.changes || {}), total = moved.reduce((sum, [, n]) => sum + n, 0);
    const after = action.replicas || {};
    const names = moved.map(([name, n]) => known(after[name]) ? `${name} ${after[name] - n} → ${after[name]}` : `${name} ${signed(n)}`);
    return [when(action.time), REASONS[action.reason] || action.reason || "", signed(total), names.length > 8 ? `${names.slice(0, 8).join(", ")} and ${names.length - 8} more` : names.join(", ") || nothing("none"), action.result || ""];
  });
  return [element("h3", {}, policy.shadow ? "Changes in dry-run" : "Changes"),
    table("Actions", [["When"], ["Why"], ["Replicas", "number"], ["Targets"], ["Result"]], rows, "nothing yet")];
}

const trouble = target => target.problem ? "problem" : target.excluded ? "excluded" : target.actuator === "observe" ? "observed" : "";

function targetRows() {
  const policy = chosen();
  return (policy.targets || []).filter(target => (!view.filter || target.ref.toLowerCase().includes(view.filter)) &&
    (!view.show || (view.show === "free" ? !trouble(target) : trouble(target) === view.show)));
}

const moved = policy => (policy.targets || []).some(target => target.history?.length > 1);
const learned = policy => (policy.targets || []).some(target => target.watts);

function targets(policy) {
  const shown = targetRows(), kept = shown.slice(0, view.limit);
  const columns = [["Target"], ["Changed by"], ["Replicas", "number"], ...(moved(policy) ? [["Over time"]] : []), ...(policy.shadow ? [["In dry-run", "number"]] : []), ["Bounds", "number"], ["Original maximum", "number"], ...(learned(policy) ? [["Watts each", "number"]] : []), ["Not changed because"]];
  const rows = kept.map(target => [
    element("span", {}, target.ref, element("span", { class: "soft" }, target.kind && !PLAIN.has(target.kind) ? ` ${target.kind}` : "")),
    ACTUATORS[target.actuator] || target.actuator || null,
    known(target.replicas) ? text(target.replicas) : null,
    ...(moved(policy) ? [spark(target)] : []),
    ...(policy.shadow ? [known(target.potential) ? text(target.potential) : null] : []),
    known(target.min) && known(target.max) ? `${target.min} to ${target.max}` : null,
    known(target.original) ? text(target.original) : "",
    ...(learned(policy) ? [target.watts ? `${number(target.watts.value, 1)} ±${number(target.watts.error, 1)}` : ""] : []),
    target.problem ? element("span", { class: "failed" }, target.problem) : target.excluded ? `excluded: ${target.excluded}` : "",
  ]);
  const total = (policy.targets || []).length;
  const more = element("button", { type: "button", id: "power-more" }, "Show more");
  more.hidden = shown.length <= view.limit;
  more.addEventListener("click", () => { view.limit += MORE; drawPower(); $("power-more")?.focus(); });
  return [
    element("p", { class: "soft", role: "status" }, `${number(kept.length)} of ${number(shown.length)} shown${shown.length < total ? `, ${number(total)} in all` : ""}`),
    table("Targets", columns, rows, total ? "none matches the filter" : "this policy has no target"), more,
  ];
}

function drawTargets() { $("power-targets").replaceChildren(...targets(chosen())); }

function drawPower() {
  const body = $("power-body");
  const open = body.querySelector("details")?.open, held = document.activeElement?.closest?.("#power-tools") ? document.activeElement.id : null;
  if (!policies().length) {
    $("power-tools").hidden = true;
    const off = power.mode === "off" ? "Power is off." : "No power policy is set. Set power.policies in the configuration file: a feed of watts, and the workloads to scale.";
    $("power-targets").replaceChildren();
    return body.replaceChildren(...(power.paused ? [banner("warn", "Paused.", power.paused)] : []), element("p", {}, nothing(off)));
  }
  const policy = chosen();
  body.replaceChildren(...overview(), element("div", { class: "title" }, element("h3", {}, policy.name), tag(policy.state === "STABLE" ? "on" : policy.state ? "high" : "off", STATES[policy.state] || "not started"),
    ...(policy.shadow ? [tag("dry-run", "dry-run")] : [])),
    element("p", { class: "waiting" }, capital(policy.waiting_for || (policy.state ? "It waits for the next reading." : "It has not run yet."))),
    ...banners(policy), numbers(policy), ...charts(policy), ...actions(policy), element("h3", {}, "Targets"));
  if (open) body.querySelector("details")?.setAttribute("open", "");
  $("power-tools").hidden = false;
  drawTargets();
  redraw();
  if (held) $(held)?.focus();
}

function redraw() {
  const box = $("power-chart");
  if (box) draw(box, box.rows, box.ahead);
}

export async function refreshPower() {
  const { body, changed } = await read("/api/v1/power"), first = !power || drawn !== location.hash;
  drawn = location.hash;
  await load();
  power = body;
  say($("power-count"), body.policies.length ? count(body.policies.length, "policy").replace("policys", "policies") : "");
  if (changed || first) return drawPower();
  const list = $("power-body").querySelector("dl.numbers");
  if (list) list.replaceWith(numbers(chosen()));
}

$("power-filter").addEventListener("input", event => { view.filter = event.target.value.trim().toLowerCase(); view.limit = PAGE; if (power) drawTargets(); });
$("power-show").addEventListener("change", event => { view.show = event.target.value; view.limit = PAGE; if (power) drawTargets(); });
document.addEventListener("view", redraw);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
let width = 0;
new ResizeObserver(() => { if ($("power-body").clientWidth !== width) { width = $("power-body").clientWidth; redraw(); } }).observe($("power-body"));
