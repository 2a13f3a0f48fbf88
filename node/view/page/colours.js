// What the colour of an agent can show, and the scales.

import { Log } from "./log.js";

const LIGHT = ["#c8dfe3", "#8cc2c6", "#4e9fae", "#2d7893", "#2d5177", "#2b2b54"];
const DARK = ["#23304f", "#2c5a7e", "#2f8790", "#55b38a", "#a5d86f", "#f4f07a"];
const SIDES = ["#3b8fc4", "#e0892b", "#3aa981", "#c65b9d", "#b5a400", "#7a6fd0"];
export const NONE = { light: "#c9cdd0", dark: "#3b4650" };

const parsed = (hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));

function ramp(stops) {
  const colours = [];
  for (let step = 0; step < 64; step++) {
    const place = (step / 63) * (stops.length - 1), low = Math.min(stops.length - 2, Math.floor(place));
    const a = parsed(stops[low]), b = parsed(stops[low + 1]), part = place - low;
    colours.push(`rgb(${a.map((value, k) => Math.round(value + (b[k] - value) * part)).join(" ")})`);
  }
  return colours;
}
const RAMPS = { light: ramp(LIGHT), dark: ramp(DARK) };

function short(value) {
  if (value === null || !Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  if (size !== 0 && (size < 0.01 || size >= 1e5)) return value.toExponential(1);
  return size >= 100 ? Math.round(value).toLocaleString("en") : String(+value.toPrecision(3));
}
export { short };

// `value(agent, rows, sides)` is what an agent's colour shows after so many rows; null for nothing to show.
export function choices({ log, network, budgets, events }) {
  const { facts, uncovered } = network;
  const found = [];
  if (facts.releases) found.push({
    key: "sent", title: "releases sent", range: [0, 1], percent: true,
    value: (agent, rows) => Log.before(log.of[agent], rows) / Math.max(1, facts.releases[agent]),
  });
  if (network.folder && facts.privacy) found.push({
    key: "budget", title: "epsilon charged", needs: "budgets", range: [0, budgets?.budget ?? 1],
    value: (agent, rows) => budgets ? chargedAt(budgets.steps[agent], budgets.before[agent], log, agent, rows) : null,
  });
  found.push({
    key: "age", title: "age of models used", over: "age",
    value: (agent, rows) => columnAt(log.age, log, agent, rows),
  }, {
    key: "change", title: "change of last release", over: "change", log: true,
    value: (agent, rows) => columnAt(log.change, log, agent, rows),
  });
  if (facts.records) found.push({
    key: "records", title: "records", range: [Math.min(...facts.records), Math.max(...facts.records)],
    value: (agent) => facts.records[agent],
  });
  if (events.all.some((event) => event.fault === "partition")) found.push({
    key: "side", title: "side of the partition", sides: true, value: (agent, rows, sides) => sides ? sides[agent] : null,
  });
  const scores = uncovered?.scores;
  if (scores) {
    const kind = scores.finish?.some((score) => score !== null) ? "finish" : "together";
    const there = (scores[kind] ?? []).filter((score) => score !== null).sort((a, b) => a - b);
    if (there.length) found.push({
      key: "score", title: `${uncovered.metric.name}, ${kind === "finish" ? "free finish" : kind}`, uncovered: true,
      range: [there[Math.floor(0.02 * there.length)], there[Math.ceil(0.98 * there.length) - 1]],
      value: (agent) => scores[kind][agent],
    });
  }
  const audit = uncovered?.audit;
  if (audit) {
    const share = new Map(audit.agents.filter((a) => a.accounted > 0 && (a.attacked_if_charged ?? a.attacked) !== null)
      .map((a) => [a.agent, (a.attacked_if_charged ?? a.attacked) / a.accounted]));
    found.push({
      key: "audit", title: "attacked / accounted", uncovered: true, range: [0, 1],
      value: (agent) => share.get(agent) ?? null,
    });
  }
  return found;
}

function columnAt(column, log, agent, rows) {
  const row = log.latest(agent, rows);
  return row < 0 || Number.isNaN(column[row]) ? null : column[row];
}

// The epsilon of an agent's charges up to its last release. A step that is infinite is null, and stays null.
export function chargedAt(steps, before, log, agent, rows) {
  const row = log.latest(agent, rows);
  if (!steps || !steps.length || row < 0) return steps ? before : null;
  let epsilon = before;
  for (const [index, value] of steps) { if (index > log.index[row]) break; epsilon = value; }
  return epsilon;
}

// The least and the largest value that a scale shows: stray values of a column do not stretch it.
export function rangeOf(choice, log) {
  if (choice.range || choice.sides) return choice.range ?? [0, 1];
  const column = log[choice.over], sample = [];
  const step = Math.max(1, Math.floor(log.releases.length / 4000));
  for (let at = 0; at < log.releases.length; at += step) {
    const value = column[log.releases[at]];
    if (Number.isFinite(value) && (!choice.log || value > 0)) sample.push(value);
  }
  if (!sample.length) return [0, 1];
  sample.sort((a, b) => a - b);
  const low = choice.log ? sample[Math.floor(0.02 * sample.length)] : 0;
  const high = sample[Math.ceil(0.98 * sample.length) - 1];
  return high > low ? [low, high] : [low, low + 1];
}

export function painter(choice, range, theme) {
  if (choice.sides) return (value) => value === null ? NONE[theme] : SIDES[value % SIDES.length];
  const colours = RAMPS[theme];
  const [low, high] = choice.log ? range.map(Math.log) : range;
  return (value) => {
    if (value === null || !Number.isFinite(value) || (choice.log && value <= 0)) return NONE[theme];
    const part = ((choice.log ? Math.log(value) : value) - low) / (high - low || 1);
    return colours[Math.max(0, Math.min(63, Math.round(63 * part)))];
  };
}

export function drawScale(canvas, theme, choice) {
  const pen = canvas.getContext("2d");
  const colours = choice.sides ? SIDES.slice(0, 2) : RAMPS[theme];
  colours.forEach((colour, step) => {
    pen.fillStyle = colour;
    pen.fillRect(Math.floor((step / colours.length) * canvas.width), 0, Math.ceil(canvas.width / colours.length) + 1, canvas.height);
  });
}
