// The page: brings the log, the moment, the network and the panels together.

import { AgentPanel } from "./agent.js";
import { Clock, SPEEDS } from "./clock.js";
import { chargedAt, choices, drawScale, painter, rangeOf, short } from "./colours.js";
import { byId, make, number, seconds } from "./dom.js";
import { Events, Log } from "./log.js";
import { NetworkView } from "./network.js";
import { PrivacyPanel } from "./privacy.js";
import { RunPanel } from "./run.js";
import { Timeline } from "./timeline.js";

const RENEW = 700;  // milliseconds between two renewals of charts while a log grows
const BUDGETS = 10_000;  // and between two looks at ledgers

const log = new Log(), events = new Events();
let network = null, state = {}, budgets = null, bands = [], colours = null, theme = "light";
let dirty = true, renewed = -Infinity, stale = true, asking = false, budgetsAt = -Infinity, panelAt = -Infinity;
let choice = null, range = [0, 1], ranged = 0, paint = () => "#888", selected = -1, shown = "run";
let now = { sides: null, away: new Set() };

const clock = new Clock(log, () => { dirty = true; });
const view = new NetworkView(byId("graph"), { select, hover });
const timeline = new Timeline(byId("density"), byId("time"), (time) => clock.seek(time));
view.wanted = timeline.wanted = () => { dirty = true; };

async function ask(path) {
  const answer = await fetch(path);
  return answer.ok ? answer.json() : null;
}

const name = (agent) => network.facts.names?.[agent] ?? `agent ${agent}`;
const context = {
  log, events, ask, name, select, seek: (time) => clock.seek(time),
  state: () => state, network: () => network, rows: () => clock.rows, time: () => clock.time,
  bands: () => bands, colours: () => colours, neighbours: (agent) => view.neighbours[agent],
  chargedOf: (agent, ledger) => ledger?.budget ? chargedAt(ledger.steps, ledger.before, log, agent, clock.rows) : undefined,
};
const panels = {};

// -- colours ----------------------------------------------------------------------------------------------------------

function readTheme() {
  const style = getComputedStyle(document.documentElement);
  theme = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
  colours = Object.fromEntries(["ground", "raised", "ink", "muted", "line", "link", "light", "cut", "accent", "band", "halo", "charged", "attacked", "attacked-if"]
    .map((key) => [key, style.getPropertyValue(`--${key}`).trim()]));
  view.theme(colours);
  if (choice) recolour();
  for (const panel of Object.values(panels)) panel.theme();
  dirty = true;
}
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", readTheme);

function offerColours() {
  const box = byId("colour"), offered = choices({ log, network, budgets, events });
  const wanted = offered.find(({ key }) => key === (choice?.key ?? box.value)) ?? offered[0];
  if ([...box.options].map(({ value }) => value).join() !== offered.map(({ key }) => key).join()) {
    box.replaceChildren(...offered.map(({ key, title }) => make("option", { value: key }, title)));
  }
  box.value = wanted.key;
  choice = wanted;
  recolour();
}

function recolour() {
  range = rangeOf(choice, log); ranged = log.rows;
  paint = painter(choice, range, theme);
  drawScale(byId("scale"), theme, choice);
  const words = (value) => choice.percent ? `${Math.round(100 * value)}%` : short(value);
  byId("least").textContent = choice.sides ? "one side" : words(range[0]);
  byId("most").textContent = choice.sides ? "the other" : words(range[1]);
  byId("mark").hidden = !choice.uncovered;
  dirty = true;
  if (choice.needs === "budgets") askBudgets();
}

byId("colour").addEventListener("change", () => {
  choice = choices({ log, network, budgets, events }).find(({ key }) => key === byId("colour").value);
  recolour();
});

async function askBudgets() {
  if (asking || !network.folder || (budgets && (!state.live || performance.now() - budgetsAt < BUDGETS))) return;
  asking = true;
  budgets = await ask("budgets") ?? budgets;
  asking = false; budgetsAt = performance.now();
  offerColours();
  if (shown === "audit") panels.audit.show(budgets);
}

// -- choosing an agent ------------------------------------------------------------------------------------------------

function select(agent) {
  if (agent === selected && agent >= 0) agent = -1;
  selected = view.selected = agent;
  dirty = true;
  if (agent >= 0) { view.centre(agent); show("agent"); speak(`${name(agent)}, ${view.neighbours[agent].length} neighbours`); }
  panels.agent?.choose(agent);
}

function hover(agent, x, y) {
  if (!network || !choice) return;
  const tip = byId("tip");
  if (agent !== view.hovered) { view.hovered = agent; dirty = true; }
  tip.hidden = agent < 0;
  if (agent < 0) return;
  const value = choice.value(agent, clock.rows, now.sides);
  tip.textContent = `${name(agent)}: ${choice.title} ${value === null ? "–" : choice.percent ? `${Math.round(100 * value)}%` : short(value)}`;
  tip.style.left = `${Math.min(x + 14, view.width - tip.offsetWidth - 8)}px`;
  tip.style.top = `${Math.max(4, y - 34)}px`;
}

