// The network on a canvas: links, the light of releases, and agents as points.

import { RELEASE } from "./log.js";
import { NONE } from "./colours.js";

const FADES = 5;
const MOST_RUNNING = 14000;  // pieces of light in one picture

export class NetworkView {
  constructor(canvas, { select, hover }) {
    this.canvas = canvas;
    this.pen = canvas.getContext("2d", { alpha: false });
    this.links = document.createElement("canvas");
    this.view = { x: 0, y: 0, zoom: 1 };
    this.network = null;
    this.selected = -1;
    this.hovered = -1;
    this.stale = true;
    this.still = matchMedia("(prefers-reduced-motion: reduce)");
    this.#listen(select, hover);
    new ResizeObserver(() => this.resize()).observe(canvas);
    this.resize();
  }

  resize() {
    const { clientWidth: width, clientHeight: height } = this.canvas;
    this.ratio = Math.min(2, devicePixelRatio || 1);
    this.width = width; this.height = height;
    for (const canvas of [this.canvas, this.links]) {
      canvas.width = Math.max(1, Math.round(width * this.ratio));
      canvas.height = Math.max(1, Math.round(height * this.ratio));
    }
    this.stale = true;
    this.wanted?.();
  }

  show(network) {
    this.network = network;
    const count = network.agents;
    this.neighbours = Array.from({ length: count }, () => []);
    network.edges.forEach(([i, j], edge) => { this.neighbours[i].push(j); this.neighbours[j].push(i); });
    const records = network.facts.records;
    const mean = records?.length ? records.reduce((a, b) => a + b, 0) / records.length : 1;
    this.sizes = Float32Array.from({ length: count }, (_, agent) =>
      records ? Math.max(0.55, Math.min(2.4, Math.sqrt(records[agent] / (mean || 1)))) : 1);
    this.x = new Float32Array(count); this.y = new Float32Array(count);
    this.stale = true;
  }

  theme(colours) { this.colours = colours; this.stale = true; }

  get base() {
    const room = Math.min(this.width, this.height);
    return Math.max(1.6, Math.min(11, (0.26 * room) / Math.sqrt(Math.max(4, this.network.agents)))) * Math.sqrt(this.view.zoom);
  }

  fit() { this.view = { x: 0, y: 0, zoom: 1 }; this.stale = true; this.wanted?.(); }

  zoom(factor, x = this.width / 2, y = this.height / 2) {
    const zoom = Math.max(0.5, Math.min(40, this.view.zoom * factor));
    const change = zoom / this.view.zoom;
    const dx = x - this.width / 2, dy = y - this.height / 2;
    this.view = { zoom, x: dx - (dx - this.view.x) * change, y: dy - (dy - this.view.y) * change };
    this.stale = true; this.wanted?.();
  }

  pan(dx, dy) { this.view.x += dx; this.view.y += dy; this.stale = true; this.wanted?.(); }

  centre(agent) {
    const x = this.x[agent], y = this.y[agent], edge = 8;
    if (x > edge && y > edge && x < this.width - edge && y < this.height - edge) return;
    this.pan(this.width / 2 - x, this.height / 2 - y);
  }

