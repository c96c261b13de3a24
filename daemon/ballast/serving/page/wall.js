// One cell for each node, on a canvas: thousands of them at a glance. The keyboard moves from cell to cell.
import { element, known, number, percent, shape, style } from "./common.js";
import { levels } from "./fleet.js";

const UNKNOWN = -1, LARGEST = 96, NAMED = 30, FILLED = 14, SMALLEST = 3, HEAD = 18, WARM = 0.7, SHOWN = 2000;

/** The value by which a node is coloured, 0..1, higher is worse; null while unknown. */
const worth = (node, colour) => colour === "score" ? (node.score === null ? null : 1 - node.score / 100) : node.load(colour);

function blend(from, to, share) {
  const parse = text => [1, 3, 5].map(at => parseInt(text.slice(at, at + 2), 16)), [a, b] = [parse(from), parse(to)];
  return `rgb(${a.map((value, i) => Math.round(value + (b[i] - value) * Math.min(1, Math.max(0, share)))).join(" ")})`;
}

/** Calm below 70 %, so that what is hot stands out; then towards amber, and red where it is overloaded. */
function palette(colour) {
  const [calm, hot, over, none] = ["--calm", "--hot", "--over", "--none"].map(style), { high: highs, over: overs } = levels();
  const [top, high] = [(overs[colour] ?? 9) - 1e-6, (highs[colour] ?? 9) - 1e-6], warm = Math.min(WARM, (highs[colour] ?? 1) - 0.1), room = (highs[colour] ?? 1) - warm;
  const steps = Array.from({ length: 9 }, (_, step) => blend(calm, hot, step / 12));
  return value => value === UNKNOWN ? none : value >= top ? over : value >= high ? hot : steps[value <= warm ? 0 : Math.min(8, 1 + Math.floor((value - warm) / room * 8))];
}

