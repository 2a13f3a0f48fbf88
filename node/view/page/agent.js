// The panel of one agent: its neighbours, its ledger, the ages of what it used, and each of its releases.

import { Chart } from "./charts.js";
import { Log } from "./log.js";
import { short } from "./colours.js";
import { bytes, figures, make, number, seconds } from "./dom.js";

const SHOWN = 9;

export class AgentPanel {
  constructor(place, context) {
    this.place = place; this.context = context;
    this.agent = -1; this.opened = -1; this.charts = [];
    this.#nothing();
  }

  #nothing() {
    this.place.replaceChildren(make("p", { className: "note" }, "Choose an agent in the network, or find one by its name or number."));
  }

  async choose(agent) {
    for (const chart of this.charts) chart.destroy();
    this.charts = []; this.agent = agent; this.opened = -1; this.found = null;
    if (agent < 0) { this.#nothing(); return; }
    this.#build();
    this.renew();
    const found = await this.context.ask(`agent/${agent}`);
    if (this.agent !== agent || !found) return;
    this.found = found;
    this.#fill();
    this.renew();
  }

  #build() {
    const { network, name, select, neighbours } = this.context, { facts } = network(), agent = this.agent;
    this.facts = make("div"); this.ledger = make("div"); this.counted = make("div");
    this.table = make("tbody"); this.release = make("div");
    const others = neighbours(agent);
    const chips = others.slice(0, 40).map((other) => make("button", { type: "button", title: name(other), onclick: () => select(other) }, String(other)));
    if (others.length > 40) chips.push(make("span", { className: "note" }, `and ${others.length - 40} more`));
    const ages = make("div");
    this.place.replaceChildren(
      make("h2", {}, name(agent)),
      make("p", { className: "note" }, `agent ${agent}${facts.records ? `, ${number(facts.records[agent])} records` : ""}`),
      this.facts, this.ledger,
      make("h3", {}, "Age of the models used, in releases"), ages,
      make("h3", {}, `Neighbours (${others.length})`), make("div", { className: "chips" }, ...chips),
      make("h3", {}, "Releases"),
      make("table", { className: "rows" }, make("thead", {}, make("tr", {}, ...["index", "time", "size", "age", "noise"].map((head) => make("th", { scope: "col" }, head)))), this.table),
      this.release, this.counted,
    );
    this.ages = new Chart(ages, { label: `Age of the models that agent ${agent} used`, series: [{ label: "age", colour: "accent" }], least: 0, seek: this.context.seek, height: 110 }, this.context);
    this.charts = [this.ages];
  }

  #fill() {
    const { ledger, counted } = this.found;
    if (ledger) {
      const box = make("div"), { budget, delta } = ledger;
      this.ledger.replaceChildren(make("h3", {}, budget === null ? "Charges; no privacy is promised" : `Epsilon charged, of ${short(budget)} at delta ${delta}`), box);
      if (budget !== null) {
        this.burn = new Chart(box, {
          label: `Epsilon charged to agent ${this.agent} over time`, least: 0, most: 1.06 * budget, seek: this.context.seek, height: 130,
          series: [{ label: "charged", colour: "charged", kind: "steps" }, { label: "budget", colour: "muted", dash: [5, 4] }],
        }, this.context);
        this.charts.push(this.burn);
      } else { box.remove(); this.burn = null; }
      if (ledger.before) this.ledger.append(make("p", { className: "note" }, `${short(ledger.before)} of it by earlier runs on the same records`));
    } else this.burn = null;
    if (counted) {
      const dropped = Object.entries(counted.dropped).map(([reason, count]) => `${number(count)} ${reason}`).join(", ");
      const missing = Object.entries(counted.missing).map(([from, count]) => `${number(count)} of agent ${from}`).join(", ");
      this.counted.replaceChildren(make("h3", {}, "What it received"), make("p", { className: "note" },
        `${number(counted.received)} releases, ${number(counted.late)} late, ${number(counted.repeats)} repeats; dropped: ${dropped || "none"}; never arrived: ${missing || "none"}`),
        ...(counted.reason ? [make("p", {}, counted.reason)] : []));
    }
  }

  // The scale of the noise of a release, as the ledger was charged. A group of charges names its largest.
  #scale(index) {
    const charge = this.found?.ledger?.charges.find(({ first, last }) => first <= index && index <= last);
    return charge?.mechanism ? charge.scale ?? null : null;
  }

  renew() {
    if (this.agent < 0) return;
    const { log } = this.context, rows = log.of[this.agent] ?? [];
    this.ages.set([rows.map((row) => log.time[row]), rows.map((row) => Number.isNaN(log.age[row]) ? null : log.age[row])]);
    if (this.burn) {
      const { steps, budget } = this.found.ledger, at = new Map(rows.map((row) => [log.index[row], log.time[row]]));
      const points = steps.filter(([index]) => at.has(index)).map(([index, epsilon]) => [at.get(index), epsilon]).sort((a, b) => a[0] - b[0]);
      if (points.length && points.at(-1)[0] < log.end) points.push([log.end, points.at(-1)[1]]);
      this.burn.set([points.map(([time]) => time), points.map(([, epsilon]) => epsilon), points.map(() => budget)]);
    }
    this.moment();
  }

  moment() {
    if (this.agent < 0) return;
    const { log, rows, chargedOf } = this.context, all = log.of[this.agent] ?? [], count = Log.before(all, rows());
    const charged = chargedOf(this.agent, this.found?.ledger);
    const pairs = [["releases", `${number(count)} / ${number(all.length)}`]];
    if (charged !== undefined) pairs.push(["epsilon charged", short(charged)]);
    const last = count ? all[count - 1] : -1;
    if (last >= 0) pairs.push(["last change", short(log.change[last])]);
    this.facts.replaceChildren(figures(pairs));
    const first = Math.max(0, Math.min(all.length - SHOWN, count - 1 - (SHOWN >> 1)));
    this.table.replaceChildren(...all.slice(first, first + SHOWN).map((row) => {
      const index = log.index[row], age = log.age[row];
      return make("tr", row === last ? { className: "now" } : {},
        make("td", {}, make("button", { type: "button", "aria-label": `Release ${index}`, onclick: () => this.open(row) }, String(index))),
        make("td", {}, seconds(log.time[row])), make("td", {}, bytes(log.size[row])), make("td", {}, Number.isNaN(age) ? "–" : age.toFixed(1)),
        make("td", {}, short(this.#scale(index))));
    }));
    for (const chart of this.charts) chart.redraw();
  }

  async open(row) {
    this.opened = row;
    this.context.seek(this.context.log.time[row]);
    const found = await this.context.ask(`release/${row}`);
    if (this.opened !== row || !found) return;
    const { header, parts, vector, length, norm } = found;
    const used = header?.used ?? [], pairs = [];
    for (let at = 0; at < used.length; at += 2) pairs.push(`${used[at]}:${used[at + 1]}`);
    const scale = this.#scale(header?.index);
    const lines = header ? [["index", header.index], ["round", header.round ?? "none"], ["to", header.to ?? "all neighbours"], ["numbers", `${number(length)}, norm ${short(norm)}`], ["noise scale", short(scale)], ["version", header.v]] : [["refused", found.refused]];
    const box = make("div");
    this.release.replaceChildren(make("h3", {}, `Release ${header?.index ?? ""}`), figures(lines.map(([key, value]) => [key, String(value)])), box,
      make("h3", {}, "Used (agent:index)"), make("p", { className: "note" }, pairs.slice(0, 120).join(" ") + (pairs.length > 120 ? ` and ${pairs.length - 120} more` : "") || "nothing"),
      make("h3", {}, "Bytes: topic, header, body"),
      make("pre", { className: "raw", tabIndex: 0, "aria-label": "Raw bytes" }, parts.map(({ hex, bytes: size }) => dump(hex, size)).join("\n\n")));
    if (vector?.length) {
      const chart = new Chart(box, { label: "The numbers of the release", time: false, series: [{ label: "number", colour: "accent", kind: vector.length < 400 ? "bars" : "line" }], height: 90 }, this.context);
      chart.set([vector.map((_, place) => place), vector]);
      this.charts.push(chart);
    }
  }

  theme() { for (const chart of this.charts) chart.theme(); }
}

function dump(hex, size) {
  const shown = hex.length / 2, words = hex.match(/.{1,8}/g)?.join(" ") ?? "";
  return `${number(size)} bytes${shown < size ? `, the first ${number(shown)}` : ""}\n${words}`;
}
