// One incident instead of a heap of banners: the cause, what follows from it, and what to do.
import { $, ago, element, now, state } from "./common.js";

/** What holds now: [type, message, since], causes first. */
export function troubles(lost) {
  const { status } = state, found = [];
  if (lost) found.push({ type: "Lost", text: `No contact with Ballast. Last answer ${status ? `${ago((performance.now() - state.fetched) / 1000)} ago` : "never"}; what is shown may be outdated.`, bad: true });
  if (!status) return found;
  if (status.snapshot?.nodes && !status.snapshot.known) found.push({ type: "Dark", text: "No node is known: no node has enough fresh samples of cpu or memory.", bad: true });
  const told = status.troubles.map(each => ({ ...each, text: each.message, since: Date.parse(each.since) / 1000, bad: each.rank === "outage" }));
  if (status.frozen && !told.some(each => each.type === "PublishingFrozen")) found.push({ type: "Frozen", text: "Nothing is published, /watcher answers 500 and no action depends on loads.", bad: true });
  return [...found, ...told];
}

const OWN = { Lost: "No contact with Ballast", Dark: "No data", Frozen: "Too many nodes are silent" };
const words = each => each.title || OWN[each.type] || each.type;
/** Advice in Markdown: `code`, and [links](../page.md) as the names of their pages. */
const prose = text => text.split(/(`[^`]+`|\[[^\]]+\]\([^)]+\))/).map(piece => piece[0] === "`" ? element("code", {}, piece.slice(1, -1)) : piece.replace(/\[[^\]]+\]\(\.\.\/([^)]+)\)/, "docs/$1"));
const runbook = each => !each.runbook ? "" : element("a", { href: each.runbook, rel: "noreferrer" }, "runbook");
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
  const [cause, ...others] = found;
  const list = others.map(each => element("li", {}, element("strong", {}, words(each)), aged(each), each.text ? `: ${each.text}` : "", ...(each.do ? [element("span", { class: "do" }, " → ", ...prose(each.do), " ", runbook(each))] : [])));
  const more = element("details", {}, element("summary", {}, `${others.length} more ${others.length === 1 ? "finding" : "findings"}: ${others.slice(0, 3).map(words).join("; ")}${others.length > 3 ? "…" : ""}`), element("ul", { class: "plain findings" }, ...list));
  more.open = Boolean(open);
  box.replaceChildren(element("div", { class: `banner ${severity(found)}` },
    element("p", {}, element("strong", {}, words(cause)), aged(cause), `: ${cause.text} `, element("code", { class: "type" }, cause.type)),
    ...(cause.do ? [element("p", { class: "do" }, element("strong", {}, "What to do: "), ...prose(cause.do), " ", runbook(cause))] : []),
    ...(others.length ? [more] : [])));
}