byId("search").addEventListener("change", (event) => {
  const text = event.target.value.trim().toLowerCase();
  if (!text || !network) return;
  const all = [...Array(network.agents).keys()];
  const found = all.find((agent) => name(agent).toLowerCase() === text) ?? all.find((agent) => String(agent) === text) ?? all.find((agent) => name(agent).toLowerCase().includes(text));
  if (found === undefined) { speak(`no agent is called ${text}`); event.target.setCustomValidity("no such agent"); event.target.reportValidity(); return; }
  event.target.setCustomValidity("");
  if (found !== selected) select(found);
});
byId("search").addEventListener("input", (event) => event.target.setCustomValidity(""));

function speak(words) { byId("spoken").textContent = words; }

// -- panels -----------------------------------------------------------------------------------------------------------

function show(which) {
  shown = which;
  for (const key of ["run", "agent", "audit"]) {
    byId(key).hidden = key !== which;
    byId(`tab-${key}`).setAttribute("aria-selected", key === which);
    byId(`tab-${key}`).tabIndex = key === which ? 0 : -1;
  }
  if (which === "audit") { panels.audit.show(budgets); askBudgets(); }
  stale = true; dirty = true;
}
for (const key of ["run", "agent", "audit"]) byId(`tab-${key}`).addEventListener("click", () => show(key));
document.querySelector("[role=tablist]").addEventListener("keydown", (event) => {
  const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  if (!by) return;
  const keys = ["run", "agent", "audit"], next = keys[(keys.indexOf(shown) + by + 3) % 3];
  show(next); byId(`tab-${next}`).focus(); event.preventDefault(); event.stopPropagation();
});

function badges() {
  const found = [];
  const add = (words, kind = "") => found.push(make("span", { className: `badge ${kind}` }, words));
  if (state.live) add(state.running ? "running" : "live", "live");
  const { capture } = state;
  if (capture && state.caught_up && (capture.complete || !state.live)) add(capture.complete ? "capture complete" : "capture incomplete", capture.complete ? "good" : "bad");
  if (state.failures?.length) add(`${state.failures.length} failed`, "bad");
  if (network?.uncovered) add("shows figures that epsilon does not cover", "bad");
  byId("badges").replaceChildren(...found);
  byId("live").hidden = !state.live || clock.following;
}

// -- the network and the feed -----------------------------------------------------------------------------------------

async function loadNetwork() {
  const found = await ask("network.json");
  if (!found) return false;
  network = found;
  const { facts, agents } = network, privacy = facts.privacy;
  document.title = `${network.name}: sottovoce`;
  byId("name").textContent = network.name;
  byId("about").textContent = [`${number(agents)} agents, ${number(network.edges.length)} links`, facts.algorithm, privacy?.epsilon ? `epsilon ${privacy.epsilon} for ${facts.record}` : null, network.inferred ? "links as the releases tell" : null].filter(Boolean).join(" · ");
  byId("names").replaceChildren(...Array.from({ length: agents }, (_, agent) => make("option", { value: name(agent) })));
  byId("graph").setAttribute("aria-label", `The network: ${agents} agents and ${network.edges.length} links. Brackets choose the next agent.`);
  view.show(network);
  if (!panels.run) {
    panels.run = new RunPanel(byId("run"), context);
    panels.agent = new AgentPanel(byId("agent"), context);
    panels.audit = new PrivacyPanel(byId("audit"), context);
  }
  offerColours();
  stale = dirty = true;
  return true;
}

function connect() {
  const address = new URL("feed", location.href);
  address.protocol = "ws:";
  const socket = new WebSocket(address);
  socket.binaryType = "arraybuffer";
  socket.addEventListener("message", ({ data }) => {
    if (data instanceof ArrayBuffer) { log.append(data); stale = true; return; }
    const message = JSON.parse(data);
    if (message.events) { events.add(message.events); if (network) offerColours(); }
    if (message.state) receive(message.state);
    stale = true;
  });
  socket.addEventListener("close", () => { byId("badges").append(make("span", { className: "badge bad" }, "the page's server has ended")); state = { ...state, live: false }; });
}

// Without a graph in the log, agents and links are known as far as the log was read.
let drawnFor = "", loading = false;
async function followNetwork() {
  const wanted = `${state.agents}/${state.links}`;
  if (loading || !state.caught_up || wanted === drawnFor) return;
  loading = true;
  if (await loadNetwork()) drawnFor = wanted;
  loading = false;
}

