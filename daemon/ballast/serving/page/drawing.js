// Small drawings as SVG: a line over time, a histogram with thresholds, a funnel, arrows between nodes.
import { clock, element, known, number, percent, shape, signed } from "./common.js";

/** A line over `times` of values; gaps where they are null. */
export function spark(times, values, { width = 260, height = 44, title = "" } = {}) {
  const seen = values.filter(known);
  if (seen.length < 2) return element("p", { class: "nothing small" }, "not enough history yet");
  const most = Math.max(...seen), least = Math.min(...seen), room = Math.max(most - least, most * 0.2) || 1, low = Math.max(0, (most + least - 1.2 * room) / 2);
  const first = times[0], span = times.at(-1) - first || 1;
  const x = at => ((at - first) / span) * (width - 8) + 4, y = value => height - 4 - ((value - low) / (1.2 * room)) * (height - 8);
  let path = "", open = false;
  values.forEach((value, index) => {
    if (!known(value)) { open = false; return; }
    path += `${open ? "L" : "M"}${x(times[index]).toFixed(1)} ${y(value).toFixed(1)}`;
    open = true;
  });
  const last = values.findLastIndex(known);
  return shape("svg", { viewBox: `0 0 ${width} ${height}`, class: "spark", role: "img", "aria-label": title, preserveAspectRatio: "none" },
    shape("path", { d: `M4 ${height - 4}H${width - 4}`, class: "base" }), shape("path", { d: path, class: "line" }),
    shape("circle", { cx: x(times[last]), cy: y(values[last]), r: 3, class: "dot" }));
}

/** Lines over the last 24 hours with an axis; `series` are [name, values 0..1]. */
export function lines(times, series, { width = innerWidth < 700 ? 370 : 1180, height = 220, top = 1, unit = percent } = {}) {
  const left = 44, bottom = 22, right = 8, first = times[0], span = times.at(-1) - first || 1;
  const highest = Math.max(top, ...series.flatMap(([, values]) => values.filter(known)));
  const x = at => left + ((at - first) / span) * (width - left - right), y = value => height - bottom - (value / highest) * (height - bottom - 8);
  const rules = [0, 0.25, 0.5, 0.75, 1].map(share => share * highest).flatMap(value => [
    shape("path", { d: `M${left} ${y(value)}H${width - right}`, class: "base" }),
    shape("text", { x: left - 6, y: y(value) + 4, "text-anchor": "end" }, unit(value))]);
  const marks = [0, 0.25, 0.5, 0.75, 1].map(share => shape("text", { x: x(first + share * span), y: height - 6, "text-anchor": share === 0 ? "start" : share === 1 ? "end" : "middle" }, clock(first + share * span).slice(0, 5)));
  const drawn = series.map(([, values], index) => {
    let path = "", open = false;
    values.forEach((value, row) => {
      if (!known(value)) { open = false; return; }
      path += `${open ? "L" : "M"}${x(times[row]).toFixed(1)} ${y(value).toFixed(1)}`;
      if (!open && !known(values[row + 1])) path += "h2";
      open = true;
    });
    return shape("path", { d: path, class: `line series-${index % 6}` });
  });
  const keys = series.map(([name, values], index) => {
    const last = values.findLast(known);
    return [element("span", { class: `key series-key-${index % 6}` }), `${name} ${known(last) ? unit(last) : "unknown"} `];
  });
  return element("div", { class: "chart" }, shape("svg", { viewBox: `0 0 ${width} ${height}`, class: "lines", role: "img",
    "aria-label": series.map(([name, values]) => { const seen = values.filter(known); return seen.length ? `${name} between ${unit(Math.min(...seen))} and ${unit(Math.max(...seen))}` : `${name} unknown`; }).join("; ") },
  ...rules, ...marks, ...drawn), element("p", { class: "legend" }, ...keys.flat()));
}

