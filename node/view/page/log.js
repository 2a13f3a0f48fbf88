// The log as columns of numbers. Rows are in the order of time, so a moment is a number of rows.

const VERSION = 1;
const HEAD = 16;
const COLUMNS = [
  ["time", Float64Array], ["sender", Uint32Array], ["index", Uint32Array], ["recipient", Int32Array],
  ["round", Int32Array], ["size", Uint32Array], ["age", Float32Array], ["change", Float32Array], ["kind", Uint32Array],
];
export const RELEASE = 0, REPEAT = 1, HELLO = 2, DONE = 3, REFUSED = 4;

export class Log {
  constructor() {
    this.rows = 0;
    this.bytes = 0;
    this.of = [];  // of each agent, the rows of its releases
    this.releases = [];  // the rows of all releases
    for (const [name, kind] of COLUMNS) this[name] = new kind(1024);
  }

  // A batch as the server sends it: four 32-bit numbers, then each column.
  append(buffer) {
    const [version, count, first] = new Uint32Array(buffer, 0, 4);
    if (version !== VERSION || first !== this.rows) throw new Error(`batch ${version}/${first} after row ${this.rows}`);
    this.#make(this.rows + count);
    let at = HEAD;
    for (const [name, kind] of COLUMNS) {
      this[name].set(new kind(buffer, at, count), this.rows);
      at += count * kind.BYTES_PER_ELEMENT;
    }
    for (let row = this.rows; row < this.rows + count; row++) {
      this.bytes += this.size[row];
      if (this.kind[row] !== RELEASE) continue;
      this.releases.push(row);
      (this.of[this.sender[row]] ??= []).push(row);
    }
    this.rows += count;
  }

  #make(rows) {
    if (rows <= this.time.length) return;
    const room = Math.max(rows, 2 * this.time.length);
    for (const [name, kind] of COLUMNS) {
      const larger = new kind(room);
      larger.set(this[name].subarray(0, this.rows));
      this[name] = larger;
    }
  }

  get end() { return this.rows ? this.time[this.rows - 1] : 0; }

  // How many rows there were at a time.
  rowsAt(time) {
    let low = 0, high = this.rows;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.time[middle] <= time) low = middle + 1; else high = middle;
    }
    return low;
  }

  // How many of ascending rows are among the first `rows`.
  static before(list, rows) {
    let low = 0, high = list ? list.length : 0;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (list[middle] < rows) low = middle + 1; else high = middle;
    }
    return low;
  }

  // The row of an agent's last release among the first `rows`; -1 for none.
  latest(agent, rows) {
    const list = this.of[agent];
    const count = Log.before(list, rows);
    return count ? list[count - 1] : -1;
  }
}

// What events did up to a time: the side of each agent in a partition, and the agents that do not run.
export class Events {
  constructor() { this.all = []; this.joiners = new Set(); }

  add(events) {
    for (const event of events) {
      if (event.fault === "join" && !event.skipped) for (const agent of event.agents) this.joiners.add(agent);
      this.all.push(event);
    }
    this.all.sort((a, b) => a.time - b.time);
  }

  at(time) {
    const state = { sides: null, away: new Set(this.joiners) };
    for (const { fault, agents = [], groups, skipped, time: when } of this.all) {
      if (when > time) break;
      if (skipped) continue;
      if (fault === "partition") state.sides = groups;
      else if (fault === "heal") state.sides = null;
      else if (fault === "kill" || fault === "pause" || fault === "leave") agents.forEach((a) => state.away.add(a));
      else if (fault === "restart" || fault === "resume" || fault === "join") agents.forEach((a) => state.away.delete(a));
    }
    return state;
  }

  // Spans of time in which something was wrong, for bands behind charts.
  bands(end) {
    const bands = [];
    let cut = null;
    const down = new Map();
    for (const { fault, agents = [], skipped, time } of this.all) {
      if (skipped) continue;
      if (fault === "partition") { cut && (cut.to = time); bands.push(cut = { what: "partition", from: time, to: end }); }
      else if (fault === "heal") { cut && (cut.to = time); cut = null; }
      else if (fault === "kill" || fault === "pause") {
        for (const agent of agents) { const band = { what: fault, from: time, to: end }; down.set(agent, band); bands.push(band); }
      } else if (fault === "restart" || fault === "resume") {
        for (const agent of agents) { const band = down.get(agent); if (band) band.to = time; down.delete(agent); }
      }
    }
    return bands;
  }

  static words({ fault, agents = [], groups, skipped }) {
    const listed = agents.length > 6 ? `${agents.length} agents` : agents.length ? `agent${agents.length > 1 ? "s" : ""} ${agents.join(", ")}` : "";
    const what = {
      partition: `partition into ${new Set(groups).size} sides`, heal: "partition healed", kill: `killed ${listed}`,
      restart: `started ${listed} again`, pause: `paused ${listed}`, resume: `resumed ${listed}`,
      join: `${listed} joined`, leave: `${listed} left`, checkpoint: "checkpoint of a merged log",
    }[fault] ?? `${fault ?? "event"} ${listed}`;
    return skipped ? `${what}, skipped: ${skipped}` : what;
  }
}
