import { $, ago, count, element, known, nothing, now, number, percent, read, say, signed, table, tag, when } from "./common.js";

const ROWS = 200;
const KINDS = { relieve: "relieve: moves pods off overloaded nodes", rebalance: "rebalance: evens out the load of the nodes", redistribute: "redistribute: makes room for waiting pods" };
const view = { kind: "", show: "" };
const opened = new Map();
let plans = null;

const sigma = value => known(value) ? number(value, 4) : nothing("unknown");

function effect(plan) {
  const rows = Object.keys({ ...plan.before, ...plan.after }).sort().map(name => {
    const before = (plan.before || {})[name], after = (plan.after || {})[name];
    const left = known(before) && known(after) && before > 0 ? `${signed((after - before) / before * 100, 1)} %` : "";
    return [name, sigma(before), sigma(after), left];
  });
  return table("Predicted effect", [["Resource"], ["σ before", "number"], ["σ after", "number"], ["Change", "number"]], rows, "no load is known");
}

const GAINS = { relieve: gain => `relieves ${percent(gain)}`, rebalance: gain => `variance −${number(gain, 6)}`, redistribute: gain => `${count(gain, "pod")} can start` };

function steps(plan) {
  const rows = plan.steps.slice(0, ROWS).map(step => [step.pod, step.from || "", step.to || nothing("chosen by the scheduler"), known(step.gain) ? (GAINS[plan.kind] || String)(step.gain) : "", step.reason || ""]);
  return [element("h4", {}, plan.mode === "on" ? "Steps" : "Steps in dry-run"),
    table("Steps", [["Pod"], ["From"], ["To"], ["Gain"], ["Why"]], rows, "none: no pod needs to move, or no pod may"), ...cut(plan.steps.length)];
}

const cut = total => total > ROWS ? [element("p", { class: "soft" }, `The first ${ROWS} of ${number(total)} are shown; /api/v1/plans has all.`)] : [];

function refusals(plan) {
  const refused = Object.entries(plan.refused || {}).sort(([a, x], [b, y]) => y - x || (a < b ? -1 : 1)).map(([check, n]) => [check, number(n)]);
  const verdicts = (plan.verdicts || []).filter(each => view.show !== "refused" || each.verdict === "refused");
  return [
    element("h4", {}, "Refused pods by their first failed check"), table("Refused pods by check", [["Check"], ["Pods", "number"]], refused, "no pod was refused"),
    element("h4", {}, "Verdicts"), table("Verdicts", [["Pod"], ["Verdict"], ["Check"], ["Why"]],
      verdicts.slice(0, ROWS).map(each => [each.pod, each.verdict || "", each.check || "", each.reason || ""]), "none recorded"), ...cut(verdicts.length),
  ];
}

function details(plan) {
  const total = Object.values(plan.refused || {}).reduce((sum, n) => sum + n, 0);
  const summary = element("summary", {}, element("span", { class: "when" }, when(plan.time)), " ", element("strong", {}, plan.kind), " ",
    plan.mode === "on" ? tag("on", "on") : tag(plan.mode || "off", plan.mode || "mode unknown"), " ",
    plan.sentence || `${plan.mode === "on" ? "moves" : "would move"} ${count(plan.steps.length, "pod")}, ${number(total)} refused`);
  const made = element("details", { class: "plan" }, summary);
  const fill = () => {
    if (made.childElementCount > 1) return;
    const placed = plan.placed || [];
    made.append(element("div", {},
      element("p", { class: "soft" }, `${KINDS[plan.kind] || plan.kind}. Plan ${plan.id}, ${ago(now() - plan.time)} old when shown.${plan.mode === "on" ? "" : " Dry-run: no pod is evicted."}`),
      effect(plan), ...(placed.length ? [element("p", {}, `Would start: ${placed.slice(0, 20).join(", ")}${placed.length > 20 ? ` and ${number(placed.length - 20)} more` : ""}.`)] : []),
      ...steps(plan), ...refusals(plan)));
  };
  made.addEventListener("toggle", () => { opened.set(plan.id, made.open); if (made.open) fill(); });
  return [made, fill];
}

function drawPlans() {
  const shown = plans.filter(plan => !view.kind || plan.kind === view.kind);
  const held = document.activeElement?.closest?.("#plans-list") ? [...document.querySelectorAll("#plans-list summary")].indexOf(document.activeElement) : -1;
  const made = shown.map(details);
  $("plans-list").replaceChildren(...(made.length ? made.map(([one]) => one) :
    [element("p", {}, nothing(plans.length ? "No plan of this kind." : "No plan has been made yet. Planning needs a leader, two complete cycles, and a mode other than off."))]));
  made.forEach(([one, fill], index) => {
    if (opened.get(shown[index].id) ?? index === 0) { fill(); one.open = true; }
  });
  if (held >= 0) document.querySelectorAll("#plans-list summary")[held]?.focus();
}

export async function refreshPlans() {
  const { body, changed } = await read("/api/v1/plans");
  if (!changed) return;
  plans = body;
  say($("plans-count"), plans.length ? `${count(plans.length, "plan")}, newest first` : "");
  drawPlans();
}

$("plans-kind").addEventListener("change", event => { view.kind = event.target.value; if (plans) drawPlans(); });
$("plans-show").addEventListener("change", event => { view.show = event.target.value; if (plans) drawPlans(); });