/** Nodes by load: now as bars, before as an outline; `marks` are [load, word]. */
export function histogram(bars, before, marks, title) {
  const width = 360, height = 190, left = 42, bottom = 34, most = Math.max(1, ...bars, ...before), step = (width - left - 6) / bars.length;
  const y = value => height - bottom - (value / most) * (height - bottom - 20), total = bars.reduce((sum, n) => sum + n, 0);
  const outline = before.some(Boolean) ? before.map((n, i) => `${i ? "L" : "M"}${left + i * step} ${y(n)}h${step}`).join("") : "";
  return shape("svg", { viewBox: `0 0 ${width} ${height}`, class: "histogram", role: "img", "aria-label": `${title}: ${total} nodes, ${bars.map((n, i) => n ? `${n} at ${i * 5} to ${i * 5 + 5} %` : "").filter(Boolean).join(", ")}` },
    shape("text", { x: left - 4, y: y(most) + 4, "text-anchor": "end" }, number(most)), shape("text", { x: left - 4, y: height - bottom, "text-anchor": "end" }, "0"),
    ...bars.map((n, i) => shape("rect", { x: left + i * step + 1, y: y(n), width: step - 2, height: height - bottom - y(n), class: marks.some(([at, , kind]) => kind && i * 0.05 + 0.001 >= at) ? "bar-hot" : "bar-load" })),
    ...(outline ? [shape("path", { d: outline, class: "outline" })] : []),
    ...marks.flatMap(([at, word], row) => {
      const x = left + at * 20 * step;
      return [shape("path", { d: `M${x} 12V${height - bottom}`, class: "mark" }), shape("text", { x: x - 3, y: 10 + row % 2 * 11, "text-anchor": "end" }, word)];
    }),
    ...[0, 25, 50, 75, 100].map(at => shape("text", { x: left + at / 5 * step, y: height - bottom + 15, "text-anchor": at === 0 ? "start" : at === 100 ? "end" : "middle" }, `${at} %`)),
    shape("path", { d: `M${left} ${height - bottom}H${width - 6}`, class: "axis" }));
}

/** From `total` pods down to those that move: each check takes its share away. `rows` are [check, pods]. */
export function funnel(total, rows, left, words) {
  let rest = total;
  const line = (name, value, kind, note) => element("li", {}, element("span", { class: "name" }, name),
    element("span", { class: "track", "aria-hidden": "true" }, bar(value, total, kind)), element("span", { class: "percent" }, note));
  return element("ol", { class: "funnel" }, line("considered", total, "fill", number(total)),
    ...rows.map(([check, pods]) => { rest -= pods; return line(check, rest, "soft-fill", `−${number(pods)}`); }),
    line(words, left, "ok-bar", number(left)));
}

export function bar(value, total, kind) {
  const made = element("span", { class: kind });
  made.style.width = `${total ? Math.max(value ? 0.6 : 0, Math.min(100, value / total * 100)) : 0}%`;
  return made;
}

/** Arrows from hot to cool: which node gives how many pods to which. `moves` are [from, to, pods]. */
export function arrows(moves, load) {
  const kept = moves.slice(0, 24), sides = [0, 1].map(side => [...new Set(kept.map(move => move[side]))]);
  const width = 720, rows = Math.max(sides[0].length, sides[1].length), height = rows * 26 + 26, at = (side, name) => 40 + sides[side].indexOf(name) * (rows * 26 / sides[side].length) + (rows * 26 / sides[side].length - 26) / 2;
  const label = (side, name) => { const value = load(name); return `${name.length > 30 ? `${name.slice(0, 29)}…` : name}${known(value) ? ` ${percent(value)}` : ""}`; };
  return element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Moves between nodes" }, shape("svg", { viewBox: `0 0 ${width} ${height}`, class: "arrows", role: "img", "aria-label": kept.map(([from, to, n]) => `${n} from ${from} to ${to}`).join("; ") },
    shape("defs", {}, shape("marker", { id: "tip", viewBox: "0 0 8 8", refX: 8, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto" }, shape("path", { d: "M0 0L8 4L0 8z", class: "head" }))),
    shape("text", { x: 250, y: 14, "text-anchor": "end", class: "title" }, "from"), shape("text", { x: 470, y: 14, class: "title" }, "to"),
    ...kept.map(([from, to, n]) => shape("path", { d: `M258 ${at(0, from)}C340 ${at(0, from)} 380 ${at(1, to)} 460 ${at(1, to)}`, class: "arrow", "stroke-width": Math.min(6, 1 + n), "marker-end": "url(#tip)" })),
    ...sides.flatMap((names, side) => names.map(name => shape("text", { x: side ? 470 : 250, y: at(side, name) + 4, "text-anchor": side ? "start" : "end", class: side ? "cool" : "warm" }, label(side, name))))),
  ...(moves.length > kept.length ? [element("p", { class: "soft" }, `The first ${kept.length} of ${number(moves.length)} pairs.`)] : []));
}

/** What was predicted beside what was measured, as bars. */
export function pair(predicted, measured, unit = value => signed(value * 100, 1)) {
  const most = Math.max(Math.abs(predicted ?? 0), Math.abs(measured ?? 0)) || 1;
  const line = (name, value, kind) => element("li", {}, element("span", { class: "name" }, name), element("span", { class: "track", "aria-hidden": "true" }, bar(Math.abs(value ?? 0), most, kind)),
    element("span", { class: "percent" }, known(value) ? unit(value) : "not yet"));
  return element("ul", { class: "funnel pair" }, line("predicted", predicted, "soft-fill"), line("measured", measured, "ok-bar"));
}
