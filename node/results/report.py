"""A run's report as one HTML file that needs nothing else: the table and pictures to look into."""

from __future__ import annotations

import html
from typing import Any

import numpy as np

from node.drawing import spans_decades
from node.results.details import Details
from node.results.labels import COLOURS, LABELS, marked, metric_name, sign_of
from node.results.results import Results
from node.results.staleness_picture import AGE_INK, bars
from node.results.table import caption, facts, headline, model_rows

STYLE = """
body{font:15px/1.5 system-ui,sans-serif;color:#1f2933;max-width:60rem;margin:2rem auto;padding:0 1rem}
table{border-collapse:collapse;margin:1rem 0}th,td{padding:.25rem .9rem .25rem 0;text-align:right}
th:first-child,td:first-child{text-align:left}th{border-bottom:1px solid #7b8794}h1{font-size:1.5rem}
h2{font-size:1.1rem;margin-top:2rem}.note{color:#616e7c}dt{color:#616e7c;float:left;clear:left;width:12rem}
dd{margin-left:12rem}
"""


def write_report(name: str, results: Results, details: Details) -> bytes | None:
    """The report; None where plotly is not installed."""
    try:
        import plotly.graph_objects as go
        from plotly.offline import get_plotlyjs
    except ImportError:
        return None
    figures = [
        figure
        for figure in (
            _gap(go, details),
            _metric(go, results, details),
            _gain(go, results, details),
            _ages(go, details),
            _histogram(go, results),
        )
        if figure is not None
    ]
    parts = [
        "<!doctype html><html lang='en'><meta charset='utf-8'>",
        f"<title>{html.escape(name)}</title><style>{STYLE}</style>",
        f"<script>{get_plotlyjs()}</script>" if figures else "",
        f"<h1>{html.escape(name)}</h1>",
        f"<p>{html.escape(_about(results))}</p>",
        f"<p><b>{html.escape(first)}</b></p>" if (first := headline(details)) else "",
        _table(results, details),
        "<dl>" + "".join(f"<dt>{html.escape(k)}</dt><dd>{html.escape(v)}</dd>" for k, v in facts(results, details)),
        "</dl>",
    ]
    for title, below, figure in figures:
        parts.append(f"<h2>{html.escape(title)}</h2><p class='note'>{html.escape(below)}</p>")
        parts.append(figure.to_html(full_html=False, include_plotlyjs=False, config={"displaylogo": False}))
    parts.append("</html>")
    return "\n".join(parts).encode()


def _about(results: Results) -> str:
    world = "in one process (the twin)" if results.world == "twin" else f"in {results.agents} processes"
    return f"{results.algorithm}, {results.agents} agents {world}"


def _table(results: Results, details: Details) -> str:
    heads, rows, notes = model_rows(results, details)
    head = "".join(f"<th>{html.escape(cell)}</th>" for cell in heads)
    body = "".join("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    above = f"<p class='note'>{caption(details)}</p>" if caption(details) else ""
    below = "".join(f"<p class='note'>{html.escape(note)}</p>" for note in notes)
    return f"<table><tr>{head}</tr>{body}</table>{above}{below}"


def _gap(go: Any, details: Details) -> tuple[str, str, Any] | None:
    curve = details.curve
    if curve is None or not curve.gap:
        return None
    figure = _figure(go)
    figure.add_scatter(x=curve.releases, y=curve.gap, mode="lines", line={"color": COLOURS["together"]})
    if spans_decades(np.array(curve.gap, dtype=np.float64)):
        figure.update_yaxes(type="log", exponentformat="power")
    figure.update_xaxes(title="releases per agent")
    return "Relative gap to the optimum", "1 is where all agents start, 0 is the objective's optimum", figure


def _metric(go: Any, results: Results, details: Details) -> tuple[str, str, Any] | None:
    curve = details.curve
    if curve is None:
        return None
    figure = _figure(go)
    at = curve.releases
    figure.add_scatter(x=at, y=curve.metric, mode="lines", name="released models", line={"color": COLOURS["together"]})
    for kind in ("alone", "pooled", "finish"):
        summary = results.summary(kind)
        if summary is not None:
            mean = summary.mean
            line = {"color": COLOURS[kind], "dash": "dash", "width": 1.5}
            figure.add_scatter(x=[at[0], at[-1]], y=[mean, mean], mode="lines", name=LABELS[kind], line=line)
    figure.update_xaxes(title="releases per agent")
    better = "higher" if results.metric.larger_is_better else "lower"
    title = f"Mean {metric_name(results.metric.name)} on held-out rows"
    return title, marked(f"{better} is better", details), figure


def _gain(go: Any, results: Results, details: Details) -> tuple[str, str, Any] | None:
    agents = details.agents
    if "alone" not in agents.scores:
        return None
    figure = _figure(go)
    alone = np.array(agents.scores["alone"], dtype=np.float64)
    for kind in ("together", "finish"):
        if kind in agents.scores:
            gain = sign_of(results) * (np.array(agents.scores[kind], dtype=np.float64) - alone)
            figure.add_scatter(
                x=agents.records,
                y=gain,
                mode="markers",
                name=LABELS[kind],
                text=agents.name,
                hovertemplate="%{text}: %{x} records, %{y:+.3f}<extra></extra>",
                marker={"color": COLOURS[kind], "opacity": 0.6},
            )
    figure.update_xaxes(title="the agent's training records")
    figure.update_yaxes(title="gain over learning alone")
    below = marked("above 0 is better; point at an agent for its name", details)
    return "What telling neighbours gained, by dataset size", below, figure


def _ages(go: Any, details: Details) -> tuple[str, str, Any] | None:
    curve = details.curve
    if curve is None or all(age is None for age in curve.age):
        return None
    figure = _figure(go)
    at = curve.releases
    highest = 1.05 * max([1.0, *(age for age in curve.age if age is not None)])
    what, values = ("relative gap", curve.gap) if curve.gap else ("metric", curve.metric)
    figure.add_scatter(x=at, y=values, mode="lines", name=what, line={"color": COLOURS["together"]})
    figure.add_scatter(x=at, y=curve.age, mode="lines", name="mean age", line={"color": AGE_INK}, yaxis="y2")
    figure.update_layout(yaxis2={"overlaying": "y", "side": "right", "range": [0, highest], "title": "releases"})
    if curve.gap and spans_decades(np.array(curve.gap, dtype=np.float64)):
        figure.update_layout(yaxis={"type": "log", "exponentformat": "power"})
    figure.update_xaxes(title="releases per agent")
    return "Convergence and the age of what was used", "how old the neighbours' models were, in their releases", figure


def _histogram(go: Any, results: Results) -> tuple[str, str, Any] | None:
    if results.staleness is None:
        return None
    labels, shares = bars(np.array(results.staleness.histogram, dtype=np.int64))
    figure = _figure(go)
    figure.add_bar(x=labels, y=shares.tolist(), marker={"color": AGE_INK})
    figure.update_xaxes(title="age of a neighbour's model, in its releases", type="category")
    return "How old the neighbours' models were", "share of the models used, each release and neighbour", figure


def _figure(go: Any) -> Any:
    legend = {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom"}
    return go.Figure(layout={"template": "simple_white", "height": 420, "margin": {"t": 50, "r": 20}, "legend": legend})
