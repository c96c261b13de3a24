// Plans: what would move where, what it would bring, and what every other pod was refused for.
import { $, ago, count, element, known, nothing, now, number, percent, read, remember, route, say, signed, state, table, tag, to, when } from "./common.js";
import { arrows, funnel } from "./drawing.js";
import { fleet } from "./fleet.js";
import { CHECKS } from "./words.js";

const ROWS = 200;
const KINDS = { relieve: "relieve: moves pods off overloaded nodes", rebalance: "rebalance: evens out the load of the nodes", redistribute: "redistribute: makes room for waiting pods", tidy: "tidy: removes failed and old pods", consolidate: "consolidate: empties nodes", repair: "repair: moves pods to where they belong" };
let plans = null, plan = null, find = "", loads = null;

const plainly = check => CHECKS[check] ? `${check}: ${CHECKS[check]}` : check;
const sigma = value => known(value) ? `±${(value * 100).toFixed(1)}` : nothing("unknown");
const pod = name => to(name, "pods", ...name.split("/"));
const node = name => to(name, "nodes", name);

function effect(one) {
  const rows = Object.keys({ ...one.before, ...one.after }).sort().map(name => {
    const before = (one.before || {})[name], after = (one.after || {})[name];
    return [name, sigma(before), sigma(after), known(before) && known(after) && before > 0 ? `${signed((after - before) / before * 100, 1)} %` : ""];
  });
  return table("Predicted effect", [["Resource"], ["Before", "number"], ["After", "number"], ["Change", "number"]], rows, "no load is known");
}

function gain(kind, value) {
  if (!known(value)) return "";
  if (kind === "relieve") return `${percent(value)} relieved`;
  if (kind === "redistribute") return `${count(value, "pod")} can start`;
  return `variance −${(value * 10000).toFixed(value < 0.001 ? 2 : 1)} points²`;
}

const cut = total => total > ROWS ? [element("p", { class: "soft" }, `The first ${ROWS} of ${number(total)} are shown; /api/v1/plans has all.`)] : [];

function moves(one) {
  const found = new Map();
  for (const step of one.steps) {
    if (!step.from || !step.to) continue;
    const key = `${step.from} ${step.to}`;
    found.set(key, [step.from, step.to, (found.get(key)?.[2] || 0) + 1]);
  }
  return [...found.values()].sort((a, b) => b[2] - a[2] || (a[0] < b[0] ? -1 : 1));
}

function verdicts(one) {
  const matching = (one.verdicts || []).filter(each => !find || each.pod.toLowerCase().includes(find));
  return [table("Verdicts", [["Pod"], ["Verdict"], ["Check"], ["Why"]], matching.slice(0, ROWS).map(each => [pod(each.pod), each.verdict === "allowed" ? "✔ allowed" : "✘ refused", each.check || "", each.reason || ""]),
    find ? "none matches; ask for the pod itself: its page shows every check" : "none recorded"), ...cut(matching.length)];
}

