"""Pictures of a run: how it converged, and what each agent gained by its number of records."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from node.drawing import INK, floats, name_at_the_edge, new_figure, plain_sizes, shown_range, spans_decades, titled
from node.results.details import Details
from node.results.labels import COLOURS, LABELS, marked, metric_name, sign_of
from node.results.results import Results

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def convergence_figure(results: Results, details: Details) -> Figure | None:
    """Draw gap and metric over releases per agent, as an eavesdropper could follow them; None without a log."""
    curve = details.curve
    if curve is None or len(curve.releases) < 2:
        return None
    gap = floats(curve.gap)
    figure, axes = new_figure(2 if gap.size else 1)
    at = floats(curve.releases)
    if gap.size:
        left = axes[0]
        left.plot(at, gap, color=COLOURS["together"], linewidth=2)
        if spans_decades(gap):
            left.set_yscale("log")
        else:
            left.set_ylim(bottom=min(0.0, float(np.nanmin(gap))))
        titled(left, "Relative gap to the optimum", "1 is where all agents start, 0 is the objective's optimum")
        left.set_xlabel("releases per agent")
    right = axes[-1]
    right.plot(at, floats(curve.metric), color=COLOURS["together"], linewidth=2)
    shown = {kind: results.summary(kind) for kind in ("alone", "pooled", "finish")}
    marks = [(summary.mean, LABELS[kind], COLOURS[kind]) for kind, summary in shown.items() if summary is not None]
    for value, _, colour in marks:
        right.axhline(value, color=colour, linewidth=1.2, linestyle=(0, (4, 3)))
    last = curve.metric[-1]
    if last is not None:
        named = [*marks, (last, "released models", COLOURS["together"])]
        name_at_the_edge(right, named, [value for value in curve.metric if value is not None])
    metric = results.metric
    better = "higher" if metric.larger_is_better else "lower"
    titled(right, f"Mean {metric_name(metric.name)} on held-out rows", marked(f"{better} is better", details))
    right.set_xlabel("releases per agent")
    return figure


def gain_figure(results: Results, details: Details) -> Figure | None:
    """Draw each agent's gain over learning alone, by its number of records; None where that gain is not known."""
    agents, scores = details.agents, details.agents.scores
    kinds = [kind for kind in ("together", "finish") if kind in scores]
    if not kinds or "alone" not in scores:
        return None
    records = floats(agents.records)
    figure, axes = new_figure(1)
    axis = axes[0]
    axis.axhline(0, color=INK, linewidth=1)
    gains = {kind: sign_of(results) * (floats(scores[kind]) - floats(scores["alone"])) for kind in kinds}
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
        for quarter in details.quarters:
            own, alone = quarter.means[kind], quarter.means["alone"]
            if own is not None and alone is not None:
                mean = sign_of(results) * (own - alone)
                axis.plot(quarter.records, [mean, mean], color=COLOURS[kind], linewidth=3, solid_capstyle="round")
        marks.append((kind, float(np.mean(gain[good])), float(np.min(gain[good]))))
        beyond = beyond or bool((good & ~inside).any())
    if not marks:
        return None
    if records.max() > 8 * max(records.min(), 1):
        axis.set_xscale("symlog", linthresh=max(1.0, float(records[records > 0].min())))
    plain_sizes(axis, records)
    axis.set_ylim(low - 0.04 * (high - low), high + 0.04 * (high - low))
    axis.set_xlabel("the agent's training records")
    axis.set_ylabel(f"gain in {metric_name(results.metric.name)} over learning alone")
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
    return figure


def _of_the_smallest(kind: str, results: Results) -> str:
    own, alone = results.summary(kind), results.alone
    if own is None or alone is None or own.smallest_quarter is None or alone.smallest_quarter is None:
        return ""
    return f", smallest quarter {sign_of(results) * (own.smallest_quarter - alone.smallest_quarter):+.3f}"
