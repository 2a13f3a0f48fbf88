"""A run's report as one HTML file that needs nothing else: the table and two pictures to look into."""

from __future__ import annotations

import html
import math
from typing import Any

from node.pictures import COLOURS, LABELS
from node.results import QUARTERS, facts, model_rows

STYLE = """
body{font:15px/1.5 system-ui,sans-serif;color:#1f2933;max-width:60rem;margin:2rem auto;padding:0 1rem}
table{border-collapse:collapse;margin:1rem 0}th,td{padding:.25rem .9rem .25rem 0;text-align:right}
th:first-child,td:first-child{text-align:left}th{border-bottom:1px solid #7b8794}h1{font-size:1.5rem}
h2{font-size:1.1rem;margin-top:2rem}.note{color:#616e7c}dt{color:#616e7c;float:left;clear:left;width:12rem}
dd{margin-left:12rem}
"""


def write_report(name: str, results: dict[str, Any], details: dict[str, Any]) -> bytes | None:
    """The report; None where plotly is not installed."""
    try:
        import plotly.graph_objects as go
        from plotly.offline import get_plotlyjs
    except ImportError:
        return None
    figures = [figure for figure in (_convergence(go, details), _gain(go, results, details)) if figure is not None]
    parts = [
        "<!doctype html><html lang='en'><meta charset='utf-8'>",
        f"<title>{html.escape(name)}</title><style>{STYLE}</style>",
        f"<script>{get_plotlyjs()}</script>" if figures else "",
        f"<h1>{html.escape(name)}</h1>",
        _table(results, details),
        "<dl>" + "".join(f"<dt>{html.escape(k)}</dt><dd>{html.escape(v)}</dd>" for k, v in facts(results, details)),
        "</dl>",
    ]
    for title, figure in figures:
        parts.append(f"<h2>{html.escape(title)}</h2>")
        parts.append(figure.to_html(full_html=False, include_plotlyjs=False))
    parts.append("</html>")
    return "\n".join(parts).encode()


def _table(results: dict[str, Any], details: dict[str, Any]) -> str:
    heads, rows, notes = model_rows(results, details)
    head = "".join(f"<th>{html.escape(cell)}</th>" for cell in heads)
    body = "".join("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    below = "".join(f"<p class='note'>{html.escape(note)}</p>" for note in notes)
    return f"<table><tr>{head}</tr>{body}</table><p class='note'>{QUARTERS}</p>{below}"


def _convergence(go: Any, details: dict[str, Any]) -> tuple[str, Any] | None:
    curve = details["curve"]
    if curve is None:
        return None
    kind = "gap" if curve["gap"] else "metric"
    figure = _figure(go)
    figure.add_scatter(x=curve["releases"], y=curve[kind], mode="lines", line={"color": COLOURS["together"]})
    values = [value for value in curve[kind] if value is not None]
    if kind == "gap" and values and min(values) > 0:
        figure.update_yaxes(type="log")
    figure.update_xaxes(title="releases per agent")
    title = "Relative gap to the optimum" if kind == "gap" else "Mean metric of the released models"
    return title, figure


def _gain(go: Any, results: dict[str, Any], details: dict[str, Any]) -> tuple[str, Any] | None:
    agents = details["agents"]
    if "alone" not in agents:
        return None
    sign = 1.0 if results["metric"]["larger_is_better"] else -1.0
    figure = _figure(go)
    for kind in ("together", "finish"):
        if kind in agents:
            gain = [
                math.nan if with_ is None or without is None else sign * (with_ - without)
                for with_, without in zip(agents[kind], agents["alone"], strict=True)
            ]
            figure.add_scatter(
                x=agents["records"],
                y=gain,
                mode="markers",
                name=LABELS[kind],
                text=agents["name"],
                marker={"color": COLOURS[kind], "opacity": 0.6},
            )
    figure.update_xaxes(title="the agent's training records")
    figure.update_yaxes(title="gain over learning alone (above 0 is better)")
    return "What telling neighbours gained, by dataset size (not covered by epsilon)", figure


def _figure(go: Any) -> Any:
    return go.Figure(layout={"template": "simple_white", "height": 420, "margin": {"t": 20, "r": 20}})