function drawPlan() {
  const box = $("plan-body");
  if (!plan) return box.replaceChildren();
  const refused = Object.entries(plan.refused || {}).sort(([a, x], [b, y]) => y - x || (a < b ? -1 : 1)), total = refused.reduce((sum, [, n]) => sum + n, 0) + plan.steps.length;
  const placed = plan.placed || [], dry = plan.mode !== "on", pairs = moves(plan), held = document.activeElement?.id === "plan-find";
  const search = element("input", { id: "plan-find", type: "search", placeholder: "part of a pod's name", autocomplete: "off", spellcheck: "false", value: find });
  const list = element("div", {}, ...verdicts(plan));
  search.addEventListener("input", () => { find = search.value.trim().toLowerCase(); list.replaceChildren(...verdicts(plan)); });
  box.replaceChildren(
    element("div", { class: "card" }, element("div", { class: "title" }, element("h3", {}, KINDS[plan.kind] || plan.kind), tag(dry ? "dry-run" : "on", plan.mode)),
      element("p", { class: "waiting" }, plan.sentence || ""), element("p", { class: "soft" }, `Plan ${plan.id}, ${ago(Math.max(0, now() - plan.time))} ago.${dry ? " Dry-run: no pod is evicted." : ""}`),
      ...Object.entries(plan.prices || {}).map(([check, price]) => element("p", { class: "price" }, `${plainly(check)} alone keeps ${count(price.pods, "pod")} on hot nodes, ${price.load.toFixed(2)} nodes' load: `, element("code", {}, price.setting))),
      ...(placed.length ? [element("p", {}, `Would start: ${placed.slice(0, 20).join(", ")}${placed.length > 20 ? ` and ${number(placed.length - 20)} more` : ""}.`)] : [])),
    element("div", { class: "split even" },
      element("div", { class: "card" }, element("h3", {}, "From hot to cool"), ...(pairs.length ? [arrows(pairs, name => loads?.get(name) ?? null)] : [nothing(plan.steps.length ? "The scheduler chooses where these pods land." : "Nothing moves.")]), element("h3", {}, "Load between nodes, in points"), effect(plan)),
      element("div", { class: "card" }, element("h3", {}, "From all pods to those that move"), total ? funnel(total, refused.map(([check, n]) => [plainly(check), n]), plan.steps.length, dry ? "would move" : "move") : nothing("No pod had to be considered."))),
    element("div", { class: "card" }, element("h3", {}, dry ? "Steps in dry-run" : "Steps"), table("Steps", [["Pod"], ["From"], ["To"], ["Gain"], ["Why"]],
      plan.steps.slice(0, ROWS).map(step => [pod(step.pod), step.from ? node(step.from) : "", step.to ? node(step.to) : nothing("chosen by the scheduler"), gain(plan.kind, step.gain), step.reason || ""]), "none: no pod needs to move, or no pod may"), ...cut(plan.steps.length)),
    element("div", { class: "card" }, element("div", { class: "bar" }, element("h3", {}, "Verdicts"), element("label", {}, "Find ", search)), list));
  if (held) $("plan-find").focus();
}

function drawList() {
  const kind = route().query.get("kind") || "", kinds = [...new Set([...Object.keys(KINDS).slice(0, 3), ...plans.map(each => each.kind)])], select = $("plans-kind");
  if (select.options.length !== kinds.length + 1) select.replaceChildren(element("option", { value: "" }, "all"), ...kinds.map(each => element("option", {}, each)));
  select.value = kind;
  const shown = plans.filter(each => !kind || each.kind === kind);
  say($("plans-count"), plans.length ? `${count(plans.length, "plan")}, newest first` : "");
  $("plans-list").replaceChildren(...(shown.length ? [element("ol", { class: "rows" }, ...shown.map(each => element("li", {}, element("a", { href: `#plans/${encodeURIComponent(each.id)}${kind ? `?kind=${kind}` : ""}`, "aria-current": each.id === plan?.id ? "true" : null },
    element("span", { class: "when" }, when(each.time)), " ", element("strong", {}, each.kind), " ", tag(each.mode === "on" ? "on" : each.mode, each.mode), element("span", { class: "sentence" }, ` ${each.sentence || `${count(each.moves, "move")}, ${number(each.refused)} refused`}`)))))] :
    [element("p", {}, nothing(plans.length ? "No plan of this kind." : "The leader has made no plan yet. Planning needs a leader, two complete cycles, and a mode other than off."))]));
}

export async function refreshPlans() {
  const { body, changed } = await read("/api/v1/plans/summaries");
  plans = body;
  const kind = route().query.get("kind") || "", wanted = route().rest[0] || plans.find(each => (!kind || each.kind === kind) && each.moves)?.id || plans.find(each => !kind || each.kind === kind)?.id;
  if (!wanted) { plan = null; drawList(); return drawPlan(); }
  if (plan?.id !== wanted) {
    plan = await read(`/api/v1/plans/${encodeURIComponent(wanted)}`).then(({ body: found }) => found).catch(error => { if (error.lost) throw error; return null; });
    if (state.status.snapshot) loads = await fleet().then(found => new Map(found.nodes.map(each => [each.name, Math.max(...found.resources.slice(0, 2).map(name => each.load(name) ?? 0))])));
    find = "";
    drawPlan();
    drawList();
  } else if (changed) drawList();
}

$("plans-kind").addEventListener("change", event => { location.hash = "#plans"; remember({ kind: event.target.value }); plan = null; if (plans) refreshPlans(); });
