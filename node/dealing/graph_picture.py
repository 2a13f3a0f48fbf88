"""A picture of the graph: PNG or SVG, legible from a few agents to a million."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from topology.layout import places
from topology.network import Network
from topology.spectrum import Facts

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]

FORMATS = ("png", "svg")

INK, MUTED, EDGE, WEAK = "#1f2933", "#7b8794", "#52606d", "#d1495b"
_COLOURS = "viridis"
_DRAWN = 1500
"""More agents than this are shown as a matrix and a histogram: drawn one by one they would be a blot."""
_NUMBERED = 80
"""Up to so many agents carry their numbers."""
_BINS = 400


def draw(network: Network, facts: Facts, title: str, format: str) -> bytes:
    """The picture in ``format``, one of `FORMATS`, under ``title``."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context({"font.size": 11, "svg.fonttype": "none", "svg.hashsalt": "sottovoce"}):
        if network.agents <= _DRAWN:
            figure = Figure(figsize=(9, 8.2), layout="constrained")
            _agents_and_edges(figure, network, facts, title)
        else:
            figure = Figure(figsize=(13, 6.4), layout="constrained")
            _matrix_and_histogram(figure, network, facts, title)
        buffer = io.BytesIO()
        # No date: the same network is to give the same bytes.
        metadata = {"Date": None} if format == "svg" else {"Software": None}
        figure.savefig(buffer, format=format, dpi=150, facecolor="white", metadata=metadata)
    return buffer.getvalue()


def _heading(figure: Figure, facts: Facts, title: str) -> None:
    low, high = facts.diameter
    hops = f"{low}" if low == high else f"{low} to {high}"
    least, mean, most = facts.degrees
    degrees = f"{least}" if least == most else f"{least} to {most}, {mean:.1f} on average"
    figure.suptitle(f"{title}\n", color=INK, fontsize=15, fontweight="bold")
    figure.text(
        0.5,
        0.945,
        f"{facts.agents:,} agents, {facts.edges:,} edges; neighbours of an agent: {degrees}; diameter {hops}",
        ha="center",
        va="top",
        color=MUTED,
        fontsize=11,
    )


def _agents_and_edges(figure: Figure, network: Network, facts: Facts, title: str) -> None:
    from matplotlib.collections import LineCollection
    from matplotlib.colors import to_rgba
    from matplotlib.lines import Line2D

    _heading(figure, facts, title)
    axes = figure.add_subplot()
    axes.set_aspect("equal")
    axes.axis("off")
    axes.margins(0.06)
    at = places(network)
    edges = network.edges
    agents = network.agents
    if edges:
        weak = set(facts.bridges or ())
        ends = np.array([(i, j) for i, j, _ in edges])
        weights = np.array([weight for _, _, weight in edges])
        fragile = np.array([(i, j) in weak for i, j, _ in edges])
        # Enough ink for few edges, and not a blot for many; a lighter edge is fainter.
        ink = float(np.clip(1.6 / np.sqrt(len(edges) / max(agents, 12)) / (1 + agents / 300), 0.05, 0.75))
        colours = np.tile(to_rgba(EDGE), (len(edges), 1))
        colours[:, 3] = ink * (0.25 + 0.75 * weights / weights.max())
        width = 1.6 if agents <= _NUMBERED else 0.7
        whole = LineCollection(list(at[ends[~fragile]]), colors=colours[~fragile], linewidths=width, zorder=1)
        axes.add_collection(whole)
        axes.add_collection(LineCollection(list(at[ends[fragile]]), colors=WEAK, linewidths=width + 0.5, zorder=1.5))
    cut = np.zeros(agents, dtype=bool)
    cut[list(facts.cut_agents or ())] = True
    _dots(figure, axes, network, at, cut)
    marks = []
    if facts.bridges:
        marks.append(Line2D([], [], color=WEAK, linewidth=2, label="bridge: without it the network falls apart"))
    if cut.any():
        marks.append(
            Line2D(
                [], [], marker="o", linestyle="", markerfacecolor="white", markeredgecolor=WEAK, markeredgewidth=2,
                label="cut agent: without it the graph falls apart",
            )
        )  # fmt: skip
    if marks:
        figure.legend(handles=marks, loc="outside lower center", ncols=2, frameon=False, labelcolor=INK, fontsize=10)


def _dots(figure: Figure, axes: Axes, network: Network, at: FloatArray, cut: BoolArray) -> None:
    from matplotlib.ticker import MaxNLocator

    agents, counts = network.agents, network.degree_counts
    numbered = agents <= _NUMBERED
    least, most = int(counts.min()), int(counts.max())
    size: FloatArray = np.full(agents, np.clip(20000 / agents, 12, 700 if agents <= 20 else 300))
    if not numbered and most > least:
        # Small dots: busy agents are found by their size as well.
        size *= np.clip(counts / counts.mean(), 0.6, 6.0)
    # Busy agents last, so that they are not hidden; one colour says nothing, so then there is no colour scale.
    order = np.argsort(counts, kind="stable")
    dots = axes.scatter(
        at[order, 0],
        at[order, 1],
        s=size[order],
        c=counts[order],
        cmap=_COLOURS,
        vmin=least if most > least else least - 1,
        vmax=most if most > least else most + 1,
        edgecolors=np.where(cut[order], WEAK, "white").tolist(),
        linewidths=np.where(cut[order], 2.2 if numbered else 1.0, 1.2 if numbered else 0.3).tolist(),
        zorder=2,
    )
    if most > least:
        bar = figure.colorbar(dots, ax=axes, shrink=0.55, aspect=28, pad=0.02)
        bar.set_label("neighbours", color=INK)
        bar.ax.yaxis.set_major_locator(MaxNLocator(integer=True, nbins=8))
        bar.outline.set_visible(False)
    if numbered:
        for agent in range(agents):
            bright = most > least and counts[agent] - least > 0.62 * (most - least)
            axes.annotate(
                str(agent), at[agent], ha="center", va="center", zorder=3, color=INK if bright else "white",
                fontsize=12 if agents <= 20 else 8,
            )  # fmt: skip


def _matrix_and_histogram(figure: Figure, network: Network, facts: Facts, title: str) -> None:
    from matplotlib.colors import LogNorm

    _heading(figure, facts, title)
    left, right = figure.subplots(1, 2, width_ratios=(1, 1.1))
    entries = network.weights.tocoo()
    counted, _, _ = np.histogram2d(entries.row, entries.col, bins=_BINS, range=[[0, network.agents]] * 2)
    shown = left.imshow(
        np.ma.masked_equal(counted, 0),
        cmap=_COLOURS,
        norm=LogNorm(vmin=1, vmax=max(2.0, counted.max())),
        extent=(0, network.agents, network.agents, 0),
        interpolation="nearest",
    )
    left.set_title("neighbours", color=INK)
    left.set_xlabel("agent")
    left.set_ylabel("agent")
    square = f"{network.agents / _BINS:.0f}"
    figure.colorbar(shown, ax=left, shrink=0.8, label=f"edges in {square} x {square} agents")
    values, agents = np.unique(network.degree_counts, return_counts=True)
    if values.size > 60:
        right.hist(network.degree_counts, bins=60, color=EDGE)
    else:
        right.bar(values, agents, color=EDGE, width=0.85)
        if values.size <= 12:
            right.set_xticks(values)
    right.set_yscale("log")
    right.set_ylim(bottom=0.8)
    right.set_title("how many neighbours agents have", color=INK)
    right.set_xlabel("neighbours")
    right.set_ylabel("agents")
    for side in ("top", "right"):
        right.spines[side].set_visible(False)
