// One incident instead of a heap of banners: the cause, what follows from it, and what to do, in the server's words.
import { $, ago, element, known, now, since, state } from "./common.js";

/** What holds now, as the server tells it, causes first; `lost` is all that the page knows by itself. */
export function troubles(lost) {
  const { status } = state, found = status ? status.wrong : [];
  if (!lost) return found;
  const cause = status ? "What is shown is from the last answer, and may be outdated." : "It has not answered yet.";
  return [{ type: "Lost", rank: "outage", title: "No contact with Ballast", cause, since: status?.time, tense: "holds", next: "" }, ...found];
}

const RECOVERING = "recovering";
const age = each => [each.tense === RECOVERING ? "recovering" : "", known(each.since) ? `${since(each.since)}, ${ago(Math.max(0, now() - each.since))}` : ""].filter(Boolean).join(", ");
const bracketed = each => age(each) && ` (${age(each)})`;
/** Ages run; a reader of screens is not told each time. */
const aged = each => element("span", { class: "soft age", "aria-live": "off" }, bracketed(each));
const runbook = each => {
  const trouble = state.status?.troubles.find(other => other.type === each.type);
  return trouble?.runbook ? element("a", { href: trouble.runbook, rel: "noreferrer" }, "runbook") : "";
};
const told = each => [element("strong", {}, each.title), aged(each), `: ${each.cause} `];
const advice = each => each.next && each.tense !== RECOVERING ? [element("p", { class: "do" }, element("strong", {}, "What to do: "), each.next, " ", runbook(each))] : [];

/** `ok`, `warn` or `bad`. */
export const severity = found => found.some(each => each.rank === "outage" && each.tense !== RECOVERING) ? "bad" : found.length ? "warn" : "ok";

let shown = "";
export function drawIncident(found) {
  const text = JSON.stringify(found.map(each => [each.type, each.cause, each.tense])), box = $("incident");
  if (text === shown) {
    box.querySelectorAll(".age").forEach((span, index) => { span.textContent = bracketed(found[index]); });
    return;
  }
  const open = box.querySelector("details")?.open;
  shown = text;
  if (!found.length) return box.replaceChildren();
  const [cause, ...others] = found;
  const more = element("details", {},
    element("summary", {}, `${others.length} more ${others.length === 1 ? "finding" : "findings"}: ${others.slice(0, 3).map(each => each.title).join("; ")}${others.length > 3 ? "…" : ""}`),
    element("ul", { class: "plain findings" }, ...others.map(each => element("li", {}, ...told(each), ...advice(each)))));
  more.open = Boolean(open);
  box.replaceChildren(element("div", { class: `banner ${severity(found)}` },
    element("p", {}, ...told(cause), element("code", { class: "type" }, cause.type)), ...advice(cause), ...(others.length ? [more] : [])));
}
