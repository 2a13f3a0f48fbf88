"""A run's report as one HTML file that needs nothing else: what came of the run, the table, and pictures.

Rules that hold here:
- It reads no file but those of the run's folder, and its page asks for nothing: no script, no font, no address.
- The first screen answers what was learned, at which epsilon, whether the capture is complete, and what an audit found.
- Figures of local data are marked: they are for the run's owner.
"""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from node import svg
from node.drawing import shown_range, spans_decades
from node.folder.manifest import read_json, read_manifest
from node.results.details import CurvePoints, Details, read_details
from node.results.labels import LABELS, marked, metric_name, sign_of
from node.results.results import Results, read_results
from node.results.staleness_picture import bars
from node.results.table import caption, facts, headline, model_rows
from topology import files
from topology.large_layout import laid_out

STYLE: Final = """
:root{color-scheme:light dark;--ink:#1f2933;--muted:#52606d;--line:#d9e0e6;--page:#fff;--tile:#f5f7fa;
--together:#1f77b4;--finish:#c23b52;--alone:#66717d;--pooled:#7a5ea5;--released_average:#21867a;--age:#b95c16;--good:#2f6f4f;--bad:#b8324a}
@media(prefers-color-scheme:dark){:root{--ink:#e4e7eb;--muted:#9aa5b1;--line:#2c3742;--page:#12171d;--tile:#1b222a;
--together:#6cb2e6;--finish:#f0788c;--alone:#9aa5b1;--pooled:#b39ddb;--released_average:#5cc9bb;--age:#f0a35e;
--good:#7cc79b;--bad:#f0788c}}
@media print{:root{color-scheme:light}body{margin:0;max-width:none}figure,.tile{break-inside:avoid}}
*{box-sizing:border-box}body{font:16px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--page);max-width:62rem;
margin:2rem auto;padding:0 1rem}h1{font-size:1.6rem;margin:0}h2{font-size:1.15rem;margin:2.2rem 0 .2rem}
.note{color:var(--muted);margin:.2rem 0}.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(10.5rem,1fr));
gap:.8rem;margin:1.2rem 0}.tile{background:var(--tile);border-radius:.5rem;padding:.8rem 1rem}.tile b{display:block;
font-size:1.5rem;line-height:1.2;margin:.15rem 0;overflow-wrap:anywhere}.tile span{color:var(--muted);font-size:.88rem}
.good b{color:var(--good)}.bad b{color:var(--bad)}.wide{overflow-x:auto}table{border-collapse:collapse;margin:.6rem 0;
font-variant-numeric:tabular-nums}th,td{padding:.25rem .9rem .25rem 0;text-align:right;white-space:nowrap}
th:first-child,td:first-child{text-align:left}th{border-bottom:1px solid var(--line)}figure{margin:0}
dl{display:grid;grid-template-columns:minmax(8rem,12rem) 1fr;gap:.2rem 1rem}dt{color:var(--muted)}dd{margin:0;
overflow-wrap:anywhere}.network{max-width:44rem}.network path{stroke:var(--muted);fill:none}
@media(max-width:34rem){figure svg text{font-size:20px}dl{grid-template-columns:1fr;gap:0}dd{margin-bottom:.6rem}}
"""
_SIDE: Final = 700
"""Of the square in which the network is drawn."""


@dataclass(frozen=True)
class Audited:
    """What an audit found: findings, and for each attacked agent (its number, accounted, attacked, and if charged)."""

    findings: int
    agents: tuple[tuple[int, float, float, float | None], ...]

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Audited:
        """Read it from ``audit.json``."""
        rows = [
            (a["agent"], a["accounted"], a["attacked"], a.get("attacked_if_charged"))
            for a in document["agents"]
            if a["accounted"] is not None and a["attacked"] is not None
        ]
        return cls(len(document["findings"]), tuple(rows))

    @property
    def best(self) -> float:
        """The largest epsilon that an attack shows."""
        return max((max(attacked, sharp or 0.0) for _, _, attacked, sharp in self.agents), default=0.0)


