// One cell for each node, on a canvas: thousands of them at a glance. The keyboard moves from cell to cell.
import { element, known, number, percent, style } from "./common.js";
import { levels } from "./fleet.js";

const UNKNOWN = -1, LARGEST = 96, NAMED = 44, SMALLEST = 3, HEAD = 18, MOST = 2 ** 21;

/** The value by which a node is coloured, 0..1, higher is worse; null while unknown. */
const worth = (node, colour) => colour === "score" ? (node.score === null ? null : 1 - node.score / 100) : node.load(colour);

function blend(from, to, share) {
  const parse = text => [1, 3, 5].map(at => parseInt(text.slice(at, at + 2), 16)), [a, b] = [parse(from), parse(to)];
  return `rgb(${a.map((value, i) => Math.round(value + (b[i] - value) * Math.min(1, Math.max(0, share)))).join(" ")})`;
}

function palette(colour) {
  const [cold, warm, high, over, none] = ["--cold", "--fill", "--hot", "--over", "--none"].map(style), { high: highs, over: overs } = levels();
  const steps = Array.from({ length: 33 }, (_, step) => blend(cold, warm, step / 32));
  const [top, warning] = [(overs[colour] ?? 9) - 1e-6, (highs[colour] ?? 9) - 1e-6], whole = highs[colour] ?? 1;
  return value => value === UNKNOWN ? none : value >= top ? over : value >= warning ? high : steps[Math.min(32, Math.max(0, Math.round(value / whole * 32)))];
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
    this.values = Float32Array.from(nodes, node => worth(node, colour) ?? UNKNOWN);
    this.draw();
  }

  /** [name, places of its nodes in `nodes`, the worst first]; equal ones by their rows. */
  groups() {
    const found = new Map(), { nodes, values, group } = this;
    nodes.forEach((node, place) => {
      const name = group ? node[group] || `no ${group}` : "";
      if (!found.has(name)) found.set(name, []);
      found.get(name).push(place);
    });
    const sorted = places => {
      const keys = Float64Array.from(places, place => Math.round((values[place] + 1) * 1000) * MOST + MOST - 1 - place).sort();
      return Int32Array.from(keys, key => MOST - 1 - key % MOST).reverse();
    };
    return [...found].sort(([a], [b]) => (a < b ? -1 : 1)).map(([name, places]) => [name, sorted(places)]);
  }

  /** The largest cells with which all groups fit. */
  size(groups, width) {
    for (let size = LARGEST; size > SMALLEST; size--) {
      const columns = Math.max(1, Math.floor(width / size));
      const rows = groups.reduce((sum, [, places]) => sum + Math.ceil(places.length / columns), 0);
      if (rows * size + (this.group ? groups.length * HEAD : 0) <= this.tallest) return size;
    }
    return SMALLEST;
  }

  draw() {
    const width = this.width = this.box.clientWidth;
    if (!width || !this.nodes.length) { this.canvas.hidden = !this.nodes.length; return; }
    this.canvas.hidden = false;
    const groups = this.groups(), size = this.side = this.size(groups, width), columns = this.columns = Math.max(1, Math.floor(width / size));
    const scale = devicePixelRatio || 1, paint = palette(this.colour);
    const height = groups.reduce((sum, [, places]) => sum + Math.ceil(places.length / columns) * size + (this.group ? HEAD : 0), 0);
    const context = this.canvas.getContext("2d"), [across, down] = [Math.round(width * scale), Math.round(height * scale)];
    if (this.canvas.width !== across || this.canvas.height !== down) {
      [this.canvas.width, this.canvas.height] = [across, down];
      this.canvas.style.height = `${height}px`;
    }
    context.setTransform(scale, 0, 0, scale, 0, 0);
    context.clearRect(0, 0, width, height);
    context.font = "12px system-ui, sans-serif";
    this.cells = [];
    let top = 0;
    for (const [name, places] of groups) {
      if (this.group) {
        context.fillStyle = style("--soft");
        context.fillText(`${name} (${number(places.length)})`, 0, top + 12, width);
        top += HEAD;
      }
      this.block(context, places, top, columns, size, paint);
      top += Math.ceil(places.length / columns) * size;
    }
    this.describe();
    this.key_();
    if (this.at >= this.cells.length) this.at = -1;
    if (document.activeElement === this.canvas) this.ring();
  }

  /** Equal neighbours are one rectangle of a row; the gaps between cells are cut out afterwards. */
  block(context, places, top, columns, size, paint) {
    const gap = size > 12 ? 2 : size > 5 ? 1 : 0, rows = Math.ceil(places.length / columns);
    let begun = 0;
    for (let index = 0, colour = paint(this.values[places[0]]); index < places.length; index++) {
      const next = index + 1 < places.length ? paint(this.values[places[index + 1]]) : "", column = index % columns;
      if (next === colour && column + 1 < columns) continue;
      const first = begun % columns;
      context.fillStyle = colour;
      context.fillRect(first * size, top + Math.floor(index / columns) * size, (column - first + 1) * size, size);
      [begun, colour] = [index + 1, next];
    }
    for (let column = 1; gap && column <= columns; column++) context.clearRect(column * size - gap, top, gap, rows * size);
    for (let row = 1; gap && row <= rows; row++) context.clearRect(0, top + row * size - gap, columns * size, gap);
    context.fillStyle = style("--card");
    places.forEach((place, index) => {
      const x = (index % columns) * size, y = top + Math.floor(index / columns) * size;
      this.cells.push([x, y, place]);
      if (size >= NAMED) this.name(context, place, x, y, size - gap);
      else if (!this.nodes[place].schedulable && size > 6) context.fillRect(x + size / 3, y + size / 3, size / 3 - gap, size / 3 - gap);
    });
  }

  /** The end of the name, where nodes differ, and the value, in black or white: what reads better on the cell. */
  name(context, place, x, y, size) {
    const [red, green, blue] = context.getImageData(...[x + size / 2, y + 3].map(at => Math.round(at * (devicePixelRatio || 1))), 1, 1).data;
    const { name } = this.nodes[place], value = this.values[place], most = Math.floor((size - 6) / 6.2);
    context.fillStyle = red * 0.299 + green * 0.587 + blue * 0.114 > 140 ? "#000" : "#fff";
    context.font = "10px system-ui, sans-serif";
    context.fillText(name.length > most ? `…${name.slice(1 - most)}` : name, x + 3, y + 13, size - 6);
    context.font = "bold 13px system-ui, sans-serif";
    context.fillText(value === UNKNOWN ? "?" : this.colour === "score" ? number((1 - value) * 100) : percent(value), x + 3, y + 31, size - 6);
    context.font = "12px system-ui, sans-serif";
    context.fillStyle = style("--card");
    if (!this.nodes[place].schedulable) context.fillRect(x + size - 10, y + size - 10, 6, 6);
  }

  describe() {
    const limit = this.colour === "score" ? 9 : levels().high[this.colour] ?? 9;
    let [unknown, hot] = [0, 0];
    for (const value of this.values) { if (value === UNKNOWN) unknown++; else if (value >= limit - 1e-6) hot++; }
    this.canvas.setAttribute("aria-label", `${this.nodes.length} nodes by ${this.colour}: ${hot} hot, ${unknown} unknown. The arrow keys move from node to node, Enter opens one; the table of nodes has the same.`);
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
    const node = this.nodes[this.cells[index][2]];
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

  choose(index) { if (index >= 0) this.open(this.nodes[this.cells[index][2]]); }

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
