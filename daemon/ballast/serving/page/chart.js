// Power and replicas over time. uPlot is a script of its own; the colours come from the style sheet.
/* global uPlot */
import { number } from "./common.js";

const WATTS = 240, REPLICAS = 130;
const style = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const stepped = () => uPlot.paths.stepped({ align: 1 });
const digits = value => value === null || value === undefined ? "unknown" : number(value, Math.abs(value) < 10 ? 1 : 0);

function times(plot, splits) {
  let day = null;
  const second = splits.length > 1 && splits[1] - splits[0] < 60 ? "2-digit" : undefined;
  return splits.map(split => {
    const date = new Date(split * 1000), today = date.toDateString(), text = date.toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit", second, hour12: false });
    const first = day !== null && day !== today;
    day = today;
    return first ? `${text}\n${date.toLocaleDateString("en-GB", { day: "numeric", month: "short" })}` : text;
  });
}

const at = (plot, value) => value === null || value === undefined ? "" : new Date(value * 1000).toLocaleString("en-GB", { hour12: false, weekday: "short", hour: "2-digit", minute: "2-digit", second: "2-digit" });

/** Shades the times in which a change was being confirmed, and those without a valid sample. */
function shade(rows) {
  return plot => {
    const { ctx, bbox } = plot;
    for (let from = 0; from < rows.length;) {
      const kind = rows[from][1] === null ? "--gap" : rows[from][6] === "STABLE" ? "" : "--window";
      let to = from + 1;
      while (to < rows.length && kind === (rows[to][1] === null ? "--gap" : rows[to][6] === "STABLE" ? "" : "--window")) to++;
      if (kind) {
        const left = plot.valToPos(rows[from][0], "x", true), right = plot.valToPos(rows[Math.min(to, rows.length - 1)][0], "x", true);
        ctx.save();
        ctx.fillStyle = style(kind);
        ctx.fillRect(Math.max(left, bbox.left), bbox.top, Math.max(2, Math.min(right, bbox.left + bbox.width) - Math.max(left, bbox.left)), bbox.height);
        ctx.restore();
      }
      from = to;
    }
  };
}

function options(width, height, series, bands, rows, unit) {
  const axis = { stroke: style("--soft"), grid: { stroke: style("--line"), width: 1 }, ticks: { stroke: style("--line"), width: 1 }, font: "12px system-ui, sans-serif" };
  return {
    width, height, bands,
    series: [{ label: "Time", value: at }, ...series],
    axes: [{ ...axis, values: times, space: 64 }, { ...axis, size: 64, label: unit, labelSize: 18, labelFont: axis.font, values: (plot, splits) => splits.map(split => number(split, 1)) }],
    scales: { y: { range: (plot, low, high) => unit === "replicas" ? [0, Math.max(1, high * 1.1)] : [Math.max(0, low - (high - low || high) * 0.1), high + (high - low || high || 1) * 0.1] } },
    cursor: { sync: { key: "power" }, drag: { x: true, y: false } },
    hooks: { drawClear: [shade(rows)] },
  };
}

let coming = null;
/** Loads uPlot when it is first needed. */
export function load() {
  coming ??= new Promise(resolve => {
    const script = document.createElement("script");
    script.src = "/page/uplot.js";
    for (const event of ["load", "error"]) script.addEventListener(event, resolve);
    document.head.append(script);
  });
  return coming;
}

/** Draws `rows` of a history into `box` as two charts; nothing while the box is hidden.
 * Behind the state a row has what is drawn as declared and as measured, and the replicas that autoscalers lack.
 * `ahead` are [time, watts] of a schedule; the first is that of the last row. */
export function draw(box, rows, ahead = []) {
  for (const plot of box.plots || []) plot.destroy();
  box.plots = [];
  const width = box.clientWidth;
  if (!width || typeof uPlot === "undefined" || rows.length < 2) return;
  const last = rows.at(-1)[0], later = ahead.filter(([time]) => time > last), has = index => rows.some(row => row[index]);
  const column = index => [...rows.map(row => row[index] ?? null), ...later.map(([time]) => index ? null : time)];
  const scheduled = [...rows.slice(1).map(() => null), ahead[0]?.[1] ?? null, ...later.map(([, bound]) => bound)];
  const quiet = { points: { show: false }, value: (plot, value, series, index) => index === null ? "" : digits(value) };
  const edge = { ...quiet, stroke: style("--edge"), width: 1, dash: [4, 4], paths: stepped() };
  const drawn = [
    ...(has(7) ? [["Drawn as declared", column(7), "--ok", []]] : []), ...(has(8) ? [["Drawn as measured", column(8), "--high", []]] : []),
    ...(later.length ? [["Schedule", scheduled, "--over", [6, 4]]] : []),
  ];
  const lacking = has(10) ? [["Wanted by autoscalers beside", column(10)]] : [];
  const watts = options(width, WATTS, [
    { ...edge, label: "Dead band, low" },
    { ...edge, label: "Dead band, high" },
    { ...quiet, label: "Reference", stroke: style("--reference"), width: 2, paths: stepped() },
    { ...quiet, label: "Available", stroke: style("--fill"), width: 2 },
    ...drawn.map(([label, , colour, dash]) => ({ ...quiet, label, stroke: style(colour), width: 1.5, dash, paths: stepped() })),
  ], [{ series: [2, 1], fill: style("--band") }], rows, "watts");
  const replicas = options(width, REPLICAS, [
    { ...quiet, label: "Replicas", stroke: style("--ok"), fill: style("--ok-fill"), width: 2, paths: stepped() },
    ...lacking.map(([label]) => ({ ...quiet, label, stroke: style("--over"), width: 1.5, paths: stepped() })),
  ], [], rows, "replicas");
  box.plots.push(new uPlot(watts, [column(0), column(3), column(4), column(2), column(1), ...drawn.map(([, values]) => values)], box), new uPlot(replicas, [column(0), column(5), ...lacking.map(([, values]) => values)], box));
}
