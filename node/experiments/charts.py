"""Pictures of comparisons: lines over a quantity, or one mark for each thing compared.

Rules that hold here:
- Two readings of one thing share a colour: solid is what holds, dashed what a paper printed.
- Every line is named in the legend below its panel.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from node.drawing import GRID_INK, INK, MUTED

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PALETTE = (
    *("#1f77b4", "#d1495b", "#2a9d8f", "#8a6fae", "#e08e2b", "#66717d", "#5c8001", "#b5179e"),
    *("#7f4f24", "#00b4d8", "#1b1b1e", "#c9a227"),
)
MARKS = ("o", "s", "^")
"""Of short lines; the next one where the colours are used up."""
_COLUMNS = 3
_FEW = 12
"""Up to so many places of an axis are marked each, and points of a line too."""


@dataclass(frozen=True)
class Series:
    """One line: ``spread`` is half the height of its error bars (empty: none), ``colour`` an index of `PALETTE`."""

    label: str
    x: Sequence[float]
    y: Sequence[float]
    spread: Sequence[float] = ()
    colour: int = 0
    dashed: bool = False


@dataclass(frozen=True)
class Panel:
    """One pair of axes. ``levels`` are horizontal lines: (label, value)."""

    title: str
    below: str
    x_label: str
    series: Sequence[Series]
    levels: Sequence[tuple[str, float]] = field(default_factory=tuple)
    x_log: bool = False
    y_log: bool = False


def draw(panels: Sequence[Panel]) -> bytes:
    """A PNG of the panels, at most three side by side."""
    return _png(drawn(panels))


def drawn(panels: Sequence[Panel]) -> Figure:
    """The panels on axes of one figure."""
    columns = 2 if len(panels) == 4 else min(_COLUMNS, len(panels))
    rows = -(-len(panels) // columns)
    figure = _blank(6.0 * columns, 5.4 * rows)
    for place, panel in enumerate(panels):
        _draw(figure.add_subplot(rows, columns, place + 1), panel)
    return figure


def draw_marks(title: str, below: str, marks: Sequence[tuple[str, float, float]]) -> bytes:
    """A PNG with one row for each (label, mean, half the error bar)."""
    return _png(drawn_marks(title, below, marks))


def drawn_marks(title: str, below: str, marks: Sequence[tuple[str, float, float]]) -> Figure:
    """The rows of `draw_marks` on the axes of a figure, the first one on top."""
    figure = _blank(8.0, 1.4 + 0.38 * len(marks))
    axis = figure.add_subplot(1, 1, 1)
    _plain(axis)
    places = np.arange(len(marks))[::-1]
    for place, (label, mean, half) in zip(places, marks, strict=True):
        colour = PALETTE[0] if ":" in label else PALETTE[5]
        axis.errorbar([mean], [place], xerr=[half], fmt="o", color=colour, capsize=3)
    axis.set_yticks(places, [label for label, _, _ in marks])
    axis.set_ylim(-0.7, len(marks) - 0.3)
    _title(axis, title, below)
    return figure


def _blank(width: float, height: float) -> Figure:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), dpi=120, layout="constrained", facecolor="white")
    FigureCanvasAgg(figure)
    return figure


def _png(figure: Figure) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", bbox_inches="tight")
    return buffer.getvalue()


def _draw(axis: Axes, panel: Panel) -> None:
    _plain(axis)
    for series in panel.series:
        x, y = np.asarray(series.x, dtype=np.float64), np.asarray(series.y, dtype=np.float64)
        colour, again = PALETTE[series.colour % len(PALETTE)], series.colour // len(PALETTE)
        style = "--" if series.dashed else "-"
        mark = MARKS[again % len(MARKS)] if len(x) <= _FEW else None
        axis.plot(x, y, linestyle=style, marker=mark, markersize=4, color=colour, linewidth=1.8, label=series.label)
        if len(series.spread):
            half = np.asarray(series.spread, dtype=np.float64)
            axis.fill_between(x, y - half, y + half, color=colour, alpha=0.15, linewidth=0)
    for number, (label, value) in enumerate(panel.levels):
        axis.axhline(value, color=PALETTE[-1 - number % 5], linewidth=1.2, linestyle=":", label=label)
    if panel.x_log:
        axis.set_xscale("log")
    places = sorted({float(x) for series in panel.series for x in series.x})
    if 0 < len(places) <= _FEW:
        axis.set_xticks(places, [f"{place:g}" for place in places])
        axis.set_xticks([], minor=True)
    if panel.y_log:
        axis.set_yscale("log")
    axis.set_xlabel(panel.x_label)
    _title(axis, panel.title, panel.below)
    if panel.series or panel.levels:
        axis.legend(
            frameon=False,
            labelcolor=INK,
            fontsize=8,
            loc="upper left",
            bbox_to_anchor=(-0.02, -0.12),
            ncols=2,
            handlelength=3.2,
        )


def _plain(axis: Axes) -> None:
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axis.spines[side].set_color(MUTED)
    axis.tick_params(which="both", colors=INK, labelsize=9)
    axis.grid(True, color=GRID_INK, linewidth=0.8)
    axis.set_axisbelow(True)


def _title(axis: Axes, title: str, below: str) -> None:
    axis.set_title(title, loc="left", color=INK, fontsize=11, fontweight="bold", pad=20)
    axis.text(0.0, 1.02, below, transform=axis.transAxes, color=MUTED, fontsize=8.5)
