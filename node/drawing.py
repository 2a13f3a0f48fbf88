"""Drawing that all pictures share: colours of text and grid, empty figures, axes, PNG."""

from __future__ import annotations

import importlib.util
import io
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from coordinator_free.release import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK, MUTED, GRID_INK = "#1f2933", "#7b8794", "#e4e7eb"


def drawable() -> bool:
    """Whether pictures can be drawn here: the container image has no matplotlib."""
    return importlib.util.find_spec("matplotlib") is not None


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


def new_figure(panels: int) -> tuple[Figure, list[Axes]]:
    """An empty figure with ``panels`` axes side by side."""
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
    """Write a title and a line below it."""
    axis.set_title(title, loc="left", color=INK, fontsize=12, fontweight="bold", pad=22)
    axis.text(0.0, 1.025, below, transform=axis.transAxes, color=MUTED, fontsize=9)


def name_at_the_edge(axis: Axes, marks: list[tuple[float, str, str]], curve: list[float]) -> None:
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


def plain_sizes(axis: Axes, records: FloatArray) -> None:
    """Label an axis of numbers of records with round numbers."""
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


def floats(values: Sequence[float | None]) -> FloatArray:
    """The values as an array, NaN for None."""
    return np.array([np.nan if value is None else value for value in values], dtype=np.float64)


def png(figure: Figure) -> bytes:
    """A figure as the bytes of a PNG file."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", bbox_inches="tight")
    return buffer.getvalue()