const compare = (a, b) => (a < b ? -1 : a > b ? 1 : 0);
/** Which group nodes are shown in: as chosen, else by zone or pool where there are several. */
export function grouping(nodes, chosen) {
  if (chosen) return chosen === "none" ? "" : chosen;
  return ["zone", "pool"].find(name => nodes.some(node => node[name] !== nodes[0][name])) || "";
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
    this.moves = shape("svg", { class: "moves", "aria-hidden": "true" });
    box.append(this.moves);
    this.box = box;
    this.moved = Infinity;
  }

  show(nodes, colour, group, resources) {
    [this.nodes, this.colour, this.group, this.resources] = [nodes, colour, grouping(nodes, group), resources];
    this.values = Float32Array.from(nodes, node => worth(node, colour) ?? UNKNOWN);
    this.draw();
  }

  /** [name, places of its nodes in `nodes`]: by pool, then by name, so that a node keeps its place. */
  groups() {
    const found = new Map(), { nodes, group } = this;
    const keys = nodes.map(node => [node.pool, node.name]);
    const order = Array.from(nodes.keys()).sort((a, b) => compare(keys[a][0], keys[b][0]) || compare(keys[a][1], keys[b][1]));
    for (const place of order) {
      const name = group ? nodes[place][group] || `no ${group}` : "";
      if (!found.has(name)) found.set(name, []);
      found.get(name).push(place);
    }
    return [...found].sort(([a], [b]) => compare(a, b));
  }

  /** The largest cells with which all groups fit. */
  size(groups, width, tallest) {
    for (let size = LARGEST; size > SMALLEST; size--) {
      const columns = Math.max(1, Math.floor(width / size));
      const rows = groups.reduce((sum, [, places]) => sum + Math.ceil(places.length / columns), 0);
      if (rows * size + (this.group ? groups.length * HEAD : 0) <= tallest) return size;
    }
    return SMALLEST;
  }

  /** A line for two seconds from node to node, for each move that is newer than those before. */
  spark(moves) {
    const newest = Math.max(...moves.map(each => each.time), 0), fresh = moves.filter(each => each.time > this.moved && each.to);
    this.moved = newest;
    const at = new Map(this.cells.map(([x, y, place]) => [this.nodes[place].name, [x + this.side / 2, y + this.side / 2]]));
    this.moves.setAttribute("viewBox", `0 0 ${this.width} ${this.canvas.clientHeight}`);
    this.moves.style.height = `${this.canvas.clientHeight}px`;
    this.moves.replaceChildren(...fresh.filter(each => at.has(each.from) && at.has(each.to)).map(each => {
      const [[x1, y1], [x2, y2]] = [at.get(each.from), at.get(each.to)];
      return shape("path", { d: `M${x1} ${y1}Q${(x1 + x2) / 2} ${Math.min(y1, y2) - 24} ${x2} ${y2}`, pathLength: 1 });
    }));
  }

  draw() {
    const width = this.width = this.box.clientWidth;
    if (!width || !this.nodes.length) { this.canvas.hidden = !this.nodes.length; return; }
    this.canvas.hidden = false;
    const groups = this.groups(), size = this.side = this.size(groups, width, typeof this.tallest === "function" ? this.tallest() : this.tallest), columns = this.columns = Math.max(1, Math.floor(width / size));
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

  /** Large cells are filled as high as their load. Small ones of one colour that lie side by side are one rectangle of a row. */
  block(context, places, top, columns, size, paint) {
    const gap = size > 12 ? 2 : size > 5 ? 1 : 0, rows = Math.ceil(places.length / columns), filled = size >= FILLED && places.length <= SHOWN;
    const back = style("--track");
    let begun = 0;
    for (let index = 0, colour = paint(this.values[places[0]]); index < places.length; index++) {
      const next = index + 1 < places.length ? paint(this.values[places[index + 1]]) : "", column = index % columns, x = column * size, y = top + Math.floor(index / columns) * size;
      if (filled) {
        const value = this.values[places[index]], high = value === UNKNOWN ? size : Math.round(size * Math.min(1, Math.max(0.04, value)));
        context.fillStyle = back;
        context.fillRect(x, y, size, size);
        context.fillStyle = colour;
        context.fillRect(x, y + size - high, size, high);
      } else if (next !== colour || column + 1 === columns) {
        const first = begun % columns;
        context.fillStyle = colour;
        context.fillRect(first * size, y, (column - first + 1) * size, size);
        begun = index + 1;
      }
      colour = next;
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

  /** The end of the name, where nodes differ, above; the value where there is room, at the foot. Each reads on what it stands on. */
  name(context, place, x, y, size) {
    const { name } = this.nodes[place], value = this.values[place], most = Math.floor((size - 4) / 6), on = offset => {
      const [red, green, blue] = context.getImageData(...[x + size - 1, y + offset].map(at => Math.round(at * (devicePixelRatio || 1))), 1, 1).data;
      return red * 0.299 + green * 0.587 + blue * 0.114 > 140 ? "#000" : "#fff";
    };
    const [above, below] = [on(8), on(size - 8)];
    context.fillStyle = above;
    context.font = "10px system-ui, sans-serif";
    context.fillText(name.length > most ? `…${name.slice(1 - most)}` : name, x + 2, y + 11, size - 4);
    if (size >= 42) {
      context.fillStyle = below;
      context.font = "bold 13px system-ui, sans-serif";
      context.fillText(value === UNKNOWN ? "?" : this.colour === "score" ? number((1 - value) * 100) : percent(value), x + 3, y + size - 5, size - 6);
    }
    context.font = "12px system-ui, sans-serif";
    context.fillStyle = style("--card");
    if (!this.nodes[place].schedulable) context.fillRect(x + size - 10, y + size / 2 - 3, 6, 6);
  }

  describe() {
    const limit = this.colour === "score" ? 9 : levels().high[this.colour] ?? 9;
    let [unknown, hot] = [0, 0];
    for (const value of this.values) { if (value === UNKNOWN) unknown++; else if (value >= limit - 1e-6) hot++; }
    this.canvas.setAttribute("aria-label", `${this.nodes.length} nodes by ${this.colour}: ${hot} hot, ${unknown} unknown. The arrow keys move from node to node, Enter opens one; the table of nodes has the same.`);
  }

  key_() {
    const limit = levels().high[this.colour], item = (kind, text) => [element("span", { class: `key ${kind}` }), text];
    this.legend.replaceChildren(...(this.colour === "score" ? [...item("calm", "by score: the fuller, the worse ")] :
      [...item("calm", "calm "), ...(known(limit) ? [...item("hot", `hot, from ${percent(limit)} `), ...item("over", `overloaded, from ${percent(levels().over[this.colour] ?? 1)} `)] : [])]), ...item("none", "unknown"));
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