def report_of(folder: Path) -> bytes:
    """The report of a run that was scored.

    Raises
    ------
    RunFolderError
        If the folder has no results.
    """
    found = read_json(folder / "audit.json")
    graph = folder / "topology.graphml"
    edges = files.parse(graph.read_bytes(), "graphml").edges if graph.exists() else []
    return report(
        read_manifest(folder).name,
        read_results(folder),
        read_details(folder),
        [(i, j) for i, j, _ in edges],
        Audited.from_json(found) if "findings" in found else None,
    )


def report(
    name: str,
    results: Results,
    details: Details,
    edges: Sequence[tuple[int, int]] = (),
    audited: Audited | None = None,
) -> bytes:
    """The report of a run, by its name, with the graph's ``edges`` and the audit if there is one."""
    parts = [
        "<!doctype html><html lang='en'><meta charset='utf-8'>",
        "<meta name='viewport' content='width=device-width,initial-scale=1'>",
        f"<title>{html.escape(name)}</title><style>{STYLE}{svg.STYLE}</style>",
        f"<h1>{html.escape(name)}</h1><p class='note'>{html.escape(_about(results))}</p>",
        f"<p><b>{html.escape(first)}</b></p>" if (first := headline(details)) else "",
        _tiles(results, details, audited),
        _table(results, details),
    ]
    for title, below, picture in (
        _network(results, details, edges),
        _gain(results, details),
        _metric(results, details),
        _gap(details),
        _budget(results, details),
        _attacked(audited),
        _ages(results, details),
        _histogram(results),
    ):
        if picture:
            note = f"<p class='note'>{html.escape(below)}</p>"
            parts.append(f"<figure><h2>{html.escape(title)}</h2>{note}{picture}</figure>")
    lines = "".join(f"<dt>{html.escape(k)}</dt><dd>{html.escape(v)}</dd>" for k, v in facts(results, details))
    return "\n".join([*parts, f"<h2>The run</h2><dl>{lines}</dl></html>"]).encode()


def _about(results: Results) -> str:
    world = "in one process (the twin)" if results.world == "twin" else f"in {results.agents} processes"
    return f"{results.algorithm}, {results.agents} agents {world}"


# --- the first screen ------------------------------------------------------------------------------------------------


def _tiles(results: Results, details: Details, audited: Audited | None) -> str:
    found = [_learned(results, details), _spent(results, details), _captured(results, details), _judged(audited)]
    return f"<div class='tiles'>{''.join(tile for tile in found if tile)}</div>"


def _tile(name: str, value: str, below: str, kind: str = "") -> str:
    told = f"<span>{html.escape(name)}</span><b>{html.escape(value)}</b><span>{html.escape(below)}</span>"
    return f"<div class='tile {kind}'>{told}</div>"


def _learned(results: Results, details: Details) -> str:
    best = results.finish or results.together
    if best is None:
        return ""
    others = [("alone", results.alone), ("best ridge alone", details.best_ridge)]
    beside = ", ".join(f"{name} {other.mean:.3f}" for name, other in others if other is not None)
    kind = ""
    if results.alone is not None:
        gained = sign_of(results) * (best.mean - results.alone.mean) > 0.0
        kind = "good" if gained else "bad"
    model = LABELS["finish" if results.finish is not None else "together"]
    return _tile(
        f"{metric_name(results.metric.name)}, {model}", f"{best.mean:.3f}", beside or "nothing beside it", kind
    )


def _spent(results: Results, details: Details) -> str:
    epsilon = results.epsilon
    if not details.private:
        return _tile("privacy", "none", "releases carry no noise")
    if epsilon.charged_max is None:
        return _tile("privacy", "unknown", "something was released without noise, or no ledger is here", "bad")
    below = f"of {epsilon.budget:g} at delta {epsilon.delta:.2g}, for {details.record}"
    return _tile("epsilon charged", f"{epsilon.charged_max:.4g}", below)


def _captured(results: Results, details: Details) -> str:
    if results.capture is None:
        return _tile("capture", "none", "no eavesdropper recorded the run")
    if results.capture.complete:
        return _tile("capture", "complete", f"{results.capture.releases:,} releases of {results.agents} agents", "good")
    return _tile("capture", "incomplete", details.capture or "the log does not hold all that was sent", "bad")


