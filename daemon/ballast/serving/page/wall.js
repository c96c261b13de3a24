// One cell for each node, on a canvas: thousands of them at a glance. The keyboard moves from cell to cell.
import { element, known, percent, style } from "./common.js";
import { levels } from "./fleet.js";

const UNKNOWN = -1, LARGEST = 30, SMALLEST = 3, HEAD = 18;

/** The value by which a node is coloured, 0..1, higher is worse; null while unknown. */
const worth = (node, colour) => colour === "score" ? (node.score === null ? null : 1 - node.score / 100) : node.load(colour);

function blend(from, to, share) {
  const parse = text => [1, 3, 5].map(at => parseInt(text.slice(at, at + 2), 16)), [a, b] = [parse(from), parse(to)];
  return `rgb(${a.map((value, i) => Math.round(value + (b[i] - value) * Math.min(1, Math.max(0, share)))).join(" ")})`;
}

function palette(colour) {
  const [cold, warm, high, over, none] = ["--cold", "--fill", "--hot", "--over", "--none"].map(style), { high: highs, over: overs } = levels();
  const steps = Array.from({ length: 33 }, (_, step) => blend(cold, warm, step / 32));
  return value => value === UNKNOWN ? none : value >= (overs[colour] ?? 9) ? over : value >= (highs[colour] ?? 9) ? high :
    steps[Math.min(32, Math.max(0, Math.round(value / (highs[colour] ?? 1) * 32)))];
}

/** A wall in `box`; `open(node)` is called for a chosen cell. */
export class Wall {
  constructor(box, open, tallest) {
    [this.open, this.tallest, this.nodes, this.cells, this.at] = [open, tallest, [], [], -1];
    this.canvas = element("canvas", { role: "img", tabindex: "0", "aria-describedby": `${box.id}-tip` });
    this.tip = element("p", { class: "tip", id: `${box.id}-tip`, "aria-live": "polite" }, "\u00a0");
    this.legend = element("p", { class: "legend scale" });
    box.append(this.canvas, this.tip, this.legend);
    this.canvas.addEventListener("pointermove", event => this.point(this.under(event)));
    this.canvas.addEventListener("pointerleave", () => this.point(-1));
    this.canvas.addEventListener("click", event => this.choose(this.under(event)));
    this.canvas.addEventListener("keydown", event => this.key(event));
    new ResizeObserver(() => { if (box.clientWidth !== this.width) this.draw(); }).observe(box);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
    this.box = box;
  }

  show(nodes, colour, group, resources) {
    [this.nodes, this.colour, this.group, this.resources] = [nodes, colour, group, resources];
    this.values = new Map(nodes.map(node => [node, worth(node, colour) ?? UNKNOWN]));
    this.draw();
  }

  groups() {
    const found = new Map();
    for (const node of this.nodes) {
      const name = this.group ? node[this.group] || `no ${this.group}` : "";
      if (!found.has(name)) found.set(name, []);
      found.get(name).push(node);
    }
    const { values } = this;
    return [...found].sort(([a], [b]) => (a < b ? -1 : 1)).map(([name, nodes]) => [name, nodes.sort((x, y) => values.get(y) - values.get(x) || x.row - y.row)]);
  }

  /** The largest cells with which all groups fit. */
  size(groups, width) {
    for (let size = LARGEST; size > SMALLEST; size--) {
      const columns = Math.max(1, Math.floor(width / size));
      const rows = groups.reduce((sum, [, nodes]) => sum + Math.ceil(nodes.length / columns), 0);
      if (rows * size + (this.group ? groups.length * HEAD : 0) <= this.tallest) return size;
    }
    return SMALLEST;
  }

