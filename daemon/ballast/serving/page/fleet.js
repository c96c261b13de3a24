// All nodes in columns: names once, loads with every snapshot; or as they were in the last 24 hours.
import { read } from "./common.js";

const STATES = ["known", "young", "down", "unmeasured", "silent", "disputed"], CLASSES = ["low", "normal", "high"];
let names = null;

async function roster(wanted) {
  if (!names || (wanted && names.roster !== wanted)) names = (await read("/api/v1/fleet")).body;
  return names;
}

/** One node of a fleet: a row of its columns, read when it is asked for. `load` is in fractions. */
class Row {
  constructor(names, columns, row) { [this.names, this.columns, this.row] = [names, columns, row]; }
  get name() { return this.names.names[this.row]; }
  get pool() { return this.names.pools[this.names.pool[this.row]] || ""; }
  get zone() { return this.names.zones[this.names.zone[this.row]] || ""; }
  get score() { return this.columns.score[this.row]; }
  get published() { return this.columns.published[this.row]; }
  get state() { return STATES[this.columns.state[this.row]]; }
  get class() { return CLASSES[this.columns.class[this.row]] ?? null; }
  get schedulable() { return this.columns.schedulable[this.row] === 1; }
  load(resource) {
    const value = this.columns.load[resource][this.row];
    return value === null ? null : value / 1000;
  }
}

/** A fleet: `nodes` are its rows, over a window or at a past time. */
export async function fleet({ window = "", at = "" } = {}) {
  const asked = at ? `?at=${at}` : window ? `?window=${encodeURIComponent(window)}` : "";
  const [{ body, changed }] = await Promise.all([read(`/api/v1/fleet/loads${asked}`), roster()]);
  const known = await roster(body.roster);
  if (known.roster !== body.roster) names = null;
  const nodes = body.roster !== known.roster ? [] : known.names.map((_, row) => new Row(known, body, row));
  return { nodes, time: body.time, window: body.window, resources: body.resources, changed, past: Boolean(at) };
}

let limits = { low: {}, high: {}, over: {} };
/** The loads from which a node is low, high and overloaded, by resource, as the settings have them. */
export const levels = () => limits;

export async function readLevels() {
  const settings = Object.fromEntries((await read("/api/v1/config")).body.map(entry => [entry.name, entry.value]));
  const each = (name, otherwise) => {
    let value = settings[`BALLAST_PUBLISHING__${name}`] ?? otherwise;
    if (typeof value === "string") { try { value = JSON.parse(value); } catch { value = otherwise; } }
    return typeof value === "object" ? value : { cpu: Number(value), memory: Number(value) };
  };
  limits = { low: each("LOW", 0.3), high: each("HIGH", 0.8), over: each("OVERLOADED", 0.9) };
}

export const hot = (node, resources) => resources.some(name => limits.high[name] !== undefined && (node.load(name) ?? -1) >= limits.high[name]);
