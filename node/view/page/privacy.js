// The panel of privacy: what each agent was charged, and what the audit's attacks showed where they are there.

import { Chart } from "./charts.js";
import { short } from "./colours.js";
import { figures, make } from "./dom.js";

export class PrivacyPanel {
  constructor(place, context) { this.place = place; this.context = context; this.charts = []; }

  // budgets: what the server found in the ledgers, or null.
  show(budgets) {
    for (const chart of this.charts) chart.destroy();
    this.charts = [];
    const { network } = this.context, { facts, folder, uncovered } = network();
    const parts = [];
    if (!folder) parts.push(make("p", { className: "note" }, "A log holds no ledgers. Give the run's folder to see what was charged."));
    else if (!facts.privacy) parts.push(make("p", { className: "note" }, "This run promises no privacy: nothing was charged."));
    else if (!budgets) parts.push(make("p", { className: "note" }, "reading the ledgers ..."));
    else parts.push(...this.#charged(budgets, uncovered?.audit));
    if (folder && facts.privacy) parts.push(...this.#audit(uncovered?.audit));
    if (facts.simulation) parts.push(make("p", { className: "note" }, "A simulation: the noise follows from the seed, and a reader who has it sees through the noise."));
    this.place.replaceChildren(...parts);
    this.drawn?.();
    this.drawn = null;
  }

  #charged(budgets, audit) {
    const last = budgets.steps.map((steps, agent) => steps ? steps.at(-1)?.[1] ?? budgets.before[agent] : null);
    const there = last.filter((epsilon) => epsilon !== null), { record } = this.context.network().facts;
    const attacks = new Map((audit?.agents ?? []).map((agent) => [agent.agent, agent]));
    const order = last.map((_, agent) => agent).sort((a, b) => (last[b] ?? -1) - (last[a] ?? -1) || (attacks.get(b)?.attacked_if_charged ?? 0) - (attacks.get(a)?.attacked_if_charged ?? 0));
    const box = make("div"), series = [{ label: "charged", colour: "charged", kind: "points" }];
    const data = [order.map((_, place) => place), order.map((agent) => last[agent])];
    const key = [make("span", { className: "charged" }, "charged, at most")];
    if (audit) {
      series.push({ label: "attacked", colour: "attacked", kind: "points" }, { label: "attacked if the noise is as charged", colour: "attacked-if", kind: "points" });
      data.push(order.map((agent) => attacks.get(agent)?.attacked ?? null), order.map((agent) => attacks.get(agent)?.attacked_if_charged ?? null));
      key.push(make("span", { className: "attacked" }, "attacked, at least"), make("span", { className: "attacked-if" }, "attacked, if the noise is as charged"));
    }
    this.drawn = () => {
      const chart = new Chart(box, { label: "Epsilon of each agent", series, time: false, least: 0, height: 210 }, this.context);
      chart.set(data); this.charts.push(chart);
    };
    return [
      make("h2", {}, `Epsilon for ${record ?? "one record"}`),
      figures([["budget", short(budgets.budget)], ["delta", String(budgets.delta ?? "–")], ["charged at most", there.length === last.length ? short(Math.max(...there)) : "unbounded"]]),
      make("h3", audit ? { className: "not-covered" } : {}, audit ? "Accounted and attacked, each agent," : "Accounted, each agent"),
      box, make("p", { className: "key" }, ...key),
    ];
  }

  #audit(audit) {
    if (!audit) return [make("p", { className: "note" }, "The audit's attacks use the agents' records, and epsilon does not cover what they show. After ", make("code", {}, "sottovoce audit"), ", open the page with ", make("code", {}, "--uncovered"), " to see them beside what was charged.")];
    const found = audit.findings.length ? make("ul", { className: "list" }, ...audit.findings.map((finding) => make("li", {}, finding))) : make("p", { className: "note" }, "The audit has no finding.");
    const parts = [make("h3", {}, "Findings"), found];
    for (const curve of audit.trade_off.slice(0, 3)) {
      const box = make("div");
      parts.push(make("h3", { className: "not-covered" }, `Trade-off of errors, ${curve.mechanism}, ${curve.agents} agents,`), box, make("p", { className: "note" }, "Down: missed; across: false alarms. No attack can be below the accountant's line."));
      const before = this.drawn;
      this.drawn = () => {
        before?.();
        const xs = [...new Set([...curve.attack, ...curve.accountant].map(([x]) => x))].sort((a, b) => a - b);
        const along = (points) => { const at = new Map(points); return xs.map((x) => at.get(x)); };
        const chart = new Chart(box, { label: "Trade-off between false alarms and misses", time: false, least: 0, most: 1, height: 190, series: [{ label: "attack", colour: "attacked" }, { label: "accountant", colour: "charged" }] }, this.context);
        chart.set([xs, along(curve.attack), along(curve.accountant)]);
        this.charts.push(chart);
      };
    }
    return parts;
  }

  theme() { for (const chart of this.charts) chart.theme(); }
}