  #place() {
    const { places, agents } = this.network, { x, y, zoom } = this.view;
    const wide = (this.width / 2 - 44) * zoom, high = (this.height / 2 - 44) * zoom;
    // A round or wide picture fills the room as far as it does not become twice as wide as high.
    const sx = Math.min(wide, 1.6 * high), sy = Math.min(high, 1.6 * wide);
    for (let agent = 0; agent < agents; agent++) {
      this.x[agent] = this.width / 2 + x + places[agent][0] * sx;
      this.y[agent] = this.height / 2 + y - places[agent][1] * sy;
    }
  }

  // Links change with the view and with a partition alone, so they are kept as a picture of their own.
  #drawLinks(sides) {
    this.#place();
    const pen = this.links.getContext("2d"), { edges } = this.network;
    pen.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    pen.fillStyle = this.colours.ground;
    pen.fillRect(0, 0, this.width, this.height);
    const whole = new Path2D(), cut = new Path2D();
    for (const [i, j] of edges) {
      const path = sides && sides[i] !== sides[j] ? cut : whole;
      path.moveTo(this.x[i], this.y[i]); path.lineTo(this.x[j], this.y[j]);
    }
    const crowd = edges.length / Math.max(1, this.network.agents);
    pen.lineWidth = 1;
    pen.strokeStyle = this.colours.link;
    pen.globalAlpha = Math.min(0.6, Math.max(0.09, (2.6 / crowd) * Math.sqrt(60 / Math.max(30, this.network.agents)) * this.view.zoom));
    pen.stroke(whole);
    if (sides) {
      pen.strokeStyle = this.colours.cut;
      pen.globalAlpha = Math.min(0.85, 1.6 * pen.globalAlpha);
      pen.setLineDash([3, 4]);
      pen.stroke(cut);
      pen.setLineDash([]);
    }
    pen.globalAlpha = 1;
    this.drawnSides = sides;
    this.stale = false;
  }

  // moment: { log, rows, time, fading, playing, sides, away, colourOf }
  draw(moment) {
    const pen = this.pen;
    if (!this.network || !this.colours) return;
    if (this.stale || this.drawnSides !== moment.sides) this.#drawLinks(moment.sides);
    pen.setTransform(1, 0, 0, 1, 0, 0);
    pen.drawImage(this.links, 0, 0);
    pen.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    if (this.selected >= 0) this.#light([[this.selected, 1]], moment, 0.5, this.colours.muted);
    const flash = this.#drawLight(moment);
    this.#drawAgents(moment, flash);
  }

  // The light of the releases of the last moments; returns how bright each sender is.
  #drawLight(moment) {
    const { log, rows, time, fading, playing } = moment;
    const flash = new Map();
    if (!playing) {
      const row = this.#lastRelease(log, rows);
      if (row >= 0 && time - log.time[row] < Math.max(fading, 0.05)) {
        flash.set(log.sender[row], 1);
        this.#light([[log.sender[row], log.recipient[row]]], moment, 0.95, this.colours.light);
      }
      return flash;
    }
    const since = log.rowsAt(time - fading), fades = Array.from({ length: FADES }, () => []);
    let budget = MOST_RUNNING;
    for (let row = rows - 1; row >= since && budget > 0; row--) {
      if (log.kind[row] !== RELEASE) continue;
      const sender = log.sender[row];
      if (sender >= this.network.agents) continue;
      const phase = Math.min(0.999, (time - log.time[row]) / fading);
      flash.set(sender, Math.max(flash.get(sender) ?? 0, 1 - phase));
      fades[Math.floor(phase * FADES)].push(sender, log.recipient[row], phase);
      budget -= log.recipient[row] < 0 ? this.neighbours[sender].length : 1;
    }
    fades.forEach((some, fade) => some.length && this.#drawRunning(some, 1 - fade / FADES, moment.sides));
    return flash;
  }

  #drawRunning(some, alpha, sides) {
    const pen = this.pen, { x, y } = this, still = this.still.matches;
    pen.beginPath();
    for (let at = 0; at < some.length; at += 3) {
      const sender = some[at], recipient = some[at + 1], phase = some[at + 2];
      const run = 1 - (1 - phase) * (1 - phase);
      const from = still ? 0 : Math.max(0, run - 0.24), to = still ? 1 : Math.min(1, run + 0.06);
      for (const other of recipient < 0 ? this.neighbours[sender] : [recipient]) {
        const reach = sides && sides[sender] !== sides[other] ? 0.5 : 1;
        if (from >= reach || other >= x.length) continue;
        const dx = x[other] - x[sender], dy = y[other] - y[sender], end = Math.min(to, reach);
        pen.moveTo(x[sender] + from * dx, y[sender] + from * dy);
        pen.lineTo(x[sender] + end * dx, y[sender] + end * dy);
      }
    }
    pen.strokeStyle = this.colours.light;
    pen.globalAlpha = 0.12 + 0.68 * alpha * alpha * Math.min(1, 0.35 + 5 / Math.sqrt(this.network.agents));
    pen.lineWidth = (this.network.agents > 300 ? 1 : 1.5) * Math.min(2, Math.sqrt(this.view.zoom));
    pen.lineCap = "round";
    pen.stroke();
    pen.globalAlpha = 1;
  }

  #light(pairs, moment, alpha, colour) {
    const pen = this.pen, { x, y } = this;
    pen.beginPath();
    for (const [sender, recipient] of pairs) {
      if (sender >= this.network.agents) continue;
      for (const other of recipient >= 0 && colour === this.colours.light ? [recipient] : this.neighbours[sender]) {
        const reach = moment.sides && moment.sides[sender] !== moment.sides[other] ? 0.5 : 1;
        pen.moveTo(x[sender], y[sender]);
        pen.lineTo(x[sender] + reach * (x[other] - x[sender]), y[sender] + reach * (y[other] - y[sender]));
      }
    }
    pen.strokeStyle = colour; pen.globalAlpha = alpha; pen.lineWidth = 1.4;
    pen.stroke();
    pen.globalAlpha = 1;
  }

  #drawAgents({ away, colourOf, theme }, flash) {
    const pen = this.pen, { x, y, sizes, base } = this, groups = new Map();
    for (let agent = 0; agent < x.length; agent++) {
      if (x[agent] < -20 || y[agent] < -20 || x[agent] > this.width + 20 || y[agent] > this.height + 20) continue;
      const colour = away.has(agent) ? "" : colourOf(agent);
      (groups.get(colour) ?? groups.set(colour, []).get(colour)).push(agent);
    }
    const round = (agents, more = 0) => {
      pen.beginPath();
      for (const agent of agents) {
        const radius = base * sizes[agent] + more;
        pen.moveTo(x[agent] + radius, y[agent]);
        pen.arc(x[agent], y[agent], radius, 0, 2 * Math.PI);
      }
    };
    const rim = base > 2.6 ? 1.2 : 0;
    for (const [colour, agents] of groups) {
      round(agents, rim); pen.fillStyle = this.colours.halo; pen.fill();
      round(agents);
      if (colour) { pen.fillStyle = colour; pen.fill(); continue; }
      pen.fillStyle = this.colours.ground; pen.fill();
      pen.strokeStyle = NONE[theme]; pen.lineWidth = 1.5; pen.setLineDash([2, 2]); pen.stroke(); pen.setLineDash([]);
    }
    pen.strokeStyle = this.colours.light;
    for (const [agent, bright] of flash) {
      if (agent >= x.length) continue;
      round([agent], 1 + (this.still.matches ? 1 : 0.55 * base * (1 - bright)));
      pen.globalAlpha = bright; pen.lineWidth = 1.6; pen.stroke();
    }
    pen.globalAlpha = 1;
    this.#drawNames();
    for (const [agent, width] of [[this.hovered, 1.5], [this.selected, 2.5]]) {
      if (agent < 0 || agent >= x.length) continue;
      round([agent], 3); pen.strokeStyle = this.colours.ink; pen.lineWidth = width; pen.stroke();
    }
  }

  #drawNames() {
    const pen = this.pen, { x, y, base } = this;
    if (base < 9) return;
    pen.font = `600 ${Math.min(13, 0.95 * base)}px system-ui, sans-serif`;
    pen.textAlign = "center"; pen.textBaseline = "middle"; pen.lineWidth = 2.5; pen.lineJoin = "round";
    for (let agent = 0; agent < x.length; agent++) {
      if (this.sizes[agent] < 0.8 && base < 14) continue;
      pen.strokeStyle = this.colours.ground; pen.strokeText(agent, x[agent], y[agent]);
      pen.fillStyle = this.colours.ink; pen.fillText(agent, x[agent], y[agent]);
    }
  }

  #lastRelease(log, rows) {
    for (let row = rows - 1; row >= 0; row--) if (log.kind[row] === RELEASE) return row;
    return -1;
  }

  at(px, py) {
    let best = -1, nearest = Infinity;
    for (let agent = 0; agent < (this.x?.length ?? 0); agent++) {
      const reach = Math.max(9, this.base * this.sizes[agent] + 4);
      const distance = Math.hypot(this.x[agent] - px, this.y[agent] - py);
      if (distance < reach && distance < nearest) { nearest = distance; best = agent; }
    }
    return best;
  }

  #listen(select, hover) {
    const canvas = this.canvas, fingers = new Map();
    let moved = 0;
    canvas.addEventListener("pointerdown", (event) => {
      canvas.setPointerCapture(event.pointerId);
      fingers.set(event.pointerId, [event.offsetX, event.offsetY]);
      moved = 0;
    });
    canvas.addEventListener("pointermove", (event) => {
      const before = fingers.get(event.pointerId), here = [event.offsetX, event.offsetY];
      if (!before) { hover(this.at(...here), ...here); return; }
      const other = [...fingers].find(([id]) => id !== event.pointerId)?.[1];
      if (other) {
        const was = Math.hypot(before[0] - other[0], before[1] - other[1]);
        const now = Math.hypot(here[0] - other[0], here[1] - other[1]);
        this.zoom(now / Math.max(1, was), (here[0] + other[0]) / 2, (here[1] + other[1]) / 2);
      } else this.pan(here[0] - before[0], here[1] - before[1]);
      moved += Math.hypot(here[0] - before[0], here[1] - before[1]);
      fingers.set(event.pointerId, here);
    });
    const up = (event) => {
      if (fingers.delete(event.pointerId) && event.type === "pointerup" && moved < 5) select(this.at(event.offsetX, event.offsetY));
    };
    canvas.addEventListener("pointerup", up);
    canvas.addEventListener("pointercancel", up);
    canvas.addEventListener("pointerleave", () => hover(-1));
    canvas.addEventListener("wheel", (event) => {
      event.preventDefault();
      this.zoom(Math.exp(-0.0015 * event.deltaY), event.offsetX, event.offsetY);
    }, { passive: false });
  }
}
