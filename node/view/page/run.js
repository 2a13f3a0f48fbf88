// The panel of the run: counts, charts over time, capture, faults.

import { Chart, binned } from "./charts.js";
import { Events } from "./log.js";
import { bytes, figures, make, number, seconds } from "./dom.js";

export class RunPanel {
  constructor(place, context) {
    this.place = place; this.context = context;
    this.figures = make("div");
    this.capture = make("div"); this.faults = make("div"); this.failed = make("div");
    const chart = (title, options, note) => {
      const box = make("div");
      this.charts.append(make("h3", note ? { className: "not-covered" } : {}, title), box);
      return new Chart(box, { seek: context.seek, ...options }, context);
    };
    this.charts = make("div");
    place.replaceChildren(this.figures, this.failed, this.charts, this.capture, this.faults);
    this.rate = chart("Releases a second", { label: "Releases a second over time", series: [{ label: "releases", colour: "accent", kind: "bars" }], least: 0 });
    this.age = chart("Age of the models used, in releases", { label: "Mean age of the models used over time", series: [{ label: "age", colour: "accent" }], least: 0 });
    this.change = chart("Change from release to release", { label: "Mean change between successive releases over time", series: [{ label: "change", colour: "accent" }], log: true });
    const { uncovered } = context.network();
    if (uncovered?.curve?.metric?.length) {
      const { curve, metric } = uncovered;
      this.error = chart(`Mean ${metric.name} of the released models,`, {
        label: `Mean ${metric.name} by releases of each agent`, series: [{ label: metric.name, colour: "attacked" }], time: false, seek: null,
      }, true);
      this.error.set([curve.releases, curve.metric]);
      if (curve.gap.length) {
        this.gap = chart("Gap to the optimum,", { label: "Gap to the optimum by releases of each agent", series: [{ label: "gap", colour: "attacked" }], time: false, log: true, seek: null }, true);
        this.gap.set([curve.releases, curve.gap.map((value) => value > 0 ? value : null)]);
      }
    }
    this.all = [this.rate, this.age, this.change, this.error, this.gap].filter(Boolean);
  }

  // What follows from new rows, events or a new state.
  renew() {
    const { log, events, state, network } = this.context, found = state(), { facts } = network();
    const rates = binned(log, log.age), changes = binned(log, log.change);
    this.rate.set([rates.times, rates.rates]);
    this.age.set([rates.times, rates.means]);
    this.change.set([changes.times, changes.means.map((value) => value > 0 ? value : null)]);
    const { counts = {}, capture } = found, agents = network().agents;
    const pairs = [["agents", number(agents)], ["releases", number(log.releases.length)], ["received", bytes(log.bytes)]];
    if (counts.planned !== undefined) pairs.push(["finished", `${number(counts.finished)} / ${number(agents)}`], ["updates done", `${Math.floor((100 * counts.sent) / Math.max(1, counts.planned))}%`]);
    if (facts.privacy && counts.charged !== undefined) pairs.push(["charged", `${number(counts.charged)}`]);
    pairs.push(["time", seconds(log.end)]);
    this.figures.replaceChildren(figures(pairs));
    this.failed.replaceChildren(...(found.failures?.length ? [make("h3", {}, "Processes that did not finish"), make("ul", { className: "list" }, ...found.failures.map((words) => make("li", {}, words)))] : []));
    this.capture.replaceChildren(make("h3", {}, "Capture"), ...captureLines(capture));
    this.#listFaults(events.all);
  }

  #listFaults(events) {
    if (this.listed === events.length) return;
    this.listed = events.length;
    if (!events.length) { this.faults.replaceChildren(); return; }
    const lines = events.slice(0, 200).map((event) => make("li", {},
      make("span", { className: "when" }, seconds(Math.max(0, event.time))),
      make("button", { type: "button", onclick: () => this.context.seek(event.time) }, Events.words(event))));
    const more = events.length > 200 ? [make("p", { className: "note" }, `and ${number(events.length - 200)} more`)] : [];
    this.faults.replaceChildren(make("h3", {}, "Faults"), make("ul", { className: "list" }, ...lines), ...more);
  }

  moment() { for (const chart of this.all) chart.redraw(); }
  theme() { for (const chart of this.all) chart.theme(); }
}

function captureLines(capture) {
  if (!capture) return [make("p", { className: "note" }, "nothing was received yet")];
  const lines = [make("p", {}, capture.words)];
  const refused = Object.entries(capture.refused);
  const more = [`${number(capture.frames)} frames, ${number(capture.repeats)} repeats`];
  if (refused.length) more.push(`no message of this run: ${refused.map(([reason, count]) => `${number(count)} (${reason})`).join(", ")}`);
  if (capture.damaged) more.push(`${number(capture.damaged)} damaged pieces of the log were passed over`);
  if (!capture.closed) more.push("the log is not closed");
  return [...lines, ...more.map((line) => make("p", { className: "note" }, line))];
}
