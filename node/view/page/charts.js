// Line charts by uPlot, with bands of faults behind and the moment that is shown in front.

/* global uPlot */

const PATHS = { bars: () => uPlot.paths.bars({ size: [0.9], align: 1 }), steps: () => uPlot.paths.stepped({ align: 1 }) };

export class Chart {
  // options: { label, unit, series: [{ label, colour, kind }], log, time, least, most, xLabel, seek, height }
  constructor(place, options, context) {
    this.place = place; this.options = options; this.context = context;
    this.data = [[], ...options.series.map(() => [])];
    place.classList.add("chart");
    place.setAttribute("role", "img");
    place.setAttribute("aria-label", options.label);
    this.#build();
    this.observer = new ResizeObserver(() => this.plot.setSize(this.#size()));
    this.observer.observe(place);
  }

  #size() { return { width: Math.max(120, this.place.clientWidth), height: this.options.height ?? 130 }; }

  #build() {
    const { series, log, time = true, least, most, xLabel, seek } = this.options, colours = this.context.colours();
    const axis = { stroke: colours.muted, grid: { stroke: colours.line, width: 1 }, ticks: { show: false }, font: "11px system-ui, sans-serif" };
    const spread = (_, low, high) => {
      if (low === null || high === null) return log ? [0.1, 1] : [0, 1];
      if (log) return [10 ** Math.floor(Math.log10(low)), 10 ** Math.ceil(Math.log10(high) + 1e-9)];
      const top = most ?? high + 0.06 * (high - (least ?? low) || 1);
      return [least ?? low - 0.06 * (high - low || 1), Math.max(top, (least ?? 0) + 1e-12)];
    };
    this.plot?.destroy();
    this.plot = new uPlot({
      ...this.#size(),
      padding: [8, 8, 0, 0],
      cursor: { drag: { x: false, y: false }, points: { size: 6 }, y: false },
      legend: { show: false },
      scales: { x: { time: false }, y: { distr: log ? 3 : 1, range: spread } },
      axes: [
        { ...axis, size: 24, gap: 2, values: (_, splits) => splits.map((v) => time ? `${+v.toPrecision(6)} s` : `${+v.toPrecision(6)}${xLabel ?? ""}`), space: 60 },
        {
          ...axis, size: 44, gap: 4, space: 28, ...(log ? { splits: (_, __, low, high) => decades(low, high), filter: (_, splits) => splits } : {}),
          values: (_, splits) => splits.map((v) => v === null ? "" : log ? `1e${Math.round(Math.log10(v))}` : String(+v.toPrecision(4))),
        },
      ],
      series: [{}, ...series.map((one) => ({
        label: one.label, stroke: colours[one.colour], width: one.kind === "points" ? 0 : 1.7, spanGaps: false,
        fill: one.kind === "bars" ? colours[one.colour] : undefined, dash: one.dash,
        paths: PATHS[one.kind]?.(), points: { show: one.kind === "points", size: 5, fill: colours[one.colour], width: 0 },
      }))],
      hooks: {
        drawClear: [(plot) => time && this.#bands(plot)],
        draw: [(plot) => time && this.#moment(plot)],
      },
    }, this.data, this.place);
    if (seek) this.plot.over.addEventListener("click", (event) => seek(this.plot.posToVal(event.offsetX, "x")));
  }

  #bands(plot) {
    const pen = plot.ctx, { left, top, width, height } = plot.bbox, colours = this.context.colours();
    pen.save();
    pen.fillStyle = colours.band;
    for (const band of this.context.bands()) {
      const from = Math.max(left, plot.valToPos(band.from, "x", true)), to = Math.min(left + width, plot.valToPos(band.to, "x", true));
      pen.globalAlpha = band.what === "partition" ? 0.16 : 0.1;
      if (to >= left && from <= left + width) pen.fillRect(from, top, Math.max(2, to - from), height);
    }
    pen.restore();
  }

  #moment(plot) {
    const time = this.context.time(), pen = plot.ctx, { left, top, width, height } = plot.bbox;
    const x = plot.valToPos(time, "x", true);
    if (!(x >= left && x <= left + width)) return;
    pen.save();
    pen.fillStyle = this.context.colours().light;
    pen.fillRect(x - 1, top, 2, height);
    pen.restore();
  }

  set(data) { this.data = data; this.plot.setData(data); }
  redraw() { this.plot.redraw(false, false); }
  theme() { this.#build(); this.plot.setData(this.data); }
  destroy() { this.observer.disconnect(); this.plot.destroy(); }
}

// At most five powers of ten within a range.
function decades(low, high) {
  const first = Math.ceil(Math.log10(low) - 1e-9), last = Math.floor(Math.log10(high) + 1e-9);
  const step = Math.max(1, Math.ceil((last - first) / 4)), found = [];
  for (let power = first; power <= last; power += step) found.push(10 ** power);
  return found;
}

// Means of a column of the log over equal spans of time, and how many releases there were in each.
export function binned(log, column, rows = log.releases, bins = 160) {
  const end = log.end || 1, sums = new Float64Array(bins), counts = new Float64Array(bins), all = new Float64Array(bins);
  for (const row of rows) {
    const bin = Math.min(bins - 1, Math.floor((log.time[row] / end) * bins));
    all[bin]++;
    if (column && Number.isFinite(column[row])) { sums[bin] += column[row]; counts[bin]++; }
  }
  const times = Array.from(all, (_, bin) => (bin * end) / bins);
  return { times, rates: Array.from(all, (count) => (count * bins) / end), means: Array.from(sums, (sum, bin) => counts[bin] ? sum / counts[bin] : null) };
}
