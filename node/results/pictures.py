"""Pictures of a run: how it converged, and what each agent gained by its number of records."""

from __future__ import annotations

import importlib.util
import io
from typing import TYPE_CHECKING, Any

import numpy as np

from coordinator_free.release import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK, MUTED, GRID_INK = "#1f2933", "#7b8794", "#e4e7eb"
COLOURS = {
    "together": "#1f77b4",
    "finish": "#d1495b",
    "alone": "#66717d",
    "pooled": "#8a6fae",
    "released_average": "#2a9d8f",
}
LABELS = {
    "zero": "zero model",
    "alone": "alone",
    "best_ridge": "best ridge alone",
    "together": "together",
    "released_average": "average of what was released",
    "finish": "together, free finish",
    "pooled": "pooled",
}
NOT_COVERED = "from local data: not covered by epsilon"


def drawable() -> bool:
    """Whether pictures can be drawn here: the container image has no matplotlib."""
    return importlib.util.find_spec("matplotlib") is not None


def convergence_picture(results: dict[str, Any], details: dict[str, Any]) -> bytes | None:
    """A PNG of gap and metric over releases per agent, as an eavesdropper could follow them; None without a log."""
    curve = details["curve"]
    if curve is None or len(curve["releases"]) < 2:
        return None
    gap = floats(curve["gap"])
    figure, axes = new_figure(2 if gap.size else 1)
    at = floats(curve["releases"])
    if gap.size:
        left = axes[0]
        left.plot(at, gap, color=COLOURS["together"], linewidth=2)
        if spans_decades(gap):
            left.set_yscale("log")
        else:
            left.set_ylim(bottom=min(0.0, float(np.nanmin(gap))))
        titled(left, "Relative gap to the optimum", "1 is where everybody starts, 0 is the objective's optimum")
        left.set_xlabel("releases per agent")
    right = axes[-1]
    right.plot(at, floats(curve["metric"]), color=COLOURS["together"], linewidth=2)
    names = [kind for kind in ("alone", "pooled", "finish") if results[kind] is not None]
    marks = [(results[kind]["mean"], LABELS[kind], COLOURS[kind]) for kind in names]
    marks.append((curve["metric"][-1], "released models", COLOURS["together"]))
    for value, _, colour in marks[:-1]:
        right.axhline(value, color=colour, linewidth=1.2, linestyle=(0, (4, 3)))
    _name_at_the_edge(right, marks, [value for value in curve["metric"] if value is not None])
    metric = results["metric"]
    better = "higher" if metric["larger_is_better"] else "lower"
    titled(right, f"Mean {metric_name(metric['name'])} on held-out rows", marked(f"{better} is better", details))
    right.set_xlabel("releases per agent")
    return png(figure)


def gain_picture(results: dict[str, Any], details: dict[str, Any]) -> bytes | None:
    """A PNG of each agent's gain over learning alone, by its number of records; None where nobody knows that gain."""
    agents = details["agents"]
    kinds = [kind for kind in ("together", "finish") if kind in agents]
    if not kinds or "alone" not in agents:
        return None
    records = floats(agents["records"])
    figure, axes = new_figure(1)
    axis = axes[0]
    axis.axhline(0, color=INK, linewidth=1)
    gains = {kind: sign_of(results) * (floats(agents[kind]) - floats(agents["alone"])) for kind in kinds}
    low, high = shown_range(np.concatenate(list(gains.values())))
    marks = []
    beyond = False
    for kind, gain in gains.items():
        good = np.isfinite(gain)
        if not good.any():
            continue
        small = 26 if good.sum() <= 200 else 8
        inside = good & (gain >= low) & (gain <= high)
        axis.scatter(records[inside], gain[inside], s=small, color=COLOURS[kind], alpha=0.35, linewidths=0)
        for marker, edge, outside in (("v", low, gain < low), ("^", high, gain > high)):
            axis.scatter(records[outside], np.full(outside.sum(), edge), s=30, color=COLOURS[kind], marker=marker)
        # One thick line a quarter of the agents, over the sizes that it holds.
        for quarter in details["quarters"]:
            if quarter[kind] is not None and quarter["alone"] is not None:
                mean = sign_of(results) * (quarter[kind] - quarter["alone"])
                axis.plot(quarter["records"], [mean, mean], color=COLOURS[kind], linewidth=3, solid_capstyle="round")
        marks.append((kind, float(np.mean(gain[good])), float(np.min(gain[good]))))
        beyond = beyond or bool((good & ~inside).any())
    if not marks:
        return None
    if records.max() > 8 * max(records.min(), 1):
        axis.set_xscale("symlog", linthresh=max(1.0, float(records[records > 0].min())))
    _plain_sizes(axis, records)
    axis.set_ylim(low - 0.04 * (high - low), high + 0.04 * (high - low))
    axis.set_xlabel("the agent's training records")
    axis.set_ylabel(f"gain in {metric_name(results['metric']['name'])} over learning alone")
    below = "above 0 is better; thick: means of quarters" + ("; triangles: beyond" if beyond else "")
    titled(axis, "What telling neighbours gained, by dataset size", marked(below, details))
    handles = [
        axis.scatter(
            [],
            [],
            s=40,
            color=COLOURS[kind],
            label=f"{LABELS[kind]}: mean {mean:+.3f}{_of_the_smallest(kind, results)}, worst {worst:+.3f}",
            linewidths=0,
        )
        for kind, mean, worst in marks
    ]
    axis.legend(
        handles=handles, frameon=False, labelcolor=INK, fontsize=9, loc="upper left", bbox_to_anchor=(-0.02, -0.13)
    )
    return png(figure)