let begun = false;
function receive(next) {
  const before = state;
  state = next;
  badges();
  if (!begun && next.caught_up) {
    begun = true;
    byId("wait").hidden = log.rows > 0;
    if (next.live) clock.follow();
    else {
      clock.set(log.end);
      clock.speed = SPEEDS.findLast((speed) => log.end / speed >= 15) ?? 0.1;
      byId("speed").value = clock.speed;
    }
  }
  if (before.live && !next.live) { if (clock.following) clock.following = false; askBudgets(); if (selected >= 0) panels.agent.choose(selected); }
  byId("wait").textContent = log.rows ? "" : next.live ? "waiting for the first release ..." : "the log holds no frame";
}

// -- pictures ---------------------------------------------------------------------------------------------------------

let last = performance.now(), said = "";
function frame(time) {
  clock.tick(Math.min(0.1, (time - last) / 1000));
  last = time;
  if (stale && time - renewed > (state.live || !begun ? RENEW : 50) && panels.run) {
    stale = false; renewed = time; bands = events.bands(log.end);
    if (log.rows > 1.25 * ranged && choice) recolour();
    if (shown === "run") panels.run.renew();
    if (shown === "agent" && panels.agent.agent >= 0) panels.agent.renew();
    if (choice?.needs) askBudgets();
    byId("wait").hidden = log.rows > 0;
    if (network.inferred) followNetwork();
    document.body.dataset.rows = log.rows;
    dirty = true;
  }
  if (dirty && network && choice) {
    dirty = false;
    draw(time);
    document.body.dataset.drawn = "";
    if (begun) document.body.dataset.whole = "";
  }
  requestAnimationFrame(frame);
}

function draw(time) {
  now = events.all.length ? sameSides(events.at(clock.time)) : now;
  view.draw({
    log, rows: clock.rows, time: clock.time, fading: clock.fading, playing: clock.playing, theme, ...now,
    colourOf: (agent) => paint(choice.value(agent, clock.rows, now.sides)),
  });
  timeline.draw(log, clock.time, bands, colours);
  byId("clock").textContent = `${seconds(clock.time)} · ${number(Log.before(log.releases, clock.rows))} of ${number(log.releases.length)}`;
  byId("play").classList.toggle("playing", clock.playing);
  byId("play").setAttribute("aria-label", clock.playing ? "Pause" : "Play");
  byId("live").hidden = !state.live || clock.following;
  if (time - panelAt > (clock.playing ? 160 : 0)) {
    panelAt = time;
    if (shown === "run") panels.run.moment();
    if (shown === "agent") panels.agent.moment();
    const words = `${seconds(clock.time)}, release ${Log.before(log.releases, clock.rows)} of ${log.releases.length}`;
    if (words !== said) { said = words; byId("time").setAttribute("aria-valuetext", words); }
  } else dirty = true;
}

// The picture of the links is kept as long as the sides are the same ones.
function sameSides(found) {
  return found.sides && now.sides && found.sides.join() === now.sides.join() ? { ...found, sides: now.sides } : found;
}

// -- keys and buttons -------------------------------------------------------------------------------------------------

byId("play").addEventListener("click", () => clock.play());
byId("back").addEventListener("click", () => clock.step(-1));
byId("on").addEventListener("click", () => clock.step(1));
byId("live").addEventListener("click", () => clock.follow());
byId("closer").addEventListener("click", () => view.zoom(1.4));
byId("farther").addEventListener("click", () => view.zoom(1 / 1.4));
byId("fit").addEventListener("click", () => view.fit());
byId("help").addEventListener("click", () => byId("keys").showModal());
byId("speed").append(...SPEEDS.map((speed) => make("option", { value: speed }, `${speed}×`)));
byId("speed").value = 1;
byId("speed").addEventListener("change", () => { clock.speed = Number(byId("speed").value); clock.following = false; dirty = true; });

const KEYS = {
  " ": () => clock.play(), l: () => state.live && clock.follow(), "/": () => byId("search").focus(), Escape: () => select(-1),
  "+": () => view.zoom(1.4), "=": () => view.zoom(1.4), "-": () => view.zoom(1 / 1.4), 0: () => view.fit(), "?": () => byId("keys").showModal(),
  "]": () => network && select((selected + 1) % network.agents),
  "[": () => network && select((selected - 1 + network.agents) % network.agents),
};
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || byId("keys").open) return;
  const { target, key } = event;
  if (target.matches("input[type=search], select, button, pre") && (key === " " || target.matches("input, select") || key === "Enter")) {
    if (key === "Escape") target.blur();
    return;
  }
  const by = { ArrowLeft: -1, ArrowRight: 1 }[key];
  if (by) { if (event.shiftKey) clock.seek(clock.time + by); else clock.step(by); event.preventDefault(); }
  else if (KEYS[key]) { KEYS[key](); event.preventDefault(); }
});

readTheme();
loadNetwork();
connect();
requestAnimationFrame(frame);