  draw() {
    const width = this.width = this.box.clientWidth;
    if (!width || !this.nodes.length) { this.canvas.hidden = !this.nodes.length; return; }
    this.canvas.hidden = false;
    const groups = this.groups(), size = this.side = this.size(groups, width), columns = this.columns = Math.max(1, Math.floor(width / size));
    const scale = devicePixelRatio || 1, gap = size > 12 ? 2 : size > 5 ? 1 : 0, paint = palette(this.colour);
    const height = groups.reduce((sum, [, nodes]) => sum + Math.ceil(nodes.length / columns) * size + (this.group ? HEAD : 0), 0);
    [this.canvas.width, this.canvas.height] = [Math.round(width * scale), Math.round(height * scale)];
    this.canvas.style.height = `${height}px`;
    const context = this.canvas.getContext("2d");
    context.scale(scale, scale);
    context.font = "12px system-ui, sans-serif";
    this.cells = [];
    let top = 0, last = "";
    for (const [name, nodes] of groups) {
      if (this.group) {
        context.fillStyle = style("--soft");
        last = "";
        context.fillText(`${name} (${nodes.length.toLocaleString("en")})`, 0, top + 12, width);
        top += HEAD;
      }
      nodes.forEach((node, index) => {
        const x = (index % columns) * size, y = top + Math.floor(index / columns) * size;
        this.cells.push([x, y, node]);
        const colour = paint(this.values.get(node));
        if (colour !== last) context.fillStyle = last = colour;
        context.fillRect(x, y, size - gap, size - gap);
        if (!node.schedulable && size > 6) { context.fillStyle = style("--card"); context.fillRect(x + size / 3, y + size / 3, size / 3 - gap, size / 3 - gap); last = ""; }
      });
      top += Math.ceil(nodes.length / columns) * size;
    }
    const all = [...this.values.values()], limit = this.colour === "score" ? 9 : levels().high[this.colour] ?? 9;
    const unknown = all.filter(value => value === UNKNOWN).length, hot = all.filter(value => value >= limit).length;
    this.canvas.setAttribute("aria-label", `${this.nodes.length} nodes by ${this.colour}: ${hot} hot, ${unknown} unknown. The arrow keys move from node to node, Enter opens one; the table of nodes has the same.`);
    this.key_();
    if (this.at >= this.cells.length) this.at = -1;
    if (document.activeElement === this.canvas) this.ring();
  }

  key_() {
    const limit = levels().high[this.colour], item = (kind, text) => [element("span", { class: `key ${kind}` }), text];
    this.legend.replaceChildren(...(this.colour === "score" ? [...item("cold", "score 100 "), ...item("fill-key", "score 0 ")] :
      [...item("cold", "0 % "), ...item("fill-key", known(limit) ? `below ${percent(limit)} ` : "100 % "), ...(known(limit) ? [...item("hot", `hot, from ${percent(limit)} `), ...item("over", `overloaded, from ${percent(levels().over[this.colour] ?? 1)} `)] : [])]), ...item("none", "unknown"));
  }

  under(event) {
    const box = this.canvas.getBoundingClientRect(), [x, y] = [event.clientX - box.left, event.clientY - box.top];
    return this.cells.findIndex(([left, top]) => x >= left && x < left + this.side && y >= top && y < top + this.side);
  }

  point(index) {
    if (index < 0) { this.tip.textContent = "\u00a0"; return; }
    const node = this.cells[index][2];
    const loads = this.resources.map(name => `${name} ${known(node.load(name)) ? percent(node.load(name)) : "unknown"}`);
    this.tip.textContent = `${node.name}: ${loads.join(", ")}, score ${node.score ?? "unknown"}${node.state === "known" ? "" : `, ${node.state}`}`;
  }

  ring() {
    if (this.at < 0) return;
    const [x, y] = this.cells[this.at], context = this.canvas.getContext("2d");
    context.strokeStyle = style("--text");
    context.lineWidth = 2;
    context.strokeRect(x, y, this.side - 1, this.side - 1);
  }

  choose(index) { if (index >= 0) this.open(this.cells[index][2]); }

  key(event) {
    const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: this.columns, ArrowUp: -this.columns }[event.key];
    if (event.key === "Enter" && this.at >= 0) return this.choose(this.at);
    if (!step) return;
    event.preventDefault();
    this.at = this.at < 0 ? 0 : Math.min(this.cells.length - 1, Math.max(0, this.at + step));
    this.draw();
    this.point(this.at);
  }
}

/** Fills the choices of colour. */
export function colours(select, resources, chosen) {
  const wanted = [...resources, "score"];
  if ([...select.options].map(each => each.value).join() !== wanted.join()) select.replaceChildren(...wanted.map(name => element("option", { value: name }, name)));
  select.value = wanted.includes(chosen) ? chosen : wanted[0];
  return select.value;
}