def sign_of(results: dict[str, Any]) -> float:
    """1 where a larger metric is better, else -1: a difference times this is a gain."""
    return 1.0 if results["metric"]["larger_is_better"] else -1.0


def shown_range(gains: FloatArray) -> tuple[float, float]:
    """A range of gains that a few extreme agents do not stretch: three times the 90th percentile, or all of them."""
    finite = gains[np.isfinite(gains)]
    if not finite.size:
        return -1.0, 1.0
    reach = 3.0 * float(np.quantile(np.abs(finite), 0.9)) or 1.0
    low, high = max(-reach, float(finite.min(initial=0.0))), min(reach, float(finite.max(initial=0.0)))
    return (low, high) if low < high else (-1.0, 1.0)


def spans_decades(values: FloatArray) -> bool:
    """Whether a logarithmic axis shows these values better; NaN is left out."""
    return bool(np.nanmin(values) > 0 and np.nanmax(values) > 10 * np.nanmin(values))


def _of_the_smallest(kind: str, results: dict[str, Any]) -> str:
    few, before = results[kind]["smallest_quarter"], results["alone"]["smallest_quarter"]
    return "" if few is None or before is None else f", smallest quarter {sign_of(results) * (few - before):+.3f}"


def new_figure(panels: int) -> tuple[Figure, list[Axes]]:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(
        figsize=(6.4 * panels, 4.6) if panels > 1 else (7.6, 5.0), dpi=130, layout="constrained", facecolor="white"
    )
    FigureCanvasAgg(figure)
    axes = [figure.add_subplot(1, panels, panel + 1) for panel in range(panels)]
    for axis in axes:
        for side in ("top", "right"):
            axis.spines[side].set_visible(False)
        for side in ("left", "bottom"):
            axis.spines[side].set_color(MUTED)
        axis.tick_params(colors=INK, labelsize=9)
        axis.grid(True, color=GRID_INK, linewidth=0.8)
        axis.set_axisbelow(True)
    return figure, axes


def titled(axis: Axes, title: str, below: str) -> None:
    axis.set_title(title, loc="left", color=INK, fontsize=12, fontweight="bold", pad=22)
    axis.text(0.0, 1.025, below, transform=axis.transAxes, color=MUTED, fontsize=9)


def _name_at_the_edge(axis: Axes, marks: list[tuple[float, str, str]], curve: list[float]) -> None:
    """Write each line's name right of the plot, moved apart where they would overlap."""
    values = [value for value, _, _ in marks] + curve
    low, high = min(values), max(values)
    room = 0.08 * (high - low or 1.0)
    axis.set_ylim(low - room, high + room)
    height = high - low + 2 * room
    at = -1.0
    for value, name, colour in sorted(marks):
        place = max((value - low + room) / height, at + 0.055)
        at = place
        axis.text(1.015, place, f"{name} {value:.3f}", transform=axis.transAxes, color=colour, fontsize=9, va="center")


def _plain_sizes(axis: Axes, records: FloatArray) -> None:
    from matplotlib.ticker import FixedLocator, NullLocator, StrMethodFormatter

    largest = float(records.max())
    steps = [0, *(base * 10**power for power in range(7) for base in (1, 2, 5))]
    smallest = float(records.min())
    ticks = [step for step in steps if smallest <= step <= largest]
    if axis.get_xscale() == "symlog" and len(ticks) >= 2:
        axis.xaxis.set_major_locator(FixedLocator(ticks))
        axis.xaxis.set_minor_locator(NullLocator())
    axis.xaxis.set_major_formatter(StrMethodFormatter("{x:.0f}"))
    axis.set_xlim(smallest * 0.9, largest * 1.1)


def marked(text: str, details: dict[str, Any]) -> str:
    """The text, and in a private run that the figures are not private."""
    return f"{text}; {NOT_COVERED}" if details["private"] else text


def metric_name(name: str) -> str:
    return "RMSE" if name == "rmse" else name


def floats(values: list[float | None]) -> FloatArray:
    return np.array([np.nan if value is None else value for value in values], dtype=np.float64)


def png(figure: Figure) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", bbox_inches="tight")
    return buffer.getvalue()