def _judged(audited: Audited | None) -> str:
    if audited is None:
        return _tile("audit", "not yet", "sottovoce audit RUN")
    shown = "no agent was attacked"
    if audited.agents:
        accounted = max(row[1] for row in audited.agents)
        shown = f"attacks show an epsilon of at least {audited.best:.2f}, accounted are {accounted:.2f}"
    if audited.findings:
        return _tile(
            "audit", f"{audited.findings} finding{'s' * (audited.findings > 1)}", f"see audit.html; {shown}", "bad"
        )
    return _tile("audit", "no finding", shown, "good")


def _table(results: Results, details: Details) -> str:
    heads, rows, notes = model_rows(results, details)
    head = "".join(f"<th>{html.escape(cell)}</th>" for cell in heads)
    body = "".join("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    above = f"<p class='note'>{caption(details)}</p>" if caption(details) else ""
    below = "".join(f"<p class='note'>{html.escape(note)}</p>" for note in notes)
    return f"<div class='wide'><table><tr>{head}</tr>{body}</table></div>{above}{below}"


# --- pictures: title, line below it, HTML ---------------------------------------------------------------------------

Picture = tuple[str, str, str]
_NONE: Final[Picture] = ("", "", "")


def _network(results: Results, details: Details, edges: Sequence[tuple[int, int]]) -> Picture:
    """The graph, agents sized by their records, in the colour of what they gained."""
    agents = details.agents
    if not edges:
        return _NONE
    ends = np.array(edges, dtype=np.int64)
    at = (laid_out(len(agents.name), ends) + 1.0) * (_SIDE / 2 - 16) + 16
    strokes = "".join(f"M{at[i][0]:.0f} {at[i][1]:.0f}L{at[j][0]:.0f} {at[j][1]:.0f}" for i, j in edges)
    kind = "finish" if "finish" in agents.scores else "together"
    gains, largest = _gains(results, details, kind), max(1, *agents.records)
    dots = []
    for k, (named, records) in enumerate(zip(_named(details), agents.records, strict=True)):
        gain = None if gains is None else gains[k]
        colour = "alone" if gain is None else "together" if gain >= 0.0 else "finish"
        told = named if gain is None else f"{named}, {gain:+.3f}"
        radius = 2.0 + 8.0 * (records / largest) ** 0.5 / (1.0 + len(at) / 400)
        dots.append(
            f'<circle style="fill:var(--{colour})" cx="{at[k][0]:.0f}" cy="{at[k][1]:.0f}" r="{radius:.1f}">'
            f"<title>{html.escape(told)}</title></circle>"
        )
    faint = min(0.45, max(0.05, 200 / len(edges)))
    drawn = (
        f'<svg class="network" viewBox="0 0 {_SIDE} {_SIDE}" role="img" aria-label="the graph of the agents">'
        f'<path style="stroke-opacity:{faint:.2f}" d="{strokes}"/>{"".join(dots)}</svg>'
    )
    gained = "; blue: better than alone, red: worse" if gains is not None else ""
    below = f"{len(at)} agents, {len(edges)} edges; a circle's area is the agent's number of records{gained}"
    return "The network", marked(below, details) if gained else below, drawn


def _gains(results: Results, details: Details, kind: str) -> list[float | None] | None:
    """What each agent gained over learning alone by a kind of model; None where either has no scores."""
    scores = details.agents.scores
    if "alone" not in scores or kind not in scores:
        return None
    sign = sign_of(results)
    pairs = zip(scores[kind], scores["alone"], strict=True)
    return [None if one is None or other is None else sign * (one - other) for one, other in pairs]


def _named(details: Details) -> list[str]:
    """What a mark of each agent shows where it is pointed at."""
    return [
        f"{name}: {records} records" for name, records in zip(details.agents.name, details.agents.records, strict=True)
    ]


def _releases(curve: CurvePoints) -> list[float]:
    return [float(x) for x in curve.releases if x is not None]


def _gain(results: Results, details: Details) -> Picture:
    agents, names = details.agents, _named(details)
    found = {kind: gains for kind in ("together", "finish") if (gains := _gains(results, details, kind)) is not None}
    if not found:
        return _NONE
    every = np.concatenate([np.array(gains, dtype=np.float64) for gains in found.values()])
    low, high = shown_range(every)
    drawn = []
    for kind, gains in found.items():
        shown = [gain if gain is not None and low <= gain <= high else None for gain in gains]
        drawn.append(svg.Points(LABELS[kind], kind, agents.records, shown, names))
    zero = svg.Line("alone", "alone", [min(agents.records), max(agents.records)], [0.0, 0.0], dashed=True)
    left = sum(1 for value in every if np.isfinite(value) and not low <= value <= high)
    more = f"; not in the picture: {left} far outside" if left else ""
    picture = svg.chart("gain over learning alone by records", "training records", "gain over alone", [zero, *drawn])
    return "What learning together gained", marked(f"above 0 is better{more}", details), picture


def _metric(results: Results, details: Details) -> Picture:
    curve = details.curve
    if curve is None:
        return _NONE
    at = _releases(curve)
    drawn: list[svg.Series] = [svg.Line("released models", "together", at, curve.metric)]
    for kind in ("alone", "pooled", "finish"):
        summary = results.summary(kind)
        if summary is not None and at:
            drawn.append(svg.Line(LABELS[kind], kind, [at[0], at[-1]], [summary.mean] * 2, dashed=True))
    better = "higher" if results.metric.larger_is_better else "lower"
    name = metric_name(results.metric.name)
    picture = svg.chart(f"mean {name} over releases", "releases per agent", name, drawn)
    return f"Mean {name} on held-out rows", marked(f"{better} is better", details), picture


def _gap(details: Details) -> Picture:
    curve = details.curve
    if curve is None or not curve.gap:
        return _NONE
    at = _releases(curve)
    log = spans_decades(np.array(curve.gap, dtype=np.float64))
    line = svg.Line("relative gap", "together", at, curve.gap)
    picture = svg.chart("relative gap to the optimum", "releases per agent", "relative gap", [line], log=log)
    return "Gap to the optimum", "1 is where all agents start, 0 is the objective's optimum", picture


def _budget(results: Results, details: Details) -> Picture:
    agents, budget = details.agents, results.epsilon.budget
    spent = [epsilon for epsilon in agents.epsilon if epsilon is not None]
    if not details.private or budget is None or len(spent) < 2 or max(spent) - min(spent) < 1e-3 * max(spent):
        return _NONE
    charged = svg.Points("charged", "together", agents.records, agents.epsilon, _named(details))
    limit = svg.Line("budget", "alone", [min(agents.records), max(agents.records)], [budget, budget], dashed=True)
    picture = svg.chart("epsilon charged by records", "training records", "epsilon", [limit, charged])
    return "What each ledger was charged", f"for {details.record}", picture


def _attacked(audited: Audited | None) -> Picture:
    if audited is None or not audited.agents:
        return _NONE
    agents = [float(agent) for agent, _, _, _ in audited.agents]
    names = [f"agent {agent}" for agent, _, _, _ in audited.agents]
    drawn: list[svg.Series] = [
        svg.Points("accounted", "alone", agents, [row[1] for row in audited.agents], names),
        svg.Points("attacked, if the noise is as charged", "finish", agents, [row[3] for row in audited.agents], names),
        svg.Points("attacked, whatever the noise", "together", agents, [row[2] for row in audited.agents], names),
    ]
    picture = svg.chart("epsilon accounted and attacked of each agent", "agent", "epsilon", drawn)
    return "Accounted and attacked", "no attack may come out above what was accounted; audit.html tells more", picture


def _ages(results: Results, details: Details) -> Picture:
    curve = details.curve
    if results.staleness is None or curve is None or all(age is None for age in curve.age):
        return _NONE
    at = _releases(curve)
    line = svg.Line("mean age", "age", at, curve.age)
    picture = svg.chart("mean age of the models used", "releases per agent", "releases", [line])
    return "How old the neighbours' models were over the run", "mean age, in releases of their senders", picture


def _histogram(results: Results) -> Picture:
    if results.staleness is None:
        return _NONE
    labels, shares = bars(np.array(results.staleness.histogram, dtype=np.int64))
    picture = svg.chart(
        "ages of models used", "age, in releases", "share", [svg.Bars("", "age", labels, shares.tolist())]
    )
    return "How old the neighbours' models were", "share of the models used, each release and neighbour", picture
