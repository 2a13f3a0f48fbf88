"""The picture of a run's staleness: convergence and the ages of the models used beside it, and how ages are spread."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from coordinator_free.release import FloatArray
from node.drawing import INK, floats, new_figure, spans_decades, titled
from node.results.details import Details
from node.results.labels import COLOURS, marked, metric_name
from node.results.results import Results

if TYPE_CHECKING:
    from matplotlib.figure import Figure

AGE_INK = "#e07b39"
_BARS = 40
"""Bars of the histogram, at most."""
_SHOWN = 0.995
"""The part of the ages that the bars but the last show one by one."""


def staleness_figure(results: Results, details: Details) -> Figure | None:
    """Draw gap (or metric) over releases per agent with the mean age at the time, and the histogram of all ages.

    None where no model of a neighbour was used.
    """
    found = results.staleness
    if found is None:
        return None
    curve = details.curve
    figure, axes = new_figure(1 if curve is None else 2)
    if curve is not None:
        left = axes[0]
        at, gap = floats(curve.releases), floats(curve.gap)
        metric = results.metric
        name = "relative gap" if gap.size else f"mean {metric_name(metric.name)}"
        values = gap if gap.size else floats(curve.metric)
        left.plot(at, values, color=COLOURS["together"], linewidth=2)
        if gap.size and spans_decades(gap):
            left.set_yscale("log")
        left.set_ylabel(name, color=COLOURS["together"])
        left.set_xlabel("releases per agent")
        right = left.twinx()
        age = floats(curve.age)
        right.plot(at, age, color=AGE_INK, linewidth=1.6)
        # At least one release high, or a run in which nothing was old would look like a troubled one.
        right.set_ylim(0, 1.05 * max(1.0, float(np.max(age, where=np.isfinite(age), initial=0.0))))
        right.set_ylabel("mean age, in releases", color=AGE_INK)
        right.tick_params(colors=INK, labelsize=9)
        for side in ("top", "left", "bottom", "right"):
            right.spines[side].set_visible(False)
        better = "0 is the optimum" if gap.size else f"{'higher' if metric.larger_is_better else 'lower'} is better"
        below = f"blue: {name}, {better}; orange: how old what it used was"
        titled(left, "The run and the age of what was used", below if gap.size else marked(below, details))
    axis = axes[-1]
    labels, shares = bars(np.array(found.histogram, dtype=np.int64))
    axis.bar(np.arange(len(labels)), shares, color=AGE_INK, width=0.85)
    step = max(1, len(labels) // 10)
    shown = sorted({*range(0, len(labels) - step // 2 - 1, step), len(labels) - 1})
    axis.set_xticks(shown, [labels[place] for place in shown])
    axis.grid(visible=False, axis="x")
    axis.set_xlabel("age of a neighbour's model, in its releases")
    axis.set_ylabel("share of the models used", color=INK)
    below = f"mean {found.mean:.2f}, median {found.median}, 95% at most {found.p95}, oldest {found.max}"
    titled(axis, "How old the neighbours' models were", below)
    return figure


def bars(histogram: npt.NDArray[np.int64]) -> tuple[list[str], FloatArray]:
    """Labels and shares of the bars for (age, count) rows: one an age or a range of ages, the last for all older."""
    ages, counts = histogram.T
    most = int(ages[np.searchsorted(np.cumsum(counts), _SHOWN * counts.sum())])
    width = -(-(most + 1) // _BARS)
    last = most // width
    places = np.minimum(ages // width, last + 1)
    shares = np.bincount(places, weights=counts) / counts.sum()
    labels = [
        f"{place * width}" if width == 1 else f"{place * width}-{(place + 1) * width - 1}" for place in range(last + 1)
    ]
    if len(shares) > last + 1:
        labels.append(f"{(last + 1) * width}+")
    return labels, shares
